"""Turns: the right to write the marks of a part of a subscription, one writer's at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TABLES_TURN = "tables"
"""The part that a run of the tables works on. The parts of the ingest are Kafka partitions: ``p00``."""


def _nothing() -> None:
    """Do nothing: a turn without a lease is not lost by time."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A writer's turn: its name by part, ``{"p00": "7-1f0c", "p01": "7-1f0c"}``; no name is ever given twice.

    ``still`` raises an error if the writer knows that its turn is over.
    """

    names: Mapping[str, str]
    still: Callable[[], None] = field(default=_nothing, compare=False)


NOBODY = Turn({})
"""The turn of a writer that nobody can disturb; nothing is asserted."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as all others can tell it.

    ``boot`` names the machine's start and ``namespace`` that of process ids. ``started`` is in the machine's own ticks: an id is
    given again, the pair is not.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host}|{self.boot}|{self.namespace}|{self.pid}|{self.started}"

    @property
    def shown(self) -> str:
        """The process in words for a person."""
        return f"process {self.pid} on {self.host}"

    @classmethod
    def of_text(cls, text: str) -> Process | None:
        """Return the process of a text in a lease; None if it is no such text."""
        parts = text.split("|")
        if len(parts) != 5 or not parts[3].isdecimal():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])
