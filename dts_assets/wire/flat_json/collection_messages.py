"""Messages of DRS about collections of documents ("Kafka Message Format", drs_03_0052, table 3: DDS).

The fields are id, op, dbType, db, coll, value, where, recordType, extra, es, ts and clusterTime. The page's samples show ``es``
eight hours off ``clusterTime``, so ``clusterTime`` is the time of a change. Commands of databases stand as statements of
MySQL, which have the same meaning: DDS tells drops and new names alone. The page does not show them: recordType is
taken for the type of the change stream's event, and ``value`` for its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Raw, Struct
from msgspec.json import Decoder, encode

from dts_assets.model.collections import COLLECTION
from dts_assets.model.columns import quoted
from dts_assets.model.problems import Reason
from dts_assets.wire.columns.json_texts import MALFORMED, plain_text
from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from dts_assets.wire.flat_json.messages import DDL_TYPES, LOAD, Id, Refused, Row
from dts_assets.wire.flat_json.other_sources_head import SourceHead

TYPES = encode({column.name: column.original_type for column in COLLECTION})
KEYS = encode([column.name for column in COLLECTION if column.is_key])

INSERTED, REPLACED, UPDATED, DELETED = "insert", "replace", "update", "doc"
_RECORDS: Mapping[str, frozenset[str | None]] = {
    "INSERT": frozenset({INSERTED, None}), "UPDATE": frozenset({UPDATED, REPLACED}), "DELETE": frozenset({DELETED}),
}  # fmt: skip
"""The words of recordType that say what an operation is about; DRS deletes data of views, too."""

_TIME = re.compile(r"(\d{1,10}):(\d{1,10})")
_ROW = [Row()]
_RAW_TYPES, _RAW_KEYS = Raw(TYPES), Raw(KEYS)


class CollectionMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message about a collection, or a database of collections."""

    id: Id
    op: str
    db: str | None = None
    coll: str | None = None
    value: str | None = None
    where: str | None = None
    recordType: str | None = None
    extra: str | None = None
    dbType: str | None = None
    es: int | None = None
    ts: int | None = None
    clusterTime: str | None = None


class CollectionHead(SourceHead, gc=False):
    """A message about a collection with the head of other messages of DRS.

    ``told`` are properties of its entry.
    """

    told: Mapping[str, str] = {}


MESSAGE = Decoder(CollectionMessage)
SOURCE = "MongoDB"
"""The ``dbType`` of messages that have none."""

_PARTS = Decoder(dict[str, Raw])
_KNOWN = frozenset(CollectionMessage.__struct_fields__)


def collection_head(message: bytes) -> tuple[CollectionHead, Mapping[str, str]] | None:
    """Return the head of a message about a collection, and fields beyond the vendor's table.

    These are texts. None stands for a message that is not about a collection.

    Raises:
        Refused: A field of it makes no sense.
    """
    try:
        return _head(MESSAGE.decode(message)), {}
    except MALFORMED:
        pass
    try:
        fields = _PARTS.decode(message)
    except MALFORMED:
        return None
    if "op" not in fields or "type" in fields or not {"coll", "db"} & fields.keys():
        return None
    others = {
        name: text for name, raw in fields.items() if name not in _KNOWN and (text := plain_text(raw)) is not None
    }
    try:
        known = MESSAGE.decode(encode({name: raw for name, raw in fields.items() if name in _KNOWN}))
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, "a field of it has another type than the vendor's table says") from None
    return _head(known), others


def is_change(operation: str, record: str | None) -> bool:
    """Tell whether a message with these words of op and recordType is about a document."""
    return operation == LOAD or record in _RECORDS.get(operation, ())


def _head(message: CollectionMessage) -> CollectionHead:
    """Return the head of a message.

    Raises:
        Refused: A field of it makes no sense.
    """
    time = _TIME.fullmatch(message.clusterTime or "")
    if time is None:
        raise Refused(Reason.UNDECODABLE_ENTRY, "its clusterTime is no seconds:increment")
    is_statement = message.op in DDL_TYPES
    if not is_statement and not is_change(message.op, message.recordType):
        raise Refused(Reason.UNKNOWN_OPERATION, "its op is not known, or does not fit its recordType")
    if not message.db or not (message.coll or is_statement):
        raise Refused(Reason.UNDECODABLE_ENTRY, "it names no collection")
    told = {"clusterTime": time[0]}
    if message.recordType is not None:
        told["recordType"] = message.recordType
    if message.extra is not None and message.extra != message.recordType:
        told["extra"] = message.extra
    if message.es is not None:
        told["es"] = str(message.es)
    has_rows = None if is_statement else _ROW
    return CollectionHead(
        id=message.id, es=int(time[1]) * 1000, type=message.op, ts=message.ts, database=message.db, table=message.coll,
        sql=_statement(message) if is_statement else None, types=_RAW_TYPES, pkNames=_RAW_KEYS, data=has_rows,
        old=has_rows if message.op == "DELETE" else None, dbType=message.dbType or SOURCE, told=told,
    )  # fmt: skip


def _statement(message: CollectionMessage) -> str:
    """Return a command as a statement of MySQL; one that is not understood stays as it was sent.

    It may name the collection it is about.
    """
    database, collection, kind = message.db or "", message.coll, (message.recordType or message.extra or "").lower()
    if kind == "dropdatabase":
        return f"DROP DATABASE {quoted(database)}"
    if kind == "drop" and collection:
        return f"DROP TABLE {quoted(database)}.{quoted(collection)}"
    if kind in ("rename", "renamecollection") and collection and (new := _new_name(message.value, database)):
        return f"RENAME TABLE {quoted(database)}.{quoted(collection)} TO {quoted(new[0])}.{quoted(new[1])}"
    return " ".join(filter(None, (kind, collection and quoted(collection), message.value)))


def _new_name(value: str | None, database: str) -> tuple[str, str] | None:
    """Return the database and the collection that a collection is called by: ``{"to": "shop.orders"}``.

    None where they are not told.
    """
    try:
        to = document_of(value or "").get("to")
    except Unreadable:
        return None
    if isinstance(to, str):
        head, dot, tail = to.partition(".")
        new: tuple[object, object] = (head, tail) if dot else (database, to)
    else:
        new = (to.get("db", database), to.get("coll")) if isinstance(to, dict) else ("", "")
    match new:
        case (str() as named, str() as collection) if named and collection:
            return named, collection
    return None
