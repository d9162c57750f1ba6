"""Operations on keys folded to the rows that live behind them.

Order is by source position, then by row number within one event. One event's rows may be cut over Kafka partitions by key, each
piece counting from zero; rows of different pieces touch one key only where an update moves rows, and there a key is always left
before it is taken again, so taking wins.

Where every change sends every column, the last operation on a key has its row. Where changes lack columns, the operations on
one key are the lives of one row after the other. A row's life at a key *begins* with an insert, with the arrival of a row that
moved, or with the first operation behind its predecessor's end, and it ends where the row leaves the key. A move that sends every
column needs nothing from before. A move that lacks columns goes on with the row that left: the lives of that row at two keys are
one, however often the row moved. Each column then has the value of the last operation in the row's lives that sent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.stages.bags import left_rows, without_ambiguous
from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.key_operations import Operations
from dts_assets.stages.keys import Keys, Mask, Numbers, as_mask
from dts_assets.stages.matched_rows import with_matched
from dts_assets.stages.row_places import POSITION
from dts_assets.stages.snapshot_in_arrow import invalid_texts
from dts_assets.stages.sql_text import with_nulls
from dts_assets.stages.unknown_values import UNKNOWN, UNKNOWN_FIELD, unknown_names

NOWHERE = -1
"""The number of a row where no operation has sent a value."""


@dataclass(frozen=True, slots=True)
class MadeRows:
    """The rows that operations make, and the removals of a bag that removed nothing.

    ``ambiguous`` has the changes among these that may mean several different rows, as
    :data:`~dts_assets.stages.matched_rows.AMBIGUOUS` says; it is None without any. Where some value of a snapshot is told by no
    rule of servers, rows are marked (:mod:`dts_assets.stages.unknown_values`).
    """

    rows: pa.RecordBatch
    not_removed: NotRemoved = ALL_REMOVED
    ambiguous: pa.RecordBatch | None = None


def living_rows(operations: Operations, shape: RowShape, *, fold_absent: bool = False) -> MadeRows:
    """Return the rows that live behind all operations, in the snapshot's schema.

    There is one for each key that is taken last. ``fold_absent`` says that some change may lack columns.
    """
    operations, ambiguous = without_ambiguous(operations)
    matched = with_matched(operations, shape)
    operations = matched.operations
    codes = Keys(operations.keys).codes
    if shape.is_bag:
        left = left_rows(operations, codes)
        found, unmatched = Found(left.left, operations.row_numbers(left.left), {}), left.unmatched
    else:
        found, unmatched = _folded(operations, codes, shape) if fold_absent else _last(operations, codes), 0
    columns = values_of(operations, found, shape)
    columns |= {name: operations.rows.column(name).take(pa.array(found.rows)) for name in shape.shown}
    counts = NotRemoved(unmatched, ambiguous, found.unseen) + matched.not_removed
    return MadeRows(in_schema(columns, shape), counts, matched.ambiguous)


def values_of(
    operations: Operations, found: Found, shape: RowShape, *, deleted: Mask | None = None
) -> dict[str, pa.Array]:
    """Return the source columns of the rows that were found, and ``_invalid``, by their names in the lake.

    In those that were ``deleted`` no statement behind that has filled a NULL.
    """
    at = pa.array(found.operations)
    # Key columns come from the key, since the row's image may lack them.
    keys = {place: operations.touches.column(f"k{n}").take(at) for n, place in enumerate(shape.keys)}
    others = {place: operations.rows.column(f"v{place}").take(found.rows_of(place)) for place in shape.values}
    columns = {shape.names[place]: values for place, values in {**keys, **others}.items()}
    marks = _marks(operations, found, shape)
    gone = np.zeros(len(found.operations), np.bool_) if deleted is None else deleted
    # The image of the change that deletes is marked, too, unless its row was filled while it lived.
    behind = _marks(operations, replace(found, sent={}), shape) if gone.any() else {}
    for name, later in behind.items():
        mask = marks[name]
        filled = mask & later & gone & as_mask(columns[name].is_valid())
        columns[name], marks[name] = with_nulls(columns[name], filled), mask & ~filled
    unknown = {UNKNOWN: unknown_names(marks, len(found.operations))} if marks else {}
    return {**columns, "_invalid": _invalid(operations, found, shape), **unknown}


def in_schema(columns: Mapping[str, pa.Array], shape: RowShape) -> pa.RecordBatch:
    """Return columns in the order of the lake's table."""
    # A column that came later stands behind the others.
    schema = pa.schema([field for field in (*shape.schema, UNKNOWN_FIELD) if field.name in columns])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def last_operations(operations: Operations) -> Operations:
    """Return the last operation on every key alone: right where every change sends every column."""
    order = _by_key(operations, Keys(operations.keys).codes)
    return operations.chosen(np.sort(order))


