"""Rows and columns that are summed, in columns and in SQL."""

from __future__ import annotations

import pyarrow as pa

from dts_assets.model.row_filters import Comparison, Disjunction
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.filter_sql import condition_of
from dts_assets.stages.row_sums import SummedColumn, hashes_of, row_sums, row_texts, tagged, value_texts
from dts_assets.stages.sum_sql import (
    Buckets,
    SqlColumn,
    bucket_statement,
    hashes_statement,
    misfits,
    row_hash,
    rows_statement,
    sql_column,
    sum_statement,
)
from tests.growth.long_histories import Case

KEY, NOTE, RATE = (
    SummedColumn(1, "id", "int"),
    SummedColumn(2, "note", "string"),
    SummedColumn(3, "rate", "decimal(30,9)"),
)


def _rows(count: int) -> pa.RecordBatch:
    rates = pa.array([f"0.{number:09}" for number in range(count)]).cast(pa.decimal128(30, 9))
    return pa.RecordBatch.from_pydict({"id": list(range(count)), "note": ["é" * 40] * count, "rate": rates})


def _sum_rows(rows: pa.RecordBatch) -> object:
    texts = row_texts(rows, [KEY, NOTE, RATE])
    parts = tagged(NOTE, rows.column("note")), value_texts(rows.column("rate"))
    return row_sums(rows, [KEY, NOTE, RATE]), hashes_of(texts), parts


def _long(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": [1], "note": ["x" * 40 * count], "rate": pa.nulls(1, pa.decimal128(30, 9))}
    )


def _columns(count: int) -> list[SqlColumn]:
    """Return a column for each 25: a database lets a table have 4,096, and texts of megabytes measure the memory alone."""
    found = (
        sql_column(SummedColumn(number + 1, f"c{number}", "int"), ServerColumn(f"c{number}", "bigint", "bigint"))
        for number in range(max(1, count // 25))
    )
    return [one for one in found if one is not None]


def _statements(columns: list[SqlColumn]) -> object:
    numbers = range(len(columns))
    ranges, hashes = Buckets((columns[0],), 8, 1, 100), Buckets(tuple(columns), 8)
    made = [
        sum_statement("d.t", columns),
        row_hash(columns),
        misfits(columns),
        bucket_statement("d.t", columns, hashes),
    ]
    made += [ranges.condition(numbers), hashes.condition(numbers), hashes_statement("d.t", columns, ranges, numbers)]
    return [*made, rows_statement("d.t", [one.text for one in columns], ranges, numbers=numbers, keys=numbers)]


def _filter(columns: list[SqlColumn]) -> object:
    rows = Disjunction(tuple(Comparison(one.source.name, "=", 5) for one in columns))
    return condition_of(rows, {one.source.name: one for one in columns})


SUM_STEPS: dict[str, Case] = {
    "rows that are summed": (_rows, _sum_rows),
    "a long value that is summed": (_long, _sum_rows),
    "columns that a database sums": (_columns, _statements),
    "columns of a filter in SQL": (_columns, _filter),
}
