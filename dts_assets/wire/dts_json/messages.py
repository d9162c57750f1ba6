"""The fields of a record in JSON ("JSON Demo Description", 571/61656: the fields of ``FlatRecord``).

The page names the fields and not their JSON types. A scalar may be a number, a text or a flag; columns are objects with the four
attributes that the page lists. A message with these fields alone is read in one go, any other message part by part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Raw, Struct, defstruct
from msgspec import field as default
from msgspec.json import Decoder
from msgspec.structs import astuple

from dts_assets.model.columns import ColumnShape
from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.columns.json_texts import MALFORMED, plain_text
from dts_assets.wire.columns.table_rows import ColumnList, list_of
from dts_assets.wire.columns.type_numbers import TYPE_NAMES
from dts_assets.wire.dts_records import FIELDS, LISTS

NO_OBJECT = "it is no JSON object in UTF-8"
NO_MESSAGE_TYPE = "its message type is not known"
OF_MONGODB = "it is of MongoDB, whose messages no document describes"

BLOCK_BYTES = 4 << 20
"""Bytes of messages that are read at once. The objects of their fields stay in memory until the next block."""

Scalar: TypeAlias = str | int | bool | None

NULL = Raw(b"null")
_EMPTY = frozenset({b"null", b"[]", b"{}", b'""'})
_LONGEST_EMPTY = 16
_BLANKS = b" \t\r\n"
_CHANGE_STREAM = frozenset({"operationType", "fullDocument", "documentKey", "ns", "clusterTime", "updateDescription"})
"""Fields of MongoDB's own change events, which the task of a MongoDB reads."""

_TRUE = frozenset({"true", "1"})
_NUMBER_OF_TYPE = re.compile(r"[0-9]{1,3}")

Head: Any = defstruct(
    "Head",
    [(role, Raw, default(default=NULL)) if role in LISTS else (role, Scalar, None) for role in FIELDS],
    rename={role: names[0] for role, names in FIELDS.items()},
    forbid_unknown_fields=True,
    gc=False,
)
"""A message without the content of its rows; its fields are the roles."""


