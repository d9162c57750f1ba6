"""Names of source tables: whatever stands in them, they become paths that can be carried, each a path of its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.tables import FOLDER_BYTES, TableId, encode_part, folder_name, path_part

names = st.text(min_size=1)
"""Of all characters, halves of surrogate pairs among them."""

DIFFICULT = (
    "",
    "%",
    "~",
    ".",
    "..",
    "/",
    "a/b",
    "%25",
    "a",
    "A",
    "b",
    "a.b",
    "a__b",
    "\0",
    "\ud800",
    "\u202eab",
    "é",
    "e\u0301",
)

parts = st.one_of(
    st.sampled_from(DIFFICULT),
    st.text(max_size=8),
    st.text("订单.%~\0aA😀", max_size=3).map(lambda text: text * 200),
)


def decoded(part: str) -> str:
    return re.sub(
        r"(?:%[0-9A-F]{2})+",
        lambda found: bytes.fromhex(found.group().replace("%", "")).decode(errors="surrogatepass"),
        part,
    )


@given(names)
@example("shop.db")
@example("100%25")
@example("%2E")
@example("a/b\\c|d,e[f]g…h")
@example("订单 明细")
@example("\x00\n")
@example("😀")
@example("\ud800")
def test_every_name_comes_back_from_its_encoding(name: str) -> None:
    assert decoded(encode_part(name)) == name


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


@given(names)
@example("订" * 42)
@example("订" * 43)
@example("😀" * 64)
@example("." * 64)
@example("x" * 100_000)
def test_no_folder_is_too_long_and_short_names_stay(name: str) -> None:
    part = path_part(name)
    assert folder_name(part).isascii()
    assert len(folder_name(part)) <= FOLDER_BYTES
    assert part == encode_part(name) or len(folder_name(encode_part(name))) > FOLDER_BYTES


def test_a_long_part_begins_as_its_name_and_ends_with_a_digest() -> None:
    found = path_part("订" * 64)
    assert re.fullmatch(r"订{36}~[0-9a-f]{32}", found)
    assert path_part("订" * 65) != found
    assert re.fullmatch(r"a(%2E)+~[0-9a-f]{32}", path_part("a" + "." * 64)), "no escape is cut in two"


def test_an_empty_part_is_a_percent_sign() -> None:
    assert TableId("", "", "").path == ("%", "%")
    assert TableId("shopdb", "", "").path == ("shopdb", "%")
    assert TableId("", "", "orders").path == ("%", "orders")
    assert TableId("", "public", "orders").path == ("%", "public", "orders")
    assert TableId("%", "", "orders").path == ("%25", "orders")
    assert str(TableId("", "", "orders")) == "%.orders"


@given(st.tuples(parts, parts, parts), st.tuples(parts, parts, parts))
@example(("a", "", "b"), ("", "a", "b"))
@example(("", "", "a"), ("", "a", ""))
@example(("a", "b", ""), ("a", "", "b"))
@example(("a.b", "", "c"), ("a", "b", "c"))
@example(("", "", ""), ("%", "", "%"))
@example(("a", "", "订" * 64), ("a", "", path_part("订" * 64)))
def test_two_tables_never_share_a_path_or_a_folder(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    first, second = TableId(*one).path, TableId(*other).path
    assert (first == second) == (one == other)
    assert (tuple(map(folder_name, first)) == tuple(map(folder_name, second))) == (one == other)
    assert all(first)


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
        ("*.orders", TableId("", "", "orders"), True),
        ("%.orders", TableId("", "", "orders"), True),
        ("shopdb.%", TableId("shopdb", "", ""), True),
        ("orders", TableId("", "", "orders"), False),
    ],
)
def test_a_glob_names_a_table_part_by_part(pattern: str, table: TableId, named: bool) -> None:
    assert table.matches(pattern) is named
