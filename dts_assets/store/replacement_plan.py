"""The files of a table that a replacement takes out of a rectangle of partitions, manifest by manifest.

Delete files follow their data files: one that no data file is left for goes. It goes only if that is sure, which it is of a
delete file of one data file that goes, and of one of several data files if all files of its partition were looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from dts_assets.errors import ForeignDeletesError
from dts_assets.store.data_files import partition_value
from dts_assets.store.delete_index import DeleteIndex, is_known_kind, only_file


@dataclass(slots=True)
class Touched:
    """A manifest with files inside the rectangle: its entries that stay, and those that go."""

    manifest: ManifestFile
    kept: list[ManifestEntry] = field(default_factory=list)
    removed: list[ManifestEntry] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """The manifests of a table: those with files inside the rectangle, and the others.

    ``staying`` are the entries of data files that were looked at and stay, by path, and ``inside`` the paths among them that lie
    inside the rectangle. ``complete`` says that all data files were looked at. ``deletes`` finds the delete files of an entry.
    """

    touched: list[Touched] = field(default_factory=list)
    untouched: list[ManifestFile] = field(default_factory=list)
    staying: dict[str, ManifestEntry] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    complete: bool = True
    deletes: DeleteIndex = field(default_factory=DeleteIndex)
    dropped: list[ManifestEntry] = field(default_factory=list)
    _delete_manifests: list[tuple[ManifestFile, list[tuple[ManifestEntry, bool]]]] = field(default_factory=list)

    @property
    def removed(self) -> list[ManifestEntry]:
        """The entries of data files that go."""
        return [
            entry
            for touched in self.touched
            if touched.manifest.content == ManifestContent.DATA
            for entry in touched.removed
        ]

    def note_deletes(self, manifest: ManifestFile, entries: Iterable[tuple[ManifestEntry, bool]]) -> None:
        """Take a manifest of delete files in, each entry with whether it lies inside the rectangle."""
        self._delete_manifests.append((manifest, list(entries)))
        self.untouched.append(manifest)

    def index_deletes(self) -> None:
        """Make ``deletes`` of all manifests of delete files."""
        entries = (entry for _, some in self._delete_manifests for entry, _ in some if is_known_kind(entry.data_file))
        self.deletes = DeleteIndex(entries)

    def drop_deletes(self, replaced: Collection[str]) -> None:
        """Take out the delete files that concern no data file any more, and the ``replaced`` ones (paths)."""
        gone = {entry.data_file.file_path for entry in self.removed}
        shared = any(only_file(entry.data_file) is None for _, some in self._delete_manifests for entry, _ in some)
        needed = {one.file_path for entry in self.staying.values() for one in self.deletes.of(entry)} if shared else ()
        for manifest, entries in self._delete_manifests:
            touched = Touched(manifest)
            for entry, is_inside in entries:
                file, alone = entry.data_file, only_file(entry.data_file)
                if file.file_path in replaced:
                    goes = True
                elif not is_known_kind(file):
                    goes = False
                elif alone is not None:  # readers look for its data file in all partitions
                    goes = alone in gone or (self.complete and alone not in self.staying)
                else:
                    goes = is_inside and file.file_path not in needed
                (touched.removed if goes else touched.kept).append(entry)
            if touched.removed:
                self.untouched.remove(manifest)
                self.touched.append(touched)
                self.dropped += touched.removed


def plan_replacement(
    table: Table,
    snapshot: Snapshot | None,
    wanted: Mapping[str, frozenset[Any]],
    keep: Callable[[DataFile], bool] | None = None,
) -> Plan:
    """Return the plan for an Iceberg snapshot: its files inside ``wanted`` go, except those that ``keep`` names.

    Both kinds of manifests are listed, apart from manifests without a live file. Delete files stay at first, all of them.

    Raises:
        ForeignDeletesError: There are deletes inside by values of columns, or in another format than Parquet.
    """
    plan = Plan()
    names = field_names(table)
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        if not manifest.has_added_files() and not manifest.has_existing_files():
            continue
        if manifest.content == ManifestContent.DELETES:
            plan.note_deletes(manifest, _deletes_of(table, manifest, wanted))
            continue
        if not may_meet(table, manifest, wanted):
            plan.complete = False
            plan.untouched.append(manifest)
            continue
        touched = Touched(manifest)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            inside = lies_inside(names[manifest.partition_spec_id], entry.data_file, wanted)
            if inside and not (keep is not None and keep(entry.data_file)):
                touched.removed.append(entry)
                continue
            touched.kept.append(entry)
            plan.staying[entry.data_file.file_path] = entry
            if inside:
                plan.inside.add(entry.data_file.file_path)
        if touched.removed:
            plan.touched.append(touched)
        else:
            plan.untouched.append(manifest)
    plan.index_deletes()
    return plan


def _deletes_of(
    table: Table, manifest: ManifestFile, wanted: Mapping[str, frozenset[Any]]
) -> list[tuple[ManifestEntry, bool]]:
    """Return the live entries of a manifest of delete files, each with whether it lies inside the rectangle.

    Raises:
        ForeignDeletesError: One inside is of a kind that is not known here, or one applies to all partitions.
    """
    names = field_names(table)[manifest.partition_spec_id]
    found = [
        (entry, lies_inside(names, entry.data_file, wanted))
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    # Deletes by values of columns that have no partition apply to the whole table.
    if any((inside or not names) and not is_known_kind(entry.data_file) for entry, inside in found):
        raise ForeignDeletesError(
            ".".join(table.name()), "another program has deleted rows of it in a way that is not read here"
        )
    return found


def may_meet(table: Table, manifest: ManifestFile, wanted: Mapping[str, frozenset[Any]]) -> bool:
    """Return whether the partition bounds of a manifest leave room for a file inside the rectangle."""
    spec = table.metadata.specs()[manifest.partition_spec_id]
    fields = spec.partition_type(table.metadata.schema()).fields
    for one, bounds in zip(fields, manifest.partitions or (), strict=False):
        values, kind = wanted.get(one.name), one.field_type
        if values is None or bounds.lower_bound is None or bounds.upper_bound is None:
            continue
        assert isinstance(kind, PrimitiveType), "a partition field is never nested"
        low = partition_value(from_bytes(kind, bounds.lower_bound))
        high = partition_value(from_bytes(kind, bounds.upper_bound))
        if not any(low <= value <= high for value in values):
            return False
    return True


def lies_inside(names: Sequence[str], file: DataFile, wanted: Mapping[str, frozenset[Any]]) -> bool:
    """Return whether all rows of a file lie inside the rectangle.

    A partition field that the file lacks or holds null puts it outside.
    """
    values = {name: file.partition[number] for number, name in enumerate(names)}
    return all(partition_value(values.get(name)) in inside for name, inside in wanted.items())


def field_names(table: Table) -> dict[int, list[str]]:
    """Return the names of partition fields by partition spec: ``{0: ["kafka_partition", "window_start"]}``."""
    return {spec.spec_id: [one.name for one in spec.fields] for spec in table.metadata.partition_specs}
