"""The last lines of Dagster's own commands on a screen: a sentence, and no stack below it.

`dagster asset materialize` and its like run a job in their own process and log to the terminal. A failure that has a sentence of
ours is shown with that sentence alone; its stack is in the run's log, which the UI shows. A partition key that there is not is
refused by Dagster before anything of ours is called, by an error that nobody catches.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import TracebackType

import dagster as dg
from dagster_shared.check import CheckError

from dts_assets.defs.failures import error_sentence, is_explained

_COMMANDS = ("asset", "job")
_LOGGER = "dagster"
_KEYS = (
    "Keys look like p00|2026-01-05-03:00 for raw_envelopes and entries and like 2026-01-05-03:00 for tables, in UTC; a range is "
    "two keys with ... between them."
)


def install_endings(arguments: list[str]) -> None:
    """Let a `dagster asset` or `dagster job` command end with a sentence where there is one.

    `arguments` are those of the process, with the name of its program. Every other process is left as it is.
    """
    if Path(arguments[0]).name == "dagster" and arguments[1:2] and arguments[1] in _COMMANDS:
        sys.excepthook = _say_it
        logging.setLoggerClass(_Logger)  # Dagster makes the logger of the terminal from this class, anew for each run


class _Logger(logging.Logger):
    """A logger. The one of the terminal shows no stack of a failure that has a sentence."""

    def __init__(self, name: str, level: int | str = logging.NOTSET) -> None:
        super().__init__(name, level)
        if name == _LOGGER:
            self.addFilter(without_stack)


def without_stack(record: logging.LogRecord) -> bool:
    """Put the sentence of an explained failure in the place of its stack; every record is kept."""
    event = (getattr(record, "dagster_meta", None) or {}).get("dagster_event")
    error = getattr(getattr(event, "event_specific_data", None), "error", None)
    if is_explained(error):
        record.msg = f"{record.getMessage().partition(chr(10))[0]}\n\n{error_sentence(error)}\n"
        record.args = None
    return True


def _say_it(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
    if isinstance(error, dg.DagsterInvalidSubsetError | dg.DagsterUnknownPartitionError | CheckError):
        said = " ".join(str(error).split())
        way_out = f"{'' if said.endswith('.') else '.'} {_KEYS}" if "partition" in said else ""
        sys.stderr.write(f"Error: {said}{way_out}\n")
    else:
        sys.__excepthook__(kind, error, stack)
