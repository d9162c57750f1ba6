"""The files of a table that a replacement takes out of a rectangle of partitions, manifest by manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from dts_assets.errors import LakeTableError
from dts_assets.store.data_files import partition_value


@dataclass(slots=True)
class Touched:
    """A manifest with files inside the rectangle: its entries that stay, and those that go."""

    manifest: ManifestFile
    kept: list[ManifestEntry] = field(default_factory=list)
    removed: list[ManifestEntry] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """The manifests of a table: those with files inside the rectangle, and the others."""

    touched: list[Touched] = field(default_factory=list)
    untouched: list[ManifestFile] = field(default_factory=list)

    @property
    def removed(self) -> list[ManifestEntry]:
        """The entries that go."""
        return [entry for touched in self.touched for entry in touched.removed]


def plan_replacement(
    table: Table,
    snapshot: Snapshot | None,
    wanted: Mapping[str, frozenset[Any]],
    keep: Callable[[DataFile], bool] | None = None,
) -> Plan:
    """Return the plan for an Iceberg snapshot: its files inside ``wanted`` go, except those that ``keep`` names.

    Both kinds of manifests are listed, apart from manifests without a live file.

    Raises:
        LakeTableError: A manifest of row-level deletes has files inside.
    """
    plan = Plan()
    names = field_names(table)
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        if not manifest.has_added_files() and not manifest.has_existing_files():
            continue
        if not may_meet(table, manifest, wanted):
            plan.untouched.append(manifest)
            continue
        if manifest.content != ManifestContent.DATA:
            raise LakeTableError(
                ".".join(table.name()),
                "another program has deleted single rows of it, by delete files, where whole files are to be replaced",
                "rewrite its data files first (Spark's procedure rewrite_data_files with delete-file-threshold 1)",
            )
        touched = Touched(manifest)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            inside = lies_inside(names[manifest.partition_spec_id], entry.data_file, wanted)
            inside = inside and not (keep is not None and keep(entry.data_file))
            (touched.removed if inside else touched.kept).append(entry)
        if touched.removed:
            plan.touched.append(touched)
        else:
            plan.untouched.append(manifest)
    return plan


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
