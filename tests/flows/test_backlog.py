"""A table in which nothing changed is not looked at, and a table that lacks changes always is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import cut_tags, lease_keeper
from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import Selection
from dts_assets.flows.lease_keeper import LeaseKeeper
from dts_assets.model.tables import TableId
from dts_assets.planning.backlog import backlog_of
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import Frame, bench_in_process
from tests.flows.interleaved import Killed
from tests.flows.short import SECOND, insert, items, open_short, short_source, update
from tests.flows.source import DATABASE, Ddl, Source
from tests.flows.source_tables import Table
from tests.flows.test_paused_tables import broken, of_layer
from tests.tiers import chosen

ONE, TWO = table_id("one"), table_id("two")
LAYERS = ("changelog", "snapshot")
WINDOWS = 4


def only_one_changes(*more: Table, before_its_cut: bool = True) -> Source:
    """Two tables get rows in the first window; then one of them alone changes.

    The first rows of the other table may come behind the last CHECKPOINT of their window.
    """
    source = short_source(items("one"), items("two"), *more)
    for name in ("one", *(table.name for table in more)):
        insert(source, border(0) + 10 * SECOND, range(10), table=name)
    if before_its_cut:
        insert(source, border(0) + 11 * SECOND, range(10), table="two")
    source.checkpoint(border(0) + 500 * SECOND)
    if not before_its_cut:
        insert(source, border(0) + 550 * SECOND, range(10), table="two")
    for number in range(1, WINDOWS):
        update(source, border(number) + 10 * SECOND, {number: number}, table="one")
        source.checkpoint(border(number) + 500 * SECOND)
    return source


def opened(folder: Path, source: Source) -> Harness:
    bench = bench_in_process(folder, "backlog")
    harness = open_short(bench, folder / "capture", source.messages, windows=WINDOWS)
    harness.raw()
    harness.entries()
    return harness


@contextmanager
def opened_tables() -> Iterator[set[str]]:
    """The names of the source tables of which any layer is opened in the lake, as where tables are many."""
    found: set[str] = set()
    real = Lake.table

    def noted(self: Lake, path: Any) -> Any:
        if path[1:2] in (("changelog",), ("snapshot",)):
            found.add(path[-1])
        return real(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "table", noted)
        patch.setattr(cut_tags, "TAGGED_UNCHANGED", 0)
        for name in ("ensure", "evolve", "replace"):
            _note(patch, name, found)
        yield found


def _note(patch: pytest.MonkeyPatch, name: str, found: set[str]) -> None:
    real = getattr(Lake, name)

    def noted(self: Lake, path: Any, *rest: Any, **named: Any) -> Any:
        if path[1:2] in (("changelog",), ("snapshot",)):
            found.add(path[-1])
        return real(self, path, *rest, **named)

    patch.setattr(Lake, name, noted)


def backlog(harness: Harness) -> frozenset[TableId] | None:
    return backlog_of(harness.pipeline.ledger.backlog(), [layer.name for layer in harness.pipeline.layers])


@pytest.mark.more
def test_a_table_in_which_nothing_changed_is_not_opened(tmp_path: Path) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    assert backlog(harness) is None
    harness.tables(0)
    assert backlog(harness) == frozenset()
    with opened_tables() as found:
        for number in range(1, WINDOWS):
            harness.tables(number)
    assert found == {"one"}
    assert harness.snapshots(source.tables) == source.rows
    assert backlog(harness) == frozenset()


def test_a_table_whose_changes_wait_for_the_cut_gets_them_with_the_next_window(tmp_path: Path) -> None:
    source = only_one_changes(before_its_cut=False)
    harness = opened(tmp_path, source)
    harness.tables(0)
    assert backlog(harness) == frozenset({TWO})
    assert harness.snapshots(source.tables)["two"] == {}
    harness.tables(1)
    assert len(harness.snapshots(source.tables)["two"]) == 10
    assert backlog(harness) == frozenset()


@pytest.mark.more
def test_windows_that_are_made_out_of_order_are_waited_for(tmp_path: Path) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    harness.tables(2)
    assert backlog(harness) == frozenset({ONE})
    harness.tables(0)
    harness.tables(3)
    harness.tables(1)
    assert harness.snapshots(source.tables) == source.rows
    assert backlog(harness) == frozenset()


@pytest.mark.more(after=1)
@pytest.mark.parametrize("layer", chosen(LAYERS, 2))
def test_a_table_that_fails_stays_in_the_backlog_until_it_has_caught_up(layer: str, tmp_path: Path) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    harness.tables(0)
    with broken(Lake, "replace", of_layer(layer, "one")):
        harness.tables(1)
    assert backlog(harness) == frozenset({ONE})
    harness.pipeline.ledger.change_paused_tables(lambda _: [])
    harness.tables(2)
    harness.settle()
    assert harness.snapshots(source.tables) == source.rows
    assert backlog(harness) == frozenset()


@pytest.mark.more
@pytest.mark.parametrize("name", chosen(["replace_cuts", "replace_window_tables"], 1))
def test_a_run_that_is_killed_leaves_its_tables_in_the_backlog(name: str, tmp_path: Path) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    harness.tables(0)
    with broken(Ledger, name, lambda *_: True, Killed()), suppress(Killed):
        harness.tables(1)
    assert backlog(harness) == frozenset({ONE})
    with opened_tables() as found:
        harness.tables(1)
    assert found == {"one"}
    assert backlog(harness) == frozenset()


@pytest.mark.parametrize(
    ("sql", "opened_then"),
    chosen(
        [
            ("DROP DATABASE bank", {"one", "two", "three"}),
            ("DROP TABLE unknown", {"one"}),
            ("TRUNCATE TABLE two", {"one", "two"}),
        ],
        2,
    ),
)
def test_a_statement_opens_the_tables_that_it_empties(sql: str, opened_then: set[str], tmp_path: Path) -> None:
    source = only_one_changes(items("three"))
    source.transaction(border(3) + 501 * SECOND, Ddl(sql))
    source.checkpoint(border(3) + 502 * SECOND)
    for name in opened_then if "DATABASE" in sql else opened_then - {"one"}:
        source.rows[name].clear()
    harness = opened(tmp_path, source)
    harness.tables(0, 1, 2)
    with opened_tables() as found:
        harness.tables(3)
    assert found == opened_then
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
def test_a_new_table_makes_no_window_stale_in_which_others_were_emptied(tmp_path: Path) -> None:
    source = short_source(items("one"), items("late"))
    insert(source, border(0) + 10 * SECOND, range(5), table="one")
    source.transaction(border(0) + 20 * SECOND, Ddl("TRUNCATE TABLE one"))
    source.rows["one"].clear()
    source.transaction(border(1) + 20 * SECOND, Ddl("DROP TABLE IF EXISTS late"))
    for number in range(WINDOWS):
        insert(source, border(number) + 30 * SECOND, range(10 * number, 10 * number + 3), table="one")
        source.checkpoint(border(number) + 500 * SECOND)
    insert(source, border(3) + 510 * SECOND, range(3), table="late")
    source.checkpoint(border(3) + 520 * SECOND)
    bench = bench_in_process(tmp_path, "backlog")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=WINDOWS)
    pipeline = harness.pipeline
    harness.all(0, 1, 2)
    harness.raw(3)
    harness.entries(3)
    harness.tables(3)
    assert [window.start for window in find_work(pipeline).tables] == [border(1)], "the statement of window 1 names it"
    harness.settle()
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
def test_tables_that_were_emptied_are_planned_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of all windows are read once for all of them, which takes its time."""
    names = [f"t{number}" for number in range(4)]
    source = short_source(*(items(name) for name in names))
    for name in names:
        insert(source, border(0) + 10 * SECOND, range(5), table=name)
        source.transaction(border(0) + 20 * SECOND, Ddl(f"TRUNCATE TABLE {name}"))
        source.rows[name].clear()
    source.checkpoint(border(0) + 500 * SECOND)
    for name in names:
        insert(source, border(1) + 10 * SECOND, range(5, 8), table=name)
    source.checkpoint(border(1) + 500 * SECOND)
    harness = opened(tmp_path, source)
    harness.tables(0, 1)
    real = Ledger.window_tables

    def slow(self: Ledger, *windows: Any, **since: Any) -> Any:
        time.sleep(0 if windows or since else 0.3)
        return real(self, *windows, **since)

    monkeypatch.setattr(Ledger, "window_tables", slow)
    harness.tables(1)
    assert harness.snapshots(source.tables) == source.rows