class Refused(Exception):
    """A message that is no record; never leaves this package."""

    def __init__(self, reason: Reason, detail: str, *, whole: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.whole = reason, detail, whole


class _Described(Struct, gc=False):
    """A column as a message describes it."""

    name: str
    originalType: str | None = None
    dataTypeNumber: int | str | None = None
    isKey: Scalar = None


decode_head = Decoder(Head).decode
PARTS = Decoder(dict[str, Raw])
_SCALAR, _NUMBER, _TEXT = Decoder(Scalar), Decoder(float), Decoder(str)
_COLUMNS, _KEYS, _TAGS = Decoder(list[_Described]), Decoder(list[str]), Decoder(dict[str, Any])


def blocks_of(messages: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield messages in blocks of some bytes, each with the number of its first message."""
    offsets, start = offsets_of(messages), 0
    while start < len(messages):
        end = int(offsets.searchsorted(int(offsets[start]) + BLOCK_BYTES, side="right")) - 1
        end = min(max(end, start + 1), len(messages))
        yield start, messages.slice(start, end - start)
        start = end


def head_of(message: bytes, *, readable: bool) -> tuple[tuple[Any, ...], Mapping[str, str]]:
    """Return a message's fields in the order of their roles, and all other fields as text.

    ``readable`` says that all of it is UTF-8.

    Raises:
        Refused: The message is no JSON object, or a field of it makes no sense.
    """
    if not readable:
        raise Refused(Reason.UNDECODABLE_ENTRIES, NO_OBJECT, whole=True)
    try:
        head = decode_head(message)
    except MALFORMED:
        return _by_parts(message)
    if head.operation is None:
        return _by_parts(message)
    return astuple(head), {}


def is_empty(raw: Raw | bytes) -> bool:
    """Tell whether a field is null, or an empty list, object or text."""
    return len(memoryview(raw)) < _LONGEST_EMPTY and bytes(raw).translate(None, _BLANKS) in _EMPTY


def plain(value: Scalar) -> str | None:
    """Return a scalar as text: ``true`` for a flag."""
    if value is None or isinstance(value, str):
        return value
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


@lru_cache(maxsize=1 << 14)
def column_list(columns: bytes, keys: bytes) -> ColumnList | None:
    """Return the columns that ``columns`` describes, with the key that ``keys`` names.

    None stands for columns that cannot be read, and for a key that is none of them, in any case of letters. A column without
    ``originalType`` has the type of its ``dataTypeNumber``.
    """
    try:
        described = _COLUMNS.decode(columns)
        named = frozenset() if is_empty(keys) else frozenset(one.lower() for one in _KEYS.decode(keys))
    except MALFORMED:
        return None
    if not named <= {one.name.lower() for one in described}:
        return None
    return list_of(
        tuple(ColumnShape(one.name, _type_of(one), _is_key(one) or one.name.lower() in named) for one in described)
    )


@dataclass(slots=True)
class ColumnLists:
    """The distinct column lists of some messages, each with a number."""

    lists: list[ColumnList | None] = field(default_factory=list)
    _known: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    _last: tuple[Raw, Raw, int] | None = None

    def number(self, columns: Raw, keys: Raw) -> int:
        """Return the number of the list that a message describes."""
        last = self._last
        if last is not None and last[0] == columns and last[1] == keys:  # as most messages are like the one before
            return last[2]
        pair = bytes(columns), bytes(keys)
        found = self._known.get(pair)
        if found is None:
            found = self._known[pair] = len(self.lists)
            self.lists.append(column_list(*pair))
        self._last = columns, keys, found
        return found


@lru_cache(maxsize=1 << 10)
def tags_of(raw: bytes) -> tuple[tuple[bytes, bytes], ...] | None:
    """Return the tags of a message as pairs in UTF-8; None where they are no object."""
    if is_empty(raw):
        return ()
    try:
        pairs = _TAGS.decode(raw)
        return tuple((name.encode(), (_shown(value) or "").encode()) for name, value in pairs.items())
    except MALFORMED:
        return None


def _by_parts(message: bytes) -> tuple[tuple[Any, ...], Mapping[str, str]]:
    try:
        parts = PARTS.decode(message)
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRIES, NO_OBJECT, whole=True) from None
    found, used = [], set()
    for role, names in FIELDS.items():
        name = next((one for one in names if one in parts), names[0])
        used.add(name)
        raw = parts.get(name, NULL)
        found.append(raw if role in LISTS else _scalar(raw, name))
    if found[_OPERATION] is None:
        if _CHANGE_STREAM & parts.keys():
            raise Refused(Reason.UNDECODABLE_ENTRY, OF_MONGODB)
        raise Refused(Reason.UNKNOWN_MESSAGE_TYPE, NO_MESSAGE_TYPE)
    others = {name: plain_text(raw) for name, raw in parts.items() if name not in used}
    return tuple(found), {name: text for name, text in others.items() if text is not None}


_OPERATION = list(FIELDS).index("operation")


def _scalar(raw: Raw, name: str) -> Scalar:
    try:
        value: Scalar = _SCALAR.decode(raw)
        return value
    except MALFORMED:
        pass
    try:
        _NUMBER.decode(raw)  # a fraction: its own text is all of it
        return bytes(raw).decode()
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, f"its {name} is no text or number") from None


def _type_of(column: _Described) -> str:
    if column.originalType:
        return column.originalType
    number = str(column.dataTypeNumber)
    return TYPE_NAMES.get(int(number), "") if _NUMBER_OF_TYPE.fullmatch(number) else ""


def _is_key(column: _Described) -> bool:
    return (plain(column.isKey) or "").lower() in _TRUE


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str | int):
        return plain(value)
    return repr(value)
