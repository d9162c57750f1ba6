"""The files of a new version of a table: manifests, and the list that names them.

Files that stay keep their manifests, but for those that lose a file; small manifests are merged when they are many. Data files
and delete files never share a manifest. pyiceberg writes manifests of data files alone, so :class:`_DeletesWriter` says of the
same writer that its entries are delete files.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.transforms import IdentityTransform

from dts_assets.store.data_files import instant_of
from dts_assets.store.durable import bring_to_disk
from dts_assets.store.replacement_plan import Plan, Touched
from dts_assets.store.table_folders import OWN_SIGN

MERGE_AT = 20
"""The number of manifests less than half full from which they are merged."""

MANIFEST_FILES = 250
"""Files per manifest, neighbours in partition order.

A replacement rewrites the manifests that it takes files from: with all of 2,000 files in one manifest it took 0.6 s (narrow rows)
to 1.4 s (two 30-column images).
"""

_COMPRESSION: Literal["deflate"] = "deflate"

TURNS = "dts-assets.turns"
"""The property of a commit that names who writes the table's marks; see :mod:`dts_assets.store.turns`.

Every later commit of this module repeats it.
"""


REPLACED_WINDOWS = "dts-assets.replaced-windows"
"""The entry in a commit's summary that names the windows to read again: ``2026-01-05T07:00:00+00:00,...``."""

_WINDOW = "window_start"


