"""The lake as flows see it: tables by asset key, their files, and the way to write them.

A lake pickles as its location, so it can be sent to another process; the catalog is opened at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from dts_assets.errors import ForeignDeletesError, LakeFormatError
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.layouts import Layout
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.columns import NamedType
from dts_assets.store.commit import Assertion, Rectangle, Replaced, files_apart, files_with_deletes, replace
from dts_assets.store.converted_columns import PlannedColumns, converted
from dts_assets.store.damage import opened
from dts_assets.store.delete_files import WrittenDeletes, live_rows
from dts_assets.store.delete_index import only_file
from dts_assets.store.dropped_tables import Dropped, drop_table
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import WriteTarget, WrittenFile
from dts_assets.store.iceberg_tables import (
    ensure_table,
    evolve,
    remember,
    spark_name,
    table_identifier,
    with_all_columns,
)
from dts_assets.store.layouts import is_laid_out, lay_out
from dts_assets.store.open_files import file_io
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.planned_fields import PlannedField, PlannedSchema, with_fields
from dts_assets.store.schemas import FORMAT_PROPERTY, FORMAT_TABLE, LAKE_FORMAT, SYSTEM_TABLES, TableLayout
from dts_assets.store.staged_tables import PlannedChange, SchemaState
from dts_assets.store.stored_files import StoredFile, stored_file
from dts_assets.store.types import lake_type
from dts_assets.store.versions import refuse_set_back
from dts_assets.store.write_targets import write_target


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's current Iceberg snapshot: its id, and all properties of its summary, the committer's own among them."""

    snapshot_id: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableSize:
    """The live rows of a table, and the bytes of its files."""

    rows: int
    bytes: int


