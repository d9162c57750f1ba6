"""The model of schemas for itself: the traps by hand, the laws of its changes, and statements that others damaged."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnModified,
    ColumnsRenamed,
    ColumnsReordered,
    DatabaseCharsetChanged,
    DatabaseDropped,
    DefaultChanged,
    Doubted,
    KeyChanged,
    RowsChanged,
    SchemaChange,
    TableCharsetChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from dts_assets.wire.ddl.schema_model import Applied, apply
from dts_assets.wire.ddl.table_schemas import Catalog, Family, SchemaColumn, ServerRules, TableSchema
from tests.tiers import examples, times
from tests.wire.followed_changes import followed
from tests.wire.random_statements import DATABASES, RandomStatements
from tests.wire.schema_scripts import ORDERS, SCRIPTS

MARIADB = ServerRules(Family.MARIADB, charset="utf8mb4")
EMPTY = Catalog(dict.fromkeys(DATABASES, "utf8mb4"), {}, MARIADB)


def run(*statements: str, catalog: Catalog = EMPTY) -> Applied:
    """The result of the last statement; all must be followed."""
    result = Applied(catalog)
    for sql in statements:
        result = apply(result.catalog, sql, "shop")
        assert result.problem is None, (sql, result.problem)
    return result


def named(table: str, database: str = "shop") -> TableId:
    return TableId(database, "", table)


def shown(schema: TableSchema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(f"{one.name} {one.type} {one.charset or ''}".strip() for one in schema.columns), schema.key


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_trap(name: str) -> None:
    catalog = run(*SCRIPTS[name].statements).catalog
    found = {table.table: shown(schema) for table, schema in catalog.tables.items()}
    if name != "a database goes with its tables":
        assert all(table.database == "shop" for table in catalog.tables)
    assert found == SCRIPTS[name].tables
    assert not [schema for schema in catalog.tables.values() if schema.doubt]


T = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9) NOT NULL DEFAULT 'x', c TEXT)"
_T = named("t")
_INT = SchemaColumn("n", "int(11)")
_A, _C = SchemaColumn("a", "int(11)"), SchemaColumn("c", "text", "utf8mb4")

CHANGES: dict[str, list[SchemaChange]] = {
    "ALTER TABLE t ADD n INT": [ColumnAdded(_T, _INT, "c", Fill.NULL, None)],
    "ALTER TABLE t ADD n INT FIRST": [ColumnAdded(_T, _INT, None, Fill.NULL, None)],
    "ALTER TABLE t ADD n INT NOT NULL AFTER a":
        [ColumnAdded(_T, SchemaColumn("n", "int(11)", nullable=False), "a", Fill.VALUE, "0")],
    "ALTER TABLE t ADD n INT DEFAULT '7'": [ColumnAdded(_T, SchemaColumn("n", "int(11)", default="'7'"), "c", Fill.VALUE, "7")],
    "ALTER TABLE t ADD n DATETIME DEFAULT NOW()":
        [ColumnAdded(_T, SchemaColumn("n", "datetime", default="NOW()"), "c", Fill.NOW, None)],
    "ALTER TABLE t ADD n TIME(3) NOT NULL":
        [ColumnAdded(_T, SchemaColumn("n", "time(3)", nullable=False), "c", Fill.VALUE, "00:00:00.000")],
    "ALTER TABLE t ADD n ENUM('it''s', 'b') NOT NULL":
        [ColumnAdded(_T, SchemaColumn("n", "enum('it''s','b')", "utf8mb4", nullable=False), "c", Fill.VALUE, "it's")],
    "ALTER TABLE t ADD n INT AS (a + 1)":
        [ColumnAdded(_T, SchemaColumn("n", "int(11)", generated=True), "c", Fill.UNKNOWN, None)],
    "ALTER TABLE t ADD n CHAR(36) DEFAULT (uuid())":
        [ColumnAdded(_T, SchemaColumn("n", "char(36)", "utf8mb4", default="(uuid())"), "c", Fill.UNKNOWN, None)],
    "ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE":
        [ColumnAdded(_T, SchemaColumn("n", "int(11)", nullable=False, auto_increment=True), "c", Fill.UNKNOWN, None)],
    "ALTER TABLE t DROP b, DROP COLUMN a": [ColumnDropped(_T, "a"), ColumnDropped(_T, "b")],
    "ALTER TABLE t RENAME COLUMN a TO A": [ColumnsRenamed(_T, (("a", "A"),))],
    "ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a": [ColumnsRenamed(_T, (("a", "c"), ("c", "a")))],
    "ALTER TABLE t CHANGE a n BIGINT UNSIGNED":
        [ColumnsRenamed(_T, (("a", "n"),)), ColumnModified(_T, _INT, SchemaColumn("n", "bigint(20) unsigned"))],
    "ALTER TABLE t MODIFY a INT": [],
    "ALTER TABLE t MODIFY a INT NOT NULL": [ColumnModified(_T, _A, SchemaColumn("a", "int(11)", nullable=False))],
    "ALTER TABLE t MODIFY c TEXT CHARACTER SET gbk": [ColumnModified(_T, _C, SchemaColumn("c", "text", "gbk"))],
    "ALTER TABLE t MODIFY a INT FIRST": [ColumnsReordered(_T, ("a", "id", "b", "c"))],
    "ALTER TABLE t ALTER b SET DEFAULT 'y'": [DefaultChanged(_T, "b", "'y'")],
    "ALTER TABLE t ALTER b DROP DEFAULT": [DefaultChanged(_T, "b", None)],
    "ALTER TABLE t ALTER COLUMN a SET INVISIBLE": [ColumnModified(_T, _A, SchemaColumn("a", "int(11)", invisible=True))],
    "ALTER TABLE t DROP PRIMARY KEY": [KeyChanged(_T, ("id",), ())],
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)": [KeyChanged(_T, ("id",), ("b", "id"))],
    "ALTER TABLE t DROP id": [ColumnDropped(_T, "id"), KeyChanged(_T, ("id",), ())],
    "ALTER TABLE t RENAME COLUMN id TO `key`": [ColumnsRenamed(_T, (("id", "key"),))],
    "ALTER TABLE t DEFAULT CHARSET latin1": [TableCharsetChanged(_T, "latin1")],
    "ALTER TABLE t RENAME TO `Other.db`.u, DROP a": [ColumnDropped(_T, "a"), TableRenamed(_T, named("u", "Other.db"))],
    "ALTER TABLE t ADD n INT FIRST, MODIFY c TEXT AFTER n, DROP a":
        [ColumnDropped(_T, "a"), ColumnsReordered(_T, ("c", "id", "b")), ColumnAdded(_T, _INT, None, Fill.NULL, None)],
    "RENAME TABLE t TO s, s TO t": [TableRenamed(_T, named("s")), TableRenamed(named("s"), _T)],
    "TRUNCATE t": [TableTruncated(_T)],
    "DROP TABLE IF EXISTS t, missing": [TableDropped(_T)],
    "DROP DATABASE shop": [DatabaseDropped("shop")],
    "ALTER DATABASE CHARACTER SET latin1": [DatabaseCharsetChanged("shop", "latin1")],
    "CREATE TABLE IF NOT EXISTS t (z INT)": [],
    "CREATE UNIQUE INDEX u ON t (a)": [],
    "DROP INDEX `PRIMARY` ON t": [KeyChanged(_T, ("id",), ())],
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE `Other.db`.u":
        [RowsChanged(_T, "exchange partition"), RowsChanged(named("u", "Other.db"), "exchange partition")],
    "ALTER TABLE t DROP PARTITION p, q": [RowsChanged(_T, "drop partition")],
    "ALTER TABLE t IMPORT TABLESPACE": [RowsChanged(_T, "import tablespace")],
    "ALTER TABLE t ENGINE=BLACKHOLE": [RowsChanged(_T, "another engine")],
    "ALTER IGNORE TABLE t ADD UNIQUE (a)": [RowsChanged(_T, "rows with equal keys go")],
    "ALTER TABLE t ORDER BY a DESC, b": [],
    "OPTIMIZE TABLE t": [],
    "GRANT ALL ON t TO someone": [],
}  # fmt: skip


@pytest.mark.parametrize(("sql", "changes"), CHANGES.items())
def test_what_changes(sql: str, changes: list[SchemaChange]) -> None:
    assert list(run(T, sql).changes) == changes


NOT_FOLLOWED = {
    "CREATE TABLE u AS SELECT * FROM t": "a query makes the columns",
    "CREATE TABLE u (a INT) SELECT * FROM t": "a query makes the columns",
    "CREATE TABLE u (a INT) PARTITION BY HASH (a) AS SELECT * FROM t": "a query makes the columns",
    "CREATE TABLE u (a INT, PERIOD FOR p (a, b))": "versions of rows",
    "CREATE TABLE u (a INT) WITH SYSTEM VERSIONING": "versions of rows",
    "ALTER TABLE t ADD n FANCY(3)": "a type that is not known",
    "ALTER TABLE t ADD n TEXT CHARACTER SET klingon": "a character set that is not known",
    "ALTER TABLE t DROP missing": "a column that the table does not have",
    "ALTER TABLE t ADD a INT": "two columns of one name",
    "ALTER TABLE t ADD n INT AFTER missing": "a place behind a column that the table does not have",
    "ALTER TABLE t ADD PRIMARY KEY (missing)": "a key on a column that the table does not have",
    "ALTER TABLE t MODIFY a INT, MODIFY a BIGINT": "a column that the table does not have",
    "ALTER TABLE t FROBNICATE": "an action that is not known",
    "ALTER TABLE t ADD n INT; UPDATE t SET n = 1": "not a statement that is known",
    "/*!80023 ALTER TABLE t ADD n INT */": "servers read its version comments in different ways",
    "INSERT INTO t VALUES (1)": "not a statement that is known",
    "ALTER TABLE t ADD `n INT": "a quote without its end",
    "EXCHANGE t": "not a statement that is known",
}


@pytest.mark.parametrize(("sql", "reason"), NOT_FOLLOWED.items())
def test_a_statement_that_is_not_followed_leaves_its_table_not_proven_and_all_others_as_they_were(
    sql: str, reason: str
) -> None:
    before = run(T, "CREATE TABLE neighbour (id INT)").catalog
    found = apply(before, sql, "shop")
    assert found.problem == reason
    concerned = named("u") if sql.startswith("CREATE") else _T
    assert {table for table, schema in found.catalog.tables.items() if schema.doubt == reason} == {concerned}
    assert found.catalog.tables[named("neighbour")] is before.tables[named("neighbour")]
    assert found.catalog.tables[_T].columns == before.tables[_T].columns
    assert [type(one) for one in found.changes] == [TableCreated if concerned != _T else Doubted]


def test_a_doubt_stays_until_the_table_is_made_again() -> None:
    doubted = apply(run(T).catalog, "ALTER TABLE t FROBNICATE", "shop").catalog
    later = run("ALTER TABLE t ADD n INT", "RENAME TABLE t TO u", "CREATE TABLE v LIKE u", catalog=doubted).catalog
    assert {table.table: schema.doubt for table, schema in later.tables.items()} == dict.fromkeys(
        ("u", "v"), "an action that is not known"
    )
    again = run("DROP TABLE u", "CREATE TABLE u (id INT)", "CREATE OR REPLACE TABLE v LIKE u", catalog=later).catalog
    assert {schema.doubt for schema in again.tables.values()} == {None}


def test_a_table_that_the_catalog_does_not_know_is_said_and_its_rows_move_all_the_same() -> None:
    found = apply(run(T).catalog, "RENAME TABLE missing TO found, t TO u", "shop")
    assert found.problem == "the table is not known"
    assert found.changes == (TableRenamed(named("missing"), named("found")), TableRenamed(_T, named("u")))
    assert set(found.catalog.tables) == {named("u")}
    assert apply(EMPTY, "ALTER TABLE missing ADD x INT", "shop").problem == "the table is not known"
    assert apply(EMPTY, "DROP TABLE missing", "shop") == Applied(EMPTY, (TableDropped(named("missing")),))


def test_of_a_text_that_is_no_statement_every_table_it_names_may_be_meant() -> None:
    before = run(
        T, "CREATE TABLE `a``b` (x INT)", "CREATE TABLE u (x INT)", "CREATE TABLE `Other.db`.w (x INT)"
    ).catalog

    def doubted(sql: str) -> set[str]:
        tables = apply(before, sql, "shop").catalog.tables.items()
        return {table.table for table, schema in tables if schema.doubt}

    assert doubted("CALL wild(`a``b`, 't')") == {"a`b", "t"}
    assert doubted("LOAD DATA INTO `Other.db`") == {"w"}
    assert doubted("nothing here") == set()
    assert doubted("x" * ((1 << 20) + 1)) == {"a`b", "t", "u", "w"}


def test_mysql_keeps_json_and_mariadb_makes_a_text_of_it() -> None:
    sql = "CREATE TABLE t (j JSON)"
    (mariadb,) = run(sql).catalog.tables.values()
    (mysql,) = run(sql, catalog=Catalog({"shop": "latin1"})).catalog.tables.values()
    assert (shown(mariadb)[0], shown(mysql)[0]) == (("j longtext utf8mb4",), ("j json",))


OF_MYSQL = {
    "CREATE TABLE u (a INT, INDEX f ((a + 1)), INDEX ((CAST(j -> '$.x' AS UNSIGNED ARRAY))), j JSON) START TRANSACTION":
        ("a int(11)", "j json"),
    "CREATE TABLE u (p POINT NOT NULL SRID 4326, g GEOMCOLLECTION, SPATIAL INDEX (p)) AUTOEXTEND_SIZE 4M ENCRYPTION='Y'":
        ("p point", "g geometrycollection"),
    "CREATE TABLE u (a INT CHECK (a > 0) NOT ENFORCED VISIBLE, CHECK (a < 9) ENFORCED) SECONDARY_ENGINE = rapid":
        ("a int(11)",),
    "CREATE TABLE u (a INT COLUMN_FORMAT DYNAMIC STORAGE DISK ENGINE_ATTRIBUTE='{}', b INT) /*!80016 ENCRYPTION='N' */":
        ("a int(11)", "b int(11)"),
    "CREATE TABLE u (`a` int unsigned NOT NULL AUTO_INCREMENT, `b` varchar(20) COLLATE utf8mb4_0900_ai_ci DEFAULT NULL, "
    "PRIMARY KEY (`a`), UNIQUE KEY `b` (`b` DESC) /*!80000 INVISIBLE */) "
    "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci":
        ("a int(10) unsigned", "b varchar(20) utf8mb4"),
    "CREATE TABLE u (a VARCHAR(9) CHARACTER SET gb18030, b VECTOR(3), c YEAR, d INT GENERATED ALWAYS AS (1) STORED NOT NULL)":
        ("a varchar(9) gb18030", "b vector(3)", "c year(4)", "d int(11)"),
    "CREATE TABLE u (a INT, b INT); ALTER TABLE u ALTER INDEX i INVISIBLE, ALTER CHECK c ENFORCED, ALTER COLUMN b SET INVISIBLE, "
    "RENAME KEY i TO j, ALGORITHM=INSTANT; ALTER TABLE u SECONDARY_LOAD; ALTER DATABASE shop READ ONLY = 1":
        ("a int(11)", "b int(11)"),
}  # fmt: skip
"""Statements that MySQL takes and MariaDB does not, from MySQL's manual ("CREATE TABLE Statement", "ALTER TABLE Statement")."""


