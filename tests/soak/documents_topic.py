"""A topic of DRS JSON from DDS: that of the MySQL family, with each first row as a document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dts_assets.model.collections import COLLECTION, lake_column
from dts_assets.model.tables import TableId
from dts_emulator.drs.generated_documents import shell_text
from dts_emulator.faults.recorded_topic import Topic
from tests.soak.drs_topic import KEYS, retold

TABLES = {TableId("shop", "", name): tuple(lake_column(one, "string") for one in COLLECTION) for name in KEYS}


def in_documents(topic: Topic) -> Topic:
    """A topic about collections; an update of a row that keeps its key tells its fields alone."""
    return retold(topic, _told)


def _told(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    body: dict[str, Any] = json.loads(value)
    kind, data, old = body["type"], (body["data"] or [None])[0], (body["old"] or [None])[0]
    where, record, content = None, "insert", {}
    if kind == "DELETE":
        record, content = "doc", {"_id": _id(body["table"], old or data)}
    elif kind == "UPDATE":
        identity = _id(body["table"], data)
        where, record, content = shell_text({"_id": identity}), "replace", {"_id": identity, **data}
        if old is not None and _id(body["table"], old) == identity and body["id"] % 2:
            record, content = "update", {"$set": dict(data)}
    elif data is not None:
        content = {"_id": _id(body["table"], data), **data}
    else:
        record = "createIndexes"
    fields = {
        "id": body["id"], "op": "DDL" if record == "createIndexes" else kind, "dbType": "MongoDB", "db": body["database"],
        "coll": body["table"], "value": shell_text(content), "where": where, "recordType": record, "extra": record,
        "es": body["es"], "ts": body["ts"], "clusterTime": f"{body['es'] // 1000}:1",
    }  # fmt: skip
    return json.dumps(fields, ensure_ascii=body["id"] % 2 == 0).encode()


def _id(table: str, row: Mapping[str, str | None]) -> Any:
    key = KEYS.get(table)
    return {"$numberLong": row["id"]} if key and str(row["id"]).isdigit() and len(str(row["id"])) < 19 else dict(row)
