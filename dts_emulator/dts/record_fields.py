"""Entries of the task as records, one for each row, whatever encodes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dts_assets.model.positions import file_number
from dts_assets.protocol import subscribe_pb2 as pb

_BASE = re.compile(r"\s*([a-z]+)", re.I)

_TYPE_NUMBERS = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9, "date": 10,
    "time": 11, "datetime": 12, "year": 13, "bit": 16, "json": 245, "decimal": 246, "enum": 247, "set": 248, "tinytext": 249,
    "tinyblob": 249, "mediumtext": 250, "mediumblob": 250, "longtext": 251, "longblob": 251, "text": 252, "blob": 252,
    "varchar": 253, "varbinary": 253, "char": 254, "binary": 254,
}  # fmt: skip
"""The numbers of types in MySQL's protocol."""
_GEOMETRY = 255
"""The number that all kinds of geometries share."""

_EVENTS = {"beginEvent": "BEGIN", "commitEvent": "COMMIT", "ddlEvent": "DDL", "rollbackEvent": "ROLLBACK"}
_OPERATIONS = {pb.INSERT: "INSERT", pb.UPDATE: "UPDATE", pb.DELETE: "DELETE"}
_SOURCES = {pb.MYSQL: "MySQL", pb.MARIADB: "MariaDB"}

ImageOf = Callable[[Sequence[pb.Data], Sequence[pb.Column]], Any]
"""The way in which an encoding writes the values of a row."""


def records_of(entry: pb.Entry, image: ImageOf) -> Iterator[dict[str, Any]]:
    """Yield the records of an entry, without ``id``, ``safePosition`` and ``readerTimestamp``.

    Images are what ``image`` makes of the values of a row.
    """
    common = _common(entry.header)
    event = entry.event
    if event.HasField("dmlEvent"):
        yield from _rows(common, entry.header, event.dmlEvent, image)
        return
    kind = next((name for field, name in _EVENTS.items() if event.HasField(field)), "")
    if event.HasField("heartbeatEvent"):
        yield common | {"messageType": "HEARTBEAT", "heartbeatTimestamp": event.heartbeatEvent.epoch}
    elif event.HasField("checkpointEvent"):
        mark = event.checkpointEvent
        place = {"fileName": mark.fileName, "position": place_of(mark.fileName, mark.position)}
        yield common | place | {"messageType": "CHECKPOINT", "syncedGtid": mark.syncedGtid, "fakeGtid": mark.fakeGtid}
    elif kind == "DDL":
        yield common | {
            "messageType": kind, "schemaName": event.ddlEvent.schemaName or None, "sql": event.ddlEvent.sql,
            "executionTime": event.ddlEvent.executionTime,
        }  # fmt: skip
    else:
        yield common | {"messageType": kind, "transactionId": event.commitEvent.transactionId or None}


def _common(header: pb.Header) -> dict[str, Any]:
    return {
        "version": header.version, "fileName": header.fileName, "position": place_of(header.fileName, header.position),
        "timestamp": header.timestamp, "gtid": header.gtid or None, "transactionId": None, "serverId": header.serverId,
        "threadId": 0, "sourceType": _SOURCES.get(header.sourceType, ""), "sourceVersion": "", "schemaName": None,
        "tableName": None, "objectName": None, "columns": None, "oldColumns": None, "newColumns": None, "sql": None,
        "executionTime": None, "heartbeatTimestamp": None, "syncedGtid": None, "fakeGtid": None, "pkNames": None,
        "tags": {}, "total": 0, "index": 0,
    }  # fmt: skip


def place_of(file_name: str, position: int) -> str:
    """Return a place as the vendor writes it: ``2196@4`` in ``mysql-bin.000004``."""
    return f"{position}@{file_number(file_name)}"


def _rows(common: Mapping[str, Any], header: pb.Header, event: pb.DMLEvent, image: ImageOf) -> Iterator[dict[str, Any]]:
    columns = [
        {"name": one.name, "dataTypeNumber": _TYPE_NUMBERS.get(base_of(one.originalType), _GEOMETRY), "isKey": one.isKey,
         "originalType": one.originalType} for one in event.columns
    ]  # fmt: skip
    keys = [one.name for one in event.columns if one.isKey]
    table = dict(common) | {
        "messageType": _OPERATIONS[event.dmlEventType], "schemaName": header.schemaName, "tableName": header.tableName,
        "objectName": f"{header.schemaName}.{header.tableName}", "columns": columns, "pkNames": keys or None,
    }  # fmt: skip
    for row in event.rows:
        sides = (("oldColumns", row.oldColumns), ("newColumns", row.newColumns))
        yield table | {side: image(values, event.columns) if values else None for side, values in sides}


def base_of(original_type: str) -> str:
    """Return the first word of a type in small letters: ``int`` of ``int(11) unsigned``."""
    found = _BASE.match(original_type)
    return "" if found is None else found.group(1).lower()
