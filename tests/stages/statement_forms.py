"""A generator of statements in all their forms: clauses, literals and names, each beside a real server.

What the server takes, the model must follow to the same schema and the same untouched rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql

from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import AlteredRows
from dts_assets.wire.ddl.column_types import declared_type, resolved
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.table_schemas import Catalog, Family, ServerRules
from dts_assets.wire.ddl.tokens import Reader, readings
from tests.stages.followed_rows import compare, follow, rows_of
from tests.wire.server_catalog import of_model, of_server

DATABASE = "forms"

BASE = (
    "id INT PRIMARY KEY, a INT, b VARCHAR(20), c DECIMAL(9,2), d DATETIME(3), e BINARY(4), f TEXT, g ENUM('x','y'), h DOUBLE, "
    "i BIT(9), j DATE, k TIME(2), l BIGINT UNSIGNED, m CHAR(9) CHARACTER SET latin1, n VARBINARY(20), o TIMESTAMP NULL"
)
ROW = (
    "1, 7, '12', 1.50, '2026-01-05 10:11:12.500', 'ab', 'text', 'y', 1.5, 5, '2026-01-05', '10:11:12.25', 18446744073709551615, "
    "'é', 'abc', '2026-01-05 10:11:12'"
)

NUMBERS = (
    "0", "7", "-3", "+3", "- 4", "1.5", "-.5", "5.", "007", "1e2", "1E+2", "1e-5", "2.5e-1", ".5e1", "-1.5E-1", "12e0", "'7'",
    "'1.25'", "\"8\"", "TRUE", "false", "0x41", "0b101", "B'11'", "X'41'", "x'0041'",
)  # fmt: skip
TEXTS = (
    "''", "'ab'", "'ab  '", "'it''s'", "'it\\'s'", "'a\\nb'", '"dq"', "'é'", "'茶'", "'a' 'b'", "'a' \"b\" 'c'", "N'ab'", "n'ab'",
    "_utf8mb4'ab'", "_utf8mb4 'é'", "_latin1'ab'", "_binary'ab'", "0x4142", "0X", "X'4142'", "x'C3A9'", "_latin1 X'E9'",
    "_utf8mb4 X'C3A9'", "_latin1 0xE9", "'x'", "'y'", "'x,y'", "5", "1.50", "-12", "1e3", "B'01000001'",
)  # fmt: skip
TIMES = (
    "'2026-01-05'", "'2026-01-05 10:11:12'", "'2026-01-05 10:11:12.5'", "'10:11:12'", "DATE'2026-01-05'", "DATE '2026-01-05'",
    "TIMESTAMP'2026-01-05 10:11:12'", "TIME'10:11:12'", "{d '2026-01-05'}", "{t '10:11:12'}", "{ts '2026-01-05 10:11:12'}",
    "NOW()", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()", "LOCALTIME", "LOCALTIMESTAMP(3)", "now(3)", "CURRENT_TIMESTAMP (6)",
    "20260105", "'20260105'", "'0000-00-00'", "CURRENT_DATE", "2026", "'2026'",
)  # fmt: skip
EXPRESSIONS = (
    "NULL", "(1 + 2)", "(uuid())", "uuid()", "('a')", "(5)", "(NULL)", "(now())", "next value for s", "nextval(s)",
)  # fmt: skip

TYPES = (
    "INT", "TINYINT(1)", "BIGINT UNSIGNED", "INT(5) ZEROFILL", "DECIMAL", "DECIMAL(9,2)", "DECIMAL(20,10) UNSIGNED", "FLOAT",
    "DOUBLE", "DOUBLE(9,3)", "BIT(9)", "BIT", "YEAR", "DATE", "TIME", "TIME(2)", "DATETIME", "DATETIME(3)", "TIMESTAMP NULL",
    "CHAR(5)", "VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9) COLLATE utf8mb4_bin", "TEXT", "TINYTEXT", "LONGTEXT",
    "BINARY", "BINARY(4)", "VARBINARY(9)", "BLOB", "TINYBLOB", "ENUM('x','y')", "SET('x','y')", "JSON", "POINT", "BOOL", "SERIAL",
    "NVARCHAR(9)", "LONG VARCHAR", "LONG VARBINARY", "CHAR(5) BYTE", "INET6", "UUID", "VECTOR(3)", "DOUBLE PRECISION", "INT8",
    "GEOMETRY SRID 4326", "VARCHAR(9) COMPRESSED", "MEDIUMINT SIGNED", "FIXED(7,3)", "BINARY(0)", "CHAR(0)",
)  # fmt: skip
ATTRIBUTES = (
    "", "", "", "NOT NULL", "NULL", "COMMENT 'x, DROP y'", "UNIQUE", "UNIQUE KEY", "INVISIBLE", "VISIBLE", "CHECK (1 = 1)",
    "CONSTRAINT ck CHECK (1 = 1)", "CONSTRAINT CHECK (1) NOT ENFORCED", "CHECK (x > 1e-5)", "COLUMN_FORMAT DYNAMIC",
    "STORAGE DISK", "AUTO_INCREMENT UNIQUE", "ON UPDATE CURRENT_TIMESTAMP", "ON UPDATE NOW(3)", "REFERENCES u (id)",
    "COLLATE utf8mb4_bin", "GENERATED ALWAYS AS (1) VIRTUAL", "AS (1) STORED", "AS (id + 1)", "WITHOUT SYSTEM VERSIONING",
    "ENGINE_ATTRIBUTE '{}'", "REFERENCES u (id) ON DELETE SET NULL ON UPDATE NO ACTION", "NOT NULL COMMENT 'y' UNIQUE",
    "SECONDARY_ENGINE_ATTRIBUTE = '{}'", "CHARACTER SET latin1 COLLATE latin1_bin", "NOT SECONDARY", "PERSISTENT",
)  # fmt: skip
PLACES = (
    "", "", "", " FIRST", " AFTER id", " AFTER `g`",
)  # fmt: skip

ACTIONS = (
    "ADD INDEX (a)", "ADD INDEX i USING BTREE (a, b DESC)", "ADD KEY k ((a + 1))", "ADD UNIQUE (a)",
    "ADD UNIQUE INDEX u (a, b(3))", "ADD FULLTEXT INDEX ft (f) WITH PARSER ngram", "ADD FULLTEXT (b)",
    "ADD CONSTRAINT ck CHECK (a > -1e-5)", "ADD CHECK (a < 9.5e3)", "ADD CONSTRAINT FOREIGN KEY (a) REFERENCES u (id)",
    "ADD CONSTRAINT fk FOREIGN KEY fi (a) REFERENCES u (id) ON DELETE CASCADE",
    "ADD FOREIGN KEY IF NOT EXISTS fk (a) REFERENCES u (id) ON UPDATE SET NULL", "ADD INDEX i (a) COMMENT 'x' INVISIBLE",
    "ADD INDEX i (a) IGNORED", "ADD INDEX IF NOT EXISTS i (a)", "ADD INDEX i (a) KEY_BLOCK_SIZE=8", "DROP PRIMARY KEY",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id, b(2))", "DROP PRIMARY KEY, ADD CONSTRAINT PRIMARY KEY USING BTREE (id)",
    "ADD INDEX i (a), DROP INDEX IF EXISTS missing", "ENGINE=InnoDB", "ENGINE InnoDB, FORCE", "FORCE", "COMMENT='x'",
    "COMMENT 'y'", "AUTO_INCREMENT = 9", "ROW_FORMAT=DYNAMIC", "ROW_FORMAT COMPRESSED KEY_BLOCK_SIZE=4",
    "STATS_PERSISTENT=1 STATS_AUTO_RECALC 0", "AVG_ROW_LENGTH=5 MIN_ROWS 1 MAX_ROWS=9",
    "CHECKSUM=1, DELAY_KEY_WRITE=1, PACK_KEYS=DEFAULT", "DEFAULT CHARSET=latin1", "CHARSET utf8mb4 COLLATE utf8mb4_bin",
    "DEFAULT COLLATE utf8mb4_unicode_ci", "CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARSET utf8mb4 COLLATE utf8mb4_bin",
    "ALGORITHM=INPLACE, LOCK=NONE, ADD z INT", "ALGORITHM=COPY", "ALGORITHM DEFAULT", "ADD z INT, ALGORITHM=INSTANT",
    "LOCK=SHARED", "DISABLE KEYS", "ENABLE KEYS", "ORDER BY a, b DESC", "ADD z INT, ORDER BY a",
    "PARTITION BY HASH (id) PARTITIONS 2", "ADD z INT PARTITION BY KEY (id) PARTITIONS 2",
    "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN MAXVALUE)",
    "PARTITION BY LIST (id) (PARTITION p VALUES IN (1, 2) COMMENT 'x')", "REMOVE PARTITIONING", "ENCRYPTION='N'",
    "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING", "ADD z INT, ADD SYSTEM VERSIONING", "TRANSACTIONAL=0", "PAGE_CHECKSUM 1",
    "PAGE_COMPRESSED=1", "ALTER a SET DEFAULT 1e-5", "ALTER COLUMN a SET DEFAULT (1 + 2)", "ALTER b DROP DEFAULT",
    "ALTER a SET INVISIBLE", "ALTER COLUMN a SET VISIBLE", "ALTER COLUMN IF EXISTS zz DROP DEFAULT", "RENAME COLUMN a TO z",
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a", "DROP a, DROP COLUMN b", "DROP COLUMN IF EXISTS zz", "DROP a RESTRICT",
    "ADD (y INT DEFAULT 5, z VARCHAR(9) NOT NULL)", "ADD COLUMN (y INT, KEY (y))", "ADD COLUMN IF NOT EXISTS a INT",
    "ADD INDEX i (a), RENAME INDEX i TO j", "ADD INDEX i (a), ALTER INDEX i INVISIBLE", "WITH VALIDATION, ADD z INT AS (1)",
    "RENAME TO v", "RENAME v", "RENAME AS forms.v", "RENAME = v", "SECONDARY_ENGINE = NULL", "TABLESPACE innodb_file_per_table",
    "ADD CONSTRAINT UNIQUE KEY cu (a)", "ADD CONSTRAINT cu UNIQUE (a), DROP CONSTRAINT cu", "ADD SPATIAL INDEX (p)",
    "CHANGE a A BIGINT", "CHANGE COLUMN a z INT NOT NULL DEFAULT 3 FIRST", "MODIFY a VARCHAR(9) AFTER b", "MODIFY COLUMN b TEXT",
    "MODIFY b VARCHAR(20) CHARACTER SET latin1", "MODIFY c DECIMAL(65,30)", "MODIFY c DECIMAL(60,2)", "MODIFY c DECIMAL(50)",
    "MODIFY e BINARY(9)", "MODIFY m VARBINARY(9)", "MODIFY m VARCHAR(9) CHARACTER SET gbk", "MODIFY j DATETIME",
    "MODIFY h DECIMAL(30)", "MODIFY l DECIMAL(60,0)", "MODIFY i INT", "MODIFY g VARCHAR(3)", "MODIFY l VARCHAR(30)",
    "MODIFY b INT", "MODIFY a BIT(20)", "MODIFY IF EXISTS zz INT", "MODIFY a INT NOT NULL", "MODIFY n BLOB", "MODIFY f TINYTEXT",
    "MODIFY k TIME(5)", "MODIFY d DATE", "AUTOEXTEND_SIZE=4M", "ENCRYPTED=NO", "INSERT_METHOD=LAST", "CONNECTION='x'",
    "DATA DIRECTORY='/tmp'", "UNION=(u)", "ADD INDEX i (a) USING HASH", "ADD UNIQUE KEY cu (a) COMMENT 'PRIMARY KEY'",
    "ADD INDEX `PRIMARY KEY` (a)", "NOWAIT", "ADD INDEX i (a) CLUSTERING=YES", "STATS_SAMPLE_PAGES=DEFAULT", "IETF_QUOTES=YES",
    "WITH SYSTEM VERSIONING",
)  # fmt: skip
"""Actions on a table; a server refuses those of the other family."""

TABLES = (
    "CREATE TABLE v (x INT, INDEX (x))", "CREATE TABLE v (x INT, KEY k USING BTREE (x) COMMENT 'y')", "CREATE TABLE v LIKE t",
    "CREATE TABLE v (x INT KEY)", "CREATE TABLE v (x INT, PRIMARY KEY (x DESC))",
    "CREATE TABLE v (x INT, CONSTRAINT PRIMARY KEY (x))",
    "CREATE TABLE v (x INT, CONSTRAINT pk PRIMARY KEY pn USING BTREE (x) COMMENT 'z')", "CREATE TABLE v (LIKE t)",
    "CREATE TABLE v (x INT DEFAULT 1e-5, CHECK (x > 1e-5))", "CREATE TABLE v (x INT) WITH SYSTEM VERSIONING",
    "CREATE TABLE v (x INT) ENGINE=InnoDB, COMMENT='y', ROW_FORMAT=DYNAMIC",
    "CREATE TABLE v (x POINT NOT NULL, SPATIAL INDEX (x))",
    "CREATE TABLE v (x INT) ENGINE InnoDB CHARSET latin1 COLLATE latin1_bin",
    "CREATE TABLE v (x INT, UNIQUE u (x), FULLTEXT (y), y TEXT)",
    "CREATE TABLE v (x INT, FOREIGN KEY (x) REFERENCES t (id) ON DELETE CASCADE)",
    "CREATE TABLE v (x INT AUTO_INCREMENT, KEY (x))", "CREATE TABLE v (x INT, CONSTRAINT CHECK (x > 0) ENFORCED)",
    "CREATE TABLE v (x INT) PARTITION BY HASH (x) PARTITIONS 4",
    "CREATE TABLE v (x INT, y DATE) PARTITION BY RANGE COLUMNS (x, y) (PARTITION p VALUES LESS THAN (1, '2026-01-05'))",
    "CREATE TABLE v (x INT) DATA DIRECTORY='/tmp' INDEX DIRECTORY='/tmp'", "CREATE TABLE v (x INT) AUTO_INCREMENT=5 MAX_ROWS=9",
    "CREATE TABLE v (x INT, KEY ((x + 1), x))", "CREATE TABLE v (x INT, UNIQUE KEY ((CAST(x AS CHAR(3)))))",
    "CREATE TABLE IF NOT EXISTS v (x INT COMMENT 'KEY (y)')", "CREATE TABLE v (`x` INT,`y z` INT)",
    "CREATE TABLE v (x VECTOR(3) NOT NULL, VECTOR INDEX (x))", "CREATE TABLE v (x VECTOR(3) NOT NULL, VECTOR KEY vk (x) M=6)",
    "CREATE TABLE v (x INT, PERIOD FOR p (y, z), y DATE, z DATE)", "CREATE TABLE v (x INT) TABLESPACE innodb_system",
    "CREATE TABLE v (x INT) STATS_PERSISTENT=DEFAULT ENCRYPTION 'N'", "CREATE TABLE v (x SERIAL, y INT)", "DROP TABLE t",
    "CREATE INDEX i ON t (a)", "CREATE UNIQUE INDEX i USING BTREE ON t (a) COMMENT 'x'", "CREATE FULLTEXT INDEX i ON t (f)",
    "CREATE INDEX i ON t (a) ALGORITHM=INPLACE LOCK=NONE", "CREATE OR REPLACE INDEX i ON t (a)",
    "CREATE INDEX IF NOT EXISTS i ON t (a)", "CREATE INDEX i ON t (a) WAIT 5", "DROP INDEX `PRIMARY` ON t", "TRUNCATE t",
    "TRUNCATE TABLE forms.t", "DROP TABLE IF EXISTS t, zz", "DROP TABLE t RESTRICT", "DROP TABLES t", "RENAME TABLE t TO v",
    "RENAME TABLES t TO v, v TO w", "RENAME TABLE t WAIT 5 TO v", "CREATE OR REPLACE TABLE t (x INT)",
    "ALTER ONLINE TABLE t ADD z INT", "ALTER IGNORE TABLE t ADD UNIQUE (a)", "DROP TABLE t WAIT 9",
    "ALTER TABLE t WAIT 5 ADD z INT", "ALTER TABLE t NOWAIT ADD z INT", "ALTER TABLE IF EXISTS zz ADD z INT",
    "DELETE FROM `forms`.`t`", "CREATE TABLE v (x INT CHECK (x IN (1, 2)), y INT AS (x * 2) STORED NOT NULL UNIQUE)",
    "CREATE TABLE v (x INT)/*!50100 PARTITION BY KEY (x)*/",
)  # fmt: skip
"""Statements on whole tables beside ``t`` and the empty table ``u``."""

NOT_FOLLOWED = re.compile(
    r"WITH SYSTEM VERSIONING|PERIOD FOR",  # columns of the server's own stand in the events of such tables
    re.I,
)
"""Statements that are not followed on purpose."""


@dataclass
class FormsBeside:
    """A server and the statements that it takes; ``findings`` are those of which the model knows something else."""

    connection: Any
    family: Family
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    _fresh: Catalog | None = None

    def begin(self) -> None:
        """Make the session and the database."""
        self.run("SET sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'")
        self.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
        self.run(f"USE {DATABASE}")
        if self.family is Family.MARIADB:
            self.run("SET system_versioning_alter_history = 'KEEP'")
            self.run("CREATE SEQUENCE IF NOT EXISTS s")

    def assert_right(self) -> None:
        """Check that nothing was found, and that values of rows were compared."""
        assert self.findings == []
        assert self.counts["values"] > 3 * self.counts["not known"]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def takes(self, sql: str) -> bool:
        """Run a statement; tell whether the server took it."""
        try:
            self.run(sql)
        except pymysql.err.MySQLError:
            self.counts["refused"] += 1
            return False
        self.counts["taken"] += 1
        return True

    def anew(self) -> Catalog:
        """Return the catalog of the two tables, which are made anew after a statement that the server took."""
        if self._fresh is not None:
            return self._fresh
        self.run("SET foreign_key_checks = 0")
        names = self.run(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}' "
                         "AND TABLE_TYPE <> 'SEQUENCE'")  # fmt: skip
        for (name,) in names:
            self.run(f"DROP TABLE `{name}`")
        self.run("SET foreign_key_checks = 1")
        catalog = Catalog({DATABASE: "utf8mb4"}, {}, ServerRules(self.family, None, "utf8mb4"))
        for sql in ("CREATE TABLE u (id INT PRIMARY KEY)", f"CREATE TABLE t ({BASE})"):
            self.run(sql)
            catalog = apply(catalog, sql, DATABASE).catalog
        self.run("INSERT INTO u VALUES (7)")
        self.run(f"INSERT INTO t VALUES ({ROW})")
        self._fresh = catalog
        return catalog

    def check(self, sql: str) -> None:
        """Run one statement on fresh tables, and compare."""
        catalog = self.anew()
        self.follow(catalog, sql)

    def follow(self, catalog: Catalog, sql: str) -> Catalog | None:
        """Run a statement on tables as they are, and compare; None if the server refused it or the model differs."""
        with self.connection.cursor() as cursor:
            before = {table: rows_of(cursor, table, schema) for table, schema in catalog.tables.items()}
            if not self.takes(sql):
                return None
            self._fresh = None
            applied = apply(catalog, sql, DATABASE)
            if NOT_FOLLOWED.search(sql) and applied.problem:
                self.counts["not followed"] += 1
                return None
            try:
                self._compare(cursor, sql, before, catalog)
            except (AssertionError, TypeError) as error:
                self.findings.append(f"{sql}: {str(error)[:600]}")
                return None
        return applied.catalog

    def _compare(self, cursor: Any, sql: str, rows: dict[TableId, AlteredRows], catalog: Catalog) -> None:
        applied, parsed = apply(catalog, sql, DATABASE), effects_of(sql, DATABASE)
        assert applied.problem is None, applied.problem
        assert parsed.parsed, "its effects are not known"
        assert self._model(applied.catalog) == self._server(), "another schema"
        for effect in parsed.effects:
            if effect.kind is EffectKind.CREATE_TABLE and effect.columns:
                assert effect.columns == applied.catalog.tables[effect.tables[0]].names, (
                    "other columns of the new table"
                )
        kinds = {effect.kind for effect in parsed.effects}
        changed = {name: schema.names for name, schema in applied.catalog.tables.items()} != {
            name: schema.names for name, schema in catalog.tables.items()
        }
        assert not (parsed.harmless and changed), f"harmless, and other columns: {kinds}"
        follow(rows, applied.changes, family=self.family)
        for table, schema in applied.catalog.tables.items():
            counts = Counter[str]()
            if table in rows:
                compare(cursor, table, schema, rows[table], sql, counts)
                self.counts += counts
                if counts["not known"]:
                    self.unknown.add(sql)

    def _server(self) -> object:
        return self._compared(of_server(self.connection, (DATABASE,)))

    def _model(self, catalog: Catalog) -> object:
        return self._compared(of_model(catalog))

    def _compared(self, tables: Mapping[TableId, tuple[Any, ...]]) -> object:
        return {
            table: (tuple(map(self._shown, columns)), key, charset) for table, (columns, key, charset) in tables.items()
        }

    def _shown(self, column: Sequence[Any]) -> tuple[Any, ...]:
        """A column without its default, and with its type in one spelling."""
        name, kind, charset, *flags = column[:-1]
        (tokens,) = readings(kind, lambda *_: True)
        declared = declared_type(Reader(tokens))
        return (
            name,
            kind if declared.has_charset else resolved(declared, None, ServerRules(self.family))[0],
            charset,
            *flags,
        )


def random_forms(random: Random) -> Iterator[str]:
    """Statements without end."""
    while True:
        match random.randrange(10):
            case 0:
                yield random.choice(TABLES)
            case 1 | 2:
                yield f"ALTER TABLE t {random.choice(ACTIONS)}"
            case 3:
                yield f"ALTER TABLE t {', '.join(random.sample(ACTIONS, 2))}"
            case 4:
                yield f"CREATE TABLE v (x {_definition(random)}, KEY (y), y {random.choice(TYPES)}, z INT NOT NULL)"
            case 5:
                yield f"ALTER TABLE t MODIFY {random.choice('abcdefghijklmno')} {_definition(random)}{random.choice(PLACES)}"
            case _:
                yield f"ALTER TABLE t ADD x {_definition(random)}{random.choice(PLACES)}"


def _definition(random: Random) -> str:
    literals = random.choice((NUMBERS, NUMBERS, TEXTS, TEXTS, TIMES, EXPRESSIONS))
    words = [random.choice(ATTRIBUTES), f"DEFAULT {random.choice(literals)}" if random.random() < 0.75 else ""]
    random.shuffle(words)
    return " ".join([random.choice(TYPES), *filter(None, words)])


def systematic_forms() -> Iterator[str]:
    """Each statement of the lists once, and each literal with each type."""
    yield from TABLES
    yield from (f"ALTER TABLE t {action}" for action in ACTIONS)
    for kind in TYPES:
        yield from (f"ALTER TABLE t ADD x {kind} {attribute}".strip() for attribute in dict.fromkeys(ATTRIBUTES))
        yield from (
            f"ALTER TABLE t ADD x {kind} DEFAULT {literal}" for literal in (*NUMBERS, *TEXTS, *TIMES, *EXPRESSIONS)
        )


OF_COLUMNS = (
    "CREATE TABLE v (id INT, {0} INT, KEY (id))", "ALTER TABLE v ADD COLUMN z INT AFTER {0}", "ALTER TABLE v MODIFY {0} BIGINT",
    "ALTER TABLE v CHANGE {0} {0} BIGINT FIRST", "ALTER TABLE v ALTER {0} SET DEFAULT 5", "ALTER TABLE v ADD INDEX ({0})",
    "ALTER TABLE v RENAME COLUMN {0} TO y", "ALTER TABLE v RENAME COLUMN y TO {0}", "ALTER TABLE v DROP {0}",
    "ALTER TABLE v ADD {0} INT", "ALTER TABLE v DROP COLUMN {0}", "ALTER TABLE v ADD ({0} VARCHAR(9), PRIMARY KEY ({0}))",
    "CREATE TABLE w ({0} DATE, id INT)", "CREATE TABLE w ({0} VARCHAR(9) NOT NULL DEFAULT 'x' COMMENT 'y')",
)  # fmt: skip
"""Statements with a word as the name of a column; each follows those before it that the server took."""

OF_TABLES = (
    "CREATE TABLE {0} (id INT PRIMARY KEY)", "ALTER TABLE {0} ADD x INT", "TRUNCATE {0}", "TRUNCATE TABLE {0}",
    "CREATE INDEX i ON {0} (x)", "DROP INDEX i ON {0}", "CREATE TABLE w LIKE {0}", "RENAME TABLE {0} TO v",
    "RENAME TABLE v TO {0}", "ALTER TABLE {0} RENAME v", "ALTER TABLE v RENAME TO {0}", "ALTER TABLE forms.{0} ADD y INT",
    "DROP TABLE {0}", "CREATE TABLE IF NOT EXISTS forms.{0} ({0} INT)", "DROP TABLE IF EXISTS {0}, zz",
    "ALTER TABLE t RENAME {0}",
)  # fmt: skip
"""Statements with a word as the name of a table, in the same way."""


def check_words(beside: FormsBeside, words: Sequence[str]) -> None:
    """Try words as names of columns and tables, without quotes."""
    for word in words:
        for statements in (OF_COLUMNS, OF_TABLES):
            catalog = beside.anew()
            for statement in statements:
                catalog = beside.follow(catalog, statement.format(word)) or catalog


def keywords(beside: FormsBeside) -> list[str]:
    """The words of the running server, in their order."""
    found = beside.run("SELECT DISTINCT WORD FROM information_schema.KEYWORDS ORDER BY WORD")
    return [word for (word,) in found if word.isidentifier()]
