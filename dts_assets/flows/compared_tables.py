"""A snapshot and the table at the source that it stands for.

These are the columns that are compared, and the rows of the lake's side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.row_sum_counts import summed_columns
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import RuleOf
from dts_assets.model.columns import same_name
from dts_assets.model.row_filters import RowFilter, columns_of
from dts_assets.model.server_tables import ServerColumn, ServerTable
from dts_assets.model.stored_sums import SUMS_PROPERTY, StoredSums
from dts_assets.model.tables import TableId
from dts_assets.stages.filter_sql import condition_of
from dts_assets.stages.row_sums import SummedColumn, row_sums, total
from dts_assets.stages.sum_sql import SqlColumn, rows_of, sql_column
from dts_assets.store.columns import flat_name
from dts_assets.store.types import arrow_schema

_ENGINES = ("InnoDB",)
"""Storage engines whose rows stand still within a transaction."""


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A snapshot as of the moment, and its table at the source.

    ``summed`` are all columns of the snapshot that a sum is made of, ``pairs`` those that the source tells, too. ``left_out`` has
    the other columns with the reasons; of these ``looked_at`` are compared by value where rows differ, by the lake's names.
    ``condition`` keeps rows that a row filter lets into the lake.
    """

    snapshot: Table
    source: TableId
    summed: tuple[SummedColumn, ...]
    pairs: tuple[SqlColumn, ...]
    key: tuple[SqlColumn, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    looked_at: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""

    @property
    def rows(self) -> str:
        """The rows of the source that are compared, as a FROM names them."""
        return rows_of(self.source.database, self.source.table, self.condition)

    def batches(self, columns: Sequence[str], *, files: Table | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the snapshot that live, with some columns and ``_invalid``."""
        names = [one.name for one in self.snapshot.schema().fields]
        wanted = [name for name in dict.fromkeys([*columns, "_invalid", DELETED_AT]) if name in names]
        for batch in (files or self.snapshot).scan(selected_fields=tuple(wanted)).to_arrow_batch_reader():
            if DELETED_AT in wanted:
                batch = batch.filter(batch.column(DELETED_AT).is_null())
            if batch.num_rows:
                yield batch


@dataclass(frozen=True, slots=True)
class LakeSums:
    """The rows of a snapshot's files, and sums over them.

    ``whole`` is over all columns, ``compared`` over those that the source tells, and ``misfits`` counts their values that do not
    fit.
    """

    rows: int = 0
    whole: int = 0
    compared: int = 0
    misfits: int = 0


def sums_of_files(table: ComparedTable) -> LakeSums:
    """Return the sums over the rows of a snapshot, computed from its files."""
    compared = [one.column for one in table.pairs]
    narrowed = [one.column.name for one in table.pairs if one.narrows]
    rows, whole, told, misfits = 0, 0, 0, 0
    for batch in table.batches([one.name for one in table.summed]):
        found = total(row_sums(batch, table.summed))
        rows += batch.num_rows
        whole += found
        told += found if len(compared) == len(table.summed) else total(row_sums(batch, compared))
        misfits += _misfits(batch, narrowed)
    return LakeSums(rows, whole, told, misfits)


def stored_total(snapshot: Table) -> int | None:
    """Return the sum over its rows that a snapshot carries.

    None stands for a snapshot that carries none, or whose rows nobody has added up.
    """
    head = snapshot.current_snapshot()
    if head is None or head.summary is None:
        return None
    found = StoredSums.of_text(head.summary.additional_properties.get(SUMS_PROPERTY))
    return None if found is None else found.total


def _misfits(rows: pa.RecordBatch, names: Sequence[str]) -> int:
    invalid = rows.column("_invalid").drop_null()
    if not len(invalid) or not names:
        return 0
    keys = [name for entries in invalid.to_pylist() for name, _ in entries]
    return sum(keys.count(name) for name in names)


def compared_table(
    pipeline: Pipeline,
    table: TableId,
    snapshot: Table,
    *,
    source: TableId,
    described: ServerTable,
    unknown: Mapping[str, int],
) -> ComparedTable | None:
    """Return how a snapshot and a table at the source are compared.

    ``unknown`` counts the values of columns that the lake has as NULL because nothing tells them. None stands for a table under a
    row filter that the source cannot judge as the lake does.
    """
    settings = pipeline.settings
    summed, pairs = summed_columns(arrow_schema(snapshot.schema())), list[SqlColumn]()
    left_out, looked_at = dict[str, str](), dict[str, str]()
    carried = settings.traits.fraction_digits
    there = {flat_name(one.name): one for one in described.columns}
    spelled = {same_name(name): one for name, one in there.items()}
    rule_of, found = settings.rule_finder(table), set[str]()
    for column in summed:
        at_source = there.get(column.name) or spelled.get(same_name(column.name))
        if at_source is None:
            left_out[column.name] = "the source has no such column now"
            continue
        found.add(at_source.name)
        pair = sql_column(column, at_source)
        reason = _reason(at_source, rule_of, unknown.get(column.name, 0), carried)
        if reason is not None:
            left_out[column.name] = reason
        elif pair is None:
            left_out[column.name] = f"texts of {at_source.type} are not proven equal to {column.type}"
            looked_at[column.name] = at_source.name
        else:
            pairs.append(pair)
    left_out |= {one.name: "the lake has no such column" for one in described.columns if one.name not in found}
    keys = {one.name for one in described.columns if one.is_key}
    key = tuple(one for one in pairs if one.source.name in keys)
    row_filter = settings.row_filter(table)
    condition = "" if row_filter is None else _condition(row_filter, pairs)
    if condition is None:
        return None
    key = key if len(key) == len(keys) else ()
    return ComparedTable(snapshot, source, summed, tuple(pairs), key, left_out, looked_at, condition)


def _condition(rows: RowFilter, pairs: Sequence[SqlColumn]) -> str | None:
    by_name = {same_name(one.source.name): one for one in pairs}
    wanted = {name: by_name.get(same_name(name)) for name in columns_of(rows)}
    return condition_of(rows, {name: one for name, one in wanted.items() if one is not None})


def _reason(column: ServerColumn, rule_of: RuleOf, unknown: int, carried: int) -> str | None:
    rule = rule_of(column.name)
    if rule is not None:
        return f"a rule changes its values ({rule.kind.value})"
    if unknown:
        return f"{unknown:,} values of it are not known, as a statement made them"
    if (column.digits or 0) > carried:
        return f"the format carries {carried} digits of a fraction of a second"
    return None


def refused(pipeline: Pipeline, table: TableId, described: ServerTable | None) -> str | None:
    """Return why a table at the source cannot be compared; None where it can."""
    if described is None:
        return "the source has no such table now, or the account may not read it"
    if described.engine not in _ENGINES:
        return f"tables of engine {described.engine or 'unknown'} do not stand still within a transaction"
    return None