@pytest.mark.parametrize(("sql", "columns"), OF_MYSQL.items())
def test_a_statement_of_mysql(sql: str, columns: tuple[str, ...]) -> None:
    (schema,) = run(sql, catalog=Catalog(EMPTY.databases)).catalog.tables.values()
    assert shown(schema)[0] == columns


def test_a_server_whose_version_is_known_reads_version_comments_in_one_way() -> None:
    sql = "CREATE TABLE t (a INT /*!80023 INVISIBLE */, b INT /*M!100301 INVISIBLE */)"
    found = {}
    for family, version in (
        (Family.MYSQL, 80036),
        (Family.MYSQL, 50744),
        (Family.MARIADB, 101119),
        (Family.MYSQL, None),
    ):
        applied = apply(Catalog(rules=ServerRules(family, version)), sql, "shop")
        (schema,) = applied.catalog.tables.values()
        found[family.value, version] = [column.name for column in schema.columns if column.invisible], schema.doubt
    unknown = "servers read its version comments in different ways"
    assert found == {
        ("mysql", 80036): (["a"], None), ("mysql", 50744): ([], None), ("mariadb", 101119): (["b"], None),
        ("mysql", None): ([], unknown),
    }  # fmt: skip


def test_a_timestamp_takes_null_as_the_server_is_set() -> None:
    for explicit in (True, False):
        rules = ServerRules(explicit_timestamps=explicit)
        (schema,) = run(
            "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL)", catalog=Catalog({}, {}, rules)
        ).catalog.tables.values()
        assert [column.nullable for column in schema.columns] == [explicit, True]