@dataclass(slots=True)
class Lake:
    """The tables of a lake, each by the parts of its asset key: ``("shop", "changelog", "shopdb", "orders")``."""

    location: LakeLocation
    _catalog: Catalog | None = field(default=None, init=False, repr=False)
    _identities: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def catalog(self) -> Catalog:
        """The catalog, opened once.

        Raises:
            UnwritableLakeError: The catalog cannot be opened, or its folder cannot be written.
        """
        if self._catalog is None:
            self._catalog = open_catalog(self.location)
        return self._catalog

    def catalog_of(self, path: Sequence[str]) -> Catalog:
        """Return the catalog that knows a table: that of the lake, where nothing stands elsewhere."""
        return self.catalog

    def identifier(self, path: Sequence[str]) -> Identifier:
        """Return the table's identifier in the catalog."""
        return table_identifier(path, joined=self.location.joins_names, in_urls=self.location.names_in_urls)

    def spark_name(self, path: Sequence[str]) -> str:
        """Return the table's quoted name in Spark SQL."""
        return spark_name(self.identifier(path))

    def require_format(self, subscription: str) -> None:
        """Refuse a subscription whose tables have another lake format.

        The catalog is asked once; that the format is right is remembered.

        Raises:
            LakeFormatError: Another version of dts-assets made the tables.
        """
        self.identity(subscription)

    def identity(self, subscription: str) -> str | None:
        """Return the identity of a subscription's tables in this lake, None before the first one is made.

        It is the id of the first table. A lake that is made anew in the same place has another one.

        Raises:
            LakeFormatError: Another version of dts-assets made the tables.
        """
        if subscription in self._identities:
            return self._identities[subscription]
        try:
            table = self.catalog.load_table(self.identifier((subscription, FORMAT_TABLE)))
        except NoSuchTableError:
            # There is no table of the subscription yet, and this one will be made first, with the format of this code.
            return None
        found = table.properties.get(FORMAT_PROPERTY)
        if found != LAKE_FORMAT:
            raise LakeFormatError(subscription, self.location.warehouse, found=found, known=LAKE_FORMAT)
        return self._identities.setdefault(subscription, str(table.metadata.table_uuid))

    def table(self, path: Sequence[str]) -> Table | None:
        """Return the table as it is now, None if there is none.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
            SetBackTableError: The table stands at an earlier version than before.
        """
        self.require_format(path[0])
        try:
            return refuse_set_back(opened(self.catalog_of(path), self.identifier(path), path))
        except NoSuchTableError:
            return None

    def ensure(self, path: Sequence[str], layout: TableLayout) -> Table:
        """Return the table, created if it is not there.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        self.require_format(path[0])
        return ensure_table(self.catalog_of(path), self.identifier(path), layout)

    def ensure_system_table(self, path: Sequence[str]) -> Table:
        """Return one of :data:`SYSTEM_TABLES`, created if it is not there.

        It has all columns then, also where an earlier version of dts-assets made it.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
            LakeChangeError: Other writers kept the table busy all the time.
        """
        layout = SYSTEM_TABLES[path[-1]]
        return with_all_columns(self.catalog_of(path), self.identifier(path), layout, self.ensure(path, layout))

    def drop(self, path: Sequence[str], others: OtherTables | None = None) -> Dropped | None:
        """Remove a table with its files; see :func:`dts_assets.store.dropped_tables.drop_table`. None without a table.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        self.require_format(path[0])
        return drop_table(self.catalog_of(path), self.identifier(path), others)

    def remember(self, path: Sequence[str], layout: TableLayout, *, name: str, value: str, again: bool = False) -> None:
        """Keep a fact in the properties of a table, which is created if it is not there.

        The first writer wins, or the last one where it may be told ``again``.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        self.require_format(path[0])
        remember(self.catalog_of(path), self.identifier(path), layout, name=name, value=value, again=again)

    def evolve(self, path: Sequence[str], columns: Sequence[NamedType]) -> pa.Schema:
        """Widen a table to hold ``columns``, and return its Arrow schema; see :func:`dts_assets.store.iceberg_tables.evolve`."""
        return evolve(self.catalog_of(path), self.identifier(path), columns)

    def lay_out(self, path: Sequence[str], table: Table, layout: Layout) -> bool:
        """Let new files of a table have a layout, and return whether they had another one.

        ``table`` is the table as it was opened.

        Raises:
            LakeTableError: The layout names a column that the table has not, or one whose type the transform cannot take.
            LakeChangeError: Other writers kept the table busy all the time.
        """
        if is_laid_out(table, layout):
            return False
        lay_out(self.catalog_of(path), self.identifier(path), layout)
        return True

    def target(self, path: Sequence[str], run: str) -> WriteTarget:
        """Return the place for the files of ``run`` in a table that exists."""
        return write_target(self.catalog_of(path).load_table(self.identifier(path)), run)

    def conversion(
        self, path: Sequence[str], columns: Sequence[NamedType], run: str, layout: Layout | None = None
    ) -> tuple[WriteTarget, PlannedColumns] | None:
        """Return how a table gets columns whose types it cannot be widened to.

        It is the place for its files, and the columns. :meth:`replace` commits both, with a layout of these columns; None keeps
        that of the table. There is no way where there is no such column, or no table.

        Raises:
            LakeTableError: A partition field or the sort order of the table needs such a column, or cannot be made of it.
        """
        table = self.table(path)
        found = None if table is None else converted(table, columns, layout)
        if table is None or found is None or not found.updates:
            return None
        target = write_target(found.table, run, former_ids=found.former_ids)
        return target, PlannedColumns(tuple(columns), SchemaState.of(table), layout)

    def fields(self, path: Sequence[str]) -> tuple[NamedType, ...] | None:
        """Return the columns of a table in their order, as names and lake types; None without a table.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        table = self.table(path)
        return None if table is None else tuple((one.name, lake_type(one.field_type)) for one in table.schema().fields)

    def planned(
        self, path: Sequence[str], fields: Sequence[PlannedField], run: str, layout: Layout | None = None
    ) -> tuple[WriteTarget, PlannedSchema | None]:
        """Return how a table that exists gets exactly the columns of ``fields``, and a layout of them.

        The columns have the order of ``fields``. It is the place for files that have them, and the plan, which :meth:`replace`
        commits with the files or without any. The plan is None where the table has them already. Columns that become another type
        are in the target's ``former_ids``. No layout stands for that of the table.

        Raises:
            LakeTableError: A partition field or the sort order of the table needs a column that goes, a column cannot be laid out
                as the layout says, or the fields are unclear.
        """
        table = self.catalog_of(path).load_table(self.identifier(path))
        staged = with_fields(table, fields, layout)
        target = write_target(staged.table, run, former_ids=staged.former_ids)
        plan = PlannedSchema(tuple(fields), SchemaState.of(table), layout, staged.lays_out)
        return target, plan if staged.updates else None

    def file_store(self, path: Sequence[str]) -> FileStore:
        """Return the store of a table's files for its readers; an empty one without a table.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        table = self.table(path)
        return FileStore() if table is None else FileStore.of(table)

    def replace(
        self,
        path: Sequence[str],
        rectangle: Rectangle,
        files: Sequence[WrittenFile],
        *,
        properties: Mapping[str, str] | None = None,
        base: Collection[str] | None = None,
        keep: Callable[[DataFile], bool] | None = None,
        assertion: Assertion | None = None,
        same_rows: bool = False,
        deletes: Sequence[WrittenDeletes] = (),
        applied: Collection[str] | None = None,
        columns: PlannedChange | None = None,
        tags: TagChange | None = None,
    ) -> Replaced:
        """Make ``files`` all that a table holds inside ``rectangle``; see :func:`dts_assets.store.commit.replace`."""
        return replace(
            self.catalog_of(path), self.identifier(path), rectangle, files, properties=properties, base=base, keep=keep,
            assertion=assertion, same_rows=same_rows, deletes=deletes, applied=applied, columns=columns, tags=tags,
        )  # fmt: skip

    def discard(self, path: Sequence[str], files: Iterable[WrittenFile | WrittenDeletes]) -> None:
        """Remove files of a table that no commit has seen.

        A file that cannot be removed is an orphan, which harms nothing.
        """
        paths = [file.path for file in files]
        store = self.file_store(path) if paths else FileStore()
        for one in paths:
            with suppress(OSError):
                file_io(store, one).delete(one)

    def data_files(
        self,
        path: Sequence[str],
        rectangle: Rectangle | None = None,
        *,
        snapshot_id: int | None = None,
        applies_deletes: bool = False,
        bounds: Sequence[str] = (),
    ) -> list[StoredFile]:
        """Return the live files inside ``rectangle`` (None: all), by partition and path.

        There are none if there is no table. ``applies_deletes`` says that the caller leaves out deleted rows; see
        :func:`dts_assets.store.delete_files.live_rows`. ``bounds`` are columns whose least and greatest values are wanted.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
            ForeignDeletesError: Rows are deleted there, and the caller reads whole files.
        """
        table = self.table(path)
        if table is None:
            return []
        with_deletes = files_with_deletes(table, rectangle or {}, snapshot_id=snapshot_id)
        if not applies_deletes and any(deletes for _, deletes in with_deletes):
            raise ForeignDeletesError(".".join(table.name()))
        columns = {name: table.schema().find_field(name) for name in bounds}
        found = [stored_file(table, file, deletes, columns) for file, deletes in with_deletes]
        return sorted(found, key=lambda file: ([str(value) for value in file.partition.values()], file.path))

    def files_apart(self, path: Sequence[str], one: int, other: int) -> tuple[list[StoredFile], list[StoredFile]]:
        """Return the live files of each of two Iceberg snapshots, without the manifests that both have.

        Delete files are among them: where they differ, rows do. See :func:`dts_assets.store.commit.files_apart`.
        """
        table = self.catalog_of(path).load_table(self.identifier(path))
        first, second = files_apart(table, one, other)
        return [stored_file(table, file) for file in first], [stored_file(table, file) for file in second]

    def state(self, path: Sequence[str]) -> TableState | None:
        """Return the table's current Iceberg snapshot; None without a table, or if nothing was ever committed to it.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        table = self.table(path)
        head = table.current_snapshot() if table is not None else None
        if head is None:
            return None
        return TableState(head.snapshot_id, dict(head.summary.additional_properties) if head.summary else {})

    def size(self, path: Sequence[str]) -> TableSize | None:
        """Return how large a table is now; None without a table or a commit to it.

        Files are counted where the engine that wrote the table has counted nothing, and where rows were deleted: Spark's totals
        go on counting the delete files of data files that it has replaced. Delete files of other programs that concern several
        data files are read, since some of their rows may be of files that are gone.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
            ForeignDeletesError: There are deletes of a kind that is not read here, and nothing was counted.
        """
        state = self.state(path)
        if state is None:
            return None
        rows, size = (state.properties.get(name) for name in ("total-records", "total-files-size"))
        told = TableSize(int(rows), int(size)) if rows is not None and size is not None else None
        if told is not None and state.properties.get("total-delete-files", "0") == "0":
            return told
        try:
            table = self.catalog_of(path).load_table(self.identifier(path))
            found = files_with_deletes(table, {}, snapshot_id=state.snapshot_id)
        except ForeignDeletesError:  # nobody can say how many rows these deletes concern
            if told is None:
                raise
            return told
        store = self.file_store(path)
        deletes = {one.file_path: one for _, some in found for one in some}.values()
        return TableSize(
            sum(_live_rows(store, file, some) for file, some in found),
            sum(file.file_size_in_bytes for file, _ in found) + sum(one.file_size_in_bytes for one in deletes),
        )

    def scan(
        self,
        path: Sequence[str],
        *,
        columns: Sequence[str] = ("*",),
        where: str | None = None,
        snapshot_id: int | None = None,
    ) -> pa.Table | None:
        """Return rows of a table in memory, ``where`` being an Iceberg filter; None without a table.

        All rows are in memory at once. pyiceberg reads a null ``list<struct>`` as an empty list.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        table = self.table(path)
        if table is None:
            return None
        scan = table.scan(selected_fields=tuple(columns), snapshot_id=snapshot_id)
        return (scan.filter(where) if where else scan).to_arrow()

    def batches(self, path: Sequence[str], *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows of a table, a part at a time; nothing without a table.

        Raises:
            LakeFormatError: Another version of dts-assets made the subscription's tables.
        """
        table = self.table(path)
        if table is not None:
            yield from table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lake, (self.location,)


def _live_rows(store: FileStore, file: DataFile, deletes: Sequence[DataFile]) -> int:
    if all(only_file(one) for one in deletes):
        return int(file.record_count - sum(one.record_count for one in deletes))
    return int(live_rows(store, file.file_path, file.record_count, [one.file_path for one in deletes]).sum())
