"""The rows of one data file of a snapshot, as the table has its columns now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.schema_policies import NEW_COLUMNS, key_in_map
from dts_assets.stages.altered_rows import Cells
from dts_assets.stages.change_columns import RowShape, microsecond, microseconds
from dts_assets.stages.key_operations import Operations, standing
from dts_assets.stages.keys import Bounds, Mask, as_mask
from dts_assets.stages.mapped_columns import out_of_map
from dts_assets.stages.mapped_texts import as_texts, from_texts
from dts_assets.stages.shard_ways import ShardWays
from dts_assets.stages.snapshot_in_arrow import Touched, invalid_texts, keys_of_rows, text_of
from dts_assets.stages.unknown_values import UNKNOWN, UNKNOWN_FIELD, count_unknown, unknown_names
from dts_assets.stages.value_paths import ValuePath, followed
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import flat_name, flat_names
from dts_assets.store.delete_files import live_rows
from dts_assets.store.file_stores import FileStore
from dts_assets.store.open_files import open_parquet
from dts_assets.wire.ddl.table_schemas import Family

_FIELD_ID = b"PARQUET:field_id"
_BATCH_ROWS = 65536

_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_decimal)
"""The types of which a row group's bounds are compared with keys.

Arrow and Parquet order their values in one way.
"""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file of a snapshot table, with its bytes.

    ``rewrite`` says that it is written anew even if no change touches a row of it. ``deletes`` are the delete files that apply to
    it, and ``shared_deletes`` those among them that concern other data files, too. ``partition`` has its partition values.
    """

    path: str
    rewrite: bool = False
    bytes: int = 0
    deletes: tuple[str, ...] = ()
    shared_deletes: tuple[str, ...] = ()
    partition: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldWay:
    """A way of rows that stand to the columns that their table gets now.

    For each of the columns ``paths`` has the way of its values, and ``stored`` the name of its origin in the table as it stands;
    None where it has none.
    """

    paths: tuple[ValuePath, ...]
    stored: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """The ways of rows that stand to the columns that their table gets now.

    ``schema`` is the serialized Arrow schema of the table as it stands, with field ids, ``types`` are the lake types of the
    columns. There is one of the ``ways``; of a merged table ``shards`` tells the number of a row's way by its shard. Its columns
    have the names that the table has for them as it stands. Of origins that stand in the map of new columns ``in_hexadecimal``
    are bytes; columns at the places ``mapped`` stand there.
    """

    schema: bytes
    ways: tuple[HeldWay, ...]
    types: tuple[str, ...]
    family: Family | None = None
    shards: ShardWays | None = None
    in_hexadecimal: frozenset[str] = frozenset()
    mapped: frozenset[int] = frozenset()

    def cells(self, way: HeldWay, place: int, stored: pa.Array | None, texts: pa.Array | None, count: int) -> Cells:
        """Return the values of a column, of stored values of its origin."""
        origin, path, is_mapped = way.stored[place], way.paths[place], place in self.mapped
        from_map = origin is not None and key_in_map(origin) is not None
        if from_map and is_mapped and not path.has_steps:
            assert stored is not None, "the origin is stored"
            return Cells.of(stored)
        if from_map and stored is not None:
            stored = from_texts(stored, "binary" if origin in self.in_hexadecimal else "string")
        found = followed(path, stored, texts, count, self.types[place], self.family)
        return as_texts(found) if is_mapped else found


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns that came with values which no statement says.

    In rows that stand, which are read as they stand, they are NULL. ``names`` has them for each way of rows. Of a merged table
    ``shards`` tells the number of a row's way by its shard.
    """

    names: tuple[tuple[str, ...], ...]
    shards: ShardWays | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of rows that tell their ways."""
        return () if self.shards is None else self.shards.names

    def marks(self, rows: pa.RecordBatch) -> pa.ListArray:
        """Return for each row the columns whose values are not known."""
        ways = None if self.shards is None else self.shards.numbers([rows.column(name) for name in self.shards.names])
        masks = dict[str, Mask]()
        for number, names in enumerate(self.names):
            mine = np.ones(rows.num_rows, np.bool_) if ways is None else ways == number
            masks |= {name: masks[name] | mine if name in masks else mine for name in names}
        return unknown_names(masks, rows.num_rows)


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """The rows of a file whose keys are touched by changes.

    Those in ``gone`` go, since new rows take their place. Those in ``told`` stay. They are ended versions of a history that
    tell a time to the versions behind them. ``live`` has the rows that are in no delete file.
    """

    gone: Mask
    told: Mask
    live: Mask

    def __or__(self, other: TouchedRows) -> TouchedRows:
        return TouchedRows(self.gone | other.gone, self.told | other.told, self.live)


