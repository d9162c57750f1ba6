"""Topics whose tables have every column type: zero values, values that do not fit, and NULL, in columns and in keys.

The laboratory's tasks write the messages. A value that its column's encoder refuses is sent as text under the column's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dts_emulator.conformance.postgresql_story import PostgresqlStory
from dts_emulator.conformance.story import START, Cell, Row, Story, column
from dts_emulator.drs import postgresql_task as drs_task
from dts_emulator.dts import postgresql_task as dts_task
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Kind, SourceColumn
from dts_emulator.source.source_schema import labels_of
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.dts_emulator.postgresql.every_type import BORDERS
from tests.dts_emulator.type_gallery import CASES
from tests.e2e.every_lake import EVERY_LAYER, KafkaMessage, MakeTopic, Topic

MYSQL_FORMATS = ("dts-protobuf", "dts-avro", "drs-json", "drs-json-c", "canal-json")
POSTGRESQL_FORMATS = ("dts-protobuf", "drs-json")
_HOUR = 3600
_KEY_FOR_EACH_LAKE_TYPE = (
    "bigint", "bigint unsigned", "decimal(12,2)", "decimal(65,30)", "float", "double", "bit(64)", "year", "date", "datetime(6)",
    "timestamp(6)", "time", "varchar(9)", "varbinary(9)",
)  # fmt: skip
_MORE_KEYS = ("bigint unsigned", "decimal(65,30)", "bit(64)", "datetime(6)", "timestamp(6)", "tinyint(1)")
_POINT = bytes.fromhex("000000000101000000000000000000F03F0000000000000040")


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a kind of types: its zero, one in the middle, and one beyond its border or of no calendar."""

    zero: Cell
    usual: Cell
    beyond: Cell


@dataclass(frozen=True, slots=True)
class TypeOfColumn:
    """A type as a column declares it, the number by which tables and columns are named, and its values."""

    number: int
    declared: str
    charset: str
    values: Values

    @property
    def name(self) -> str:
        return f"c{self.number:03d}"

    @property
    def word(self) -> str:
        return self.declared.partition("(")[0].split()[0]

    def column(self, name: str, *, is_key: bool = False) -> SourceColumn:
        return column(name, self.declared, charset=self.charset, key=is_key)


_NUMBER = Values(0, 7, 10**30)
_DECIMAL = Values("0", "0.5", "9" * 80)
_CLOCK = Values("0000-00-00 00:00:00", "2026-01-05 10:11:12", "2026-02-31 00:00:00")
_SECONDS = Values("0000-00-00 00:00:00", "2026-01-05 10:11:12", "2038-01-19 03:14:07")
_TEXT = Values("", "a", b"\xff\xfe\x80")
_BYTES = Values(b"", b"\x00\xff", b"\xff" * 40)
_LABEL = Values("", "x", "no label")
_GEOMETRY = Values(b"", _POINT, b"\xff")
_FLOAT = Values(0.0, 0.5, -1e-30)
_OF_WORD: Mapping[str, Values] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit"), _NUMBER), "year": Values(0, 2026, 99999),
    "decimal": _DECIMAL, "float": _FLOAT, "double": _FLOAT,
    "date": Values("0000-00-00", "2026-01-05", "2026-02-31"), "datetime": _CLOCK, "timestamp": _SECONDS,
    "time": Values("00:00:00", "10:11:12", "-838:59:59"), "enum": _LABEL, "set": _LABEL, "json": Values("null", "{}", '{"a":'),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BYTES),
    "inet4": Values("0.0.0.0", "192.0.2.1", "no address"), "inet6": Values("::", "::1", "no address"),
    "uuid": Values("00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426655440000", "no uuid"),
}  # fmt: skip


