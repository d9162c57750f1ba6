"""The order of full loads and other changes of every table, where messages carry ids.

A clean stream has one mark per table and window: Python looks only at entries where the kind changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.message_ids import SeenKind, SeenTable
from dts_assets.model.tables import TableId
from dts_assets.stages.ddl_statements import statements
from dts_assets.stages.entry_columns import DDL, DML, EntryColumns
from dts_assets.wire.ddl.effects import EffectKind

MOST_MARKS = 8
"""Marks kept of one table in one stretch of growing ids.

A load that goes on and off more often has shown enough.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = ("database", "schema", "table")


@dataclass(slots=True)
class TableTracker:
    """Notes where rows of a full load begin and end, table by table. Feed it every batch in offset order.

    ``kinds`` and ``counts`` are the last kind and the number of marks of each table since ids fell last.
    """

    seen: list[SeenTable] = field(default_factory=list)
    previous: int = -1
    kinds: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def see(self, batch: pa.RecordBatch, columns: EntryColumns, reads: npt.NDArray[np.bool_] | None) -> None:
        """Take note of a decoded batch.

        ``reads`` marks its entries with rows of a full load, None where there are none.
        """
        rows = np.flatnonzero((columns.kinds == DML) | (columns.kinds == DDL))
        if not len(rows):
            return
        ids = columns.positions[rows]
        before = np.concatenate(([self.previous], ids[:-1]))
        falls = np.flatnonzero(ids < before).tolist()
        starts = frozenset(falls)
        self.previous = int(ids[-1])
        states = _first_states(batch) if (columns.kinds == DDL).any() else {}
        codes, names = _tables_of(batch)
        is_read = np.zeros(len(columns), np.bool_) if reads is None else reads
        for start, end in zip([0, *falls], [*falls, len(rows)], strict=True):
            if start in starts:
                self.kinds, self.counts = {}, {}
            mine = rows[start:end]
            changing = _where_kinds_change(mine[columns.kinds[mine] == DML], codes, is_read)
            for row in sorted({*changing, *(row for row in mine.tolist() if row in states)}):
                if row in states:
                    for table in states[row]:
                        self._add(table, SeenKind.FIRST_STATE, columns, row)
                else:
                    self._add(names[codes[row]], SeenKind.READ if is_read[row] else SeenKind.CHANGE, columns, row)

    def _add(self, table: tuple[str, str, str], kind: SeenKind, columns: EntryColumns, row: int) -> None:
        key = "/".join(TableId(*table).path)
        first_state = kind is SeenKind.FIRST_STATE
        if not first_state and (self.kinds.get(key) == kind or self.counts.get(key, 0) >= MOST_MARKS):
            return
        self.kinds[key], self.counts[key] = kind.value, self.counts.get(key, 0) + 1
        time = _EPOCH + timedelta(microseconds=int(columns.times[row]))
        self.seen.append(SeenTable(*table, kind, int(columns.offsets[row]), columns.position(row), time))


def _first_states(batch: pa.RecordBatch) -> dict[int, list[tuple[str, str, str]]]:
    """Return the tables that definitions at the begin of a full load are about, by row."""
    found: dict[int, list[tuple[str, str, str]]] = {}
    for one in statements(batch):
        if one.is_first_state:
            made = {
                table
                for effect in one.parsed.effects
                if effect.kind is EffectKind.CREATE_TABLE
                for table in effect.tables
            }
            named = batch["table"][one.index].as_py()
            tables = [(table.database, table.schema, table.table) for table in sorted(made)]
            if not one.parsed.parsed and not tables and named:
                tables = [(one.database, batch["schema"][one.index].as_py() or "", named)]
            found[one.index] = tables
    return found


def _tables_of(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[tuple[str, str, str]]]:
    """Return a number per entry for its table, and the tables by number."""
    codes = np.zeros(batch.num_rows, np.int64)
    texts: list[list[str]] = []
    for name in _NAMES:
        encoded = pc.fill_null(batch[name], "").dictionary_encode()
        texts.append(encoded.dictionary.to_pylist())
        codes = codes * max(1, len(texts[-1])) + encoded.indices.to_numpy()
    distinct, dense = np.unique(codes, return_inverse=True)
    tables = []
    for code in distinct.tolist():
        rest, table = divmod(code, max(1, len(texts[2])))
        database, schema = divmod(rest, max(1, len(texts[1])))
        tables.append((texts[0][database], texts[1][schema], texts[2][table]))
    return dense.astype(np.int64), tables


def _where_kinds_change(
    rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], is_read: npt.NDArray[np.bool_]
) -> Iterator[int]:
    """Yield the first row of each table, and those of another kind than the one before."""
    order = rows[np.argsort(codes[rows], kind="stable")]
    if len(order):
        differs = (codes[order[1:]] != codes[order[:-1]]) | (is_read[order[1:]] != is_read[order[:-1]])
        yield from order[np.concatenate(([True], differs))].tolist()
