"""Changelog rows as statements of SQL that make the same changes, in columns.

An insert lists the columns that its event carried; a value that was not sent is DEFAULT there, and is left out of SET and WHERE.
A row is found by its primary key, without one by all columns that can be compared, and then one row alone is changed.
A change of which no statement can be made is a comment that says why. Statements end without a semicolon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.key_periods import KeyPeriod, ToldColumns
from dts_assets.model.tables import TableId
from dts_assets.stages.change_columns import REPAIR, TRUNCATE, Changes, RowShape, is_operation
from dts_assets.stages.keys import Mask, Numbers, as_mask, as_numbers, hash_keys
from dts_assets.stages.row_places import positions_of
from dts_assets.stages.sql_dialect import Comparison, Dialect, Literals, SqlColumn, Writer, table_name
from dts_assets.stages.sql_text import joined, with_nulls
from dts_assets.wire.columns.buffers import rows_by_code
from dts_assets.wire.columns.casts import arrow_type

READ_COLUMNS = (
    "op", "before", "after", "absent", "invalid", "source_position", "row_number", "kafka_partition", "kafka_offset",
    "window_start",
)  # fmt: skip
"""The columns of a changelog that statements are made from."""

SHOWN_COLUMNS = ("source_position", "row_number", "kafka_partition", "kafka_offset", "window_start")
"""The columns that rows of statements take over from a changelog."""

NO_KEY = "the key of its row was not sent"
NO_COLUMNS = "no column of its row that can be compared was sent"
NO_VALUES = "no new value was sent"


NOTHING_TOLD = ToldColumns()


@dataclass(frozen=True, slots=True)
class StatementTable:
    """A source table as statements name it; ``columns`` are all that it ever had, in the lake's order."""

    table: TableId
    columns: tuple[SqlColumn, ...]
    dialect: Dialect

    @property
    def shape(self) -> RowShape:
        """The shape in which both images are read."""
        columns = tuple(one.column for one in self.columns)
        schema = pa.schema([(one.name, arrow_type(one.type)) for one in columns])
        return RowShape(columns, tuple(schema.names), schema)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of some changes, row by row, and how many are comments instead."""

    texts: pa.Array
    refused: int


def statement_rows(
    changes: pa.RecordBatch, table: StatementTable, told: Mapping[int, ToldColumns]
) -> tuple[pa.RecordBatch, int]:
    """Return a row for each changelog row (:data:`READ_COLUMNS`), in its order, and how many have no statement.

    ``told`` has what the events of each Kafka partition of the rows' window told.
    """
    made = statements(changes, table, told)
    columns = [made.texts, *(changes.column(name) for name in SHOWN_COLUMNS)]
    return pa.RecordBatch.from_arrays(columns, names=["statement", *SHOWN_COLUMNS]), made.refused


def statements(changes: pa.RecordBatch, table: StatementTable, told: Mapping[int, ToldColumns]) -> Statements:
    """Return the statements of changelog rows of one window."""
    parts: list[pa.Array] = []
    rows: list[Numbers] = []
    refused = 0
    for key, carried, some in _alike(changes, table, told):
        for numbers, operation in _by_operation(changes, some):
            batch = changes.take(pa.array(numbers))
            found = _Renderer(table, key, carried, batch).render(operation)
            texts, count = _with_comments(found, table, batch)
            refused += count
            parts.append(texts)
            rows.append(numbers)
    if not parts:
        return Statements(pa.array([], pa.string()), 0)
    places = np.empty(changes.num_rows, np.int64)
    places[np.concatenate(rows)] = np.arange(changes.num_rows)
    return Statements(pa.concat_arrays(parts).take(pa.array(places)), refused)


def moved_keys(
    changes: pa.RecordBatch, table: StatementTable, told: Mapping[int, ToldColumns]
) -> tuple[Numbers, Numbers]:
    """Return the hashes of the keys between which updates move rows.

    Both are 0 where a row keeps its key, or where none is told.
    """
    old, new = (np.zeros(changes.num_rows, np.int64) for _ in range(2))
    updates = is_operation(changes, "update")
    for key, _, some in _alike(changes, table, told):
        rows = some[updates[some]]
        if not key or not len(rows):
            continue
        batch = Changes(changes.take(pa.array(rows)), table.shape)
        known = np.logical_and.reduce([_sent(batch, image, place) for image in ("before", "after") for place in key])
        one, other = (hash_keys(_key_values(batch, image, key)).view(np.int64) for image in ("before", "after"))
        moves = known & (one != other)
        old[rows[moves]], new[rows[moves]] = one[moves], other[moves]
    return old, new


def moved_rows(
    changes: pa.RecordBatch, table: StatementTable, told: Mapping[int, ToldColumns], moved: tuple[Numbers, Numbers]
) -> pa.Array:
    """Return statements that put rows where updates moved them, one for each change.

    It is for tables with copies: a row may move from a part of the table that is read later to one that was read before, so that
    no copy has it. Changes that move no row have null, and rows that were sent in parts.
    """
    texts = np.full(changes.num_rows, None, object)
    moves = moved[0] != moved[1]
    for key, carried, some in _alike(changes, table, told):
        rows = some[moves[some]]
        if len(rows):
            texts[rows] = _Renderer(table, key, carried, changes.take(pa.array(rows))).put().to_pylist()
    return pa.array(texts, pa.string())


def _sent(changes: Changes, image: str, place: int) -> Mask:
    there = changes.has_before if image == "before" else changes.has_after
    absent = changes.absent(image, place)
    return there if absent is None else there & ~absent


def _key_values(changes: Changes, image: str, key: Iterable[int]) -> list[pa.Array]:
    """Return the columns of keys, each with the source's texts of values that do not fit."""
    found = []
    for place in key:
        texts = changes.texts(image, place)
        found += [changes.values(image, place), pa.nulls(changes.count, pa.string()) if texts is None else texts]
    return found


