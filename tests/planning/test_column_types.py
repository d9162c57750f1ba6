"""The type of a lake column from all types at its source, and which of its values the lake holds in another form."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.planning.column_types import (
    ColumnTypes,
    ConvertedColumn,
    column_types,
    converted_columns,
    converted_in_windows,
)

NUMBER = Column("n", "string", False, ("N", "n"), (("date", "date"), ("int(11)", "int")))


def test_types_of_a_column_do_not_depend_on_the_order_of_texts() -> None:
    kinds = {"int(11)": "int", "bigint(20)": "bigint", "date": "date", "float": "float"}
    expected = ColumnTypes("string", tuple(sorted(kinds.items())))
    for order in permutations(kinds):
        assert column_types(kinds[order[0]], {text: kinds[text] for text in order}) == expected
    assert column_types("int", {"int(11)": "int", "bigint(20)": "bigint"}) == ColumnTypes("bigint")
    assert column_types("double", {"float": "float"}) == ColumnTypes("double", (("float", "float"),))


def test_columns_are_named_in_windows_whose_events_have_another_type_or_tell_it() -> None:
    columns = (Column("id", "int", True), NUMBER)
    starts = [datetime(2026, 1, day, tzinfo=UTC) for day in range(5, 10)]
    told = {
        start: [[ColumnShape(name, kind, False), ColumnShape("id", "int(11)", True)]]
        for start, name, kind in zip(
            starts,
            ("N", "n", "n", "N", "n"),
            ("int(11)", "bigint(20)", "varchar(20)", "varchar(20)", "date"),
            strict=True,
        )
    }
    kinds = {"varchar(20)": "string", "bigint(20)": "bigint"}
    found = converted_in_windows(columns, told, starts, kinds.__getitem__)
    assert found == {
        starts[2]: (ConvertedColumn("n", "string", ("bigint(20)", "int(11)")),),
        starts[4]: (ConvertedColumn("n", "string", ("date",)),),
    }
    for until in range(1, 5):
        so_far = {start: told[start] for start in starts[:until]}
        assert converted_in_windows(columns, so_far, starts[until - 1 : until], kinds.__getitem__) == {
            start: one for start, one in found.items() if start == starts[until - 1]
        }, "what comes later changes nothing"


def test_the_columns_of_a_table_with_values_in_another_form_have_a_sentence() -> None:
    columns = (Column("id", "int", True), NUMBER)
    assert converted_columns(columns) == (ConvertedColumn("n", "string", ("date", "int(11)")),)
    assert (
        str(converted_columns(columns)[0]) == "n is date, int(11) in events, and string in the lake for all its types"
    )
