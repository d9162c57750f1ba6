"""A topic of DRS JSON from a source with a schema: that of the MySQL family in the words of the vendor's table 4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_emulator.faults.recorded_topic import Topic
from tests.soak.drs_topic import KEYS, retold

TYPES: Mapping[str, Mapping[str, str]] = {
    "accounts": {
        "id": "bigint",
        "owner": "character varying",
        "balance": "numeric",
        "seen": "timestamp with time zone",
    },
    "notes": {"id": "numeric", "body": "text", "done": "smallint", "mark": "bytea"},
    "visits": {"day": "date", "page": "character varying", "hits": "double precision"},
}
_LAKE = {
    "bigint": "bigint", "character varying": "string", "numeric": "string", "timestamp with time zone": "timestamp",
    "text": "string",
    "smallint": "int", "bytea": "binary", "date": "date", "double precision": "double",
}  # fmt: skip
TABLES = {
    TableId("shop", "public", name): tuple(
        Column(column, _LAKE[kind], is_key=column in (KEYS[name] or ())) for column, kind in types.items()
    )
    for name, types in TYPES.items()
}


def in_postgresql(topic: Topic) -> Topic:
    """A topic of DRS JSON whose tables have a schema; a large text that an UPDATE leaves as it was is not sent."""
    return retold(topic, _told)


def _told(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    body: dict[str, Any] = json.loads(value)
    types = TYPES.get(body["table"])
    del body["mysqlType"]
    data, old = (
        None if rows is None else [_row(row, types or {}) for row in rows] for rows in (body["data"], body["old"])
    )
    for new, before in zip(data or (), old or (), strict=False):
        if new.get("body") is not None and new.get("body") == before.get("body"):
            new["body"] = "unchanged-toast-datum"
    body |= {
        "columnType": types, "dbType": "GaussDB Centralized", "schema": "public", "opType": body["type"], "data": data,
        "old": old,
    }  # fmt: skip
    return json.dumps(body, ensure_ascii=body["id"] % 2 == 0).encode()


def _row(row: Mapping[str, str | None], types: Mapping[str, str]) -> dict[str, str | None]:
    made = dict(row)
    for name, kind in types.items():
        text = row.get(name)
        if text is not None and kind == "bytea":
            made[name] = bytes(one & 255 for one in json.loads(text)).hex()
        if text is not None and kind == "timestamp with time zone":
            made[name] = datetime.fromtimestamp(float(text), UTC).isoformat(" ").removesuffix(":00")
    return made
