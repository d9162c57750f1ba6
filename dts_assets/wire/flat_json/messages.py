"""The fields of a flat message (Huawei Cloud, "Kafka Message Format", tables 2, 4 and 5; Canal, ``FlatMessage.java``).

They are mysqlType, id, es, ts, database, table, type, isDdl, sql, sqlType, data, old, pkNames, and gtid of Canal. Messages of
sources beside the MySQL family have columnType in the place of mysqlType, and schema, dbType and opType. No more is read than is
asked for. A message of that form alone is read in one go; a message with other fields or types is read part by part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import GenericAlias
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Raw, Struct, defstruct, field
from msgspec.json import Decoder

from dts_assets.model.columns import ColumnShape
from dts_assets.model.problems import Reason
from dts_assets.wire.columns.json_texts import MALFORMED, fields_with_halves, has_halves, plain_text, without_halves
from dts_assets.wire.columns.table_rows import ColumnList

DDL_TYPES = frozenset({"DDL", "INIT_DDL"})
LOAD = "INIT"
"""The type of messages with rows of the full load."""

OPERATIONS: Mapping[str, int] = {"INSERT": 0, "UPDATE": 1, "DELETE": 2, LOAD: 3}
"""Types of messages with rows."""
_UPDATE, _DELETE = OPERATIONS["UPDATE"], OPERATIONS["DELETE"]

_MOST_COLUMNS = 4096
_LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999
_NULL = Raw(b"null")

Id: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=_LAST_MILLISECOND)]
Cells: TypeAlias = dict[str, str | None]
CellsSent: TypeAlias = Mapping[str, str | bytes | None]
"""A row. A text with half a surrogate pair is none in UTF-8 and stands here as its bytes."""


class Refused(Exception):
    """A message or an entry that cannot be used; never leaves this package."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Row(Struct, gc=False):
    """An object whose content is passed over."""


class Head(Struct, forbid_unknown_fields=True, gc=False):
    """A message without the content of its rows.

    ``schema`` and ``dbType`` are fields of sources beside the MySQL family, whose dialects have heads with them.
    """

    schema: ClassVar[str | None] = None
    dbType: ClassVar[str | None] = None

    id: Id
    es: Milliseconds
    type: str
    ts: int | None = None
    database: str | None = None
    table: str | None = None
    isDdl: bool | None = None
    sql: str | None = None
    types: Raw = field(default=_NULL, name="mysqlType")
    sqlType: Raw = _NULL
    data: list[Row] | None = None
    old: list[Row] | None = None
    pkNames: Raw = _NULL


class Event(Struct, gc=False):
    """The rows of a message with their types and key.

    A row is a dictionary, or has a field for each column.
    """

    type: str
    types: Raw = field(default=_NULL, name="mysqlType")
    data: list[Any] | None = None
    old: list[Any] | None = None
    pkNames: Raw = _NULL


class NamedEvent(Event, gc=False):
    """A message whose rows are objects by names."""

    data: list[Cells] | None = None
    old: list[Cells] | None = None


class KeyNames(Struct):
    """The names of the columns of a table's key; a collection has a name instead."""

    pkNames: list[str] | None = None
    coll: str | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """The columns of a message: their names in the order sent, and their list for the pivot."""

    names: tuple[str, ...]
    list: ColumnList


_PARTS = Decoder(dict[str, Raw])
_KEY_NAMES = Decoder(KeyNames)
_ROWS, _TEXT, _FLAG = Decoder(list[Row] | None), Decoder(str | None), Decoder(bool | None)
_NUMBER = Decoder(int | float)
_TYPES, _KEYS = Decoder(dict[str, str]), Decoder(list[str] | None)
_OF_EACH = frozenset({"id", "es", "ts", "gtid", "tidb", "sqlType", "data", "old"})
"""Fields that say nothing about the kind of a message, and rows, of which only the number does."""

_HALF = re.compile("[\ud800-\udfff]")
_BESIDE_CONTENT = frozenset({"id", "es", "ts"})


