"""Rows behind statements as lists grow: values of every kind that become every other kind, and statements of many changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pyarrow as pa

from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import AlteredRows, Cells
from dts_assets.stages.server_conversions import convert
from dts_assets.stages.server_types import ServerType, server_type
from dts_assets.wire.columns.casts import arrow_type, parse
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnDropped, ColumnModified, ColumnsRenamed
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from tests.growth.long_histories import Case

_TABLE = TableId("shopdb", "", "items")

_TYPES = {
    "int(11)": "{0}", "decimal(12,2)": "{0}.25", "double": "{0}.5", "bit(40)": "{0}", "year(4)": "2026", "date": "2026-01-05",
    "datetime(3)": "2026-01-05 10:00:00.5", "timestamp": "2026-01-05 10:00:00 +00:00", "time(3)": "10:11:12.5",
    "varchar(30)": "{0}.5e1 naïve 茶", "varbinary(30)": "{0}", "enum('a','b')": "a", "set('a','b')": "a,b", "longtext": "{0}",
    "binary(9)": "{0}", "decimal(60,2)": "1{0:050}.25",
}  # fmt: skip


def _type(text: str) -> ServerType:
    texts = text.startswith(("varchar", "enum", "set", "longtext"))
    found = server_type(SchemaColumn("v", text, "gbk" if text.startswith("long") else "utf8mb4" if texts else None))
    assert found is not None
    return found


def _values(text: str, count: int) -> pa.Array:
    kind = _type(text)
    texts = pa.array([_TYPES[text].format(number) for number in range(count)], pa.string())
    if kind.lake_type in ("string", "binary"):
        return texts.cast(arrow_type(kind.lake_type))
    return parse(texts.cast(pa.binary()), kind.lake_type)[0]


def _conversions(columns: dict[str, pa.Array]) -> None:
    for old, new in product(columns, repeat=2):
        convert(columns[old], pa.nulls(len(columns[old]), pa.string()), _type(old), _type(new))


def _changes(count: int) -> Sequence[Any]:
    old, new = SchemaColumn("v", "int(11)"), SchemaColumn("v", "varchar(30)", "utf8mb4")
    added = SchemaColumn("w", "varchar(9)", "utf8mb4")
    some = (
        ColumnModified(_TABLE, old, new), ColumnModified(_TABLE, new, old), ColumnAdded(_TABLE, added, None, Fill.VALUE, "x"),
        ColumnsRenamed(_TABLE, (("w", "u"),)), ColumnDropped(_TABLE, "u"),
    )  # fmt: skip
    return some * (count // 5 + 1)


ALTERED_STEPS: dict[str, Case] = {
    "values that become every other type": (
        lambda count: {text: _values(text, count) for text in _TYPES},
        _conversions,
    ),
    "changes of a table's columns": (
        lambda count: _changes(count // 20),
        lambda changes: AlteredRows({"v": Cells.of(_values("int(11)", 9))}, 9).behind(changes, at=None),
    ),
}
"""By kind: what makes a list, and what is done with it."""