@dataclass(frozen=True, slots=True)
class Found:
    """Operations that make rows, and the numbers of the rows with their values.

    ``sent`` has other rows for the columns that some change did not send, by their places. ``unseen`` counts the rows
    among them that began with an update of a row that nobody has seen, and still lack columns.
    """

    operations: Numbers
    rows: Numbers
    sent: Mapping[int, Numbers]
    unseen: int = 0

    def rows_of(self, place: int) -> pa.Array:
        """Return for each operation the row that has the value of a column; null where none has."""
        at = self.sent.get(place, self.rows)
        return pa.array(at, mask=at == NOWHERE)


def _last(operations: Operations, codes: Numbers) -> Found:
    order = _by_key(operations, codes)
    living = order[operations.takes[order]]
    return Found(living, operations.row_numbers(living), {})


def _by_key(operations: Operations, codes: Numbers) -> Numbers:
    """Return the number of the last operation on every key."""
    lineage, file, offset, piece, number = (operations.numbers(name) for name in (*POSITION, "piece", "row_number"))
    takes = operations.takes
    order = np.lexsort((takes, number, piece, offset, file, lineage, codes))
    order = order[ends_of(order, codes, lineage, file, offset, piece)]
    order = order[np.lexsort((takes[order], offset[order], file[order], lineage[order], codes[order]))]
    return order[ends_of(order, codes)]


def _folded(operations: Operations, codes: Numbers, shape: RowShape) -> Found:
    """Return for every key that lives the row that has each column's value."""
    order = by_key_in_order(operations, codes)
    lasts = ends_of(order, codes)
    return last_sent(operations, order, codes, lasts & operations.takes[order], shape)


def by_key_in_order(operations: Operations, codes: Numbers) -> Numbers:
    """Return the operations by key, and on each key in their order."""
    lineage, file, offset, piece, number = (operations.numbers(name) for name in (*POSITION, "piece", "row_number"))
    takes = took(operations)
    order = np.lexsort((takes, number, piece, offset, file, lineage, codes))
    ends = ends_of(order, codes, lineage, file, offset, piece)
    of_piece = np.zeros(len(order), np.bool_)  # whether the piece of the event ends by taking the key
    of_piece[order] = takes[order[ends]][np.cumsum(np.append(np.zeros(min(1, len(order)), np.int64), ends[:-1]))]
    return np.lexsort((takes, number, piece, of_piece, offset, file, lineage, codes))


def took(operations: Operations) -> Mask:
    """Return the operations that take their key at the source.

    The row may have left a row filter by the same change.
    """
    return operations.marked("took") if "took" in operations.touches.schema.names else operations.takes


def _moves(operations: Operations) -> Numbers:
    """Return a number for the move of each operation, equal for both sides of a move.

    It is -1 where no row moves, or where all columns were sent.
    """
    found = np.full(operations.count, NOWHERE, np.int64)
    other = operations.touches.column("other")
    some = np.flatnonzero(as_mask(other.is_valid()))
    if not len(some):
        return found
    mine, others = operations.hashes()[some], operations.hashes("other")[some]
    takes = took(operations)[some]
    place = [operations.numbers(name)[some] for name in (*POSITION, "piece", "row_number")]
    sides = [np.where(takes, others, mine).view(np.int64), np.where(takes, mine, others).view(np.int64)]
    # A source may give two changes one place, so both keys tell moves apart, too.
    _, codes = np.unique(np.stack([*place, *sides]), axis=1, return_inverse=True)
    found[some] = codes.reshape(-1)
    return found


def _roots(operations: Operations, order: Numbers, codes: Numbers) -> Numbers:
    """Return for each place in an order the first life of its row.

    It is -1 where no row is at the key.
    """
    taken, firsts = operations.takes[order], starts_of(order, codes)
    lived = np.append(np.zeros(min(1, len(order)), np.bool_), taken[:-1]) & ~firsts
    moves = _moves(operations)[order]
    begins = taken & (as_mask(operations.touches.column("begins"))[order] | (moves >= 0) | ~lived)
    # A life is called by the place of the operation that it begins with.
    places = np.arange(len(order))
    life = np.maximum.accumulate(np.where(begins, places, NOWHERE)) if len(order) else places
    life = np.where(taken | lived, life, NOWHERE)
    root = _first_lives(life, moves, taken, begins)
    return np.where(life >= 0, root[life], NOWHERE)


def _first_lives(life: Numbers, moves: Numbers, taken: Mask, begins: Mask) -> Numbers:
    """Return for every life the first life of its row.

    It is the life itself where the row did not come by a move that lacks columns.
    """
    first = np.arange(len(life))
    left = ~taken & (moves >= 0) & (life >= 0)
    origin = np.full(int(moves.max(initial=-1)) + 1, NOWHERE, np.int64)
    origin[moves[left]] = life[left]
    came = np.flatnonzero(begins & (moves >= 0))
    came = came[origin[moves[came]] >= 0]
    first[came] = origin[moves[came]]
    for _ in range(len(life).bit_length()):  # each step doubles the moves that are gone back
        further = first[first]
        if np.array_equal(further, first):
            break
        first = further
    return first


