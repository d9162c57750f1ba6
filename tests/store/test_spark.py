"""Spark and pyiceberg on the same tables: what one commits the other sees, at once and alike."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from dts_assets.model.columns import Column
from dts_assets.model.layouts import Layout, PartitionTransform
from dts_assets.model.tables import TableId
from dts_assets.store.columns import changelog_columns
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from dts_assets.store.planned_fields import PlannedField
from dts_assets.store.schemas import changelog_layout, snapshot_layout
from dts_assets.store.session import SMALL_MACHINE
from tests.store.test_layouts import VALUES, layout_of
from tests.tiers import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (
    Column("id", "int", True),
    Column("price", "decimal(10,2)", False),
    Column("at", "timestamp", False),
    Column("wall", "timestamp_ntz", False),
    Column("raw", "binary", False),
    Column("名.x", "string", False),
)
IMAGE = {
    "id": 1, "price": Decimal("1.50"), "at": START, "wall": datetime(2026, 1, 1, 3), "raw": bytearray(b"\x00"), "名.x": "值",
}  # fmt: skip


@pytest.fixture
def lake(spark_lake: LakeLocation) -> Lake:
    return Lake(spark_lake)


def put(
    lake: Lake, path: Sequence[str], rectangle: dict[str, set[datetime]], rows: list[dict[str, Any]], **named: Any
) -> None:
    with TableWriter(lake.target(path, "run")) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, pa.schema([f.remove_metadata() for f in schema_of(lake, path)])))
        lake.replace(path, rectangle, writer.close(), **named)


def schema_of(lake: Lake, path: Sequence[str]) -> pa.Schema:
    return lake.target(path, "run").arrow_schema


@pytest.mark.more
def test_a_changelog_reads_alike_after_every_commit(spark: SparkSession, lake: Lake) -> None:
    table = TableId("shop.db", "", "订单")
    path = ("spark_changelog", "changelog", *table.path)
    lake.ensure(path, changelog_layout(table, COLUMNS))
    name = lake.spark_name(path)
    full = {"op": "update", "before": None, "after": IMAGE, "absent": ["before.id"], "invalid": [("after.at", "0000")],
            "source_position": {"lineage": 0, "file": 3, "position": 4711}, "window_start": START}  # fmt: skip
    put(lake, path, {"window_start": {START}}, [full, {**full, "op": "delete", "before": IMAGE, "after": None}])
    first, second = spark.sql(f"SELECT * FROM {name} ORDER BY op DESC").collect()
    assert (first.before, second.after) == (None, None)
    assert first.after.asDict() == {**IMAGE, "at": first.after["at"]}
    assert (first.absent, first.invalid) == (["before.id"], {"after.at": "0000"})
    assert first.source_position.asDict() == {"lineage": 0, "file": 3, "position": 4711}
    assert spark.sql(f"SELECT op FROM {name} WHERE after.`at` = timestamp'2026-01-01T00:00:00Z'").count() == 1

    put(lake, path, {"window_start": {START}}, [{**full, "op": "insert"}])
    assert [row.op for row in spark.sql(f"SELECT op FROM {name}").collect()] == ["insert"]

    wider = (Column("id", "bigint", True), *COLUMNS[1:], Column("note", "string", False))
    lake.evolve(path, changelog_columns(wider))
    later = datetime(2026, 1, 1, 1, tzinfo=UTC)
    put(
        lake,
        path,
        {"window_start": {later}},
        [{**full, "after": {**IMAGE, "id": 2**40, "note": "x"}, "window_start": later}],
    )
    rows = spark.sql(f"SELECT after.id, after.note FROM {name} ORDER BY after.id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2**40, "x")]
    assert spark.sql(f"SELECT op FROM {name} WHERE window_start = timestamp'2026-01-01T01:00:00Z'").count() == 1

    lake.replace(path, {"window_start": {START, later}}, [])
    assert spark.table(name).count() == 0


@pytest.mark.more
def test_a_snapshot_merged_by_spark_is_seen_by_pyiceberg(spark: SparkSession, lake: Lake) -> None:
    path = ("spark_snapshot", "snapshot", "shopdb", "orders")
    lake.ensure(
        path,
        snapshot_layout(TableId("shopdb", "", "orders"), (Column("id", "int", True), Column("_op", "string", False))),
    )
    name = lake.spark_name(path)
    spark.sql(
        f"INSERT INTO {name} SELECT cast(id AS int), 'old', current_timestamp(), 0, id, NULL, NULL FROM range(100)"
    )
    before = lake.state(path)
    assert before is not None
    changes = "SELECT cast(id AS int) id, 'new' o, id % 2 = 0 gone FROM range(10)"
    spark.conf.set("spark.sql.iceberg.snapshot-property.dts.frontier", "7")
    try:
        spark.sql(
            f"MERGE INTO {name} t USING ({changes}) s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET `_source__op` = s.o"
        )
    finally:
        spark.conf.unset("spark.sql.iceberg.snapshot-property.dts.frontier")
    after = lake.state(path)
    assert after is not None
    assert after.snapshot_id != before.snapshot_id
    assert after.properties["dts.frontier"] == "7"
    rows = lake.scan(path, columns=("id", "_source__op"), where="id < 10")
    assert rows is not None
    assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == [
        {"id": n, "_source__op": "new"} for n in (1, 3, 5, 7, 9)
    ]
    old = lake.scan(path, snapshot_id=before.snapshot_id)
    assert old is not None
    assert old.num_rows == 100

    put(lake, path, {}, [{"id": 7}])  # pyiceberg replaces what Spark wrote
    assert spark.table(name).count() == 1
    assert sum(file.rows for file in lake.data_files(path)) == 1


def test_the_session_is_as_the_settings_say(spark: SparkSession, spark_lake: LakeLocation) -> None:
    for name, value in SMALL_MACHINE.items():
        if name != "spark.sql.shuffle.partitions":
            assert spark.conf.get(name) == value
    spark.sql("SHOW NAMESPACES IN lake").collect()
    from dts_assets.store.session import open_session

    assert open_session(spark_lake, master="local[2]") is spark


@pytest.mark.more
def test_columns_that_follow_others_read_alike(spark: SparkSession, lake: Lake) -> None:
    """Old files by the ids of their fields: names swap, columns go, move, widen, come, and become another type."""
    path = ("spark_planned", "snapshot", "shopdb", "items")
    kinds = ("int", "int", "float", "decimal(7,2)", "date", "string")
    columns = tuple(
        Column(name, kind, not place) for place, (name, kind) in enumerate(zip("abcdef", kinds, strict=True))
    )
    table = lake.ensure(path, snapshot_layout(TableId("shopdb", "", "items"), columns))
    day, name = datetime(2026, 1, 1).date(), lake.spark_name(path)
    rows = [{"a": n, "b": -n, "c": n / 4, "d": Decimal(n), "e": day, "f": str(n)} for n in range(1, 4)]
    lake.lay_out(path, table, Layout((PartitionTransform("identity", "e"),)))  # which goes, and another e comes
    put(lake, path, {}, rows[:1])
    lake.lay_out(path, lake.catalog.load_table(path), layout_of("bucket(4, a)"))
    put(lake, path, {}, rows[1:], keep=lambda _: True)
    old = lake.state(path)
    wanted = (
        PlannedField("d", "decimal(12,2)", "d"), PlannedField("a", "int", "b"), PlannedField("b", "bigint", "a"),
        PlannedField("C", "double", "c"), PlannedField("f", "int", "f"), PlannedField("e", "date", None),
    )  # fmt: skip
    assert spark.table(name).count() == 3, "the columns are read anew after the commit"
    target, planned = lake.planned(path, wanted, "planned")
    shape = pa.schema([one.remove_metadata() for one in target.arrow_schema])
    with TableWriter(target) as writer:
        new = {"d": Decimal(2**32), "a": -4, "b": 2**40, "C": 0.1, "f": 4, "e": day}
        writer.write(pa.RecordBatch.from_pylist([new], shape))
        lake.replace(path, {}, writer.close(), keep=lambda _: True, columns=planned)
    spark.catalog.refreshTable(name)
    expected = [(Decimal(n), -n, n, n / 4, None, None) for n in range(1, 4)] + [tuple(new.values())]
    assert spark.table(name).columns == [one.name for one in wanted]
    assert [tuple(row) for row in spark.table(name).orderBy("b").collect()] == expected
    assert spark.table(name).where("b = 2 AND C = 0.5").count() == 1, "bounds and buckets are of the former types"
    assert old is not None
    was = spark.sql(f"SELECT a, b, c, d, e, f FROM {name} VERSION AS OF {old.snapshot_id} ORDER BY a")
    assert [tuple(row) for row in was.collect()] == [(n, -n, n / 4, Decimal(n), day, str(n)) for n in range(1, 4)]

    spark.sql(f"DELETE FROM {name} WHERE a = -2")
    spark.sql(f"INSERT INTO {name} (b, a, C) VALUES (5, -5, 1.25)")
    found = lake.scan(path)
    assert found is not None
    assert sorted((row["b"], row["a"], row["C"]) for row in found.to_pylist()) == [
        (1, -1, 0.25), (3, -3, 0.75), (5, -5, 1.25), (2**40, -4, 0.1),
    ]  # fmt: skip


FIELDS = [
    ("bigint", "bucket(4, c)"), ("string", "truncate(3, c)"), ("decimal(12,2)", "bucket(4, c)"), ("timestamp", "hours(c)"),
    ("bigint", "truncate(5, c)"), ("string", "bucket(4, c)"), ("date", "months(c)"), ("timestamp_ntz", "days(c)"),
]  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("kind", "field"), chosen(FIELDS, 4))
def test_spark_finds_each_row_in_its_partition(kind: str, field: str, spark: SparkSession, lake: Lake) -> None:
    """Spark leaves out files by the partition of the value that it looks for, and adds rows to the same partitions."""
    path = ("spark_layouts", "snapshot", "shopdb", "".join(filter(str.isalnum, kind + field)))
    columns = (Column("id", "int", True), Column("c", kind, False))
    lake.lay_out(path, lake.ensure(path, snapshot_layout(TableId("shopdb", "", "t"), columns)), layout_of(field))
    put(lake, path, {}, [{"id": number, "c": value} for number, value in enumerate(VALUES[kind])])
    name, partitions = lake.spark_name(path), {str(dict(file.partition)) for file in lake.data_files(path)}
    for value in VALUES[kind]:
        wanted = F.lit(None if value is None else str(value)).cast(kind)
        assert spark.table(name).where(F.col("c").eqNullSafe(wanted)).count() == 1, value
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert {str(dict(file.partition)) for file in lake.data_files(path)} == partitions


@pytest.mark.more
def test_partition_fields_of_a_column_that_became_another_type_read_alike(spark: SparkSession, lake: Lake) -> None:
    """Rows of now and of then, and metadata tables, in which former fields of a column that is gone stand no more."""
    path = ("spark_converted", "snapshot", "shopdb", "items")
    columns = (Column("id", "int", True), Column("c", "int", False))
    layout, name = layout_of("c", "bucket(4, c)", sort=("c",)), lake.spark_name(path)
    lake.lay_out(path, lake.ensure(path, snapshot_layout(TableId("shopdb", "", "items"), columns)), layout)
    put(lake, path, {}, [{"id": number, "c": number} for number in range(3)])
    old = lake.state(path)
    assert old is not None
    assert spark.table(name).where("c = 2").count() == 1
    for kind, value in (("string", str), ("bigint", int)):
        fields = (PlannedField("id", "int", "id"), PlannedField("c", kind, "c"))
        target, planned = lake.planned(path, fields, "planned", layout)
        assert planned is not None
        shape = pa.schema([one.remove_metadata() for one in target.arrow_schema])
        with TableWriter(target) as writer:
            writer.write(pa.RecordBatch.from_pylist([{"id": n, "c": value(n)} for n in range(3)], shape))
            lake.replace(path, {}, writer.close(), columns=planned)
        spark.catalog.refreshTable(name)
        assert spark.table(name).where(F.col("c") == F.lit("2").cast(kind)).count() == 1
        assert not any(one.is_former for one in lake.data_files(path))
    partitions = spark.sql(f"SELECT partition.*, record_count FROM {name}.partitions").collect()
    assert len(partitions) == 3
    assert sorted(partitions[0].asDict()) == ["c", "c_bucket_4", "record_count"]
    assert spark.sql(f"SELECT partition FROM {name}.files").count() == 3
    was = spark.sql(f"SELECT id, c FROM {name} VERSION AS OF {old.snapshot_id} WHERE c > 0 ORDER BY id")
    assert [tuple(row) for row in was.collect()] == [(1, 1), (2, 2)]
    spark.sql(f"DELETE FROM {name} WHERE c = 1")
    assert sorted(row.id for row in spark.table(name).collect()) == [0, 2]
