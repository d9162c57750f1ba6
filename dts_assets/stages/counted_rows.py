"""Rows of one table's changelog with all that is counted of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.key_periods import KeyPeriod
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_rows import invalid_by_column, position_bounds
from dts_assets.stages.moved_rows import count_partial_moves
from dts_assets.stages.row_hash import Hashes, summed
from dts_assets.stages.table_tallies import TableTally
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.format import ToldKeys


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows of the changelog of one table, their hashes, and the keys and columns that events told.

    ``left_out`` has the Kafka partition, the window and the offset of changes that a row filter left out; None if there are none.
    """

    table: TableId
    rows: pa.RecordBatch
    hashes: Hashes
    keys: ToldKeys
    carried: ToldKeys
    left_out: pa.RecordBatch | None = None

    def part(self, start: int, end: int) -> CountedRows:
        """Return the rows from ``start`` on and before ``end``."""
        some = slice(start, end)
        rows = self.rows.slice(start, end - start)
        return CountedRows(self.table, rows, self.hashes[some], self.keys.of_rows(some), self.carried.of_rows(some))

    def chosen(self, mask: npt.NDArray[np.bool_]) -> CountedRows:
        """Return the rows of a mask."""
        rows = self.rows.filter(pa.array(mask))
        return CountedRows(self.table, rows, self.hashes[mask], self.keys.of_rows(mask), self.carried.of_rows(mask))

    def periods(self, told: ToldKeys, first: SourcePosition, last: SourcePosition) -> tuple[KeyPeriod, ...]:
        """Return the primary keys of the rows (at least one), or their columns, and where events told them.

        The rows stand at the positions from ``first`` to ``last``. Lists of columns are those of each shard by itself.
        """
        numbers, keys = told.numbers, told.distinct
        if numbers is None:
            return tuple(KeyPeriod(first, last, key) for key in keys[:1])
        position = self.rows["source_position"]
        in_order = [position.field(name).to_numpy() for name in ("position", "file", "lineage")]
        if told is self.carried:
            shards = {shard: code for code, shard in enumerate(dict.fromkeys(key[1:] for key in keys))}
            in_order.append(np.array([shards[key[1:]] for key in keys], np.int64)[numbers])
        order = np.lexsort(in_order)
        starts = np.flatnonzero(np.append(True, numbers[order][1:] != numbers[order][:-1])).tolist()
        runs = [order[start:end] for start, end in pairwise([*starts, len(order)])]
        return tuple(KeyPeriod(*position_bounds(self.rows.take(pa.array(run))), keys[numbers[run[0]]]) for run in runs)

    def tally(self, columns: Sequence[Column]) -> TableTally:
        """Return the counts of the rows (at least one), which are of one Kafka partition and window."""
        rows = self.rows
        keys = {column.name for column in columns if column.is_key}.union(*self.keys.distinct)
        truncations = pc.sum(pc.equal(rows["op"], "truncate")).as_py()
        absent, invalid = rows["absent"], offsets_of(rows["invalid"])
        first, last = position_bounds(rows)
        return TableTally(
            changes=rows.num_rows - truncations,
            truncations=truncations,
            row_hash=summed(self.hashes),
            absent_rows=pc.sum(pc.greater(pc.list_value_length(absent), 0)).as_py() or 0,
            invalid_values=int(invalid[-1] - invalid[0]),
            partial_moves=count_partial_moves(rows, sorted(keys)),
            keys=self.periods(self.keys, first, last),
            lists=self.periods(self.carried, first, last),
            first=first,
            last=last,
            latest_event=pc.max(rows["event_time"]).as_py(),
            invalid_columns=invalid_by_column(rows["invalid"]),
        )
