"""Random DDL over a handful of tables and two databases, most of it valid: a server refuses the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.table_schemas import Catalog, TableSchema

DATABASES = ("shop", "Other.db")
_TABLES = ("orders", "Orders", "items", "o-1", "名")
_COLUMNS = ("a", "b", "c", "D", "e", "id", "x y", "价")
_CHARSETS = (
    "latin1",
    "utf8mb4",
    "utf8",
    "gbk",
    "ascii",
    "ucs2",
    "utf8mb3",
    "big5",
    "sjis",
    "binary",
    "cp1251",
    "utf32",
)
_COLLATIONS = ("latin1_bin", "utf8mb4_bin", "gbk_chinese_ci", "utf8_general_ci", "uca1400_ai_ci", "binary")
_TYPES = (
    "INT", "INT(5)", "int unsigned", "INTEGER ZEROFILL", "BIGINT", "BIGINT(7) UNSIGNED", "TINYINT", "TINYINT(1)", "BOOL",
    "INT2 UNSIGNED", "MEDIUMINT UNSIGNED ZEROFILL", "MIDDLEINT", "INT8", "SMALLINT", "DECIMAL", "DECIMAL(7)",
    "NUMERIC(12,3) UNSIGNED", "DEC(4,4)", "FIXED(20,5) ZEROFILL", "FLOAT", "FLOAT(7,3)", "FLOAT(30)", "REAL",
    "DOUBLE PRECISION", "DOUBLE(9,2) UNSIGNED", "BIT", "BIT(7)", "YEAR", "YEAR(2)", "DATE", "TIME", "TIME(3)",
    "DATETIME", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(2)", "BINARY", "BINARY(5)", "VARBINARY(30)", "VARBINARY(70000)",
    "BLOB", "BLOB(300)", "TINYBLOB", "LONG VARBINARY", "JSON", "GEOMETRY", "POINT", "INET6", "UUID", "INET4",
)  # fmt: skip
_TEXTS = (
    "CHAR", "CHAR(5)", "CHARACTER(7)", "VARCHAR(9)", "VARCHAR(300)", "VARCHAR(17000)", "CHARACTER VARYING(8)",
    "NCHAR(3)", "NATIONAL VARCHAR(4)", "NVARCHAR(6)", "TINYTEXT", "TEXT", "TEXT(10)", "TEXT(100)", "TEXT(30000)",
    "MEDIUMTEXT", "LONGTEXT", "LONG", "LONG VARCHAR", "ENUM('x','it''s','z ')", "ENUM('a\\\\b', 'tab\\t', \"dq\")",
    "SET('x','y','z')", "ENUM('价','b')", "SET('é')", "VARCHAR(5) BINARY", "CHAR(3) ASCII", "VARCHAR(4) UNICODE", "CHAR(4) BYTE",
)  # fmt: skip
_WITH_CHARSET = ("BINARY", "ASCII", "UNICODE", "BYTE")
_DEFAULTS = (
    "NULL", "0", "5", "-3", "1.5", "'7'", "'it''s'", "''", "'x'", "'2020-01-02'", "'2020-01-02 03:04:05'", "CURRENT_TIMESTAMP",
    "NOW()", "TRUE", "1e2", "(1 + 2)", "(uuid())", "b'1'", "X'41'", "CURRENT_TIMESTAMP(2)",
)  # fmt: skip
_COMMENTS = ("'x'", "'DROP TABLE a'", "'it''s, x'", '"(`"')


@dataclass(frozen=True)
class Words:
    """What statements are made of. ``texts`` are types with a character set, ``weights`` say how often a writer's turn comes."""

    databases: tuple[str, ...] = DATABASES
    tables: tuple[str, ...] = _TABLES
    columns: tuple[str, ...] = _COLUMNS
    types: tuple[str, ...] = _TYPES
    texts: tuple[str, ...] = _TEXTS
    charsets: tuple[str, ...] = _CHARSETS
    weights: Mapping[str, int] = field(default_factory=dict)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class RandomStatements:
    """Writes statements that fit a catalog, as far as chance lets them."""

    def __init__(self, random: Random, words: Words = Words()) -> None:
        self._random = random
        self._words = words
        self._catalog = Catalog()
        self._weights = [words.weights.get(one.__name__.strip("_"), weight) for one, weight in self._WRITERS]

    def statement(self, catalog: Catalog) -> tuple[str, str]:
        """The default database and a statement."""
        self._catalog = catalog
        few = len(catalog.tables) < 3
        write = (
            RandomStatements._create
            if few and self._chance(0.7)
            else self._random.choices([one for one, _ in self._WRITERS], self._weights)[0]
        )
        database = self._random.choice(self._words.databases)
        return database, write(self, database)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _maybe(self, text: str, share: float = 0.3) -> str:
        return f" {text}" if self._chance(share) else ""

    def _name(self, table: TableId, database: str) -> str:
        if table.database == database and self._chance(0.7):
            return quoted(table.table)
        return f"{quoted(table.database)}.{quoted(table.table)}"

    def _new(self) -> TableId:
        return TableId(self._random.choice(self._words.databases), "", self._random.choice(self._words.tables))

    def _there(self) -> TableId:
        return self._random.choice(sorted(self._catalog.tables)) if self._catalog.tables else self._new()

    def _cased(self, name: str) -> str:
        return name.swapcase() if self._chance(0.15) else name

    def _column(self, schema: TableSchema | None) -> str:
        if schema and schema.columns and self._chance(0.93):
            return quoted(self._cased(self._random.choice(schema.names)))
        return quoted(self._cased(self._random.choice(self._words.columns)))

    def _definition(self, *, altering: bool) -> str:
        if self._chance(0.02):
            return "SERIAL"
        is_text = self._chance(0.5)
        text = self._random.choice(self._words.texts if is_text else self._words.types)
        if is_text and not text.startswith("N") and not text.endswith(_WITH_CHARSET) and self._chance(0.3):
            text += f" CHARACTER SET {self._random.choice(self._words.charsets)}"
        if self._chance(0.05):
            return f"{text} GENERATED ALWAYS AS (1) {self._random.choice(('VIRTUAL', 'STORED'))}"
        words = [
            self._maybe(self._random.choice(("NOT NULL", "NULL")), 0.35),
            self._maybe(f"DEFAULT {self._random.choice(_DEFAULTS)}", 0 if text in ("GEOMETRY", "POINT") else 0.25),
            self._maybe(f"COMMENT {self._random.choice(_COMMENTS)}", 0.1),
            self._maybe("INVISIBLE", 0.05),
            self._maybe(f"COLLATE {self._random.choice(_COLLATIONS)}", 0.1 if is_text else 0),
            self._maybe("UNIQUE", 0.03),
            self._maybe("AUTO_INCREMENT", 0.02),
            self._maybe(self._random.choice(("PRIMARY KEY", "KEY")), 0.03 if altering else 0.06),
            self._maybe("CHECK (1 = 1)", 0.03),
        ]
        self._random.shuffle(words)
        return text + "".join(words)

    def _options(self) -> str:
        choice, charsets = self._random.choice, self._words.charsets
        options = [
            f"DEFAULT CHARSET={choice(charsets)}", f"CHARACTER SET {choice(charsets)}", f"COLLATE {choice(_COLLATIONS)}",
            "ENGINE=InnoDB", "COMMENT='a, (b'", "ROW_FORMAT=DYNAMIC", "CHARSET DEFAULT", "AUTO_INCREMENT=7",
            "/*!50100 COMMENT 'x' */",
        ]  # fmt: skip
        return "".join(self._maybe(option, 0.12) for option in options)

    def _create(self, database: str) -> str:
        table = self._new()
        begin = self._random.choice(
            ("CREATE TABLE", "CREATE TABLE", "CREATE OR REPLACE TABLE", "create table if not exists")
        )
        head = f"{begin} {self._name(table, database)}"
        match self._random.randrange(12):
            case 0:
                return f"{head} LIKE {self._name(self._there(), database)}"
            case 1:
                return f"{head} (LIKE {self._name(self._there(), database)})"
            case 2:
                return f"{head} AS SELECT * FROM {self._name(self._there(), database)}"
        names = self._random.sample(self._words.columns, self._random.randint(1, min(6, len(self._words.columns))))
        parts = [f"{quoted(self._cased(name))} {self._definition(altering=False)}" for name in names]
        if self._chance(0.4):
            keys = ", ".join(quoted(name) for name in self._random.sample(names, min(len(names), 2)))
            parts.insert(
                self._random.randint(0, len(parts)), self._maybe("CONSTRAINT pk", 0.2) + f" PRIMARY KEY ({keys})"
            )
        if self._chance(0.3):
            parts.append(f"{self._random.choice(('KEY', 'UNIQUE KEY', 'INDEX'))} i ({quoted(names[0])})")
        return f"{head} ({', '.join(parts)}){self._options()}"

    def _drop(self, database: str) -> str:
        tables = [self._there(), *(self._new() for _ in range(self._random.randrange(2)))]
        return f"DROP TABLE{self._maybe('IF EXISTS', 0.6)} {', '.join(self._name(table, database) for table in tables)}"

    def _rename(self, database: str) -> str:
        first, second = self._there(), self._there()
        if self._chance(0.4):
            spare = quoted("spare")
            moves = [(self._name(first, database), spare), (self._name(second, database), self._name(first, database))]
            moves.append((spare, self._name(second, database)))
        else:
            moves = [
                (self._name(self._there(), database), self._name(self._new(), database))
                for _ in range(self._random.randint(1, 2))
            ]
        return f"RENAME TABLE{self._maybe('IF EXISTS', 0.1)} {', '.join(f'{old} TO {new}' for old, new in moves)}"

    def _alter(self, database: str) -> str:
        table = self._there()
        schema = self._catalog.tables.get(table)
        count = self._random.choice((1, 1, 2, 2, 3, 4, 6))
        actions = [self._action(schema, database) for _ in range(count)]
        if not table.table.isalnum() or not table.table.isascii():
            # MariaDB 10.11 keeps the old table where one with such a name is copied to another name.
            actions = [one for one in actions if not one.startswith(("RENAME TO", "RENAME AS", "RENAME `"))] or [
                "FORCE"
            ]
        head = f"ALTER{self._maybe('ONLINE', 0.03)} TABLE{self._maybe('IF EXISTS', 0.05)} {self._name(table, database)}"
        return f"{head} {', '.join(actions)}{self._maybe('ORDER BY ' + self._column(schema), 0.03)}"

    def _place(self, schema: TableSchema | None) -> str:
        return self._random.choice(("", "", "", " FIRST", f" AFTER {self._column(schema)}"))

    def _action(self, schema: TableSchema | None, database: str) -> str:
        column, choice = self._column(schema), self._random.choice
        other, new = self._column(schema), quoted(self._cased(choice(self._words.columns)))
        if_exists = self._maybe("IF EXISTS", 0.15)
        is_column, declared = self._maybe("COLUMN", 0.5), self._definition(altering=True) + self._place(schema)
        match choice("aaaaaaaaddddmmmmmcccccrrrAAkkoDCXnNi(("):
            case "a":
                return f"ADD{is_column}{self._maybe('IF NOT EXISTS', 0.15)} {new} {declared}"
            case "(":
                parts = [
                    f"{quoted(name)} {self._definition(altering=True)}"
                    for name in self._random.sample(self._words.columns, 2)
                ]
                return f"ADD COLUMN{self._maybe('IF NOT EXISTS', 0.3)} ({', '.join(parts)})"
            case "d":
                return f"DROP{is_column}{if_exists} {column}"
            case "m":
                return f"MODIFY{is_column}{if_exists} {column} {declared}"
            case "c":
                named = choice((column, new, column.swapcase()))
                return f"CHANGE{is_column}{if_exists} {column} {named} {declared}"
            case "r":
                return f"RENAME COLUMN{if_exists} {column} TO {choice((new, column.swapcase(), other))}"
            case "A":
                said = choice(("DROP DEFAULT", f"SET DEFAULT {choice(_DEFAULTS)}"))
                return f"ALTER{is_column}{if_exists} {column} {said}"
            case "k":
                return f"ADD PRIMARY KEY{self._maybe('IF NOT EXISTS', 0.15)} ({', '.join({column, other})})"
            case "D":
                return choice(
                    ("DROP PRIMARY KEY", "DROP INDEX IF EXISTS `primary`", "DROP PRIMARY KEY", "DROP KEY `PRIMARY`")
                )
            case "C":
                said = choice((*self._words.charsets, "DEFAULT", "utf8mb4 COLLATE utf8mb4_bin"))
                return f"CONVERT TO {choice(('CHARACTER SET', 'CHARSET'))} {said}"
            case "X":
                words = f"{self._maybe('DEFAULT', 0.5)} {choice(('CHARACTER SET', 'CHARSET'))}{self._maybe('=', 0.5)}"
                return f"{words} {choice(self._words.charsets)}"
            case "n":
                return f"RENAME{self._maybe(choice(('TO', 'AS')), 0.7)} {self._name(self._new(), database)}"
            case "N":
                return choice(
                    (
                        "FORCE",
                        "ENGINE=InnoDB",
                        "COMMENT 'x'",
                        "DISABLE KEYS",
                        "ALGORITHM=COPY",
                        "AUTO_INCREMENT = 9",
                        "LOCK SHARED",
                    )
                )
            case "i":
                return choice(
                    (
                        f"ADD INDEX ({column})",
                        f"ADD UNIQUE u ({column})",
                        f"ADD CONSTRAINT CHECK ({column} IS NULL OR 1)",
                    )
                )
        return f"DROP {column}, ADD {column} {self._definition(altering=True)}"

    def _index(self, database: str) -> str:
        table = self._there()
        name, column = self._name(table, database), self._column(self._catalog.tables.get(table))
        return self._random.choice(
            (f"CREATE UNIQUE INDEX u ON {name} ({column})", f"CREATE INDEX i ON {name} ({column})", f"DROP INDEX i ON {name}",
             f"DROP INDEX `PRIMARY` ON {name}", f"DROP INDEX IF EXISTS u ON {name}")
        )  # fmt: skip

    def _of_database(self, database: str) -> str:
        other, choice = quoted(self._random.choice(self._words.databases)), self._random.choice
        charsets = self._words.charsets
        return choice(
            (f"ALTER DATABASE {other} CHARACTER SET {choice(charsets)}", f"ALTER SCHEMA COLLATE = {choice(_COLLATIONS[:4])}",
             f"ALTER DATABASE {other} DEFAULT CHARSET = DEFAULT", f"CREATE DATABASE IF NOT EXISTS {other} CHARSET gbk",
             f"ALTER DATABASE {other} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT 'x'",
             f"CREATE OR REPLACE DATABASE {other} DEFAULT CHARSET {choice(charsets)}")
        )  # fmt: skip

    def _truncate(self, database: str) -> str:
        return f"TRUNCATE{self._maybe('TABLE')} {self._name(self._there(), database)}"

    def _without_effect(self, database: str) -> str:
        name = self._name(self._there(), database)
        return self._random.choice(
            ("CREATE OR REPLACE VIEW v AS SELECT 1 AS orders", "DROP VIEW IF EXISTS v",
             "CREATE TEMPORARY TABLE IF NOT EXISTS temporary (z INT)", "DROP TEMPORARY TABLE IF EXISTS temporary, orders",
             f"ANALYZE TABLE {name}", "/*!40000 SET @x = 1 */", f"OPTIMIZE TABLE {name}",
             "CREATE OR REPLACE PROCEDURE p() BEGIN DROP TABLE orders; DROP TABLE items; END")
        )  # fmt: skip

    def _partitions(self, database: str) -> str:
        table = self._there()
        name = self._name(table, database)
        schema = self._catalog.tables.get(table)
        key = quoted(schema.key[0]) if schema and schema.key else "a"
        return self._random.choice(
            (f"ALTER TABLE {name} PARTITION BY HASH ({key}) PARTITIONS 2", f"ALTER TABLE {name} REMOVE PARTITIONING",
             f"ALTER TABLE {name} ADD late INT PARTITION BY KEY ({key}) PARTITIONS 3",
             f"ALTER TABLE {name} TRUNCATE PARTITION p0",
             f"ALTER TABLE {name} COALESCE PARTITION 1")
        )  # fmt: skip

    _WRITERS: tuple[tuple[Callable[[RandomStatements, str], str], int], ...] = (
        (_create, 14),
        (_drop, 4),
        (_rename, 6),
        (_alter, 60),
        (_index, 4),
        (_of_database, 3),
        (_truncate, 2),
        (_without_effect, 4),
        (_partitions, 3),
    )
