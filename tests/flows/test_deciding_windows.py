"""A window that is made again: only windows are read that may decide, and only row groups that may hold a touched key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.flows import snapshot_merges
from dts_assets.flows.snapshot_files import HeldFile, HeldRows
from dts_assets.flows.snapshot_jobs import plan_merge
from dts_assets.model.columns import Column
from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.keys import Keys
from dts_assets.stages.snapshot_in_arrow import Touched
from dts_assets.store.file_stores import FileStore
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, delete, insert, items, move, open_short, short_source, update
from tests.flows.source import Ddl, Source

WINDOWS = 6


def six_windows() -> Source:
    """Two tables; one is emptied in the third window."""
    source = short_source(items("one"), items("two"))
    for number in range(WINDOWS):
        at = border(number) + 10 * SECOND
        for name in source.tables:
            insert(source, at, range(10 * number, 10 * number + 10), table=name)
            if number:
                update(source, at + SECOND, {10 * number - 1: number, 10 * number + 1: number}, table=name)
                delete(source, at + 2 * SECOND, (10 * number + 2,), table=name)
                move(source, at + 3 * SECOND, {10 * number + 3: 1000 + number}, table=name)
        if number == 2:
            source.transaction(at + 4 * SECOND, Ddl("TRUNCATE TABLE two"))
            source.rows["two"].clear()
            insert(source, at + 5 * SECOND, (29, 30 - 1000), table="two")
        source.checkpoint(border(number) + 500 * SECOND)
    return source


@contextmanager
def windows_read() -> Iterator[dict[str, list[int]]]:
    """The numbers of the windows whose changes are read for each table."""
    found: dict[str, list[int]] = {}

    def noted(pipeline: Any, job: Any, *rest: Any) -> Any:
        merge = plan_merge(pipeline, job, *rest)
        starts = {file.partition["window_start"] for file in merge.changelog}
        found[job.table.table] = [number for number in range(WINDOWS) if border(number) in starts]
        return merge

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_merges, "plan_merge", noted)
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Harness, Source]:
    folder, source = tmp_path_factory.mktemp("deciding"), six_windows()
    harness = open_short(bench_in_process(folder, "deciding"), folder / "capture", source.messages, windows=WINDOWS)
    harness.settle()
    return harness, source


@pytest.mark.more(after=1)
@pytest.mark.parametrize("again", range(WINDOWS))
def test_a_window_that_is_made_again_reads_no_window_before_it(again: int, made: tuple[Harness, Source]) -> None:
    harness, source = made
    with windows_read() as found:
        harness.tables(again)
    # One table was emptied in the third window: all its rows are made again from there on.
    assert found == {"one": list(range(again, WINDOWS)), "two": list(range(2, WINDOWS))}
    assert harness.snapshots(source.tables) == source.rows


def test_a_change_that_is_no_longer_there_is_looked_for_in_all_windows(
    made: tuple[Harness, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, source = made
    monkeypatch.setattr("dts_assets.stages.keys.DistinctKeys.all_among", lambda *_: False)
    with windows_read() as found:
        harness.tables(4)
    assert found == {"one": list(range(WINDOWS)), "two": list(range(2, WINDOWS))}
    assert harness.snapshots(source.tables) == source.rows


# Row groups

COLUMNS = (Column("id", "bigint", True), Column("other", "string", False))
ID = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
OTHER = pa.field("other", pa.string(), metadata={"PARQUET:field_id": "2"})


def row_groups_read(folder: Path, monkeypatch: pytest.MonkeyPatch, field: pa.Field, keys: Sequence[Any]) -> list[int]:
    """The row groups of ten keys each, 0 to 99, that are read to find ``keys``; whether they are found is checked."""
    texts, numbers = [str(number).zfill(2) for number in range(100)], list(range(100))
    values: list[Any] = texts if field.type == pa.string() else numbers
    values = [Decimal(number) for number in numbers] if pa.types.is_decimal(field.type) else values
    schema = pa.schema([field, OTHER])
    table = pa.table([pa.array(values, field.type), pa.array(["x"] * 100)], schema)
    pq.write_table(table, folder / "held.parquet", row_group_size=10)
    shape = RowShape(COLUMNS, ("id", "other"), schema)
    read: list[int] = []
    real = HeldRows._batches

    def noted(self: HeldRows, names: Sequence[str], groups: Sequence[int] | None = None, **more: int) -> Any:
        read.extend(groups or range(10))
        return real(self, names, groups, **more)

    monkeypatch.setattr(HeldRows, "_batches", noted)
    with HeldRows(HeldFile(str(folder / "held.parquet")), shape, FileStore()) as held:
        found = held.touched(Touched(Keys([pa.array(keys, field.type)])))
    assert [value for value, gone in zip(values, found.gone.tolist(), strict=True) if gone] == [
        value for value in values if value in keys
    ]
    return read


def test_row_groups_without_room_for_a_touched_key_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert row_groups_read(tmp_path, monkeypatch, ID, [5, 9, 10, 77, 1000, -4]) == [0, 1, 7]
    assert row_groups_read(tmp_path, monkeypatch, ID, [200]) == []


def test_bounds_of_texts_are_compared_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pa.field("id", pa.string(), metadata=ID.metadata)
    assert row_groups_read(tmp_path, monkeypatch, text, ["05", "77", "é", ""]) == [0, 7]


@pytest.mark.parametrize("digits", [9, 18, 20, 38])
def test_bounds_of_decimals_are_compared_as_numbers(
    digits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decimal = pa.field("id", pa.decimal128(digits, 0), metadata=ID.metadata)
    assert row_groups_read(tmp_path, monkeypatch, decimal, [Decimal(5), Decimal(77), Decimal(-9)]) == [0, 7]


def test_types_that_have_no_certain_bounds_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    double = pa.field("id", pa.float64(), metadata=ID.metadata)
    assert row_groups_read(tmp_path, monkeypatch, double, [5.0]) == list(range(10))


def test_a_null_among_the_keys_is_in_no_row_group_without_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert row_groups_read(tmp_path, monkeypatch, ID, [5, None]) == [0]