@dataclass(frozen=True, slots=True)
class HeadForm:
    """The class of heads that a dialect's messages have.

    Beside it stand the decoders of the head and of its ``id``, and a description of ids. ``raw_fields`` are those of its own
    fields that may hold anything; the others are texts. ``texts`` and ``raws`` are all fields in which heads of one kind are
    alike, beside the numbers of their rows: texts and flags, and bytes. ``read_later`` are fields of its own that stand as bytes
    in a head which is read part by part.
    """

    head: type[Head]
    whole: Decoder[Any]
    ids: Decoder[Any]
    wanted_id: str
    raw_fields: frozenset[str]
    texts: tuple[str, ...]
    raws: tuple[str, ...]
    read_later: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        head: type[Head],
        ids: Any,
        *,
        wanted_id: str,
        raw_fields: frozenset[str] = frozenset(),
        read_later: frozenset[str] = frozenset(),
    ) -> HeadForm:
        """Return the form of a class of heads; ``ids`` is the type of their ``id``, ``wanted_id`` its description."""
        raws = ("types", "pkNames", *sorted(raw_fields))
        texts = tuple(name for name in head.__struct_fields__ if name not in _OF_EACH and name not in raws)
        return cls(head, Decoder(head), Decoder(ids), wanted_id, raw_fields, texts, raws, read_later)


@dataclass(frozen=True, slots=True)
class EventForm:
    """The class of messages with rows that a dialect has, in two decoders' words.

    ``types_field`` is the field with the columns' types. ``event`` is the class from which classes with whole rows are made, and
    ``named`` the decoder of rows that are objects by names. ``beside`` are further fields.
    """

    types_field: str
    event: type[Event]
    named: Decoder[Any]
    beside: tuple[str, ...] = ()

    @classmethod
    def of(cls, types_field: str, *beside: str) -> EventForm:
        """Return the form of messages whose types stand in a field; of fields ``beside`` it has the bytes."""
        fields: list[Any] = [("types", Raw, field(default=_NULL, name=types_field))]
        fields += [(name, Raw, _NULL) for name in beside]
        event: Any = defstruct("FlatEvent", fields, bases=(Event,), gc=False)
        named = defstruct("NamedFlatEvent", fields, bases=(NamedEvent,), gc=False)
        return cls(types_field, event, Decoder(named), beside)


def head_of(message: bytes, form: HeadForm) -> tuple[Head, Mapping[str, str]]:
    """Return a message's head, and as text the fields that it does not have.

    Raises:
        Refused: the message is no JSON object, or a field of it makes no sense.
    """
    try:
        return form.whole.decode(message), {}
    except MALFORMED:
        return _head_by_parts(message, form)


def content_of(message: bytes) -> bytes:
    """Return what a message says, which is equal in all its copies.

    Its id, its time, and when it was sent are left aside. A field that is null is a field that was not sent. A message that
    cannot be read is its own content.
    """
    try:
        parts = _parts(message, Reason.UNDECODABLE_ENTRY)
    except Refused:
        return message
    fields = ((name, bytes(raw)) for name, raw in parts.items() if name not in _BESIDE_CONTENT)
    return b"\0".join(part for name, raw in sorted(fields) if raw != b"null" for part in (name.encode(), raw))


def names_key(message: bytes) -> bool:
    """Tell whether a message names a column of its table's key, or a collection.

    False stands for a message that cannot be read.
    """
    try:
        found = _KEY_NAMES.decode(without_halves(message))
        return bool(found.pkNames or found.coll)
    except MALFORMED:
        return False


