"""Renames and merges: names in the lake, the words of their mistakes, and settings that name tables by either name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.errors import ConfigErrors
from dts_assets.model.columns import ColumnShape
from dts_assets.model.routes import Rename, Routes, routed_columns
from dts_assets.model.tables import TableId
from dts_assets.settings.load import settings_of_text
from dts_assets.settings.models import Subscription
from dts_assets.settings.routes import may_share, routes_of

FILE = """
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: ./messages}}
    partitions: 1
    window: {{every: 1h, start: "2026-01-05T00:00Z"}}
    {0}
"""


def subscription(*lines: str) -> Subscription:
    text = FILE.format("\n    ".join(lines))
    return settings_of_text(text, name="pipeline.yaml", folder=Path()).subscriptions["shop"]


def mistakes(*lines: str) -> str:
    with pytest.raises(ConfigErrors) as raised:
        subscription(*lines)
    return str(raised.value)


@pytest.mark.parametrize(
    ("source", "name", "table", "expected"),
    [
        ("shopdb.orders", "sales.orders", ("shopdb", "", "orders"), ("sales", "", "orders")),
        ("shopdb.*", "sales.*", ("shopdb", "", "a.b"), ("sales", "", "a.b")),
        ("shopdb.*", "sales.*", ("shopdb", "", "订单"), ("sales", "", "订单")),
        ("shop_*.orders", "shop.orders_*", ("shop_07", "", "orders"), ("shop", "", "orders_07")),
        ("*.*", "ods.*_*", ("crm", "", "clients"), ("ods", "", "crm_clients")),
        ("*.*", "*.ods_*", ("crm", "", "clients"), ("crm", "", "ods_clients")),
        ("db.dbo.*", "db.*", ("db", "dbo", "orders"), ("db", "", "orders")),
        ("db.*", "db.public.*", ("db", "", "orders"), ("db", "public", "orders")),
        ("%.orders", "x.orders", ("", "", "orders"), ("x", "", "orders")),
        ("SCOTT.*", "scott.*", ("", "SCOTT", "EMP"), ("scott", "", "EMP")),
        ("shopdb.Orders", "sales.orders", ("shopdb", "", "orders"), None),
        ("shopdb.a+b", "sales.ab", ("shopdb", "", "aab"), None),
        ("shopdb.*", "sales.*", ("shopdb", "", "line\nbreak"), ("sales", "", "line\nbreak")),
    ],
)
def test_names_in_the_lake(
    source: str, name: str, table: tuple[str, str, str], expected: tuple[str, str, str] | None
) -> None:
    found = Rename(source, name).lake_table(TableId(*table))
    assert found == (None if expected is None else TableId(*expected))


NAMES = st.text("ab_.*?[]%\n", min_size=1, max_size=4).filter(lambda text: text != "%")


@given(
    st.sampled_from(["shopdb.*", "*.*", "*.a_*", "a*b.*"]),
    st.sampled_from(["x.*", "*.y_*", "*.*", "*_z.*"]),
    NAMES,
    NAMES,
)
def test_names_in_the_lake_lead_back(source: str, name: str, database: str, table: str) -> None:
    """Where the stars can be told apart; a star between other signs may match in several ways."""
    if source.count("*") != name.count("*"):
        return
    rename, one = Rename(source, name), TableId(database, "", table)
    found = rename.lake_table(one)
    if found is not None:
        back = rename.source_table(found)
        assert back is not None
        assert rename.lake_table(back) == found
        if "." not in "".join((database, table)):
            assert back == one


SOME = st.sampled_from([TableId(database, "", table) for database in "ab" for table in ("x", "y", "xy", "yx")])
RENAMES = st.lists(
    st.sampled_from(
        [
            ("a.x", "l.1"),
            ("a.*", "m.*"),
            ("a.y", "l.2"),
            ("*.x*", "n.*_*"),
            ("b.*", "l.*"),
            ("b.xy", "l.3"),
            ("a.x", "l.4"),
        ]
    ),
    unique=True,
)


@given(RENAMES, SOME)
def test_the_first_rename_that_matches_counts(renames: list[tuple[str, str]], table: TableId) -> None:
    routes = Routes(tuple(Rename(*one) for one in renames))
    found = [one for rename in renames if (one := Rename(*rename).lake_table(table)) is not None]
    assert routes.lake_table(table) == (found[0] if found else table)
    assert not found or table in routes.renamed_from(found[0])


MERGE = 'merge: {"shop.orders": ["shop_*.orders_*"]}'
ORDERS = TableId("shop", "", "orders")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['rename: {"shopdb.*": "sales.x"}'], "rename.shopdb.*: the name has not as many stars as its tables"),
        (['rename: {"a.b": "x.y", "c.d": "x.y"}'], "several tables would be called x.y"),
        (['rename: {"a.b": "a.c", "a.c": "a.b"}'], "a.c would mean two tables, since that table is renamed, too"),
        (['rename: {"*": "x.y"}'], '"x.y" is no name that can be renamed'),
        (['rename: {"a.[bc]": "x.y"}'], "is no name that can be renamed"),
        (['rename: {"a.b": "orders"}'], '"orders" names no tables'),
        (['tables: {include: ["a.b", "c.d"]}', 'rename: {"a.b": "c.d"}'], "a.b and c.d would both be the table c.d"),
        (['tables: {include: ["shop.orders", "shop_1.orders_1"]}', MERGE], "would both be the table shop.orders"),
        (['merge: {"shop.*": ["shop_*.orders_*"]}'], "the key is not the name of one table"),
        (['merge: {"shop.orders": ["*"]}'], '"*" would make one table of all'),
        (['merge: {"shop.orders": []}'], "nothing is listed"),
        (['merge: {"shop.orders": ["a.o_*", "a.b.o_*"]}'], "its globs have not equally many parts"),
        (['rename: {"a.b": "shop.orders"}', MERGE], "a.b is renamed to the same name"),
        (['rename: {"shop_1.orders_1": "a.b"}', MERGE], "shop_1.orders_1 is one of its shards and is renamed, too"),
        (
            [MERGE, 'history: ["shop_00.orders_*"]'],
            "shop_00.orders_* means some shards of the merged table shop.orders",
        ),
        ([MERGE, 'rows: {"shop_*.orders_1*": "id = 1"}'], "means some shards of the merged table"),
        ([MERGE, 'columns: {"shop_?1.*.email": drop}'], "means some shards of the merged table"),
        ([MERGE, "types: {shop_01.orders_01.n: int}"], "means some shards of the merged table"),
        ([MERGE, 'type_mapping: {"*_[0-9].*": [to-string]}'], "means some shards of the merged table"),
        ([MERGE, 'sql: {tables: ["*"]}'], "statements of the merged table shop.orders cannot be written out"),
        ([MERGE, 'sql: {tables: ["shop_01.orders_0001"]}'], "means some shards of the merged table"),
    ],
)
def test_a_mistake_is_named_with_a_way_out(lines: list[str], says: str) -> None:
    assert says in mistakes(*lines)


def test_settings_mean_a_table_by_either_name() -> None:
    found = subscription(
        'rename: {"shopdb.*": "sales.*"}', MERGE, 'history: ["shopdb.a", "sales.b", "shop_*.orders_*"]',
        "deletes: {shop_*.*: soft}", 'columns: {"shopdb.a.x": drop, "*._source_table": drop}', "types: {shopdb.a.n: string}",
        "schema_changes: {shopdb.a: freeze, '*': keep}",
    )  # fmt: skip
    routes, a, b, c = found.routes, *(TableId("sales", "", name) for name in "abc")
    means = {table: [routes.means(table, glob) for glob in found.history] for table in (a, b, c, ORDERS)}
    assert means == {
        a: [True, False, False], b: [False, True, False], c: [False, False, False], ORDERS: [False, False, True],
    }  # fmt: skip
    assert "_deleted_at" in found.snapshot_columns(ORDERS)
    assert found.snapshot_columns(a) == ("_new_columns",)
    assert found.rule_finder(a)("x") is not None
    assert found.rule_finder(ORDERS)("_source_table") is None
    assert found.rule_finder(a)("_source_table") is not None
    assert found.types_of(a) == {"n": "string"}
    assert found.schema_policy(a) == "freeze"
    assert found.schema_policy(ORDERS) == "follow"


def test_shards_get_the_columns_that_tell_them() -> None:
    routes = routes_of({"crm.*": "sales.*"}, {"shop.orders": ("shop_*.orders_*",), "pg.leaves": ("pg.*.leaf_*",)})
    key, other = ColumnShape("id", "int", is_key=True), ColumnShape("n", "int", is_key=False)
    one, leaf = TableId("shop_1", "", "orders_1"), TableId("pg", "public", "leaf_1")
    names = [(column.name, column.is_key) for column in routed_columns(routes, one, (key, other))]
    assert names == [("id", True), ("n", False), ("_source_database", True), ("_source_table", True)]
    assert [column.is_key for column in routed_columns(routes, one, (other,))] == [False] * 3
    assert routed_columns(routes, TableId("crm", "", "x"), (key,)) == (key,)
    assert routes.shard_columns(TableId("pg", "", "leaves")) == ("_source_database", "_source_schema", "_source_table")
    assert routes.shard(leaf) == ("pg", "public", "leaf_1")
    assert routes.dropped_shards(ORDERS, "shop_9") == ("shop_9", "")
    assert routes.dropped_shards(ORDERS, "crm") == ()


def test_a_subscription_without_routes_has_none() -> None:
    found = subscription()
    assert not found.routes
    assert found.routes == Routes()
    assert found.routes.lake_table(ORDERS) == ORDERS


GLOBS = st.text("ab*?", min_size=1, max_size=5)


@given(GLOBS, GLOBS)
def test_globs_share_a_name_if_some_text_matches_both(one: str, other: str) -> None:
    texts = [""]
    for _ in range(6):
        texts += [text + sign for text in texts for sign in "ab" if len(text) == len(texts[-1])]
    found = any(fnmatchcase(text, one) and fnmatchcase(text, other) for text in texts if text)
    if one.count("*") + other.count("*") == 0 or found:
        assert may_share(f"d.{one}", f"d.{other}") == found
