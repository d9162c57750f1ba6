"""The rows of messages in JSON, ``oldColumns`` and ``newColumns``, as columns of values.

The vendor's page says that values are strings, and not how they stand in an image. Three forms are read: a list of texts in the
order of ``columns``, an object with a text for each column by name, and a list of objects with the text in ``value``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw, Struct
from msgspec import field as named
from msgspec.json import Decoder

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.clock_texts import ClockColumns
from dts_assets.wire.columns.digests import digests
from dts_assets.wire.columns.image_parts import ImagePart
from dts_assets.wire.columns.images import ABSENT, FIELD, NULL
from dts_assets.wire.columns.json_texts import MALFORMED, plain_text
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.dts_json import messages
from dts_assets.wire.dts_json.messages import PARTS, ColumnLists, blocks_of, is_empty
from dts_assets.wire.dts_json.values import KEY, NO_BYTES, as_stored, column_code
from dts_assets.wire.dts_records import FIELDS
from dts_assets.wire.dts_records.blocks import RowBlock, Unread

Ints = npt.NDArray[np.int64]

_NO_IMAGE = -1
_ABSENT_WORDS, _NULL_WORDS = frozenset({"NONE", "NA"}), frozenset({"NULL"})
_NO_KEY = "a column of its key is null, so that nothing tells which columns were not sent"


class _Absent:
    """The value of a column that an image says it leaves out."""


_LEFT_OUT = _Absent()


class _Row(Struct, gc=False):
    """The rows of a message whose values are texts, in the columns' order or by their names."""

    operation: str = named(default="", name="messageType")
    columns: Raw = messages.NULL
    keys: Raw = named(default=messages.NULL, name="pkNames")
    before: list[str | None] | dict[str, str | None] | None = named(default=None, name="oldColumns")
    after: list[str | None] | dict[str, str | None] | None = named(default=None, name="newColumns")


class _Cell(Struct, forbid_unknown_fields=True, gc=False):
    """A value that stands in an object of its own."""

    value: str | None
    charset: str | None = None


class _CellRow(Struct, gc=False):
    """The rows of a message whose values are objects."""

    operation: str = named(default="", name="messageType")
    columns: Raw = messages.NULL
    keys: Raw = named(default=messages.NULL, name="pkNames")
    before: list[_Cell | None] | None = named(default=None, name="oldColumns")
    after: list[_Cell | None] | None = named(default=None, name="newColumns")


class _Said(Struct, gc=False):
    """The fields that say something of a row."""

    messageType: Raw = messages.NULL
    schemaName: Raw = messages.NULL
    tableName: Raw = messages.NULL
    oldColumns: Raw = messages.NULL
    newColumns: Raw = messages.NULL


_ROWS, _CELL_ROWS, _SAID = Decoder(_Row), Decoder(_CellRow), Decoder(_Said)


class _Strange(Exception):
    """An image in a form that nobody knows."""


@dataclass(slots=True)
class _Side:
    """The before or the after images of a block: all values one behind the other."""

    values: list[str | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)
    strange: list[int] = field(default_factory=list)

    def add(self, image: Any, columns: ColumnList | None) -> None:
        """Add the image of a message, None for one that has none. ``columns`` are those of the message."""
        if not image or columns is None:
            self.sizes.append(_NO_IMAGE)
        elif isinstance(image, dict):
            self._add_named(image, columns)
        else:
            self.values += image
            self.sizes.append(len(image))

    def add_strange(self) -> None:
        """Add a message whose image cannot be used."""
        self.strange.append(len(self.sizes))
        self.sizes.append(_NO_IMAGE)

    def add_any(self, image: Any, columns: ColumnList | None) -> None:
        """Add an image in any of the forms, or one that cannot be used."""
        try:
            cells = _cells(image)
        except _Strange:
            self.add_strange()
            return
        start = len(self.values)
        if isinstance(cells, dict):
            left_out = {name for name, value in cells.items() if isinstance(value, _Absent)}
            self.add({name: value for name, value in cells.items() if name not in left_out}, columns)
            if not left_out <= (frozenset() if columns is None else columns.positions.keys()):
                self.cut(start)
            return
        self.add([None if isinstance(one, _Absent) else one for one in cells or ()], columns)
        if self.sizes[-1] != _NO_IMAGE:
            self.absent += [start + place for place, one in enumerate(cells or ()) if isinstance(one, _Absent)]

    def cut(self, start: int) -> None:
        """Make the last image one without values, which fits no columns."""
        del self.values[start:]
        self.absent = [place for place in self.absent if place < start]
        self.sizes[-1] = 0

    def _add_named(self, image: Mapping[str, str | None], columns: ColumnList) -> None:
        names = [one.name for one in columns.columns]
        start = len(self.values)
        self.sizes.append(len(names))
        if not image.keys() <= columns.positions.keys():
            self.cut(start)
            return
        self.absent += [start + place for place, name in enumerate(names) if name not in image]
        self.values += map(image.get, names)

    def part(self, codes: Ints, lists: Sequence[ColumnList | None]) -> tuple[ImagePart, Bools]:
        """Return the images, and which messages have a null in a column of the key."""
        sizes = np.asarray(self.sizes, np.int64)
        held = np.maximum(sizes, 0)
        owners = np.repeat(np.arange(len(sizes)), held)
        of_columns = ClockColumns.of([_codes(one) for one in lists], codes).of_values(owners, held)
        values = pa.array(self.values, pa.binary())
        kinds = np.full(len(values), FIELD, np.uint8)
        if values.null_count:
            kinds[np.asarray(values.is_null())] = NULL
        kinds[np.asarray(self.absent, np.int64)] = ABSENT
        keyless = np.zeros(len(sizes), np.bool_)
        keyless[owners[(kinds == NULL) & (of_columns >= KEY)]] = True
        unusable = np.zeros(len(sizes), np.bool_)
        unusable[np.asarray(self.strange, np.int64)] = True
        stored, malformed = as_stored(values, of_columns)
        kinds[malformed] |= NO_BYTES
        return ImagePart(stored, kinds, None, sizes, unusable, {}), keyless