def event_of(payload: bytes | memoryview, form: EventForm) -> Event:
    """Return a message's rows.

    Raises:
        Refused: the message is no JSON object, or a row of it makes no sense.
    """
    try:
        named: Event = form.named.decode(payload)
        return named
    except MALFORMED:
        pass
    parts = _parts(payload, Reason.UNDECODABLE_ENTRY, halves=True)
    kind = _part(parts, "type", _TEXT, "its type is no text") or ""
    data, old = (_cells(parts.get(name, _NULL)) for name in ("data", "old"))
    beside = {name: parts.get(name, _NULL) for name in form.beside}
    return form.event(kind, parts.get(form.types_field, _NULL), data, old, parts.get("pkNames", _NULL), **beside)


def images_of(
    operation: int, data: Sequence[Any] | None, old: Sequence[Any] | None, *, deleted_in_old: bool
) -> tuple[Sequence[Any] | None, Sequence[Any] | None]:
    """Return the before and after images of an operation's rows, None for an image that it has not.

    A deleted row stands in ``old`` if ``deleted_in_old`` says so, else in ``data``. If nothing stands there, the other field is
    looked at: there the sister format has it.

    Raises:
        Refused: an image is missing, or the images differ in their number of rows.
    """
    if operation == _DELETE:
        usual, other = (old, data) if deleted_in_old else (data, old)
        before, after = usual or other, None
        if before is None:
            before = usual if usual is not None else other
    else:
        before, after = (old or None) if operation == _UPDATE else None, data
        if before is not None and after is not None and len(before) != len(after):
            raise Refused(Reason.RAGGED_ROW, "data and old differ in their number of rows")
    if (before if operation == _DELETE else after) is None:
        raise Refused(Reason.RAGGED_ROW, "it lacks the rows that its type is about")
    return before, after


@lru_cache(maxsize=1 << 8)
def whole_rows(names: tuple[str, ...], form: EventForm, *, changed_only: bool) -> Decoder[Event] | None:
    """Return a decoder of messages whose rows have all columns, which it gives in the order of ``names``.

    It refuses every other message. To fill fields takes less time than to make a dictionary. There is none for names that
    msgspec cannot have, or for more of them than a table of MySQL has. ``changed_only`` says that rows of ``old`` have changed
    columns only; these are dictionaries.
    """
    if len(names) > _MOST_COLUMNS:
        return None
    fields = [f"c{number}" for number in range(len(names))]
    try:
        row = defstruct(
            "WholeRow", [(one, str | None) for one in fields], rename=dict(zip(fields, names, strict=True)),
            forbid_unknown_fields=True, gc=False,
        )  # fmt: skip
    except ValueError:
        return None
    rows = GenericAlias(list, (row,)) | None
    old = list[Cells] | None if changed_only else rows
    event = defstruct("WholeRows", [("data", rows, None), ("old", old, None)], bases=(form.event,), gc=False)
    return Decoder(event)


@lru_cache(maxsize=1 << 14)
def described(
    types_sent: bytes, pk_names: bytes, beside: tuple[str, ...] = (), in_order: bytes = b"null"
) -> Described | None:
    """Return the columns of a message from its types and its ``pkNames``; None if they cannot be read.

    ``beside`` are names of columns that the table has and the message does not; their types are empty. ``in_order`` is an object
    that has all columns in their order, where a program sends types in any.
    """
    try:
        types, keys = _TYPES.decode(types_sent), _KEYS.decode(pk_names) or []
    except MALFORMED:
        return None
    if beside:
        missing = [name for name in beside if name not in types]
        if not missing:
            return described(types_sent, pk_names, ())  # one object for equal columns, which readers of rows look for
        types |= dict.fromkeys(sorted(missing), "")  # whatever the order in which the lake came to know them
    of_key = frozenset(keys)
    if not types or not types.keys() >= of_key:
        return None
    return _listed(tuple(ColumnShape(name, types[name], name in of_key) for name in _ordered(types, in_order)))


@lru_cache(maxsize=1 << 14)
def _listed(columns: tuple[ColumnShape, ...]) -> Described:
    """Return columns with their list, which is one object for equal columns."""
    names = tuple(one.name for one in columns)
    return Described(names, ColumnList(columns, {name: place for place, name in enumerate(names)}))