def _alike(
    changes: pa.RecordBatch, table: StatementTable, told: Mapping[int, ToldColumns]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Numbers]]:
    """Yield the places of the key's columns, of the carried columns, and the rows that have both."""
    partitions = as_numbers(changes.column("kafka_partition"))
    known = tuple(place for place, one in enumerate(table.columns) if one.column.is_key)
    everything = tuple(range(len(table.columns)))
    for partition in np.unique(partitions).tolist():
        mine, found = np.flatnonzero(partitions == partition), told.get(partition, NOTHING_TOLD)
        for key, some in _parted(changes, mine, found.keys):
            key_places = known if key is None else _places(table.columns, key)
            for carried, rest in _parted(changes, some, found.lists):
                yield key_places, everything if carried is None else _places(table.columns, carried), rest


def _parted(
    changes: pa.RecordBatch, rows: Numbers, periods: Sequence[KeyPeriod]
) -> Iterator[tuple[tuple[str, ...] | None, Numbers]]:
    """Yield the columns of each period with its rows; None for rows of no period."""
    distinct = list(dict.fromkeys(period.columns for period in periods))
    if len(distinct) < 2:
        yield next(iter(distinct), None), rows
        return
    # Which period begins last at or before each row: periods are in order and do not overlap.
    firsts = np.array([(one.first.lineage, one.first.file, one.first.position) for one in periods], np.int64)
    places = np.stack(positions_of(changes.take(pa.array(rows))), axis=1)
    order = np.lexsort(
        [np.append(np.zeros(len(firsts)), np.ones(len(rows))), *np.concatenate([firsts, places]).T[::-1]]
    )
    begun = np.empty(len(order), np.int64)
    begun[order] = np.cumsum(order < len(firsts)) - 1
    numbers = {columns: number for number, columns in enumerate(distinct, start=1)}
    codes = np.array([*(numbers[one.columns] for one in periods), 0], np.int64)[begun[len(firsts) :]]
    for code, mine in rows_by_code(codes):
        yield distinct[code - 1] if code else None, rows[mine]


def _places(columns: Sequence[SqlColumn], names: Iterable[str]) -> tuple[int, ...]:
    """Return the places of columns, by any name that stored rows may have for them."""
    places = {name: place for place, one in enumerate(columns) for name in reversed(one.column.lake_names)}
    return tuple(dict.fromkeys(places[name] for name in names if name in places))


