"""Flat messages as Canal writes them, the program that reads MySQL's binlog (github.com/alibaba/canal).

Facts are those of its source, version 1.1.9: ``FlatMessage.java`` and ``MQMessageUtils.java`` (fields, ``old``, which rows a
message has), ``LogEventConvert.java`` and ``RowsLogBuffer.java`` (values), ``MemoryTableMeta.java`` (types). Tencent Cloud's DTS
writes the same fields when it synchronizes to Kafka in the format Canal JSON (document 571/102285).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.flat_json.canal_values import restored
from dts_assets.wire.flat_json.dialect import DDL, DML, Images, OfMysqlFamily
from dts_assets.wire.flat_json.messages import OPERATIONS, Head, HeadForm, Refused, head_of, images_of

STATEMENTS = frozenset({"CREATE", "ALTER", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX", "INIT_DDL"})
"""Types of messages that are statements, whatever they say else. Canal's ERASE is DROP TABLE, C and DINDEX are indexes."""

CONTROL: Mapping[str, str] = {
    "QUERY": "QUERY", "GTID": "GTID", "XACOMMIT": "XACOMMIT", "XAROLLBACK": "ROLLBACK", "MHEARTBEAT": "HEARTBEAT",
}  # fmt: skip
"""Types of messages that change nothing by themselves, with the message types of their entries.

QUERY is the text of a statement whose rows come in messages of their own. Rows of an XA transaction were sent before it is rolled
back, so that XAROLLBACK leaves a doubt, as any ROLLBACK does.
"""


BatchNumber: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class CanalHead(Head, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A message of Canal without the content of its rows.

    ``id`` is the number of a batch, which several messages share.
    """

    id: BatchNumber | None = None  # type: ignore[assignment]
    gtid: str | None = None


class _Changed(Struct):
    """The former values of the rows of an UPDATE."""

    old: list[dict[str, Raw]]


_FORM = HeadForm.of(CanalHead, BatchNumber | None, wanted_id="whole number")
_CHANGED = Decoder(_Changed)
_NO_KEYS = (b"null", b"[]")
_UPDATE = OPERATIONS["UPDATE"]


@dataclass(frozen=True, slots=True)
class CanalDialect(OfMysqlFamily):
    """The :class:`dts_assets.wire.flat_json.dialect.Dialect` of Canal."""

    ids_are_places: bool = False
    changed_only: bool = True

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
            Refused: the message is no JSON object, a field of it makes no sense, or it tells neither a key nor a changed column.
        """
        head, others = head_of(message, _FORM)
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
