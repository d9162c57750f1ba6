"""The lake with deleted rows: what is read whole is refused, all else is told of them, and sizes count live rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent

from dts_assets.errors import ForeignDeletesError
from dts_assets.store.delete_files import live_rows, write_deletes
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.lake import Lake, TableSize
from dts_assets.store.open_files import open_parquet
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema
from tests.store.row_deletes import commit_foreign

if TYPE_CHECKING:
    from dts_assets.store.catalog import LakeLocation
    from dts_assets.store.stored_files import StoredFile
    from tests.store.conftest import Cells

PATH = ("shop", "numbers")


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    lake = Lake(lake_location)
    lake.ensure(PATH, layout(iceberg_schema((("number", "int"),))))
    return lake


def put(lake: Lake, numbers: list[int], **settings: object) -> tuple[WrittenFile, ...]:
    with TableWriter(lake.target(PATH, "run")) as writer:
        writer.write(pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int32())}))
        files = writer.close()
    lake.replace(PATH, {}, files, keep=lambda _: True)
    return files


def files(lake: Lake) -> list[StoredFile]:
    return lake.data_files(PATH, applies_deletes=True)


def delete(lake: Lake, path: str, rows: list[int]) -> int:
    applied = {one for file in files(lake) for one in file.deletes}
    deletes = write_deletes(lake.target(PATH, "run"), "0", np.array(rows, np.int64), data_file=path, partition=())
    done = lake.replace(PATH, {}, (), keep=lambda _: True, deletes=[deletes], applied=applied)
    assert done.snapshot_id is not None
    return done.snapshot_id


def test_each_file_tells_of_its_deletes(lake: Lake) -> None:
    (first,), (second,) = put(lake, [0, 1, 2, 3]), put(lake, [10, 11])
    delete(lake, first.path, [0])
    delete(lake, first.path, [2, 3])
    one, other = sorted(files(lake), key=lambda file: -file.rows)
    assert (one.path, one.rows, len(one.deletes), one.shared_deletes, one.deleted_rows) == (first.path, 4, 2, (), 3)
    assert (other.path, other.rows, other.deletes, other.deleted_rows) == (second.path, 2, (), 0)
    with open_parquet(lake.file_store(PATH), one.path) as file:
        mask = live_rows(lake.file_store(PATH), one.path, file.metadata.num_rows, one.deletes)
        assert file.read().filter(pa.array(mask)).to_pydict() == {"number": [1]}


def test_who_reads_whole_files_is_refused(lake: Lake) -> None:
    (file,) = put(lake, [0, 1])
    before = lake.state(PATH)
    delete(lake, file.path, [0])
    with pytest.raises(ForeignDeletesError, match="numbers"):
        lake.data_files(PATH)
    assert before is not None
    assert len(lake.data_files(PATH, snapshot_id=before.snapshot_id)) == 1, "the version before had none"


def test_pyiceberg_leaves_deleted_rows_out(lake: Lake) -> None:
    (first,), _ = put(lake, [0, 1, 2, 3]), put(lake, [10, 11])
    before = lake.state(PATH)
    delete(lake, first.path, [0, 2])
    assert before is not None

    def numbers(**settings: object) -> list[int]:
        found = lake.scan(PATH, **settings)  # type: ignore[arg-type]
        assert found is not None
        return sorted(found["number"].to_pylist())

    assert numbers() == [1, 3, 10, 11]
    assert numbers(where="number < 3") == [1], "a filter may leave out no delete file"
    assert numbers(snapshot_id=before.snapshot_id) == [0, 1, 2, 3, 10, 11]
    batches = lake.batches(PATH, columns=("number",))
    assert sorted(number for batch in batches for number in batch["number"].to_pylist()) == [1, 3, 10, 11]


def test_the_size_is_that_of_live_rows(lake: Lake) -> None:
    (first,), (second,) = put(lake, [0, 1, 2, 3]), put(lake, [10, 11])
    assert lake.size(PATH) == TableSize(6, first.bytes + second.bytes)
    delete(lake, first.path, [0, 2])
    size = lake.size(PATH)
    assert size is not None
    assert size.rows == 4
    assert size.bytes > first.bytes + second.bytes


def test_the_size_counts_no_deletes_of_files_that_are_gone(cells: Cells, lake_location: LakeLocation) -> None:
    """Spark's totals do: it leaves delete files in the table whose data file it has replaced."""
    lake = Lake(lake_location)
    path = cells.identifier
    lake.replace(path, {}, cells.write([(0, 0)], "rows", rows=5))
    (file,) = lake.data_files(path)
    commit_foreign(
        cells, [("file:///gone.parquet", 1), ("file:///gone.parquet", 2)], bounds=True, partition_of_path=file.path
    )
    state, size = lake.state(path), lake.size(path)
    assert state is not None
    assert state.properties["total-position-deletes"] == "2"
    assert size is not None
    assert size.rows == 5


def test_the_size_is_told_beside_deletes_that_are_not_read(cells: Cells, lake_location: LakeLocation) -> None:
    lake = Lake(lake_location)
    lake.replace(cells.identifier, {}, cells.write([(0, 0)], "rows", rows=5))
    (file,) = lake.data_files(cells.identifier)
    commit_foreign(cells, [(file.path, 1)], bounds=True, content=DataFileContent.EQUALITY_DELETES)
    size = lake.size(cells.identifier)
    assert size is not None
    assert size.rows == 5


def test_deletes_of_several_files_are_told_apart(cells: Cells, lake_location: LakeLocation) -> None:
    lake = Lake(lake_location)
    for generation in "ab":
        lake.replace(cells.identifier, {}, cells.write([(0, 0)], generation, rows=5), keep=lambda _: True)
    one, other = (file.path for file in lake.data_files(cells.identifier))
    shared = commit_foreign(cells, [(one, 1), (other, 2)], bounds=False)
    for file in lake.data_files(cells.identifier, applies_deletes=True):
        assert (file.deletes, file.shared_deletes, file.deleted_rows) == ((shared,), (shared,), 0)
    size = lake.size(cells.identifier)
    assert size is not None
    assert size.rows == 8


def test_deletes_that_no_commit_has_seen_are_removed(lake: Lake) -> None:
    (file,) = put(lake, [0, 1])
    made = write_deletes(lake.target(PATH, "run"), "0", np.array([1]), data_file=file.path, partition=())
    store = lake.file_store(PATH)
    assert live_rows(store, file.path, 2, [made.path]).tolist() == [True, False]
    lake.discard(PATH, [made])
    with pytest.raises(FileNotFoundError):
        live_rows(store, file.path, 2, [made.path])
