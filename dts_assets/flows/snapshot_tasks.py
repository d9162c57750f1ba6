"""The work of Spark tasks for snapshots: changes of one table are taken over into its files.

Few changes are one task for some files of the snapshot, which reads the changes itself. Many changes are shared out by the hashes
of their keys: some tasks read them and send each other task its share, and further tasks take the touched rows out of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dts_assets.flows.apart import fault_at
from dts_assets.flows.merged_table import MergedTable
from dts_assets.flows.row_sum_counts import RowSummer
from dts_assets.flows.snapshot_files import HeldFile, HeldRows, TouchedRows
from dts_assets.flows.stored_changes import stored_changes
from dts_assets.model.positions import SourcePosition
from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.model.stored_sums import NO_CHANGE, SumChange
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.planning.row_removals import Removal, removal_of
from dts_assets.stages.change_columns import Truncation, truncations_of
from dts_assets.stages.key_operations import (
    Operations,
    least_position,
    partial_moves,
    shared_out,
)
from dts_assets.stages.keys import NO_KEYS, DistinctKeys, Hashes, Mask, twin_hashes
from dts_assets.stages.row_folds import MadeRows, last_operations
from dts_assets.stages.row_patterns import RowPatterns, patterns_of_changes
from dts_assets.stages.snapshot_in_arrow import Touched
from dts_assets.store.delete_files import WrittenDeletes, write_deletes
from dts_assets.store.files import TableWriter, WrittenFile

_KEYS_AT_ONCE = 1_000_000
"""Keys that a task holds while it looks for them in files.

With more of them it reads the keys of the files again.
"""


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


_WORTH_REDUCING = 0.7
"""The share of operations that are left, up to which a task goes on to reduce them."""


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The files that a task removes from a snapshot, and the files that take their place.

    The new files hold the untouched rows of the removed files, and the changed rows. ``deletes`` list the touched rows of files
    that stay. ``fault`` says that no file was written because the task failed. ``not_removed`` counts the removals of a bag that
    removed nothing. ``unknown`` counts by column the values of rows that are NULL because no rule of servers tells them. ``sums``
    says what the task did to the sum of the rows. ``ambiguous`` has the changes that may mean several different rows, as
    :data:`~dts_assets.stages.matched_rows.AMBIGUOUS` says; None without any.
    """

    table: TableId
    removed: tuple[str, ...] = ()
    written: tuple[WrittenFile, ...] = ()
    deletes: tuple[WrittenDeletes, ...] = ()
    fault: Fault | None = None
    not_removed: NotRemoved = ALL_REMOVED
    unknown: Mapping[str, int] = field(default_factory=dict)
    sums: SumChange = NO_CHANGE
    ambiguous: pa.RecordBatch | None = None

    @property
    def changes(self) -> bool:
        """True if the task wrote or removed a file, or failed."""
        return bool(self.removed or self.written or self.deletes or self.fault)


@dataclass(frozen=True, slots=True)
class ShareTask:
    """A task that shares changes out, or touched rows of the snapshot.

    The rows of the snapshot are wanted where changes lack columns: then ``changelog`` are all files with changes, and ``files``
    those whose rows are shared out. ``linked`` has the keys between which rows move without all columns, ``patterns`` those of
    rows that changes may mean which send a part of them.
    """

    merged: MergedTable
    changelog: tuple[str, ...]
    shares: int
    bytes: int
    files: tuple[HeldFile, ...] = ()
    linked: Mapping[str, Hashes] | None = None
    patterns: RowPatterns | None = None


