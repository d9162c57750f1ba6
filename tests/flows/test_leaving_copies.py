"""Copies leave the lake with their table, and together with the entries of their window."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dts_assets.flows.copies import cancel_copies
from dts_assets.flows.copying import _resume
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger, unusable_tables
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.lake_size import lake_bytes
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.flows.this_process import this_process
from dts_assets.model.copied_tables import CopiedTable, CopyKind, CopyState
from dts_assets.model.maintenance import Step
from dts_assets.store.lake import Lake
from tests.flows.aging import DAYS, HOUR, START, Days, opened
from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.plain_values import plain_values
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import Source, write_capture

ITEMS = table_id("items")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "leaving")


def copied_lake(bench: Bench, name: str, **settings: object) -> tuple[Source, Harness, Read]:
    """A lake whose table begins with a copy: rows 0 to 9 stand in no message."""
    source = short_source(items())
    insert(source, border(0) + SECOND, range(10))
    at, rows = source.committed, tuple(source.rows["items"].values())
    source.checkpoint(border(0) + 500 * SECOND)
    insert(source, border(1) + SECOND, range(10, 12))
    source.checkpoint(border(1) + 500 * SECOND)
    kept = [one for one in source.messages if one.time >= border(0) + 400 * SECOND]
    harness = open_short(bench, bench.folder / name, kept, windows=2, name=name, **settings)
    read = Read(at, at, rows)
    copy_rows(harness, items(), [read])
    harness.settle()
    assert numbers(harness) == list(range(12))
    return source, harness, read


def numbers(harness: Harness) -> list[int]:
    return sorted(row["id"] for row in harness.rows("snapshot", *ITEMS.path))


def folder_of(harness: Harness) -> Path:
    table = harness.pipeline.lake.table(harness.pipeline.table_path("copies", ITEMS))
    assert table is not None
    return Path(table.location().removeprefix("file://"))


def files_in(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*.parquet") if one.is_file()]


def only(harness: Harness) -> CopiedTable:
    (found,) = harness.pipeline.ledger.copied_tables()
    return found


def test_a_removed_table_takes_its_copies_along_and_comes_back_with_another_one(bench: Bench) -> None:
    _, harness, read = copied_lake(bench, "removed")
    folder = folder_of(harness)
    assert files_in(folder)
    assert remove_tables(harness.pipeline, [ITEMS], progress=harness.lines.append) == 3
    assert "the copies of bank.items was dropped with its files" in "\n".join(harness.lines)
    assert files_in(folder) == []
    assert only(harness).state is CopyState.DROPPED
    harness.settle()
    assert add_tables(harness.pipeline, [ITEMS], progress=harness.lines.append) == 2
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "copy it again: dts-assets copy removed --table bank.items" in paused.reason
    assert not paused.is_removed
    harness.settle()
    assert harness.rows("snapshot", *ITEMS.path) == [], "without its copy nothing is made of it"
    copy_rows(harness, items(), [read])
    _resume(harness.pipeline, [ITEMS], CopyKind.BOOTSTRAP)
    assert harness.pipeline.ledger.paused_tables() == []
    harness.settle()
    assert numbers(harness) == list(range(12))
    assert find_work(harness.pipeline).nothing
    assert [one.sentence for one in judge_ledger(harness.pipeline) if one.sentence] == []


@pytest.mark.more
def test_a_table_that_waits_for_nothing_but_its_copy_is_resumed_by_it_alone(bench: Bench) -> None:
    """A copy of another table, or one that a person paused, changes nothing; and a removal twice is one."""
    _, harness, read = copied_lake(bench, "waiting")
    for _ in range(2):
        remove_tables(harness.pipeline, [ITEMS], progress=harness.lines.append)
        add_tables(harness.pipeline, [ITEMS], progress=harness.lines.append)
    _resume(harness.pipeline, [table_id("others")], CopyKind.BOOTSTRAP)
    _resume(harness.pipeline, [ITEMS], CopyKind.BOOTSTRAP)
    assert len(harness.pipeline.ledger.paused_tables()) == 1, "it was not copied yet"
    copy_rows(harness, items(), [read])
    _resume(harness.pipeline, [ITEMS], CopyKind.BOOTSTRAP)
    harness.settle()
    assert numbers(harness) == list(range(12))


@pytest.mark.more
def test_a_removal_by_an_earlier_version_left_copies_and_the_next_run_drops_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, harness, _ = copied_lake(bench, "earlier")
    before = harness.pipeline.ledger.copied_tables()
    folder = folder_of(harness)
    path = harness.pipeline.table_path("copies", ITEMS)
    dropped = Lake.drop
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "drop", lambda lake, other, *more: None if other == path else dropped(lake, other, *more))
        remove_tables(harness.pipeline, [ITEMS], progress=harness.lines.append)
    harness.pipeline.ledger.change_copied_tables(lambda _: before)
    assert files_in(folder)
    harness.all(1)
    assert files_in(folder) == []
    assert only(harness).state is CopyState.DROPPED
    assert known_tables(harness.pipeline)


@pytest.mark.more
@pytest.mark.usefixtures("quick")
def test_a_copy_leaves_with_the_entries_of_its_window(bench: Bench) -> None:
    days = Days()
    source, capture, lines = days.source, bench.folder / "capture", list[str]()
    for day in range(DAYS):
        write_capture(capture, days.of_day(day), name=f"day{day}")
        harness = opened(bench, capture, "followed")
        if day == 2:
            at = max(one for one in source.contents if one <= _last(source, START + 30 * HOUR))
            copy_rows(harness, items(), [Read(at, at, tuple(source.contents[at]["items"].values()))])
        harness.settle()
        lines += harness.lines
        if day == 2:
            copied = only(harness)
            assert copied.window_start is not None
            assert len(harness.rows("copies", *ITEMS.path)) == copied.rows > 0
            folder = folder_of(harness)
    assert only(harness).gone_at is not None
    assert only(harness).window_start == copied.window_start
    assert harness.rows("copies", *ITEMS.path) == []
    assert f"{copied.rows:,} rows of 1 copies left with the entries of their windows" in "\n".join(lines)
    assert find_work(harness.pipeline).nothing
    (reached,) = [row.cut for row in harness.pipeline.ledger.cuts()[-1:] if row.cut is not None]
    last = source.contents[max(one for one in source.contents if one <= (reached.file, reached.position))]
    assert harness.snapshots(source.tables) == last
    now = datetime.now(UTC) + timedelta(days=3)
    done = maintain(harness.pipeline, only=[Step.EXPIRY], spark=this_process, progress=harness.lines.append, now=now)
    assert [one.failed for one in done] == [()]
    assert files_in(folder) == []


def _last(source: Source, until: datetime) -> tuple[int, int]:
    return max(one.position for one in source.changes if one.arrived < until)


@pytest.mark.more
def test_bounds_of_ended_copies_go_with_the_next_run_and_with_the_expiry(bench: Bench) -> None:
    """An earlier version left them; those of a copy that is being read stay."""
    _, harness, _ = copied_lake(bench, "bounded")
    (one,) = harness.pipeline.ledger.copied_tables()
    chunks = tuple(replace(chunk, key_from="a key of a person", key_until=None) for chunk in one.chunks)
    ended = replace(one, chunks=chunks)
    reading = replace(one, copy="r", table=table_id("others"), state=CopyState.READING, chunks=chunks, ended=None)
    harness.pipeline.ledger.change_copied_tables(lambda _: [ended, reading])
    harness.all(1)
    kept = {each.copy: each.is_bounded for each in harness.pipeline.ledger.copied_tables()}
    assert kept == {one.copy: False, "r": True}
    assert cancel_copies(harness.pipeline, [table_id("others")])
    assert bounds(harness), "former versions have them"
    now = datetime.now(UTC) + timedelta(days=3)
    done = maintain(harness.pipeline, only=[Step.EXPIRY], spark=this_process, progress=harness.lines.append, now=now)
    assert [each.failed for each in done] == [()]
    assert not bounds(harness)


def bounds(harness: Harness) -> dict[str, list[str]]:
    return plain_values(Path(harness.pipeline.lake.location.warehouse), ["a key of a person"])


@pytest.mark.more
def test_copies_are_in_every_list(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at for having been set back, and their size is told."""
    _, harness, _ = copied_lake(bench, "listed")
    path, seen, load = harness.pipeline.table_path("copies", ITEMS), list[tuple[str, ...]](), Lake.table
    assert [one.rows for one in lake_bytes(harness.pipeline).tables if one.layer == "copies"] == [10]
    assert [one.rows for one in lake_bytes(harness.pipeline, tables=[ITEMS]).tables if one.path == path] == [10]

    def noting(lake: Lake, other: tuple[str, ...]) -> object:
        seen.append(tuple(other))
        return load(lake, other)

    monkeypatch.setattr(Lake, "table", noting)
    assert unusable_tables(harness.pipeline) == ()
    assert path in seen
