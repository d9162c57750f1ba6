"""The delete files of a version of a table, by the data files that they concern.

By Iceberg's rule (version 2) a position delete applies to data files of its own partition that are not newer, by their data
sequence numbers, than itself. The bounds of its paths say more: if they are equal it concerns that data file alone, wherever
readers find it. If they are absent it may concern each data file of the partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry

from dts_assets.store.delete_files import PATH_ID


def only_file(deletes: DataFile) -> str | None:
    """Return the data file that a position delete file concerns alone; None if it may concern others, too."""
    low, high = ((bounds or {}).get(PATH_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return low.decode() if low and low == high else None


def is_known_kind(deletes: DataFile) -> bool:
    """Return whether a delete file is of the one kind that is read here: positions, in Parquet."""
    return deletes.content == DataFileContent.POSITION_DELETES and deletes.file_format == FileFormat.PARQUET


class DeleteIndex:
    """The live position delete files of a table, by the data files that they may concern.

    ``paths`` are those of all of them.
    """

    def __init__(self, entries: Iterable[ManifestEntry] = ()) -> None:
        self.paths: set[str] = set()
        self._by_file: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._by_partition: dict[tuple[Any, ...], list[ManifestEntry]] = defaultdict(list)
        for entry in entries:
            alone = only_file(entry.data_file)
            self.paths.add(entry.data_file.file_path)
            if alone is None:
                self._by_partition[_partition(entry)].append(entry)
            else:
                self._by_file[alone].append(entry)

    def of(self, data: ManifestEntry) -> list[DataFile]:
        """Return the delete files that may concern a data file, the oldest first."""
        path = data.data_file.file_path
        found = [
            *self._by_file.get(path, ()),
            *(one for one in self._by_partition.get(_partition(data), ()) if _may_name(one.data_file, path)),
        ]
        not_older = [one for one in found if (one.sequence_number or 0) >= (data.sequence_number or 0)]
        return [one.data_file for one in sorted(not_older, key=lambda one: one.sequence_number or 0)]


def _partition(entry: ManifestEntry) -> tuple[Any, ...]:
    """Return a key of an entry's partition spec and partition."""
    file = entry.data_file
    return (file.spec_id, *(file.partition[number] for number in range(len(file.partition))))


def _may_name(deletes: DataFile, path: str) -> bool:
    """Return whether the bounds of a delete file's paths leave room for a path. A bound may be cut off."""
    text = path.encode()
    low, high = ((bounds or {}).get(PATH_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return (low is None or low <= text) and (high is None or text <= high)