@dataclass(frozen=True, slots=True)
class LookTask:
    """A task that finds out what changes of a table touch, before its merge is planned.

    It looks for truncations, for the keys that changes touch, for the keys between which rows move without all columns, or for
    the rows that changes may mean which send a part of them, as ``sought`` says: ``truncations``, ``keys``, ``moves`` or
    ``patterns``. Of rows that are no longer there it is ``former keys``. Changes of
    rows that came from other names have the number ``arrival``.
    """

    merged: MergedTable
    changelog: tuple[str, ...]
    sought: str
    bytes: int
    arrival: int | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer of a :class:`LookTask`: what it sought, or its fault.

    ``least`` is the least position of the changes with ``keys``; None of those that are no longer there. ``arrival`` is the
    number of rows that came from other names, of which the answer tells. ``patterns`` are None where they were not sought.
    """

    table: TableId
    truncations: tuple[Truncation, ...] = ()
    keys: DistinctKeys = NO_KEYS
    former_keys: DistinctKeys = NO_KEYS
    least: SourcePosition | None = None
    moves: tuple[Hashes, Hashes] | None = None
    fault: Fault | None = None
    arrival: int | None = None
    patterns: RowPatterns | None = None


def refresh_files(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take the changes of a task over into its files, and return the removed and the written files.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        return _added(task, attempt) if task.adds else _removed(task, attempt)
    except Exception as error:
        return RefreshResult(task.merged.table, fault=fault_at(task.merged.layer, error))


def look_through(task: LookTask, attempt: str) -> Looked:
    """Find out what the changes of a task touch.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    merged = task.merged
    try:
        if task.sought == "truncations":
            columns = ("op", "source_position", "window_start", "event_time", *(["before"] if merged.shards else []))
            batches = stored_changes(merged.changelogs, task.changelog, columns, parts={"before": merged.shards})
            found = truncations_of(batches, merged.counted.after, merged.shards)
            return Looked(merged.table, truncations=found, arrival=task.arrival)
        if task.sought == "patterns":
            some = merged.operations(task.changelog, with_rows=False)
            patterns = RowPatterns.joined(patterns_of_changes(part.touches, part.keys) for part in some)
            return Looked(merged.table, patterns=patterns)
        parts = list(merged.operations(task.changelog, with_rows=False, hashed=True))
        if task.sought in ("keys", "former keys"):
            keys = DistinctKeys.of([part.hashes() for part in parts], [twin_hashes(part.keys) for part in parts])
            if task.sought == "former keys":
                return Looked(merged.table, former_keys=keys)
            return Looked(merged.table, keys=keys, least=min(filter(None, map(least_position, parts)), default=None))
        pairs = [partial_moves(part) for part in parts]
        none = np.zeros(0, np.uint64)
        left, taken = (np.concatenate([none, *(pair[side] for pair in pairs)]) for side in (0, 1))
        return Looked(merged.table, moves=(left, taken))
    except Exception as error:
        return Looked(merged.table, fault=fault_at(merged.layer, error))


def share_out(task: ShareTask, attempt: str) -> Iterator[tuple[int, bytes | Fault]]:
    """Yield the operations of a task with the numbers of their shares, or at last its fault.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        for number, share in _shares(task):
            yield number, share.to_bytes()
    except Exception as error:
        yield 0, fault_at(task.merged.layer, error)


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
        made = merged.rows_of(parts)
        with TableWriter(merged.written_to, attempt) as writer:
            left = _Left(merged, attempt, writer)
            left.write_made(made)
            return left.result()
    except Exception as error:
        return RefreshResult(merged.table, fault=fault_at(merged.layer, error))


def _shares(task: ShareTask) -> Iterator[tuple[int, Operations]]:
    reduces = not task.merged.needs_rows
    for part in _rows_that_stand(task) if task.files else task.merged.operations(task.changelog, hashed=True):
        # One operation of each key is enough where the last one has all columns. To find it costs more than to hand all of
        # them on, unless keys change often.
        some = last_operations(part) if reduces else part
        reduces = reduces and some.count <= part.count * _WORTH_REDUCING
        for number, share in enumerate(shared_out(some, task.shares, task.linked, task.patterns)):
            if share.count:
                yield number, share


def _added(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take touched rows out of the files of a task, and write the changed rows."""
    merged = task.merged
    parts = list(merged.operations(task.changelog))
    touched = merged.touched(parts, merged.again)
    with TableWriter(merged.written_to, attempt) as writer:
        left = _Left(merged, attempt, writer)
        for held in task.files:
            with merged.held(held) as snapshot:
                rows = snapshot.touched(touched)
                if merged.needs_rows:
                    parts += snapshot.standing(rows, touched)
                left.take_out(snapshot, rows.gone)
        if parts:
            left.write_made(merged.rows_of(parts))
        return left.result()


