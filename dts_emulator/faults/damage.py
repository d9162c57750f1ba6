"""The evidence of damage in a message, found by parsing the message before and after with protobuf itself.

The formats carry no checksum. Damage shows if the message does not parse any more, contradicts itself, or says of a transaction
what its neighbours deny; a value, a name or a position that was changed into another valid one shows nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.faults.drs_messages import WRITER, message_of
from dts_emulator.faults.record_entries import entries_of_records


class FoundBy(StrEnum):
    """The evidence that shows a fault to a reader of the topic."""

    SEQUENCE = "sequence"
    """``ps`` headers: a hole, a repeat, or a number that is out of place."""
    POSITION = "position"
    """Source positions that were sent before."""
    TRANSACTION = "transaction"
    """A BEGIN without its COMMIT, or a COMMIT without its BEGIN."""
    GTID = "gtid"
    """A GTID that is missing between its neighbours."""
    ID = "id"
    """Ids of messages that fall where nothing is sent again."""
    DECODING = "decoding"
    """Bytes that do not parse, contradict themselves or do not make up a whole entry set."""
    NOTHING = "nothing"
    """The messages alone cannot tell."""


_EVENTS = {
    pb.BEGIN: "beginEvent",
    pb.COMMIT: "commitEvent",
    pb.DML: "dmlEvent",
    pb.DDL: "ddlEvent",
    pb.ROLLBACK: "rollbackEvent",
    pb.HEARTBEAT: "heartbeatEvent",
    pb.CHECKPOINT: "checkpointEvent",
}


def envelope_of(value: bytes | None) -> pb.Envelope | None:
    """Return the envelope in a message; None if it cannot be used."""
    try:
        envelope = pb.Envelope.FromString(value or b"")
    except DecodeError:
        return None
    return envelope if value and envelope.version == 1 and envelope.index < envelope.total else None


def entries_of(values: Sequence[bytes | None]) -> tuple[pb.Entry, ...] | None:
    """Return the entries of a set from the values of its messages; None if they make up none."""
    envelopes = [envelope_of(value) for value in values]
    data = b""
    for index, envelope in enumerate(envelopes):
        if envelope is None or (envelope.total, envelope.index) != (len(values), index):
            return None
        data += envelope.data
    try:
        return tuple(pb.Entries.FromString(data).items)
    except DecodeError:
        return None


def found_by(before: Sequence[bytes | None], after: Sequence[bytes | None]) -> tuple[FoundBy, str] | None:
    """Return the evidence that the messages of an entry set were damaged, and the damage in words.

    ``(FoundBy.GTID, "a GTID")``, for instance; None if a reader finds nothing changed in them.
    """
    read = entries_of if entries_of(before) is not None else entries_of_records
    old = read(before)
    if old is None:
        return _of_text(before, after)
    new = read(after)
    if new is None:
        return FoundBy.DECODING, "it does not parse"
    envelopes = [envelope for value in after if (envelope := envelope_of(value)) is not None]
    if not any(map(_contradiction, old)) and any(map(_contradiction, new)):
        return FoundBy.DECODING, "it contradicts itself"
    if not any(map(_unknown, old)) and any(map(_unknown, (*envelopes, *new))):
        return FoundBy.DECODING, "it has a field that the protocol does not have"
    if _boundaries(old) != _boundaries(new):
        return FoundBy.TRANSACTION, "BEGIN and COMMIT"
    if len(old) != len(new):
        return FoundBy.NOTHING, "how many entries there are"
    pairs = [(one.header, other.header) for one, other in zip(old, new, strict=True)]
    # An entry need not name its transaction, nothing else names that of a statement, and some sources have no GTIDs at all.
    named = any(one.gtid for one, _ in pairs)
    if named and any(one.gtid != other.gtid and other.gtid and one.messageType != pb.DDL for one, other in pairs):
        return FoundBy.GTID, "a GTID"
    if any(one.header != other.header for one, other in zip(old, new, strict=True)):
        return FoundBy.NOTHING, "a header"
    return None if old == new else (FoundBy.NOTHING, "a value")


def id_of(value: bytes | None) -> int | None:
    """Return the id of a message of DRS; None if it has none."""
    return _number(value, "id")


def time_of(value: bytes | None) -> int | None:
    """Return the ``es`` of a message of DRS, in milliseconds since 1970."""
    return _number(value, "es")


def _number(value: bytes | None, name: str) -> int | None:
    message = message_of(value) or {}
    number = None if "messageType" in message else message.get(name)  # a record of DTS tells copies by its place
    return number if type(number) is int else None


def is_doubtful_copy(value: bytes | None, before: Sequence[bytes | None]) -> bool:
    """Return True if nobody can tell whether a message of DRS is a copy of its neighbour.

    Their ids are equal, and their table has no key, so that it may be another piece of their event.
    """
    number = id_of(value)
    if number is None:
        return False
    message = message_of(value) or {}
    if message.get("pkNames") or message.get("type", message.get("op")) in _STATEMENTS:  # documents are told by "op"
        return False
    for one in reversed(before):
        if id_of(one) != number:
            return False
        if one == value:
            return True
    return False


def _of_text(before: Sequence[bytes | None], after: Sequence[bytes | None]) -> tuple[FoundBy, str] | None:
    """Return the evidence of damage in messages of DRS; nothing is known of any other format."""
    old = [message_of(value) for value in before]
    if None in old:
        return None if list(before) == list(after) else (FoundBy.NOTHING, "unknown")
    new = [message_of(value) for value in after]
    if None in new:
        return FoundBy.DECODING, "it does not parse"
    if old == new:
        return None
    if any(map(_is_drs, old)) and not all(map(_is_drs, new)):
        return FoundBy.DECODING, "it contradicts itself"
    return FoundBy.NOTHING, "a value"


_STATEMENTS = {"DDL", "INIT_DDL"}
_DRS_TYPES = {"INSERT", "UPDATE", "DELETE", "INIT", *_STATEMENTS}


def _is_drs(message: object) -> bool:
    """Return True if a message has the fields that one of DRS cannot lack."""
    if not isinstance(message, Mapping):
        return False
    if WRITER in message:
        return True
    if not isinstance(message.get("type"), str) or message["type"] not in _DRS_TYPES:
        return False
    return all(type(message.get(name)) is int and message[name] >= 0 for name in ("id", "es"))


def _boundaries(entries: Sequence[pb.Entry]) -> list[int]:
    """BEGIN, COMMIT and ROLLBACK. Their transaction ids vouch for nothing: of one transaction only COMMIT need have it."""
    return [one.header.messageType for one in entries if one.header.messageType in (pb.BEGIN, pb.COMMIT, pb.ROLLBACK)]


def _contradiction(entry: pb.Entry) -> bool:
    """Return True if an entry contradicts itself.

    Its kind is unknown, its event is of another kind, or a row is of another width.
    """
    wanted = _EVENTS.get(entry.header.messageType)
    present = [name for name in _EVENTS.values() if entry.event.HasField(name)]
    if wanted is None or present != [wanted]:
        return True
    dml = entry.event.dmlEvent
    if dml.dmlEventType not in (pb.INSERT, pb.UPDATE, pb.DELETE):
        return True
    width = len(dml.columns)
    return any(len(image) not in (0, width) for row in dml.rows for image in (row.oldColumns, row.newColumns))


def _unknown(message: Message) -> bool:
    """Return True if a message, or one inside it, holds a field that the protocol does not have."""
    if len(UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is not None and any(map(_unknown, value if field.is_repeated else [value])):
            return True
    return False
