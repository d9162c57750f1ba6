"""The example's recording as a topic of DTS Protobuf from a PostgreSQL: tables with a schema, places in its log, and no GTIDs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dts_assets.model.columns import Column
from dts_assets.model.positions import file_number
from dts_assets.model.postgresql_types import postgresql_type
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.faults.damage import entries_of
from dts_emulator.faults.recorded_topic import Recorded, Topic
from tests.soak.pipeline import Tables

_TYPE = re.compile(r"([a-z]+)(\(\d+,\d+\))?.*?( unsigned)?$")
_TYPES: Mapping[str, str] = {
    "tinyint": "smallint", "smallint": "smallint", "mediumint": "integer", "int": "integer", "bigint": "bigint", "bit": "bigint",
    "year": "bigint", "float": "real", "double": "double precision", "date": "date", "datetime": "timestamp without time zone",
    "timestamp": "timestamp with time zone", "json": "jsonb", "blob": "bytea", "varbinary": "bytea", "binary": "bytea",
    "mediumblob": "bytea", "longblob": "bytea", "tinyblob": "bytea",
}  # fmt: skip


def in_postgresql_log(topic: Topic) -> Topic:
    """The messages of a topic of MySQL as those of a PostgreSQL, each entry set in as many messages."""
    lanes: dict[int, list[Recorded]] = {}
    for partition, lane in topic.partitions.items():
        values: dict[int, bytes] = {}
        for message in lane:
            together = topic.set_of(message)
            if message is together[-1]:
                entries = entries_of([one.value for one in together]) or ()
                made = pb.Entries(items=[_told(one) for one in entries]).SerializeToString()
                values |= {id(one): value for one, value in zip(together, _cut(made, len(together)), strict=True)}
        made_lane = [message.copy() for message in lane]
        for copy, message in zip(made_lane, lane, strict=True):
            copy.value = values.get(id(message), message.value)
        lanes[partition] = made_lane
    return Topic(topic.name, lanes)


def tables_in_postgresql(topic: Topic, tables: Tables) -> Tables:
    """The tables of a topic that :func:`in_postgresql_log` made."""
    found: dict[TableId, dict[str, Column]] = {}
    for lane in topic.partitions.values():
        for message in lane:
            for entry in entries_of([one.value for one in topic.set_of(message)]) or ():
                if entry.header.messageType == pb.DML and TableId("shopdb", "", entry.header.tableName) in tables:
                    mine = found.setdefault(TableId("", "public", entry.header.tableName), {})
                    for one in entry.event.dmlEvent.columns:
                        kind = postgresql_type(one.originalType) or "string"
                        mine.setdefault(one.name, Column(one.name, kind, one.isKey))
    return {table: tuple(columns.values()) for table, columns in found.items()}


def _told(entry: pb.Entry) -> pb.Entry:
    made = pb.Entry.FromString(entry.SerializeToString())
    header, event = made.header, made.event
    header.sourceType, header.gtid, header.serverId = pb.PGSQL, "", 0
    header.position, header.fileName = _place(header.fileName, header.position), ""
    header.schemaName = "public" if header.schemaName else ""
    checkpoint = event.checkpointEvent
    if header.messageType == pb.CHECKPOINT:
        checkpoint.position = _place(checkpoint.fileName, checkpoint.position)
        checkpoint.fileName = checkpoint.syncedGtid = ""
    dml = event.dmlEvent if header.messageType == pb.DML else pb.DMLEvent()
    for place, column in enumerate(dml.columns):
        column.originalType = _type(column.originalType)
        for row in dml.rows:
            for image in (row.oldColumns, row.newColumns):
                if image:
                    image[place].CopyFrom(_value(image[place], column.originalType))
    return made


def _place(file_name: str, position: int) -> int:
    return file_number(file_name) << 32 | position


def _type(original: str) -> str:
    found = _TYPE.match(original)
    assert found is not None
    name, arguments, unsigned = found.groups()
    if name == "decimal":
        return f"numeric{arguments}"
    return "numeric(20,0)" if unsigned else _TYPES.get(name, "text")


def _value(data: pb.Data, kind: str) -> pb.Data:
    if data.dataType in (pb.NIL, pb.NA):
        return data
    if kind.startswith("numeric"):
        return pb.Data(dataType=pb.DECIMAL, sv=data.sv)
    if kind == "bytea":
        return pb.Data(dataType=pb.BYTES, bv=data.bv)
    return data


def _cut(entries: bytes, parts: int) -> list[bytes]:
    size = -(-len(entries) // parts)
    segments = [entries[number * size : (number + 1) * size] for number in range(parts)]
    return [
        pb.Envelope(version=1, total=parts, index=number, data=one).SerializeToString()
        for number, one in enumerate(segments)
    ]
