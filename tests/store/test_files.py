"""Files of workers: one per partition tuple, bounded in memory, read back in order, forwards and backwards."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io import OutputFile, load_file_io

from dts_assets.errors import LakeTableError
from dts_assets.model.offsets import OffsetRange
from dts_assets.store import files
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, read_batches
from dts_assets.store.types import FIELD_ID
from tests.tiers import examples

if TYPE_CHECKING:
    from tests.store.conftest import Cells


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


SCHEMA = pa.schema([field("part", pa.int32(), 1), field("offset", pa.int64(), 2), field("payload", pa.binary(), 3)])


def target(folder: Path, *partition_by: str) -> WriteTarget:
    return WriteTarget(f"file://{folder}", SCHEMA.serialize().to_pybytes(), partition_by, "run")


def offsets(first: int, count: int, *, part: int = 0, size: int = 100) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "part": pa.array([part] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "payload": [bytes(size)] * count,
        }
    )


class TestWriting:
    @settings(examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        batches=st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=6),
        row_group_bytes=st.sampled_from([1, 200, 1 << 20]),
        buffer_bytes=st.sampled_from([1, 500, 1 << 20]),
    )
    def test_every_row_is_in_the_file_of_its_tuple_in_order(
        self, tmp_path: Path, batches: list[list[int]], row_group_bytes: int, buffer_bytes: int
    ) -> None:
        wanted: dict[int, list[int]] = {}
        with TableWriter(
            target(tmp_path, "part"), row_group_bytes=row_group_bytes, buffer_bytes=buffer_bytes
        ) as writer:
            offset = 0
            for parts in batches:
                numbers = list(range(offset, offset + len(parts)))
                offset += len(parts)
                for part, number in zip(parts, numbers, strict=True):
                    wanted.setdefault(part, []).append(number)
                writer.write(pa.RecordBatch.from_pydict({"part": pa.array(parts, pa.int32()), "offset": numbers}))
            written = writer.close()
        found = {
            file.partition[0]: [
                b for batch in read_batches(FileStore(), [file.path], ["offset"]) for b in batch[0].to_pylist()
            ]
            for file in written
        }
        assert found == wanted
        assert [file.rows for file in written] == [len(rows) for rows in wanted.values()]
        assert list(found) == list(wanted)

    @pytest.mark.parametrize(
        ("rows", "asked", "found"), [(20, "zstd", "SNAPPY"), (1000, "zstd", "ZSTD"), (20, "gzip", "GZIP")]
    )
    def test_a_small_file_is_spared_what_zstd_costs_each_column(
        self, tmp_path: Path, rows: int, asked: str, found: str
    ) -> None:
        with TableWriter(changed(target(tmp_path), compression=asked)) as writer:
            writer.write(offsets(0, rows))
            (file,) = writer.close()
        assert pq.read_metadata(file.path.removeprefix("file://")).row_group(0).column(1).compression == found
        (batch,) = read_batches(FileStore(), [file.path], ["offset"])
        assert batch["offset"].to_pylist() == list(range(rows))

    def test_row_groups_are_about_as_large_as_asked(self, tmp_path: Path) -> None:
        with TableWriter(target(tmp_path), row_group_bytes=10_000) as writer:
            for first in range(0, 1000, 10):
                writer.write(offsets(first, 10))
            writer.write(offsets(1000, 1000))
            (file,) = writer.close()
        footer = pq.read_metadata(file.path.removeprefix("file://"))
        rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        assert sum(rows) == 2000
        assert max(rows) <= 200
        assert min(rows[:-1]) >= 80
        assert file.bytes == Path(file.path.removeprefix("file://")).stat().st_size

    def test_payloads_have_no_bounds_and_no_dictionary_but_offsets_do(self, tmp_path: Path) -> None:
        with TableWriter(target(tmp_path)) as writer:
            writer.write(offsets(5, 10))
            (file,) = writer.close()
        group = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
        assert not group.column(2).is_stats_set
        assert not group.column(2).has_dictionary_page
        assert (group.column(1).statistics.min, group.column(1).statistics.max) == (5, 14)

    @pytest.mark.parametrize("size", [0, 4096], ids=["small", "large"])
    def test_keys_of_their_own_have_no_dictionary_and_integers_lie_as_they_are(self, tmp_path: Path, size: int) -> None:
        schema = pa.schema([*SCHEMA, field("name", pa.string(), 4)])
        rows = offsets(0, 100, size=size).append_column("name", pa.array([f"n{number}" for number in range(100)]))
        with TableWriter(
            changed(target(tmp_path), schema=schema.serialize().to_pybytes(), distinct=("offset", "name"))
        ) as writer:
            writer.write(rows)
            (file,) = writer.close()
        found = pq.ParquetFile(file.path.removeprefix("file://")).metadata.row_group(0).to_dict()["columns"]
        codec = "ZSTD" if size else "SNAPPY"
        assert {one["path_in_schema"]: one["compression"] for one in found} == {
            "part": codec, "offset": "UNCOMPRESSED", "payload": codec, "name": codec,
        }  # fmt: skip
        dictionaries = {one["path_in_schema"] for one in found if one["has_dictionary_page"]}
        assert dictionaries == ({"part"} if size else set())
        assert all(one["statistics"] for one in found if one["path_in_schema"] != "payload")

    def test_keys_that_a_network_carries_are_compressed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Mapped:
            def new_output(self, path: str) -> OutputFile:
                assert path.startswith("s3://bucket/table/data/run/")
                return load_file_io().new_output(f"file://{tmp_path}/far.parquet")

        monkeypatch.setattr(files, "file_io", lambda *_: Mapped())
        far = changed(target(tmp_path), location="s3://bucket/table", distinct=("offset",))
        with TableWriter(far) as writer:
            writer.write(offsets(0, 100, size=4096))
            writer.close()
        column = pq.read_metadata(tmp_path / "far.parquet").row_group(0).column(1)
        assert (column.path_in_schema, column.compression, column.has_dictionary_page) == ("offset", "ZSTD", False)

    def test_files_carry_the_field_ids_of_nested_columns(self, tmp_path: Path) -> None:
        image = pa.struct([field("id", pa.int32(), 5), field("tags", pa.list_(field("element", pa.string(), 7)), 6)])
        schema = pa.schema([field("after", image, 4)])
        made = changed(target(tmp_path), schema=schema.serialize().to_pybytes())
        with TableWriter(made) as writer:
            writer.write(pa.RecordBatch.from_pylist([{"after": {"id": 1, "tags": ["a"]}}, {"after": None}]))
            (file,) = writer.close()
        read = pq.read_schema(file.path.removeprefix("file://")).field("after").type
        assert [read.field(number).metadata[FIELD_ID] for number in (0, 1)] == [b"5", b"6"]
        assert read.field(1).type.value_field.metadata[FIELD_ID] == b"7"

    def test_an_error_in_the_task_leaves_no_file(self, tmp_path: Path) -> None:
        def task() -> None:
            with TableWriter(target(tmp_path, "part"), row_group_bytes=1) as writer:
                writer.write(offsets(0, 10))
                assert list(tmp_path.rglob("*.parquet"))
                raise RuntimeError("the task")

        with pytest.raises(RuntimeError, match="the task"):
            task()
        assert not list(tmp_path.rglob("*.parquet"))

    def test_nothing_written_is_no_file(self, tmp_path: Path) -> None:
        with TableWriter(target(tmp_path, "part")) as writer:
            writer.write(offsets(0, 0))
            assert writer.close() == ()

    def test_files_are_named_by_run_and_attempt(self, tmp_path: Path) -> None:
        with TableWriter(target(tmp_path), "7-1") as writer:
            writer.write(offsets(0, 1))
            (file,) = writer.close()
        assert file.path.startswith(f"file://{tmp_path}/data/run/7-1-")

    def test_a_null_partition_value_is_refused(self, tmp_path: Path) -> None:
        rows = offsets(0, 2).set_column(0, "part", pa.array([1, None], pa.int32()))
        with (
            TableWriter(target(tmp_path, "part")) as writer,
            pytest.raises(LakeTableError, match="1 rows have no part"),
        ):
            writer.write(rows)


class TestConforming:
    def test_columns_and_nested_fields_are_matched_by_name(self) -> None:
        wanted = pa.schema(
            [
                ("n", pa.int64()),
                ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
                ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
                ("t", pa.timestamp("us", tz="UTC")),
                ("new", pa.map_(pa.string(), pa.string())),
            ]
        )
        given_rows = pa.RecordBatch.from_pydict(
            {
                "t": pa.array([0, 1, 2], pa.timestamp("ms", tz="UTC")),
                "l": pa.array(
                    [[], None, [{"y": "p", "x": 1}]], pa.list_(pa.struct([("y", pa.string()), ("x", pa.int32())]))
                ),
                "s": pa.array([{"b": "q"}, None, {"b": None}], pa.struct([("b", pa.string())])),
                "n": pa.array([1, 2, None], pa.int32()),
            }
        )
        expected = [
            {"n": 2, "s": None, "l": None, "new": None},
            {"n": None, "s": {"a": None, "b": None}, "l": [{"x": 1, "y": "p"}], "new": None},
        ]
        for rows in (given_rows.slice(1), cast_to_schema(given_rows, wanted, "t").slice(1)):
            made = cast_to_schema(rows, wanted, "t")
            assert made.schema == wanted
            assert made.drop_columns("t").to_pylist() == expected

    def test_a_column_that_the_table_lacks_is_named(self) -> None:
        with pytest.raises(LakeTableError, match=r"shop\.t .* no column s\.z"):
            cast_to_schema(
                pa.RecordBatch.from_pylist([{"s": {"z": 1}}]),
                pa.schema([("s", pa.struct([("a", pa.int32())]))]),
                "shop.t",
            )

    def test_a_value_that_does_not_fit_is_not_shown(self) -> None:
        with pytest.raises(LakeTableError, match="column n is int32") as caught:
            cast_to_schema(pa.RecordBatch.from_pylist([{"n": 98765432101234}]), pa.schema([("n", pa.int32())]), "t")
        assert "98765432101234" not in str(caught.value)
        assert caught.value.__cause__ is None


class TestReading:
    @pytest.fixture
    def files(self, tmp_path: Path) -> list[str]:
        """Offsets 0 to 99 in two files of five row groups of ten."""
        paths = []
        for start in (0, 50):
            with TableWriter(target(tmp_path), row_group_bytes=1) as writer:
                for first in range(start, start + 50, 10):
                    rows = offsets(first, 10, size=0)
                    writer._row_group_bytes = rows.nbytes
                    writer.write(rows)
                paths += [file.path for file in writer.close()]
        assert pq.read_metadata(paths[0].removeprefix("file://")).num_row_groups == 5
        return paths

    @given(start=st.integers(0, 100), length=st.integers(0, 100))
    @settings(examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_an_offset_range_gives_its_rows_in_order(self, files: list[str], start: int, length: int) -> None:
        wanted = OffsetRange(start, start + length)
        found = [
            o
            for b in read_batches(FileStore(), files, ["offset"], offsets=wanted, batch_bytes=60)
            for o in b["offset"].to_pylist()
        ]
        assert found == [offset for offset in range(100) if wanted.start <= offset < wanted.end]

    def test_backwards_the_last_row_group_comes_first(self, files: list[str]) -> None:
        batches = read_batches(FileStore(), files, ["part", "offset"], offsets=OffsetRange(15, 85), backwards=True)
        firsts = [(batch["offset"][0].as_py(), batch.num_rows) for batch in batches]
        assert firsts == [(80, 5), (70, 10), (60, 10), (50, 10), (40, 10), (30, 10), (20, 10), (15, 5)]

    def test_only_the_asked_columns_come(self, files: list[str]) -> None:
        (batch, *_) = read_batches(FileStore(), files, ["payload"], offsets=OffsetRange(3, 5))
        assert batch.schema.names == ["payload"]
        assert batch.num_rows == 2

    def test_fields_of_structs_come_without_the_others(self, tmp_path: Path) -> None:
        image = pa.struct([("id", pa.int64()), ("id.x", pa.int64()), ("note", pa.string())])
        rows = [{"id": 1, "id.x": 2, "note": "a"}, None, {"id": None, "id.x": None, "note": None}]
        path = tmp_path / "structs.parquet"
        pq.write_table(pa.table({"op": ["a", "b", "c"], "before": pa.array(rows, image), "after": rows}), path)

        def read(**parts: list[str]) -> list[dict[str, Any]]:
            (batch,) = read_batches(FileStore(), [str(path)], ["after", "before", "op"], parts=parts)
            assert batch.schema.names == ["after", "before", "op"]
            return list(batch.to_pylist())

        whole = [{"after": row, "before": row, "op": op} for row, op in zip(rows, "abc", strict=True)]
        assert read() == read(before=["lost"], after=[]) == whole
        found = read(before=["note", "lost"])
        assert [row["before"] for row in found] == [{"note": "a"}, None, {"note": None}]
        assert [row["after"] for row in found] == rows

    def test_a_missing_column_is_named(self, files: list[str]) -> None:
        with pytest.raises(LakeTableError, match="no column shard"):
            next(read_batches(FileStore(), files, ["shard"]))


def test_a_table_reads_back_what_was_written(cells: Cells) -> None:
    files = cells.write([(0, 0), (1, 2)], "new")
    assert [file.partition for file in files] == [(0, cells.window(0)), (1, cells.window(2))]
    rows = [
        row
        for batch in read_batches(FileStore(), [file.path for file in files], ["number"])
        for row in batch["number"].to_pylist()
    ]
    assert rows == [0, 1, 2, 0, 1, 2]
