"""Spark and the store delete single rows of the same tables: each leaves out what the other has deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from dts_assets.errors import ForeignDeletesError
from dts_assets.store.delete_files import live_rows, write_deletes
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation
    from dts_assets.store.stored_files import StoredFile

pytestmark = pytest.mark.spark


class Numbers:
    """A table of numbers in files of ten, deleted by both."""

    def __init__(self, spark: SparkSession, location: LakeLocation, name: str) -> None:
        self.spark, self.lake, self.path = spark, Lake(location), ("spark_deletes", name)
        self.lake.ensure(self.path, layout(iceberg_schema((("number", "int"),))))
        self.name = self.lake.spark_name(self.path)

    def put(self, numbers: Sequence[int], *, without: Sequence[StoredFile] = ()) -> WrittenFile:
        with TableWriter(self.lake.target(self.path, "run")) as writer:
            writer.write(pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int32())}))
            files = writer.close()
        gone = {file.path for file in without}
        applied = {one for file in without for one in file.deletes}
        self.lake.replace(self.path, {}, files, keep=lambda file: file.file_path not in gone, applied=applied)
        return files[0]

    def files(self) -> list[StoredFile]:
        return self.lake.data_files(self.path, applies_deletes=True)

    def file(self, path: str) -> StoredFile:
        return next(file for file in self.files() if file.path == path)

    def delete(self, path: str, rows: list[int], *, merge: bool = False) -> None:
        file = self.file(path)
        deletes = write_deletes(
            self.lake.target(self.path, "run"), "0", np.array(rows, np.int64), data_file=path, partition=(),
            instead_of=file.deletes if merge else (),
        )  # fmt: skip
        self.lake.replace(self.path, {}, (), keep=lambda _: True, deletes=[deletes], applied=file.deletes)

    def sql(self, text: str) -> None:
        self.spark.sql(text.replace("TABLE_NAME", self.name))

    def check(self, expected: Sequence[int]) -> None:
        """Spark, pyiceberg and our own reader agree, and so does the size."""
        assert sorted(row.number for row in self.spark.table(self.name).collect()) == sorted(expected)
        assert self.spark.sql(f"SELECT number FROM {self.name} WHERE number < 5").count() == sum(
            n < 5 for n in expected
        )
        found, size = self.lake.scan(self.path), self.lake.size(self.path)
        assert found is not None
        assert sorted(found["number"].to_pylist()) == sorted(expected)
        store = self.lake.file_store(self.path)
        masks = [live_rows(store, file.path, file.rows, file.deletes) for file in self.files()]
        assert sum(int(mask.sum()) for mask in masks) == len(expected)
        assert size is not None
        assert size.rows == len(expected)

    def operation(self) -> str:
        table = self.lake.table(self.path)
        assert table is not None
        head = table.current_snapshot()
        assert head is not None
        assert head.summary is not None
        return str(head.summary.operation.value)


@pytest.mark.more
def test_spark_leaves_out_what_the_store_deletes(spark: SparkSession, spark_lake: LakeLocation) -> None:
    numbers = Numbers(spark, spark_lake, "ours")
    first, second = numbers.put(range(10)), numbers.put(range(10, 20))
    numbers.delete(first.path, [0, 9])
    numbers.check([*range(1, 9), *range(10, 20)])
    numbers.delete(first.path, [3])
    numbers.delete(second.path, [0, 1, 2])
    numbers.check([1, 2, *range(4, 9), *range(13, 20)])
    numbers.delete(first.path, [4], merge=True)
    numbers.check([1, 2, *range(5, 9), *range(13, 20)])
    listed = spark.sql(f"SELECT file_path, pos FROM {numbers.name}.position_deletes").collect()
    assert sorted((row.file_path, row.pos) for row in listed) == sorted(
        [(first.path, pos) for pos in (0, 3, 4, 9)] + [(second.path, pos) for pos in (0, 1, 2)]
    )
    numbers.put([100], without=[numbers.file(first.path)])
    numbers.check([*range(13, 20), 100])


@pytest.mark.more(after=1)
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_the_store_leaves_out_what_spark_deletes(
    granularity: str, spark: SparkSession, spark_lake: LakeLocation
) -> None:
    numbers = Numbers(spark, spark_lake, f"theirs_{granularity}")
    first, second = numbers.put(range(10)), numbers.put(range(10, 20))
    numbers.sql(
        "ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
        f"'write.delete.granularity' = '{granularity}', 'write.delete.distribution-mode' = 'none')"
    )
    numbers.sql("DELETE FROM TABLE_NAME WHERE number IN (1, 3, 12)")
    assert numbers.operation() == "delete", "as ours are called"
    numbers.check([0, 2, *range(4, 12), *range(13, 20)])
    with pytest.raises(ForeignDeletesError):
        numbers.lake.data_files(numbers.path)
    shared = numbers.file(first.path).shared_deletes
    assert bool(shared) is (granularity == "partition")
    numbers.delete(first.path, [0], merge=not shared)
    numbers.check([2, *range(4, 12), *range(13, 20)])
    numbers.put([100, 101], without=[numbers.file(first.path)])
    numbers.check([10, 11, *range(13, 20), 100, 101])

    numbers.delete(second.path, [0])
    numbers.sql("ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
    numbers.sql("DELETE FROM TABLE_NAME WHERE number = 19")
    numbers.check([11, *range(13, 19), 100, 101])
    numbers.put([102], without=numbers.files())
    numbers.check([102])
    state = numbers.lake.state(numbers.path)
    assert state is not None
    assert state.properties["total-delete-files"] == "0", "nothing is left behind that Spark has left behind"


def test_the_way_out_leads_out(spark: SparkSession, spark_lake: LakeLocation) -> None:
    numbers = Numbers(spark, spark_lake, "way_out")
    numbers.put(range(10))
    numbers.sql("ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    numbers.sql("DELETE FROM TABLE_NAME WHERE number = 1")
    with pytest.raises(ForeignDeletesError, match="rewrite_data_files with delete-file-threshold 1"):
        numbers.lake.data_files(numbers.path)
    catalog, _, table = numbers.name.partition(".")
    spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('delete-file-threshold', '1'))"
    )
    assert sum(file.rows for file in numbers.lake.data_files(numbers.path)) == 9
    numbers.check([0, *range(2, 10)])
