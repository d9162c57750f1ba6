"""Steps of the offline proof, measured over rows: values in the common form, and rows of two sides compared."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from dts_assets.model.differences import Differences
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.compared_rows import (
    compare_bags,
    compare_by_key,
    key_texts,
    lake_rows,
    server_rows,
    shares,
    text_schema,
    without_marks,
)
from dts_assets.stages.compared_values import ComparedColumn, of_lake, of_server, unfit
from tests.growth.long_histories import Case

_KINDS = {
    "bigint": pa.int64(), "decimal": pa.decimal128(20, 4), "double": pa.float64(), "datetime": pa.timestamp("us"),
    "text": pa.string(), "json": pa.string(), "blob": pa.binary(), "time": pa.string(), "tinyint": pa.bool_(),
}  # fmt: skip


def _columns(count: int) -> list[tuple[str, pa.Array]]:
    at = datetime(2026, 1, 5, tzinfo=UTC).replace(tzinfo=None)
    values = {
        "bigint": list(range(count)), "decimal": list(range(count)), "double": [0.1] * count, "datetime": [at] * count,
        "text": ["a\n'"] * count, "json": ['{"b": 1, "a": [2]}'] * count, "blob": [b"\0"] * count,
        "time": ["-101:00:00.500000"] * count, "tinyint": [True] * count,
    }  # fmt: skip
    return [(kind, pa.array(some, _KINDS[kind])) for kind, some in values.items()]


def _in_form(columns: list[tuple[str, pa.Array]]) -> list[pa.Array]:
    found = []
    for kind, values in columns:
        texts = of_lake(values, kind)
        found += [texts, of_server(texts, values.type, kind), unfit(texts, values.type, kind)]
    return found


def _in_rows(columns: list[tuple[str, pa.Array]]) -> object:
    """Rows of both sides in the common form; every second value of the lake did not fit."""
    described = [ComparedColumn(kind, values.type, ServerColumn(kind, kind, kind)) for kind, values in columns]
    count = len(columns[0][1])
    invalid = pa.array([[("bigint", "7")] if number % 2 else None for number in range(count)], _INVALID)
    rows = pa.RecordBatch.from_arrays([*(some for _, some in columns), invalid], names=[*_KINDS, "_invalid"])
    told = server_rows([("0",) * len(described)] * count, described)
    return key_texts(without_marks(lake_rows(rows, described)), [*_KINDS]), told, text_schema(described)


_INVALID = pa.map_(pa.string(), pa.string())


def _sides(count: int) -> tuple[pa.Table, pa.Table]:
    """Every fifth row differs, every seventh value did not fit, every third is not known in the lake."""
    lake = {
        "id": [str(number) for number in range(count)],
        "n": [f"\x01{number}" if number % 7 == 0 else f"{number % 5}" for number in range(count)],
        "u": [None if number % 3 == 0 else "x" for number in range(count)],
    }
    server = {"id": [str(number) for number in range(3, count + 3)], "n": ["1"] * count, "u": ["x"] * count}
    return pa.table(lake, schema=_SCHEMA), pa.table(server, schema=_SCHEMA)


_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "n", "u")])


def _compared(sides: tuple[pa.Table, pa.Table]) -> Differences:
    lake, server = sides
    found = Differences()
    shares(lake, ["id"], 7)
    compare_by_key(lake, server, ["id"], found, unknown={"u"})
    compare_bags(lake.drop(["id"]), server.drop(["id"]), found, unknown={"u"})
    compare_bags(lake, server, found, unknown={"u"})
    return found


PROOF_STEPS: dict[str, Case] = {
    "values that are compared with a server": (_columns, _in_form),
    "rows that are compared with a server": (_sides, _compared),
    "rows of a lake and of a server in one form": (_columns, _in_rows),
}
