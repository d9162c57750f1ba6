"""Records of Tencent Cloud DTS, data subscription, whatever their encoding: Avro and JSON have the same fields.

The vendor's pages "Consuming Subscribed Data in Avro Format" and "JSON Demo Description" (571/61656) list them. A message is one
record and holds one changed row. An encoding reads messages as blocks (``blocks``); ``entries`` and ``rows`` take these further.
"""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("id",), "version": ("version",), "operation": ("messageType", "operation"), "file_name": ("fileName",),
    "position": ("position",), "safe_position": ("safePosition",), "timestamp": ("timestamp",), "gtid": ("gtid",),
    "transaction_id": ("transactionId",), "server_id": ("serverId",), "thread_id": ("threadId",),
    "source_type": ("sourceType",), "source_version": ("sourceVersion",), "database": ("schemaName",),
    "table": ("tableName",), "object_name": ("objectName",), "columns": ("columns",), "before": ("oldColumns",),
    "after": ("newColumns",), "sql": ("sql",), "execution_time": ("executionTime",),
    "heartbeat_time": ("heartbeatTimestamp",), "gtid_set": ("syncedGtid",), "fake_gtid": ("fakeGtid",),
    "key_names": ("pkNames",), "reader_time": ("readerTimestamp",), "tags": ("tags",), "total": ("total",),
    "index": ("index",),
}  # fmt: skip
"""The names of the record's fields by role, as the vendor documents them."""

LISTS = ("columns", "before", "after", "key_names", "tags")

OPERATIONS: Mapping[str, str] = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "INIT_INSERT": "read"}
"""The message types with a row, and what became of it.

The last one is the synchronization to Kafka's.
"""