def test_a_server_without_case_keeps_names_of_tables_in_small_letters() -> None:
    catalog = Catalog({}, {}, ServerRules(lower_case_names=True))
    found = run("CREATE TABLE Shop.T (Id INT)", "ALTER TABLE SHOP.t RENAME Other.U", catalog=catalog).catalog
    assert {table: schema.names for table, schema in found.tables.items()} == {named("u", "other"): ("Id",)}
    assert run("DROP DATABASE OTHER", catalog=found).catalog.tables == {}


def test_without_a_known_character_set_only_lengths_and_conversions_are_not_proven() -> None:
    catalog = Catalog({}, {}, ServerRules(charset=None))
    known = run("CREATE TABLE t (a VARCHAR(20), b TEXT, c CHAR(3) CHARACTER SET gbk)", catalog=catalog).catalog
    assert shown(known.tables[_T])[0] == ("a varchar(20)", "b text", "c char(3) gbk")
    for sql in (
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE t ADD d TEXT(100)",
        "ALTER TABLE t ADD d VARCHAR(20000)",
    ):
        assert (found := apply(known, sql, "shop")).problem, sql
        assert found.catalog.tables[_T].doubt == found.problem


def test_a_database_has_a_known_character_set_only_if_it_is_listed_or_made() -> None:
    unlisted = run("CREATE TABLE other.t (a TEXT)").catalog.tables[named("t", "other")]
    assert (unlisted.charset, unlisted.columns[0].charset, unlisted.doubt) == (None, None, None)
    made = run("CREATE DATABASE other", "CREATE TABLE other.t (a TEXT)").catalog.tables[named("t", "other")]
    assert (made.charset, made.columns[0].charset) == ("utf8mb4", "utf8mb4")


