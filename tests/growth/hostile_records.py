"""Streams of Avro records that somebody wrote to cost time: each of ``count`` things of one kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.growth.hostile_streams import Stream
from tests.wire.avro_messages import encoded
from tests.wire.scenarios import DATA

SCHEMA = (DATA / "dts-avro" / "Record.avsc").read_bytes()

_KEY = {"name": "id", "isKey": True, "originalType": "int"}


def record(place: int, **fields: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A message with a row of a table; ``fields`` are those that are otherwise."""
    made = {
        "id": place + 1, "version": 1, "messageType": "INSERT", "fileName": "b.000001", "position": f"{place + 9}@1",
        "timestamp": 1_700_000_000, "sourceType": "MySQL", "schemaName": "d", "tableName": "t", "pkNames": ["id"],
        "columns": [_KEY], "newColumns": [{"Integer": {"value": str(place)}}],
    } | fields  # fmt: skip
    return encoded(SCHEMA, made), []


def _wide(place: int, width: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    columns = [{"name": f"c{number}", "originalType": "time"} for number in range(width)]
    return record(place, columns=columns, newColumns=[{"DateTime": {"hour": number % 24}} for number in range(width)])


DTS_AVRO: dict[str, Callable[[int], Stream]] = {
    "rows": lambda count: [record(place) for place in range(count)],
    "rows of one event": lambda count: [record(place, position="9@1") for place in range(count)],
    "rows of one event, told again and again": lambda count: [
        record(place % 7, position="9@1") for place in range(count)
    ],
    "tables": lambda count: [record(place, tableName=f"t{place}") for place in range(count)],
    "columns of one table": lambda count: [
        record(place, columns=[{"name": f"c{place}", "isKey": True, "originalType": "int"}]) for place in range(count)
    ],
    "values of one row": lambda count: [_wide(place, count // 4) for place in range(2)],
    "character sets": lambda count: [
        record(place, newColumns=[{"Character": {"charset": f"c{place}", "value": "x"}}]) for place in range(count)
    ],
    "tags of one record": lambda count: [
        record(place, tags={f"tag{number}": "x" for number in range(count // 4)}) for place in range(2)
    ],
    "messages that are no records": lambda count: [(encoded_part, []) for encoded_part in [record(1)[0][:40]] * count],
    "records that cannot be used": lambda count: [record(place, version=2) for place in range(count)],
    "zones": lambda count: [
        record(place, newColumns=[{"TimestampWithTimeZone": {"value": {"year": 2021}, "timezone": f"+{place:04}"}}])
        for place in range(count)
    ],
}
