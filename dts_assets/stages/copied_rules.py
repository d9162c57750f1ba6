"""Rules applied to the rows of a copy when they are written.

So no plain value stands in the lake. Rows of a copy are texts, or bytes, as the source has them. The rule on a column makes of
them the text that it makes of the same value in an event, and the row filter is judged by the code that judges events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.column_rules import ColumnRule, TableRules
from dts_assets.model.columns import Column, ColumnShape, is_json
from dts_assets.model.copied_tables import PassedRule
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.row_filters import RowFilter
from dts_assets.model.tables import TableId
from dts_assets.stages.column_rules import apply_rules
from dts_assets.stages.routed_changes import ChangeRoutes
from dts_assets.stages.stored_rules import ruled
from dts_assets.wire.copied_rows import CopiedRows, payload_of


@dataclass(frozen=True, slots=True)
class FilterOfCopy:
    """The row filter of a copied table.

    ``columns`` are those of the lake that it looks at; the others say how rows of the source become rows of the lake.
    """

    source: TableId
    table: TableId
    columns: tuple[Column, ...]
    rows: RowFilter
    zone: str
    routes: Routes = NO_ROUTES

    def kept(self, batch: pa.RecordBatch, shapes: Sequence[ColumnShape]) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows that pass; the columns of ``batch`` are those of ``shapes``.

        Raises:
            RulesError: The rows lack a column that the filter looks at.
        """
        routes = ChangeRoutes({self.table: self.columns}, self.routes, {self.table: (self.source,)})
        routes.table(self.source)
        told = pa.RecordBatch.from_arrays(batch.columns[: len(shapes)], names=[one.name for one in shapes])
        names = {"database": self.source.database, "schema": self.source.schema, "table": self.source.table}
        entry = pa.RecordBatch.from_pydict(
            {
                **{name: [text] for name, text in names.items()},
                "payload": pa.array([payload_of(told, shapes)], pa.binary()),
            }
        )
        (changes,) = CopiedRows(self.zone).changes(entry, routes.by_source).tables
        rules = TableRules(self.columns, self.columns, frozenset(), {}, self.rows)
        found = apply_rules(routes.routed(changes), rules).changes.batch["row_number"]
        kept: npt.NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return kept


@dataclass(frozen=True, slots=True)
class CopyRules:
    """The rules that rows of a copy pass when they are written.

    Those on columns stand by their names at the source. ``as_bytes`` are the columns whose values the lake reads as bytes.
    ``passed`` and ``passed_filter`` are the notes of the copy.
    """

    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    as_bytes: frozenset[str] = frozenset()
    rows: FilterOfCopy | None = None
    passed: tuple[PassedRule, ...] = ()
    passed_filter: str | None = None

    def applied(self, batch: pa.RecordBatch, shapes: Sequence[ColumnShape], *, removed: bool = False) -> pa.RecordBatch:
        """Return rows as their copy stores them.

        ``batch`` has a column for each of ``shapes``, and may have others behind. Rows that were ``removed`` have their keys
        alone, so that no filter can judge them.

        Raises:
            RulesError: The rows lack a column that the filter looks at.
        """
        if self.rows is not None and not removed and batch.num_rows:
            batch = batch.take(pa.array(self.rows.kept(batch, shapes)))
        for place, shape in enumerate(shapes):
            rule = self.columns.get(shape.name)
            if rule is not None:
                values = batch.column(place)
                made = self._ruled(values, shape, rule).cast(values.type)
                batch = batch.set_column(place, batch.schema.field(place).with_type(made.type), made)
        return batch

    def _ruled(self, values: pa.Array, shape: ColumnShape, rule: ColumnRule) -> pa.Array:
        """Return the values of a column as a rule makes them."""
        try:
            texts = values.cast(pa.binary() if shape.name in self.as_bytes else pa.string())
            return ruled(texts, None, rule, is_json=is_json(shape.original_type) and pa.types.is_string(texts.type))
        except pa.ArrowInvalid:  # bytes that are no text
            return ruled(values.cast(pa.binary()), None, rule)


NO_COPY_RULES = CopyRules()
