"""Tables that a statement may be about are found by the words of their names, whatever else the statement says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.statement_words import TablesByWord, tables_in_words, words_of
from dts_assets.model.tables import TableId

NAMES = st.sampled_from(["orders", "order-items", "orders old", "ÄÖ", "☃", "-", "a$b", "items"])


@given(st.lists(NAMES, unique=True), st.lists(NAMES, max_size=3))
def test_every_table_in_a_statement_is_found_among_many(known: list[str], named: list[str]) -> None:
    tables = [TableId("shop", "", name) for name in known]
    sql = "RENAME TABLE " + ", ".join(f"`{name}` TO b" for name in named)
    found = TablesByWord(tables).named_in(sql)
    assert {one.table for one in found} >= {*known} & {*named}
    assert found == {*tables_in_words(words_of(sql), tables)}


def test_a_name_is_found_by_all_of_its_words() -> None:
    orders, old = TableId("shop", "", "orders"), TableId("shop", "", "orders old")
    assert TablesByWord([orders, old]).named_in("DROP TABLE orders") == {orders}
    assert TablesByWord([orders, old]).named_in("DROP TABLE `orders old`") == {orders, old}


def test_a_name_of_signs_alone_may_stand_in_every_statement() -> None:
    assert TablesByWord([TableId("shop", "", "-")]).named_in("DROP TABLE orders")