def _removed(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take touched rows out of the files of a task."""
    merged = task.merged
    touched = _touched_rows(merged, task.changelog, task.files)
    with TableWriter(merged.written_to, attempt) as writer:
        left = _Left(merged, attempt, writer)
        for held in task.files:
            with merged.held(held, touched[held.path].live) as snapshot:
                left.take_out(snapshot, touched[held.path].gone)
        return left.result()


def put_in_order(task: RefreshTask, attempt: str) -> RefreshResult:
    """Write the files of a task anew that are to be, and take expired versions out of all.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    merged = task.merged
    try:
        with TableWriter(merged.written_to, attempt) as writer:
            left = _Left(merged, attempt, writer)
            for held in task.files:
                with merged.held(held) as rows:
                    none = np.zeros(len(rows.live), np.bool_)
                    left.take_out(rows, rows.ended_before(merged.expired_before) if merged.versions else none)
            return left.result()
    except Exception as error:
        return RefreshResult(merged.table, fault=fault_at(merged.layer, error))


@dataclass(slots=True)
class _Left:
    """The files that rows have left: written anew without them, or with a list of them."""

    merged: MergedTable
    attempt: str
    writer: TableWriter
    removed: list[str] = field(default_factory=list)
    deletes: list[WrittenDeletes] = field(default_factory=list)
    not_removed: NotRemoved = ALL_REMOVED
    unknown: Counter[str] = field(default_factory=Counter)
    sums: SumChange = NO_CHANGE
    ambiguous: pa.RecordBatch | None = None
    summer: RowSummer | None = field(init=False)

    def __post_init__(self) -> None:
        self.summer = self.merged.summer

    def write_made(self, made: MadeRows) -> None:
        """Write the rows that operations make, and keep the counts and changes to report."""
        self.write(made.rows)
        self.not_removed, self.ambiguous = made.not_removed, made.ambiguous

    def write(self, rows: pa.RecordBatch, *, stood: bool = False) -> None:
        """Write rows with their sums, and count their values that are not known. Rows that ``stood`` may have a sum."""
        self.unknown += self.merged.unknown(rows)
        rows = self.merged.stored(rows)
        if self.summer is not None and rows.num_rows:
            rows, added = self.summer.with_sums(rows, stood=stood)
            self.sums += SumChange(kept=added) if stood else SumChange(made=added)
        self.writer.write(rows)

    def take_out(self, snapshot: HeldRows, gone: Mask) -> None:
        """Take rows out of a file that stands."""
        held, stay = snapshot.held, snapshot.live & ~gone
        if self.summer is not None and self.merged.sums is not None and self.merged.sums.counts_gone and gone.any():
            self.sums += SumChange(gone=self.summer.of_gone(snapshot, gone))
        if not (held.rewrite or gone.any()):
            self.unknown += snapshot.unknown(stay)
            return
        way = removal_of(
            held.bytes, len(gone), removed_rows=int(gone.sum()), already_deleted_rows=int((~snapshot.live).sum()),
            delete_files=len(held.deletes),
        )  # fmt: skip
        if held.rewrite or way is Removal.REWRITE:
            self.removed.append(held.path)
            for batch in snapshot.chosen(stay):
                self.write(batch, stood=True)
            return
        self.unknown += snapshot.unknown(stay)
        # A delete file that concerns other files, too, cannot go.
        anew = way is Removal.MERGED_DELETES and not held.shared_deletes
        self.deletes.append(
            write_deletes(
                self.merged.target,
                self.attempt,
                np.flatnonzero(gone),
                data_file=held.path,
                partition=held.partition,
                instead_of=held.deletes if anew else (),
                earlier=np.flatnonzero(~snapshot.live) if anew else None,
            )
        )

    def result(self) -> RefreshResult:
        """Finish the new files, and return all files."""
        return RefreshResult(
            self.merged.table,
            tuple(self.removed),
            self.writer.close(),
            tuple(self.deletes),
            not_removed=self.not_removed,
            unknown=self.unknown,
            sums=self.sums,
            ambiguous=self.ambiguous,
        )


def _rows_that_stand(task: ShareTask) -> Iterator[Operations]:
    """Yield the touched rows of files as operations older than any change, but those that are computed again."""
    merged = task.merged
    touched = _touched_rows(merged, task.changelog, task.files)
    again = Touched(None, merged.counted.again if merged.counted.again is not None else np.zeros(0, np.uint64))
    for held in task.files:
        with merged.held(held, touched[held.path].live) as rows:
            yield from rows.standing(touched[held.path], again)


def _touched_rows(
    merged: MergedTable, changelog: Sequence[str], files: Sequence[HeldFile]
) -> Mapping[str, TouchedRows]:
    """Return which rows of some files have a key that changes touch, by path.

    The keys of the changes are held in memory a part at a time. Where keys that are computed again are all that is touched, no
    change is read for that: their hashes tell the rows.
    """
    found: dict[str, TouchedRows] = {}
    parts: list[Operations] = []

    def look(again: Hashes | None) -> None:
        touched = merged.touched(parts, again)
        for held in files:
            former = found.get(held.path)
            with merged.held(held, None if former is None else former.live) as snapshot:
                rows = snapshot.touched(touched)
            found[held.path] = rows if former is None else rows | former
        parts.clear()

    read = () if merged.again is not None and not merged.counted.newer else changelog
    for part in merged.operations(read, with_rows=False):
        parts.append(part)
        if sum(one.count for one in parts) >= _KEYS_AT_ONCE:
            look(None)
    look(merged.again)
    return found
