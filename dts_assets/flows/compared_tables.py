"""A snapshot and the table at the source that it stands for.

These are the columns that are compared, and the sums of the lake's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table

from dts_assets.flows.compared_snapshots import paired_columns, rows_that_live
from dts_assets.flows.known_tables import filter_among
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.row_sum_counts import summed_columns
from dts_assets.model.columns import Column, same_name
from dts_assets.model.row_filters import RowFilter, columns_of
from dts_assets.model.server_tables import ServerColumn, ServerTable
from dts_assets.model.tables import TableId
from dts_assets.stages.compared_values import ComparedColumn
from dts_assets.stages.filter_sql import condition_of
from dts_assets.stages.row_sums import SummedColumn, row_sums, total
from dts_assets.stages.sum_sql import SqlColumn, rows_of, sql_column
from dts_assets.store.types import arrow_schema

_ENGINES = ("InnoDB",)
"""Storage engines whose rows stand still within a transaction."""


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A snapshot as of the moment, and its table at the source.

    ``summed`` are all columns of the snapshot that a sum is made of, ``pairs`` those that the source tells, too. ``left_out`` has
    the other columns with the reasons. ``by_value`` are columns whose values are compared where rows differ: those of ``pairs``,
    and those whose texts are not proven equal. ``condition`` keeps rows that a row filter lets into the lake.
    """

    snapshot: Table
    source: TableId
    summed: tuple[SummedColumn, ...]
    pairs: tuple[SqlColumn, ...]
    key: tuple[SqlColumn, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    by_value: tuple[ComparedColumn, ...] = ()
    condition: str = ""

    @property
    def rows(self) -> str:
        """The rows of the source that are compared, as a FROM names them."""
        return rows_of(self.source.database, self.source.table, self.condition)


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
    for batch in rows_that_live(table.snapshot, [one.name for one in table.summed]):
        found = total(row_sums(batch, table.summed))
        rows += batch.num_rows
        whole += found
        told += found if len(compared) == len(table.summed) else total(row_sums(batch, compared))
        misfits += _misfits(batch, narrowed)
    return LakeSums(rows, whole, told, misfits)


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
    columns: Sequence[Column],
    source: TableId,
    described: ServerTable,
    unknown: Mapping[str, int],
) -> ComparedTable | None:
    """Return how a snapshot and a table at the source are compared.

    ``columns`` are those of the table as far as they are known, and ``unknown`` counts the values of columns that the lake has as
    NULL because nothing tells them. None stands for a table under a row filter that the source cannot judge as the lake does.
    """
    settings, found = pipeline.settings, paired_columns(pipeline, table, snapshot, columns, described.columns)
    summed = {one.name: one for one in summed_columns(arrow_schema(snapshot.schema()))}
    left_out, pairs, by_value = dict(found.left_out), list[SqlColumn](), list[ComparedColumn]()
    left_out |= dict.fromkeys(found.extra, "the source has no such column now")
    left_out |= dict.fromkeys(found.lacking, "the lake has no such column")
    for column in found.same:
        if column.name not in summed:
            continue
        pair = sql_column(summed[column.name], column.server)
        reason = _reason(column.server, unknown.get(column.name, 0), settings.traits.fraction_digits)
        if reason is not None:
            left_out[column.name] = reason
            continue
        by_value.append(column)
        if pair is None:
            left_out[column.name] = f"texts of {column.server.type} are not proven equal to {summed[column.name].type}"
        else:
            pairs.append(pair)
    row_filter = filter_among(pipeline, table, [one.name for one in described.columns], source)
    condition = "" if row_filter is None else _condition(row_filter, pairs)
    if condition is None:
        return None
    key = tuple(one for one in pairs if one.source.is_key)
    key = key if len(key) == sum(one.is_key for one in described.columns) else ()
    return ComparedTable(
        snapshot, source, tuple(summed.values()), tuple(pairs), key, left_out, tuple(by_value), condition
    )


def _condition(rows: RowFilter, pairs: Sequence[SqlColumn]) -> str | None:
    by_name = {same_name(one.source.name): one for one in pairs}
    wanted = {name: by_name.get(same_name(name)) for name in columns_of(rows)}
    return condition_of(rows, {name: one for name, one in wanted.items() if one is not None})


def _reason(column: ServerColumn, unknown: int, carried: int) -> str | None:
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
