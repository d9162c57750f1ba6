"""MariaDB's GTIDs in the vendor's form.

MariaDB writes ``domain-server-sequence`` and counts the sequence per domain, whichever server wrote; the vendor's documents
show MySQL's ``uuid:n``. The rule here: the uuid is the version 5 UUID of ``domain-server`` in :data:`NAMESPACE`, n is the
sequence. The same transaction always has the same GTID, two servers never share a uuid, and for one server that wrote the
whole binlog n is contiguous from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID, uuid5

NAMESPACE = UUID("7d1f2f6e-52a3-5b0e-9c39-0d5c6f1a4b10")
"""Of this mapping alone; a constant so that GTIDs are the same in every run."""


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """A MariaDB GTID by its three numbers."""

    domain: int
    server_id: int
    sequence: int

    @property
    def source(self) -> str:
        """The uuid that stands for domain and server."""
        return _uuid(self.domain, self.server_id)

    def __str__(self) -> str:
        return f"{self.source}:{self.sequence}"


@lru_cache(maxsize=1024)
def _uuid(domain: int, server_id: int) -> str:
    return str(uuid5(NAMESPACE, f"{domain}-{server_id}"))


class GtidSet:
    """A growing set of GTIDs, written as MySQL writes sets: ``uuid:1-13,uuid:1-4:7``."""

    def __init__(self) -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def of_text(cls, text: str) -> GtidSet:
        """The set that is written so. Raises ValueError."""
        made = cls()
        for part in filter(None, text.split(",")):
            source, *intervals = part.split(":")
            bounds = (interval.partition("-") for interval in intervals)
            made._intervals[source] = [(int(first), int(last or first)) for first, _, last in bounds]
        return made

    def add(self, gtid: Gtid) -> None:
        """Put one in. Sequences mostly grow, so the last interval is looked at first."""
        intervals = self._intervals.setdefault(gtid.source, [])
        number = gtid.sequence
        if intervals and intervals[-1][1] + 1 == number:
            intervals[-1] = (intervals[-1][0], number)
            return
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*intervals, (number, number)]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self._intervals[gtid.source] = merged

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(str(first) if first == last else f"{first}-{last}" for first, last in intervals)])
            for source, intervals in sorted(self._intervals.items())
        )
