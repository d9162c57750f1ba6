"""Values that are gathered and cast together are those that stand in each entry."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.columns import gathering
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import DecodedChanges
from tests.dts_messages import ABSENT, NULL, dml, number, text
from tests.tiers import examples
from tests.wire.made import batch

WIRE = DtsProtobuf()
TYPES = {
    "int": ("int(11)", pb.INT32, ["1", "-7", "2147483647", "2147483648", "x", "0xFF"]),
    "bigint": ("bigint(20)", pb.INT64, ["9", "-9223372036854775808", "1e3", ""]),
    "decimal(10,2)": ("decimal(10,2)", pb.DECIMAL, ["1.25", "-0.5", "123456789.00", "12.345"]),
    "double": ("double", pb.FLOAT64, ["0.1", "-3e300", "1e999"]),
    "date": ("date", pb.STRING, ["2026-01-05", "0000-00-00", "9999-12-31"]),
    "timestamp_ntz": ("datetime(6)", pb.STRING, ["2026-01-05 01:02:03.5", "2026-13-05 00:00:00"]),
    "boolean": ("tinyint(1)", pb.INT8, ["0", "1", "2"]),
    "string": ("text", pb.STRING, ["", "héé", "a" * 200]),
}
COLUMNS = tuple(Column(f"c{place}", lake, place == 0) for place, lake in enumerate(list(TYPES) * 2))
TABLES = {TableId("shopdb", "", name): COLUMNS for name in ("orders", "bag")}


@st.composite
def _values(draw: st.DrawFn, lake_type: str) -> pb.Data:
    _, data_type, texts = TYPES[lake_type]
    what = draw(st.integers(0, 9))
    if what == 0:
        return NULL
    if what == 1:
        return ABSENT
    value = draw(st.sampled_from(texts))
    if data_type == pb.STRING:
        return text(value)
    return number(value, pb.UINT64 if what == 2 else data_type)


@st.composite
def _events(draw: st.DrawFn) -> pb.Entry:
    columns = draw(st.sampled_from([COLUMNS, COLUMNS[::-1], COLUMNS[:5], (*COLUMNS[3:], COLUMNS[0])]))
    images = st.tuples(*(_values(column.type) for column in columns))
    operation = draw(st.sampled_from([pb.INSERT, pb.UPDATE, pb.DELETE]))
    rows = [
        (() if operation == pb.INSERT else draw(images), () if operation == pb.DELETE else draw(images))
        for _ in range(draw(st.integers(1, 3)))
    ]
    described = [(column.name, TYPES[column.type][0]) for column in columns]
    return dml(described, rows, operation=operation, table=draw(st.sampled_from(["orders", "bag"])))


def _facts(found: DecodedChanges) -> object:
    """Return the rows of each table in their order, and what else was found; numbers of entries are left out."""
    rows = {
        one.table: [
            {name: value for name, value in row.items() if name != "entry_index"} for row in one.batch.to_pylist()
        ]
        for one in found.tables
    }
    return rows, found.rejected, found.unsigned, found.unknown


def _one_by_one(entries: list[pb.Entry]) -> object:
    """Return the facts of entries that are decoded one by one."""
    rows: dict[TableId, list[dict[str, object]]] = {}
    unsigned: frozenset[TaughtType] = frozenset()
    unknown: Counter[str] = Counter()
    for entry in entries:
        found = WIRE.changes(batch(entry), TABLES)
        for table, mine in _facts(found)[0].items():  # type: ignore[index]
            rows.setdefault(table, []).extend(mine)
        unsigned |= found.unsigned
        unknown.update(found.unknown)
    return rows, (), unsigned, dict(unknown)


@examples(60)
@given(st.lists(_events(), min_size=1, max_size=6))
def test_values_are_those_of_entries_decoded_one_by_one(entries: list[pb.Entry]) -> None:
    """However many rows are gathered at once, and however many values are cast together."""
    alone = _one_by_one(entries)
    for long, rows, most in ((1 << 30, 512, 1 << 17), (1, 512, 1 << 17), (1, 1, 1 << 17), (2, 2, 5), (1 << 30, 3, 5)):
        with (
            patch.object(gathering, "_LONG", long),
            patch.object(gathering, "_NEAR", 1),
            patch.object(gathering, "_LEAST_ROWS", rows),
            patch.object(gathering, "_MOST_CELLS", most),
        ):
            found = WIRE.changes(batch(*entries), TABLES)
        for one in found.tables:
            one.batch.validate(full=True)
        assert _facts(found) == alone


@pytest.mark.parametrize("rows", [gathering._LONG - 1, gathering._LONG, 5 * gathering._LEAST_ROWS])
def test_long_columns_have_each_value_where_it_was_sent(rows: int) -> None:
    images = [((), [number(row), number(-row if row % 7 else "many"), number(3 * row)]) for row in range(rows)]
    entry = dml([("a", "int(11)"), ("b", "int(11)"), ("c", "int(11)")], images)
    columns = tuple(Column(name, "int", False) for name in "cab")
    with patch.object(gathering, "_NEAR", 1):
        found = WIRE.changes(batch(entry), {TableId("shopdb", "", "orders"): columns}).tables[0].batch.to_pylist()
    expected = [{"c": 3 * row, "a": row, "b": -row if row % 7 else None} for row in range(rows)]
    assert [row["after"] for row in found] == expected
    assert [row["invalid"] for row in found] == [[] if row % 7 else [("after.b", "many")] for row in range(rows)]
