"""The speed from DTS Avro and DRS Avro to typed columns, compared with fastavro and a Python loop.

``python -m benchmarks.decode_avro`` prints a table and, as its last line, one JSON object. What is timed, in processor time of
one thread, decoder and loop in turns on the same bytes, the least of several turns each: from messages to the numbers, places and
tables of entries and to the typed row changes. Ours is ``entries()`` and then ``changes()``, which reads the messages again, as
the product does in two steps; the loop makes both in one pass over messages that it parses once. That both make equal tables of
changes is checked first.

A case ``15c-1t`` has 15 columns and messages of 1 table; each message holds one row, as the format has it. ``drs-15c-1t`` is
DRS Avro with the emulator's schema.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks.against_loops import Measured, compare
from benchmarks.command import least_in_turns
from benchmarks.drs_avro_messages import drs_messages, plain_drs
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.format import WireFormat
from dts_emulator.drs.drs_avro_task import drs_schema_file
from dts_emulator.dts_avro.records import encoded, record_schema, schema_file

_SPACE = "com.tencent.subscribe.avro"
_DATABASE = "shopdb"
_TYPES = (
    "bigint(20)", "varchar(80)", "int(11)", "datetime", "decimal(12,2)", "timestamp", "tinyint(4)", "double", "varchar(40)",
    "date", "text", "varbinary(8)", "float", "char(9)", "smallint(6)",
)  # fmt: skip
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """Messages of some tables."""

    columns: int
    tables: int
    drs: bool = False

    @property
    def name(self) -> str:
        """Such as ``15c-1t``."""
        return f"{'drs-' if self.drs else ''}{self.columns}c-{self.tables}t"

    @property
    def table_ids(self) -> tuple[TableId, ...]:
        """The tables."""
        return tuple(TableId(_DATABASE, "", f"orders_{number}") for number in range(self.tables))


CASES = (Case(5, 1), Case(15, 1), Case(30, 1), Case(15, 20), Case(5, 1, drs=True), Case(15, 1, drs=True))


def messages(case: Case, *, size: int, seed: int) -> pa.Array:
    """Messages of a case, as many as have ``size`` bytes."""
    random = np.random.default_rng(seed)
    types = [_TYPES[number % len(_TYPES)] for number in range(case.columns)]
    columns = [
        {"name": f"c{number}", "dataTypeNumber": 3, "isKey": number == 0, "originalType": kind}
        for number, kind in enumerate(types)
    ]
    made: list[bytes] = []
    total = 0
    while total < size:
        kind = str(random.choice(["INSERT", "UPDATE", "DELETE"], p=[0.3, 0.5, 0.2]))
        place, table = len(made), f"orders_{random.integers(case.tables)}"
        images = [("array", _row(types, random)) for _ in range(2)]
        record = {
            "id": place + 1, "version": 1, "messageType": kind, "fileName": "mysql-bin.000004",
            "position": f"{1000 + 80 * place}@4", "safePosition": f"{1000 + 80 * place - 60}@4",
            "timestamp": 1_767_225_600 + place // 100,
            "gtid": f"c7c98333-6006-11ed-bfc9-b8cef6e1a231:{place}", "transactionId": None, "serverId": 98, "threadId": 7,
            "sourceType": "MySQL", "sourceVersion": "8.0.30", "schemaName": _DATABASE, "tableName": table,
            "objectName": f"{_DATABASE}.{table}", "columns": ("array", columns),
            "oldColumns": None if kind == "INSERT" else images[0], "newColumns": None if kind == "DELETE" else images[1],
            "sql": None, "executionTime": None, "heartbeatTimestamp": None, "syncedGtid": None, "fakeGtid": None,
            "pkNames": ("array", ["c0"]), "readerTimestamp": 1_767_225_600_123 + place, "tags": {}, "total": 0, "index": 0,
        }  # fmt: skip
        made.append(encoded(record))
        total += len(made[-1])
    return pa.array(made, pa.binary())


def _row(types: Sequence[str], random: np.random.Generator) -> list[tuple[str, Any]]:
    numbers = random.integers(0, 1 << 31, len(types)).tolist()
    return [
        (f"{_SPACE}.EmptyObject", "NULL") if place and number % 20 == 0 else _value(kind, number)
        for place, (kind, number) in enumerate(zip(types, numbers, strict=True))
    ]


def _value(kind: str, number: int) -> tuple[str, Any]:
    base = kind.partition("(")[0]
    if base == "timestamp":
        return f"{_SPACE}.Timestamp", {"timestamp": 1_700_000_000 + number % 10**7, "millis": 0}
    if base in ("datetime", "date"):
        moment = _START + timedelta(seconds=number % 10**7)
        parts = {"year": moment.year, "month": moment.month, "day": moment.day}
        clock = {"hour": moment.hour, "minute": moment.minute, "second": moment.second, "millis": 0}
        return f"{_SPACE}.DateTime", parts | (clock if base == "datetime" else dict.fromkeys(clock))
    if base == "decimal":
        return f"{_SPACE}.Decimal", {"value": f"{number / 100:.2f}", "precision": 12, "scale": 2}
    if base in ("double", "float"):
        return f"{_SPACE}.Float", {"value": number % 10**6 / 8, "precision": 0, "scale": 0}
    if base in ("bigint", "int", "smallint", "tinyint"):
        value = number % 128 if base in ("smallint", "tinyint") else number
        return f"{_SPACE}.Integer", {"precision": 11, "value": str(value)}
    if base == "varbinary":
        return f"{_SPACE}.BinaryObject", {"type": base, "value": number.to_bytes(8, "big")}
    text = f"Lorem ipsum dolor sit amet {number}, consectetur " * 3 if base == "text" else f"value {number}"
    return f"{_SPACE}.Character", {"charset": "utf8mb4", "value": text.encode()}


_MOMENT = ("year", "month", "day", "hour", "minute", "second")
_CONVERT: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "int": lambda value: int(value["value"]),
    "bigint": lambda value: int(value["value"]),
    "float": lambda value: value["value"],
    "double": lambda value: value["value"],
    "decimal(12,2)": lambda value: Decimal(value["value"]),
    "string": lambda value: value["value"].decode(),
    "binary": lambda value: value["value"],
    "date": lambda value: date(value["year"], value["month"], value["day"]),
    "timestamp_ntz": lambda value: datetime(*(value[part] for part in _MOMENT)),
    "timestamp": lambda value: datetime.fromtimestamp(value["timestamp"] + value["millis"] / 1000, UTC),
}
_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}


@dataclass(slots=True)
class _Lists:
    """The values that a loop gathers of a table: a list per column and image."""

    entries: list[int]
    operations: list[str]
    images: tuple[list[list[Any]], list[list[Any]]]
    present: tuple[list[bool], list[bool]]

    def batch(self, columns: Sequence[Column]) -> pa.RecordBatch:
        """One Arrow array per list."""
        structs = [
            pa.StructArray.from_arrays(
                [pa.array(values, arrow_type(column.type)) for values, column in zip(lists, columns, strict=True)],
                [column.name for column in columns],
                mask=pa.array([not flag for flag in flags]),
            )
            for lists, flags in zip(self.images, self.present, strict=True)
        ]
        made = {"entry_index": pa.array(self.entries, pa.int32()), "op": self.operations}
        return pa.record_batch(made | {"before": structs[0], "after": structs[1]})


def plain(
    payloads: Sequence[bytes], columns: Sequence[Column]
) -> tuple[list[tuple[Any, ...]], dict[str, pa.RecordBatch]]:
    """Decode entries and changes in a loop over the records that fastavro reads."""
    convert = [_CONVERT[column.type] for column in columns]
    heads: list[tuple[Any, ...]] = []
    tables: dict[str, _Lists] = {}
    schema = record_schema()
    for entry, payload in enumerate(payloads):
        record: Any = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
        position, _, file = record["position"].partition("@")
        head = ("id", "timestamp", "gtid", "serverId", "schemaName", "tableName", "messageType", "readerTimestamp")
        heads.append((int(position), int(file), *(record[name] for name in head)))
        found = tables.get(record["tableName"])
        if found is None:
            before, after = ([list[Any]() for _ in columns] for _ in range(2))
            found = tables[record["tableName"]] = _Lists([], [], (before, after), ([], []))
        found.entries.append(entry)
        found.operations.append(_OPERATIONS[record["messageType"]])
        images = (record["oldColumns"], record["newColumns"])
        for image, lists_of, flags in zip(images, found.images, found.present, strict=True):
            flags.append(image is not None)
            for place, values in enumerate(lists_of):
                value = None if image is None else image[place]
                values.append(None if value is None or value == "NULL" else convert[place](value))
    return heads, {name: found.batch(columns) for name, found in tables.items()}


def measure(case: Case, *, turns: int, seed: int, size: int) -> Measured:
    """Check that both ways agree, then time them in turns.

    Raises:
        SystemExit: They made different tables.
    """
    wire: WireFormat = DrsAvro(drs_schema_file()) if case.drs else DtsAvro(schema_file())
    if case.drs:
        array = drs_messages(case.columns, table=case.table_ids[0].table, size=size, seed=seed)
    else:
        array = messages(case, size=size, seed=seed)
    payloads = array.to_pylist()
    shape = next(iter(wire.entries(array).shapes))
    columns = tuple(
        Column(one.name, wire.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
        for one in shape.columns
    )
    tables = dict.fromkeys(case.table_ids, columns)

    def ours() -> Any:
        return wire.changes(wire.entries(array).batch, tables)

    def loop() -> Mapping[str, pa.RecordBatch]:
        return plain_drs(payloads, columns) if case.drs else plain(payloads, columns)[1]

    ways: dict[str, Callable[[], Any]] = {"loop": loop, "ours": ours}
    expected = loop()
    for one in ours().tables:
        theirs = expected[one.table.table]
        for name in theirs.schema.names:
            if one.batch[name].to_pylist() != theirs[name].to_pylist():
                raise SystemExit(f"{case.name}: the decoder and the plain loop made different tables")
    seconds = least_in_turns(ways, turns)
    return Measured(case.name, sum(map(len, payloads)) / 1e6, sum(one.num_rows for one in expected.values()), seconds)


def main() -> int:
    """Run the command."""
    return compare(
        "decode_avro", __doc__, CASES, measure, decoder=lambda: f"fastavro {fastavro.__version__} in the loop"
    )


if __name__ == "__main__":
    sys.exit(main())