def _ordered(types: Mapping[str, str], in_order: bytes) -> Iterable[str]:
    """Return the names of columns in the order of an object with the same names."""
    try:
        names = _PARTS.decode(in_order)
    except MALFORMED:
        return types
    return names if names.keys() == types.keys() else types


def _head_by_parts(message: bytes, form: HeadForm) -> tuple[Head, Mapping[str, str]]:
    parts = _parts(message, Reason.UNDECODABLE_ENTRIES)
    es = _part(parts, "es", _NUMBER, "its es is no number")
    if not 0 <= es <= _LAST_MILLISECOND:
        raise Refused(Reason.UNDECODABLE_ENTRY, "its es is no time in milliseconds")
    known = frozenset(form.head.__struct_encode_fields__)
    pairs = zip(form.head.__struct_fields__, form.head.__struct_encode_fields__, strict=True)
    more: dict[str, Any] = {
        own: parts.get(name, _NULL)
        if name in form.raw_fields | form.read_later
        else _part(parts, name, _TEXT, f"its {name} is no text")
        for own, name in pairs
        if name not in Head.__struct_encode_fields__
    }
    head = form.head(
        id=_part(parts, "id", form.ids, f"its id is no {form.wanted_id}"),
        es=int(es),
        type=_part(parts, "type", _TEXT, "its type is no text") or "",
        database=_part(parts, "database", _TEXT, "its database is no text"),
        table=_part(parts, "table", _TEXT, "its table is no text"),
        isDdl=_part(parts, "isDdl", _FLAG, "its isDdl is neither true nor false"),
        sql=_part(parts, "sql", _TEXT, "its sql is no text"),
        types=parts.get("mysqlType", _NULL),
        data=_part(parts, "data", _ROWS, "its data is no list of rows"),
        old=_part(parts, "old", _ROWS, "its old is no list of rows"),
        pkNames=parts.get("pkNames", _NULL),
        **more,
    )
    others = {name: plain_text(raw) for name, raw in parts.items() if name == "ts" or name not in known}
    return head, {name: text for name, text in others.items() if text is not None}


def _parts(message: bytes | memoryview, reason: Reason, *, halves: bool = False) -> dict[str, Raw]:
    """Return the fields of a message.

    Half a surrogate pair may stand alone in values of rows: there it is U+FFFD, or with ``halves`` as it was sent.

    Raises:
        Refused: the message is no JSON object, or such a half stands elsewhere.
    """
    try:
        return _PARTS.decode(message)
    except MALFORMED:
        sent = bytes(message)
    try:
        if has_halves(sent):
            rows = fields_with_halves(sent, "data", "old")
            return _PARTS.decode(without_halves(sent)) | (rows if halves else {})
    except MALFORMED:
        pass
    raise Refused(reason, "it is no JSON object in UTF-8")


def _part(parts: Mapping[str, Raw], name: str, decoder: Decoder[Any], detail: str) -> Any:
    try:
        return decoder.decode(parts.get(name, _NULL))
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, detail) from None


def _cells(raw: Raw) -> list[CellsSent] | None:
    """Return rows whose values are not all texts: a number or a flag becomes its own text.

    Raises:
        Refused: the rows are no list of objects, or a value is an object or a list.
    """
    try:
        rows = json.loads(bytes(raw), parse_int=str, parse_float=str)
        if rows is None:
            return None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise Refused(Reason.UNDECODABLE_ENTRY, "its rows are no list of objects")
        found: list[CellsSent] = [{name: _cell(value) for name, value in row.items()} for row in rows]
        for row in found:
            "".join(row).encode()
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, "its rows cannot be read") from None
    return found


def _cell(value: object) -> str | bytes | None:
    if isinstance(value, str):
        return value if value.isascii() or not _HALF.search(value) else value.encode(errors="surrogatepass")
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    raise Refused(Reason.UNDECODABLE_ENTRY, "a value is an object or a list")
