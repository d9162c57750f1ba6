"""Flat messages as Canal writes them, the program that reads MySQL's binlog (github.com/alibaba/canal).

Facts are those of its source, version 1.1.9: ``FlatMessage.java`` and ``MQMessageUtils.java`` (fields, ``old``, which rows a
message has), ``LogEventConvert.java`` and ``RowsLogBuffer.java`` (values), ``MemoryTableMeta.java`` (types). Tencent Cloud's DTS
writes the same fields when it synchronizes to Kafka in the format Canal JSON (document 571/102285).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import Bools, binary_array, offsets_of, rows_by_code
from dts_assets.wire.columns.casts import parse
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.flat_json.dialect import DDL, DML, Images, OfMysqlFamily
from dts_assets.wire.flat_json.messages import OPERATIONS, Head, HeadForm, Refused, head_of, images_of
from dts_assets.wire.format import TooLargeError

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
        """
        return head.type != "UPDATE" or not head.old or bytes(head.pkNames) not in _NO_KEYS

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
    ) -> pa.Array:
        """Return values with the labels of ENUM and SET and all bytes of BINARY.

        Canal sends numbers of labels, and no zero bytes at the end.

        Raises:
            TooLargeError: labels and zero bytes make very many bytes of few.
        """
        places: list[npt.NDArray[np.int64]] = []
        found: list[pa.Array] = []
        size = 0
        for number, rows in rows_by_code(list_numbers):
            for place, restore in _restorers(lists[number]):
                places.append(starts[rows].astype(np.int64) + place)
                found.append(restore(values.take(pa.array(places[-1]))))
                size += found[-1].nbytes
                _check(size)
        if not places:
            return values
        at = np.concatenate(places)
        mask = np.zeros(len(values), np.bool_)
        mask[at] = True
        made = pa.concat_arrays(found).take(pa.array(np.argsort(at)))
        return pc.replace_with_mask(values, pa.array(mask), made)


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


def canal_reading(zone: str) -> Reading:
    """Return the reading of Canal: bytes are ISO-8859-1 text, and instants wall clocks.

    ``zone`` (``+08:00``) is that of the clocks. Canal makes text of a BLOB by ``new String(bytes, ISO_8859_1)``, and of a
    TIMESTAMP by Java's ``Timestamp.toString``, in the zone of its own process. A clock that says its zone is followed:
    ``2021-05-17 07:22:42 +00:00`` of Tencent Cloud.
    """

    def typed(
        values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
    ) -> tuple[pa.Array, Bools | None]:
        if bucket.of_bytes:
            return latin_bytes(values)
        if bucket.lake_type == "timestamp":
            return parse(values, "timestamp", zone=zone)
        return typed_values(values, bucket, image, cells)

    return typed