def _by_operation(changes: pa.RecordBatch, rows: Numbers) -> Iterator[tuple[Numbers, str]]:
    """Yield the rows of each operation."""
    encoded = pc.dictionary_encode(changes.column("op").take(pa.array(rows)))
    codes = as_numbers(encoded.indices)
    stays = as_mask(changes.column("after").take(pa.array(rows)).is_valid())
    for number, operation in enumerate(encoded.dictionary.to_pylist()):
        mine = codes == number
        if operation != REPAIR:
            yield rows[mine], operation
            continue
        for some, meant in ((mine & stays, REPAIR), (mine & ~stays, "delete")):
            if some.any():
                yield rows[some], meant


def _with_comments(found: Literals, table: StatementTable, changes: pa.RecordBatch) -> tuple[pa.Array, int]:
    """Return statements, with a comment in place of each that was refused, and how many these are."""
    texts, done = found.texts, np.zeros(changes.num_rows, np.bool_)
    for reason, mask in found.refused.items():
        rows = np.flatnonzero(mask & ~done)
        done |= mask
        some = changes.take(pa.array(rows))
        numbers = zip(
            *positions_of(some), as_numbers(some.column("row_number")), some.column("op").to_pylist(), strict=True
        )
        comments = [
            f"-- {on_one_line(str(table.table))}: no statement for the {operation} at {lineage}/{file}/{position}, "
            f"row {row}: {reason}"
            for lineage, file, position, row, operation in numbers
        ]
        where = np.zeros(changes.num_rows, np.bool_)
        where[rows] = True
        texts = pc.replace_with_mask(texts, pa.array(where), pa.array(comments, pa.string()))
    return texts, int(done.sum())


