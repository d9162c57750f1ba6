"""The check of keys on real snapshots: it counts keys that another program put in twice, and can leave large tables out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.errors import LakeTableError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.model.failures import Failure
from dts_assets.store.lake import Lake
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, insert, items, open_short, short_source, three_windows
from tests.flows.source import Ddl, Dml, Source, write_capture
from tests.flows.source_tables import DATE, INT, Field, Table


def test_a_row_that_another_program_put_in_twice_is_found(tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    write_capture(tmp_path / "capture", source.messages)
    harness = bench_in_process(tmp_path, "keys").open(tmp_path / "capture", name="keys", partitions=LANES)
    harness.all(0, 1, 2)
    one, two = (source.tables[name].name for name in ("one", "two"))
    found = {table.path[-1]: count for table, count in find_repeated_keys(harness.pipeline).results.items()}
    assert found == {one: 0, two: 0}

    path = harness.pipeline.path("snapshot", "bank", "one")
    table = harness.pipeline.lake.catalog.load_table(path)
    row = table.scan().to_arrow().slice(0, 1)
    table.append(row)
    found = {table.path[-1]: count for table, count in find_repeated_keys(harness.pipeline).results.items()}
    assert found == {one: 1, two: 0}
    smallest = find_repeated_keys(harness.pipeline, most_rows=len(source.rows["two"]))
    assert {table.path[-1] for table in smallest.results} == {two}


def opened(folder: Path, source: Source, windows: int) -> Harness:
    return open_short(bench_in_process(folder, "keys"), folder / "capture", source.messages, windows=windows)


@pytest.mark.parametrize("key", ["number", "day"])
def test_values_that_do_not_fit_their_column_are_read_as_the_lake_has_them(tmp_path: Path, key: str) -> None:
    """Files with and without such values lie beside each other."""
    source = short_source(
        Table("days", [Field(name, kind, name == key) for name, kind in (("number", INT), ("day", DATE))])
    )
    for window, day in enumerate(("0000-00-00", "2026-01-01", "2026-02-31")):
        source.transaction(
            border(window) + SECOND, Dml(source.tables["days"], [(None, {"number": window, "day": day})])
        )
        source.checkpoint(border(window) + 500 * SECOND)
    harness = opened(tmp_path, source, windows=3)
    for window in range(3):
        harness.all(window)
    (table,) = known_tables(harness.pipeline)
    assert find_repeated_keys(harness.pipeline) == OneByOne({table: 0})


def test_a_key_is_read_by_the_names_that_the_snapshot_has(tmp_path: Path) -> None:
    """Behind the snapshot stands a window in which the key gets another name, which is known already."""
    source = short_source()
    insert(source, border(0) + SECOND, range(3))
    source.checkpoint(border(0) + 500 * SECOND)
    items_ = source.tables["items"]
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items RENAME COLUMN id TO code"))
    items_.columns[0] = Field("code", INT, True)
    source.transaction(border(1) + 2 * SECOND, Dml(items_, [(None, {"code": 9, "n": 0, "note": None})]))
    source.checkpoint(border(1) + 500 * SECOND)
    harness = opened(tmp_path, source, windows=2)
    harness.all(0)
    harness.raw(1)
    harness.entries(1)
    ((table, columns),) = known_tables(harness.pipeline).items()
    assert [column.name for column in columns if column.is_key] == ["code"]
    assert find_repeated_keys(harness.pipeline) == OneByOne({table: 0})
    harness.tables(1)
    assert find_repeated_keys(harness.pipeline) == OneByOne({table: 0})


def test_a_table_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = three_windows(items("one"), items("three"), items("two"))
    harness = opened(tmp_path, source, windows=3)
    harness.all(0, 1, 2)
    one, three, two = sorted(known_tables(harness.pipeline))
    read = Lake.batches

    def odd(lake: Lake, path: tuple[str, ...], **options: object) -> object:
        if path[-1] == one.path[-1]:
            raise ValueError("a row with a value")
        if path[-1] == two.path[-1]:
            raise LakeTableError("shop.two", "it is odd")
        return read(lake, path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "batches", odd)
    found = find_repeated_keys(harness.pipeline)
    assert found.results == {three: 0}
    assert found.failures[two] == Failure(str(LakeTableError("shop.two", "it is odd")), 11)
    unexpected = found.failures[one]
    assert unexpected.exit_code == 3
    assert (
        f"The look at the keys of {one} could not be finished: ValueError at flows/row_keys.py:" in unexpected.sentence
    )
    assert "a row with a value" not in unexpected.sentence
