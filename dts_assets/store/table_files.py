"""The files of a table: those that its versions hold, and those that lie in its folders.

What versions hold stands in Iceberg's metadata, where each manifest is read once. What lies in the folders the file store lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from dts_assets.store.table_folders import FOLDER_PROPERTIES, folders_of, place_of

_OWN = ("data", "metadata")
"""The folders in a table's location that its files lie in. Beside them other tables may have theirs."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file that a version holds: its bytes, and its rows if it has rows of the table."""

    bytes: int
    rows: int = 0


@dataclass(slots=True)
class HeldFiles:
    """The files that versions of a table hold, by their places. A manifest is read once, however many versions have it."""

    table: Table
    _manifests: dict[str, Mapping[str, HeldFile]] = field(default_factory=dict)

    def of(self, snapshots: Iterable[Snapshot]) -> dict[str, HeldFile]:
        """Return the data, delete and manifest files that some versions hold, and their lists of manifests.

        The bytes of lists are not known, and are 0.
        """
        found: dict[str, HeldFile] = {}
        for snapshot in snapshots:
            found[place_of(snapshot.manifest_list)] = HeldFile(0)
            for manifest in snapshot.manifests(self.table.io):
                path = place_of(manifest.manifest_path)
                if path not in self._manifests:
                    self._manifests[path] = {
                        place_of(entry.data_file.file_path): HeldFile(
                            int(entry.data_file.file_size_in_bytes),
                            int(entry.data_file.record_count) if entry.data_file.content == DataFileContent.DATA else 0,
                        )
                        for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True)
                    }
                found[path] = HeldFile(int(manifest.manifest_length))
                found |= self._manifests[path]
        return found


def named_places(table: Table) -> set[str]:
    """Return the places of all files that a table names: of versions, metadata and statistics."""
    metadata = table.metadata
    beside = [table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)]
    beside += [one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics)]
    return {*HeldFiles(table).of(metadata.snapshots), *map(place_of, beside)}


@dataclass(frozen=True, slots=True)
class LyingFile:
    """A file in a table's folders: its place, its bytes, and its time by the store's clock."""

    place: str
    bytes: int
    written_at: datetime


def lying_files(table: Table, *, without: Collection[str] = ()) -> Iterator[LyingFile]:
    """Yield the files that lie in a table's own folders, but not in those of other tables (``without``)."""
    properties, seen = table.properties, set[str]()
    location = table.location().rstrip("/")
    folders = [f"{location}/{name}" for name in _OWN] + [
        properties[name] for name in FOLDER_PROPERTIES if name in properties
    ]
    own = set(folders_of(table))
    others = tuple(one for one in without if one not in own)
    io = PyArrowFileIO(table.io.properties)
    for folder in folders:
        scheme, netloc, path = PyArrowFileIO.parse_location(folder, table.io.properties)
        store = io.fs_by_scheme(scheme, netloc)
        for one in store.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
            place = one.path if scheme == "file" or one.path.startswith(netloc) else f"{netloc}/{one.path}"
            hidden = one.base_name.startswith(".")  # a lock of commits: whoever waits for it has it open
            if one.type != FileType.File or hidden or place in seen or place.startswith(others):
                continue
            seen.add(place)
            yield LyingFile(place, int(one.size or 0), one.mtime.astimezone(UTC))
