"""One task of a refresh on real files, without Spark: which files are written anew, and what is in them then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog

from dts_assets.flows.merged_table import MergedTable
from dts_assets.flows.snapshot_files import HeldFile
from dts_assets.flows.snapshot_jobs import file_groups
from dts_assets.flows.snapshot_tasks import (
    RefreshTask,
    ShareTask,
    refresh_files,
    share_out,
    write_share,
)
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.stages.change_columns import Counted
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.columns import changelog_columns, snapshot_columns
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.iceberg_tables import ensure_table, evolve
from dts_assets.store.schemas import TableLayout, changelog_layout, snapshot_layout
from dts_assets.store.stored_files import StoredFile
from dts_assets.store.write_targets import write_target

START = datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = (Column("id", "int", True), Column("no.te", "string", False))
WIDER = (Column("id", "bigint", True), Column("no.te", "string", False), Column("_op", "int", False))
TABLE = TableId("shopdb", "", "orders")
SNAPSHOT, CHANGELOG = ("shop", "snapshot"), ("shop", "changelog")


@pytest.fixture
def catalog(lake_location: LakeLocation) -> Catalog:
    made = open_catalog(lake_location)
    layouts: dict[tuple[str, str], TableLayout] = {
        SNAPSHOT: snapshot_layout(TABLE, COLUMNS), CHANGELOG: changelog_layout(TABLE, COLUMNS)
    }  # fmt: skip
    for name, one in layouts.items():
        ensure_table(made, name, one)
    return made


def written(catalog: Catalog, name: tuple[str, str], rows: Sequence[dict[str, Any]]) -> WrittenFile:
    target = write_target(catalog.load_table(name), "run")
    with TableWriter(target) as writer:
        writer.write(pa.RecordBatch.from_pylist(list(rows), target.arrow_schema))
        (file,) = writer.close()
    return file


def held(catalog: Catalog, *rows: tuple[int | None, str]) -> str:
    return written(catalog, SNAPSHOT, [{"id": key, "no.te": note, "_kafka_offset": 1} for key, note in rows]).path


def change(op: str, before: int | None, after: int | None, position: int, note: str = "new") -> dict[str, Any]:
    def image(key: int | None) -> dict[str, Any] | None:
        return None if key is None else {"id": key, "no.te": note}

    return {
        "op": op, "before": image(before), "after": image(after), "event_time": START, "row_number": 0,
        "source_position": {"lineage": 0, "file": 1, "position": position}, "kafka_partition": 0, "kafka_offset": position,
        "epoch": 0, "window_start": START, "absent": [], "invalid": {},
    }  # fmt: skip


def task(catalog: Catalog, files: Sequence[HeldFile], changes: Sequence[dict[str, Any]]) -> RefreshTask:
    target = write_target(catalog.load_table(SNAPSHOT), "refresh")
    return RefreshTask(
        MergedTable("snapshot", TABLE, COLUMNS, Counted(Frontier(START, START, None)), target),
        changelog=(written(catalog, CHANGELOG, changes).path,) if changes else (),
        files=tuple(files),
        adds=True,
        bytes=1,
    )


def rows_of(files: Sequence[WrittenFile]) -> list[tuple[Any, ...]]:
    found = [row for file in files for row in pq.read_table(Path(file.path.removeprefix("file://"))).to_pylist()]
    return sorted(tuple(row.values()) for row in found)


def test_only_files_with_a_touched_row_are_written_anew(catalog: Catalog) -> None:
    one, two, three = held(catalog, (1, "a"), (2, "b")), held(catalog, (3, "c"), (4, "d")), held(catalog, (5, "e"))
    changes = [change("update", 3, 3, 10), change("delete", 5, None, 20), change("insert", None, 9, 30)]
    result = refresh_files(task(catalog, [HeldFile(path) for path in (one, two, three)], changes), "0")
    assert set(result.removed) == {two, three}
    assert [row[:2] for row in rows_of(result.written)] == [(3, "new"), (4, "d"), (9, "new")]
    assert [row[-3] for row in rows_of(result.written)] == [10, 1, 30], (
        "the others keep what is shown of their last change"
    )


def test_another_task_of_the_table_adds_the_new_rows(catalog: Catalog) -> None:
    path = held(catalog, (1, "a"), (2, "b"))
    mine = changed(task(catalog, [HeldFile(path)], [change("update", 1, 7, 10)]), adds=False)
    result = refresh_files(mine, "0")
    assert result.removed == (path,)
    assert [row[:2] for row in rows_of(result.written)] == [(2, "b")]


def test_small_files_become_one_though_nothing_touches_them(catalog: Catalog) -> None:
    paths = [held(catalog, (number, "old")) for number in range(4)]
    files = [HeldFile(path, rewrite=number < 3) for number, path in enumerate(paths)]
    result = refresh_files(task(catalog, files, [change("insert", None, 8, 10)]), "0")
    assert set(result.removed) == set(paths[:3])
    (file,) = result.written
    assert [row[:2] for row in rows_of([file])] == [(0, "old"), (1, "old"), (2, "old"), (8, "new")]


def test_changes_that_touch_nothing_write_nothing(catalog: Catalog) -> None:
    path = held(catalog, (1, "a"))
    for changes in (
        [],
        [change("delete", 6, None, 10)],
        [change("insert", None, 6, 10), change("delete", 6, None, 20)],
    ):
        result = refresh_files(task(catalog, [HeldFile(path)], changes), "0")
        assert (result.removed, result.written) == ((), ())


@pytest.mark.parametrize("adds", [True, False])
def test_a_null_in_a_key_is_a_key(catalog: Catalog, *, adds: bool) -> None:
    path = held(catalog, (1, "a"), (None, "old"))
    nobody = {**change("insert", None, 1, 10), "after": {"id": None, "no.te": "x"}}
    made = changed(task(catalog, [HeldFile(path)], [nobody]), adds=adds)
    result = refresh_files(made, "0")
    assert result.removed == (path,)
    found = [row for file in result.written for row in pq.read_table(file.path.removeprefix("file://")).to_pylist()]
    assert {(row["id"], row["no.te"]) for row in found} == {(1, "a"), *([(None, "x")] if adds else [])}


def test_files_from_before_a_column_came_or_became_wider(catalog: Catalog) -> None:
    path, old_changes = held(catalog, (1, "a"), (2, "b")), [change("update", 1, 1, 10)]
    older = written(catalog, CHANGELOG, old_changes).path
    evolve(catalog, SNAPSHOT, snapshot_columns(WIDER))
    evolve(catalog, CHANGELOG, changelog_columns(WIDER))
    newer = {**change("insert", None, 5_000_000_000, 20), "after": {"id": 5_000_000_000, "no.te": "big", "_op": 4}}
    made = task(catalog, [HeldFile(path)], [newer])
    result = refresh_files(
        changed(made, merged=changed(made.merged, columns=WIDER), changelog=(older, *made.changelog)), "0"
    )
    assert result.removed == (path,)
    names = write_target(catalog.load_table(SNAPSHOT), "x").arrow_schema.names
    assert [dict(zip(names, row, strict=True))["_source__op"] for row in rows_of(result.written)] == [None, None, 4]
    assert [row[:2] for row in rows_of(result.written)] == [(1, "new"), (2, "b"), (5_000_000_000, "big")]


def test_files_are_shared_out_by_size_and_small_ones_meet() -> None:
    def file(name: str, megabytes: float) -> StoredFile:
        return StoredFile(name, {}, 1, int(megabytes * (1 << 20)))

    few = file_groups([file("a", 80), file("b", 60), file("c", 1), file("d", 200)])
    assert [[one.path for one in group] for group in few] == [["c", "b"], ["a"], ["d"]]
    assert not any(one.rewrite for group in few for one in group)
    many = file_groups([file("large", 20), *(file(f"s{number}", 1) for number in range(9))])
    assert {one.path for group in many for one in group if one.rewrite} == {f"s{number}" for number in range(9)}
    assert file_groups([]) == [()], "an empty table still has a task, which adds"


def test_the_window_of_a_change_decides_whether_it_is_taken(catalog: Catalog) -> None:
    later = {**change("insert", None, 8, 10), "window_start": START + timedelta(hours=1)}
    files = [HeldFile(held(catalog, (1, "a")))]
    result = refresh_files(task(catalog, files, [later]), "0")
    assert (result.removed, result.written) == ((), ())


def test_shares_are_written_and_a_share_that_cannot_be_read_is_the_fault_of_its_table(catalog: Catalog) -> None:
    made = task(catalog, [], [change("insert", None, number, number) for number in range(20)])
    pieces = list(share_out(ShareTask(made.merged, made.changelog, 3, 1), "0"))
    assert {share for share, _ in pieces} == {0, 1, 2}
    shares = [[piece for number, piece in pieces if number == share] for share in range(3)]
    written = [write_share(made.merged, iter(share), f"{number}") for number, share in enumerate(shares)]
    assert [row[0] for row in rows_of([file for result in written for file in result.written])] == list(range(20))

    lost = ShareTask(made.merged, (*made.changelog, f"{made.changelog[0]}.lost"), 3, 1)
    found = [write_share(made.merged, iter([piece]), "0") for _, piece in share_out(lost, "0")]
    assert [result.fault is None for result in found] == [True] * len(pieces) + [False]
    assert write_share(made.merged, iter([b"no pickle"]), "0").fault is not None
