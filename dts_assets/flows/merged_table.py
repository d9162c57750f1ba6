"""A table as the tasks of a merge know it, from changes and rows to new rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.errors import LakeTableError
from dts_assets.flows.row_sum_counts import RowSummer
from dts_assets.flows.snapshot_files import AddedColumns, HeldColumns, HeldFile, HeldRows
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.flows.table_rules import WAY_OUT
from dts_assets.model.added_columns import CANONICAL
from dts_assets.model.columns import Column
from dts_assets.model.schema_policies import NEW_COLUMNS, key_in_map
from dts_assets.model.stored_filters import StoredFilter
from dts_assets.model.stored_sums import SumPlan
from dts_assets.model.tables import TableId
from dts_assets.stages.change_columns import NO_TIME, Counted, RowShape, Truncation
from dts_assets.stages.document_fields import with_fields
from dts_assets.stages.document_updates import with_documents
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.judged_changes import judged
from dts_assets.stages.key_operations import (
    Operations,
    joined,
    operations_of,
)
from dts_assets.stages.keys import Hashes, Mask
from dts_assets.stages.mapped_columns import with_map, with_mapped
from dts_assets.stages.row_filters import truths
from dts_assets.stages.row_folds import MadeRows, living_rows
from dts_assets.stages.row_versions import versions_of
from dts_assets.stages.snapshot_in_arrow import Touched, touched_keys
from dts_assets.stages.soft_deletes import rows_with_deleted
from dts_assets.stages.unknown_values import UNKNOWN, count_unknown
from dts_assets.stages.version_eras import VersionEra, as_arrival, versions_over_eras
from dts_assets.store.columns import flat_name
from dts_assets.store.files import WriteTarget, with_columns

_MARKS = 1 << 20
"""The number of the column with marks, among those that no table has."""


@dataclass(frozen=True, slots=True)
class MergedTable:
    """The facts about one table that all tasks of its merge need.

    ``layer`` is the layer's name, and ``versions`` says that it has every version of a row. ``counted`` says which changes
    count, ``fold_absent`` that some of them lack columns, ``unfit`` that keys may hold values that do not fit their types.
    ``changelogs`` open the files with the changes. ``knows_again`` says that some change of each key that is computed again
    counts. ``truncations`` end the versions of a history, and delete rows softly, in the order of their positions; versions
    that ended before ``expired_before``, in microseconds since 1970, are not written. ``added`` names the columns that the
    table has on request. ``touches_all`` says that every row that stands is looked at, because one of the ``truncations`` is
    behind it. ``shards`` names the columns that tell the shard of a row in a merged table. ``followed`` has the columns by the
    schemas of changes, ``held_columns`` says how rows that stand get the table's columns of now, ``added_columns`` which of
    them came with values that no statement says where rows are read as they stand. Files that are made ``between_steps`` have
    the marks of values that are not known. ``eras`` are those of a history that statements change; the changes of rows that
    came from other names stand in ``arrivals``, by the numbers in the eras. ``row_filter`` judges the rows of changes that
    could not be judged before; None where there is no such change. ``screen`` judges all rows, where some came from names without
    the filter. ``sums`` says how the sum of the rows goes on. ``changed_only`` says that old rows have changed columns alone.
    """

    layer: str
    table: TableId
    columns: tuple[Column, ...]
    counted: Counted
    target: WriteTarget
    fold_absent: bool = False
    unfit: bool = False
    changelogs: tuple[ChangesSource, ...] = (ChangesSource(),)
    knows_again: bool = False
    versions: bool = False
    truncations: tuple[Truncation, ...] = ()
    expired_before: int = NO_TIME
    added: tuple[str, ...] = ()
    touches_all: bool = False
    shards: tuple[str, ...] = ()
    followed: FollowedColumns | None = None
    held_columns: HeldColumns | None = None
    added_columns: AddedColumns | None = None
    between_steps: bool = False
    eras: tuple[VersionEra, ...] = ()
    arrivals: Mapping[int, tuple[ChangesSource, ...]] = field(default_factory=dict)
    row_filter: StoredFilter | None = None
    screen: StoredFilter | None = None
    sums: SumPlan | None = None
    changed_only: bool = False

    @property
    def shape(self) -> RowShape:
        """The shape of the snapshot's rows."""
        names = tuple(flat_name(column.name) for column in self.columns)
        schema = with_mapped(self.target.arrow_schema, names)
        return RowShape.of(
            self.columns, names, schema, unfit=self.unfit, versions=self.versions, added=self.added, shards=self.shards,
            followed=self.followed, judged=self.row_filter, relaxes=CANONICAL not in self.added,
            changed_only=self.changed_only, null_if_unsent=bool(self.table.schema),
        )  # fmt: skip

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as files have them: with new columns of a frozen snapshot in its map."""
        is_marked = UNKNOWN in rows.schema.names
        rows = rows.drop_columns([UNKNOWN]) if is_marked and not self.between_steps else rows
        is_frozen = NEW_COLUMNS in self.added
        is_worked_on = self.followed is not None or any(key_in_map(name) is not None for name in rows.schema.names)
        return with_map(rows, self.target.arrow_schema.field(NEW_COLUMNS).type) if is_frozen and is_worked_on else rows

    @property
    def written_to(self) -> WriteTarget:
        """The place for files of :meth:`stored` rows."""
        marks = [(UNKNOWN, "array<string>")]
        return with_columns(self.target, marks, first=_MARKS) if self.between_steps else self.target

    def unknown(self, rows: pa.RecordBatch) -> Counter[str]:
        """Return how many values of rows no rule of servers tells, by the columns that the table has."""
        found, names = count_unknown(rows), self.shape.names
        return Counter({key_in_map(name) or name: count for name, count in found.items() if name in names})

    @property
    def summer(self) -> RowSummer | None:
        """The part of a task that adds sums to stored rows; None where the table has none."""
        return RowSummer.of(self.written_to, self.sums)

    @property
    def again(self) -> Hashes | None:
        """The keys that are computed again and may have no change that counts, which would name them exactly."""
        return None if self.knows_again else self.counted.again

    @property
    def needs_rows(self) -> bool:
        """True if new rows depend on the rows that stand.

        They do where changes lack columns, in bags and in histories.
        """
        return self.fold_absent or self.versions or self.shape.is_bag or self.touches_all

    @property
    def sends_parts(self) -> bool:
        """True if changes may send a part of their row, which is then searched for among all rows."""
        shape = self.shape
        return shape.is_bag and (self.fold_absent or shape.changed_only or shape.null_if_unsent)

    def touched(self, parts: Sequence[Operations], again: Hashes | None) -> Touched:
        """Return the keys that operations touch, and those that are computed ``again``."""
        return replace(touched_keys(parts, again), all=self.touches_all)

    def held(self, file: HeldFile, live: Mask | None = None) -> HeldRows:
        """Return the rows of a file of the table, whose ``live`` rows may be known."""
        return HeldRows(
            file, self.shape, self.target.store, live, former_ids=self.target.former_ids, columns=self.held_columns,
            added=self.added_columns,
        )  # fmt: skip

    def operations(self, paths: Sequence[str], *, with_rows: bool = True, hashed: bool = False) -> Iterator[Operations]:
        """Yield the operations of the changes in some changelog files, a part at a time."""
        shape = self.shape
        names = shape.key_fields
        parts = {} if with_rows else {"before": names, "after": names}
        hashed = hashed or self.needs_rows
        for source in self.changelogs:
            mine = _shape_under(source, shape)
            for batch in source.batches(paths, shape.change_columns, parts=parts):
                yield operations_of(batch, mine, self.counted, hashed=hashed, with_rows=with_rows)
        for era in self.eras:
            if era.arrival is not None:
                yield from self._arrivals(era, paths, with_rows=with_rows)

    def _arrivals(self, era: VersionEra, paths: Sequence[str], *, with_rows: bool) -> Iterator[Operations]:
        """Yield the operations of the changes under former names."""
        assert era.arrival is not None, "the caller chooses eras with arrivals"
        shape = replace(self.shape, followed=era.arrived)
        names, counted = shape.key_fields, Counted(self.counted.after)
        for source in self.arrivals[era.arrival]:
            mine = _shape_under(source, shape)
            for batch in source.batches(
                paths, shape.change_columns, parts={} if with_rows else {"before": names, "after": names}
            ):
                found = operations_of(batch, mine, counted, hashed=True, with_rows=with_rows)
                yield as_arrival(found, era.arrival)

    def rows_of(self, parts: Sequence[Operations]) -> MadeRows:
        """Return the rows that operations make, of which there is at least one part.

        Raises:
            LakeTableError: The table has changes or rows that its row filter cannot judge.
        """
        made = self._rows_of(parts)
        return made if self.screen is None else replace(made, rows=self._screened(made.rows, self.screen))

    def _screened(self, rows: pa.RecordBatch, screen: StoredFilter) -> pa.RecordBatch:
        """Return the rows that pass the row filter of the table.

        Raises:
            LakeTableError: The filter cannot judge them.
        """
        names = dict(zip((one.name for one in self.columns), self.shape.names, strict=True))
        clause = screen.clause
        if clause is None and not {names[one] for one in screen.columns} <= {*rows.schema.names}:
            clause = "its row filter looks at a column that the snapshot has in a map"
        if clause is not None:
            raise LakeTableError(
                str(self.table), f"rows came from a table without its row filter, and {clause}", WAY_OUT
            )
        found = truths(screen.rows, {one: rows.column(names[one]) for one in screen.columns})
        return rows.filter(pc.fill_null(found, False))

    def _rows_of(self, parts: Sequence[Operations]) -> MadeRows:
        whole = joined(parts)
        self._refuse_unjudged(whole)
        if self.versions and self.eras:
            return versions_over_eras(
                whole,
                self.shape,
                self.eras,
                truncations=self.truncations,
                fold_absent=self.fold_absent,
                expired_before=self.expired_before,
            )
        if self.versions:
            return versions_of(
                whole,
                self.shape,
                truncations=self.truncations,
                fold_absent=self.fold_absent,
                expired_before=self.expired_before,
            )
        whole, missed = with_documents(whole, self.shape, self.truncations)
        whole = judged(whole, self.shape, self.truncations)
        if self.shape.is_soft:
            made = rows_with_deleted(whole, self.shape, truncations=self.truncations, fold_absent=self.fold_absent)
        else:
            made = living_rows(whole, self.shape, fold_absent=self.fold_absent)
        return replace(made, rows=with_fields(made.rows, self.shape), not_removed=made.not_removed + missed)

    def _refuse_unjudged(self, operations: Operations) -> None:
        """Refuse changes that are left to the merge, if their rows cannot be judged there.

        Raises:
            LakeTableError: The table has such changes.
        """
        if self.row_filter is None or not (operations.marked("open") & operations.takes).any():
            return
        clause, others = self.row_filter.clause, (one for some in self.arrivals.values() for one in some)
        if any(source.filtered is None for source in (*self.changelogs, *others)):
            clause = "some of its rows came from another table, which has another filter"
        if clause is not None:
            raise LakeTableError(str(self.table), f"a change lacks a column of its row filter, and {clause}", WAY_OUT)


def _shape_under(source: ChangesSource, shape: RowShape) -> RowShape:
    """Return the shape of changes; none is judged where their source is under no row filter."""
    return replace(shape, judged=None) if source.filtered is False else shape
