"""The values of Canal's messages, as the server shows them, and typed.

Canal sends BLOB as text of ISO-8859-1, the numbers of labels of ENUM and SET, and BINARY without its last zero bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, masked, offsets_of, rows_by_code
from dts_assets.wire.columns.casts import parse
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.format import TooLargeError


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


Restored: TypeAlias = tuple[pa.Array, Bools | None]
"""Values as the server has them, and which of them stand for nothing; None where all do."""

Restorer: TypeAlias = Callable[[pa.Array], Restored]

_MOST_BYTES = 1 << 26
"""The most bytes that labels and zero bytes may make in a call.

A number of twenty digits may stand for 16 kilobytes of labels.
"""
_LONGEST_LABEL = 255
"""Characters of the longest label that a server takes (MySQL Reference Manual, "String Type Overview")."""
_LONGEST_BINARY = 255

_LABELLED = re.compile(r"\s*(enum|set)\s*\(", re.I)
_TEXTS = (r"'(?:[^']|'')*+'", r"'(?:[^'\\]|''|\\.)*+'")
"""The two ways in which a label is written.

Canal's parser doubles quotes. TiCDC (``content-compatible``) writes a backslash before quotes, and before backslashes.
"""
_LABELS = tuple(re.compile(rf"{_LABELLED.pattern}\s*({one}(?:\s*,\s*{one})*)\s*\)", re.I | re.S) for one in _TEXTS)
_LABEL = tuple(re.compile(one, re.S) for one in _TEXTS)
_DOUBLED, _ESCAPED = re.compile(r"''"), re.compile(r"''|\\(.)", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}
_BINARY = re.compile(r"\s*binary\s*\(\s*(\d{1,3})\s*\)", re.I | re.ASCII)
_MOST_DIGITS = 20


def restored(
    values: pa.Array,
    starts: npt.NDArray[np.int32],
    list_numbers: npt.NDArray[np.int64],
    lists: Sequence[ColumnList],
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return values with the labels of ENUM and SET and all bytes of BINARY.

    With them come the numbers of values that stand for no label.
    ``starts`` are the numbers of each row's first value, ``list_numbers`` its column list in ``lists``, -1 without values.

    Raises:
        TooLargeError: labels and zero bytes make very many bytes of few.
    """
    places: list[npt.NDArray[np.int64]] = []
    found: list[pa.Array] = []
    unfit = [np.zeros(0, np.int64)]
    size = 0
    for number, rows in rows_by_code(list_numbers):
        for place, restore in _restorers(lists[number]):
            places.append(starts[rows].astype(np.int64) + place)
            made, wrong = restore(values.take(pa.array(places[-1])))
            found.append(made)
            if wrong is not None:
                unfit.append(places[-1][wrong])
            size += made.nbytes
            _check(size)
    if not places:
        return values, unfit[0]
    at = np.concatenate(places)
    mask = np.zeros(len(values), np.bool_)
    mask[at] = True
    ordered = pa.concat_arrays(found).take(pa.array(np.argsort(at)))
    return pc.replace_with_mask(values, pa.array(mask), ordered), np.concatenate(unfit)


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
    and SET; of their values it sends the numbers that the binlog has. A number that stands for no label is unfit, and so is every
    number where labels cannot be read. The binlog has BINARY values without their last zero bytes, and so has Canal.
    """
    labelled = _LABELLED.match(mysql_type)
    if labelled is not None:
        labels, name = labels_of(mysql_type), _enum_label if labelled.group(1).lower() == "enum" else _set_labels
        return lambda values: _renamed(values, labels, name)
    width = _BINARY.match(mysql_type)
    if width is not None and int(width.group(1)) <= _LONGEST_BINARY:
        return lambda values: (_filled(values, int(width.group(1))), None)
    return None


def labels_of(mysql_type: str) -> tuple[str, ...] | None:
    """Return the labels in the definition of an ENUM or SET.

    None stands for labels that cannot be read, or that no server takes.
    """
    for whole, one, quoted in zip(_LABELS, _LABEL, (_DOUBLED, _ESCAPED), strict=True):
        if listed := whole.match(mysql_type):
            # The server drops blanks at the end of labels when it makes the table.
            texts = (quoted.sub(_unquoted, found.group()[1:-1]).rstrip(" ") for found in one.finditer(listed.group(2)))
            labels = tuple(texts)
            return labels if max(map(len, labels)) <= _LONGEST_LABEL else None
    return None


def _unquoted(found: re.Match[str]) -> str:
    text = found.group()
    return "'" if text == "''" else _ESCAPES.get(text[1], text[1])


def _filled(values: pa.Array, width: int) -> pa.Array:
    """Return texts with so many characters at least, zeros behind what was sent.

    Bytes that are no text stay.
    """
    _check(len(values) * width)
    wrong = not_utf8(values)
    texts = masked(values, pa.string(), np.asarray(values.is_valid()) & ~wrong)
    filled = pc.utf8_rpad(texts, width=width, padding="\0").cast(pa.binary())
    return pc.if_else(pa.array(wrong), values, filled) if wrong.any() else filled


def _check(size: int) -> None:
    """Refuse to make too many bytes.

    Raises:
        TooLargeError: they are more than a call may make.
    """
    if size > _MOST_BYTES:
        raise TooLargeError(f"its numbers of labels and its BINARY values make more than {_MOST_BYTES} bytes")


def _renamed(
    values: pa.Array, labels: Sequence[str] | None, name: Callable[[int, Sequence[str]], str | None]
) -> Restored:
    """Return the labels for numbers, and which numbers stand for none; a text that is no number stays."""
    encoded = values.dictionary_encode()
    made: list[bytes] = []
    unfit: list[bool] = []
    size = 0
    known = frozenset(one.encode() for one in labels or ())
    for text in encoded.dictionary.to_pylist():
        number = int(text) if text.isdigit() and len(text) <= _MOST_DIGITS else None
        label = None if labels is None or number is None else name(number, labels)
        made.append(text if label is None else label.encode())
        unfit.append(label is None and text.isdigit() and text not in known)
        size += len(made[-1])
        _check(size)
    counts = np.bincount(encoded.indices.drop_null().to_numpy(), minlength=len(made))
    _check(int(counts @ np.fromiter(map(len, made), np.int64, len(made))))
    wrong = None
    if any(unfit):
        wrong = np.asarray(pc.fill_null(pa.array(unfit).take(encoded.indices), False))
    return pa.array(made, pa.binary()).take(encoded.indices), wrong


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
