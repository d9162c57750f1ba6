"""Statements of a source that are chosen by their tables: what passes, what is written anew, and what never passes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.chosen_statements import Choice, LeftOut, chosen_statements
from dts_assets.wire.ddl.column_definitions import Fill, fill_of_default
from dts_assets.wire.ddl.literals import literal_default, text_literal
from dts_assets.wire.ddl.other_parts import Part
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.stored_defaults import unquoted
from dts_assets.wire.ddl.table_schemas import Catalog
from dts_assets.wire.ddl.tokens import readings
from tests.tiers import examples
from tests.wire.statements_of_others import BESIDE_TABLES, BEYOND, HIDDEN, IN_THE_WORDS_OF_A_CLIENT


def chosen(sql: str, *, anew: bool, database: str = "shop") -> tuple[list[str], Counter[LeftOut], Counter[Part]]:
    choice = Choice(lambda table: table.table != "unchosen", frozenset({"shop"}), anew)
    found = chosen_statements(sql, database, choice)
    return found.texts, found.left_out, found.parts


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("sql", [*BESIDE_TABLES, *HIDDEN])
def test_what_is_about_no_table_never_passes_in_whatever_spelling(sql: str, anew: bool) -> None:
    texts, left_out, _ = chosen(sql, anew=anew)
    assert texts == []
    assert left_out.total() == 1


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("sql", BEYOND)
def test_nothing_that_reaches_beyond_the_tables_is_in_what_passes(sql: str, anew: bool) -> None:
    texts, left_out, parts = chosen(sql, anew=anew)
    assert left_out or parts
    for text in texts:
        assert not [word for word in ("other", "mysql", "tmp", "remote", "directory", "select") if word in text.lower()]
        assert all(table.database == "shop" for effect in effects_of(text, "shop").effects for table in effect.tables)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "TRUNCATE unchosen", "DROP TABLE unchosen", "CREATE TABLE unchosen (a INT)", "ALTER TABLE unchosen ADD a INT",
        "RENAME TABLE unchosen TO shop.unchosen", "CREATE INDEX i ON unchosen (a)",
    ],
)  # fmt: skip
def test_a_statement_about_tables_that_are_not_chosen_is_left_out(sql: str, anew: bool) -> None:
    assert chosen(sql, anew=anew) == ([], Counter([LeftOut.ELSEWHERE]), Counter())


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("name", ["mysql", "SYS", "performance_schema"])
def test_no_statement_about_a_database_of_a_server_is_chosen_whatever_is_asked_for(name: str, anew: bool) -> None:
    choice = Choice(lambda _: True, frozenset({name}), anew)
    for sql in (
        "TRUNCATE user",
        "CREATE TABLE t (a INT)",
        "ALTER TABLE user ADD a INT",
        "RENAME TABLE t TO u",
        "DROP TABLE t",
    ):
        found = chosen_statements(sql, name, choice)
        assert (found.texts, found.left_out) == ([], Counter([LeftOut.ELSEWHERE])), sql


def test_a_letter_that_looks_like_a_space_is_a_part_of_a_name() -> None:
    """So it is for a server, which does not drop another table."""
    (effect,) = effects_of("DROP TABLE \u00a0t", "shop").effects
    assert effect.tables == (TableId("shop", "", "\u00a0t"),)


@pytest.mark.parametrize("sql", IN_THE_WORDS_OF_A_CLIENT)
def test_no_word_of_a_statement_is_a_command_of_a_client(sql: str) -> None:
    texts, left_out, _ = chosen(sql, anew=False)
    assert texts or left_out
    for text in texts:
        (tokens,) = readings(text)
        assert not [token for token in tokens if token.keyword == "DELIMITER" or token.text == "\\"]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("CREATE TABLE t (\n  a int COMMENT 'x;y'\n);", "CREATE TABLE t (\n  a int COMMENT 'x;y'\n);"),
        ("CREATE TABLE t (a int, KEY (a)) ENGINE=MyISAM", "CREATE TABLE t (a int, KEY (a)) ENGINE=MyISAM"),
        ("/* by hand */ TRUNCATE t -- all", "TRUNCATE t"),
        ("SET STATEMENT max_statement_time = 1 FOR TRUNCATE t", "TRUNCATE t"),
        (
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ shop /*!80016 DEFAULT ENCRYPTION='N' */",
            "CREATE DATABASE IF NOT EXISTS shop",
        ),
        ("CREATE TABLE t (a int) /*!50100 PARTITION BY HASH (a) */", "CREATE TABLE t (a int) PARTITION BY HASH (a)"),
        ("CREATE TABLE t (a int) /*M!100301 COMMENT='x' */", "CREATE TABLE t (a int)"),
        ("DROP TABLE a, unchosen, elsewhere.b", "DROP TABLE IF EXISTS `shop`.`a`"),
        ("CREATE TABLE t (a int REFERENCES unchosen (id))", "CREATE TABLE `shop`.`t` (`a` int) ENGINE=InnoDB"),
        ("ALTER TABLE t ADD c VARCHAR(40) DEFAULT (uuid())", "ALTER TABLE t ADD c VARCHAR(40) DEFAULT (uuid())"),
        ("CREATE TABLE a LIKE b", "CREATE TABLE a LIKE b"),
    ],
)
def test_a_statement_stands_as_the_source_has_it_unless_more_stands_in_it(sql: str, text: str) -> None:
    assert chosen(sql, anew=False)[0] == [text]


@pytest.mark.parametrize(
    ("sql", "text", "parts"),
    [
        (
            "CREATE TABLE t (id int(11) unsigned zerofill AUTO_INCREMENT, `n``ame` VARCHAR(9) CHARSET latin1 COLLATE"
            " latin1_bin NULL"
            " DEFAULT 'it''s', e enum('a','b\\\\') NOT NULL, PRIMARY KEY (id, `n``ame`(3)), UNIQUE KEY u (e), CHECK (id > 0))"
            " ENGINE=MyISAM DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='x' PARTITION BY HASH (id)",
            "CREATE TABLE `shop`.`t` (`id` int(11) UNSIGNED ZEROFILL NOT NULL, `n``ame` varchar(9) CHARACTER SET latin1 COLLATE"
            " latin1_bin NULL DEFAULT 'it''s', `e` enum('a', 'b\\\\') NOT NULL, PRIMARY KEY (`id`, `n``ame`(3))) ENGINE=InnoDB"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            {Part.NUMBERS: 1, Part.INDEX: 1, Part.CHECK: 1, Part.ENGINE: 1, Part.OPTION: 1, Part.PARTITIONS: 1},
        ),
        (
            "CREATE TABLE t (a char(3) binary, g int AS (a + 1) STORED NOT NULL, d datetime(3) DEFAULT now(3) ON UPDATE now(3),"
            " u varchar(40) DEFAULT (uuid()), s bigint DEFAULT (sleep(1000)), x blob DEFAULT (X'4a'), b bit(3) DEFAULT b'101')",
            "CREATE TABLE `shop`.`t` (`a` char(3) BINARY, `g` int NOT NULL, `d` datetime(3) DEFAULT CURRENT_TIMESTAMP(3),"
            " `u` varchar(40), `s` bigint, `x` blob DEFAULT (X'4a'), `b` bit(3) DEFAULT b'101') ENGINE=InnoDB",
            {Part.EXPRESSION: 1, Part.DEFAULT: 2, Part.OPTION: 1},
        ),
        (
            "ALTER TABLE t ADD (x int, y int DEFAULT -1.5e3), DROP COLUMN z, DROP INDEX i, CHANGE a b text AFTER x, MODIFY c"
            " int FIRST,"
            " DROP PRIMARY KEY, ADD PRIMARY KEY (b(7)), ADD KEY (c), ALTER d SET DEFAULT 'q', ALTER e DROP DEFAULT, RENAME"
            " COLUMN f TO g,"
            " CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin, ENGINE=MEMORY, RENAME TO u",
            "ALTER TABLE `shop`.`t` ADD COLUMN `x` int, ADD COLUMN `y` int DEFAULT -1.5e3, DROP COLUMN `z`, CHANGE COLUMN `a`"
            " `b` text"
            " AFTER `x`, CHANGE COLUMN `c` `c` int FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (`b`(7)), ALTER COLUMN `d` SET"
            " DEFAULT 'q',"
            " ALTER COLUMN `e` DROP DEFAULT, RENAME COLUMN `f` TO `g`, CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin,"
            " RENAME TO `shop`.`u`",
            {Part.INDEX: 2, Part.ENGINE: 1},
        ),
        (
            "ALTER TABLE t ADD id INT AUTO_INCREMENT, ADD PRIMARY KEY (id)",
            "ALTER TABLE `shop`.`t` ADD COLUMN `id` int NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (`id`)",
            {},
        ),
        ("CREATE TABLE IF NOT EXISTS a (LIKE b)", "CREATE TABLE IF NOT EXISTS `shop`.`a` LIKE `shop`.`b`", {}),
        ("DROP INDEX `PRIMARY` ON t", "ALTER TABLE `shop`.`t` DROP PRIMARY KEY", {}),
        ("RENAME TABLE a TO b, shop.c TO a", "RENAME TABLE `shop`.`a` TO `shop`.`b`, `shop`.`c` TO `shop`.`a`", {}),
        (
            "CREATE DATABASE shop COLLATE latin1_bin",
            "CREATE DATABASE `shop` CHARACTER SET latin1 COLLATE latin1_bin",
            {},
        ),
        ("ALTER DATABASE CHARACTER SET latin1", "ALTER DATABASE `shop` CHARACTER SET latin1", {}),
    ],
)
def test_a_statement_is_written_anew(sql: str, text: str, parts: dict[Part, int]) -> None:
    assert chosen(sql, anew=True) == ([text], Counter(), Counter(parts))


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("CREATE INDEX i ON t (a)", Part.INDEX),
        ("ALTER TABLE t DROP FOREIGN KEY f", Part.INDEX),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES b (id) ON DELETE RESTRICT", Part.FOREIGN_KEY),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES b (id) ON DELETE SET NULL", Part.CASCADE),
        ("ALTER TABLE t DROP PARTITION p", Part.PARTITIONS),
        ("ALTER TABLE t COMMENT 'x'", Part.OPTION),
    ],
)
def test_a_statement_of_which_nothing_is_left_is_counted(sql: str, part: Part) -> None:
    assert chosen(sql, anew=True) == ([], Counter(), Counter([part]))


def test_statements_of_one_text_are_chosen_one_by_one() -> None:
    texts, left_out, _ = chosen("TRUNCATE t; GRANT ALL ON *.* TO x; DROP TABLE a; TRUNCATE elsewhere.t", anew=False)
    assert texts == ["TRUNCATE t", "DROP TABLE a"]
    assert left_out == {LeftOut.NOT_TABLES: 1, LeftOut.ELSEWHERE: 1}


@pytest.mark.parametrize(
    ("default", "written"),
    [
        ("'a\\'b\\n'", "'a''b\\n'"),
        ('"x"', "'x'"),
        ("N'x'", "'x'"),
        ("_utf8mb4 'x'", "'x'"),
        ("0x4A", "X'4A'"),
        ("x'4'", "X'04'"),
        ("B'01'", "b'01'"),
        ("+1", "+1"),
        ("- 1.5", "-1.5"),
        ("true", "TRUE"),
        ("((7))", "((7))"),
        ("DATE '2026-01-05'", "DATE'2026-01-05'"),
        ("NOW()", "CURRENT_TIMESTAMP"),
        ("localtimestamp(6)", "CURRENT_TIMESTAMP(6)"),
        ("(now())", None),
        ("uuid()", None),
        ("(a)", None),
        ("(LOAD_FILE('/etc/passwd'))", None),
        ("(1 + 1)", None),
        ("(SELECT 1)", None),
        ("_latin1 'x'", None),
        ("_binary 'x'", None),
        ("x'zz'", None),
        ("'a' COLLATE x", None),
        ("'open", None),
        ("(" * 20_000, None),
        ("\u0661", None),
        ("9" * 200, None),
    ],
)
def test_only_literals_and_the_time_of_the_statement_are_defaults(default: str, written: str | None) -> None:
    assert literal_default(default) == written


@given(st.text())
def test_a_text_in_quotes_is_read_back(text: str) -> None:
    assert unquoted(text_literal(text)) == text
    assert literal_default(text_literal(text)) == text_literal(text)
    assert fill_of_default(text_literal(text), "longtext") == (Fill.VALUE, text)


_WORDS = (
    "CREATE TABLE t (a int DEFAULT 1, b varchar(9) COLLATE utf8mb4_bin PRIMARY KEY, c enum('x')) ENGINE = InnoDB CHARSET latin1",
    "ALTER TABLE t ADD d int FIRST, DROP a, ADD KEY (b), CHANGE a z bigint NULL, RENAME TO u",
    "CREATE DATABASE shop",
    "DROP TABLE t, u",
    "RENAME TABLE t TO u",
    "TRUNCATE t",
    "GRANT ALL ON other.t TO x",
    "AS SELECT * FROM mysql.user",
    "UNION = (other.t)",
    "REFERENCES other.t (id)",
    "LIKE mysql.user",
    "/*!50000",
    "/*!999999",
    "*/",
    "#",
    "--",
    "\n",
    "`other`.`t`",
    ", DATA DIRECTORY '/tmp/x'",
    "DELIMITER //",
    ";",
    "'",
    '"',
    "(",
    ")",
    "DEFINER = x@y TRIGGER tr",
)


@given(st.lists(st.sampled_from([*_WORDS, *" ".join(_WORDS[:2]).split()]), max_size=9).map(" ".join), st.booleans())
@examples(300)
def test_what_passes_names_chosen_tables_alone_and_is_read_as_it_was(sql: str, anew: bool) -> None:
    """Whatever is put together: a second reading of what passes finds nothing else, and nothing to leave out."""
    for text in chosen(sql, anew=anew)[0]:
        for effect in effects_of(text, "shop").effects:
            assert {table.database for table in effect.tables} | {effect.database} <= {"shop", None}
        again = chosen(text, anew=True)
        assert not again[1]
        if anew:
            assert again == ([text], Counter(), Counter())


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, n varchar(9) CHARSET latin1 COLLATE latin1_bin DEFAULT 'x', e"
        " enum('a','b'))",
        "CREATE TABLE t (a char(3) NOT NULL, b timestamp NULL, c bit(3) DEFAULT b'101', PRIMARY KEY (c, a)) CHARSET gbk",
        "CREATE TABLE t (a national varchar(3), b double precision, c year, d json, e geometry, f decimal(9,2) unsigned)",
    ],
)
def test_a_table_that_is_written_anew_has_the_same_schema(sql: str) -> None:
    """But for numbers that come by themselves."""
    (text,), _, _ = chosen(sql, anew=True)
    before, after = (apply(Catalog({"shop": "utf8mb4"}), one, "shop").catalog.tables for one in (sql, text))
    assert [(one.name, one.type, one.charset, one.nullable) for one in before[TableId("shop", "", "t")].columns] == [
        (one.name, one.type, one.charset, one.nullable) for one in after[TableId("shop", "", "t")].columns
    ]
    assert before[TableId("shop", "", "t")].key == after[TableId("shop", "", "t")].key
