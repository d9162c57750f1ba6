"""Streams of DTS JSON that somebody wrote to cost time: each of ``count`` things of one kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.growth.hostile_streams import Stream

_KEY = {"name": "id", "isKey": True, "originalType": "int"}


def record(place: int, **fields: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A message with a row of a table; ``fields`` are those that are otherwise."""
    made = {
        "id": place + 1, "version": 1, "messageType": "INSERT", "fileName": "b.000001", "position": f"{place + 9}@1",
        "timestamp": 1_700_000_000, "sourceType": "MySQL", "schemaName": "d", "tableName": "t", "pkNames": ["id"],
        "columns": [_KEY], "newColumns": [str(place)],
    } | fields  # fmt: skip
    return json.dumps(made).encode(), []


def _wide(place: int, width: int, kind: str, value: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    columns = [{"name": f"c{number}", "originalType": kind} for number in range(width)]
    return record(place, columns=columns, pkNames=None, newColumns=[value] * width)


def _of_every_form(place: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    forms = ([str(place)], {"id": str(place)}, [{"value": str(place)}], [{"name": "id", "value": place}], [place])
    return record(place, newColumns=forms[place % len(forms)])


DTS_JSON: dict[str, Callable[[int], Stream]] = {
    "rows": lambda count: [record(place) for place in range(count)],
    "rows of one event": lambda count: [record(place, position="9@1") for place in range(count)],
    "rows of one event, told again and again": lambda count: [
        record(place % 7, position="9@1") for place in range(count)
    ],
    "rows in every form": lambda count: [_of_every_form(place) for place in range(count)],
    "tables": lambda count: [record(place, tableName=f"t{place}") for place in range(count)],
    "columns of one table": lambda count: [
        record(place, columns=[{"name": f"c{place}", "isKey": True, "originalType": "int"}], pkNames=None)
        for place in range(count)
    ],
    "types of one column": lambda count: [
        record(
            place, columns=[_KEY, {"name": "t", "originalType": f"time({place % 7})"}], newColumns=["1", "07:22:42.5"]
        )
        for place in range(count)
    ],
    "times of one row": lambda count: [_wide(place, count // 4, "time(3)", "07:22:42.123") for place in range(2)],
    "timestamps of one row": lambda count: [
        _wide(place, count // 4, "timestamp(3)", "1621236162500") for place in range(2)
    ],
    "bytes of one row": lambda count: [_wide(place, count // 4, "blob", "0x00ff") for place in range(2)],
    "texts that name no bytes": lambda count: [_wide(place, count // 4, "blob", "0xf") for place in range(2)],
    "dates with times": lambda count: [
        _wide(place, count // 4, "date", "2021-05-17 00:00:00.000") for place in range(2)
    ],
    "tags of one record": lambda count: [
        record(place, tags={f"tag{number}": "x" for number in range(count // 4)}) for place in range(2)
    ],
    "tags of many records": lambda count: [record(place, tags={f"tag{place}": place}) for place in range(count)],
    "fields that nobody knows": lambda count: [record(place, **{f"field{place}": "x"}) for place in range(count)],
    "fields of one record that nobody knows": lambda count: [
        record(place, **{f"field{number}": "x" for number in range(count // 8)}) for place in range(2)
    ],
    "messages that are no records": lambda count: [(part, []) for part in [record(1)[0][:40]] * count],
    "records that cannot be used": lambda count: [record(place, version=2) for place in range(count)],
    "records without a key": lambda count: [record(place, newColumns=[None]) for place in range(count)],
    "numbers as texts": lambda count: [record(place, id=str(place), timestamp="1700000000") for place in range(count)],
}