def mysql_types() -> tuple[TypeOfColumn, ...]:
    """Return the types of docs/types.md."""
    found = []
    for number, case in enumerate(CASES):
        declared, _, charset = case.declared.removesuffix(" null").partition(" character set ")
        if charset == "binary":
            declared, charset = declared.replace("varchar", "varbinary"), ""
        word = declared.partition("(")[0].split()[0]
        values = _OF_WORD.get(word, _GEOMETRY)
        if labels := labels_of(declared):
            values = replace(values, usual=labels[0])
        found.append(TypeOfColumn(number, declared, charset or "utf8mb4", values))
    return tuple(found)


def type_topics() -> dict[str, MakeTopic]:
    """Return the topics with every type, of each format that docs/types.md names for them."""
    mysql = {f"types_{name}": partial(_mysql_topic, name) for name in MYSQL_FORMATS}
    postgresql = {f"postgresql_{name}": partial(_postgresql_topic, name) for name in POSTGRESQL_FORMATS}
    return {name.replace("-", "_"): make for name, make in (mysql | postgresql).items()}


def key_types(name: str) -> tuple[TypeOfColumn, ...]:
    """Return the types of keys in a format: each that MySQL takes as one, or one for each type of the lake."""
    types = {one.declared: one for one in mysql_types() if one.charset == "utf8mb4"}
    if name != "dts-protobuf":
        return tuple(types[declared] for declared in _KEY_FOR_EACH_LAKE_TYPE)
    words = {one.word: one for one in reversed(types.values()) if one.values is not _GEOMETRY}
    return tuple({one.declared: one for one in (*words.values(), *(types[one] for one in _MORE_KEYS))}.values())


def _mysql_topic(name: str) -> Topic:
    """Return a topic of two windows: a table with every type, and tables whose key is of one type."""
    changes = _Changes(name, Story(pause=1), mysql_types(), key_types(name))
    changes.add()
    vendor = VENDOR_TASKS[name]
    options = vendor.options()
    messages = vendor.recording(changes.story.transactions, options, changes.story.now + 60)
    schema = None if vendor.schema is None else vendor.schema()
    return _topic(f"types_{name}", name, messages, schema=schema, windows=2)


def _postgresql_topic(name: str) -> Topic:
    """Return a topic of a PostgreSQL: a table with every type, and a table for each type, which is its key."""
    story = PostgresqlStory()
    types = {f"c{number:03d}": kind for number, kind in enumerate(BORDERS)}
    zeros = {f"c{number:03d}": texts[0] for number, texts in enumerate(BORDERS.values())}
    every = story.table("every", {"id": "integer", **types})
    unfit = {place: zeros[place] if kind == "bytea" else "unfit" for place, kind in types.items()}  # bytes always fit
    # An empty text is no value of a boolean, which is sent as its first letter.
    empty = {place: zeros[place] if kind == "boolean" else "" for place, kind in types.items()}
    rows: tuple[dict[str, str], ...] = (zeros, unfit, empty, {})
    story.insert(every, *({"id": str(number), **row} for number, row in enumerate(rows)))
    story.update(every, {"id": "0"}, {"id": "10"})
    story.delete(every, {"id": "1"})
    for place, kind in types.items():
        table = story.table(f"key_{place}", {"k": kind, "note": "text"}, key=("k",))
        story.insert(
            table, *({"k": text, "note": "a"} for text in dict.fromkeys((zeros[place], unfit[place], empty[place])))
        )
        story.update(table, {"k": unfit[place]}, {"note": None})
        if empty[place] != zeros[place]:
            story.delete(table, {"k": empty[place]})
    return _topic(f"postgresql_{name}", name, _sent_by_postgresql(name, story), windows=2)


def _sent_by_postgresql(name: str, story: PostgresqlStory) -> Iterator[Message]:
    if name == "drs-json":
        return drs_task.produce_from_postgresql(story.transactions, story.columns(), drs_task.PostgresqlOptions())
    until = int(story.transactions[-1].committed.timestamp()) + 60
    options = PostgresqlDtsOptions()
    return dts_task.produce_from_postgresql(story.transactions, story.columns(), options, until=until)


