"""The delete files of a data file: those that pyiceberg's index finds, for any bounds, sequence numbers and partitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.typedef import Record

from dts_assets.store.delete_files import PATH_ID
from dts_assets.store.delete_index import DeleteIndex, only_file

PATHS = ("file:///a", "file:///b", "file:///c", "file:///é")


def entry(path: str, sequence_number: int, *, place: tuple[int, int] = (0, 0), bounds: Any = None) -> ManifestEntry:
    """A data file, or with ``bounds`` a delete file; ``place`` is its partition spec and partition."""
    made = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES if bounds is not None else DataFileContent.DATA, file_path=path,
        file_format=FileFormat.PARQUET, partition=Record(place[1]), record_count=3, file_size_in_bytes=10,
        lower_bounds=None if not bounds else {PATH_ID: bounds[0].encode()},
        upper_bounds=None if not bounds else {PATH_ID: bounds[1].encode()},
    )  # fmt: skip
    made.spec_id = place[0]
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING, snapshot_id=1, sequence_number=sequence_number,
        file_sequence_number=sequence_number, data_file=made,
    )  # fmt: skip


places = st.tuples(st.integers(0, 1), st.integers(0, 1))
bounds = st.one_of(
    st.just(()), st.tuples(st.sampled_from(PATHS), st.sampled_from(PATHS)).map(lambda two: tuple(sorted(two)))
)


@given(st.lists(st.tuples(st.integers(1, 4), places, bounds), max_size=6), st.integers(1, 4), places)
def test_the_delete_files_are_those_that_pyiceberg_applies(
    deletes: list[tuple[int, tuple[int, int], Any]], sequence_number: int, place: tuple[int, int]
) -> None:
    made = [
        entry(f"d{number}", sequence, place=where, bounds=some)
        for number, (sequence, where, some) in enumerate(deletes)
    ]
    theirs, ours = DeleteFileIndex(), DeleteIndex(made)
    for one in made:
        theirs.add_delete_file(one, partition_key=one.data_file.partition)
    assert ours.paths == {f"d{number}" for number in range(len(deletes))}
    for path in PATHS:
        data = entry(path, sequence_number, place=place)
        found = theirs.for_data_file(sequence_number, data.data_file, partition_key=data.data_file.partition)
        assert sorted(one.file_path for one in ours.of(data)) == sorted(one.file_path for one in found)


@pytest.mark.parametrize(("number", "applies"), [(1, False), (2, True), (3, True)])
@pytest.mark.parametrize("some", [(), ("file:///a", "file:///a"), ("file:///a", "file:///b")])
def test_a_delete_file_of_the_same_commit_applies(some: Any, number: int, applies: bool) -> None:
    index = DeleteIndex([entry("d", number, bounds=some)])
    assert bool(index.of(entry("file:///a", 2))) is applies


def test_bounds_that_leave_no_room_for_a_path() -> None:
    index = DeleteIndex([entry("d", 2, bounds=("file:///b", "file:///c"))])
    assert [path for path in PATHS if index.of(entry(path, 1))] == ["file:///b", "file:///c"]


def test_the_only_file_of_a_delete_file() -> None:
    assert only_file(entry("d", 1, bounds=("file:///é", "file:///é")).data_file) == "file:///é"
    assert only_file(entry("d", 1, bounds=("file:///a", "file:///b")).data_file) is None
    assert only_file(entry("d", 1, bounds=()).data_file) is None


def test_the_oldest_comes_first() -> None:
    index = DeleteIndex(
        [entry("d3", 3, bounds=()), entry("d1", 1, bounds=()), entry("d2", 2, bounds=("file:///a",) * 2)]
    )
    assert [one.file_path for one in index.of(entry("file:///a", 1))] == ["d1", "d2", "d3"]
