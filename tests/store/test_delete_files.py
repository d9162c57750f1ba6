"""Position delete files: written as Iceberg wants them, and read whoever wrote them."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dts_assets.errors import LakeTableError
from dts_assets.store.delete_files import PATH_ID, POSITION_ID, deleted_positions, live_rows, write_deletes
from dts_assets.store.file_stores import FileStore
from dts_assets.store.types import FIELD_ID
from tests.store.row_deletes import foreign_file

if TYPE_CHECKING:
    from tests.store.conftest import Cells

STORE = FileStore()
FILE = "file:///lake/shop/cells/data/run/a.parquet"


def of(numbers: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def write(cells: Cells, rows: Any, **settings: Any) -> Any:
    return write_deletes(cells.target(), "0", of(rows), data_file=FILE, partition=(0, cells.window(0)), **settings)


class TestWriting:
    def test_the_file_is_as_the_format_says(self, cells: Cells) -> None:
        made = write(cells, [0, 3, 70_000])
        assert (made.data_file, made.rows, made.partition) == (FILE, 3, (0, cells.window(0)))
        local = Path(made.path.removeprefix("file://"))
        assert local.stat().st_size == made.bytes
        with pq.ParquetFile(local) as file:
            fields = [(one.name, one.type, one.nullable, int(one.metadata[FIELD_ID])) for one in file.schema_arrow]
            assert fields == [
                ("file_path", pa.string(), False, PATH_ID),
                ("pos", pa.int64(), False, POSITION_ID),
            ]
            assert file.read().to_pydict() == {"file_path": [FILE] * 3, "pos": [0, 3, 70_000]}
            bounds = file.metadata.row_group(0).column(0).statistics
            assert (bounds.min, bounds.max) == (FILE, FILE)

    @pytest.mark.parametrize("rows", [[], [2, 1], [1, 1], [-1, 3]])
    def test_numbers_that_are_no_rows_are_refused(self, rows: list[int], cells: Cells) -> None:
        with pytest.raises(LakeTableError, match="ascending"):
            write(cells, rows)
        assert not list(Path(cells.target().location.removeprefix("file://")).rglob("*-deletes.parquet"))

    def test_a_file_may_stand_for_earlier_ones(self, cells: Cells) -> None:
        earlier = [write(cells, [5]), write(cells, [1, 9])]
        made = write(cells, [2, 7], instead_of=[one.path for one in earlier])
        assert (made.rows, made.instead_of) == (5, tuple(one.path for one in earlier))
        assert deleted_positions(STORE, FILE, [made.path]).tolist() == [1, 2, 5, 7, 9]

    def test_a_row_is_not_deleted_twice(self, cells: Cells) -> None:
        earlier = write(cells, [1, 5])
        with pytest.raises(LakeTableError, match="twice"):
            write(cells, [5, 6], instead_of=[earlier.path])

    def test_an_error_leaves_no_file_behind(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(pq, "write_table", full)
        with pytest.raises(OSError, match="no space"):
            write(cells, [1])
        assert not list(Path(cells.target().location.removeprefix("file://")).rglob("*-deletes.parquet"))

    def test_large_files_are_small(self, cells: Cells) -> None:
        rows = np.sort(np.random.default_rng(7).choice(1_000_000, 10_000, replace=False)).astype(np.int64)
        made = write(cells, rows)
        assert made.bytes < 2.5 * made.rows
        assert (deleted_positions(STORE, FILE, [made.path]) == rows).all()


class TestReading:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        files=st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), min_size=1), max_size=3),
        row_group=st.integers(1, 5),
        rows=st.integers(0, 50),
    )
    def test_any_writers_files_are_read(
        self, files: list[list[tuple[str, int]]], row_group: int, rows: int, cells: Cells
    ) -> None:
        paths = [foreign_file(cells, some, row_group=row_group) for some in dict.fromkeys(map(tuple, files))]
        for name in "abcd":
            expected = sorted({at for some in files for one, at in some if one == name})
            found = deleted_positions(STORE, name, paths)
            assert (str(found.dtype), found.tolist()) == ("int64", expected)
            live = live_rows(STORE, name, rows, paths)
            assert (str(live.dtype), live.tolist()) == ("bool", [at not in expected for at in range(rows)])

    def test_row_groups_of_other_files_are_not_read(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        path = foreign_file(cells, [("a", 1), ("a", 2), ("b", 3), ("b", 4), ("c", 5), ("d", 6)], row_group=2)
        real, read = pq.ParquetFile.read_row_group, list[int]()

        def noted(self: pq.ParquetFile, group: int, *rest: Any) -> Any:
            read.append(group)
            return real(self, group, *rest)

        monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
        assert deleted_positions(STORE, "b", [path]).tolist() == [3, 4]
        assert read == [1]

    def test_without_delete_files_all_rows_are_live(self) -> None:
        assert live_rows(STORE, FILE, 3, []).tolist() == [True] * 3

    def test_a_file_of_another_kind_is_refused(self, cells: Cells) -> None:
        (file,) = cells.write([(0, 0)], "rows")
        with pytest.raises(LakeTableError, match="no column with the id 2147483546"):
            deleted_positions(STORE, FILE, [file.path])


def test_a_target_with_another_compression_is_written_so(cells: Cells) -> None:
    target = changed(cells.target(), compression="gzip")
    made = write_deletes(target, "0", of([1]), data_file=FILE, partition=())
    with pq.ParquetFile(made.path.removeprefix("file://")) as file:
        assert file.metadata.row_group(0).column(1).compression == "GZIP"