def _topic(name: str, format_name: str, messages: Iterator[Message], **more: Any) -> Topic:
    sent = tuple(
        KafkaMessage(
            datetime.fromtimestamp(one.timestamp / 1000, UTC), one.value, one.headers, one.partition, one.offset
        )
        for one in messages
    )
    settings = {"source_time_zone": "+00:00", **EVERY_LAYER}
    return Topic(name.replace("-", "_"), format_name, sent, settings=settings, **more)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes of all tables: in the first window INSERT, in the second one UPDATE, DELETE, and text that does not fit."""

    format: str
    story: Story
    types: Sequence[TypeOfColumn]
    keys: Sequence[TypeOfColumn]

    def add(self) -> None:
        every = self._table("every", [column("id", "int(11)", key=True), *(one.column(one.name) for one in self.types)])
        tables = {one: self._key_table(one) for one in self.keys}
        with self.story.transaction():
            self.story.insert(every, *self._rows_of_every())
            for one, table in tables.items():
                self.story.insert(table, *({"k": key, "note": "a"} for key in self._values(one)))
        self.story.now = START + _HOUR
        with self.story.transaction():
            self.story.update(every, {"id": 1}, {"id": 11})
            self.story.delete(every, {"id": 2})
            for one, table in tables.items():
                zero, usual, *beyond = self._values(one)
                self.story.update_each(table, [({"k": key}, {"note": None}) for key in (zero, *beyond)])
                self.story.delete(table, {"k": usual})
        self._add_unfit()

    def _rows_of_every(self) -> Iterator[Row]:
        """Rows of zeros, of usual values, of values beyond borders, and of NULL."""
        values = {one.name: self._values(one) for one in self.types}
        for place in range(3):
            yield {"id": place + 1, **{name: some[min(place, len(some) - 1)] for name, some in values.items()}}
        yield {"id": 4}

    def _add_unfit(self) -> None:
        """Send text in columns of every type that a message can have it in."""
        fitting = {one: _as_text(one.column(one.name)) for one in self.types if self._has_text(one)}
        every = self._table("every", [column("id", "int(11)", key=True), *fitting.values()])
        tables = {one: self._key_table(one, as_text=True) for one in self.keys if self._has_text(one)}
        with self.story.transaction():
            self.story.insert(every, {"id": 5, **{one.name: self._unfit(one) for one in fitting}})
            for one, table in tables.items():
                self.story.insert(table, {"k": self._unfit(one), "note": "a"})
                self.story.update(table, {"note": "a"}, {"note": "b"})

    def _table(self, name: str, columns: Sequence[SourceColumn]) -> tuple[str, str]:
        return self.story.table(name, *columns)

    def _key_table(self, one: TypeOfColumn, *, as_text: bool = False) -> tuple[str, str]:
        key = one.column("k", is_key=True)
        return self._table(f"key_{one.name}", [_as_text(key) if as_text else key, column("note", "varchar(9)")])

    def _values(self, one: TypeOfColumn) -> tuple[Cell, ...]:
        """The values of a type that the format's task can send."""
        values = one.values
        strict = self.format in ("drs-json", "drs-json-c", "canal-json")
        if (strict and isinstance(values.beyond, bytes) and values is _TEXT) or (
            self.format == "canal-json" and one.word == "set"
        ):
            return values.zero, values.usual
        return values.zero, values.usual, values.beyond

    def _has_text(self, one: TypeOfColumn) -> bool:
        """Whether a message can have a text in place of a value of the type."""
        return not (isinstance(one.values.zero, bytes) or one.word in ("enum", "set"))

    def _unfit(self, one: TypeOfColumn) -> str:
        if self.format == "dts-avro" and one.word in ("date", "datetime", "timestamp", "time", "year"):
            return "0000-00-00 00:00:00"
        return "unfit"


def _as_text(described: SourceColumn) -> SourceColumn:
    return replace(described, kind=Kind.PLAIN)