@dataclass(frozen=True, slots=True)
class Lives:
    """The operations that take keys, row by row and in order, whatever keys a row has had.

    ``places`` are theirs in the order of all operations, ``begins`` has for each the number of the first one of its row, and
    ``rows`` are the numbers of the rows that they leave.
    """

    places: Numbers
    begins: Numbers
    rows: Numbers

    def sent(self, operations: Operations, place: int) -> Numbers | None:
        """Return for each operation the row with the last sent value of a column.

        None stands for a column that all of them sent.
        """
        name = f"a{place}"
        if name not in operations.rows.schema.names:
            return None
        absent = operations.rows.column(name).fill_null(False).take(pa.array(self.rows))
        last = np.maximum.accumulate(np.where(as_mask(absent), NOWHERE, np.arange(len(self.rows))))
        found: Numbers = np.where(last >= self.begins, self.rows[last], NOWHERE)
        return found


def lives_of(operations: Operations, order: Numbers, codes: Numbers) -> Lives:
    """Return the lives of rows.

    ``order`` has all operations by key and in order, ``codes`` the number of each one's key.
    """
    root = _roots(operations, order, codes)
    counts = np.flatnonzero((root >= 0) & operations.takes[order])
    where = [operations.numbers(name)[order][counts] for name in (*POSITION, "row_number")]
    counts = counts[np.lexsort((counts, *reversed(where), root[counts]))]
    numbers = np.arange(len(counts))
    begins = np.maximum.accumulate(np.where(starts_of(numbers, root[counts]), numbers, 0))
    return Lives(counts, begins, operations.row_numbers(order[counts]))


def last_sent(operations: Operations, order: Numbers, codes: Numbers, chosen: Mask, shape: RowShape) -> Found:
    """Return for chosen operations the rows that had each column's last sent value then.

    Each of them takes its key. ``order`` has all operations by key and in order, ``codes`` the number of each one's key, and
    ``chosen`` the places in the order.
    """
    lives = lives_of(operations, order, codes)
    at = np.zeros(len(order), np.int64)
    at[lives.places] = np.arange(len(lives.places))
    mine = at[chosen]
    by_place = {place: lives.sent(operations, place) for place in shape.values}
    sent = {place: rows[mine] for place, rows in by_place.items() if rows is not None}
    return Found(order[chosen], lives.rows[mine], sent, _unseen(operations, order, lives, mine, sent))


def _unseen(operations: Operations, order: Numbers, lives: Lives, mine: Numbers, sent: Mapping[int, Numbers]) -> int:
    """Count the rows among ``mine`` that an update began and that still lack columns."""
    begins, lacks = lives.begins[mine], np.zeros(len(mine), np.bool_)
    for rows in sent.values():
        lacks |= rows == NOWHERE
    lacks &= ~operations.marked("begins")[order[lives.places[begins]]]
    return len(np.unique(begins[lacks]))


def _invalid(operations: Operations, found: Found, shape: RowShape) -> pa.MapArray:
    """Return the texts of values that do not fit by column name; null where a row has none."""
    columns: list[tuple[str, pa.Array]] = []
    for number, place in enumerate(shape.keys):
        if shape.unfit:
            texts = operations.touches.column(f"u{number}").take(pa.array(found.operations))
            columns.append((shape.names[place], texts))
    for place in shape.values:
        if f"t{place}" in operations.rows.schema.names:
            columns.append((shape.names[place], operations.rows.column(f"t{place}").take(found.rows_of(place))))
    return invalid_texts(columns, len(found.operations), shape.schema.field("_invalid").type)


def _marks(operations: Operations, found: Found, shape: RowShape) -> dict[str, Mask]:
    """Return the marks of values that no rule of servers tells, or that were NULL until a statement.

    There are none where no such value is, and of histories.
    """
    touches, rows, marks = operations.touches, operations.rows, dict[str, pa.Array]()
    for number, place in enumerate(shape.keys if not shape.versions else ()):
        if f"n{number}" in touches.schema.names:
            marks[shape.names[place]] = touches.column(f"n{number}").take(pa.array(found.operations))
    for place in shape.values if not shape.versions else ():
        if f"n{place}" in rows.schema.names:
            marks[shape.names[place]] = rows.column(f"n{place}").take(found.rows_of(place))
    return {name: as_mask(mask.fill_null(False)) for name, mask in marks.items()}


def starts_of(order: Numbers, *columns: npt.NDArray[Any]) -> Mask:
    """Return the places, in some order, of the first row of each run of equal values."""
    ends = ends_of(order, *columns)
    return np.append(np.ones(min(1, len(order)), np.bool_), ends[:-1])


def ends_of(order: Numbers, *columns: npt.NDArray[Any]) -> Mask:
    """Return the places, in some order, of the last row of each run of equal values."""
    differs = np.zeros(max(0, len(order) - 1), np.bool_)
    for column in columns:
        ordered = column[order]
        differs |= ordered[1:] != ordered[:-1]
    return np.append(differs, np.ones(min(1, len(order)), np.bool_))