def latin_bytes(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Return the bytes behind texts in which each character is one byte, and which texts are others.

    ``values`` are the texts in UTF-8. Texts with characters beyond U+00FF are null, as nulls are; the mask is None if there are
    none.
    """
    offsets, buffer = offsets_of(values), values.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, count=int(offsets[-1]))
    sent = np.asarray(values.is_valid())
    if not (data >= 0x80).any():
        return values, None
    bad = np.zeros(len(values), np.bool_)
    beyond = np.flatnonzero(data > 0xC3)  # the first byte of any character beyond U+00FF
    bad[np.searchsorted(offsets, beyond[beyond >= offsets[0]], side="right") - 1] = True
    bad &= sent
    made = data.copy()
    made[1:][data[:-1] == 0xC3] |= 0x40
    kept = (data != 0xC2) & (data != 0xC3)
    before = np.concatenate(([0], np.cumsum(kept))).astype(np.int32)
    bytes_of_texts = binary_array(pa.binary(), before[offsets], pa.py_buffer(made[kept]), sent & ~bad)
    return bytes_of_texts, bad if bad.any() else None


Restorer = Callable[[pa.Array], pa.Array]

_MOST_BYTES = 1 << 26
"""The most bytes that labels and zero bytes may make in a call.

A number of twenty digits may stand for 16 kilobytes of labels.
"""
_LONGEST_LABEL = 255
"""Characters of the longest label that a server takes (MySQL Reference Manual, "String Type Overview")."""
_LONGEST_BINARY = 255

_LABELS = re.compile(r"\s*(enum|set)\s*\(\s*('(?:[^']|'')*'(?:\s*,\s*'(?:[^']|'')*')*)\s*\)", re.I)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_BINARY = re.compile(r"\s*binary\s*\(\s*(\d{1,3})\s*\)", re.I | re.ASCII)
_MOST_DIGITS = 20


@lru_cache(maxsize=1 << 13)
def _restorers(columns: ColumnList) -> tuple[tuple[int, Restorer], ...]:
    """Return the places of columns whose values Canal sends otherwise than the server shows them.

    Beside each stands the way back.
    """
    found = ((place, restorer_of(column.original_type)) for place, column in enumerate(columns.columns))
    return tuple((place, restorer) for place, restorer in found if restorer is not None)


@lru_cache(maxsize=1 << 13)
def restorer_of(mysql_type: str) -> Restorer | None:
    """Return the function that makes a column's values those of the server; None where they are.

    Of ``enum('a','b')`` it makes ``b"b"`` of ``b"2"``. Canal takes a column's type from its definition, with the labels of ENUM
    and SET; of their values it sends the numbers that the binlog has. The binlog has BINARY values without their last zero
    bytes, and so has Canal.
    """
    labelled = _LABELS.match(mysql_type)
    if labelled is not None:
        # The server drops blanks at the end of labels when it makes the table.
        labels = [one.replace("''", "'").rstrip(" ") for one in _LABEL.findall(labelled.group(2))]
        if max(map(len, labels)) > _LONGEST_LABEL:
            return None
        name = _enum_label if labelled.group(1).lower() == "enum" else _set_labels
        return lambda values: _renamed(values, labels, name)
    width = _BINARY.match(mysql_type)
    if width is not None and int(width.group(1)) <= _LONGEST_BINARY:
        return lambda values: _filled(values, int(width.group(1)))
    return None


def _filled(values: pa.Array, width: int) -> pa.Array:
    """Return texts with so many characters at least, zeros behind what was sent."""
    _check(len(values) * width)
    return pc.utf8_rpad(values.cast(pa.string()), width=width, padding="\0").cast(pa.binary())


def _check(size: int) -> None:
    """Refuse to make too many bytes.

    Raises:
        TooLargeError: they are more than a call may make.
    """
    if size > _MOST_BYTES:
        raise TooLargeError(f"its numbers of labels and its BINARY values make more than {_MOST_BYTES} bytes")


def _renamed(values: pa.Array, labels: Sequence[str], name: Callable[[int, Sequence[str]], str | None]) -> pa.Array:
    """Return the labels for numbers; a text that is no number of a label stays."""
    encoded = values.dictionary_encode()
    made: list[bytes] = []
    size = 0
    for text in encoded.dictionary.to_pylist():
        label = name(int(text), labels) if text.isdigit() and len(text) <= _MOST_DIGITS else None
        made.append(text if label is None else label.encode())
        size += len(made[-1])
        _check(size)
    counts = np.bincount(encoded.indices.drop_null().to_numpy(), minlength=len(made))
    _check(int(counts @ np.fromiter(map(len, made), np.int64, len(made))))
    return pa.array(made, pa.binary()).take(encoded.indices)


def _enum_label(number: int, labels: Sequence[str]) -> str | None:
    """Return the label of a number, the empty text for 0.

    Zero stands for a value that the column could not take.
    """
    return None if number > len(labels) else labels[number - 1] if number else ""


def _set_labels(bits: int, labels: Sequence[str]) -> str | None:
    """Return the labels of the bits that are set, with commas between them.

    No more labels are looked at than the number has bits: a type may name very many.
    """
    if bits >> len(labels):
        return None
    return ",".join(labels[place] for place in range(bits.bit_length()) if bits >> place & 1)
