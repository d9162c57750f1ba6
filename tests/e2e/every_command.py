"""The commands that a user types for a subscription: each in a process of its own, or all in one process.

As a program it calls every command that only reads, for many subscriptions, and writes a line of JSON for each to its standard
output:

    python -m tests.e2e.every_command FOLDER CONFIG...

Each configuration names one subscription. FOLDER is for files that commands write.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from tests.made_up_format.place import SITE_PACKAGES

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline

ROOT = Path(__file__).resolve().parents[2]
TRACEBACK = "Traceback"
_FAULT = "a fault of dts-assets"
_WIDE = {"COLUMNS": "200"}
_SHOWN = 5000
"""The characters that are kept of what a command said."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended: what was typed, its exit code, what it said, and the exception that nothing caught."""

    arguments: tuple[str, ...]
    exit_code: int
    output: str
    crash: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it ended as done, or because a check failed, and neither showed a stack nor called itself wrong."""
        said = TRACEBACK in self.output or _FAULT in self.output
        return self.exit_code in (0, 3) and not self.crash and not said

    def __str__(self) -> str:
        return f"dts-assets {' '.join(self.arguments)}: exit code {self.exit_code} {self.crash}\n{self.output[-1500:]}"


def typed(*arguments: str, folder: Path) -> Ended:
    """Run a command in a process of its own, with nothing of this process's configuration."""
    done = _child("dts_assets", arguments, folder)
    return Ended(arguments, done.returncode, done.stdout + done.stderr)


def each_command(configs: Iterable[Path], folder: Path) -> dict[str, list[Ended]]:
    """Call the commands that only read, all in one child process, and return them by subscription."""
    found: dict[str, list[Ended]] = {}
    for name, ended in _lines(configs, folder):
        found.setdefault(name, []).append(ended)
    return found


def commands_of(pipeline: Pipeline, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the commands that read a subscription, with arguments that its lake has something for."""
    name = pipeline.name
    yield "size", name
    yield "keys", name
    yield "rules", "check", name
    yield "maintain", name, "--dry-run"
    yield "statements", name, "--out", str(folder / f"{name}.sql")
    for key in sorted({row.window.key for row in pipeline.ledger.cuts()}):
        yield "as-of", name, "--window", key, "--out", str(folder / f"{name} {key}")
    for key in sorted({row.window.key for row in pipeline.ledger.windows()}):
        yield "inspect", "window", key, "--subscription", name
    for arguments in _inspected(pipeline):
        yield "inspect", *arguments, "--subscription", name


def _inspected(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    """Yield the first message, entries of each kind and the first transaction, as arguments of ``inspect``.

    All entries of the tables that have every type are among them. Values are shown of entries, which are decoded for it.
    """
    messages = pipeline.lake.scan(pipeline.path("raw_envelopes"), columns=("kafka_partition", "offset"))
    assert messages is not None
    first = min(messages.to_pylist(), key=lambda row: (row["kafka_partition"], row["offset"]))
    yield "message", str(first["kafka_partition"]), str(first["offset"])
    columns = ("kafka_partition", "last_offset", "entry_number", "message_type", "table", "gtid")
    found = pipeline.lake.scan(pipeline.path("entries"), columns=columns)
    entries = found.to_pylist() if found is not None else []
    seen: set[tuple[str, bool]] = set()
    for row in sorted(entries, key=lambda row: (row["kafka_partition"], row["last_offset"], row["entry_number"])):
        kind = (row["message_type"], row["table"] == "every")
        place = tuple(str(row[name]) for name in ("kafka_partition", "last_offset", "entry_number"))
        if not seen:
            yield "entry", *place
        if kind not in seen or kind[1]:
            yield "entry", *place, "--values"
        seen.add(kind)
    gtids = sorted(row["gtid"] for row in entries if row["gtid"])
    if gtids:
        yield "transaction", gtids[0]


def _called(arguments: Sequence[str], config: Path) -> Ended:
    """Call a command in this process."""
    from dts_assets.cli.main import cli

    done = CliRunner().invoke(cli, [*arguments, "--config", str(config)], env=_WIDE)
    crash = "" if done.exception is None or isinstance(done.exception, SystemExit) else _crash(done.exception)
    if TRACEBACK in done.output:
        crash = crash or "a stack in its output"
    return Ended(tuple(arguments), done.exit_code, done.output[-_SHOWN:], crash)


def _crash(error: BaseException) -> str:
    """Return the class of an exception, its text, and the innermost place of this project in its stack."""
    own = [one for one in traceback.extract_tb(error.__traceback__) if "dts_assets" in Path(one.filename).parts]
    at = f"{Path(own[-1].filename).relative_to(ROOT)}:{own[-1].lineno}" if own else "a place outside the project"
    return f"{type(error).__name__} at {at}: {str(error)[:200]}"


def _child(module: str, arguments: Iterable[str], folder: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DTS_ASSETS_CONFIG")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**own, **_WIDE, "PYTHONPATH": os.pathsep.join([str(ROOT), str(SITE_PACKAGES)])},
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip


def _lines(configs: Iterable[Path], folder: Path) -> Iterator[tuple[str, Ended]]:
    done = _child("tests.e2e.every_command", (str(folder), *map(str, configs)), folder)
    assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        name, fields = json.loads(line)
        yield name, Ended(tuple(fields.pop("arguments")), **fields)


def _main(folder: str, *configs: str) -> None:
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for Java, which writes past the output that is captured
    for config in map(Path, configs):
        for name, ended in _each(config, Path(folder)):
            out.write(json.dumps((name, asdict(ended))) + "\n")
            out.flush()


def _each(config: Path, folder: Path) -> Iterator[tuple[str, Ended]]:
    from dts_assets.flows.pipeline import open_pipeline
    from dts_assets.settings import load_settings

    settings = load_settings(config)
    (name,) = settings.subscriptions
    for command in commands_of(open_pipeline(settings, name), folder):
        yield name, _called(command, config)


if __name__ == "__main__":
    _main(*sys.argv[1:])
