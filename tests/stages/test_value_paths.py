"""Values on their way from one schema to a later one: any stop on the way changes nothing, and what is kept needs no way."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import widened
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.server_conversions import convert
from dts_assets.stages.server_types import server_type
from dts_assets.stages.value_keeping import keeps_values
from dts_assets.stages.value_paths import followed, value_path, value_paths
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnModified, ColumnsRenamed, SchemaChange
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema

TABLE = TableId("d", "", "t")
TYPES = (
    "tinyint(4)", "smallint(6)", "int(11)", "int(10) unsigned", "bigint(20)", "bigint(20) unsigned", "decimal(9,2)",
    "decimal(12,2)", "decimal(12,4)", "float", "double", "year(4)", "date", "datetime", "datetime(3)", "datetime(6)", "time",
    "time(3)", "char(3)", "char(9)", "varchar(3)", "varchar(9)", "varchar(200)", "tinytext", "text", "mediumtext", "binary(3)",
    "varbinary(3)", "varbinary(9)", "blob", "bit(3)", "bit(9)", "enum('a','b')", "enum('b','a','c')", "set('a','b')",
    "set('a','b','c')",
)  # fmt: skip
CHARSETS = ("utf8mb4", "latin1", "gbk", None)
VALUES: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -1, 127, 2026, -32768), "bigint": (0, 7, 4294967295, -(1 << 40)),
    "decimal(20,0)": (Decimal(0), Decimal((1 << 64) - 1)),
    "float": (0.0, 0.5, -2.5, 1e10), "double": (0.0, 0.1, 1e15, -3.25),
    "date": (date(1, 1, 1), date(26, 1, 5), date(2026, 1, 5)),
    "timestamp_ntz": (datetime(2026, 1, 5, 10), datetime(99, 12, 31, 23, 59, 59, 999000)),
    "string": ("", "7", "a", "b", "x", "naïve", "10:11:12", "2026-01-05", "-1.5"), "binary": (b"", b"ab\0", b"7"),
}  # fmt: skip


def column(kind: str, charset: str | None, *, nullable: bool = True) -> SchemaColumn:
    has_charset = kind.partition("(")[0] in ("char", "varchar", "tinytext", "text", "mediumtext", "enum", "set")
    return SchemaColumn("c", kind, charset if has_charset else None, nullable)


COLUMNS = st.builds(column, st.sampled_from(TYPES), st.sampled_from(CHARSETS), nullable=st.booleans())


def lake_type(one: SchemaColumn) -> str:
    found = server_type(one)
    assert found is not None, one.type
    return found.lake_type


def values_of(one: SchemaColumn) -> pa.Array:
    """Values that the column may have, and NULL where it may."""
    kind, found = lake_type(one), server_type(one)
    assert found is not None
    values = VALUES.get(kind, (Decimal(0), Decimal("1.25"), Decimal("-9.5")))
    if found.labels:
        values = found.labels
    elif kind in ("string", "binary") and (most := found.length):
        values = tuple(value for value in values if len(value) <= most)
    elif kind in ("int", "bigint", "decimal(20,0)") and one.type[:4] != "year":
        least, greatest = found.bounds
        values = tuple(value for value in values if least <= value <= greatest)
    elif one.type[:4] == "year":
        values = (0, 1999, 2026)
    return pa.array([*values, *([None] if one.nullable else [])], arrow_type(kind))


def state(number: int, columns: tuple[SchemaColumn, ...], *changes: SchemaChange, told: bool = False) -> SchemaState:
    at = SourcePosition(0, 1, 100 * number)
    statement = None if told else SourceStatement(at, "d", "ALTER", datetime(2026, 1, 5))
    return SchemaState(at, TableSchema(columns), None, statement, changes)


def lives(kinds: list[SchemaColumn], *, told: list[bool]) -> list[SchemaState]:
    """The states of a table whose column becomes each of some types; events tell a change of which no statement told."""
    found = [state(0, (kinds[0],))]
    for number, new in enumerate(kinds[1:], 1):
        before = found[-1].schema
        assert before is not None
        modified = () if told[number - 1] else (ColumnModified(TABLE, before.columns[0], new),)
        found.append(state(number, (new,), *modified, told=told[number - 1]))
    return found


@given(st.lists(COLUMNS, min_size=3, max_size=5), st.data())
def test_a_stop_on_the_way_changes_no_value(kinds: list[SchemaColumn], data: st.DataObject) -> None:
    """A snapshot that follows each statement in its own run is one that follows all of them at once."""
    told = data.draw(st.lists(st.booleans(), min_size=len(kinds) - 1, max_size=len(kinds) - 1))
    states, last = lives(kinds, told=told), len(kinds) - 1
    stop = data.draw(st.integers(1, last - 1))
    values = values_of(kinds[0])
    count = len(values)
    at_once = followed(value_path(states, 0, last, "c"), values, None, count, lake_type(kinds[-1]), None)
    half = followed(value_path(states, 0, stop, "c"), values, None, count, lake_type(kinds[stop]), None)
    in_two = followed(value_path(states, stop, last, "c"), half.values, half.texts, count, lake_type(kinds[-1]), None)
    # A value that is not known is NULL in a snapshot, which a later run cannot tell from NULL: it may become a zero then.
    same = ~half.unknown
    assert in_two.values.filter(pa.array(same)).equals(at_once.values.filter(pa.array(same)))
    assert in_two.texts.filter(pa.array(same)).equals(at_once.texts.filter(pa.array(same)))


@given(COLUMNS, COLUMNS)
def test_a_change_that_keeps_values_needs_no_way(old: SchemaColumn, new: SchemaColumn) -> None:
    if not keeps_values(old, new):
        return
    kinds = server_type(old), server_type(new)
    assert kinds[0] is not None
    assert kinds[1] is not None
    assert widened(kinds[0].lake_type, kinds[1].lake_type) == kinds[1].lake_type
    values = values_of(old)
    made = convert(values, pa.nulls(len(values), pa.string()), kinds[0], kinds[1])
    known = pa.array(~made.unknown)
    assert made.values.filter(known).equals(held_as(values, arrow_type(kinds[1].lake_type)).filter(known))
    assert made.unknown.mean() < 0.5 or None in (old.charset, new.charset)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("int(11)", "bigint(20)", True),
        ("bigint(20)", "int(11)", False),
        ("int(11)", "int(10) unsigned", False),
        ("varchar(10)", "varchar(20)", True),
        ("varchar(20)", "varchar(10)", False),
        ("varchar(200)", "tinytext", False),
        ("varchar(9)", "char(9)", False),
        ("decimal(9,2)", "decimal(12,2)", True),
        ("decimal(9,2)", "decimal(12,4)", False),
        ("datetime", "datetime(6)", True),
        ("time", "time(3)", False),
        ("float", "double", True),
        ("enum('a','b')", "enum('b','a','c')", True),
        ("set('a','b')", "set('b','a')", False),
        ("binary(3)", "binary(5)", False),
        ("int(11)", "varchar(20)", False),
    ],
)
def test_what_is_kept(old: str, new: str, *, kept: bool) -> None:
    assert keeps_values(column(old, "utf8mb4"), column(new, "utf8mb4")) is kept


def test_columns_that_change_names_and_come_are_found_again() -> None:
    one, other = (SchemaColumn(name, "int(11)") for name in "ab")
    added = SchemaColumn("a", "varchar(9)", "utf8mb4", default="'x'")
    states = [
        state(0, (one, other)),
        state(1, (other, one), ColumnsRenamed(TABLE, (("a", "b"), ("b", "a")))),
        state(2, (SchemaColumn("b", "int(11)"),)),
        state(3, (added, SchemaColumn("b", "int(11)")), ColumnAdded(TABLE, added, None, Fill.VALUE, "x")),
    ]
    paths = value_paths(states, 0, 3, ["a", "b"])[0]
    assert (paths["b"].origin, paths["b"].has_steps) == ("a", False)
    assert paths["a"].origin is None
    made = followed(paths["a"], None, None, 2, "string", None)
    assert (made.values.to_pylist(), made.unknown.tolist()) == (["x", "x"], [False, False])


def test_a_value_that_is_none_of_its_type_keeps_its_text() -> None:
    """Events told the new type no earlier than at the end of their window: values of it may stand before."""
    states = lives([column("int(11)", None), column("date", None)], told=[True])
    stored = pa.array(["7", "2026-01-05", "x"])
    made = followed(value_path(states, 0, 1, "c"), stored, None, 3, "date", None)
    assert made.values.to_pylist()[1] == date(2026, 1, 5)
    assert made.texts.to_pylist()[2] == "x"
    assert not np.any(made.unknown[1:])
