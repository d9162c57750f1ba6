"""The type of a lake column from all types at its source, and which of its values the lake holds in another form."""

from __future__ import annotations

from itertools import permutations

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.tables import TableId
from dts_assets.planning.column_types import (
    ColumnTypes,
    ConvertedColumn,
    column_types,
    converted_columns,
    source_texts,
)

ITEMS = TableId("shopdb", "", "items")
NUMBER = Column("n", "string", False, ("N", "n"), (("date", "date"), ("int(11)", "int")))


def test_types_of_a_column_do_not_depend_on_the_order_of_texts() -> None:
    kinds = {"int(11)": "int", "bigint(20)": "bigint", "date": "date", "float": "float"}
    expected = ColumnTypes("string", tuple(sorted(kinds.items())))
    for order in permutations(kinds):
        assert column_types(kinds[order[0]], {text: kinds[text] for text in order}) == expected
    assert column_types("int", {"int(11)": "int", "bigint(20)": "bigint"}) == ColumnTypes("bigint")
    assert column_types("double", {"float": "float"}) == ColumnTypes("double", (("float", "float"),))


def test_columns_are_named_in_windows_whose_events_have_another_type() -> None:
    shapes = [(ITEMS, [ColumnShape("N", "int(11)", False), ColumnShape("id", "int(11)", True)])]
    columns = (Column("id", "int", True), NUMBER)
    assert converted_columns(columns, source_texts(shapes)[ITEMS]) == (ConvertedColumn("n", "string", ("int(11)",)),)
    assert converted_columns(columns, {"n": {"varchar(20)"}}) == ()
    assert converted_columns(columns) == (ConvertedColumn("n", "string", ("date", "int(11)")),)
    assert (
        str(converted_columns(columns)[0]) == "n is date, int(11) in events, and string in the lake for all its types"
    )
