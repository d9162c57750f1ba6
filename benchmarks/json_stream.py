"""A consistent stream of changes of one table as DRS JSON-C messages.

Only rows that are there are updated or deleted. The values of a row follow from its key and its version, so that whoever
applies the stream can be judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.traffic import START
from dts_assets.model.tables import TableId
from dts_assets.sources.capture_source import MESSAGE_SCHEMA

TABLE = TableId("shopdb", "", "orders")
COLUMNS = {
    "id": "bigint", "customer_id": "bigint", "status": "varchar", "amount": "decimal", "quantity": "int",
    "note": "varchar", "city": "varchar", "updated_at": "datetime",
}  # fmt: skip
"""MySQL's types by column; ``id`` is the key."""

GROUP = 20
"""The rows of a statement. A message has all of them, or each row has a message of its own."""

_KINDS, _SHARES = ("INSERT", "UPDATE", "DELETE"), (0.5, 0.4, 0.1)
_FEWEST = 50 * GROUP
"""Rows that are there before the first update."""

_AT_ONCE = 20_000
"""Messages of a row group."""

_HOUR = 3_500_000
"""Milliseconds over which the messages of the hour are spread."""

_FIRST = datetime(2026, 1, 1)
_TYPES, _NUMBERS = (json.dumps(one, separators=(",", ":")) for one in (COLUMNS, dict.fromkeys(COLUMNS, 12)))


def write_stream(folder: Path, *, changes: int, rows: int, seed: int) -> int:
    """Write a stream twice, and return the number of rows that are there at its end.

    ``folder/capture`` is a capture of one Kafka partition and of the hour from :data:`benchmarks.traffic.START` on, and
    ``folder/lines/stream.json`` has the same messages as lines. Each message has ``rows`` rows, 1 or 20.
    """
    lines, capture = folder / "lines" / "stream.json", folder / "capture" / "partition-00.parquet"
    for file in (lines, capture):
        file.parent.mkdir(parents=True)
    live, begin = _Rows(seed), int(START.timestamp() * 1000)
    messages, offset = live.messages(changes, rows, begin), 0
    with lines.open("wb") as text, pq.ParquetWriter(capture, MESSAGE_SCHEMA) as parquet:
        while some := list(islice(messages, _AT_ONCE)):
            text.writelines(message + b"\n" for _, message in some)
            count = len(some)
            columns = {
                "topic": pa.repeat(pa.scalar("shop"), count),
                "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
                "offset": pa.array(range(offset, offset + count), pa.int64()),
                "timestamp": pa.array([at for at, _ in some], pa.timestamp("ms", "UTC")),
                "value": pa.array([message for _, message in some], pa.binary()),
            }
            parquet.write_table(pa.table([
                columns.get(field.name, pa.nulls(count, field.type)) for field in MESSAGE_SCHEMA
            ], schema=MESSAGE_SCHEMA))  # fmt: skip
            offset += count
    return len(live.keys)


class _Rows:
    """The rows that are there: their keys, and how often each was written."""

    def __init__(self, seed: int) -> None:
        self.keys: list[int] = []
        self._versions: list[int] = []
        self._random = np.random.default_rng(seed)

    def messages(self, changes: int, rows: int, begin: int) -> Iterator[tuple[int, bytes]]:
        """Yield messages with their times, in milliseconds since 1970."""
        number, count = 0, changes // rows
        for _ in range(-(-changes // GROUP)):
            kind, images = self._statement()
            for first in range(0, GROUP, rows):
                if number == count:
                    return
                at = begin + number * _HOUR // count
                number += 1
                data, old = (",".join(some) for some in zip(*images[first : first + rows], strict=True))
                yield (
                    at,
                    (
                        f'{{"mysqlType":{_TYPES},"id":{number},"es":{at},"ts":{at},"database":"{TABLE.database}",'
                        f'"table":"{TABLE.table}","type":"{kind}","isDdl":false,"sql":"","sqlType":{_NUMBERS},"data":[{data}],'
                        f'"old":{f"[{old}]" if kind == "UPDATE" else "null"},"pkNames":["id"]}}'
                    ).encode(),
                )

    def _statement(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the kind of a statement and, for each row, the values of ``data`` and ``old``."""
        chosen = self._random.choice(3, p=_SHARES) if len(self.keys) >= _FEWEST else 0
        kind = _KINDS[chosen]
        if kind == "INSERT":
            first = len(self._versions)
            new = range(first, first + GROUP)
            self.keys += new
            self._versions += [0] * GROUP
            return kind, [(_row(key, 0), "") for key in new]
        places = sorted(self._random.choice(len(self.keys), GROUP, replace=False).tolist(), reverse=True)
        images = []
        for place in places:
            key = self.keys[place]
            before = _row(key, self._versions[key])
            if kind == "UPDATE":
                self._versions[key] += 1
                images.append((_row(key, self._versions[key]), before))
            else:
                images.append((before, ""))
                # The last key takes its place; the places come in falling order, so that none of them moves.
                self.keys[place] = self.keys[-1]
                self.keys.pop()
        return kind, images


def _row(key: int, version: int) -> str:
    mixed = (key * 0x9E3779B97F4A7C15 + version * 0xC2B2AE3D27D4EB4F) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 29
    note = "null" if mixed % 20 == 0 else f'"note {mixed % 9973} of version {version}, as it came in"'
    return (
        f'{{"id":"{key}","customer_id":"{mixed % 500_000}","status":"{("new", "paid", "sent", "done")[version % 4]}",'
        f'"amount":"{mixed % 10_000_000 // 100}.{mixed % 100:02d}","quantity":"{mixed % 97}","note":{note},'
        f'"city":"city {mixed % 911}","updated_at":"{_FIRST + timedelta(seconds=mixed % 10**7)}"}}'
    )