def rows_of(payloads: pa.Array) -> Iterator[RowBlock]:
    """Yield the rows of messages."""
    for start, some in blocks_of(payloads):
        block = _Block()
        for number, payload in enumerate(some.to_pylist(), start):
            block.add(number, payload)
        yield block.made()


@dataclass(slots=True)
class _Block:
    """The messages of a block, one after the other. ``as_cells`` says that the last values were objects."""

    rows: list[int] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    columns: ColumnLists = field(default_factory=ColumnLists)
    before: _Side = field(default_factory=_Side)
    after: _Side = field(default_factory=_Side)
    as_cells: bool = False

    def add(self, number: int, payload: bytes) -> None:
        """Add a message."""
        found = self._read(payload)
        if found is None:
            self._add_by_parts(number, payload)
            return
        columns = self._note(number, found.operation, found.columns, found.keys)
        before, after = found.before, found.after
        if self.as_cells:
            before, after = _values(before), _values(after)
        self.before.add(before, columns)
        self.after.add(after, columns)

    def made(self) -> RowBlock:
        """Return the block as columns."""
        codes, operations = np.asarray(self.codes, np.int64), pa.array(self.operations, pa.binary())
        before, without_old_key = self.before.part(codes, self.columns.lists)
        after, without_new_key = self.after.part(codes, self.columns.lists)
        faults = ((without_old_key | without_new_key, Reason.RAGGED_ROW, _NO_KEY),)
        rows = np.asarray(self.rows, np.int64)
        return RowBlock(rows, self.unread, operations, codes, self.columns.lists, before, after, faults)

    def _read(self, payload: bytes) -> Any:
        """Return a message in one of the forms without odd values; None for any other message."""
        for as_cells in (self.as_cells, not self.as_cells):
            try:
                found = (_CELL_ROWS if as_cells else _ROWS).decode(payload)
            except MALFORMED:
                continue
            if not found.operation:
                return None
            self.as_cells = as_cells
            return found
        return None

    def _note(self, number: int, operation: str, columns: Raw, keys: Raw) -> ColumnList | None:
        self.rows.append(number)
        self.operations.append(operation)
        code = self.columns.number(columns, keys)
        self.codes.append(code)
        return self.columns.lists[code]

    def _add_by_parts(self, number: int, payload: bytes) -> None:
        try:
            parts = PARTS.decode(payload)
        except MALFORMED:
            self.unread.append(Unread(number, None, Reason.UNDECODABLE_ENTRY, messages.NO_OBJECT))
            return
        names = FIELDS["operation"]
        raw = next((parts[name] for name in names if name in parts), messages.NULL)
        columns = self._note(
            number,
            plain_text(raw) or "",
            parts.get("columns", messages.NULL),
            parts.get("pkNames", messages.NULL),
        )
        self.before.add_any(parts.get("oldColumns", messages.NULL), columns)
        self.after.add_any(parts.get("newColumns", messages.NULL), columns)


def _values(cells: Sequence[_Cell | None] | None) -> list[str | None] | None:
    return None if cells is None else [None if one is None else one.value for one in cells]


def _codes(columns: ColumnList | None) -> list[int]:
    return [] if columns is None else [column_code(one.original_type, one.is_key) for one in columns.columns]


def contents_of(payloads: pa.Array) -> npt.NDArray[np.int64]:
    """Return a digest per message of what it says of its row.

    A message that is no record is its own content.
    """
    return digests(map(_content, payloads.to_pylist()))


def _content(payload: bytes) -> bytes:
    try:
        said = _SAID.decode(payload)
    except MALFORMED:
        return payload
    images = (b"null" if is_empty(raw) else bytes(raw) for raw in (said.oldColumns, said.newColumns))
    return b"\0".join((bytes(said.messageType), bytes(said.schemaName), bytes(said.tableName), *images))


def _cells(raw: Raw) -> Any:
    """Return an image as a list or an object of texts.

    None stands for NULL, and for an image that is not there; ``_LEFT_OUT`` for a column that was not sent.

    Raises:
        _Strange: It has another form, or a value of a kind that nobody knows.
    """
    if is_empty(raw):
        return None
    try:
        image = json.loads(bytes(raw), parse_int=str, parse_float=str, parse_constant=_no_number)
        if isinstance(image, dict):
            made: Any = {name: _cell(value) for name, value in image.items()}
        elif isinstance(image, list) and image and all(isinstance(one, dict) and "name" in one for one in image):
            made = {_text(one["name"]): _cell(one) for one in image}
        elif isinstance(image, list):
            made = [_cell(value) for value in image]
        else:
            raise _Strange
        for text in made.values() if isinstance(made, dict) else made:
            if isinstance(text, str):
                text.encode()  # half of a pair is no character
    except MALFORMED:
        raise _Strange from None
    return made


def _cell(value: Any) -> str | _Absent | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise _Strange
    if not value:
        return None
    if value.keys() == {"EmptyObject"}:
        word = _text(value["EmptyObject"]).upper()
        if word in _ABSENT_WORDS:
            return _LEFT_OUT
        if word in _NULL_WORDS:
            return None
        raise _Strange
    inside = value.get("value", _LEFT_OUT)
    if isinstance(inside, dict | _Absent):
        raise _Strange
    return _cell(inside)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Strange
    return value


def _no_number(_: str) -> str:
    raise ValueError("not a number of JSON")
