"""Fragments to entry sets: the segments of a split set joined again, in order, whatever happened on the way.

The vendor cuts the bytes of a large event into ``total`` segments and sends them in order to one Kafka partition; segments of
different shards may interleave (TDSQL). Delivery is at least once, so a set may begin again in the middle of itself. A set
belongs to the range that holds its last fragment: a range that begins inside a set asks for the head, and one that ends inside
a set hands nothing on; the next range will ask.

Whole messages, nearly all of them, are handled as columns. Only fragments are looked at one by one: each stands for a message
near Kafka's size limit, so a few microseconds each disappear beside the copying of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason

_Rows: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One segment of a split entry set."""

    offset: int
    total: int
    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """What was found before a range for a set that it only holds the tail of.

    ``fragments`` are indexes 0 to ``below`` - 1 if the head was found, else empty; ``waiting`` says that earlier messages are
    not stored yet, so that the head may still come.
    """

    fragments: tuple[Fragment, ...]
    waiting: bool


HeadReader: TypeAlias = Callable[[str, int, int, int], Head]
"""``(shard, before offset, below index, total)`` to the head of a set."""


@dataclass(frozen=True, slots=True)
class BrokenSet:
    """Fragments that can never be joined: the offsets they span and why."""

    first_offset: int
    last_offset: int
    reason: Reason
    detail: str
    data: bytes
    fragments: int


@dataclass(frozen=True, slots=True)
class WaitingSet:
    """A set whose head lies in messages that are not stored yet."""

    first_offset: int
    last_offset: int


@dataclass(slots=True)
class Tally:
    """What became of the messages of a range; the terms of the ledger's equations."""

    messages: int = 0
    whole: int = 0
    fragments: int = 0
    null_messages: int = 0
    quarantined_messages: int = 0
    carried_in: int = 0
    joined: int = 0
    superseded: int = 0
    waiting: int = 0
    quarantined_fragments: int = 0
    carried_out: int = 0


@dataclass(slots=True)
class _Open:
    """A set being collected; ``first`` is the index of its first fragment seen in this range, ``row`` where its last one
    stands in the batch (-1: in an earlier batch)."""

    total: int
    first: int
    parts: list[Fragment] = field(default_factory=list)
    row: int = -1

    @property
    def next(self) -> int:
        return self.first + len(self.parts)


