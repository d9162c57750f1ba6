"""Random lives of a few tables: rows come, change and go between statements that change their columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from dts_assets.model.tables import TableId
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from tests.dts_emulator.server_lives import FIRST, HOUR, Held, Life, LifeRecorder
from tests.stages.server_rows import LITERALS
from tests.wire.random_statements import RandomStatements, Words, quoted

WINDOWS = 4

_WEIGHTS = {
    "create": 8, "drop": 3, "rename": 0, "alter": 70, "index": 1, "of_database": 0, "truncate": 4, "without_effect": 1,
    "partitions": 0,
}  # fmt: skip
PLAIN = Words(
    databases=("d",), tables=("orders", "items", "bag"), columns=("id", "a", "b", "c", "D"),
    types=("INT", "INT", "BIGINT", "DATE", "DATETIME", "DOUBLE", "VARBINARY(30)"),
    texts=("VARCHAR(9)", "VARCHAR(30)", "TEXT"), charsets=("utf8mb4",), weights=_WEIGHTS,
)  # fmt: skip
"""Columns whose types every format tells alike."""
MANY = Words(
    databases=("d",), tables=("orders", "items", "bag"), columns=("id", "a", "b", "c", "D", "e f", "价"),
    types=(
        "TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT", "INT UNSIGNED", "INT(6) ZEROFILL", "BIGINT", "BIGINT UNSIGNED",
        "DECIMAL(5)", "DECIMAL(9,2)", "DECIMAL(12,4) UNSIGNED", "FLOAT", "DOUBLE", "DOUBLE(9,2)", "BIT(1)", "BIT(7)", "YEAR",
        "DATE", "TIME", "TIME(3)", "DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "BINARY(5)",
        "VARBINARY(30)", "BLOB", "TINYBLOB",
    ),
    texts=(
        "CHAR(5)", "VARCHAR(3)", "VARCHAR(9)", "VARCHAR(30)", "VARCHAR(300)", "TINYTEXT", "TEXT", "MEDIUMTEXT",
        "ENUM('x','y')", "ENUM('y','x','z ')", "SET('x','y','z')", "SET('z','x')",
    ),
    charsets=("utf8mb4", "latin1", "gbk", "binary"), weights=_WEIGHTS,
)  # fmt: skip
"""Columns of the types and character sets that databases have most."""
MOVING = Words(
    databases=("d", "e"), tables=("orders", "items", "bag"), columns=PLAIN.columns, types=PLAIN.types, texts=PLAIN.texts,
    charsets=PLAIN.charsets, weights={**_WEIGHTS, "rename": 25},
)  # fmt: skip
"""Tables that get other names, change places and go to another database."""
STILL = Words(
    databases=("d",), tables=PLAIN.tables, columns=PLAIN.columns, types=MANY.types, texts=MANY.texts, charsets=MANY.charsets,
    weights={**dict.fromkeys(_WEIGHTS, 0), "without_effect": 1},
)  # fmt: skip
"""Tables whose columns never change."""
KINDS = {"plain": PLAIN, "many": MANY, "moving": MOVING, "still": STILL}

_KEYED = (
    "CREATE TABLE orders (id INT PRIMARY KEY, a VARCHAR(20), b DATETIME, c DECIMAL(9,2))",
    "CREATE TABLE orders (a BIGINT, id VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, b TEXT)",
    "CREATE TABLE orders (id INT, a VARCHAR(9), b INT NOT NULL DEFAULT 7, PRIMARY KEY (a, id))",
)


class RandomLife:
    """One life by its seed."""

    def __init__(self, recorder: LifeRecorder, seed: int, words: Words, *, image: str = "FULL") -> None:
        self._recorder, self._words, self._image = recorder, words, image
        self._seed, self._random = seed, Random(seed)
        self._writer = RandomStatements(Random(seed), words)

    def lived(self, count: int) -> Life:
        """So many statements, fewer where the server does something that no statement tells."""
        recorder, random = self._recorder, self._random
        recorder.begin(self._words.databases, strict=self._seed % 2 == 0, image=self._image)
        recorder.say(_KEYED[self._seed % len(_KEYED)])
        recorder.say("CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, a INT, D DATE)")
        recorder.say("CREATE TABLE bag (a VARCHAR(9), b INT)")
        window, goes_on = 0, True
        for place in range(count):
            if not goes_on:
                break
            if window < place * WINDOWS // count:
                window = place * WINDOWS // count
                recorder.go_to(FIRST + window * HOUR + timedelta(seconds=random.choice((0, 0, 40))))
            else:
                recorder.wait(random.choice((0, 1, 5, 70)))
            goes_on = self._step(random.random())
        return recorder.end()

    def _step(self, chance: float) -> bool:
        recorder = self._recorder
        if chance < 0.05 and len(recorder.tables) > 1 and self._words.weights["alter"]:
            return self._beside()
        if chance < 0.35:
            database, sql = self._writer.statement(recorder.beside.catalog)
            return recorder.say(sql, database)
        table = self._random.choice(sorted(recorder.tables)) if recorder.tables else None
        return table is None or recorder.say(self._rows(table, recorder.tables[table]), table.database)

    def _beside(self) -> bool:
        """A transaction of another session around a statement about another table."""
        recorder = self._recorder
        one, other = self._random.sample(sorted(recorder.tables), 2)
        sql = self._insert(one, recorder.tables[one])
        opened = recorder.open_elsewhere(sql)
        name = f"{quoted(other.database)}.{quoted(other.table)}"
        added = f"ALTER TABLE {name} ADD COLUMN beside{self._random.randrange(99)} INT NOT NULL DEFAULT 3 FIRST"
        goes_on = recorder.say(added)
        recorder.wait(1)
        return recorder.commit_elsewhere(sql) and goes_on if opened else goes_on

    def _rows(self, table: TableId, held: Held) -> str:
        write: Callable[[TableId, Held], str] = self._random.choice(
            (self._insert, self._insert, self._insert, self._update, self._update, self._delete)
        )
        return write(table, held)

    def _insert(self, table: TableId, held: Held) -> str:
        named = 0.85 if self._image == "FULL" else 1  # what a minimal image leaves out has a default of the table's
        columns = [column for column in held.schema.columns if self._writable(column) and self._random.random() < named]
        names = ", ".join(quoted(column.name) for column in columns)
        rows = [
            "(" + ", ".join(self._value(column, held) for column in columns) + ")"
            for _ in range(self._random.randint(1, 3))
        ]
        word = self._random.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
        return f"SET STATEMENT sql_mode = '' FOR {word} INTO {self._name(table)} ({names}) VALUES {', '.join(rows)}"

    def _update(self, table: TableId, held: Held) -> str:
        columns = [column for column in held.schema.columns if self._writable(column)]
        if not columns:
            return self._delete(table, held)
        sets = ", ".join(
            f"{quoted(column.name)} = {self._value(column, held)}"
            for column in self._random.sample(columns, min(len(columns), self._random.randint(1, 2)))
        )
        return f"SET STATEMENT sql_mode = '' FOR UPDATE IGNORE {self._name(table)} SET {sets} {self._some(held)}"

    def _delete(self, table: TableId, held: Held) -> str:
        return f"DELETE FROM {self._name(table)} {self._some(held)}"

    def _some(self, held: Held) -> str:
        order = quoted(self._random.choice(held.schema.names))
        return f"ORDER BY {order}{self._random.choice(('', ' DESC'))} LIMIT {self._random.randint(1, 2)}"

    def _value(self, column: SchemaColumn, held: Held) -> str:
        kind = server_type(column)
        if kind is None or (column.nullable and self._random.random() < 0.15):
            return "NULL"
        if column.name in held.schema.key and kind.kind in (Kind.WHOLE, Kind.TEXT):
            return str(self._random.randint(1, 30))
        return self._random.choice(LITERALS[kind.kind])

    @staticmethod
    def _writable(column: SchemaColumn) -> bool:
        kind = server_type(column)
        return not column.generated and kind is not None and kind.kind is not Kind.OTHER

    @staticmethod
    def _name(table: TableId) -> str:
        return f"{quoted(table.database)}.{quoted(table.table)}"
