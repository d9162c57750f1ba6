"""Fragments become entry sets: split sets are joined again in order, whatever happened on the way.

The vendor cuts the bytes of a large event into ``total`` segments and sends them in order to one Kafka partition; segments of
different shards may interleave (TDSQL). Delivery is at least once, so a set may begin again in the middle of itself. A set
belongs to the range that holds its last fragment: a range that begins inside a set asks for the head, and one that ends inside
a set hands nothing on; the next range will ask.

Whole messages, and sets whose fragments follow each other in one batch, are handled as columns: their bytes lie side by side
already, so joining them is leaving out the borders between them, and nothing is copied. Only fragments of other sets are looked
at one by one (:mod:`dts_assets.stages.collecting`): those that a batch cuts, that interleave with others, that are repeated or
broken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.collecting import Collector, Joined
from dts_assets.stages.entry_columns import rows_by_shard
from dts_assets.stages.heads import fragment_at
from dts_assets.wire.columns.buffers import binary_array, offsets_of

_Rows: TypeAlias = npt.NDArray[Any]


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


class Reassembler(Collector):
    """A collector of one ordered offset range that is fed whole batches. Call :meth:`finish` once, after the last."""

    def feed(self, offsets: pa.Int64Array, fragments: pa.RecordBatch) -> pa.Table:
        """Take a batch of messages and return the SETS that end in it, by last offset.

        ``fragments`` are the FRAGMENTS of the messages at ``offsets``, row for row. A message with a reason is only counted:
        the caller puts it into quarantine.
        """
        if self.start is None and len(offsets):
            self.start = offsets[0].as_py()
        total, index = (fragments[name].fill_null(0).to_numpy() for name in ("total", "index"))
        usable = np.asarray(fragments["reason"].is_null()) & ~np.asarray(fragments["is_null"])
        first, last = _complete(usable, total, index, fragments)
        inside = _covered(first, last, len(usable))
        split = usable & (total > 1)
        self.tally.messages += fragments.num_rows
        self.tally.whole += int((usable & (total == 1)).sum())
        self.tally.fragments += int(split.sum())
        self.tally.null_messages += pc.sum(fragments["is_null"]).as_py() or 0
        self.tally.quarantined_messages += fragments.num_rows - fragments["reason"].null_count
        self.tally.joined += int((split & inside).sum())
        self.tally.joined_sets += int(np.count_nonzero(last > first))
        alone = np.flatnonzero(split & ~inside)
        joined: list[Joined] = []
        if len(alone) or self.busy:
            joined = self._one_by_one(alone, first, offsets, fragments)
        sets = _side_by_side(offsets, fragments, first, last, inside)
        return _merged(sets, joined) if joined else sets

    def _one_by_one(
        self, alone: _Rows, first: _Rows, offsets: pa.Int64Array, fragments: pa.RecordBatch
    ) -> list[Joined]:
        """Return the sets that the fragments in rows ``alone`` make whole.

        Sets that begin in rows ``first`` stand between them.
        """
        begins = np.zeros(fragments.num_rows, np.bool_)
        begins[first] = True
        between = {shard: deque(rows.tolist()) for shard, rows in rows_by_shard(fragments["shard"], among=begins)}
        joined = []
        for row in alone.tolist():
            shard = fragments["shard"][row].as_py()
            self._pass(shard, between.get(shard), row, fragments)
            done = self.add(shard, fragment_at(row, offsets, fragments))
            if done is not None:
                joined.append(done)
        for shard, rows in between.items():
            self._pass(shard, rows, fragments.num_rows, fragments)
        self._see_numbers(fragments)
        self.let_go()
        return joined

    def _pass(self, shard: str, between: deque[int] | None, row: int, fragments: pa.RecordBatch) -> None:
        """Take note of whole sets that begin before a row.

        They interrupt an unfinished set of their shard, and may be its copies.
        """
        while between and between[0] < row:
            start = between.popleft()
            if shard in self.current:
                self.put_aside(shard, fragments["sequence"][start].as_py())
            if shard in self.aside:
                data_of = _data_from(start, fragments["data"])
                self.see_whole(shard, fragments["total"][start].as_py(), data_of)

    def _see_numbers(self, fragments: pa.RecordBatch) -> None:
        """Tell sets put aside the greatest sequence number of their shard that came since, or with them."""
        for shard, aside in self.aside.items():
            numbers = fragments["sequence"].filter(pc.equal(fragments["shard"], shard))
            greatest = pc.max(numbers).as_py() or -1
            for one in aside:
                one.seen_to = max(one.seen_to, greatest)
                one.passed |= len(numbers) > 0


def sets_of(offsets: pa.Int64Array, fragments: pa.RecordBatch) -> pa.Table:
    """Return the SETS of messages of a format that never splits any, without those that cannot be used."""
    rows = np.flatnonzero(np.asarray(fragments["reason"].is_null()) & ~np.asarray(fragments["is_null"]))
    return _side_by_side(offsets, fragments, rows, rows, _covered(rows, rows, len(offsets)))


def whole_sets(fragments: pa.RecordBatch) -> int:
    """Return the number of first FRAGMENTS that leave no set unfinished.

    They must lie as a producer sends them.
    """
    usable = np.asarray(fragments["reason"].is_null()) & ~np.asarray(fragments["is_null"])
    total, index = (fragments[name].fill_null(0).to_numpy() for name in ("total", "index"))
    split = usable & (total > 1)
    unfinished = np.cumsum((split & (index == 0)).astype(np.int64) - (split & (index == total - 1)))
    # A tail whose head lies before these messages goes below zero; it is looked for elsewhere and leaves nothing unfinished.
    unfinished -= np.minimum(np.minimum.accumulate(unfinished), 0)
    ends = np.flatnonzero((unfinished == 0) & ~(split & (index < total - 1)))
    return int(ends[-1]) + 1 if len(ends) else 0


def _complete(usable: _Rows, total: _Rows, index: _Rows, fragments: pa.RecordBatch) -> tuple[_Rows, _Rows]:
    """Return the first and last rows of sets whose fragments all follow each other.

    A whole message is a set of one.
    """
    last = np.flatnonzero(usable & (index == total - 1))
    first = last - index[last]
    if not len(last) or int(index[last].max()) == 0:
        return last, last
    shard = pc.fill_null(fragments["shard"], "").dictionary_encode().indices.to_numpy()
    follows = usable[1:] & usable[:-1] & (index[1:] == index[:-1] + 1)
    follows &= (total[1:] == total[:-1]) & (shard[1:] == shard[:-1])
    numbered = np.asarray(fragments["sequence"].is_valid())
    numbers = fragments["sequence"].fill_null(0).to_numpy()
    follows &= (numbers[1:] - numbers[:-1] == 1) | ~(numbered[1:] & numbered[:-1])
    # Rows of one unbroken run have the same number.
    run = np.concatenate(([0], np.cumsum(~follows)))
    together = (first >= 0) & (run[np.maximum(first, 0)] == run[last])
    return first[together], last[together]


def _data_from(row: int, data: pa.BinaryArray) -> Callable[[int], pa.Buffer]:
    """Return the bytes of the fragments of a set that begins in a row, by index."""
    return lambda index: data[row + index].as_buffer()


def _covered(first: _Rows, last: _Rows, count: int) -> npt.NDArray[np.bool_]:
    """Return the rows in any of the runs ``first`` to ``last``, which never overlap."""
    borders = np.zeros(count + 1, np.int64)
    borders[first] += 1
    borders[last + 1] -= 1
    return np.cumsum(borders[:-1]) > 0


def _side_by_side(
    offsets: pa.Int64Array, fragments: pa.RecordBatch, first: _Rows, last: _Rows, inside: npt.NDArray[np.bool_]
) -> pa.Table:
    """Return the SETS that lie in rows ``first`` to ``last``."""
    ends = pa.array(last)
    shards = fragments["shard"].take(ends)
    columns = [
        offsets.take(pa.array(first)),
        offsets.take(ends),
        pc.if_else(pc.equal(shards, ""), pa.scalar(None, pa.string()), shards),
        fragments["sequence"].take(ends),
        _joined_in_place(fragments["data"], first, last, inside),
    ]
    return pa.table(columns, schema=SETS)


def _joined_in_place(data: pa.BinaryArray, first: _Rows, last: _Rows, inside: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """Return one value for each run of rows, over the bytes of its rows.

    Only the borders between rows are left out.
    """
    starts = ~inside
    starts[first] = True
    rows = np.flatnonzero(starts)
    offsets = offsets_of(data)[np.append(rows, len(data))] if len(data) else offsets_of(data)
    values = binary_array(pa.binary(), offsets, data.buffers()[2], None)
    wanted = np.searchsorted(rows, first)
    if len(wanted) and wanted[-1] - wanted[0] + 1 == len(wanted):  # mostly: sets are cut where the batch begins or ends
        return values.slice(int(wanted[0]), len(wanted))
    return values.take(pa.array(wanted))


def _merged(sets: pa.Table, joined: Sequence[Joined]) -> pa.Table:
    """Merge sets that were joined one by one with the others, by last offset.

    Of the others nothing is copied.
    """
    joined = sorted(joined, key=lambda one: one.last_offset)
    columns = [pa.array([one[number] for one in joined], kind) for number, kind in enumerate(SETS.types[:-1])]
    # Each set is an array of its own: together they may have more bytes than an array can.
    data = pa.chunked_array([pa.array([b"".join(one.parts)], pa.binary()) for one in joined], pa.binary())
    own = pa.table([*columns, data], schema=SETS)
    places = np.searchsorted(sets["last_offset"].to_numpy(), own["last_offset"].to_numpy())
    pieces, at = [], 0
    for number, place in enumerate(places.tolist()):
        pieces += [sets.slice(at, place - at), own.slice(number, 1)]
        at = place
    return pa.concat_tables([*pieces, sets.slice(at)])
