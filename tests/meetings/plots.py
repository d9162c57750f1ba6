"""Random statements of a database's life, each of which fits what the server has at its moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Final

from dts_assets.model.tables import TableId
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn, folded
from tests.dts_emulator.server_lives import FIRST, Held, LifeRecorder
from tests.meetings.cases import HOURS, WINDOWS, Said
from tests.meetings.features import DATABASES, FILTERED, LIMIT, RULED, SHARDS, Feature
from tests.stages.server_rows import LITERALS
from tests.wire.random_statements import quoted

F = Feature
_RULED = ", ".join(f"{name} VARCHAR(40)" for name in RULED)
_FREE: Final = ("a", "b", "c", "e")
_TYPES: Final = (
    "INT", "BIGINT", "VARCHAR(9)", "VARCHAR(30)", "VARCHAR(30)", "DECIMAL(9,2)", "DOUBLE", "DATE", "DATETIME", "TINYINT(1)",
    "BIGINT UNSIGNED", "TIMESTAMP NULL", "VARBINARY(30)", "TEXT",
)  # fmt: skip
_WORDS: Final = ("'anna@example.org'", "'bo 12 34'", "'4111 1111'", "''", "'no digits'", "NULL")

CREATED: Final = (
    *(f"CREATE TABLE {'.'.join(one)} (id INT PRIMARY KEY, f INT, a INT, b VARCHAR(20), {_RULED})" for one in SHARDS),
    f"CREATE TABLE d.items (id INT PRIMARY KEY, f INT, a INT, b VARCHAR(20), {_RULED})",
    f"CREATE TABLE d.pairs (f INT, b VARCHAR(20), a BIGINT UNSIGNED, n INT, e DATETIME, PRIMARY KEY (n, b), {_RULED})",
    "CREATE TABLE d.bag (a VARCHAR(9), f INT, b TINYINT(1), mail VARCHAR(40))",
)  # fmt: skip


class Plot:
    """One life by its seed."""

    def __init__(
        self,
        recorder: LifeRecorder,
        random: Random,
        features: frozenset[Feature],
        *,
        of_set: int,
        earlier: Sequence[Said],
    ) -> None:
        self._recorder, self._random, self._features, self._set = recorder, random, features, of_set
        self._rolling: list[tuple[str, str]] = []
        self._earlier = [one for one in earlier if one.sql.startswith(("ALTER", "TRUNCATE"))]
        self.said: list[Said] = []

    def live(self, count: int) -> None:
        """Say so many statements, fewer where the server does something that no statement tells."""
        recorder, random = self._recorder, self._random
        begin(recorder, self._features)
        goes_on = all(self._say(sql, "d") for sql in CREATED)
        for place in range(count):
            if not goes_on:
                return
            window = place * WINDOWS // count
            recorder.go_to(FIRST + window * timedelta(hours=HOURS) + timedelta(seconds=random.choice((0, 0, 40))))
            recorder.wait(random.choice((1, 5, 70, 2000)))
            goes_on = self._step(random.random())

    def _say(self, sql: str, database: str) -> bool:
        recorder = self._recorder
        refused = recorder.beside.counts["refused"]
        goes_on = recorder.say(sql, database)
        if goes_on and recorder.beside.counts["refused"] == refused:
            self.said.append(Said(self._set, int((recorder.now - FIRST).total_seconds()), database, sql))
        return goes_on

    def _step(self, chance: float) -> bool:
        tables = self._recorder.tables
        if self._rolling and chance < 0.2:
            return self._say(*self._rolling.pop())
        if self._earlier and chance < 0.25:
            one = self._earlier.pop(0)
            return self._say(one.sql, one.database)
        if chance < 0.45:
            database, sql = self._statement()
            return self._say(sql, database)
        if not tables:
            return self._say(self._random.choice(CREATED), "d")
        table = self._random.choice(sorted(tables))
        write = self._random.choice(
            (self._insert, self._insert, self._insert, self._update, self._update, self._delete)
        )
        return self._say(write(table, tables[table]), table.database)

    def _statement(self) -> tuple[str, str]:
        tables, random = self._recorder.tables, self._random
        table = random.choice(sorted(tables)) if tables else TableId("d", "", "items")
        held, kind = tables.get(table), random.choice("aaaaaaaaaaaarrrkkffttdcnnnn")
        name = _name(table)
        if held is None or kind == "c":
            return "d", random.choice((random.choice(CREATED), f"CREATE TABLE d.bag_2 LIKE {name}"))
        if kind == "t":
            return table.database, f"TRUNCATE TABLE {name}"
        if kind == "d":
            return table.database, f"DROP TABLE {name}"
        if kind == "n":
            return table.database, self._renames(table)
        action = {"a": self._action, "r": self._ruled_action, "k": self._key_action, "f": self._filter_action}[kind](
            held
        )
        if _is_shard(table) and random.random() < 0.8:
            self._rolling = [(f"ALTER TABLE {_name(one)} {action}", one.database) for one in tables if _is_shard(one)]
            random.shuffle(self._rolling)
            sql, database = self._rolling.pop()
            return database, sql
        if random.random() < 0.3 and kind == "a":
            action += f", {self._action(held)}"
        return table.database, f"ALTER TABLE {name} {action}"

    def _renames(self, table: TableId) -> str:
        random, tables = self._random, self._recorder.tables
        one, other = _name(table), _name(random.choice(sorted(tables)))
        moved = random.choice(("d.bag_2", "d.items", "shop_00.orders_3", "shop_01.orders_1"))
        spare = f"{table.database}.spare"
        return random.choice(
            (
                f"RENAME TABLE {one} TO {moved}",
                f"RENAME TABLE {one} TO {moved}",
                f"ALTER TABLE {one} RENAME TO {moved}",
                f"RENAME TABLE {one} TO {spare}, {other} TO {one}, {spare} TO {other}",
            )
        )

    def _action(self, held: Held) -> str:
        random = self._random
        names = [one for one in held.schema.names if folded(one) in _FREE] or ["a"]
        one, other, kind = random.choice(names), random.choice(_FREE), random.choice(_TYPES)
        place = random.choice(("", "", " FIRST", f" AFTER {random.choice(held.schema.names)}"))
        fill = random.choice(("", "", " DEFAULT '7'", " NOT NULL DEFAULT '5'"))
        fill = fill if kind not in ("DATE", "DATETIME", "TIMESTAMP NULL", "TEXT") else ""
        return random.choice(
            (
                f"ADD COLUMN {other} {kind}{fill}{place}",
                f"ADD COLUMN {other} {kind}{fill}{place}",
                f"DROP COLUMN {one}",
                f"RENAME COLUMN {one} TO {other}",
                f"CHANGE {one} {other} {kind}{place}",
                f"MODIFY {one} {kind}{place}",
                f"MODIFY {one} {kind}",
                f"RENAME COLUMN {one} TO {one.swapcase()}",
                f"DROP COLUMN {one}, ADD COLUMN {one} {kind}{fill}",
            )
        )

    def _ruled_action(self, held: Held) -> str:
        random = self._random
        ruled, free = (
            random.choice(RULED),
            random.choice([one for one in held.schema.names if folded(one) in _FREE] or ["a"]),
        )
        return random.choice(
            (
                f"CHANGE {free} {ruled} VARCHAR(40)",
                f"CHANGE {ruled} {random.choice(_FREE)} VARCHAR(40)",
                f"MODIFY {ruled} VARCHAR(60) FIRST",
                f"DROP COLUMN {ruled}",
                f"ADD COLUMN {ruled} VARCHAR(40) DEFAULT 'default 12'",
                f"RENAME COLUMN {ruled} TO {random.choice(RULED)}",
            )
        )

    def _filter_action(self, held: Held) -> str:
        now = next((one for one in FILTERED if one in held.schema.names), "f")
        new = self._random.choice([one for one in FILTERED if one != now])
        return self._random.choice(
            (f"RENAME COLUMN {now} TO {new}", f"CHANGE {now} {new} BIGINT", f"MODIFY {now} BIGINT")
        )

    def _key_action(self, held: Held) -> str:
        random = self._random
        if not held.schema.key:
            one = random.choice(held.schema.names)
            return f"ADD PRIMARY KEY ({quoted(one)})"
        key = random.choice(held.schema.key)
        return random.choice(
            (
                "DROP PRIMARY KEY",
                f"CHANGE {key} {'ident' if folded(key) == 'id' else 'id'} BIGINT",
                f"MODIFY {key} BIGINT",
                f"MODIFY {key} VARCHAR(30)",
                f"DROP PRIMARY KEY, ADD PRIMARY KEY ({key}, {random.choice(held.schema.names)})",
            )
        )

    def _insert(self, table: TableId, held: Held) -> str:
        columns = [one for one in held.schema.columns if self._random.random() < 0.9 or one.name in held.schema.key]
        names = ", ".join(quoted(one.name) for one in columns)
        rows = [
            "(" + ", ".join(self._value(one, held) for one in columns) + ")" for _ in range(self._random.randint(1, 4))
        ]
        word = self._random.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
        if F.MINIMAL in self._features and len(columns) < len(held.schema.columns):
            word = "INSERT IGNORE"  # the image of a row that REPLACE updates does not tell the defaults that it gets
        return f"SET STATEMENT sql_mode = '' FOR {word} INTO {_name(table)} ({names}) VALUES {', '.join(rows)}"

    def _update(self, table: TableId, held: Held) -> str:
        some = self._random.sample(held.schema.columns, min(len(held.schema.columns), self._random.randint(1, 3)))
        sets = ", ".join(f"{quoted(one.name)} = {self._value(one, held)}" for one in some)
        return f"SET STATEMENT sql_mode = '' FOR UPDATE IGNORE {_name(table)} SET {sets} {self._some(held)}"

    def _delete(self, table: TableId, held: Held) -> str:
        return f"DELETE FROM {_name(table)} {self._some(held)}"

    def _some(self, held: Held) -> str:
        order = quoted(self._random.choice(held.schema.names))
        return f"ORDER BY {order}{self._random.choice(('', ' DESC'))} LIMIT {self._random.randint(1, 3)}"

    def _value(self, column: SchemaColumn, held: Held) -> str:
        random, kind = self._random, server_type(column)
        if column.name in FILTERED:
            return random.choice((str(random.randrange(2 * LIMIT)), str(random.randrange(2 * LIMIT)), "NULL"))
        if folded(column.name) in RULED:
            return random.choice(_WORDS)
        if kind is None or (column.nullable and random.random() < 0.15):
            return "NULL"
        if column.name in held.schema.key and kind.kind in (Kind.WHOLE, Kind.TEXT):
            return str(random.randint(1, 20))
        return random.choice(LITERALS[kind.kind])


def begin(recorder: LifeRecorder, features: frozenset[Feature]) -> None:
    """Let a life begin on an empty server."""
    recorder.begin(DATABASES, strict=True, image="MINIMAL" if F.MINIMAL in features else "FULL")


def _name(table: TableId) -> str:
    return f"{table.database}.{table.table}"


def _is_shard(table: TableId) -> bool:
    return table.matches("shop_*.orders_*")


Writer = Callable[[TableId, Held], str]
