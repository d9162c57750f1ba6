"""Names of source tables: whatever stands in them, they become paths that can be carried, and come back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.tables import TableId, decode_part, encode_part

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names)
@example("shop.db")
@example("100%25")
@example("%2E")
@example("a/b\\c|d,e[f]g…h")
@example("订单 明细")
@example("\x00\n")
@example("😀")
def test_every_name_comes_back_from_its_encoding(name: str) -> None:
    assert decode_part(encode_part(name)) == name


@given(names)
def test_an_encoded_part_holds_nothing_that_catalog_path_or_dagster_cannot_carry(name: str) -> None:
    # Dots nest namespaces in Iceberg, bars and brackets and commas are Dagster's own, slashes are the path's.
    assert not re.search(r"[./\\|\[\],\x00-\x1f\x7f\"'`:*?<>]", encode_part(name))


@given(names, names)
def test_two_names_never_share_an_encoding(one: str, other: str) -> None:
    assert (encode_part(one) == encode_part(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("orders", "orders"),
        ("order-lines_2", "order-lines_2"),
        ("订单", "订单"),
        ("two words", "two words"),
        ("shop.db", "shop%2Edb"),
        ("a%b", "a%25b"),
        ("a/b", "a%2Fb"),
        ("😀", "%F0%9F%98%80"),
    ],
)
def test_encodings_by_example(name: str, encoded: str) -> None:
    assert encode_part(name) == encoded


def test_parts_that_a_source_does_not_have_are_left_out() -> None:
    assert TableId("shopdb", "", "orders").parts == ("shopdb", "orders")
    assert TableId("", "SCOTT", "EMP").parts == ("SCOTT", "EMP")
    assert TableId("db", "public", "t").path == ("db", "public", "t")
    assert str(TableId("shop.db", "", "a%b")) == "shop.db.a%b"
    assert TableId("shop.db", "", "a%b").path == ("shop%2Edb", "a%25b")


@pytest.mark.parametrize(
    ("pattern", "table", "named"),
    [
        ("*", TableId("shopdb", "", "orders"), True),
        ("*", TableId("db", "public", "t"), True),
        ("shopdb.*", TableId("shopdb", "", "orders"), True),
        ("shopdb.*", TableId("shopdb2", "", "orders"), False),
        ("shopdb.*", TableId("shopdb", "public", "orders"), False),
        ("*.*", TableId("db", "public", "t"), False),
        ("db.*.t", TableId("db", "public", "t"), True),
        ("SCOTT.EMP*", TableId("", "SCOTT", "EMPLOYEES"), True),
        ("shopdb.Orders", TableId("shopdb", "", "orders"), False),
        ("shopdb.order?", TableId("shopdb", "", "orders"), True),
        ("shop[ab].t", TableId("shopb", "", "t"), True),
        ("shopdb.orders", TableId("shopdb", "", "orders_old"), False),
    ],
)
def test_a_glob_names_a_table_part_by_part(pattern: str, table: TableId, named: bool) -> None:
    assert table.matches(pattern) is named
