"""Tables that get other columns in one commit with their files: what readers see of each version, and who is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.types import NestedField

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import widened
from dts_assets.model.layouts import Layout, PartitionTransform
from dts_assets.store.lake import Lake
from dts_assets.store.planned_fields import PlannedField, with_fields
from tests.store.planned_tables import (
    COLUMNS,
    PATH,
    ROWS,
    SWAPPED,
    SWAPPED_ROWS,
    alter,
    filled_lake,
    kept,
    made_lake,
    schema_id,
    shown,
    write,
)
from tests.tiers import times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dts_assets.store.catalog import LakeLocation
    from dts_assets.store.files import WrittenFile


@pytest.fixture
def empty(lake_location: LakeLocation) -> Lake:
    return made_lake(lake_location)


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    return filled_lake(lake_location)


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("added", [True, False])
def test_columns_come_with_files_or_without(lake: Lake, added: bool, removes: bool) -> None:
    old = lake.state(PATH)
    row = {"id": 9, "b": 90, "new": "new", "a": -9}
    done = alter(lake, *SWAPPED, rows=[row] if added else [], keep=lambda _: not removes, properties={"told": "yes"})
    expected = ([] if removes else SWAPPED_ROWS) + ([row] if added else [])
    assert shown(lake) == expected
    assert [list(one) for one in shown(lake)] == [[one.name for one in SWAPPED] for _ in expected]
    assert lake.fields(PATH) == tuple((one.name, one.type) for one in SWAPPED)
    assert old is not None
    assert shown(lake, old.snapshot_id) == ROWS
    assert list(shown(lake, old.snapshot_id)[0]) == [name for name, _ in COLUMNS]
    state, table = lake.state(PATH), lake.catalog.load_table(PATH)
    assert state is not None
    assert (state.snapshot_id, state.properties["told"]) == (done.snapshot_id, "yes")
    head = table.current_snapshot()
    assert head is not None
    assert head.schema_id == table.metadata.current_schema_id
    assert table.schema().find_field("b").doc == "The first letter."


def test_columns_without_anything_else_are_a_version(lake: Lake) -> None:
    done = alter(lake, *SWAPPED)
    assert done.snapshot_id is not None
    assert shown(lake) == SWAPPED_ROWS
    again = tuple(PlannedField(one.name, one.type, one.name) for one in SWAPPED)
    target, planned = lake.planned(PATH, again, "r")
    assert planned is None
    assert target == lake.target(PATH, "r")


@pytest.mark.parametrize("rows", [0, 2])
def test_an_empty_table_gets_columns_with_its_first_commit(empty: Lake, rows: int) -> None:
    new = [{"id": number, "b": 1, "new": "x", "a": 2} for number in range(rows)]
    alter(empty, *SWAPPED, rows=new)
    assert shown(empty) == new
    assert empty.fields(PATH) == tuple((one.name, one.type) for one in SWAPPED)


def test_rows_are_found_by_new_names(lake: Lake) -> None:
    """Bounds are kept by field ids, and those of promoted columns are shorter."""
    alter(lake, *SWAPPED, rows=[{"id": 2**40, "b": 5, "new": "x", "a": 5}])
    for where, ids in (("b = 20", [2]), ("a = -3", [3]), ("id > 2", [3, 2**40]), ("new is not null", [2**40])):
        found = lake.scan(PATH, where=where)
        assert found is not None
        assert sorted(found.column("id").to_pylist()) == ids, where
    files = lake.data_files(PATH, bounds=("id", "b", "a", "new"))
    assert sorted((dict(one.least), dict(one.greatest)) for one in files if one.rows > 1) == [
        ({"id": 0, "b": 0, "a": -3}, {"id": 3, "b": 30, "a": 0})
    ]
    assert [one.least for one in files if one.rows == 1] == [{"id": 2**40, "b": 5, "a": 5, "new": "x"}]


def test_a_type_that_cannot_be_promoted_is_a_new_column(lake: Lake) -> None:
    fields = (*kept("id"), PlannedField("a", "string", "a"), PlannedField("b", "int", None), *kept("tags"))
    before = lake.catalog.load_table(PATH).schema()
    target, planned = lake.planned(PATH, fields, "r")
    assert planned is not None
    a, b = (target.arrow_schema.field(name).metadata[b"PARQUET:field_id"] for name in ("a", "b"))
    assert target.former_ids == {a: str(before.find_field("a").field_id).encode()}, "b is another column"
    rows = [{**row, "a": str(row["a"]), "b": None} for row in ROWS]
    lake.replace(PATH, {}, write(target, rows), same_rows=True, columns=planned)
    assert shown(lake) == rows
    schema = lake.catalog.load_table(PATH).schema()
    assert [schema.find_field(name).field_id for name in ("a", "b")] == [int(a), int(b)] == [7, 8]
    assert schema.find_field("a").doc == "The first letter."


def test_a_narrower_type_is_a_new_column(lake: Lake) -> None:
    alter(lake, PlannedField("id", "bigint", "id"))
    number = lake.catalog.load_table(PATH).schema().find_field("id").field_id
    alter(lake, PlannedField("id", "int", "id"))
    assert lake.catalog.load_table(PATH).schema().find_field("id").field_id > number
    assert shown_ids(lake) == [None] * 4


def shown_ids(lake: Lake) -> list[Any]:
    table = lake.scan(PATH)
    assert table is not None
    return list(table.column("id").to_pylist())


def test_a_former_schema_is_taken_up_again(lake: Lake) -> None:
    """A catalog keeps one schema of two equal ones, and an Iceberg snapshot names the one it has."""
    first = schema_id(lake)
    alter(lake, *kept("id", "b", "a", "tags"))
    second = schema_id(lake)
    alter(lake, *kept("id", "a", "b", "tags"))
    table = lake.catalog.load_table(PATH)
    assert second != first == table.metadata.current_schema_id
    assert len(table.metadata.schemas) == 2
    assert [one.schema_id for one in table.metadata.snapshots] == [first, second, first]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ((*kept("id", "a"), PlannedField("A", "int", "b")), "one name twice.*: a, A"),
        ((*kept("id"), PlannedField("x", "int", "a"), PlannedField("y", "int", "a")), "follows one column twice: a"),
        ((*kept("id"), PlannedField("x", "int", "c")), "columns that it has not: c"),
    ],
)
def test_a_plan_that_is_unclear_is_refused(lake: Lake, fields: Sequence[PlannedField], what: str) -> None:
    with pytest.raises(LakeTableError, match=what):
        lake.planned(PATH, fields, "r")


def test_columns_that_identify_rows_go_on_doing_so(lake: Lake) -> None:
    alter(lake, *kept("id", "a"))  # so that there is no other schema like it
    table = lake.catalog.load_table(PATH)
    schema = table.schema()
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in ("id", "a"):
            update.update_column(name, required=True)
        update.set_identifier_fields("id", "a")
    alter(lake, PlannedField("number", "bigint", "id"), PlannedField("b", "int", None))
    after = lake.catalog.load_table(PATH).schema()
    assert after.identifier_field_ids == [schema.find_field("id").field_id]
    assert after.find_field("number").required


# Layouts


def _laid_out(lake: Lake, *fields: tuple[str, str], sort: tuple[str, ...] = ()) -> None:
    lake.lay_out(
        PATH,
        lake.catalog.load_table(PATH),
        Layout(tuple(PartitionTransform(transform, column) for transform, column in fields), sort),
    )


def test_a_layout_follows_its_columns(lake: Lake) -> None:
    _laid_out(lake, ("truncate[10]", "a"), sort=("b",))
    late = write(lake.target(PATH, "late"), [{"id": 8, "a": 81, "b": 3, "tags": None}])
    fields = (PlannedField("b", "bigint", "a"), PlannedField("a", "bigint", "b"), *kept("id"))
    target, planned = lake.planned(PATH, fields, "r")
    assert (target.partition_by, target.sort_by) == (("b",), ("a",))
    files = write(target, [{"id": 9, "a": 2, "b": 91}, {"id": 10, "a": 1, "b": 92}])
    lake.replace(PATH, {}, files, keep=lambda _: True, columns=planned)
    lake.replace(PATH, {}, late, keep=lambda _: True)  # its column b is not the one that partitions are made of
    partitions = [one.partition for one in lake.data_files(PATH)]
    assert sorted(dict(one).get("a_trunc_10", 0) for one in partitions) == [0, 80, 90]
    found = lake.scan(PATH, where="b >= 80")
    assert found is not None
    assert sorted(found.column("id").to_pylist()) == [8, 9, 10]
    wrong = write(lake.target(PATH, "wrong"), [{"id": 11, "b": 5, "a": 95}])
    with pytest.raises(LakeTableError, match="another a_trunc_10 than its rows have"):
        lake.replace(PATH, {}, [_reported(one, (90,)) for one in wrong], keep=lambda _: True)


def _reported(file: WrittenFile, partition: tuple[Any, ...]) -> WrittenFile:
    return type(file)(file.path, partition, file.rows, file.bytes)


@pytest.mark.parametrize("is_sort", [True, False])
def test_a_column_that_the_layout_needs_stays(lake: Lake, is_sort: bool) -> None:
    _laid_out(*(lake,) if is_sort else (lake, ("bucket[4]", "a")), sort=("a",) if is_sort else ())
    with pytest.raises(LakeTableError, match="its layout needs a, which was dropped at the source"):
        lake.planned(PATH, kept("id", "b"), "r")
    with pytest.raises(LakeTableError, match="its layout needs a, which became another type at the source"):
        lake.planned(PATH, (*kept("id", "b"), PlannedField("x", "string", "a")), "r")
    with pytest.raises(LakeTableError, match="its layout needs a, which was dropped at the source"):
        lake.planned(PATH, (*kept("id", "b"), PlannedField("a", "int", None)), "r")


@pytest.mark.parametrize("is_former", [True, False])
@pytest.mark.parametrize(("transform", "name"), [("identity", "a"), ("bucket[4]", "a_bucket_4")])
def test_the_name_of_a_partition_field_is_no_other_columns(
    lake: Lake, transform: str, name: str, is_former: bool
) -> None:
    """Spark could not open the table any more."""
    _laid_out(lake, (transform, "a"))
    if is_former:
        _laid_out(lake)
    with pytest.raises(LakeTableError, match=f"has the name of its new column {name}"):
        lake.planned(PATH, (*kept("id"), PlannedField("z", "int", "a"), PlannedField(name, "string", None)), "r")


def test_a_column_of_a_former_layout_is_dropped(lake: Lake) -> None:
    """Files with its partition values stay, and their manifest is written anew without some of them."""
    _laid_out(lake, ("identity", "a"))
    lake.replace(PATH, {}, write(lake.target(PATH, "laid_out"), ROWS))
    _laid_out(lake)
    gone = lake.data_files(PATH)[0].path
    alter(lake, *kept("id", "b"), PlannedField("a", "string", None), keep=lambda one: one.file_path != gone)
    assert shown(lake) == [{"id": n, "b": -n, "a": None} for n in (1, 2, 3)]
    assert sorted(one.partition["a"] for one in lake.data_files(PATH)) == [10, 20, 30]
    lake.replace(PATH, {}, (), keep=lambda one: one.file_path == lake.data_files(PATH)[0].path)
    assert [row["id"] for row in shown(lake)] == [1]


# Any sequence of plans

TYPES = ("int", "bigint", "float", "double", "decimal(7,2)", "decimal(12,2)", "string", "date", "map<string,string>")
NAMES = ("a", "A", "b", "c", "d.e", "名")


def value_of(kind: str, number: int) -> Any:
    """A value of a type, each number another one."""
    if kind.startswith("decimal"):
        return Decimal(number) / 100
    if kind == "date":
        return date(2026, 1, 1) + timedelta(number)
    if kind.startswith("map"):
        return [("k", str(number))]
    return number / 4 if kind in ("float", "double") else str(number) if kind == "string" else number


@dataclass
class Model:
    """A table in memory: columns by a number of their own, and rows by these numbers."""

    columns: list[tuple[int, str, str]] = field(default_factory=list)
    rows: list[dict[int, Any]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def shown(self) -> list[list[tuple[str, Any]]]:
        return [[(name, row.get(number)) for number, name, _ in self.columns] for row in self.rows]

    def alter(self, fields: Sequence[PlannedField]) -> None:
        present = {name: (number, kind) for number, name, kind in self.columns}
        self.columns = [
            (present[one.former][0], one.name, one.type)
            if one.former is not None and widened(present[one.former][1], one.type) == one.type
            else (next(self.numbers), one.name, one.type)
            for one in fields
        ]

    def add(self, start: int) -> list[dict[str, Any]]:
        new = [
            {number: value_of(kind, start + place) for place, (number, _, kind) in enumerate(self.columns)},
            {number: None for number, _, _ in self.columns[1:]},
        ]
        self.rows += new
        return [{name: row.get(number) for number, name, _ in self.columns} for row in new]


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[list[tuple[str, str, int | None]], str]]:
    """Plans whose columns follow others by their places in the plan before, each with what is done with files."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique_by=str.lower))
        former = draw(st.permutations(range(4)))
        columns = [
            (name, draw(st.sampled_from(("same", "same", *TYPES))), draw(st.sampled_from((place, place, place, None))))
            for name, place in zip(names, former, strict=False)
        ]
        found.append((columns, draw(st.sampled_from(("nothing", "append", "anew")))))
    return found


