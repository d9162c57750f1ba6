"""The work of Spark tasks for snapshots: changes of one table are taken over into its files.

Few changes are one task for some files of the snapshot, which reads the changes itself. Many changes are shared out by the hashes
of their keys: some tasks read them and send each other task its share, and further tasks take the touched rows out of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.flows.apart import fault_at
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.planning.row_removals import Removal, removal_of
from dts_assets.stages.change_columns import CHANGE_COLUMNS, Counted, RowShape, last_truncation
from dts_assets.stages.key_operations import Operations, joined, operations_of, partial_moves, shared_out, standing
from dts_assets.stages.keys import Hashes, Mask
from dts_assets.stages.row_folds import last_operations, living_rows
from dts_assets.stages.snapshot_in_arrow import Touched, keys_of_rows, text_of, touched_keys
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import flat_name, flat_names
from dts_assets.store.delete_files import WrittenDeletes, live_rows, write_deletes
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, open_parquet, read_batches

_FIELD_ID = b"PARQUET:field_id"
_BATCH_ROWS = 65536

_KEYS_AT_ONCE = 1_000_000
"""Keys that a task holds while it looks for them in files.

With more of them it reads the keys of the files again.
"""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file of a snapshot table, with its bytes.

    ``rewrite`` says that it is written anew even if no change touches a row of it. ``deletes`` are the delete files that apply to
    it, and ``shared_deletes`` those among them that concern other data files, too.
    """

    path: str
    rewrite: bool = False
    bytes: int = 0
    deletes: tuple[str, ...] = ()
    shared_deletes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedTable:
    """The facts about one table that all tasks of its merge need.

    ``counted`` says which changes count, ``fold_absent`` that some of them lack columns, ``unfit`` that keys may hold values
    that do not fit their types. ``changelog_store`` opens the files with the changes.
    """

    table: TableId
    columns: tuple[Column, ...]
    counted: Counted
    target: WriteTarget
    fold_absent: bool = False
    unfit: bool = False
    changelog_store: FileStore = field(default_factory=FileStore)

    @property
    def shape(self) -> RowShape:
        """The shape of the snapshot's rows."""
        names = tuple(flat_name(column.name) for column in self.columns)
        return RowShape.of(self.columns, names, self.target.arrow_schema, unfit=self.unfit)

    @property
    def needs_rows(self) -> bool:
        """True if new rows depend on the rows that stand: where changes lack columns, and in bags."""
        return self.fold_absent or self.shape.is_bag

    def operations(self, paths: Sequence[str], *, with_rows: bool = True, hashed: bool = False) -> Iterator[Operations]:
        """Yield the operations of the changes in some changelog files, a part at a time."""
        shape = self.shape
        for batch in read_batches(self.changelog_store, paths, CHANGE_COLUMNS):
            yield operations_of(batch, shape, self.counted, hashed=hashed or self.needs_rows, with_rows=with_rows)


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """A task that takes changes over into some files of a snapshot.

    ``changelog`` are the files with the changes. ``adds`` says that this task, of all tasks of its table, writes the new and
    changed rows. ``bytes`` is the size of the files that it reads.
    """

    merged: MergedTable
    changelog: tuple[str, ...]
    files: tuple[HeldFile, ...]
    adds: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The files that a task removes from a snapshot, and the files that take their place.

    The new files hold the untouched rows of the removed files, and the changed rows. ``deletes`` list the touched rows of files
    that stay. ``fault`` says that no file was written because the task failed. ``unmatched`` counts removals of a bag that found
    no row.
    """

    table: TableId
    removed: tuple[str, ...] = ()
    written: tuple[WrittenFile, ...] = ()
    deletes: tuple[WrittenDeletes, ...] = ()
    fault: Fault | None = None
    unmatched: int = 0


@dataclass(frozen=True, slots=True)
class ShareTask:
    """A task that shares changes out, or touched rows of the snapshot.

    The rows of the snapshot are wanted where changes lack columns: then ``changelog`` are all files with changes, and ``files``
    those whose rows are shared out. ``linked`` has the keys between which rows move without all columns.
    """

    merged: MergedTable
    changelog: tuple[str, ...]
    shares: int
    bytes: int
    files: tuple[HeldFile, ...] = ()
    linked: Mapping[str, Hashes] | None = None


@dataclass(frozen=True, slots=True)
class LookTask:
    """A task that finds out what changes of a table touch, before its merge is planned.

    It looks for the last truncation, for the keys that changes touch, or for the keys between which rows move without all
    columns, as ``sought`` says: ``truncation``, ``keys`` or ``moves``.
    """

    merged: MergedTable
    changelog: tuple[str, ...]
    sought: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer of a :class:`LookTask`: what it sought, or its fault."""

    table: TableId
    emptied_at: SourcePosition | None = None
    keys: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    moves: tuple[Hashes, Hashes] | None = None
    fault: Fault | None = None


