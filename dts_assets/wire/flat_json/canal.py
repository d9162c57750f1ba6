"""Flat messages as Canal writes them, the program that reads MySQL's binlog (github.com/alibaba/canal).

Facts are those of its source, version 1.1.9: ``FlatMessage.java`` and ``MQMessageUtils.java`` (fields, ``old``, which rows a
message has), ``LogEventConvert.java`` and ``RowsLogBuffer.java`` (values), ``MemoryTableMeta.java`` (types). Tencent Cloud's DTS
writes the same fields when it synchronizes to Kafka in the format Canal JSON (document 571/102285).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Meta, Raw, Struct, field
from msgspec.json import Decoder, encode

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.json_texts import MALFORMED, plain_text, without_halves
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.flat_json.canal_values import restored
from dts_assets.wire.flat_json.dialect import CHECKPOINT, DDL, DML, Images, OfMysqlFamily
from dts_assets.wire.flat_json.messages import (
    OPERATIONS,
    Described,
    Event,
    EventForm,
    Head,
    HeadForm,
    Refused,
    described,
    head_of,
    images_of,
)

WATERMARK = "TIDB_WATERMARK"

STATEMENTS = frozenset({"CREATE", "ALTER", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX", "INIT_DDL"})
"""Types of messages that are statements, whatever they say else. Canal's ERASE is DROP TABLE, C and DINDEX are indexes."""

CONTROL: Mapping[str, str] = {
    "QUERY": "QUERY", "GTID": "GTID", "XACOMMIT": "XACOMMIT", "XAROLLBACK": "ROLLBACK", "MHEARTBEAT": "HEARTBEAT",
    WATERMARK: CHECKPOINT,
}  # fmt: skip
"""Types of messages that change nothing by themselves, with the message types of their entries.

QUERY is the text of a statement whose rows come in messages of their own. Rows of an XA transaction were sent before it is rolled
back, so that XAROLLBACK leaves a doubt, as any ROLLBACK does. TiCDC sends TIDB_WATERMARK into every Kafka partition: all up to
its timestamp was sent there.
"""


Timestamp: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Tidb(Struct, forbid_unknown_fields=True, gc=False):
    """The timestamps that TiCDC adds (``enable-tidb-extension``): of a transaction, or up to which all were sent."""

    commitTs: Timestamp | None = None
    watermarkTs: Timestamp | None = None


class _LargeTidb(Tidb, forbid_unknown_fields=False, gc=False):
    """The same, with the signs of a message that was too large: it has the key alone (``large-message-handle-option``)."""

    onlyHandleKey: bool = False
    claimCheckLocation: str | None = None