@pytest.mark.more
@given(sequence=plans())
@settings(max_examples=times(25, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_plans_reads_like_a_table_in_memory(
    sequence: list[tuple[list[tuple[str, str, int | None]], str]], lake_location: LakeLocation
) -> None:
    path = ("shop", "snapshot", "shopdb", f"t{next(_TABLES)}")
    start = (("a", "int"), ("b", "float"), ("c", "decimal(7,2)"), ("map", "map<string,string>"))
    lake, model = made_lake(lake_location, path, start), Model()
    model.columns = [(next(model.numbers), name, kind) for name, kind in start]
    lake.replace(path, {}, write(lake.target(path, "first"), model.add(1)))
    ids = dict(zip((number for number, _, _ in model.columns), _ids(lake, path), strict=True))
    past = [(lake.state(path), model.shown())]
    for step, (columns, does) in enumerate(sequence):
        fields = _resolved(columns, model)
        target, planned = lake.planned(path, fields, f"r{step}")
        same = [(one.name, one.type, one.former) for one in fields] == [(n, k, n) for _, n, k in model.columns]
        assert (planned is None) == same
        model.alter(fields)
        if does == "anew":
            model.rows = []
        rows = [] if does == "nothing" else model.add(100 * step + 10)
        lake.replace(path, {}, write(target, rows), keep=None if does == "anew" else lambda _: True, columns=planned)
        assert lake.fields(path) == tuple((name, kind) for _, name, kind in model.columns)
        now = dict(zip((number for number, _, _ in model.columns), _ids(lake, path), strict=True))
        new = now.keys() - ids.keys()
        assert {number: ids[number] for number in now if number not in new}.items() <= now.items(), "a field was lost"
        assert all(now[number] > max(ids.values()) for number in new), "a field's id was used again"
        ids |= now
        past.append((lake.state(path), model.shown()))
    assert past
    for state, expected in past:
        assert state is not None
        found = lake.scan(path, snapshot_id=state.snapshot_id)
        assert found is not None
        assert _sorted([list(row.items()) for row in found.to_pylist()]) == _sorted(expected)


_TABLES = count()


def _resolved(columns: Sequence[tuple[str, str, int | None]], model: Model) -> list[PlannedField]:
    fields = []
    for name, kind, place in columns:
        found = None if place is None or place >= len(model.columns) else model.columns[place]
        former = None if found is None else found[1]
        fields.append(PlannedField(name, (found[2] if found else "int") if kind == "same" else kind, former))
    return fields


def _ids(lake: Lake, path: tuple[str, ...]) -> list[int]:
    fields: tuple[NestedField, ...] = lake.catalog.load_table(path).schema().fields
    return [one.field_id for one in fields]


def _sorted(rows: list[list[tuple[str, Any]]]) -> list[list[tuple[str, Any]]]:
    return sorted(rows, key=str)


def test_new_ids_follow_from_the_schema_alone(lake: Lake) -> None:
    table = lake.catalog.load_table(PATH)
    fields = (*SWAPPED, PlannedField("map", "map<string,string>", None), PlannedField("last", "int", None))
    one, other = (with_fields(table, fields).table.schema() for _ in range(2))
    assert one == other
    assert {name: one.find_field(name).field_id for name in ("new", "map", "map.key", "map.value", "last")} == {
        "new": 7, "map": 8, "map.key": 9, "map.value": 10, "last": 11,
    }  # fmt: skip
