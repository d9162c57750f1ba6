"""The speed from DRS JSON-C and DRS JSON to typed columns, against json and a Python loop.

``python -m benchmarks.decode_json`` prints a table and, as its last line, one JSON object. What is timed, in processor time of
one thread, decoder and loop in turns on the same bytes, the least of several turns each: from messages to the numbers, times and
tables of entries and to the typed row changes. Ours is ``entries()`` and then ``changes()``, which reads the messages again, as
the product does in two steps; the loop makes both in one pass over messages that it parses once. That both make equal tables of
changes is checked first.

A case ``15c-1r`` has 15 columns and 1 row per message, the number of rows that the vendor's samples have. It is DRS JSON-C of a
MySQL; ``postgresql-15c-1r`` is DRS JSON of a PostgreSQL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.against_loops import Measured, compare
from benchmarks.command import least_in_turns
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.format import WireFormat

_ZONE_HOURS = 8
_TABLE, _TABLE_IN_SCHEMA = TableId("shopdb", "", "orders"), TableId("shopdb", "sales", "orders")
_POSTGRESQL_TYPES = (
    "bigint", "character varying", "integer", "timestamp without time zone", "numeric", "timestamp with time zone", "smallint",
    "double precision", "character varying", "date", "text", "bytea", "real", "character", "smallint",
)  # fmt: skip
_TYPES = (
    "bigint", "varchar", "int", "datetime", "decimal", "timestamp", "tinyint", "double", "varchar", "date", "text", "varbinary",
    "float", "char", "smallint",
)  # fmt: skip
_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "INIT": "read"}
_START = datetime(2026, 1, 1)


@dataclass(frozen=True, slots=True)
class Case:
    """Messages of one table, of a MySQL or a PostgreSQL."""

    columns: int
    rows: int
    has_schema: bool = False

    @property
    def name(self) -> str:
        """Such as ``15c-1r``."""
        return f"{'postgresql-' if self.has_schema else ''}{self.columns}c-{self.rows}r"

    @property
    def table(self) -> TableId:
        """The table of all messages."""
        return _TABLE_IN_SCHEMA if self.has_schema else _TABLE

    @property
    def wire(self) -> WireFormat:
        """The format of all messages."""
        return DrsJson() if self.has_schema else DrsJsonC(f"+{_ZONE_HOURS:02d}:00")


CASES = tuple(Case(columns, rows, source) for source in (False, True) for columns in (5, 15, 30) for rows in (1, 20))


def messages(case: Case, *, size: int, seed: int) -> pa.Array:
    """Messages of a case, as many as have ``size`` bytes."""
    random = np.random.default_rng(seed)
    known = _POSTGRESQL_TYPES if case.has_schema else _TYPES
    types = {f"c{number}": known[number % len(known)] for number in range(case.columns)}
    made: list[bytes] = []
    total = 0
    while total < size:
        kind = str(random.choice(["INSERT", "UPDATE", "DELETE"], p=[0.3, 0.5, 0.2]))
        data, old = ([_row(types, random) for _ in range(case.rows)] for _ in range(2))
        message = {
            **_told_types(case, types), "id": len(made) + 1, "es": 1767225600000 + len(made) * 1000,
            "ts": 1767225600123 + len(made) * 1000, "database": _TABLE.database, "table": _TABLE.table, "type": kind,
            "data": data, "old": old if kind == "UPDATE" else None, "pkNames": ["c0"],
        }  # fmt: skip
        made.append(json.dumps(message, separators=(",", ":")).encode())
        total += len(made[-1])
    return pa.array(made, pa.binary())


def _told_types(case: Case, types: Mapping[str, str]) -> Mapping[str, object]:
    if case.has_schema:
        return {"columnType": types, "dbType": "PostgreSQL", "schema": _TABLE_IN_SCHEMA.schema}
    return {"mysqlType": types, "sqlType": dict.fromkeys(types, 12), "isDdl": False, "sql": ""}


def _row(types: Mapping[str, str], random: np.random.Generator) -> dict[str, str | None]:
    row: dict[str, str | None] = {}
    numbers = random.integers(0, 1 << 31, len(types)).tolist()
    for (name, kind), number in zip(types.items(), numbers, strict=True):
        row[name] = None if number % 20 == 0 and name != "c0" else _text(kind, number)
    return row


def _text(kind: str, number: int) -> str:
    if kind.startswith(("datetime", "timestamp")):
        return str(_START + timedelta(seconds=number % 10**7)) + ("+00" if kind.endswith("with time zone") else "")
    if kind == "bytea":
        return f"\\x{number:08x}"
    if kind == "date":
        return str(date(2000, 1, 1) + timedelta(days=number % 9999))
    if kind in ("tinyint", "smallint"):
        return str(number % 128)
    if kind in ("decimal", "numeric"):
        return f"{number / 100:.2f}"
    if kind in ("double", "float", "double precision", "real"):
        return str(number % 10**6 / 8)
    if kind == "varbinary":
        return str([byte - 128 for byte in number.to_bytes(8, "big")])
    if kind == "text":
        return f"Lorem ipsum dolor sit amet {number}, consectetur " * 3
    return str(number) if kind in ("int", "integer", "bigint") else f"value {number}"


_CONVERT: dict[str, Callable[[str], Any]] = {
    "int": int,
    "bigint": int,
    "float": float,
    "double": float,
    "string": str,
    "date": date.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC) - timedelta(hours=_ZONE_HOURS),
    "binary": lambda text: bytes(int(one) & 255 for one in text[1:-1].split(",")) if len(text) > 2 else b"",
}


_CONVERT_POSTGRESQL: Mapping[str, Callable[[str], Any]] = _CONVERT | {
    "timestamp": datetime.fromisoformat,
    "binary": lambda text: bytes.fromhex(text[2:]),
}


def plain(
    payloads: Sequence[bytes], columns: Sequence[Column], converters: Mapping[str, Callable[[str], Any]]
) -> tuple[list[tuple[Any, ...]], pa.RecordBatch]:
    """Decode entries and changes in a loop.

    It keeps a list per column and image, looks converters up once, and makes one Arrow array per list.
    """
    convert = [(column.name, converters[column.type]) for column in columns]
    heads: list[tuple[Any, ...]] = []
    entries: list[int] = []
    numbers: list[int] = []
    operations: list[str] = []
    images: tuple[list[list[Any]], list[list[Any]]] = ([[] for _ in columns], [[] for _ in columns])
    present: tuple[list[bool], list[bool]] = ([], [])
    for entry, payload in enumerate(payloads):
        message = json.loads(payload)
        kind, data, old = message["type"], message["data"], message["old"]
        rows = (data, None) if kind == "DELETE" else (old, data)
        heads.append(
            (message["id"], message["es"], message["database"], message["table"], kind, len(data), message["ts"])
        )
        for number in range(len(data)):
            entries.append(entry)
            numbers.append(number)
            operations.append(_OPERATIONS[kind])
            for image, lists, flags in zip(rows, images, present, strict=True):
                flags.append(image is not None)
                if image is None:
                    for values in lists:
                        values.append(None)
                    continue
                row = image[number]
                for values, (name, to_value) in zip(lists, convert, strict=True):
                    text = row[name]
                    values.append(None if text is None else to_value(text))
    structs = [
        pa.StructArray.from_arrays(
            [pa.array(values, arrow_type(column.type)) for values, column in zip(lists, columns, strict=True)],
            [column.name for column in columns],
            mask=pa.array([not flag for flag in flags]),
        )
        for lists, flags in zip(images, present, strict=True)
    ]
    made = {"entry_index": pa.array(entries, pa.int32()), "row_number": pa.array(numbers, pa.int32()), "op": operations}
    return heads, pa.record_batch(made | {"before": structs[0], "after": structs[1]})


def measure(case: Case, *, turns: int, seed: int, size: int) -> Measured:
    """Check that both ways agree, then time them in turns.

    Raises:
        SystemExit: They made different tables.
    """
    array = messages(case, size=size, seed=seed)
    payloads, wire = array.to_pylist(), case.wire
    (shape,) = wire.entries(array).shapes
    columns = tuple(
        Column(one.name, wire.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
        for one in shape.columns
    )

    def ours() -> Any:
        return wire.changes(wire.entries(array).batch, {case.table: columns})

    converters = _CONVERT_POSTGRESQL if case.has_schema else _CONVERT
    ways: dict[str, Callable[[], Any]] = {"loop": lambda: plain(payloads, columns, converters), "ours": ours}
    (mine,), expected = ours().tables, ways["loop"]()[1]
    for name in expected.schema.names:
        if mine.batch[name].to_pylist() != expected[name].to_pylist():
            raise SystemExit(f"{case.name}: the decoder and the plain loop made different tables")
    return Measured(case.name, sum(map(len, payloads)) / 1e6, expected.num_rows, least_in_turns(ways, turns))


def main() -> int:
    """Run the command."""
    return compare("decode_json", __doc__, CASES, measure, decoder=lambda: DrsJsonC().decoder)


if __name__ == "__main__":
    sys.exit(main())