class Reassembler:
    """Joins the fragments of one ordered offset range. Feed it batches, then call :meth:`finish` once.

    ``nothing_follows`` says that the source can never give another message, so that a set left open is broken, not carried.
    """

    def __init__(self, read_head: HeadReader, *, nothing_follows: bool = False) -> None:
        self.tally = Tally()
        self.broken: list[BrokenSet] = []
        self.waiting: list[WaitingSet] = []
        self._read_head = read_head
        self._nothing_follows = nothing_follows
        self._open: dict[str, _Open] = {}
        self._spoilt: dict[str, Reason] = {}

    def feed(self, offsets: pa.Int64Array, fragments: pa.RecordBatch) -> pa.RecordBatch:
        """The sets that end in this batch: ``first_offset``, ``last_offset``, ``data``, by last offset.

        ``fragments`` are the FRAGMENTS of the messages at ``offsets``, row for row. A message with a reason is only counted:
        the caller puts it into quarantine.
        """
        total = fragments["total"].fill_null(0).to_numpy()
        usable = np.asarray(fragments["reason"].is_null()) & ~np.asarray(fragments["is_null"])
        whole = usable & (total == 1)
        split = np.flatnonzero(usable & (total > 1))
        self._count(fragments, whole, split)
        mine = pa.array(np.flatnonzero(whole))
        whole_offsets = offsets.take(mine)
        columns = [whole_offsets, whole_offsets, fragments["data"].take(mine)]
        barriers = _rows_by_shard(fragments["shard"], np.flatnonzero(whole)) if len(split) or self._open else {}
        joined = [done for row in split if (done := self._add(int(row), offsets, fragments, barriers)) is not None]
        for shard, rows in barriers.items():
            self._drop_before(shard, rows, fragments.num_rows)
        for open_set in self._open.values():
            open_set.row = -1
        if joined:
            extra = [pa.array([row[0] for row in joined], pa.int64()), pa.array([row[1] for row in joined], pa.int64()),
                     pa.array([row[2] for row in joined], pa.binary())]  # fmt: skip
            columns = [pa.concat_arrays([one, other]) for one, other in zip(columns, extra, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, names=["first_offset", "last_offset", "data"])
        return batch.take(pc.sort_indices(batch["last_offset"])) if joined else batch

    def finish(self) -> None:
        """Settle what is still open at the end of the range."""
        for shard, open_set in self._open.items():
            if self._nothing_follows:
                self._break(shard, open_set, Reason.MISSING_FRAGMENT, "the capture ends inside it")
            else:
                self.tally.carried_in += open_set.first
                self.tally.carried_out += open_set.next
        self._open.clear()

    def _count(self, fragments: pa.RecordBatch, whole: _Rows, split: _Rows) -> None:
        nulls = pc.sum(fragments["is_null"]).as_py() or 0
        rejected = fragments.num_rows - fragments["reason"].null_count
        self.tally.messages += fragments.num_rows
        self.tally.whole += int(whole.sum())
        self.tally.fragments += len(split)
        self.tally.null_messages += nulls
        self.tally.quarantined_messages += rejected

    def _drop_before(self, shard: str, whole_rows: _Rows, row: int) -> None:
        """A whole message ends an unfinished set of its shard, exactly as an index 0 does: the producer began again."""
        open_set = self._open.get(shard)
        since = -1 if open_set is None else open_set.row
        if int(np.searchsorted(whole_rows, row)) > int(np.searchsorted(whole_rows, since, side="right")):
            if open_set is not None:
                self.tally.superseded += len(open_set.parts)
                del self._open[shard]
            self._spoilt.pop(shard, None)

    def _add(
        self, row: int, offsets: pa.Int64Array, batch: pa.RecordBatch, barriers: Mapping[str, _Rows]
    ) -> tuple[int, int, bytes] | None:
        shard = batch["shard"][row].as_py() or ""
        fragment = Fragment(
            offsets[row].as_py(), batch["total"][row].as_py(), batch["index"][row].as_py(), batch["data"][row].as_py()
        )
        if shard in barriers:
            self._drop_before(shard, barriers[shard], row)
        open_set = self._open.get(shard)
        if fragment.index == 0:
            if open_set is not None:  # the producer began again: what it sent before it sends again
                self.tally.superseded += len(open_set.parts)
            self._spoilt.pop(shard, None)
            self._open[shard] = _Open(fragment.total, 0, [fragment], row)
            return None
        if (reason := self._spoilt.get(shard)) is not None:
            self._reject(fragment, reason)
            return None
        if open_set is None:
            open_set = self._open[shard] = _Open(fragment.total, fragment.index)
        if fragment.total != open_set.total:
            self._spoil(shard, open_set, fragment, Reason.CONTRADICTORY_FRAGMENT, "its fragments name different totals")
            return None
        if fragment.index < open_set.next:  # the same fragment delivered again
            self.tally.superseded += 1
            return None
        if fragment.index > open_set.next:
            self._spoil(shard, open_set, fragment, Reason.MISSING_FRAGMENT, f"fragment {open_set.next} is missing")
            return None
        open_set.parts.append(fragment)
        open_set.row = row
        if fragment.index < fragment.total - 1:
            return None
        del self._open[shard]
        return self._join(shard, open_set)

    def _join(self, shard: str, open_set: _Open) -> tuple[int, int, bytes] | None:
        parts = open_set.parts
        if open_set.first:
            head = self._read_head(shard, parts[0].offset, open_set.first, open_set.total)
            if not head.fragments:
                if head.waiting:
                    self.tally.waiting += len(parts)
                    self.waiting.append(WaitingSet(parts[0].offset, parts[-1].offset))
                else:
                    self._break(
                        shard, open_set, Reason.MISSING_HEAD, f"fragments 0 to {open_set.first - 1} are missing"
                    )
                return None
            self.tally.carried_in += len(head.fragments)
            parts = [*head.fragments, *parts]
        self.tally.joined += len(parts)
        return parts[0].offset, parts[-1].offset, b"".join(part.data for part in parts)

    def _spoil(self, shard: str, open_set: _Open, fragment: Fragment, reason: Reason, detail: str) -> None:
        """Give up a set together with the fragment that contradicts it; later ones are given up until an index 0."""
        open_set.parts.append(fragment)
        del self._open[shard]
        self._spoilt[shard] = reason
        self._break(shard, open_set, reason, detail)

    def _break(self, shard: str, open_set: _Open, reason: Reason, detail: str) -> None:
        parts = open_set.parts
        self.tally.quarantined_fragments += len(parts)
        data = b"".join(part.data for part in parts)
        of = f" of shard {shard}" if shard else ""
        self.broken.append(
            BrokenSet(
                parts[0].offset,
                parts[-1].offset,
                reason,
                f"a set of {open_set.total} fragments{of}: {detail}",
                data,
                len(parts),
            )
        )

    def _reject(self, fragment: Fragment, reason: Reason) -> None:
        self.tally.quarantined_fragments += 1
        detail = "its set was given up before"
        self.broken.append(BrokenSet(fragment.offset, fragment.offset, reason, detail, fragment.data, 1))


def _rows_by_shard(shards: pa.StringArray, rows: _Rows) -> dict[str, _Rows]:
    """Ascending row numbers per shard."""
    codes = pc.fill_null(shards.take(pa.array(rows)), "").dictionary_encode()
    numbers = codes.indices.to_numpy()
    return {name: rows[numbers == number] for number, name in enumerate(codes.dictionary.to_pylist())}


def find_head(
    backwards: Iterable[tuple[pa.Int64Array, pa.RecordBatch]],
    *,
    shard: str,
    below: int,
    total: int,
    reaches_start: bool,
) -> Head:
    """The fragments 0 to ``below`` - 1 that precede a tail, from batches read backwards (offsets and FRAGMENTS).

    ``reaches_start`` says that nothing earlier than these batches can ever be stored; else an exhausted search means waiting.
    The search ends early at anything that proves that the head is not there: an index 0 of another set, a different total.
    """
    found: list[Fragment] = []
    wanted = below - 1
    for fragment in _shard_backwards(backwards, shard):
        if fragment.total == total and wanted < fragment.index < total - 1:
            continue  # a repeat of one that was taken already; a last fragment ends another set
        if fragment.total != total or fragment.index != wanted:
            return Head((), waiting=False)
        found.append(fragment)
        wanted -= 1
        if wanted < 0:
            return Head(tuple(reversed(found)), waiting=False)
    return Head((), waiting=not reaches_start)


def _shard_backwards(batches: Iterable[tuple[pa.Int64Array, pa.RecordBatch]], shard: str) -> Iterator[Fragment]:
    """The shard's usable messages, last first. A whole message ends a search too: it comes as total 1, index 0."""
    for offsets, batch in batches:
        usable = pc.and_(
            pc.and_(batch["reason"].is_null(), pc.invert(batch["is_null"])), pc.equal(batch["shard"], shard)
        )
        for row in np.flatnonzero(np.asarray(usable))[::-1]:
            number = int(row)
            yield Fragment(
                offsets[number].as_py(), batch["total"][number].as_py(), batch["index"][number].as_py(),
                batch["data"][number].as_py(),
            )  # fmt: skip
