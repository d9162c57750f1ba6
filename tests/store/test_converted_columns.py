"""Columns that become another type in one commit with their files: what readers see before, between and behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.types import StructType

from dts_assets.errors import LakeTableError, StaleGenerationError
from dts_assets.model.columns import Column
from dts_assets.model.layouts import Layout, PartitionTransform
from dts_assets.model.tables import TableId
from dts_assets.store.columns import changelog_columns, snapshot_columns
from dts_assets.store.commit import replace
from dts_assets.store.converted_columns import PlannedColumns, needs_conversion
from dts_assets.store.files import TableWriter, read_batches
from dts_assets.store.iceberg_tables import ensure_table, evolve
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import changelog_layout, snapshot_layout
from dts_assets.store.types import lake_type
from tests.store.conftest import START

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from dts_assets.store.catalog import LakeLocation
    from dts_assets.store.files import WrittenFile

TABLE = TableId("shopdb", "", "items")
NUMBERS = (Column("id", "int", True), Column("n", "int", False), Column("note", "string", False))
TEXTS = (NUMBERS[0], Column("n", "string", False, own_types=(("int(11)", "int"),)), NUMBERS[2])
BYTES = (NUMBERS[0], Column("n", "binary", False), NUMBERS[2])
PATH = ("shop", "changelog", *TABLE.path)


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    """A lake with a changelog whose ``n`` is a number: two windows of one row each."""
    lake = Lake(lake_location)
    ensure_table(lake.catalog, PATH, changelog_layout(TABLE, NUMBERS))
    for window in (0, 1):
        replace(
            lake.catalog,
            PATH,
            {"window_start": {START}} if not window else {},
            _rows(lake, window),
            keep=lambda _: True,
        )
    return lake


def _rows(lake: Lake, number: int) -> tuple[WrittenFile, ...]:
    schema = lake.target(PATH, "r").arrow_schema
    row = {
        "op": "insert",
        "after": {"id": number, "n": 7, "note": "x"},
        "window_start": START,
        "kafka_partition": number,
    }
    with TableWriter(lake.target(PATH, f"r{number}")) as writer:
        writer.write(pa.RecordBatch.from_pylist([row], schema))
        return writer.close()


def _written_anew(lake: Lake) -> tuple[tuple[WrittenFile, ...], PlannedColumns]:
    found = lake.conversion(PATH, changelog_columns(TEXTS), "r0")
    assert found is not None
    target, planned = found
    paths = [file.path for file in lake.data_files(PATH)]
    with TableWriter(target) as writer:
        for rows in read_batches(target.store, paths, target.arrow_schema.names):
            writer.write(rows)
        return writer.close(), planned


def _shown(table: Table, snapshot_id: int | None = None) -> list[Any]:
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted((row["after"]["id"], row["after"]["n"]) for row in rows)


def _fields(table: Table) -> list[str]:
    kind = table.schema().find_field("after").field_type
    assert isinstance(kind, StructType)
    return [one.name for one in kind.fields]


def test_files_and_columns_come_in_one_commit(lake: Lake) -> None:
    before = lake.catalog.load_table(PATH)
    files, planned = _written_anew(lake)
    assert _shown(lake.catalog.load_table(PATH)) == [(0, 7), (1, 7)]
    replace(lake.catalog, PATH, {}, files, same_rows=True, columns=planned)
    after = lake.catalog.load_table(PATH)
    assert _shown(after) == [(0, "7"), (1, "7")]
    assert _fields(after) == ["id", "n", "note"]
    old = before.current_snapshot()
    assert old is not None
    assert _shown(after, old.snapshot_id) == [(0, 7), (1, 7)], "what was read before is read as before"
    assert lake.conversion(PATH, changelog_columns(TEXTS), "r0") is None
    evolve(lake.catalog, PATH, changelog_columns(TEXTS))
    assert lake.catalog.load_table(PATH).metadata.current_schema_id == after.metadata.current_schema_id
    head = after.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation.value == "replace"
    assert head.schema_id == after.metadata.current_schema_id


@pytest.mark.parametrize("lands", [True, False])
def test_a_catalog_that_gives_no_answer_is_asked_again(
    lake: Lake, lands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files, planned), catalog = _written_anew(lake), lake.catalog
    commit, asked = catalog.commit_table, list[int]()

    def unheard(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) > 1 or lands:
            done = commit(*arguments)
        if len(asked) == 1:
            raise CommitStateUnknownException("the connection was cut")
        return done

    monkeypatch.setattr(catalog, "commit_table", unheard)
    replace(catalog, PATH, {}, files, same_rows=True, columns=planned)
    assert len(asked) == (1 if lands else 2)
    assert _shown(catalog.load_table(PATH)) == [(0, "7"), (1, "7")]


@pytest.mark.parametrize("when", ["before the first try", "between two tries"])
def test_columns_that_come_meanwhile_are_not_taken_for_converted_ones(
    lake: Lake, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new files have the field ids that the other writer's column has got."""
    (files, planned), catalog = _written_anew(lake), lake.catalog
    commit, refused = catalog.commit_table, list[int]()

    def other() -> None:
        evolve(catalog, PATH, changelog_columns((*NUMBERS, Column("more", "string", False))))

    def late(*arguments: Any) -> Any:
        if not refused:
            refused.append(1)
            other()
            raise CommitFailedException("another writer was faster")
        return commit(*arguments)

    if when == "before the first try":
        other()
    else:
        monkeypatch.setattr(catalog, "commit_table", late)
    with pytest.raises(StaleGenerationError, match="schema"):
        replace(catalog, PATH, {}, files, same_rows=True, columns=planned)
    assert _shown(catalog.load_table(PATH)) == [(0, 7), (1, 7)]
    replace(catalog, PATH, {}, (again := _written_anew(lake))[0], same_rows=True, columns=again[1])
    table = catalog.load_table(PATH)
    assert _shown(table) == [(0, "7"), (1, "7")]
    assert _fields(table) == ["id", "n", "note", "more"]


