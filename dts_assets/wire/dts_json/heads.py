"""Messages in JSON as blocks of records without the values of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.casts import matches
from dts_assets.wire.columns.integers import Integers, whole_numbers
from dts_assets.wire.columns.json_texts import MALFORMED, plain_text
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.dts_json.messages import (
    NO_MESSAGE_TYPE,
    OF_MONGODB,
    ColumnLists,
    Refused,
    blocks_of,
    decode_head,
    head_of,
    is_empty,
    plain,
    tags_of,
)
from dts_assets.wire.dts_records import FIELDS
from dts_assets.wire.dts_records.blocks import Faults, Unread

Ints = npt.NDArray[np.int64]

_NEEDED = frozenset({"id"})
_PAIRS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_OF_ROWS = pa.array([b"INSERT", b"UPDATE", b"DELETE"])
_FIRST_LOAD = pa.array([b"INIT_INSERT", b"INIT_DDL"])
"""Message types of the synchronization to Kafka, which has no JSON of this form."""


def heads_of(sets: pa.Array) -> Iterator[JsonHeads]:
    """Yield messages as records without the values of their rows."""
    for start, messages in blocks_of(sets):
        found = _usual(messages)
        if found is None:
            yield _one_by_one(start, messages)
        else:
            yield JsonHeads(np.arange(start, start + len(messages)), (), found, {})


def _usual(messages: pa.Array) -> Mapping[str, Sequence[Any]] | None:
    """Return the fields of messages that have no others; None if one of them is no such message."""
    if not_utf8(messages).any():  # the parser does not look into the texts that it passes over
        return None
    try:
        heads = [decode_head(message) for message in messages.to_pylist()]
    except MALFORMED:
        return None
    fields = {role: list(map(attrgetter(role), heads)) for role in FIELDS}
    return None if None in fields["operation"] else fields


def _one_by_one(start: int, messages: pa.Array) -> JsonHeads:
    rows: list[int] = []
    heads: list[tuple[Any, ...]] = []
    unread: list[Unread] = []
    others: dict[int, Mapping[str, str]] = {}
    unreadable = not_utf8(messages).tolist()
    for number, message in enumerate(messages.to_pylist(), start):
        try:
            head, more = head_of(message, readable=not unreadable[number - start])
        except Refused as refused:
            unread.append(Unread(number, None if refused.whole else 0, refused.reason, refused.detail))
            continue
        if more:
            others[number] = more
        rows.append(number)
        heads.append(head)
    columns = zip(*heads, strict=True) if heads else (() for _ in FIELDS)
    fields = dict(zip(FIELDS, columns, strict=True))
    return JsonHeads(np.asarray(rows, np.int64), unread, fields, others)


@dataclass(frozen=True, slots=True)
class JsonHeads:
    """The :class:`dts_assets.wire.dts_records.blocks.HeadBlock` of records in JSON.

    ``fields`` has the values of each role. ``more`` has the fields that the vendor's table does not have, of those records that
    have some, by the numbers of these.
    """

    rows: Ints
    unread: Sequence[Unread]
    fields: Mapping[str, Sequence[Any]]
    more: Mapping[int, Mapping[str, str]]
    _texts: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Ints) -> JsonHeads:
        """Return some of the records, in this order."""
        places = rows.tolist()
        fields = {role: [values[place] for place in places] for role, values in self.fields.items()}
        taken = {role: found.take(pa.array(rows)) for role, found in self._texts.items()}
        return JsonHeads(self.rows[rows], self.unread, fields, self.more, taken)

    def texts(self, role: str) -> pa.Array:
        """Return a role's values as bytes, null where there is none; they are gathered once."""
        made = self._texts.get(role)
        if made is None:
            made = self._texts[role] = _texts_of(self.fields[role])
        return made

    def integers(self, role: str) -> Integers:
        """Return a role's values as whole numbers; a needed one that is missing is bad."""
        try:
            found = pa.array(self.fields[role], pa.int64())
            sent = np.asarray(found.is_valid())
            numbers = Integers(pc.fill_null(found, 0).to_numpy(), sent, np.zeros(len(self), np.bool_))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            numbers = whole_numbers(self.texts(role))
        return Integers(numbers.values, numbers.sent, ~numbers.sent) if role in _NEEDED else numbers

    def column_lists(self) -> tuple[Ints, Sequence[ColumnList | None]]:
        """Return the number of each record's column list, and the distinct lists."""
        lists = ColumnLists()
        codes = [lists.number(*pair) for pair in zip(self.fields["columns"], self.fields["key_names"], strict=True)]
        return np.asarray(codes, np.int64), lists.lists

    def has_image(self, role: str) -> Bools:
        """Return which records have a value at least in an image."""
        return np.asarray([not is_empty(raw) for raw in self.fields[role]], np.bool_)

    def faults(self) -> Faults:
        """Yield the faults of other sources, of a full load, and of tables without a database."""
        of_mongodb = matches(self.texts("source_type"), "(?i)mongo")
        yield of_mongodb, Reason.UNDECODABLE_ENTRY, OF_MONGODB
        loaded = np.asarray(pc.is_in(self.texts("operation"), value_set=_FIRST_LOAD))
        yield loaded, Reason.UNKNOWN_MESSAGE_TYPE, NO_MESSAGE_TYPE
        of_rows = np.asarray(pc.is_in(self.texts("operation"), value_set=_OF_ROWS))
        lacking, named = (self._is_empty(role) for role in ("database", "table"))
        yield of_rows & lacking & ~named, Reason.UNDECODABLE_ENTRY, "it names no database"

    def _is_empty(self, role: str) -> Bools:
        return np.asarray(pc.equal(pc.fill_null(pc.binary_length(self.texts(role)), 0), 0))

    def pairs(self) -> pa.ListArray | None:
        """Return the tags of records as lists of key and value.

        The fields that the vendor's table does not have stand behind them.
        """
        found = [tags_of(bytes(raw)) or () for raw in self.fields["tags"]]
        for place, number in enumerate(self.rows.tolist() if self.more else ()):
            more = self.more.get(number, {})
            found[place] = (*found[place], *((name.encode(), text.encode()) for name, text in more.items()))
        return pa.array(found, _PAIRS) if any(found) else None

    def unknown(self) -> Mapping[str, int]:
        """Count the fields that the vendor's table does not have."""
        mine = (self.more.get(number, {}) for number in self.rows.tolist())
        return Counter(f"field {name}" for more in mine for name in more)

    def others(self) -> Iterator[tuple[str, pa.Array]]:
        """Yield tags that are no object, with their texts."""
        strange = [plain_text(raw) if tags_of(bytes(raw)) is None else None for raw in self.fields["tags"]]
        if any(strange):
            yield "tags", pa.array(strange, pa.string())


def _texts_of(values: Sequence[Any]) -> pa.Array:
    """Return scalars as bytes; most fields have texts alone, and others numbers alone."""
    for kind in (pa.binary(), pa.int64()):
        try:
            return pc.cast(pc.cast(pa.array(values, kind), pa.string()), pa.binary())
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
    return pa.array([plain(value) for value in values], pa.binary())
