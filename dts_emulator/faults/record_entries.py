"""Records of DTS in Avro and JSON as entries of Protobuf, in which faults are looked for."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.faults.json_records import STRANGE, json_record

_PLACE = re.compile(r"(\d{1,18})@(\d{1,18})")
_UNKNOWN = 99
_TYPES = {
    "INSERT": pb.DML, "UPDATE": pb.DML, "DELETE": pb.DML, "DDL": pb.DDL, "BEGIN": pb.BEGIN, "COMMIT": pb.COMMIT,
    "HEARTBEAT": pb.HEARTBEAT, "CHECKPOINT": pb.CHECKPOINT, "ROLLBACK": pb.ROLLBACK,
}  # fmt: skip
_OPERATIONS = {"INSERT": pb.INSERT, "UPDATE": pb.UPDATE, "DELETE": pb.DELETE}
_LAST_SECOND = 253_402_300_799


def record_of(value: bytes | None) -> Mapping[str, Any] | None:
    """Return the record that a message is; None if it is none."""
    if not value:
        return None
    if value.startswith(b"{"):  # without the packages of the extra
        return json_record(value)
    import fastavro

    from dts_emulator.dts_avro.records import record_schema

    source = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(source, record_schema(), None, return_record_name=True)
    except Exception:  # what a parser raises of bytes that are no record
        return None
    return found if isinstance(found, dict) and not source.read(1) else None


def entries_of_records(values: Sequence[bytes | None]) -> tuple[pb.Entry, ...] | None:
    """Return the entries that messages are as records; None if one of them is none."""
    records = [record_of(value) for value in values]
    found = tuple(_entry(record) for record in records if record is not None)
    return found if len(found) == len(values) else None


def _entry(record: Mapping[str, Any]) -> pb.Entry:
    """Return a record as an entry; one that contradicts itself has a message type that nobody knows."""
    kind = record["messageType"]
    place = _PLACE.fullmatch(record["position"])
    header = pb.Header(
        messageType=_TYPES.get(kind, pb.DML), timestamp=record["timestamp"] % (1 << 32),
        serverId=record["serverId"], gtid=record["gtid"] or "", schemaName=record["schemaName"] or "",
        tableName=record["tableName"] or record["objectName"] or "", seqId=record["id"] % (1 << 64),
        fileName=place[2] if place else "", position=int(place[1]) if place else 0,
    )  # fmt: skip
    if not _makes_sense(record):
        header.messageType = cast("pb.MessageType", _UNKNOWN)
    event = pb.Event()
    if kind in _OPERATIONS:
        columns = [
            pb.Column(name=one["name"], originalType=one["originalType"], isKey=one["isKey"])
            for one in record["columns"] or ()
        ]
        row = pb.RowChange(oldColumns=_image(record["oldColumns"]), newColumns=_image(record["newColumns"]))
        event.dmlEvent.CopyFrom(pb.DMLEvent(dmlEventType=_OPERATIONS[kind], columns=columns, rows=[row]))
        event.dmlEvent.columns.extend(pb.Column(name=f"key {name}") for name in record["pkNames"] or ())
        for image in (row.oldColumns, row.newColumns):
            if image:  # keys stand among the columns, so that a change of them shows
                image.extend(pb.Data() for _ in record["pkNames"] or ())
        event.dmlEvent.rows[0].CopyFrom(row)
    elif kind == "DDL":
        event.ddlEvent.CopyFrom(pb.DDLEvent(sql=record["sql"] or "", executionTime=record["executionTime"] or 0))
    else:
        if kind in _TYPES:
            getattr(event, f"{kind.lower()}Event").SetInParent()
        if kind == "CHECKPOINT":
            event.checkpointEvent.syncedGtid = record["syncedGtid"] or ""
    return pb.Entry(header=header, event=event)


def _makes_sense(record: Mapping[str, Any]) -> bool:
    """Return whether a record says nothing that contradicts itself, and nothing that its version does not have."""
    kind, place = record["messageType"], _PLACE.fullmatch(record["position"])
    if kind not in _TYPES or record.get(STRANGE):
        return False
    if record["version"] != 1 or not 0 <= record["timestamp"] <= _LAST_SECOND or record["id"] < 0:
        return False
    if record["total"] or record["index"] or (place is None and kind not in ("HEARTBEAT", "CHECKPOINT")):
        return False
    digits = record["fileName"].rpartition(".")[2]
    if place is not None and record["fileName"] and (not digits.isdigit() or int(digits) != int(place[2])):
        return False
    if kind not in _OPERATIONS:
        return not (record["oldColumns"] or record["newColumns"])
    if not (record["tableName"] or record["objectName"]) or not record["columns"]:
        return False
    if any(isinstance(record[side], str) for side in ("oldColumns", "newColumns")):
        return False
    return all(one["name"] for one in record["columns"])


def _image(values: Sequence[Any] | None) -> list[pb.Data]:
    """Return values that differ where they say something else."""
    return [pb.Data(dataType=pb.STRING, sv=repr(value)) for value in values or ()]