def _schema_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([UNKNOWN_FIELD if name == UNKNOWN else schema.field(name) for name in names])


def _none_of(count: int) -> tuple[Mask, Mask]:
    return np.zeros(count, np.bool_), np.zeros(count, np.bool_)


class HeldRows:
    """A data file of a snapshot table, with its columns by their ids and its live rows.

    Iceberg does so, too: the file may be older than a column. Used as a context manager, it opens the file when it is first read.
    """

    def __init__(
        self,
        held: HeldFile,
        shape: RowShape,
        store: FileStore,
        live: Mask | None = None,
        *,
        former_ids: Mapping[bytes, bytes] = MappingProxyType({}),
        columns: HeldColumns | None = None,
        added: AddedColumns | None = None,
    ) -> None:
        """Take a file.

        ``live`` has its live rows where they are known, else its delete files are read. ``former_ids`` has the ids of columns
        that are converted now, by their new ids. ``columns`` say how rows get other columns; None where they are read as they
        stand: then ``added`` has the columns that came with values which no statement says.
        """
        self.held = held
        self._columns = columns
        self._added = added if columns is None else None
        self._former_ids = former_ids
        self._shape = shape
        self._schema = shape.schema
        self._store = store
        self._known_live = live
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    @cached_property
    def live(self) -> Mask:
        """The rows that are in no delete file."""
        if self._known_live is not None:
            return self._known_live
        return live_rows(self._store, self.held.path, self._file.metadata.num_rows, self.held.deletes)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return self._opened.enter_context(open_parquet(self._store, self.held.path))

    @cached_property
    def _stored(self) -> Mapping[str, str]:
        """The names in the file by those that columns have now, for the columns that it has."""
        by_id = {one.metadata[_FIELD_ID]: one.name for one in self._file.schema_arrow if one.metadata}
        ids = {one.name: one.metadata[_FIELD_ID] for one in self._stored_schema}
        ids = {name: number if number in by_id else self._former_ids.get(number) for name, number in ids.items()}
        found = {name: by_id[number] for name, number in ids.items() if number in by_id}
        return found | {name: name for name in self._file.schema_arrow.names if name == UNKNOWN}  # between two steps

    @cached_property
    def _stored_schema(self) -> pa.Schema:
        """The columns of the table as the file is read: those of now, or those that rows had."""
        return self._schema if self._columns is None else pa.ipc.read_schema(pa.py_buffer(self._columns.schema))

    @property
    def _tells_deleted(self) -> bool:
        """True if rows tell that they were deleted: no statement behind that has filled their NULL."""
        return self._shape.is_soft and DELETED_AT in self._stored_schema.names

    @cached_property
    def _former(self) -> Mapping[str, str]:
        """The present names by the former ones."""
        return {former: flat_name(column.name) for column in self._shape.columns for former in flat_names(column)[1:]}

    def touched(self, touched: Touched) -> TouchedRows:
        """Return which live rows have a key that the changes touch."""
        names = [self._shape.names[place] for place in self._shape.keys]
        names += ["_invalid"] if self._shape.unfit else []
        names += ["_valid_to"] if self._shape.versions else []
        names += [DELETED_AT] if self._shape.is_soft and (self._shape.is_bag or touched.all) else []
        found = [_none_of(0)]
        for group in range(self._file.num_row_groups):
            if not touched.reach(partial(self._bounds_of_key, group)) or self._is_past(group, touched):
                found.append(_none_of(self._file.metadata.row_group(group).num_rows))
            else:
                # Keys are a small part of a row group, which is bounded; to look keys up costs something for each batch.
                rows = self._file.metadata.row_group(group).num_rows
                found += [self._touched(batch, touched) for batch in self._batches(names, [group], at_once=rows)]
        gone, told = (np.concatenate(parts) & self.live for parts in zip(*found, strict=True))
        return TouchedRows(gone, told, self.live)

    def _touched(self, rows: pa.RecordBatch, touched: Touched) -> tuple[Mask, Mask]:
        """Return which rows go, and which tell a time and stay."""
        keys = keys_of_rows(rows, self._shape)
        mine = touched.rows(keys)
        if not self._shape.versions:
            if DELETED_AT in rows.schema.names:
                # A row that was deleted is no longer among equal rows, and no truncation concerns it.
                named = touched.rows_again(keys) if self._shape.is_bag else touched.named(keys)
                mine = (mine & as_mask(rows.column(DELETED_AT).is_null())) | named
            return mine, np.zeros(len(mine), np.bool_)
        again, until = touched.rows_again(keys), rows.column("_valid_to")
        late = np.zeros(len(mine), np.bool_) if self._shape.is_bag else microseconds(until) > touched.since
        is_open = as_mask(until.is_null())
        return (mine & is_open) | again, mine & ~is_open & ~again & late

    def _is_past(self, group: int, touched: Touched) -> bool:
        """Tell whether no row of a row group matters: all are versions that ended before the changes."""
        if not self._shape.versions or len(touched.again):
            return False
        found = self._statistics(group, "_valid_to")
        if found is None or not (found.has_null_count and found.has_min_max) or found.null_count:
            return False
        return microsecond(found.max) <= touched.since

    def ended_before(self, instant: int) -> Mask:
        """Return which live rows of a history are versions that ended before an instant, in microseconds since 1970."""
        found = [np.zeros(0, np.bool_)]
        for group in range(self._file.num_row_groups):
            bounds = self._statistics(group, "_valid_to")
            if bounds is not None and bounds.has_min_max and microsecond(bounds.min) >= instant:
                found.append(np.zeros(self._file.metadata.row_group(group).num_rows, np.bool_))
                continue
            for batch in self._batches(["_valid_to"], [group]):
                until = batch.column("_valid_to")
                found.append(as_mask(until.is_valid()) & (microseconds(until) < instant))
        return np.asarray(np.concatenate(found) & self.live, np.bool_)

    def _bounds_of_key(self, group: int, number: int) -> Bounds | None:
        """Return the bounds of a key's column in a row group; None where they are not known.

        After these columns come the texts of their values, of which no bounds are known.
        """
        places = self._shape.keys
        if number >= len(places):
            return None
        name = self._shape.names[places[number]]
        kind = self._schema.field(name).type
        is_bounded = self._columns is None and any(is_kind(kind) for is_kind in _BOUNDED)
        found = self._statistics(group, name) if is_bounded else None
        if found is None or not found.has_min_max:
            return None
        may_be_null = not found.has_null_count or found.null_count > 0
        return Bounds(pa.scalar(found.min, kind), pa.scalar(found.max, kind), may_be_null)

    def _statistics(self, group: int, name: str) -> pq.Statistics | None:
        """Return the statistics of a column in a row group; None where the file has none."""
        stored, columns = self._stored.get(name), self._file.metadata.row_group(group)
        at = next((n for n in range(columns.num_columns) if columns.column(n).path_in_schema == stored), None)
        return None if at is None else columns.column(at).statistics

    def chosen(self, mask: Mask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a mask, with marks where values of some are not known."""
        marked = self._columns is not None or self._added is not None or UNKNOWN in self._stored
        yield from self.of_mask(mask, [*self._schema.names, *([UNKNOWN] if marked else [])])

    def of_mask(self, mask: Mask, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows of a mask. Row groups without such a row are not read."""
        at = 0
        for group in range(self._file.num_row_groups):
            count = self._file.metadata.row_group(group).num_rows
            here, at, done = mask[at : at + count], at + count, 0
            for batch in self._batches(names, [group]) if here.any() else ():
                mine, done = here[done : done + batch.num_rows], done + batch.num_rows
                if mine.any():
                    yield batch.filter(pa.array(mine))

    def unknown(self, mask: Mask) -> Counter[str]:
        """Return how many rows of a mask are NULL in columns whose values no statement says."""
        if self._added is None:
            return Counter()
        if not self._added.read:
            return Counter({name: int(mask.sum()) for names in self._added.names for name in names})
        found = Counter[str]()
        for rows in self.of_mask(mask, [*self._added.read, UNKNOWN]):
            found += count_unknown(rows)
        return found

    def standing(self, found: TouchedRows, touched: Touched) -> Iterator[Operations]:
        """Yield touched rows as operations older than any change.

        Rows whose keys are computed again are left out.
        """
        mask = found.gone | found.told
        for rows in self.chosen(mask) if mask.any() else ():
            kept = rows.filter(pa.array(~touched.rows_again(keys_of_rows(rows, self._shape))))
            texts = {place: text_of(kept.column("_invalid"), [name]) for place, name in enumerate(self._shape.names)}
            some = {place: text for place, text in texts.items() if text.null_count < len(text)}
            yield standing(kept, self._shape, some, hashed=True)

    def _batches(
        self, names: Sequence[str], groups: Sequence[int] | None = None, *, at_once: int = _BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of some row groups (None: all) with some columns, as the table has them now.

        Columns that the file lacks are null.
        """
        if self._columns is None:
            added = self._added if UNKNOWN in names else None
            own = names if added is None else [name for name in names if name != UNKNOWN]
            for rows in self._batches_as_they_stand(own, groups, at_once=at_once):
                yield rows if added is None else rows.append_column(UNKNOWN_FIELD, added.marks(rows))
            return
        places = [place for place, name in enumerate(self._shape.names) if name in names or "_invalid" in names]
        origins = [name for way in self._columns.ways for place in places if (name := way.stored[place]) is not None]
        origins += () if self._columns.shards is None else self._columns.shards.names
        origins += [DELETED_AT] if self._tells_deleted else []
        others = [name for name in names if name not in self._shape.names and name != UNKNOWN]
        for rows in self._batches_as_they_stand(
            list(dict.fromkeys([*origins, *others, "_invalid"])), groups, at_once=at_once
        ):
            yield self._with_columns(rows, names, places, self._columns)

    def _with_columns(
        self, rows: pa.RecordBatch, names: Sequence[str], places: Sequence[int], columns: HeldColumns
    ) -> pa.RecordBatch:
        """Return rows that stand with the columns that their table gets now."""
        if columns.shards is None:
            return self._on_way(rows, names, places, columns, columns.ways[0])
        ways = columns.shards.numbers([rows.column(name) for name in columns.shards.names])
        numbers = np.unique(ways).tolist() or [0]
        if len(numbers) == 1:
            return self._on_way(rows, names, places, columns, columns.ways[numbers[0]])
        at = [np.flatnonzero(ways == number) for number in numbers]
        parts = [
            self._on_way(rows.take(pa.array(mine)), names, places, columns, columns.ways[number])
            for mine, number in zip(at, numbers, strict=True)
        ]
        back = pa.array(np.argsort(np.concatenate(at)))
        whole = [pa.concat_arrays([part.column(place) for part in parts]).take(back) for place in range(len(names))]
        return pa.RecordBatch.from_arrays(whole, schema=parts[0].schema)

    def _on_way(
        self, rows: pa.RecordBatch, names: Sequence[str], places: Sequence[int], columns: HeldColumns, way: HeldWay
    ) -> pa.RecordBatch:
        found, texts, invalid = dict[str, pa.Array](), [], rows.column("_invalid")
        unknown = dict[str, Mask]()
        gone = as_mask(rows.column(DELETED_AT).is_valid()) if self._tells_deleted else None
        for place in places:
            name, origin = self._shape.names[place], way.stored[place]
            stored = None if origin is None else rows.column(origin)
            told = None if origin is None or invalid.null_count == len(invalid) else text_of(invalid, [origin])
            cells = columns.cells(way, place, stored, told, rows.num_rows)
            cells = cells if gone is None else cells.not_filled(gone)
            found[name] = cells.values
            texts.append((name, cells.texts))
            if way.paths[place].has_steps:
                unknown[name] = cells.marked
        found |= {name: rows.column(name) for name in names if name not in (*self._shape.names, UNKNOWN)}
        if UNKNOWN in names:
            found[UNKNOWN] = unknown_names(unknown, rows.num_rows)
        if "_invalid" in names:
            found["_invalid"] = invalid_texts(texts, rows.num_rows, self._schema.field("_invalid").type)
        wanted = _schema_of(self._schema, names)
        return cast_to_schema(pa.RecordBatch.from_pydict({name: found[name] for name in names}), wanted, self.held.path)

    def _batches_as_they_stand(
        self, names: Sequence[str], groups: Sequence[int] | None, *, at_once: int
    ) -> Iterator[pa.RecordBatch]:
        own = [name for name in names if key_in_map(name) is None]
        if len(own) == len(names):
            yield from self._own_columns(own, groups, at_once=at_once)
            return
        for rows in self._own_columns(list(dict.fromkeys([*own, NEW_COLUMNS])), groups, at_once=at_once):
            mapped = rows.column(NEW_COLUMNS)
            found = {name: rows.column(name) if name in own else out_of_map(mapped, name) for name in names}
            yield pa.RecordBatch.from_pydict(found)

    def _own_columns(
        self, names: Sequence[str], groups: Sequence[int] | None, *, at_once: int
    ) -> Iterator[pa.RecordBatch]:
        wanted = _schema_of(self._stored_schema, names)
        stored = {self._stored[name]: name for name in names if name in self._stored}
        for batch in self._file.iter_batches(at_once, row_groups=groups, columns=list(stored)):
            named = cast_to_schema(
                batch.rename_columns([stored[name] for name in batch.schema.names]), wanted, self.held.path
            )
            yield self._respelled(named) if self._former and not self._columns and "_invalid" in names else named

    def _respelled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Name the texts of values that do not fit by the present names of their columns."""
        at, texts = rows.schema.get_field_index("_invalid"), rows.column("_invalid")
        former = pa.array(self._former, pa.string())
        present = pa.array(self._former.values(), pa.string()).take(pc.index_in(texts.keys, value_set=former))
        keys = pc.coalesce(present, texts.keys)
        mask = texts.is_null() if texts.null_count else None
        made = pa.MapArray.from_arrays(texts.offsets, keys, texts.items, type=texts.type, mask=mask)
        return rows.set_column(at, rows.schema.field(at), made)
