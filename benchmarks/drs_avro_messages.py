"""Messages of DRS Avro for :mod:`benchmarks.decode_avro`, and a Python loop that decodes them.

The schema is the emulator's, which is assumed: rows are maps of texts, and one message holds one row.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.wire.columns.casts import arrow_type
from dts_emulator.drs.drs_avro_task import encoded_record, record_schema

_TYPES = (
    "bigint", "varchar", "int", "datetime", "decimal", "timestamp", "tinyint", "double", "varchar", "date", "text", "varbinary",
    "float", "char", "smallint",
)  # fmt: skip
_START = datetime(2026, 1, 1)


def drs_messages(columns: int, *, table: str, size: int, seed: int) -> pa.Array:
    """Messages of a table, as many as have ``size`` bytes."""
    random = np.random.default_rng(seed)
    types = {f"c{number}": _TYPES[number % len(_TYPES)] for number in range(columns)}
    made: list[bytes] = []
    total = 0
    while total < size:
        kind = str(random.choice(["INSERT", "UPDATE", "DELETE"], p=[0.3, 0.5, 0.2]))
        record = {
            "mysqlType": types, "id": len(made) + 1, "es": 1_767_225_600_000, "ts": 1_767_225_600_123, "database": "shopdb",
            "table": table, "type": kind, "isDdl": False, "sql": "", "sqlType": None,
            "data": None if kind == "DELETE" else [_row(types, random)],
            "old": None if kind == "INSERT" else [_row(types, random)], "pkNames": ["c0"],
        }  # fmt: skip
        made.append(encoded_record(record))
        total += len(made[-1])
    return pa.array(made, pa.binary())


def _row(types: Mapping[str, str], random: np.random.Generator) -> dict[str, str | None]:
    numbers = random.integers(0, 1 << 31, len(types)).tolist()
    return {
        name: None if name != "c0" and number % 20 == 0 else _text(kind, number)
        for (name, kind), number in zip(types.items(), numbers, strict=True)
    }


def _text(kind: str, number: int) -> str:
    moment = _START + timedelta(seconds=number % 10**7)
    if kind in ("datetime", "date"):
        return str(moment if kind == "datetime" else moment.date())
    if kind == "timestamp":
        return f"{1_700_000_000 + number % 10**7}.000"
    if kind == "decimal":
        return f"{number / 100:.2f}"
    if kind in ("double", "float"):
        return repr(number % 10**6 / 8)
    if kind in ("bigint", "int", "smallint", "tinyint"):
        return str(number % 128 if kind in ("smallint", "tinyint") else number)
    if kind == "varbinary":
        return str([byte - 256 if byte > 127 else byte for byte in number.to_bytes(8, "big")])
    return f"Lorem ipsum dolor sit amet {number}, consectetur " * 3 if kind == "text" else f"value {number}"


_CONVERT: Mapping[str, Callable[[str], Any]] = {
    "int": int, "bigint": int, "float": float, "double": float, "string": str, "date": date.fromisoformat,
    "binary": lambda text: bytes(int(byte) & 0xFF for byte in text[1:-1].split(", ")),
    "timestamp_ntz": datetime.fromisoformat, "timestamp": lambda text: datetime.fromtimestamp(float(text), UTC),
}  # fmt: skip


def plain_drs(payloads: Sequence[bytes], columns: Sequence[Column]) -> dict[str, pa.RecordBatch]:
    """Decode entries and changes of one table in a loop over the records that fastavro reads."""
    convert = [(column.name, _CONVERT[column.type]) for column in columns]
    heads: list[tuple[Any, ...]] = []
    images: tuple[list[list[Any]], list[list[Any]]] = ([[] for _ in columns], [[] for _ in columns])
    present: tuple[list[bool], list[bool]] = ([], [])
    schema, table = record_schema(), ""
    for payload in payloads:
        record: Any = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
        heads.append(tuple(record[name] for name in ("id", "es", "ts", "database", "table", "type", "isDdl", "sql")))
        table = record["table"]
        for rows, lists, flags in zip((record["old"], record["data"]), images, present, strict=True):
            flags.append(rows is not None)
            row = {} if rows is None else rows[0]
            for values, (name, turn) in zip(lists, convert, strict=True):
                value = row.get(name)
                values.append(None if value is None else turn(value))
    structs = [
        pa.StructArray.from_arrays(
            [pa.array(values, arrow_type(column.type)) for values, column in zip(lists, columns, strict=True)],
            [column.name for column in columns],
            mask=pa.array([not flag for flag in flags]),
        )
        for lists, flags in zip(images, present, strict=True)
    ]
    entries = pa.array(range(len(heads)), pa.int32())
    operations = [head[5].lower() for head in heads]
    return {
        table: pa.record_batch({"entry_index": entries, "op": operations, "before": structs[0], "after": structs[1]})
    }
