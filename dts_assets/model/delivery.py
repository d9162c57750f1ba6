"""The facts about the delivery of one cell (a Kafka partition and window), from which completeness is proven.

Each cell is read alone, so that any cell can be read again; planning judges the changes that may be missing between two cells.
The facts are small and bounded whatever arrives. Positions have lineage 0: lineages are decided later, over all cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dts_assets.model.gtids import GtidSet
from dts_assets.model.positions import SourcePosition

MOST_NAMED = 20
"""Items of one kind that are named one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Numbers that no message had: ``first`` to ``last``, noticed at the message with ``offset``."""

    first: int
    last: int
    offset: int


@dataclass(frozen=True, slots=True)
class ShardSequence:
    """The ``ps`` headers of one shard: the first and the last new number, with their offsets.

    ``greatest`` is the greatest number of all; it differs from ``last`` where numbering began again (``restarts``).
    ``repeats`` counts numbers that had come before, ``holes`` counts the holes; the first holes are in ``named``.
    """

    shard: str
    first: int
    first_offset: int
    last: int
    last_offset: int
    greatest: int
    restarts: int
    repeats: int
    holes: int
    named: tuple[Hole, ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction and the first of its entries that a cell has.

    ``position`` and ``offset`` are those of that entry; ``begun`` is False if the transaction began before the cell.
    """

    gtid: str | None
    position: SourcePosition
    server_id: int
    offset: int
    begun: bool = True


@dataclass(frozen=True, slots=True)
class ShardTransactions:
    """The transactions of one shard. ``begun`` and ``ended`` count BEGIN and COMMIT entries, ``changes`` DML entries.

    ``first`` is the first transaction that the cell saw; a DDL statement is a transaction of its own. ``open`` are transactions
    that neither ended nor were passed by others: mostly one, several if a re-read was still under way; ``more_open`` counts
    those beyond :data:`MOST_NAMED`. ``last_position`` is the greatest position, ``last_offset`` the offset of the last entry.
    ``gtids`` is the set of transactions that ended; None if it is too scattered to be kept. ``unreadable_gtids`` counts texts
    that are no GTID, or a GTID of another dialect. ``fake_gtids`` says that a CHECKPOINT called the GTIDs an invention
    of the task.
    """

    shard: str
    begun: int
    ended: int
    changes: int
    first: Transaction | None
    open: tuple[Transaction, ...]
    more_open: int
    last_position: SourcePosition | None
    last_offset: int | None
    gtids: str | None
    unreadable_gtids: int
    fake_gtids: bool

    @property
    def marked(self) -> bool:
        """True if a BEGIN or a COMMIT was seen."""
        return self.begun > 0 or self.ended > 0

    @property
    def gtid_set(self) -> GtidSet:
        """The transactions that ended here, as far as they are known."""
        return _parsed(self.gtids or "")


@dataclass(frozen=True, slots=True)
class SeqIds:
    """The vendor's ``seqId``: the smallest and greatest, and the number of entries whose ``seqId`` was not new."""

    smallest: int
    greatest: int
    repeats: int


@dataclass(frozen=True, slots=True)
class CellDelivery:
    """The evidence that the messages and entries of a cell give of their own completeness.

    ``numbered`` and ``unnumbered`` count messages with and without the ``ps`` header; ``skipped_offsets`` counts offsets
    between them that no message has. ``more_shards`` counts entries of further shards, of which nothing else is kept.
    """

    first_message: int | None = None
    last_message: int | None = None
    numbered: int = 0
    unnumbered: int = 0
    skipped_offsets: int = 0
    offset_holes: tuple[Hole, ...] = ()
    sequences: tuple[ShardSequence, ...] = ()
    transactions: tuple[ShardTransactions, ...] = ()
    more_shards: int = 0
    seq_ids: SeqIds | None = None

    def sequence(self, shard: str) -> ShardSequence | None:
        """Return the sequence numbers of one shard; None if none were seen."""
        return next((one for one in self.sequences if one.shard == shard), None)

    def of_shard(self, shard: str) -> ShardTransactions | None:
        """Return the transactions of one shard; None if no entry of the shard was seen."""
        return next((one for one in self.transactions if one.shard == shard), None)


@lru_cache(maxsize=8_192)
def _parsed(text: str) -> GtidSet:
    """Return the parsed set of GTIDs.

    A cell's set is asked for several times while its window is judged, and a scattered set takes milliseconds to read. The next
    look asks again: a day of 64 Kafka partitions has some thousand sets.
    """
    return GtidSet.parse(text)


NOTHING_DELIVERED = CellDelivery()
"""A cell without messages."""