def test_a_copy_has_the_schema_that_the_original_had_then() -> None:
    catalog = run(
        *SCRIPTS["a column is moved first"].statements, "CREATE TABLE copy LIKE orders", "ALTER TABLE orders DROP note"
    ).catalog
    assert catalog.tables[named("copy")].names == ("note", "id", "amount")


def random_steps(seed: int, count: int) -> list[tuple[Catalog, str, str, Applied]]:
    """Each statement of a seed that the model follows, with the catalog before it."""
    writer, catalog, steps = RandomStatements(Random(seed)), EMPTY, []
    for _ in range(count):
        database, sql = writer.statement(catalog)
        found = apply(catalog, sql, database)
        steps.append((catalog, database, sql, found))
        if found.problem is None and len(found.catalog.databases) == len(DATABASES):
            catalog = found.catalog
    return steps


@pytest.mark.parametrize("seed", range(times(5, 50)))
def test_changes_lead_a_follower_from_one_catalog_to_the_next(seed: int) -> None:
    kinds = set()
    for before, _, sql, found in random_steps(seed, times(150, 400)):
        assert followed(before, found.changes) == found.catalog, sql
        kinds |= {type(one) for one in found.changes}
    assert len(kinds) > 10


@pytest.mark.parametrize("seed", range(times(2, 20)))
def test_a_statement_touches_no_table_that_it_does_not_name(seed: int) -> None:
    for before, _, sql, found in random_steps(seed, times(150, 400)):
        if "DATABASE" not in sql and "PROCEDURE" not in sql:
            for table, schema in before.tables.items():
                if table.table not in sql:
                    assert found.catalog.tables[table] is schema, sql


