"""The failures of parts of a command's work, and the exit code that they make together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UNEXPECTED = 3
"""The exit code for an error that nobody expected: that of a check that failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a run, a check or a table: its sentence and the exit code for it."""

    sentence: str
    exit_code: int


def exit_code_of(failures: Iterable[Failure], *, failed_checks: bool = False) -> int:
    """Return the exit code of the first error for people; else 3 where anything failed."""
    codes = [one.exit_code for one in failures]
    known = next((code for code in codes if code != UNEXPECTED), None)
    return known if known is not None else UNEXPECTED if codes or failed_checks else 0


def sentences_of(failures: Iterable[Failure]) -> tuple[str, ...]:
    """Return the sentences of failures, each once: many tables meet one trouble of the lake."""
    return tuple(dict.fromkeys(one.sentence for one in failures))
