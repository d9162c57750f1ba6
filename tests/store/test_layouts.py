"""Partition fields of snapshots: each row in the partition that Iceberg's own functions say, and found there by readers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import Column
from dts_assets.model.layouts import UNPARTITIONED, Layout, partition_transform
from dts_assets.model.tables import TableId
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.data_files import partition_value
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.lake import Lake
from dts_assets.store.planned_fields import PlannedField
from dts_assets.store.schemas import snapshot_layout

EQUAL_TO: Any = EqualTo  # which take their arguments by place, against their types
IS_NULL: Any = IsNull
TABLE = TableId("shopdb", "", "orders")
PATH = ("shop", "snapshot", *TABLE.path)

VALUES: dict[str, list[Any]] = {
    "int": [0, -1, 7, 2**31 - 1, -(2**31), None],
    "bigint": [0, -1, 7, 2**63 - 1, -(2**63), None],
    "string": ["", "a", "abcdef", "é", "订单订单订单", "😀😀😀😀😀", None],
    "decimal(12,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("14.20"), Decimal("9999999999.99"), None],
    "date": [date(1969, 12, 31), date(1970, 1, 1), date(2026, 2, 28), date(1, 1, 1), date(9999, 12, 31), None],
    "timestamp": [
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 1, 5, 7, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), None,
    ],
    "timestamp_ntz": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 5, 7), None],
    "boolean": [True, False, None],
    "binary": [b"", b"a", b"\x00\xff", None],
}  # fmt: skip

TIMES = ("years(c)", "months(c)", "days(c)")
FIELDS: dict[str, tuple[str, ...]] = {
    "int": ("bucket(4, c)", "truncate(5, c)", "c"),
    "bigint": ("bucket(4, c)", "truncate(5, c)", "c"),
    "string": ("bucket(4, c)", "truncate(3, c)", "c"),
    "decimal(12,2)": ("bucket(4, c)", "truncate(50, c)", "c"),
    "date": (*TIMES, "bucket(4, c)", "c"),
    "timestamp": (*TIMES, "hours(c)", "bucket(4, c)", "c"),
    "timestamp_ntz": (*TIMES, "hours(c)", "bucket(4, c)", "c"),
    "boolean": ("c",),
    "binary": ("bucket(4, c)",),
}
CASES = [(kind, field) for kind, fields in FIELDS.items() for field in fields]


def layout_of(*fields: str, sort: tuple[str, ...] = ()) -> Layout:
    return Layout(tuple(filter(None, map(partition_transform, fields))), sort)


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    return Lake(lake_location)


def opened(lake: Lake, layout: Layout, *columns: Column) -> Table:
    made = lake.ensure(PATH, snapshot_layout(TABLE, (Column("id", "int", True), *columns)))
    lake.lay_out(PATH, made, layout)
    return loaded(lake)


def loaded(lake: Lake) -> Table:
    found = lake.table(PATH)
    assert found is not None
    return found


def written(lake: Lake, rows: list[dict[str, Any]]) -> tuple[WrittenFile, ...]:
    target = lake.target(PATH, "run")
    schema = pa.schema([field for field in target.arrow_schema if field.name in rows[0]])
    with TableWriter(target) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema))
        return writer.close()


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("kind", "field"), CASES, ids=[f"{kind}-{field}" for kind, field in CASES])
def test_rows_lie_in_their_partitions(kind: str, field: str, lake: Lake) -> None:
    table = opened(lake, layout_of(field), Column("c", kind, False))
    rows = [{"id": number, "c": value} for number, value in enumerate(VALUES[kind] * 3)]
    lake.replace(PATH, {}, written(lake, rows))
    table = loaded(lake)
    (partition,) = table.spec().fields
    oracle = parse_transform(str(partition.transform)).transform(table.schema().find_type("c"))
    least = {"int": -(2**31), "bigint": -(2**63)}.get(kind) if field.startswith("truncate") else None
    wrapped = {"int": 2**31 - 2, "bigint": 2**63 - 2}.get(kind)  # below the type's least: Java begins again at its end

    def expected_of(value: Any) -> Any:
        if value is None:
            return None
        return wrapped if value == least else partition_value(oracle(partition_value(value)))

    expected = Counter(expected_of(row["c"]) for row in rows)
    files = [task.file for task in table.scan().plan_files()]
    assert Counter({partition_value(file.partition[0]): file.record_count for file in files}) == expected
    assert len(files) == len(expected)
    # Readers leave out files by their partitions, so a wrong one would lose rows.
    for value in VALUES[kind]:
        condition = IS_NULL("c") if value is None else EQUAL_TO("c", value)
        if value is not None and value == least:
            continue  # pyiceberg, which does not begin again, finds no row of this one value
        assert table.scan(condition).to_arrow().num_rows == 3, value


@pytest.mark.parametrize(
    ("fields", "kind", "what"),
    [
        (("days(nothing)",), "date", "which it has not"),
        (("days(c)",), "string", "has the type string"),
        (("hours(c)",), "date", "has the type date"),
        (("c",), "double", "has the type double"),
        (("c",), "binary", "has the type binary"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(fields: tuple[str, ...], kind: str, what: str, lake: Lake) -> None:
    with pytest.raises(LakeTableError, match=what):
        opened(lake, layout_of(*fields), Column("c", kind, False))
    assert loaded(lake).spec().fields == ()


def test_a_layout_that_changes_leaves_files_as_they_are_and_readable(lake: Lake) -> None:
    column = Column("c", "date", False)
    rows: list[dict[str, Any]] = [{"id": number, "c": date(2026, 1 + number, 3)} for number in range(4)]
    opened(lake, UNPARTITIONED, column)
    layouts = [
        UNPARTITIONED,
        layout_of("months(c)"),
        layout_of("years(c)", "bucket(2, id)"),
        layout_of("months(c)"),
        UNPARTITIONED,
    ]
    for number, layout in enumerate(layouts):
        assert lake.lay_out(PATH, loaded(lake), layout) == (number > 0)
        assert not lake.lay_out(PATH, loaded(lake), layout)
        files = written(lake, [{**row, "id": row["id"] + 10 * number} for row in rows])
        lake.replace(PATH, {}, files, keep=lambda file: True)
        assert not any(one.is_former for one in lake.data_files(PATH) if one.path in {file.path for file in files})
    assert sum(one.is_former for one in lake.data_files(PATH)) > 8
    table = loaded(lake)
    for row in rows:
        assert table.scan(EQUAL_TO("c", row["c"])).to_arrow().num_rows == len(layouts)
    assert table.spec().fields == ()


def test_a_column_called_like_a_partition_field_is_in_nobodys_way(lake: Lake) -> None:
    table = opened(lake, layout_of("months(c)"), Column("c", "date", False), Column("c_month", "string", False))
    assert [one.name for one in table.spec().fields] == ["c_month_"]
    lake.replace(PATH, {}, written(lake, [{"id": 1, "c": date(2026, 1, 3), "c_month": "May"}]))
    assert loaded(lake).scan(EQUAL_TO("c_month", "May")).to_arrow().num_rows == 1


def test_two_times_of_one_column_are_refused_and_one_that_is_there_twice_is_one(lake: Lake) -> None:
    column = Column("c", "date", False)
    with pytest.raises(LakeTableError, match="several times of c, of which Iceberg takes one"):
        opened(lake, layout_of("months(c)", "days(c)"), column)
    table = opened(lake, layout_of("bucket(2, c)", "months(c)", "bucket(2, c)"), column)
    assert [one.name for one in table.spec().fields] == ["c_bucket_2", "c_month"]


def test_a_partition_field_that_comes_again_has_its_former_id(lake: Lake) -> None:
    table = opened(lake, layout_of("months(c)", "bucket(2, id)"), Column("c", "date", False))
    specs = [table.spec()]
    for layout in (UNPARTITIONED, layout_of("bucket(2, id)"), layout_of("months(c)", "bucket(2, id)")):
        lake.lay_out(PATH, loaded(lake), layout)
        specs.append(loaded(lake).spec())
    assert [[one.field_id for one in spec.fields] for spec in specs] == [[1000, 1001], [], [1001], [1000, 1001]]
    assert specs[3] == specs[0]


def test_a_column_that_got_the_name_of_another_one_has_partition_fields_of_its_own(lake: Lake) -> None:
    opened(lake, layout_of("bucket(2, c)", sort=("c",)), Column("c", "int", False), Column("d", "string", False))
    fields = (
        PlannedField("id", "int", "id"), PlannedField("c", "string", "d"), PlannedField("d", "int", "c"),
    )  # fmt: skip
    target, planned = lake.planned(PATH, fields, "run", layout_of("bucket(2, c)", sort=("c",)))
    assert planned is not None
    assert planned.lays_out
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "c": "tea", "d": 7}], pa.schema([one.remove_metadata() for one in target.arrow_schema])
    )
    with TableWriter(target) as writer:
        writer.write(rows)
        lake.replace(PATH, {}, writer.close(), columns=planned)
    table = loaded(lake)
    assert [(one.field_id, one.name) for one in table.spec().fields] == [(1001, "c_bucket_2_")]
    assert table.scan(EQUAL_TO("c", "tea")).to_arrow().num_rows == 1
    assert lake.target(PATH, "run").sort_by == ("c",)


def test_a_name_that_differs_in_case_is_the_column(lake: Lake) -> None:
    table = opened(lake, layout_of("days(CREATED)", sort=("ID",)), Column("Created", "date", False))
    assert [one.name for one in table.spec().fields] == ["Created_day"]
    assert lake.target(PATH, "run").sort_by == ("id",)


def test_rows_are_sorted_within_a_row_group(lake: Lake) -> None:
    opened(lake, layout_of(sort=("c", "id")), Column("c", "int", False))
    rows = [{"id": number, "c": value} for number, value in enumerate([3, None, 1, 2, 1])]
    lake.replace(PATH, {}, written(lake, rows))
    found = loaded(lake).scan().to_arrow().to_pylist()
    assert [(row["c"], row["id"]) for row in found] == [(1, 2), (1, 4), (2, 3), (3, 0), (None, 1)]


def test_long_texts_have_no_bounds_and_are_stored_all_the_same(lake: Lake) -> None:
    opened(lake, layout_of("truncate(2, c)"), Column("c", "string", False))
    lake.replace(PATH, {}, written(lake, [{"id": 1, "c": "ab" + "x" * 9000}, {"id": 2, "c": "ab"}]))
    assert loaded(lake).scan(EQUAL_TO("c", "ab")).to_arrow()["id"].to_pylist() == [2]


def test_a_file_that_is_reported_with_another_partition_is_refused(lake: Lake) -> None:
    opened(lake, layout_of("months(c)"), Column("c", "date", False))
    (file,) = written(lake, [{"id": 1, "c": date(2026, 1, 3)}])
    wrong = WrittenFile(file.path, (None,), file.rows, file.bytes)
    with pytest.raises(LakeTableError, match="another c_month"):
        lake.replace(PATH, {}, [wrong])
    with pytest.raises(LakeTableError, match="another c_month"):
        lake.replace(PATH, {}, [WrittenFile(file.path, (5,), file.rows, file.bytes)])
    (nothing,) = written(lake, [{"id": 1, "c": None}])
    with pytest.raises(LakeTableError, match="without c"):
        lake.replace(PATH, {}, [WrittenFile(nothing.path, (672,), nothing.rows, nothing.bytes)])
