"""Lives of shards that become one table: rolling statements over them, and the union of what the server has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any

import pyarrow as pa

from dts_assets.model.columns import joined_type
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema, folded
from tests.dts_emulator.random_lives import PLAIN, WINDOWS, RandomLife
from tests.dts_emulator.server_lives import FIRST, HOUR, Held, Life, LifeRecorder, kinds_of
from tests.wire.random_statements import Words

MERGED = TableId("shop", "", "orders")
MERGE = {"shop.orders": ["shop_*.orders_*"]}
DATABASES = ("shop_00", "shop_01")
SHARDS = tuple(TableId(database, "", f"orders_{number:02}") for database in DATABASES for number in (1, 2))
OUTSIDE = TableId("shop_01", "", "archive")
"""A table that is no shard, and may become one."""
TELLS = ("_source_database", "_source_table")

_TYPES = {"int": "int(11)", "bigint": "bigint(20)", "double": "double", "binary": "varbinary(255)"}


def is_shard(table: TableId) -> bool:
    return table.matches("shop_*.orders_*")


def union(life: Life, place: int = -1) -> Held | None:
    """The rows of all shards behind a moment of a life, as the merged table has them; None where there is no shard."""
    moment = life.moments[place]
    shards = {table: held for table, held in moment.tables.items() if is_shard(table)}
    if not shards:
        return None
    since = {table: _since(life, place, table) for table in shards}
    newest = sorted(shards, key=lambda one: (since[one], one.parts), reverse=True)
    columns: dict[str, tuple[str, list[SchemaColumn]]] = {}
    for table in newest:
        for column in shards[table].schema.columns:
            columns.setdefault(folded(column.name), (column.name, []))[1].append(column)
    schema = TableSchema(
        (
            *(_joined(name, some) for name, some in columns.values()),
            *(SchemaColumn(name, "varchar(255)") for name in TELLS),
        ),
        (*shards[newest[0]].schema.key, *(TELLS if shards[newest[0]].schema.key else ())),
    )
    rows, unknown = [], []
    for table, held in shards.items():
        for row, names in zip(held.rows, held.unknown, strict=True):
            rows.append(_row(schema, table, held.schema, row))
            mine = {folded(name) for name in names}
            unknown.append(frozenset(name for name in schema.names if folded(name) in mine))
    return Held(schema, tuple(rows), tuple(unknown), next((one.doubt for one in shards.values() if one.doubt), None))


def _since(life: Life, place: int, table: TableId) -> int:
    """The number of the moment whose statement gave a table its schema, or its name."""
    end = range(len(life.moments))[place]
    since = end
    while since and _same(life, since - 1, end, table):
        since -= 1
    return since


def _same(life: Life, one: int, other: int, table: TableId) -> bool:
    before, now = (life.moments[place].tables.get(table) for place in (one, other))
    return before is not None and now is not None and before.schema == now.schema


def _joined(name: str, some: Sequence[SchemaColumn]) -> SchemaColumn:
    kinds = {one.type: kind.lake_type for one in some for kind in kinds_of(TableSchema((one,))).values()}
    joined = reduce(joined_type, kinds.values())
    found = next((one for one in some if kinds[one.type] == joined), None)
    return (
        replace(found, name=name) if found else SchemaColumn(name, _TYPES.get(joined, joined.replace("string", "text")))
    )


def _row(schema: TableSchema, table: TableId, mine: TableSchema, row: Sequence[Any]) -> tuple[Any, ...]:
    kinds, wanted = kinds_of(mine), kinds_of(schema)
    values = {folded(name): (value, kinds[name].lake_type) for name, value in zip(mine.names, row, strict=True)} | {
        name: (part, "string") for name, part in zip(TELLS, (table.database, table.table), strict=True)
    }
    return tuple(
        _as(*values[folded(name)], wanted[name].lake_type) if folded(name) in values else None for name in schema.names
    )


def _as(value: Any, kind: str, wanted: str) -> Any:
    if value is None or kind == wanted or isinstance(value, tuple):
        return value
    return held_as(pa.array([value], arrow_type(kind)), arrow_type(wanted))[0].as_py()


ROLLING: Words = replace(PLAIN, databases=DATABASES, tables=tuple({one.table: 0 for one in SHARDS}))


class RollingLife(RandomLife):
    """Statements that roll over all shards in any order, a few of which they may never reach, with writes between."""

    def __init__(self, recorder: LifeRecorder, seed: int, *, image: str = "FULL", moves: bool = False) -> None:
        super().__init__(recorder, seed, ROLLING, image=image)
        self._moves = moves
        self._shards, self._left, self._sql = list(SHARDS), list[TableId](), ""

    def lived(self, count: int) -> Life:
        recorder, random = self._recorder, self._random
        recorder.begin(DATABASES, strict=True, image=self._image)
        key = random.choice((" PRIMARY KEY", " PRIMARY KEY", ""))
        for one in self._shards:
            recorder.say(f"CREATE TABLE {one.table} (id INT{key}, a VARCHAR(20), b INT, c DECIMAL(9,2))", one.database)
        window, goes_on = 0, True
        for place in range(count):
            if window < place * WINDOWS // count:
                window = place * WINDOWS // count
                recorder.go_to(FIRST + window * HOUR + timedelta(seconds=random.choice((0, 0, 40))))
            else:
                recorder.wait(random.choice((0, 1, 5, 70)))
            goes_on = goes_on and self._step(random.random())
        return recorder.end()

    def _step(self, chance: float) -> bool:
        recorder, random = self._recorder, self._random
        if chance < 0.35:
            if not self._left:
                self._sql, self._left = self._rolling(), random.sample(SHARDS, random.choice((1, 3, 4, 4, 4)))
            shard = self._left.pop()
            # A shard that has a column already, or lacks it, stays as it is.
            return shard not in recorder.tables or recorder.say(self._sql.format(shard.table), shard.database)
        if chance < 0.40:
            shard = random.choice(SHARDS)
            drop = random.choice(("TRUNCATE {}", "TRUNCATE {}", "DROP TABLE IF EXISTS {}"))
            return recorder.say(drop.format(shard.table), shard.database)
        if chance < 0.45 and (missing := [one for one in SHARDS if one not in recorder.tables]) and recorder.tables:
            like = random.choice(sorted(recorder.tables))
            name = f"{like.database}.{like.table}"
            return recorder.say(f"CREATE TABLE {missing[0].table} LIKE {name}", missing[0].database)
        if chance < 0.49 and self._moves:
            one, other = (f"{one.database}.{one.table}" for one in random.sample((*SHARDS, OUTSIDE), 2))
            swap = f"RENAME TABLE {one} TO shop_00.spare, {other} TO {one}, shop_00.spare TO {other}"
            return recorder.say(random.choice((swap, f"RENAME TABLE {one} TO {other}")), DATABASES[0])
        table = random.choice(sorted(recorder.tables)) if recorder.tables else None
        return table is None or recorder.say(self._rows(table, recorder.tables[table]), table.database)

    def _rolling(self) -> str:
        random = self._random
        one, other = random.sample(("a", "b", "c", "d", "e"), 2)
        kind = random.choice(("INT", "BIGINT", "VARCHAR(30)", "VARCHAR(30)", "DECIMAL(12,2)", "DOUBLE", "DATE"))
        place = random.choice(("", "", " FIRST", " AFTER id"))
        fill = random.choice(("", "", " DEFAULT 7", " NOT NULL DEFAULT 5")) if kind != "DATE" else ""
        return "ALTER TABLE {} " + random.choice(
            (
                f"ADD COLUMN {one} {kind}{fill}{place}",
                f"ADD COLUMN {one} {kind}{fill}{place}",
                f"DROP COLUMN {one}",
                f"RENAME COLUMN {one} TO {other}",
                f"CHANGE {one} {other} {kind}",
                f"MODIFY {one} {kind}{place}",
                f"MODIFY {one} {kind}",
                f"DROP COLUMN {one}, ADD COLUMN {one} {kind}{fill}",
            )
        )


def compared(snapshot: pa.Table | None, held: Held | None) -> tuple[Mapping[TableId, pa.Table], Mapping[TableId, Held]]:
    """The merged snapshot and the union, as they are compared."""
    return {} if snapshot is None else {MERGED: snapshot}, {} if held is None else {MERGED: held}