class _DeletesWriter(ManifestWriterV2):
    """A writer of a manifest of delete files."""

    def content(self) -> ManifestContent:
        """Return the kind of the files."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(slots=True)
class NewVersion:
    """The Iceberg snapshot of one try, with the files written for it. Nobody knows of them before the catalog is asked.

    ``same_rows`` says that the new data files hold the rows of the removed ones.
    """

    table: Table
    snapshot_id: int
    same_rows: bool = False
    _written: list[str] = field(default_factory=list)

    def write(
        self, plan: Plan, made: Sequence[DataFile], properties: Mapping[str, str], *, deletes: Sequence[DataFile] = ()
    ) -> Snapshot:
        """Write the manifests of a replacement, and return its Iceberg snapshot.

        ``made`` are the new data files and ``deletes`` the new delete files. All of them, and the manifests, are on the disk
        then. An error leaves no file behind.
        """
        try:
            snapshot = self._snapshot(plan, made, deletes, properties)
            bring_to_disk([*self._written, *(file.file_path for file in (*made, *deletes))])
            return snapshot
        except Exception:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove what was written. Right only if the catalog has refused the version, or was never asked."""
        for path in self._written:
            with suppress(OSError):
                self.table.io.delete(path)

    def _snapshot(
        self, plan: Plan, made: Sequence[DataFile], deletes: Sequence[DataFile], properties: Mapping[str, str]
    ) -> Snapshot:
        manifests = [
            *self._added(made),
            *self._added(deletes, ManifestContent.DELETES),
            *(self._rewritten(touched) for touched in plan.touched),
            *self._merged(plan.untouched),
        ]
        head = self.table.current_snapshot()
        parent = head.snapshot_id if head is not None else None
        sequence_number = self.table.metadata.next_sequence_number()
        path = self._new_path(f"snap-{self.snapshot_id}-0-{OWN_SIGN}{uuid.uuid4()}.avro")
        with write_manifest_list(
            format_version=self.table.metadata.format_version,
            output_file=self.table.io.new_output(path),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=_COMPRESSION,
        ) as writer:
            writer.add_manifests(manifests)
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            manifest_list=path,
            sequence_number=sequence_number,
            summary=self._summary(plan, made, deletes, properties),
            schema_id=self.table.metadata.current_schema_id,
        )

    def _added(self, made: Sequence[DataFile], content: ManifestContent = ManifestContent.DATA) -> list[ManifestFile]:
        entries = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self.snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in made
        ]
        return self._manifests(entries, content)

    def _rewritten(self, touched: Touched) -> ManifestFile:
        kept = [_with_status(entry, ManifestEntryStatus.EXISTING) for entry in touched.kept]
        gone = [_with_status(entry, ManifestEntryStatus.DELETED, self.snapshot_id) for entry in touched.removed]
        manifest = touched.manifest
        return self._manifest(manifest.partition_spec_id, kept + gone, manifest.content)

    def _merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return the manifests that no file was taken from; many small ones of a kind are merged."""
        merged: list[ManifestFile] = []
        for content in ManifestContent:
            merged += self._merged_of(content, [one for one in manifests if one.content == content])
        return merged

    def _merged_of(self, content: ManifestContent, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        small = {
            one.manifest_path: one
            for one in manifests
            if one.partition_spec_id == self.table.metadata.default_spec_id
            and (one.added_files_count or 0) + (one.existing_files_count or 0) < MANIFEST_FILES // 2
        }
        if len(small) < MERGE_AT:
            return list(manifests)
        entries = [
            _with_status(entry, ManifestEntryStatus.EXISTING)
            for one in small.values()
            for entry in one.fetch_manifest_entry(self.table.io)
        ]
        return [*self._manifests(entries, content), *(one for one in manifests if one.manifest_path not in small)]

    def _manifests(self, entries: Sequence[ManifestEntry], content: ManifestContent) -> list[ManifestFile]:
        """Write entries in partition order, spec by spec, at most :data:`MANIFEST_FILES` to a manifest."""
        made: list[ManifestFile] = []
        for spec_id in sorted({entry.data_file.spec_id for entry in entries}):
            mine = sorted((one for one in entries if one.data_file.spec_id == spec_id), key=_partition_order)
            starts = range(0, len(mine), MANIFEST_FILES)
            made += [self._manifest(spec_id, mine[start : start + MANIFEST_FILES], content) for start in starts]
        return made

    def _manifest(self, spec_id: int, entries: Sequence[ManifestEntry], content: ManifestContent) -> ManifestFile:
        path = self._new_path(f"{OWN_SIGN}{uuid.uuid4()}-m0.avro")
        with self._writer(spec_id, path, content) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, spec_id: int, path: str, content: ManifestContent) -> ManifestWriter:
        metadata = self.table.metadata
        spec, output = metadata.specs()[spec_id], self.table.io.new_output(path)
        schema = _schema_of(spec, metadata)
        if content == ManifestContent.DELETES:
            return _DeletesWriter(spec, schema, output, self.snapshot_id, _COMPRESSION)
        return write_manifest(
            format_version=metadata.format_version,
            spec=spec,
            schema=schema,
            output_file=output,
            snapshot_id=self.snapshot_id,
            avro_compression=_COMPRESSION,
        )

    def _new_path(self, name: str) -> str:
        path = self.table.location_provider().new_metadata_location(name)
        self._written.append(path)
        return path

    def _summary(
        self, plan: Plan, made: Sequence[DataFile], deletes: Sequence[DataFile], properties: Mapping[str, str]
    ) -> Summary:
        specs, schema = self.table.metadata.specs(), self.table.metadata.schema()
        collector = SnapshotSummaryCollector()
        for file in (*made, *deletes):
            collector.add_file(file, schema, specs[file.spec_id])
        for entry in (*plan.removed, *plan.dropped):
            collector.remove_file(entry.data_file, schema, specs[entry.data_file.spec_id])
        head = self.table.current_snapshot()
        before = head.summary.additional_properties if head is not None and head.summary else None
        told = {TURNS: before[TURNS]} if before is not None and TURNS in before else {}
        if (starts := _replaced_windows(self.table, plan, made)) and not self.same_rows:
            told[REPLACED_WINDOWS] = ",".join(starts)
        made_up = update_snapshot_summaries(
            summary=Summary(
                operation=_operation(added=bool(made), removed=bool(plan.removed), deletes=bool(deletes)),
                **{**collector.build(), **told, **properties},
            ),
            previous_summary=before,
        )
        if self.same_rows:  # set afterwards: pyiceberg sums up no replacement
            return Summary(operation=Operation.REPLACE, **made_up.additional_properties)
        return made_up


def _schema_of(spec: PartitionSpec, metadata: TableMetadata) -> Schema:
    """Return the newest schema that has the columns of a spec.

    A former spec may have one that was dropped since. Without its column a partition field would have no type, and its values
    could not be written again.
    """
    needed = {one.source_id for one in spec.fields}
    known = (metadata.schema(), *sorted(metadata.schemas, key=lambda one: -one.schema_id))
    return next((one for one in known if needed.issubset(one.field_ids)), known[0])


def _replaced_windows(table: Table, plan: Plan, made: Sequence[DataFile]) -> list[str]:
    """Return the starts of the windows whose rows a commit changes that removes files.

    Windows that only get files are among them: a reader that takes the rows of appends alone would not see these rows.
    An example is ``2026-01-05T07:00:00+00:00``.
    """
    if not plan.removed:
        return []
    places = {
        spec_id: number
        for spec_id, spec in table.metadata.specs().items()
        for number, one in enumerate(spec.fields)
        if one.name == _WINDOW and isinstance(one.transform, IdentityTransform)
    }
    files = (*made, *(entry.data_file for entry in plan.removed))
    found = {file.partition[places[file.spec_id]] for file in files if file.spec_id in places}
    return [instant_of(start).isoformat() for start in sorted(found)]


def _operation(*, added: bool, removed: bool, deletes: bool) -> Operation:
    """Return the operation of a commit that adds data files, removes some, or adds delete files.

    Readers that follow a table, such as Spark's streams, take appends alone, so nothing is one by which rows go. Spark calls a
    commit that adds delete files and nothing else a delete.
    """
    if removed or (added and deletes):
        return Operation.OVERWRITE
    return Operation.DELETE if deletes else Operation.APPEND


def _partition_order(entry: ManifestEntry) -> list[tuple[bool, Any]]:
    partition = entry.data_file.partition
    return [(partition[number] is not None, partition[number]) for number in range(len(partition))]


def _with_status(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None = None) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id if snapshot_id is not None else entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