def on_one_line(text: str) -> str:
    """Return a text for a comment, which no line break of its own can end."""
    return "".join(one if one.isprintable() else "?" for one in text)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of a column in an image as SQL, where null is NULL.

    Those that are ``absent`` are not to be used.
    """

    texts: pa.Array
    absent: Mask


class _Renderer:
    """The statements of some changes of one operation, whose events told one key and one list of columns."""

    def __init__(
        self, table: StatementTable, key: tuple[int, ...], carried: tuple[int, ...], batch: pa.RecordBatch
    ) -> None:
        self._columns, self._dialect = table.columns, table.dialect
        self._name = table_name(table.dialect, table.table)
        self._key, self._carried = key, carried
        self._count = batch.num_rows
        self._changes = Changes(batch, table.shape)
        self._are_copied = bool(batch.column("kafka_partition").null_count)  # rows of one partition, or of none
        self._refused: dict[str, Mask] = {}

    def render(self, operation: str) -> Literals:
        """Return the statements of an operation."""
        if operation == TRUNCATE:
            return Literals(self._always(f"TRUNCATE TABLE {self._name}"))
        if operation == "delete":
            texts = joined(f"DELETE FROM {self._name} WHERE ", self._where())
        elif operation == "update":
            texts = joined(f"UPDATE {self._name} SET ", self._new_values(), " WHERE ", self._where())
        else:
            texts = self._insert()
        return Literals(texts, self._refused)

    def put(self) -> pa.Array:
        """Return the statements that put whole rows in, null for parts of rows."""
        cells = [self._given("after", place) for place in self._carried]
        parts = np.logical_or.reduce([*(one.absent for one in cells), *self._refused.values()])
        return with_nulls(self._put([pc.fill_null(one.texts, "NULL") for one in cells]), parts)

    def _insert(self) -> pa.Array:
        """Return the statements that bring rows in; a copied row takes the place of one with its key."""
        names = ", ".join(self._dialect.quoted(self._columns[place].name) for place in self._carried)
        values = []
        for place in self._carried:
            cells = self._given("after", place)
            values.append(pc.if_else(pa.array(cells.absent), "DEFAULT", pc.fill_null(cells.texts, "NULL")))
        if self._key and self._are_copied:
            return self._put(values)
        return joined(f"INSERT INTO {self._name} ({names}) VALUES (", self._listed(values), ")")

    def _put(self, values: Sequence[pa.Array]) -> pa.Array:
        carried, key = ([self._columns[place].name for place in some] for some in (self._carried, self._key))
        begin, end = self._dialect.put(self._name, carried, key)
        return joined(begin, self._listed(values), end)

    def _listed(self, values: Sequence[pa.Array]) -> pa.Array:
        return joined(*values, between=", ") if values else self._always("")

    def _new_values(self) -> pa.Array:
        """Return the list behind SET; rows without any value are refused."""
        parts = []
        for place in self._carried:
            cells = self._given("after", place)
            name = self._dialect.quoted(self._columns[place].name)
            told = joined(f"{name} = ", pc.fill_null(cells.texts, "NULL"))
            parts.append(with_nulls(told, cells.absent))
        return self._all_of(parts, ", ", NO_VALUES)

    def _where(self) -> pa.Array:
        """Return the condition by which the row of each change is found."""
        if self._key:
            return self._of_key()
        parts = []
        for place in self._carried:
            comparison = self._dialect.compared(self._columns[place], whole=True)
            if comparison is not None:
                parts.append(with_nulls(*self._condition(comparison, self._compared("before", place, comparison))))
        return self._dialect.among_equals(self._name, self._all_of(parts, " AND ", NO_COLUMNS))

    def _of_key(self) -> pa.Array:
        """Return the condition of the key: its old values, and where they were not sent the new ones."""
        parts = []
        for place in self._key:
            comparison = self._dialect.compared(self._columns[place], whole=False)
            if comparison is None:
                return self._refuse_all(NO_KEY)
            old, new = (self._compared(image, place, comparison) for image in ("before", "after"))
            texts = pc.if_else(pa.array(old.absent), new.texts, old.texts)
            found, absent = self._condition(comparison, _Cells(texts, old.absent & new.absent))
            self._refuse(NO_KEY, absent)
            parts.append(found)
        return joined(*parts, between=" AND ")

    def _condition(self, comparison: Comparison, cells: _Cells) -> tuple[pa.Array, Mask]:
        equal, null = joined(f"{comparison.left} = ", cells.texts), f"{comparison.left} IS NULL"
        return pc.fill_null(equal, null), cells.absent

    def _given(self, image: str, place: int) -> _Cells:
        """Return the values of a column as it is given them."""
        column = self._columns[place]
        return self._cells(
            image,
            place,
            lambda values: self._dialect.literals(column, values),
            lambda texts: self._dialect.unfit(column, texts),
        )

    def _compared(self, image: str, place: int, comparison: Comparison) -> _Cells:
        """Return the values of a column as it is compared with them."""
        return self._cells(image, place, comparison.literals, comparison.unfit)

    def _cells(self, image: str, place: int, literals: Writer, unfit: Writer | None) -> _Cells:
        changes = self._changes
        there = changes.has_before if image == "before" else changes.has_after
        told_absent = changes.absent(image, place)
        absent = ~there if told_absent is None else ~there | told_absent
        written = literals(changes.values(image, place))
        self._refuse_some(written.refused, ~absent)
        texts, originals = written.texts, changes.texts(image, place)
        if originals is None:
            return _Cells(texts, absent)
        fits_not = as_mask(originals.is_valid())
        if unfit is None:
            return _Cells(texts, absent | fits_not)
        shown = unfit(originals)
        self._refuse_some(shown.refused, ~absent & fits_not)
        return _Cells(pc.if_else(pa.array(fits_not), shown.texts, texts), absent)

    def _all_of(self, parts: Sequence[pa.Array], between: str, reason: str) -> pa.Array:
        """Return the parts of each row joined; a row without parts is refused."""
        if not parts:
            return self._refuse_all(reason)
        nothing = np.logical_and.reduce([as_mask(one.is_null()) for one in parts])
        self._refuse(reason, nothing)
        # Arrow loses rows of which all parts are null, instead of joining nothing.
        parts = [pc.if_else(pa.array(nothing), "NULL", parts[0]), *parts[1:]]
        return pc.binary_join_element_wise(*parts, between, null_handling="skip")

    def _refuse_some(self, refused: Mapping[str, Mask], among: Mask) -> None:
        for reason, rows in refused.items():
            self._refuse(reason, rows & among)

    def _refuse(self, reason: str, rows: Mask) -> None:
        if rows.any():
            self._refused[reason] = self._refused.get(reason, np.zeros(self._count, np.bool_)) | rows

    def _refuse_all(self, reason: str) -> pa.Array:
        self._refuse(reason, np.ones(self._count, np.bool_))
        return self._always("")

    def _always(self, text: str) -> pa.Array:
        return pa.array([text] * self._count, pa.string())
