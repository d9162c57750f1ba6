"""Runs: stretches of entries of a Kafka partition and window in which source positions only grow.

They are all that planning needs in order to tell a re-read of a binlog from another binlog, and a window that may hold
changes which were delivered before from one that cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.positions import SourcePosition
from dts_assets.model.witnesses import Witness

LSN = "LSN"
"""Stands for the GTID in a run whose positions are places in PostgreSQL's write-ahead log."""


@dataclass(frozen=True, slots=True, order=True)
class ServerRange:
    """The least and greatest GTID number of one server.

    ``server`` is a GTID without its number (``uuid``, ``domain-server``). ``begun`` is the position of the BEGIN of the greatest
    one, None without a BEGIN. ``witnesses`` are places of some transactions that begin in the run, ascending.
    ``in_last`` is the greatest number at the run's last offset, -1 if the entry set there has none of the server. Both are None
    in rows of earlier versions.
    """

    server: str
    first: int
    last: int
    begun: SourcePosition | None = None
    witnesses: tuple[Witness, ...] | None = None
    in_last: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of entries of one shard in a cell, without a break in their coordinates.

    ``first`` and ``last`` are the least and the greatest position (lineage 0: the ledger's rows are made before lineages are
    known), ``last_time`` is the latest event time. ``server_id`` and ``gtid`` (None without GTIDs) are those that the run
    begins with; ``begins`` says that it does so with a BEGIN. With :data:`LSN` in the place of the GTID transactions come in the
    order of their commits, and may have begun before others ended. ``broken`` says that its coordinates do not fit the entries
    before it, none of which one binlog can have: new GTIDs at positions that were passed, GTIDs seen before at positions that
    were not, or the last transaction begun at another position. ``repeats`` counts entries at positions that the window had
    held before; where messages carry ids, only neighbours that are surely copies.
    """

    shard: str
    first_offset: int
    last_offset: int
    first: SourcePosition
    last: SourcePosition
    first_time: datetime
    last_time: datetime
    server_id: int
    gtid: str | None
    begins: bool
    servers: tuple[ServerRange, ...]
    broken: bool
    repeats: int

    @property
    def is_by_lsn(self) -> bool:
        """True if positions are places in PostgreSQL's write-ahead log."""
        return self.gtid == LSN


@dataclass(frozen=True, slots=True)
class SeenStatement:
    """A DDL entry: its offset, its position at the source, and its GTID.

    The copies of a statement that was sent into every Kafka partition have equal positions, once the GTID has told the lineage.
    """

    shard: str
    offset: int
    position: SourcePosition
    gtid: str | None
    time: datetime


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """The greatest CHECKPOINT of a stretch in which the positions of CHECKPOINTs only grow.

    ``offset`` is that of its entry set. ``fake_gtid`` says that GTIDs are the task's own invention, so that the same transaction
    may come under another GTID.
    """

    shard: str
    offset: int
    position: SourcePosition
    gtid_set: str | None
    fake_gtid: bool