PIECES = (
    "", " ", "(", ")", ",", "`", "'",
    '"', ";", ".", "/*!", "*/", "--", "\\", "\0", "FIRST", "AFTER", "0x", "=", "AS", "𠀀", "TABLE",
    "DEFAULT", "()", "CHARACTER SET", "\ud800", "99999999999999", "NULL",
)  # fmt: skip

MUTATED = st.builds(
    lambda seed, number, places, pieces: (random_steps(seed, number + 1)[-1], places, pieces),
    st.integers(0, 40),
    st.integers(0, 12),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
)


@examples(400)
@given(MUTATED)
def test_damaged_statements_never_raise_and_say_nothing_of_their_text(
    mutated: tuple[tuple[Catalog, str, str, Applied], list[float], list[str]],
) -> None:
    (before, database, sql, _), places, pieces = mutated
    for place, piece in zip(places, pieces, strict=False):
        at = int(place * (len(sql) + 1))
        sql = sql[:at] + piece + sql[at + int(place * 7) :]
    tables, databases = dict(before.tables), dict(before.databases)
    found = apply(before, sql, database)
    assert followed(before, found.changes) == found.catalog
    assert (before.tables, before.databases) == (tables, databases)
    assert found.problem is None or (found.problem.isascii() and len(found.problem) < 60)
    for schema in found.catalog.tables.values():
        assert set(schema.key) <= set(schema.names)
        assert schema.doubt or schema.columns