def test_a_column_of_another_spelling_is_converted_too(lake: Lake) -> None:
    spelled = (NUMBERS[0], Column("N", "string", False, ("n", "N")), NUMBERS[2])
    found = lake.conversion(PATH, changelog_columns(spelled), "r0")
    assert found is not None
    with TableWriter(found[0]) as writer:
        for rows in read_batches(
            found[0].store, [file.path for file in lake.data_files(PATH)], found[0].arrow_schema.names
        ):
            writer.write(rows)
        files = writer.close()
    replace(lake.catalog, PATH, {}, files, same_rows=True, columns=found[1])
    evolve(lake.catalog, PATH, changelog_columns(spelled))
    rows = lake.catalog.load_table(PATH).scan().to_arrow().to_pylist()
    assert sorted((row["after"]["id"], row["after"]["N"]) for row in rows) == [(0, "7"), (1, "7")]


def test_a_table_without_files_gets_its_columns(lake: Lake) -> None:
    replace(lake.catalog, PATH, {}, ())
    files, planned = _written_anew(lake)
    assert files == ()
    replace(lake.catalog, PATH, {}, files, same_rows=True, columns=planned)
    schema = lake.catalog.load_table(PATH).schema()
    assert lake_type(schema.find_type("after.n")) == lake_type(schema.find_type("before.n")) == "string"


def test_a_column_that_the_layout_needs_lets_the_table_stand_still(lake: Lake) -> None:
    path = ("shop", "snapshot", *TABLE.path)
    table = lake.ensure(path, snapshot_layout(TABLE, NUMBERS))
    for layout in (Layout(partition=(PartitionTransform("bucket[4]", "n"),)), Layout(sort=("n",))):
        lake.lay_out(path, table, layout)
        with pytest.raises(LakeTableError, match="its layout needs n, which became another type"):
            lake.conversion(path, snapshot_columns(TEXTS), "r")


@pytest.mark.parametrize("empty", [True, False])
def test_a_layout_comes_with_the_column_that_it_is_made_of(lake: Lake, empty: bool) -> None:
    path, layout = ("shop", "snapshot", *TABLE.path), Layout((PartitionTransform("bucket[4]", "n"),), ("n",))
    lake.lay_out(path, lake.ensure(path, snapshot_layout(TABLE, NUMBERS)), layout)
    for kind in (NUMBERS, TEXTS):
        target = lake.target(path, "r")
        found = lake.conversion(path, snapshot_columns(kind), "r", layout)
        assert (found is None) == (kind is NUMBERS)
        target, planned = (target, None) if found is None else found
        n = "7" if planned else 7
        schema = pa.schema([one for one in target.arrow_schema.remove_metadata() if one.name in ("id", "n")])
        with TableWriter(target) as writer:
            writer.write(pa.RecordBatch.from_pylist([] if empty else [{"id": 1, "n": n}], schema))
            replace(lake.catalog, path, {}, writer.close(), columns=planned)
    table = lake.catalog.load_table(path)
    assert [one.field_id for one in table.schema().fields if one.name == "n"] == [
        *(one.source_id for one in table.spec().fields)
    ]
    assert table.scan(row_filter="n = '7'").to_arrow().num_rows == (not empty)
    assert lake.target(path, "r").sort_by == ("n",)
    with pytest.raises(LakeTableError, match="its layout asks for day of n, which became the type binary"):
        lake.conversion(path, snapshot_columns(BYTES), "r", Layout((PartitionTransform("day", "n"),)))


def test_only_types_that_hold_every_value_are_conversions() -> None:
    assert needs_conversion("int", "string")
    assert needs_conversion("string", "binary")
    assert not needs_conversion("int", "bigint"), "Iceberg widens it in place"
    assert not needs_conversion("string", "int"), "a text may be no number"
    assert not needs_conversion("binary", "string")
