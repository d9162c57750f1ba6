"""Lineages: unbroken runs of one server's binlog, and the rule by which entries belong to one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.positions import SourcePosition


@dataclass(frozen=True, slots=True)
class Break:
    """The place where a lineage begins.

    With GTIDs an entry belongs to the lineage if its number is greater than ``seen`` says of its server (a server not named: any
    number). Without GTIDs it does if its event time is at or after ``time``. ``offset`` is where this Kafka partition saw the
    lineage begin (None: it did not): entries before it never belong to the lineage, and without GTIDs all later entries do.
    """

    lineage: int
    seen: tuple[tuple[str, int], ...]
    time: datetime
    offset: int | None
    by_gtid: bool


@dataclass(frozen=True, slots=True)
class LineageRule:
    """The rule that gives entries of a Kafka partition and shard their lineage.

    The lineage is ``base``, or the last of ``breaks`` that holds for an entry.
    """

    base: int
    breaks: tuple[Break, ...] = ()

    def lineage(self, *, offset: int, server: str | None, number: int, time: datetime) -> int:
        """Return the lineage of one entry; ``server`` and ``number`` are its GTID's, None without one."""
        found = self.base
        for one in self.breaks:
            if _belongs(one, offset=offset, server=server, number=number, time=time):
                found = one.lineage
        return found


@dataclass(frozen=True, slots=True)
class Lineage:
    """A lineage: the server that its first entry names, and the least position of its first run."""

    lineage: int
    shard: str
    server: str
    first_event_time: datetime
    first_position: SourcePosition


def _belongs(one: Break, *, offset: int, server: str | None, number: int, time: datetime) -> bool:
    if one.offset is not None and offset < one.offset:
        return False
    if one.by_gtid and server is not None:
        return number > dict(one.seen).get(server, -1)
    return one.offset is not None or time >= one.time
