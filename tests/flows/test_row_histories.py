"""Histories through the flows: every version of every row, whatever the order of windows and however often they are made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.layers import HISTORY, Selection
from dts_assets.flows.pauses import resume_tables
from dts_assets.model.spans import Span
from dts_assets.store.lake import Lake
from tests.flows.expected_history import assert_histories_hold
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import START, WINDOWS, History, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, delete, insert, items, open_short, short_source, update
from tests.flows.source import Contents, Ddl, Position, Source, write_capture
from tests.flows.source_tables import Table
from tests.flows.test_paused_tables import broken, of_layer
from tests.tiers import chosen, times

ALL = ["*"]
DAY = timedelta(days=1)


def at_position(harness: Harness, tables: dict[str, Table], position: Position) -> Contents:
    """The rows of keyed tables at a source position, by their histories."""
    contents: Contents = {}
    for name, table in tables.items():
        if not table.keys:
            continue
        contents[name] = {}
        for row in harness.rows("history", *table_id(name).path):
            begin, end = (row[f"_valid_{one}_position"] for one in ("from", "to"))
            if _place(begin) <= position and (end is None or _place(end) > position):
                shown = {one.name: row.get(_flat(one.name)) for one in table.columns}
                assert table.key(shown) not in contents[name]
                contents[name][table.key(shown)] = shown
    return contents


def _place(told: dict[str, int]) -> Position:
    return told["file"], told["position"]


def _flat(name: str) -> str:
    return f"_source_{name}" if name == "_event_time" else name


def present(harness: Harness, name: str) -> list[tuple[Any, ...]]:
    """The open versions of a table by the columns of the model's items."""
    rows = [row for row in harness.rows("history", *table_id(name).path) if row["_valid_to"] is None]
    return sorted((tuple(value for column, value in row.items() if column[0] != "_") for row in rows), key=repr)


def snapshot(harness: Harness, name: str) -> list[tuple[Any, ...]]:
    rows = harness.rows("snapshot", *table_id(name).path)
    return sorted((tuple(value for column, value in row.items() if column[0] != "_") for row in rows), key=repr)


@pytest.mark.more
def test_at_each_cut_a_history_shows_the_rows_of_the_source(bench_of: Bench, bank: History, bank_capture: Path) -> None:
    """Windows in their order: at each end all versions are there, and those that hold at the cut are the source's rows."""
    harness = bench_of.open(bank_capture, history=ALL)
    cuts = []
    for number, end in enumerate(bank.ends()):
        harness.all(number)
        assert assert_histories_hold(harness.pipeline)
        cuts += [end.cut] if end.cut is not None else []
        for cut in cuts:
            assert at_position(harness, bank.source.tables, cut) == bank.at(cut)
    assert len(cuts) == 2
    for name in bank.source.tables:
        assert present(harness, name) == snapshot(harness, name)


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "histories")


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_the_order_of_windows_does_not_matter(seed: int, bench_of: Bench, bank: History, bank_capture: Path) -> None:
    """Rectangles in random order, shared out by few changes a task, then settled, and some windows made again."""
    harness, random = bench_of.open(bank_capture, history=ALL), Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
        harness.work_at_random(random, times(5, 9))
        harness.settle()
        assert assert_histories_hold(harness.pipeline)
        before = _everything(harness)
        harness.all(*sorted(random.sample(range(WINDOWS), 2)))
        harness.settle()
    assert assert_histories_hold(harness.pipeline)
    assert _everything(harness) == before
    for name in bank.source.tables:
        assert present(harness, name) == snapshot(harness, name)