SEEDED = st.builds(
    SchemaColumn,
    st.sampled_from(["a", "b", "B", "ς", ""]),
    st.sampled_from(["int", "varchar", "varchar(20) COMPRESSED", "enum", "text", "json", "", "(", "char(9)", "x" * 50]),
    st.sampled_from([None, "utf8", "utf8mb4", "klingon", "", "BINARY", "latin1"]),
)


@examples(200)
@given(st.lists(SEEDED, max_size=3), st.sampled_from([None, "utf8", "klingon"]), st.integers(0, 30))
def test_a_catalog_that_others_filled_in_strange_ways_makes_nothing_raise(
    columns: list[SchemaColumn], charset: str | None, seed: int
) -> None:
    tables = {named("orders"): TableSchema(tuple(columns), ("gone",), charset)}
    catalog = Catalog({"shop": charset}, tables, ServerRules(charset=charset))
    writer = RandomStatements(Random(seed))
    statements = [writer.statement(catalog) for _ in range(5)]
    for action in (
        "CONVERT TO CHARACTER SET binary",
        "CONVERT TO CHARSET utf8mb4",
        "DROP b",
        "ADD n TEXT(9), ADD m ENUM('x')",
    ):
        statements.append(("shop", f"ALTER TABLE orders {action}"))
    for database, sql in statements:
        found = apply(catalog, sql, database)
        assert found.problem is None or found.problem.isascii()


@examples(300)
@given(st.text(max_size=40), st.text(max_size=5))
def test_no_text_raises(sql: str, database: str) -> None:
    before = run(T).catalog
    assert followed(before, apply(before, sql, database).changes) == apply(before, sql, database).catalog


def test_the_columns_of_orders_are_those_of_the_scripts() -> None:
    assert shown(run(SCRIPTS["a column is moved first"].statements[0]).catalog.tables[named("orders")]) == (
        ORDERS,
        ("id",),
    )