def refresh_files(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take the changes of a task over into its files, and return the removed and the written files.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        return _added(task, attempt) if task.adds else _removed(task, attempt)
    except Exception as error:
        return RefreshResult(task.merged.table, fault=fault_at(SNAPSHOT.name, error))


def look_through(task: LookTask, attempt: str) -> Looked:
    """Find out what the changes of a task touch.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    merged = task.merged
    try:
        if task.sought == "truncation":
            batches = read_batches(merged.changelog_store, task.changelog, ("op", "source_position", "window_start"))
            return Looked(merged.table, emptied_at=last_truncation(batches, merged.counted.after))
        parts = list(merged.operations(task.changelog, with_rows=False, hashed=True))
        if task.sought == "keys":
            found = [np.unique(part.hashes()) for part in parts]
            return Looked(merged.table, keys=np.unique(np.concatenate([np.zeros(0, np.uint64), *found])))
        pairs = [partial_moves(part) for part in parts]
        none = np.zeros(0, np.uint64)
        left, taken = (np.concatenate([none, *(pair[side] for pair in pairs)]) for side in (0, 1))
        return Looked(merged.table, moves=(left, taken))
    except Exception as error:
        return Looked(merged.table, fault=fault_at(SNAPSHOT.name, error))


def share_out(task: ShareTask, attempt: str) -> Iterator[tuple[int, bytes | Fault]]:
    """Yield the operations of a task with the numbers of their shares, or at last its fault.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        for number, share in _shares(task):
            yield number, share.to_bytes()
    except Exception as error:
        yield 0, fault_at(SNAPSHOT.name, error)


def write_share(merged: MergedTable, pieces: Iterator[bytes | Fault], attempt: str) -> RefreshResult:
    """Write the rows that live behind the operations of one share.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        parts = []
        for piece in pieces:
            if isinstance(piece, Fault):
                return RefreshResult(merged.table, fault=piece)
            parts.append(Operations.of_bytes(piece))
        living = living_rows(joined(parts), merged.shape, fold_absent=merged.fold_absent)
        with TableWriter(merged.target, attempt) as writer:
            writer.write(living.rows)
            return RefreshResult(merged.table, (), writer.close(), unmatched=living.unmatched)
    except Exception as error:
        return RefreshResult(merged.table, fault=fault_at(SNAPSHOT.name, error))


def _shares(task: ShareTask) -> Iterator[tuple[int, Operations]]:
    for part in _rows_that_stand(task) if task.files else task.merged.operations(task.changelog, hashed=True):
        # One operation of each key is enough where the last one has all columns.
        some = part if task.merged.needs_rows else last_operations(part)
        for number, share in enumerate(shared_out(some, task.shares, task.linked)):
            if share.count:
                yield number, share


def _added(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take touched rows out of the files of a task, and write the changed rows."""
    merged, shape = task.merged, task.merged.shape
    parts = list(merged.operations(task.changelog))
    touched = touched_keys(parts, merged.counted.again)
    with TableWriter(merged.target, attempt) as writer:
        left = _Left(merged, attempt, writer)
        for held in task.files:
            with open_parquet(merged.target.store, held.path) as file:
                snapshot = _Snapshot(file, held, merged)
                gone = snapshot.touched(touched)
                if merged.needs_rows:
                    parts += snapshot.standing(gone, touched)
                left.take_out(snapshot, gone)
        if parts:
            living = living_rows(joined(parts), shape, fold_absent=merged.fold_absent)
            writer.write(living.rows)
            left.unmatched = living.unmatched
        return left.result()


def _removed(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take touched rows out of the files of a task."""
    merged = task.merged
    gone = _touched_rows(merged, task.changelog, task.files)
    with TableWriter(merged.target, attempt) as writer:
        left = _Left(merged, attempt, writer)
        for held in task.files:
            if held.rewrite or gone[held.path].any():
                with open_parquet(merged.target.store, held.path) as file:
                    left.take_out(_Snapshot(file, held, merged), gone[held.path])
        return left.result()


@dataclass(slots=True)
class _Left:
    """The files that rows have left: written anew without them, or with a list of them."""

    merged: MergedTable
    attempt: str
    writer: TableWriter
    removed: list[str] = field(default_factory=list)
    deletes: list[WrittenDeletes] = field(default_factory=list)
    unmatched: int = 0

    def take_out(self, snapshot: _Snapshot, gone: Mask) -> None:
        """Take rows out of a file that stands."""
        held = snapshot.held
        if not (held.rewrite or gone.any()):
            return
        way = removal_of(
            held.bytes, len(gone), removed_rows=int(gone.sum()), already_deleted_rows=int((~snapshot.live).sum()),
            delete_files=len(held.deletes),
        )  # fmt: skip
        if held.rewrite or way is Removal.REWRITE:
            self.removed.append(held.path)
            for batch in snapshot.chosen(snapshot.live & ~gone):
                self.writer.write(batch)
            return
        # A delete file that concerns other files, too, cannot go.
        anew = way is Removal.MERGED_DELETES and not held.shared_deletes
        instead_of = held.deletes if anew else ()
        rows = np.flatnonzero(gone)
        self.deletes.append(
            write_deletes(
                self.merged.target, self.attempt, rows, data_file=held.path, partition=(), instead_of=instead_of
            )
        )

    def result(self) -> RefreshResult:
        """Finish the new files, and return all files."""
        return RefreshResult(
            self.merged.table, tuple(self.removed), self.writer.close(), tuple(self.deletes), unmatched=self.unmatched
        )


def _rows_that_stand(task: ShareTask) -> Iterator[Operations]:
    """Yield the touched rows of files as operations older than any change, but those that are computed again."""
    merged = task.merged
    gone = _touched_rows(merged, task.changelog, task.files)
    again = Touched(None, merged.counted.again if merged.counted.again is not None else np.zeros(0, np.uint64))
    for held in task.files:
        with open_parquet(merged.target.store, held.path) as file:
            yield from _Snapshot(file, held, merged).standing(gone[held.path], again)


def _touched_rows(merged: MergedTable, changelog: Sequence[str], files: Sequence[HeldFile]) -> Mapping[str, Mask]:
    """Return which rows of some files have a key that changes touch, by path.

    The keys of the changes are held in memory a part at a time.
    """
    found: dict[str, Mask] = {}
    parts: list[Operations] = []

    def look(again: Hashes | None) -> None:
        touched = touched_keys(parts, again)
        for held in files:
            with open_parquet(merged.target.store, held.path) as file:
                gone = _Snapshot(file, held, merged).touched(touched)
            found[held.path] = gone | found[held.path] if held.path in found else gone
        parts.clear()

    for part in merged.operations(changelog, with_rows=False):
        parts.append(part)
        if sum(one.count for one in parts) >= _KEYS_AT_ONCE:
            look(None)
    look(merged.counted.again)
    return found


class _Snapshot:
    """A data file of a snapshot table, with its columns by their ids and its live rows.

    Iceberg does so, too: the file may be older than a column.
    """

    def __init__(self, file: pq.ParquetFile, held: HeldFile, merged: MergedTable) -> None:
        self._file = file
        self.held = held
        self.live: Mask = live_rows(merged.target.store, held.path, file.metadata.num_rows, held.deletes)
        self._shape = merged.shape
        self._schema = self._shape.schema
        self._absent = merged.fold_absent
        by_id = {one.metadata[_FIELD_ID]: one.name for one in self._file.schema_arrow if one.metadata}
        self._stored = {
            one.name: by_id[one.metadata[_FIELD_ID]] for one in self._schema if one.metadata[_FIELD_ID] in by_id
        }
        self._former = {
            former: flat_name(column.name) for column in merged.columns for former in flat_names(column)[1:]
        }

    def touched(self, touched: Touched) -> Mask:
        """Return which live rows have a key that the changes touch."""
        names = [self._shape.names[place] for place in self._shape.keys]
        names += ["_invalid"] if self._shape.unfit else []
        found = [touched.rows(keys_of_rows(batch, self._shape)) for batch in self._batches(names)]
        return np.concatenate(found) & self.live if found else np.zeros(0, np.bool_)

    def chosen(self, mask: Mask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a mask."""
        at = 0
        for batch in self._batches(self._schema.names):
            here = mask[at : at + batch.num_rows]
            at += batch.num_rows
            if here.any():
                yield batch.filter(pa.array(here))

    def standing(self, gone: Mask, touched: Touched) -> Iterator[Operations]:
        """Yield the rows of a mask as operations older than any change.

        Rows whose keys are computed again are left out.
        """
        for rows in self.chosen(gone) if gone.any() else ():
            kept = rows.filter(pa.array(~touched.rows_again(keys_of_rows(rows, self._shape))))
            texts = {place: text_of(kept.column("_invalid"), [name]) for place, name in enumerate(self._shape.names)}
            some = {place: text for place, text in texts.items() if text.null_count < len(text)}
            yield standing(kept, self._shape, some, hashed=True)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with some columns, as the table has them now.

        Columns that the file lacks are null.
        """
        wanted = pa.schema([self._schema.field(name) for name in names])
        stored = {self._stored[name]: name for name in names if name in self._stored}
        for batch in self._file.iter_batches(_BATCH_ROWS, columns=list(stored)):
            named = cast_to_schema(
                batch.rename_columns([stored[name] for name in batch.schema.names]), wanted, self.held.path
            )
            yield self._respelled(named) if self._former and "_invalid" in names else named

    def _respelled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Name the texts of values that do not fit by the present names of their columns."""
        at, texts = rows.schema.get_field_index("_invalid"), rows.column("_invalid")
        former = pa.array(self._former, pa.string())
        present = pa.array(self._former.values(), pa.string()).take(pc.index_in(texts.keys, value_set=former))
        keys = pc.coalesce(present, texts.keys)
        mask = texts.is_null() if texts.null_count else None
        made = pa.MapArray.from_arrays(texts.offsets, keys, texts.items, type=texts.type, mask=mask)
        return rows.set_column(at, rows.schema.field(at), made)
