"""Statements that others wrote to cost time or memory: each is read in steps and bytes that grow as its length does."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.reading import UNPARSED, effects_of
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.table_schemas import Catalog, SchemaColumn, TableSchema
from dts_assets.wire.ddl.tokens import MOST_CHARACTERS, MOST_TOKENS
from tests.timing import MOST_RATIO, growth

FEW, MANY = 400, 20_000

HOSTILE: dict[str, Callable[[int], str]] = {
    "semicolons": lambda count: ";" * count,
    "statements": lambda count: "TRUNCATE a;" * count,
    "quoted text": lambda count: f"CREATE VIEW v AS SELECT '{'x' * 50 * count}'",
    "quotes in quotes": lambda count: f"CREATE VIEW v AS SELECT '{chr(39) * 50 * count}'",
    "escapes": lambda count: "CREATE VIEW v AS SELECT '" + "\\x" * 25 * count + "'",
    "a quote without its end": lambda count: f"CREATE VIEW v AS SELECT '{'x' * 50 * count}",
    "names": lambda count: f"TRUNCATE `{'``' * 25 * count}`",
    "stars": lambda count: f"TRUNCATE a /*{'*' * 50 * count}*/",
    "comments": lambda count: "/* x */" * count,
    "comments without an end": lambda count: "TRUNCATE a " + "/*" * 50 * count,
    "version comments": lambda count: "/*!50000 a */" * count,
    "parentheses": lambda count: f"CREATE TABLE t {'(' * count}{')' * count}",
    "parentheses of a default": lambda count: f"ALTER TABLE t ADD c INT DEFAULT {'(' * count}1{')' * count}",
    "signs of a default": lambda count: f"ALTER TABLE t ADD c INT DEFAULT {'- ' * count}1",
    "points of a default": lambda count: f"ALTER TABLE t ADD c INT DEFAULT 1{'.' * count}",
    "digits that are no number": lambda count: f"ALTER TABLE t ADD c INT DEFAULT {'1' * count}x",
    "options": lambda count: "ALTER TABLE t " + "COMMENT='x' " * count,
    "actions": lambda count: "ALTER TABLE t " + ",".join(["DROP a"] * count),
    "columns": lambda count: "ALTER TABLE t ADD (" + ",".join(["a INT"] * (count // 10)) + ")",
    "labels of an enum": lambda count: f"ALTER TABLE t ADD c ENUM({_labels(count)}) DEFAULT 'x'",
    "labels of a set": lambda count: f"ALTER TABLE t ADD c SET({_labels(count)}) DEFAULT '{_numbers(count)}'",
    "routines": lambda count: "CREATE PROCEDURE p() SELECT 1;" * count,
    "statements of a routine": lambda count: f"CREATE PROCEDURE p() BEGIN {'SELECT 1;' * count} END",
    "definers": lambda count: f"CREATE {'DEFINER=a@b ' * count} VIEW v AS SELECT 1",
    "settings": lambda count: "SET STATEMENT a=1 FOR " * count,
    "tables": lambda count: "DROP TABLE " + ",".join(["a"] * count),
    "renames": lambda count: "RENAME TABLE " + ",".join(["a TO b"] * count),
}


def _labels(count: int) -> str:
    return ",".join(f"'{number}'" for number in range(count))


def _numbers(count: int) -> str:
    return ",".join(map(str, range(count)))


@pytest.mark.more
@pytest.mark.parametrize("kind", HOSTILE)
def test_ten_times_the_length_takes_ten_times_as_long(kind: str) -> None:
    assert growth(HOSTILE[kind], lambda sql: effects_of(sql, "d"), FEW) <= MOST_RATIO


FOR_SCHEMAS: dict[str, Callable[[int], str]] = {
    "columns of a table": lambda count: f"CREATE TABLE new ({','.join(f'c{n} INT' for n in range(count // 4))})",
    "keys of a table": lambda count: f"CREATE TABLE new (a INT, {','.join(['KEY (a)'] * (count // 4))})",
    "columns of a key": lambda count: f"CREATE TABLE new (a INT, PRIMARY KEY ({','.join(['a'] * count)}))",
    "options of a table": lambda count: f"CREATE TABLE new (a INT) {'CHARSET gbk ' * count}",
    "labels of a new enum": lambda count: f"CREATE TABLE new (a ENUM({_labels(count)}) NOT NULL)",
    "attributes of a column": lambda count: f"CREATE TABLE new (a INT {'NULL ' * count})",
    "references of a column": lambda count: f"CREATE TABLE new (a INT REFERENCES t {'ON DELETE CASCADE ' * count})",
    "character sets of a column": lambda count: f"CREATE TABLE new (a TEXT {'ASCII ' * count})",
    "columns behind the first": lambda count: (
        "ALTER TABLE t " + ",".join(f"ADD n{n} INT AFTER c0" for n in range(count // 4))
    ),
    "columns behind each other": lambda count: (
        "ALTER TABLE t ADD n0 INT FIRST," + ",".join(f"ADD n{n + 1} INT AFTER n{n}" for n in range(count // 4))
    ),
    "columns that move": lambda count: "ALTER TABLE t " + ",".join(f"MODIFY c{n} INT FIRST" for n in range(count // 4)),
    "columns that change names": lambda count: (
        "ALTER TABLE t " + ",".join(f"RENAME COLUMN c{n} TO n{n}" for n in range(count // 4))
    ),
    "columns that go": lambda count: "ALTER TABLE t " + ",".join(f"DROP c{n}" for n in range(count // 4)),
    "changes of one added column": lambda count: "ALTER TABLE t ADD n INT," + ",".join(["MODIFY n INT"] * (count // 4)),
    "tables that are not known": lambda count: "ALTER TABLE " + "TABLE x" * count,
    "names in a text": lambda count: "CALL " + "`t`" * count,
    # A fifth: of more statements than a thousand in one text none is followed, which costs something else.
    "equal databases": lambda count: "CREATE DATABASE IF NOT EXISTS d;" * (count // 5),
    "characters of a database": lambda count: f"ALTER DATABASE d {'CHARSET gbk ' * count}",
}

_WIDE = Catalog(
    {"d": "utf8mb4"},
    {
        TableId("d", "", "t"): TableSchema(
            tuple(SchemaColumn(f"c{n}", "bigint(20)") for n in range(10 * FEW // 4)), ("c7",), "latin1"
        )
    },
)


@pytest.mark.more
@pytest.mark.parametrize("kind", [*HOSTILE, *FOR_SCHEMAS])
def test_a_schema_follows_ten_times_the_length_in_ten_times_as_long(kind: str) -> None:
    make = {**HOSTILE, **FOR_SCHEMAS}[kind]
    narrow = Catalog(_WIDE.databases, {})
    catalog = _WIDE if " t " in make(8) else narrow
    assert growth(make, lambda sql: apply(catalog, sql, "d"), FEW) <= MOST_RATIO


@pytest.mark.parametrize("kind", ["quoted text", "quotes in quotes", "escapes", "names", "stars"])
def test_a_long_text_is_read_without_a_memory_of_ways_back(kind: str) -> None:
    sql = HOSTILE[kind](MANY)
    assert len(sql) > 900_000
    tracemalloc.start()
    try:
        parsed = effects_of(sql, "d")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parsed.parsed
    assert most < 6 * len(sql)


def test_beyond_a_length_and_a_number_of_tokens_a_statement_is_not_understood() -> None:
    fits = "TRUNCATE a" + " " * (MOST_CHARACTERS - len("TRUNCATE a"))
    assert effects_of(fits, "d").effect == "truncate d.a"
    assert effects_of(fits + " ", "d") == UNPARSED
    words = "GRANT" + " a" * (MOST_TOKENS - 1)
    assert effects_of(words, "d").effect == "other"
    assert effects_of(words + " a", "d") == UNPARSED


def test_of_more_statements_in_one_text_than_anybody_sends_none_is_followed() -> None:
    fits = "CREATE TABLE t (a INT);" + "TRUNCATE t;" * 999
    assert len(apply(Catalog(), fits, "d").changes) == 1_000
    assert apply(Catalog(), fits + "TRUNCATE t", "d").problem == "too many statements"


def test_more_actions_than_any_server_takes_are_not_understood() -> None:
    assert len(effects_of(HOSTILE["actions"](10_000), "d").effects) == 10_000
    assert effects_of(HOSTILE["actions"](10_001), "d") == UNPARSED
