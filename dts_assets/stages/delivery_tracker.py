"""Delivery in one Kafka partition and window, told batch by batch while its entries are decoded.

Everything is compared as columns: of a clean stream no row is looked at one by one, and of another only those where something
goes back, begins again or is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.delivery import MOST_NAMED, CellDelivery, Hole, SeqIds, ShardSequence
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages.entry_columns import EntryColumns, Numbers, rows_by_shard
from dts_assets.stages.transaction_tracker import TransactionTracker

_T = TypeVar("_T")

MOST_SHARDS = 256
"""Shards whose facts are kept; entries and messages of others are counted."""


@dataclass(slots=True)
class Delivery:
    """The facts of one cell. Feed it every batch in offset order, then ask for :meth:`result` and :meth:`problems`.

    ``within`` is the cell's range, so that holes at its ends count as well; None: from its first message to its last. The fields
    are all that it knows.
    """

    within: OffsetRange | None = None
    offsets: _Offsets = field(default_factory=lambda: _Offsets())
    sequences: dict[str, _Sequence] = field(default_factory=dict)
    transactions: dict[str, TransactionTracker] = field(default_factory=dict)
    seq_ids: SeqIds | None = None
    more_shards: int = 0
    numbered: int = 0
    unnumbered: int = 0

    def see_messages(self, offsets: pa.Int64Array, fragments: pa.RecordBatch) -> None:
        """Take note of the messages at ``offsets`` and their FRAGMENTS, row for row; unusable messages count as well."""
        if not len(offsets):
            return
        numbers, where = fragments["sequence"], offsets.to_numpy()
        self.offsets.see(where, start=None if self.within is None else self.within.start)
        self.unnumbered += numbers.null_count
        self.numbered += len(numbers) - numbers.null_count
        if numbers.null_count == len(numbers):
            return
        sequence = pc.fill_null(numbers, -1).to_numpy()
        for shard, rows in rows_by_shard(fragments["shard"], among=sequence >= 0):
            if (known := self._of_shard(self.sequences, shard, _Sequence, count=len(rows))) is not None:
                known.see(*((sequence, where) if len(rows) == len(sequence) else (sequence[rows], where[rows])))

    def see_entries(self, entries: EntryColumns) -> None:
        """Take note of the entries of a decoded batch."""
        self._see_seq_ids(entries.seq_ids)
        fake = {entries.shard(one.index) for one in entries.checkpoints if one.fake_gtid}
        for shard, mine in entries.of_shards():
            if (known := self._of_shard(self.transactions, shard, TransactionTracker, count=len(mine))) is not None:
                known.fake |= shard in fake
                known.see(mine)

    def until(self, end: int) -> None:
        """Set the end of the range: an open window has grown since it was begun."""
        if self.within is not None:
            self.within = OffsetRange(self.within.start, end)

    def result(self) -> CellDelivery:
        """Return the facts so far."""
        behind = 0
        if self.within is not None:
            seen_to = self.within.start if self.offsets.last is None else self.offsets.last + 1
            behind = max(0, self.within.end - seen_to)
        return CellDelivery(
            self.offsets.first,
            self.offsets.last,
            self.numbered,
            self.unnumbered,
            self.offsets.skipped + behind,
            tuple(self.offsets.holes),
            tuple(known.frozen() for _, known in sorted(self.sequences.items())),
            tuple(known.result() for _, known in sorted(self.transactions.items())),
            self.more_shards,
            self.seq_ids,
        )

    def problems(self) -> Iterator[Problem]:
        """Yield the problems inside the cell, for its row in the ledger."""
        for _, known in sorted(self.sequences.items()):
            yield from known.problems()
        for _, transactions in sorted(self.transactions.items()):
            yield from transactions.problems()

    def _of_shard(self, held: dict[str, _T], shard: str, begin: Callable[[str], _T], *, count: int) -> _T | None:
        """Return the facts of a shard, or None where its items are only counted."""
        if shard not in held and len(held) >= MOST_SHARDS:
            self.more_shards += count
            return None
        return held.get(shard) or held.setdefault(shard, begin(shard))

    def _see_seq_ids(self, numbers: Numbers) -> None:
        numbers = numbers[numbers > 0]
        if not len(numbers):
            return
        smallest = int(numbers.min())
        known = self.seq_ids or SeqIds(smallest, 0, 0)
        highest = np.maximum.accumulate(np.concatenate(([known.greatest], numbers)))
        repeats = known.repeats + int((numbers <= highest[:-1]).sum())
        self.seq_ids = SeqIds(min(known.smallest, smallest), int(highest[-1]), repeats)


@dataclass(slots=True)
class _Offsets:
    """The offsets that messages have, and the holes between them."""

    first: int | None = None
    last: int | None = None
    skipped: int = 0
    holes: list[Hole] = field(default_factory=list)

    def see(self, where: Numbers, *, start: int | None) -> None:
        before = int(where[0] if start is None else start) - 1 if self.last is None else self.last
        if int(where[-1]) - before != len(where):
            steps = np.diff(where, prepend=before)
            self.skipped += int(steps.sum()) - len(where)
            for row in np.flatnonzero(steps > 1)[: MOST_NAMED - len(self.holes)].tolist():
                at = int(where[row])
                self.holes.append(Hole(at - int(steps[row]) + 1, at - 1, at))
        self.first = int(where[0]) if self.first is None else self.first
        self.last = int(where[-1])


@dataclass(slots=True)
class _Sequence:
    """The ``ps`` headers of one shard. The number 1 begins a numbering anew, as the vendor's demo reads it."""

    shard: str
    first: int = -1
    first_offset: int = -1
    last: int = -1
    last_offset: int = -1
    greatest: int = -1
    restarts: int = 0
    repeats: int = 0
    count: int = 0
    named: list[Hole] = field(default_factory=list)

    def see(self, numbers: Numbers, where: Numbers) -> None:
        if self.first < 0:
            self.first, self.first_offset = int(numbers[0]), int(where[0])
            self.last = self.greatest = self.first - 1
        ones = np.flatnonzero(numbers == 1)
        again = frozenset(row for row in ones.tolist() if row or self.last > 0)
        starts = sorted({0, *again})
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            if start in again:
                self.restarts += 1
                self.last = 0
            self._go_on(numbers[start:end], where[start:end])

    def _go_on(self, numbers: Numbers, where: Numbers) -> None:
        highest = np.maximum.accumulate(np.concatenate(([self.last], numbers)))
        steps = numbers - highest[:-1]
        self.repeats += int((steps <= 0).sum())
        for row in np.flatnonzero(steps > 1).tolist():
            first = int(highest[row]) + 1
            if self.restarts and int(numbers[row]) == self.greatest + 1:
                continue  # what began with 1 was a repeat after all: the old numbering goes on where it was
            self.count += 1
            if len(self.named) < MOST_NAMED:
                self.named.append(Hole(first, int(numbers[row]) - 1, int(where[row])))
        if highest[-1] > self.last:
            self.last_offset = int(where[int(np.argmax(numbers == highest[-1]))])
        self.last, self.greatest = int(highest[-1]), max(self.greatest, int(highest[-1]))

    def frozen(self) -> ShardSequence:
        return ShardSequence(
            self.shard, self.first, self.first_offset, self.last, self.last_offset, self.greatest,
            self.restarts, self.repeats, self.count, tuple(self.named),
        )  # fmt: skip

    def problems(self) -> Iterator[Problem]:
        of = f" of shard {self.shard}" if self.shard else ""
        for hole in self.named:
            missing = hole.last - hole.first + 1
            which = f"{hole.first}" if missing == 1 else f"{hole.first} to {hole.last}"
            detail = f"{missing} messages{of} are missing before it by ps: {which}"
            yield Problem(ProblemCode.GAP, hole.offset, hole.offset, detail)
        if self.count > len(self.named):
            yield Problem(ProblemCode.GAP, None, None, f"{self.count - len(self.named)} more holes{of} by ps")
        if self.restarts:
            detail = f"the numbers{of} in ps began again {self.restarts} times"
            yield Problem(ProblemCode.SEQUENCE, self.first_offset, self.last_offset, detail)