@pytest.mark.more
@pytest.mark.spark
@pytest.mark.parametrize("share", chosen([7, 500_000], 1))
def test_spark_makes_the_same_versions(
    share: int, bench: Bench, bank_capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks of a real Spark, with few changes a task and with all in one."""
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", share)
    harness = bench.open(bank_capture, history=ALL)
    for numbers in chosen(((0, 1), (2, 3)), 1):
        harness.all(*numbers)
        assert assert_histories_hold(harness.pipeline)


def _everything(harness: Harness) -> dict[str, list[str]]:
    return {name: rows for name, rows in harness.everything().items() if name.startswith("history")}


def lives(windows: int) -> Source:
    """Two tables whose rows change in each window; the first one is emptied in the second window."""
    source = short_source(items("one"), items("two"))
    for number in range(windows):
        at = border(number) + 20 * SECOND
        for name in source.tables:
            insert(source, at, range(10 * number, 10 * number + 6), table=name)
            update(source, at + SECOND, {10 * number + 1: 7, 10 * number + 2: 8}, table=name)
            delete(source, at + 2 * SECOND, [10 * number + 2], table=name)
        if number == 1:
            source.transaction(at + 3 * SECOND, Ddl("TRUNCATE TABLE one"))
            source.rows["one"].clear()
        source.checkpoint(at + 30 * SECOND)
    return source


def made(bench: Bench, folder: Path, source: Source, *, windows: int = 3, **settings: Any) -> Harness:
    harness = open_short(bench, folder, source.messages, windows=windows, **settings)
    harness.settle()
    return harness


def test_a_truncation_ends_the_versions_of_its_table_alone(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(3), history=ALL)
    assert assert_histories_hold(harness.pipeline) == 48
    (emptied,) = [row["source_position"] for row in harness.rows("changelog", "bank", "one") if row["op"] == "truncate"]
    ended = {
        name: [row["_valid_to_position"] for row in harness.rows("history", "bank", name)] for name in ("one", "two")
    }
    assert (ended["one"].count(emptied), ended["two"].count(emptied)) == (10, 0)


def test_only_the_tables_that_were_named_have_a_history(bench_of: Bench, tmp_path: Path) -> None:
    harness = made(bench_of, tmp_path / "capture", lives(2), windows=2, history=["bank.t*"])
    paths = [harness.pipeline.table_path("history", table_id(name)) for name in ("one", "two")]
    assert [harness.pipeline.lake.table(path) is not None for path in paths] == [False, True]
    assert assert_histories_hold(harness.pipeline) == 16


@pytest.mark.more
def test_a_history_that_is_asked_for_later_has_all_versions(bench_of: Bench, tmp_path: Path) -> None:
    """Asked for behind two windows, taken away for one, and asked for again: it goes on from where it stood."""
    source, folder = lives(5), tmp_path / "capture"
    globs: Sequence[Sequence[str]] = ([], [], ["bank.two"], [], ALL)
    for number, history in enumerate(globs):
        harness = open_short(bench_of, folder, source.messages, windows=5, name="later", history=list(history))
        harness.all(number)
        assert bool(assert_histories_hold(harness.pipeline)) == bool(history)
    assert {len(harness.rows("history", "bank", name)) for name in ("one", "two")} == {40}


def test_a_person_materializes_the_history_alone(bench_of: Bench, tmp_path: Path) -> None:
    source, folder = lives(2), tmp_path / "capture"
    made(bench_of, folder, source, windows=2, name="alone")
    harness = open_short(bench_of, folder, source.messages, windows=2, name="alone", history=["bank.two"])
    two = Selection({"changelog": (), "snapshot": (), "history": {table_id("two")}})
    report = harness.tables(0, selection=two)
    assert {str(one.table): one.layers.get(HISTORY.name) is not None for one in report.tables} == {
        "bank.one": False, "bank.two": True,
    }  # fmt: skip
    assert assert_histories_hold(harness.pipeline) == 16


@pytest.mark.more
@pytest.mark.parametrize("place", chosen(["replace", "evolve"], 1))
def test_a_history_that_fails_stands_still_alone(place: str, bench_of: Bench, tmp_path: Path) -> None:
    source, folder = lives(3), tmp_path / "capture"
    harness = open_short(bench_of, folder, source.messages, history=ALL)
    harness.all(0)
    with broken(Lake, place, of_layer("history", "two")):
        harness.all(1)
    assert [(str(row.table), row.layer) for row in harness.pipeline.ledger.paused_tables()] == [("bank.two", "history")]
    harness.all(2)
    assert present(harness, "one") == snapshot(harness, "one")
    resume_tables(harness.pipeline, [table_id("two")])
    harness.settle()
    assert assert_histories_hold(harness.pipeline) == 48


@pytest.mark.more
def test_versions_that_ended_long_ago_go(bench_of: Bench, tmp_path: Path) -> None:
    """Windows of a day and a retention of two: the bound is the midnight two days before the last window's start."""
    source = short_source(items("one"), items("still"))
    insert(source, START, range(3), table="still")
    delete(source, START + SECOND, [1], table="still")
    insert(source, START + SECOND, range(50), table="one")
    for day in range(6):
        update(source, START + day * DAY + 10 * SECOND, {number: day for number in range(day, 50, 7)}, table="one")
        delete(source, START + day * DAY + 20 * SECOND, [day], table="one")
        source.checkpoint(START + day * DAY + 30 * SECOND)
    midnight = START.replace(hour=0, minute=0)
    write_capture(tmp_path / "capture", source.messages)

    def opened(**settings: Any) -> Harness:
        window = {"every": "1d", "start": midnight, "end": midnight + 6 * DAY}
        return bench_of.open(tmp_path / "capture", partitions=LANES, window=window, history=ALL, **settings)

    whole, grown, at_once = opened(), opened(history_retention="2d"), opened(history_retention="2d")
    whole.settle()
    at_once.settle()
    for number in range(6):
        for step in (grown.raw_of, grown.entries_of):
            step(Span(tuple(range(LANES)), (grown.pipeline.grid.at(number),)))
        grown.tables_of([grown.pipeline.grid.at(number)])
    assert assert_histories_hold(whole.pipeline)
    bound = midnight + 3 * DAY

    def versions(harness: Harness, name: str) -> list[str]:
        return sorted(
            str(row)
            for row in harness.rows("history", "bank", name)
            if harness is not whole or row["_valid_to"] is None or row["_valid_to"] >= bound
        )

    assert versions(whole, "one") == versions(grown, "one") == versions(at_once, "one")
    assert len(versions(whole, "one")) < len(whole.rows("history", "bank", "one"))
    assert [len(harness.rows("history", "bank", "still")) for harness in (whole, grown, at_once)] == [3, 3, 2]
