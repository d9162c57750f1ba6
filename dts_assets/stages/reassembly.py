"""Fragments to entry sets: the segments of a split set joined again, in order, whatever happened on the way.

The vendor cuts the bytes of a large event into ``total`` segments and sends them in order to one Kafka partition; segments of
different shards may interleave (TDSQL). Delivery is at least once, so a set may begin again in the middle of itself. A set
belongs to the range that holds its last fragment: a range that begins inside a set asks for the head, and one that ends inside
a set hands nothing on; the next range will ask.

Whole messages, and sets whose fragments follow each other in one batch, are handled as columns: their bytes lie side by side
already, so joining them is leaving out the borders between them, and nothing is copied. Only fragments of other sets are looked
at one by one: those that a batch cuts, that interleave with others, that are repeated or broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.wire.buffers import binary_array, offsets_of

_Rows: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One segment of a split entry set."""

    offset: int
    total: int
    index: int
    data: bytes | pa.Buffer
    sequence: int | None = None


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


class _Joined(NamedTuple):
    """A set put together from fragments that were collected one by one."""

    first_offset: int
    last_offset: int
    shard: str | None
    sequence: int | None
    parts: tuple[bytes | pa.Buffer, ...]


SETS = pa.schema(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("shard", pa.string()),  # the ShardId header, null without one
        ("sequence", pa.int64()),  # the ps header of the last fragment, null without one
        ("data", pa.binary()),
    ]
)
"""One row per entry set, by last offset."""


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

    def feed(self, offsets: pa.Int64Array, fragments: pa.RecordBatch) -> pa.Table:
        """The SETS that end in this batch, by last offset.

        ``fragments`` are the FRAGMENTS of the messages at ``offsets``, row for row. A message with a reason is only counted:
        the caller puts it into quarantine.
        """
        total, index = (fragments[name].fill_null(0).to_numpy() for name in ("total", "index"))
        usable = np.asarray(fragments["reason"].is_null()) & ~np.asarray(fragments["is_null"])
        first, last = _complete(usable, total, index, fragments["shard"])
        inside = _covered(first, last, len(usable))
        split = usable & (total > 1)
        self._count(fragments, whole=int((usable & (total == 1)).sum()), split=int(split.sum()))
        self.tally.joined += int((split & inside).sum())
        alone = np.flatnonzero(split & ~inside)
        barriers = _rows_by_shard(fragments["shard"], first) if len(alone) or self._open or self._spoilt else {}
        joined = [done for row in alone if (done := self._add(int(row), offsets, fragments, barriers)) is not None]
        for shard, rows in barriers.items():
            self._drop_before(shard, rows, fragments.num_rows)
        for open_set in self._open.values():
            open_set.row = -1
        data = _joined_in_place(fragments["data"], first, last, inside)
        ends = pa.array(last)
        shards = fragments["shard"].take(ends)
        sets = pa.table(
            [
                offsets.take(pa.array(first)),
                offsets.take(ends),
                pc.if_else(pc.equal(shards, ""), pa.scalar(None, pa.string()), shards),
                fragments["sequence"].take(ends),
                data,
            ],
            schema=SETS,
        )
        return _merged(sets, joined) if joined else sets

    def finish(self) -> None:
        """Settle what is still open at the end of the range."""
        for shard, open_set in self._open.items():
            if self._nothing_follows:
                self._break(shard, open_set, Reason.MISSING_FRAGMENT, "the capture ends inside it")
            else:
                self.tally.carried_in += open_set.first
                self.tally.carried_out += open_set.next
        self._open.clear()

    def _count(self, fragments: pa.RecordBatch, *, whole: int, split: int) -> None:
        nulls = pc.sum(fragments["is_null"]).as_py() or 0
        rejected = fragments.num_rows - fragments["reason"].null_count
        self.tally.messages += fragments.num_rows
        self.tally.whole += whole
        self.tally.fragments += split
        self.tally.null_messages += nulls
        self.tally.quarantined_messages += rejected

    def _drop_before(self, shard: str, whole_rows: _Rows, row: int) -> None:
        """A set that is all there ends an unfinished one of its shard, as any index 0 does: the producer began again."""
        open_set = self._open.get(shard)
        since = -1 if open_set is None else open_set.row
        if int(np.searchsorted(whole_rows, row)) > int(np.searchsorted(whole_rows, since, side="right")):
            if open_set is not None:
                self.tally.superseded += len(open_set.parts)
                del self._open[shard]
            self._spoilt.pop(shard, None)

    def _add(
        self, row: int, offsets: pa.Int64Array, batch: pa.RecordBatch, barriers: Mapping[str, _Rows]
    ) -> _Joined | None:
        shard = batch["shard"][row].as_py() or ""
        fragment = Fragment(
            offsets[row].as_py(),
            batch["total"][row].as_py(),
            batch["index"][row].as_py(),
            batch["data"][row].as_buffer(),
            batch["sequence"][row].as_py(),
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

    def _join(self, shard: str, open_set: _Open) -> _Joined | None:
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
        first, last = parts[0], parts[-1]
        return _Joined(first.offset, last.offset, shard or None, last.sequence, tuple(part.data for part in parts))

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
        self.broken.append(BrokenSet(fragment.offset, fragment.offset, reason, detail, bytes(fragment.data), 1))


def _complete(usable: _Rows, total: _Rows, index: _Rows, shards: pa.StringArray) -> tuple[_Rows, _Rows]:
    """The first and last rows of sets all of whose fragments follow each other; a whole message is a set of one."""
    last = np.flatnonzero(usable & (index == total - 1))
    first = last - index[last]
    if not len(last) or int(index[last].max()) == 0:
        return last, last
    shard = pc.fill_null(shards, "").dictionary_encode().indices.to_numpy()
    follows = usable[1:] & usable[:-1] & (index[1:] == index[:-1] + 1)
    follows &= (total[1:] == total[:-1]) & (shard[1:] == shard[:-1])
    # Rows of one unbroken run have the same number.
    run = np.concatenate(([0], np.cumsum(~follows)))
    together = (first >= 0) & (run[np.maximum(first, 0)] == run[last])
    return first[together], last[together]


def _covered(first: _Rows, last: _Rows, count: int) -> npt.NDArray[np.bool_]:
    """Which rows lie in any of the runs ``first`` to ``last``, which never overlap."""
    borders = np.zeros(count + 1, np.int64)
    borders[first] += 1
    borders[last + 1] -= 1
    return np.cumsum(borders[:-1]) > 0


def _joined_in_place(data: pa.BinaryArray, first: _Rows, last: _Rows, inside: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """One value for each run of rows, over the same bytes: the borders between its rows are left out."""
    starts = ~inside
    starts[first] = True
    rows = np.flatnonzero(starts)
    offsets = offsets_of(data)[np.append(rows, len(data))] if len(data) else offsets_of(data)
    values = binary_array(pa.binary(), offsets, data.buffers()[2], None)
    wanted = np.searchsorted(rows, first)
    if len(wanted) and wanted[-1] - wanted[0] + 1 == len(wanted):  # mostly: sets are cut where the batch begins or ends
        return values.slice(int(wanted[0]), len(wanted))
    return values.take(pa.array(wanted))


def _merged(sets: pa.Table, joined: Sequence[_Joined]) -> pa.Table:
    """Sets that were joined one by one put between the others by last offset; of the others nothing is copied."""
    joined = sorted(joined, key=lambda one: one.last_offset)
    ends = np.cumsum([0, *(sum(map(len, one.parts)) for one in joined)]).astype(np.int32)
    data = pa.py_buffer(b"".join(part for one in joined for part in one.parts))
    columns: list[pa.Array] = [
        pa.array([one[number] for one in joined], kind) for number, kind in enumerate(SETS.types[:-1])
    ]
    own = pa.table([*columns, binary_array(pa.binary(), ends, data, None)], schema=SETS)
    places = np.searchsorted(sets["last_offset"].to_numpy(), own["last_offset"].to_numpy())
    pieces, at = [], 0
    for number, place in enumerate(places.tolist()):
        pieces += [sets.slice(at, place - at), own.slice(number, 1)]
        at = place
    return pa.concat_tables([*pieces, sets.slice(at)])


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
                batch["data"][number].as_buffer(),
            )  # fmt: skip