def test_a_changelog_that_a_person_made_alone_is_taken_over_by_the_next_run(tmp_path: Path) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    harness.tables(0, 1)
    rows = sorted(map(str, harness.rows("snapshot", DATABASE, "two")))
    harness.pipeline.lake.catalog.drop_table(
        harness.pipeline.lake.identifier(harness.pipeline.table_path("snapshot", TWO))
    )
    harness.tables(0, selection=Selection({"changelog": {TWO}, "snapshot": set()}))
    assert backlog(harness) == frozenset({TWO})
    harness.tables(2)
    assert sorted(map(str, harness.rows("snapshot", DATABASE, "two"))) == rows
    assert backlog(harness) == frozenset()


def test_entries_of_a_table_that_nothing_describes_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = only_one_changes()
    harness = opened(tmp_path, source)
    harness.tables(0)
    monkeypatch.setattr(Ledger, "table_shapes", lambda *_: [])
    harness.tables(1, 2, 3)
    assert any("1 tables more have entries than were described" in line for line in harness.lines)
    assert harness.snapshots(source.tables) == source.rows


def _requests(folder: Path, tables: int) -> Counter[str]:
    """What a run asks of catalog and Spark when three of so many tables change, by the name of the call.

    Commits are counted by their table, so that a commit too many has a name.
    """
    more = [items(f"more_{number:02}") for number in range(tables - 2)]
    source = short_source(items("one"), items("two"), *more)
    for name in source.tables:
        insert(source, border(0) + 10 * SECOND, range(3), table=name)
    source.checkpoint(border(0) + 500 * SECOND)
    for name in ("one", "two", "more_00"):
        update(source, border(1) + 10 * SECOND, {1: 7}, table=name)
    source.checkpoint(border(1) + 500 * SECOND)
    harness = opened(folder, source)
    harness.tables(0)
    asked: Counter[str] = Counter()

    def count(patch: pytest.MonkeyPatch, of: type, name: str) -> None:
        real = getattr(of, name)

        def ask(self: Any, *rest: Any, **named: Any) -> Any:
            answer = real(self, *rest, **named)
            asked[f"{name} {rest[0].name()[1:]}" if name == "commit_table" else name] += 1
            return answer

        patch.setattr(of, name, ask)

    catalog = type(harness.pipeline.lake.catalog)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("load_table", "commit_table", "create_table", "table_exists", "list_tables", "list_namespaces"):
            count(patch, catalog, name)
        count(patch, Frame, "collect")
        # Leases are looked at by the clock, more often on a slow machine.
        patch.setattr(LeaseKeeper, "tick", lambda self: None)
        patch.setattr(lease_keeper, "RENEWED_EVERY", 1e9)
        harness.tables(1)
    assert harness.snapshots(source.tables) == source.rows
    # A renewal that began before the patch may still end in here.
    return Counter({name: calls for name, calls in asked.items() if "'leases'" not in name})


@pytest.mark.more
def test_a_run_asks_as_often_however_many_tables_there_are(tmp_path: Path) -> None:
    few, many = (_requests(tmp_path / str(tables), tables) for tables in (4, 24))
    assert (
        abs(few.pop("load_table") - many.pop("load_table")) <= 3
    )  # tables that are worked on side by side share what they read
    assert few == many
    assert sum(calls for name, calls in few.items() if name.startswith("commit_table")) > 6
    # One job decodes the entries of all tables, and one brings all snapshots up to date.
    assert few["collect"] == 2
