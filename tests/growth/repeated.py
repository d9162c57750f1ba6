"""Messages of every decoder in which two things are repeated: so many bytes of each, in one message.

An element is a part that a message may have any number of times: a character of a text, a number, a name, a level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.ddl.change_words import all_words
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.table_schemas import Catalog, SchemaColumn, TableSchema
from dts_assets.wire.documents.extended_json import id_of, relaxed, text_of
from dts_assets.wire.documents.many_documents import documents_of
from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from dts_assets.wire.documents.updates import updated
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.dts_json import DtsJson
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat
from tests.dts_messages import SERVER, dml, entry, entry_set, number, text
from tests.growth.hostile_drs_records import FLAT
from tests.growth.hostile_records import SCHEMA
from tests.wire.avro_messages import encoded

Element: TypeAlias = Callable[[Any, int], None]
"""The function that adds so many bytes of one thing to a message."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder: its messages without anything, their bytes, what is done with these, and the elements of messages."""

    empty: Callable[[], Any]
    written: Callable[[Any], Any]
    step: Callable[[Any], object]
    elements: Mapping[str, Element]

    def message(self, names: Iterable[str], size: int) -> Any:
        """Return a message with so many bytes of some elements together."""
        made = self.empty()
        names = tuple(names)
        for name in names:
            self.elements[name](made, size // len(names))
        return self.written(made)


def _repeat(piece: str, size: int) -> str:
    return piece * max(1, size // len(json.dumps(piece)[1:-1]))


def _list(piece: str) -> Callable[[int], str]:
    return lambda size: "[" + ",".join([piece] * max(1, size // (len(piece) + 1))) + "]"


def _text(piece: str) -> Callable[[int], str]:
    return lambda size: f'"{piece * max(1, size // len(piece))}"'


def _fields(piece: str) -> Callable[[int], str]:
    """An object with fields of different names: ``{}`` of the piece is the number of each."""
    return lambda size: "{" + ",".join(piece.format(n) for n in range(max(1, size // (len(piece) + 3)))) + "}"


def _value(make: Callable[[int], str]) -> Element:
    return lambda values, size: values.append(make(size))


DOCUMENTS: dict[str, Element] = {
    "NULs": _value(_text("\\u0000")),
    "names that begin with NULs": _value(_fields('"\\u0000{}": 1')),
    "escapes": _value(_text('\\"')),
    "brackets in a text": _value(_text("NumberLong(5), {[")),
    "long numbers": _value(_list("NumberLong(5)")),
    "numbers": _value(_list("5, 5.5")),
    "digits": _value(lambda size: "1." + "1" * size),
    "names": _value(_fields('"k{}": 1')),
    "names with dollars": _value(_fields('"$k{}": {{"$x": 1}}')),
    "levels": _value(_list("[" * 90 + "]" * 90)),
    "timestamps": _value(_list("Timestamp(1, 2)")),
    "odd calls": _value(_list("new Date('5')")),
    "spaces": _value(lambda size: " " * size + "1"),
}


def _read_document(given: str) -> None:
    assert len([*documents_of([given])]) == 1
    try:
        found = document_of(given)
    except Unreadable:
        return
    id_of(found)
    text_of(relaxed(found))


def _document(values: list[str]) -> str:
    return "{" + ", ".join(['"_id": 1', *(f'"v{n}": {one}' for n, one in enumerate(values))]) + "}"


@dataclass
class _Change:
    document: dict[str, Any] = field(default_factory=dict)
    update: dict[str, dict[str, Any]] = field(default_factory=lambda: {"$set": {}, "$unset": {}})


def _paths(array: bool) -> Element:
    def add(made: _Change, size: int) -> None:
        count, name = max(1, size // 12), f"a{len(made.document)}"
        made.document[name] = [1] * count if array else {str(n): 1 for n in range(count)}
        made.update["$set"] |= {f"{name}.{n}": 2 for n in range(0, count, 2)}
        made.update["$unset"] |= {f"{name}.{n}": True for n in range(1, count, 2)}

    return add


def _far_paths(made: _Change, size: int) -> None:
    first = len(made.document)
    for n in range(first, first + max(1, size // 24)):
        made.document[f"e{n}"] = []
        made.update["$set"][f"e{n}.100000"] = 1


def _deep_paths(made: _Change, size: int) -> None:
    for n in range(max(1, size // 400)):
        made.update["$set"][f"d{n}" + ".a" * 180] = 1


UPDATES: dict[str, Element] = {
    "elements": _paths(True), "fields": _paths(False), "far elements": _far_paths, "deep paths": _deep_paths,
    "one long path": lambda made, size: made.update["$set"].update({"p" + ".a" * (size // 2): 1}),
}  # fmt: skip


def _update(made: _Change) -> object:
    return text_of(updated(made.document, made.update).document)


@dataclass
class _Row:
    """A message with one row: its columns by name, each with type and value, and parts beside them."""

    columns: dict[str, tuple[str, Any]] = field(default_factory=lambda: {"id": ("int", "1")})
    keys: list[str] = field(default_factory=lambda: ["id"])
    rows: list[dict[str, Any]] = field(default_factory=list)
    tags: dict[str, Any] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)

    def add(self, kind: str, value: Any) -> None:
        self.columns[f"c{len(self.columns)}"] = kind, value

    def text(self, message: Mapping[str, Any]) -> bytes:
        """A message as JSON, with the fields beside it."""
        return (json.dumps(message)[:-1] + "".join(f", {one}" for one in self.beside) + "}").encode()


def _columns(kind: str, value: Any, *, bytes_of_each: int = 40) -> Element:
    def add(row: _Row, size: int) -> None:
        for _ in range(max(1, size // bytes_of_each)):
            row.add(kind, value)

    return add


def _long(kind: str, piece: str) -> Element:
    return lambda row, size: row.add(kind, _repeat(piece, size))


def _beside(make: Callable[[int], str]) -> Element:
    return lambda row, size: row.beside.append(f'"x{len(row.beside)}": {make(size)}')


def _unknown(row: _Row, size: int) -> None:
    row.beside += [f'"f{len(row.beside)}x{n}": 1' for n in range(max(1, size // 12))]


def _keys(row: _Row, size: int) -> None:
    row.keys += ["id"] * max(1, size // 6)


def _tags(row: _Row, size: int) -> None:
    row.tags |= {f"t{len(row.tags)}x{n}": "v" for n in range(max(1, size // 14))}


def _labels(kind: str) -> Element:
    def add(row: _Row, size: int) -> None:
        row.add(f"{kind}({','.join(repr(str(n)) for n in range(max(1, size // 8)))})", "1")

    return add


def _numbers_of_labels(row: _Row, size: int) -> None:
    row.columns.setdefault("label", ("set('a','b')", "1"))
    labelled = [name for name, (kind, _) in row.columns.items() if kind[:3] in ("set", "enu")]
    row.rows += [{"id": str(n), **{name: str(n + 1) for name in labelled}} for n in range(max(1, size // 40))]


ROWS: dict[str, Element] = {
    "columns": _columns("int", "1"),
    "columns with a value that does not fit": _columns("int", "x"),
    "columns of times": _columns("time(3)", "07:22:42.123"),
    "NULs": _long("text", "\0"),
    "escapes": _long("text", '"'),
    "digits": _long("decimal(38,0)", "1"),
    "digits of bytes": _long("blob", "f"),
    "names of the key": _keys,
}
OF_JSON: dict[str, Element] = {
    **{name: ROWS[name] for name in ("columns", "columns of times", "NULs", "digits of bytes", "names of the key")},
    "fields that nobody knows": _unknown,
    "levels beside": _beside(_list("[" * 90 + "]" * 90)),
    "numbers beside": _beside(_list("1, 1.5")),
}
OF_DRS = {
    name: {**ROWS, **OF_JSON}[name]
    for name in ("columns of times", "NULs", "digits of bytes", "fields that nobody knows")
}
"""What the dialects of DRS read otherwise than Canal's, whose code they share."""

OF_CANAL: dict[str, Element] = {
    **OF_JSON,
    "labels of a set": _labels("set"),
    "labels of an enum": _labels("enum"),
    "numbers of labels": _numbers_of_labels,
}


def short_rows(width: int, count: int, kind: str, *, name: str = "c") -> _Row:
    """Return a message with a whole row of so many columns more, and so many rows with the key alone."""
    row = _Row()
    row.columns |= {f"{name}{n}": (kind, "1") for n in range(width)}
    row.rows = [{"id": str(n)} for n in range(count)]
    return row


def _flat_message(row: _Row) -> dict[str, Any]:
    return {
        "id": 1, "es": 1_648_110_060_000, "ts": 1, "database": "d", "table": "t", "type": "INSERT", "isDdl": False, "sql": "",
        "mysqlType": {name: kind for name, (kind, _) in row.columns.items()}, "old": None, "pkNames": row.keys,
        "data": [{name: value for name, (_, value) in row.columns.items()}, *row.rows],
    }  # fmt: skip


def _record(row: _Row) -> dict[str, Any]:
    return {
        "id": 1, "version": 1, "messageType": "INSERT", "fileName": "b.000001", "position": "9@1", "timestamp": 1_700_000_000,
        "sourceType": "MySQL", "schemaName": "d", "tableName": "t", "pkNames": row.keys, "tags": row.tags,
        "columns": [{"name": name, "originalType": kind, "isKey": name == "id"} for name, (kind, _) in row.columns.items()],
        "newColumns": [value for _, value in row.columns.values()],
    }  # fmt: skip


def _character(kind: str, value: str) -> dict[str, Any]:
    """A value as records in Avro have it."""
    if kind.startswith(("int", "decimal")):
        return {"Integer": {"value": value}}
    return {"Character": {"charset": "utf8", "value": value}}


def _in_avro(row: _Row) -> bytes:
    values = [_character(*one) if isinstance(one[1], str) else one[1] for one in row.columns.values()]
    return encoded(SCHEMA, {**_record(row), "newColumns": values})


def _flat_in_avro(row: _Row) -> bytes:
    message = _flat_message(row)
    return encoded(
        FLAT,
        {name: message[name] for name in ("id", "es", "database", "table", "type", "mysqlType", "data", "pkNames")},
    )


@dataclass
class _Set:
    """An entry set: the columns and values of one row, its properties, and entries behind it."""

    columns: list[tuple[str, str]] = field(default_factory=lambda: [("id", "int(11)")])
    values: list[pb.Data] = field(default_factory=lambda: [number(1)])
    properties: list[pb.KVPair] = field(default_factory=list)
    entries: list[pb.Entry] = field(default_factory=list)

    def add(self, kind: str, value: pb.Data) -> None:
        self.columns.append((f"c{len(self.columns)}", kind))
        self.values.append(value)


def _of_set(kind: str, value: Callable[[int], pb.Data], *, bytes_of_each: int = 40) -> Element:
    def add(made: _Set, size: int) -> None:
        for n in range(max(1, size // bytes_of_each)):
            made.add(kind, value(n))

    return add


def _properties(made: _Set, size: int) -> None:
    made.properties += [pb.KVPair(key=f"k{n}", value="v") for n in range(max(1, size // 16))]


def _statements(made: _Set, size: int) -> None:
    event = pb.Event(ddlEvent=pb.DDLEvent(schemaName="d", sql="TRUNCATE t"))
    made.entries += [entry(pb.DDL, event, position=n) for n in range(max(1, size // 60))]


def _intervals(made: _Set, size: int) -> None:
    gtids = f"{SERVER}:" + ":".join(str(2 * n + 1) for n in range(max(1, size // 6)))
    event = pb.CheckpointEvent(syncedGtid=gtids, fileName="b.000005", position=4)
    made.entries.append(entry(pb.CHECKPOINT, pb.Event(checkpointEvent=event), position=4))


def _tables(made: _Set, size: int) -> None:
    first = len(made.entries)
    made.entries += [
        dml([(f"i{n}", "int(11)")], [([], [number(n)])], table=f"t{n}")
        for n in range(first, first + max(1, size // 110))
    ]


def _entry_set(made: _Set) -> bytes:
    row = dml(made.columns, [([], made.values)])
    row.header.properties.extend(made.properties)
    return entry_set([row, *made.entries])


OF_SETS: dict[str, Element] = {
    "columns": _of_set("int(11)", number),
    "columns with a value that does not fit": _of_set("int(11)", lambda _: number("x")),
    "character sets": _of_set("text", lambda n: text("x", f"set{n}")),
    "texts that are none": _of_set("text", lambda _: text(b"\xff")),
    "values of an unknown type": _of_set("text", lambda _: pb.Data(dataType=77, sv="1")),  # type: ignore[arg-type]
    "NULs": lambda made, size: made.add("text", text("\0" * size)),
    "digits": lambda made, size: made.add("int(11)", number("1" * size)),
    "properties": _properties,
    "statements": _statements,
    "intervals of GTIDs": _intervals,
    "tables": _tables,
}


def _parts(piece: str) -> Element:
    """Parts of a statement: ``{}`` of the piece is the number of each."""

    def add(parts: list[str], size: int) -> None:
        parts += [piece.format(n) for n in range(max(1, size // (len(piece) + 3)))]

    return add


ACTIONS: dict[str, Element] = {
    "columns that come": _parts("ADD n{} INT"),
    "columns that come first": _parts("ADD f{} INT FIRST"),
    "columns behind another": _parts("ADD a{} INT AFTER c0"),
    "columns that go": _parts("DROP c{}"),
    "columns that change": _parts("MODIFY c{} BIGINT FIRST"),
    "columns that get names": _parts("RENAME COLUMN c{0} TO r{0}x"),
    "keys": _parts("ADD KEY (c{})"),
    "columns of a key": lambda parts, size: parts.append(f"ADD PRIMARY KEY ({','.join(f'c{n}' for n in range(size // 6))})"),
    "labels": lambda parts, size: parts.append(f"ADD e{size} ENUM({','.join(repr(str(n)) for n in range(size // 8))})"),
    "version comments": lambda parts, size: parts.append(f"ADD v{size} INT {'/*!99999 NULL*/' * (size // 15)}"),
    "parentheses": lambda parts, size: parts.append(f"ADD p{size} INT DEFAULT {'(' * (size // 2)}1{')' * (size // 2)}"),
    "quotes": lambda parts, size: parts.append(f"ADD q{size} TEXT COMMENT '{chr(39) * (size // 2 * 2)}'"),
}  # fmt: skip
_WIDE = Catalog(
    {"d": "utf8mb4"},
    {
        TableId("d", "", "t"): TableSchema(
            tuple(SchemaColumn(f"c{n}", "bigint(20)") for n in range(1_000)), ("c7",), "latin1"
        )
    },
)


def _follow(sql: str) -> None:
    effects_of(sql, "d")
    all_words(apply(_WIDE, sql, "d").changes)


def _read_by(wire: WireFormat) -> Callable[[bytes], None]:
    """The entries of a message or an entry set, and the changes of all its tables."""

    def read(message: bytes) -> None:
        found = wire.entries(pa.array([message], pa.binary()))
        tables = {
            shape.table: tuple(
                Column(
                    one.name,
                    wire.column_type(one.original_type, unsigned=False, table=shape.table) or "string",
                    one.is_key,
                )
                for one in shape.columns
            )
            for shape in found.shapes
        }
        rows = found.batch.filter(pc.equal(found.batch["message_type"], "DML"))
        if tables:
            wire.changes(rows, tables)

    return read


def _flat(wire: WireFormat, elements: Mapping[str, Element]) -> Decoder:
    return Decoder(_Row, lambda row: row.text(_flat_message(row)), _read_by(wire), elements)


DECODERS: dict[str, Decoder] = {
    "documents": Decoder(list, _document, _read_document, DOCUMENTS),
    "updates": Decoder(_Change, lambda made: made, _update, UPDATES),
    "canal-json": _flat(CanalJson(), OF_CANAL),
    "drs-json": _flat(DrsJson(), OF_DRS),
    "drs-json-c": _flat(DrsJsonC(), OF_DRS),
    "dts-json": Decoder(_Row, lambda row: row.text(_record(row)), _read_by(DtsJson()), {**OF_JSON, "tags": _tags}),
    "dts-avro": Decoder(_Row, _in_avro, _read_by(DtsAvro(SCHEMA)), {**ROWS, "tags": _tags}),
    "drs-avro": Decoder(_Row, _flat_in_avro, _read_by(DrsAvro(FLAT)), ROWS),
    "dts-protobuf": Decoder(_Set, _entry_set, _read_by(DtsProtobuf()), OF_SETS),
    "ddl": Decoder(list, lambda parts: "ALTER TABLE t " + ",".join(parts), _follow, ACTIONS),
}
"""Every decoder, by its name."""