BatchNumber: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class CanalHead(Head, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A message of Canal without the content of its rows.

    ``id`` is the number of a batch, which several messages share.
    """

    id: BatchNumber | None = None  # type: ignore[assignment]
    gtid: str | None = None
    tidb: Tidb | None = field(default=None, name="_tidb")


class _Changed(Struct):
    """The former values of the rows of an UPDATE."""

    old: list[dict[str, Raw]]


_FORM = HeadForm.of(CanalHead, BatchNumber | None, wanted_id="whole number", read_later=frozenset({"_tidb"}))
_TIDB, _FIELDS = Decoder(_LargeTidb | None), Decoder(dict[str, Raw])
_EVENTS = EventForm.of("mysqlType", "sqlType")
_CHANGED = Decoder(_Changed)
_NO_KEYS = (b"null", b"[]")
_UPDATE = OPERATIONS["UPDATE"]


@dataclass(frozen=True, slots=True)
class CanalDialect(OfMysqlFamily):
    """The :class:`dts_assets.wire.flat_json.dialect.Dialect` of Canal."""

    ids_are_places: bool = False
    changed_only: bool = True

    @property
    def events(self) -> EventForm:
        """The form of messages with rows."""
        return _EVENTS

    def described(self, event: Event, known: tuple[str, ...]) -> Described | None:
        """Return the columns of a message; None if they cannot be read.

        TiCDC sends ``mysqlType`` in any order, and ``sqlType`` in that of the table.
        """
        return described(bytes(event.types), bytes(event.pkNames), (), bytes(cast(Any, event).sqlType))

    def columns_of(self, head: Head) -> Described | None:
        """Return the columns that a head describes; None if they cannot be read."""
        return described(bytes(head.types), bytes(head.pkNames), (), bytes(head.sqlType))

    def place(self, head: Head) -> int | None:
        """Return the place of a message: with ``_tidb`` the timestamp of its transaction or watermark."""
        tidb = cast(CanalHead, head).tidb
        if tidb is None:
            return None
        return tidb.watermarkTs if head.type == WATERMARK else tidb.commitTs

    @property
    def form(self) -> HeadForm:
        """The form of heads."""
        return _FORM

    def complete(self, head: Head) -> bool:
        """Return whether a head says all.

        An UPDATE without a key may tell nothing at all, which only its rows show.

        Raises:
            Refused: an UPDATE tells neither a key nor any old row.
        """
        if head.type != "UPDATE" or bytes(head.pkNames) not in _NO_KEYS:
            return True
        if not head.old:
            raise Refused(Reason.RAGGED_ROW, _NO_WHOLE_IMAGES)
        return False

    def head(self, message: bytes) -> tuple[Head, Mapping[str, str]]:
        """Return a message's head, and as text the fields that Canal does not have.

        Raises:
            Refused: the message is no JSON object, a field of it makes no sense, or it tells neither a key nor a changed column,
                or the key alone.
        """
        head, others = head_of(message, _FORM)
        if isinstance(cast(CanalHead, head).tidb, Raw):
            others = _with_tidb(cast(CanalHead, head), others)
        if not self.complete(head) and _lacks_rows(message):
            raise Refused(Reason.RAGGED_ROW, _NO_WHOLE_IMAGES)
        return head, others

    def gtid(self, head: Head) -> str | None:
        """Return the GTIDs that a message tells, None where there are none.

        Canal tells all up to the message, Tencent Cloud its own.
        """
        return (head.gtid if isinstance(head, CanalHead) else None) or None

    def message_type(self, head: Head) -> str:
        """Return the message type of a message's entry: a statement is what ``isDdl`` calls one.

        Raises:
            Refused: the type is not known, or contradicts ``isDdl``.
        """
        if head.type in OPERATIONS and not head.isDdl:
            return DML
        statement = head.type in STATEMENTS
        if (head.isDdl and head.type not in OPERATIONS) or (head.isDdl is None and statement):
            return DDL
        if not head.isDdl and not statement and head.type in CONTROL:
            return CONTROL[head.type]
        contradicts = statement or head.type in OPERATIONS
        detail = "its type contradicts its isDdl" if contradicts else "its type is not known"
        raise Refused(Reason.UNKNOWN_OPERATION, detail)

    def images(self, operation: int, data: Sequence[Any] | None, old: Sequence[Any] | None) -> Images:
        """Return the images of an operation's rows; of an UPDATE the first one has changed columns only.

        Raises:
            Refused: there are no rows, as where the binlog has statements, or images differ in their number of rows.
        """
        if data is None:
            raise Refused(Reason.RAGGED_ROW, "it has no rows: of a statement's rows Canal sends none")
        return images_of(operation, data, old if operation == _UPDATE else None, deleted_in_old=False)

    def restored(
        self,
        values: pa.Array,
        starts: npt.NDArray[np.int32],
        list_numbers: npt.NDArray[np.int64],
        lists: Sequence[ColumnList],
    ) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return values with the labels of ENUM and SET and all bytes of BINARY.

        Canal sends numbers of labels, and no zero bytes at the end. Numbers of no label are unfit.

        Raises:
            TooLargeError: labels and zero bytes make very many bytes of few.
        """
        return restored(values, starts, list_numbers, lists)


_KEY_ALONE = "it was too large and has the key alone: let TiCDC write larger messages (max-message-bytes)"


def _with_tidb(head: CanalHead, others: Mapping[str, str]) -> Mapping[str, str]:
    """Read the timestamps of a head, and return all fields that nobody knows.

    Raises:
        Refused: they are none, or the message has the key alone and is no deletion.
    """
    sent = cast(Raw, head.tidb)
    try:
        found = _TIDB.decode(sent)
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, "its _tidb has no timestamps") from None
    head.tidb = found
    if found is not None and _FIELDS.decode(sent).keys() - _LargeTidb.__struct_fields__:
        others = {**others, "_tidb": plain_text(sent) or ""}
    if found is not None and (found.onlyHandleKey or found.claimCheckLocation) and head.type != "DELETE":
        raise Refused(Reason.RAGGED_ROW, _KEY_ALONE)
    return others


_NO_WHOLE_IMAGES = "it tells neither a key nor what has changed: the server has to write binlog_row_image=FULL"


def _lacks_rows(message: bytes) -> bool:
    """Return whether an UPDATE does not tell what any of its rows was.

    Canal describes columns that the new image has, and compares them with those of the old one. Of a server with minimal images
    neither the key nor an old value is left.
    """
    try:
        return not any(_CHANGED.decode(message).old)
    except MALFORMED:
        return False


class _Identity(Struct):
    """The parts of a message by which its copies are known."""

    type: str
    pkNames: list[str] | None = None
    data: list[dict[str, Any]] | None = None
    old: list[dict[str, Any]] | None = None


_IDENTITY = Decoder(_Identity)


def identity_of(message: bytes) -> bytes:
    """Return the operation of a message with the key of its rows, or whole rows without a key.

    Copies of a message have equal identities, in whatever order its columns came. A message that cannot be read is its own.
    """
    try:
        found = _IDENTITY.decode(without_halves(message))
    except MALFORMED:
        return message
    if found.pkNames:
        rows: Any = [[(name, row.get(name)) for name in sorted(found.pkNames)] for row in found.data or ()]
    else:
        rows = [[sorted(row.items()) for row in some or ()] for some in (found.data, found.old)]
    return encode([found.type, rows])
