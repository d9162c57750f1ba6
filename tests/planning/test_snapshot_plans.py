"""The work of one snapshot, against a model: a plan carried out on a dict gives what a computation from nothing gives.

The model knows no Spark. Windows are computed in any order and again with other rows (a head that arrived, a table that was
excluded before), so changes are taken over, recomputed and taken back; after every step the dict equals the full recomputation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.key_periods import KeyPeriod
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.refreshes import compacted_name
from dts_assets.model.tables import TableId
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.counts_needed import CountsNeeded, StoredSnapshot, counts_needed
from dts_assets.planning.cuts import WindowCut, frontier, not_behind
from dts_assets.planning.replaced_windows import replaced_windows
from dts_assets.planning.snapshot_plans import (
    Chain,
    SnapshotPlan,
    SnapshotState,
    TableWindow,
    plan_snapshot,
    windows_by_table,
)
from tests.tiers import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
ITEMS, ORDERS = TableId("shopdb", "", "items"), TableId("shopdb", "", "orders")
WINDOWS = 4
GRID = WindowGrid(HOUR, START, START + WINDOWS * HOUR)


@dataclass(frozen=True, order=True)
class Change:
    """One operation on one key; ``row`` is None where the key is left."""

    at: SourcePosition
    row_number: int
    key: int
    row: int | None


Changelog = Mapping[datetime, frozenset[Change]]
Rows = dict[int, int]


def window(changes: Iterable[Change], start: datetime) -> TableWindow | None:
    """The counts of a window; what its changes lack, and whether they empty the table, is made up from their rows."""
    changes = list(changes)
    positions = sorted(change.at for change in changes)
    if not positions:
        return None
    rows = [change.row for change in changes]
    return TableWindow(
        start, len(positions), positions[0], positions[-1], absent_rows=rows.count(1), partial_moves=rows.count(2),
        invalid_values=rows.count(3), truncations=rows.count(4),
    )  # fmt: skip


def last(changes: Iterable[Change]) -> dict[int, int | None]:
    """What the last operation on every key left."""
    return {change.key: change.row for change in sorted(changes, key=lambda one: (one.at, one.row_number))}


def held(changelog: Changelog, reached: Frontier) -> set[tuple[datetime, Change]]:
    return {
        (start, change) for start, changes in changelog.items() for change in changes if reached.holds(start, change.at)
    }


def recomputed(changelog: Changelog, reached: Frontier) -> Rows:
    rows = last(change for _, change in held(changelog, reached))
    return {key: row for key, row in rows.items() if row is not None}


@dataclass
class Snapshot:
    """A snapshot table in memory: its rows, its state, and the changelog that it was made from."""

    rows: Rows = field(default_factory=dict)
    state: SnapshotState = field(default_factory=SnapshotState)
    changelog: dict[datetime, frozenset[Change]] = field(default_factory=dict)
    looked_at: dict[datetime, frozenset[Change]] = field(default_factory=dict)
    lacks_nothing: bool = False
    counts_read: list[tuple[int, int]] = field(default_factory=list)

    def advance(self, now: dict[datetime, frozenset[Change]], reached: Frontier) -> SnapshotPlan:
        """Plan the work and carry it out, as the flow does; the plan is made from as few counts as it needs."""
        made = self.state.changelog_snapshot is not None
        windows = [one for start, changes in now.items() if (one := window(changes, start)) is not None]
        replaced = replaced_windows(_files(self.changelog), _files(now)) if made else frozenset()
        run = {start for start in now if now[start] != self.looked_at.get(start)}
        is_new = {one.window_start for one in windows} <= run
        needed = counts_needed([StoredSnapshot(self.state, replaced, self.lacks_nothing, is_new)], run=run)
        some = [one for one in windows if _is_needed(needed, one.window_start)]
        self.counts_read.append((len(some), len(windows)))
        plan, whole = (
            plan_snapshot(
                self.state,
                not_behind(reached, self.state.frontier),
                changelog_snapshot=id(now),
                windows=counts,
                replaced=replaced,
            )
            for counts in (some, windows)
        )
        assert plan == whole, "the counts that were not read would have changed the plan"
        if not plan.nothing:
            self._apply(plan, now)
        self.looked_at, self.lacks_nothing = dict(now), plan.state.waits_from is None
        return plan

    def _apply(self, plan: SnapshotPlan, now: dict[datetime, frozenset[Change]]) -> None:
        before, after = self.state.frontier, plan.state.frontier
        fresh = {(start, one) for start, one in held(now, after) - held(now, before) if start in plan.newer}
        suspects: set[int] = set()
        if plan.suspect_until is not None:
            suspects |= {change.key for _, change in fresh if change.at <= plan.suspect_until}
        for changelog, frontier_then in ((now, after), (self.changelog, before)):
            suspects |= {one.key for start, one in held(changelog, frontier_then) if start in plan.replaced}
        results: dict[int, int | None] = last(one for _, one in fresh if one.key not in suspects)
        again = recomputed(now, after)
        results |= {key: again.get(key) for key in suspects}
        for key, row in results.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        self.state, self.changelog = plan.state, dict(now)


def _is_needed(needed: CountsNeeded, start: datetime) -> bool:
    return needed.all or start in needed.starts or (needed.since is not None and start >= needed.since)


def _files(changelog: Changelog) -> dict[datetime, frozenset[str]]:
    """Stand-ins for data files: other rows are other files, no rows are none."""
    return {start: frozenset({repr(sorted(changes, key=repr))}) for start, changes in changelog.items() if changes}


# The law


def one_a_place(rows: Iterable[Change]) -> frozenset[Change]:
    """A source gives one change per position and row number; a generator may not."""
    return frozenset({(one.at, one.row_number): one for one in rows}.values())


positions = st.integers(1, 9).map(lambda number: SourcePosition(0, 1 + number // 5, number % 5))
changes = st.builds(Change, positions, st.integers(0, 1), st.integers(0, 2), st.none() | st.integers(0, 9))
contents = st.lists(changes, max_size=4).map(one_a_place)


@dataclass(frozen=True)
class Run:
    """A tables run of one window: its changelog rows then, and its cut."""

    number: int
    changes: frozenset[Change]
    cut: SourcePosition | None
    consistency: Consistency


runs = st.builds(Run, st.integers(0, WINDOWS - 1), contents, st.none() | positions, st.sampled_from(Consistency))


def consistent(changelog: dict[datetime, frozenset[Change]], run: Run) -> frozenset[Change]:
    """The run's changes, less those whose place another window has for another change: one place is one change."""
    taken = {
        (one.at, one.row_number): one
        for start, rows in changelog.items()
        if start != GRID.at(run.number).start
        for one in rows
    }
    return frozenset(one for one in run.changes if taken.get((one.at, one.row_number), one) == one)


@examples(250)
@given(st.lists(runs, min_size=1, max_size=10), st.booleans())
def test_a_plan_carried_out_equals_a_computation_from_nothing(taken: list[Run], every_time: bool) -> None:
    snapshot = Snapshot()
    changelog: dict[datetime, frozenset[Change]] = {}
    cuts: dict[datetime, WindowCut] = {}
    for number, run in enumerate(taken):
        at = GRID.at(run.number)
        changelog[at.start] = consistent(changelog, run)
        cuts[at.start] = WindowCut(at, run.cut, run.consistency)
        if not every_time and number + 1 < len(taken) and number % 3 != 0:
            continue  # several windows of one run, or a run of changelogs alone
        reached = frontier(cuts, GRID, first=START)
        stood = snapshot.state.frontier
        plan = snapshot.advance(dict(changelog), reached)
        event("recomputes" if plan.recomputes else "nothing" if plan.nothing else "forward only")
        assert plan.state.frontier == not_behind(reached, stood)
        assert snapshot.rows == recomputed(changelog, plan.state.frontier)
        again = snapshot.advance(dict(changelog), reached)
        assert again.nothing, "a second look finds work"


@examples(100)
@given(st.lists(contents, min_size=WINDOWS, max_size=WINDOWS), st.lists(positions, min_size=WINDOWS, max_size=WINDOWS),
       st.permutations(range(WINDOWS)), st.lists(st.integers(0, WINDOWS - 1), max_size=4))  # fmt: skip
def test_every_order_with_any_repetitions_ends_at_the_same_rows(
    given_changes: list[frozenset[Change]], cut_at: list[SourcePosition], order: list[int], repeated: list[int]
) -> None:
    rows: dict[datetime, frozenset[Change]] = {}
    for number, content in enumerate(given_changes):
        rows[GRID.at(number).start] = consistent(rows, Run(number, content, None, Consistency.CUT))

    def through(numbers: list[int]) -> Rows:
        snapshot = Snapshot()
        changelog: dict[datetime, frozenset[Change]] = {}
        cuts: dict[datetime, WindowCut] = {}
        for number in numbers:
            at = GRID.at(number)
            changelog[at.start] = rows[at.start]
            cuts[at.start] = WindowCut(at, cut_at[number], Consistency.CUT)
            snapshot.advance(dict(changelog), frontier(cuts, GRID, first=START))
        return snapshot.rows

    forwards = through(list(range(WINDOWS)))
    assert through([*order, *repeated]) == forwards
    assert through([*repeated, *order]) == forwards


# What it costs


def at(number: int) -> SourcePosition:
    return SourcePosition(0, 1, number)


def known(number: int, first: int, last: int, changes: int = 5, absent: int = 0) -> TableWindow:
    return TableWindow(START + number * HOUR, changes, at(first), at(last), absent)


HELD_TWO = SnapshotState(Frontier(START + HOUR, START + HOUR, at(20)), at(20), 1)


def plan(
    windows: list[TableWindow], after: Frontier, *, before: SnapshotState = HELD_TWO, replaced: Iterable[int] = ()
) -> SnapshotPlan:
    starts = [START + number * HOUR for number in replaced]
    return plan_snapshot(before, after, changelog_snapshot=2, windows=windows, replaced=starts)


def test_a_later_window_is_taken_over_without_a_look_at_earlier_ones() -> None:
    after = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))
    work = plan([known(0, 1, 10), known(1, 11, 20), known(2, 21, 30)], after)
    assert (work.newer, work.replaced, work.recomputes) == ((START + 2 * HOUR,), (), False)
    assert work.state == SnapshotState(after, at(30), 2)


def test_a_table_without_changes_in_the_new_windows_has_no_work() -> None:
    after = Frontier(START + 3 * HOUR, START + 3 * HOUR, at(40))
    assert plan([known(0, 1, 10), known(1, 11, 20), known(2, 0, 0, changes=0)], after).nothing


def test_a_window_behind_a_hole_has_no_work_yet() -> None:
    assert plan([known(0, 1, 10), known(1, 11, 20), known(3, 31, 40)], HELD_TWO.frontier).nothing


def test_changes_at_or_before_what_was_applied_are_looked_at_again() -> None:
    after = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))
    assert plan([known(2, 20, 30)], after).suspect_until == at(20)
    assert plan([known(2, 21, 30)], after).suspect_until is None


def test_the_rest_of_a_window_behind_the_cut_is_new_and_not_suspect() -> None:
    before = SnapshotState(Frontier(START, None, at(7)), at(7), 1)
    work = plan([known(0, 1, 10), known(1, 8, 20)], Frontier(START + HOUR, None, at(15)), before=before)
    assert (work.newer, work.suspect_until) == ((START, START + HOUR), None)
    assert work.state.applied == at(15)


def test_a_replaced_window_counts_where_the_snapshot_had_reached_it() -> None:
    windows = [known(0, 1, 10), known(1, 11, 20), known(3, 31, 40)]
    work = plan(windows, HELD_TWO.frontier, replaced=[1, 3])
    assert (work.newer, work.replaced, work.recomputes) == ((), (START + HOUR,), True)


def test_the_millionth_window_needs_the_counts_of_as_few_windows_as_the_tenth() -> None:
    snapshot, changelog, cuts = Snapshot(), dict[datetime, frozenset[Change]](), dict[datetime, WindowCut]()
    grid = WindowGrid(HOUR, START)
    for number in range(40):
        here = grid.at(number)
        rows = {SourcePosition(0, 1, 10 * number + n): number * 100 + n for n in range(3)}
        changelog[here.start] = frozenset(Change(at, 0, key % 7, key) for at, key in rows.items())
        cuts[here.start] = WindowCut(here, SourcePosition(0, 1, 10 * number + 9), Consistency.CUT)
        snapshot.advance(dict(changelog), frontier(cuts, grid, first=START))
    assert snapshot.counts_read[1:] == [(1, number) for number in range(2, 41)]
    changelog[grid.at(7).start] = frozenset()
    snapshot.advance(dict(changelog), frontier(cuts, grid, first=START))
    assert snapshot.counts_read[-1] == (0, 39)
    assert snapshot.rows == recomputed(changelog, snapshot.state.frontier)


def test_a_state_of_an_earlier_version_needs_the_counts_of_all_windows() -> None:
    raw = json.loads(HELD_TWO.to_text())
    del raw["waits_from"], raw["absent"], raw["moves"]
    old = SnapshotState.of_text(json.dumps(raw))
    needed = counts_needed([StoredSnapshot(old, frozenset(), lacked_nothing=True)], run={START})
    assert needed.since is not None
    assert needed.since < START - 365 * 24 * HOUR
    assert counts_needed([StoredSnapshot(SnapshotState(), frozenset(), lacked_nothing=True)], run={START}).all


def test_rows_that_are_not_to_be_relied_on_are_all_made_again_also_without_changes() -> None:
    for windows in ([], [known(0, 1, 10)]):
        found = plan_snapshot(
            SnapshotState(), HELD_TWO.frontier, changelog_snapshot=7, windows=windows, replaced=[], anew=True
        )
        assert (found.rebuilds, found.recomputes, found.nothing) == (True, False, False)


def test_absent_columns_anywhere_in_the_changelog_are_folded() -> None:
    after = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))
    assert plan([known(0, 1, 10, absent=1), known(2, 21, 30)], after).fold_absent
    assert not plan([known(0, 1, 10), known(2, 21, 30)], after).fold_absent


def test_moves_that_lack_columns_anywhere_in_the_changelog_are_followed() -> None:
    after = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))
    assert plan([replace(known(0, 1, 10, absent=1), partial_moves=1), known(2, 21, 30)], after).follow_moves
    assert not plan([known(0, 1, 10, absent=1), known(2, 21, 30)], after).follow_moves


def test_values_that_do_not_fit_anywhere_in_the_changelog_are_remembered() -> None:
    after = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))
    fits = known(0, 1, 10)
    assert plan([replace(fits, invalid_values=1), known(2, 21, 30)], after).state.unfit
    assert not plan([fits, known(2, 21, 30)], after).state.unfit
    # The window that brought such keys is made anew without them: the snapshot still holds their rows.
    assert plan([fits], HELD_TWO.frontier, replaced=[0], before=replace(HELD_TWO, unfit=True)).state.unfit


# Small parts

instants = st.none() | st.integers(0, 99).map(lambda hours: START + hours * HOUR)
states = st.builds(
    SnapshotState,
    st.builds(Frontier, instants, instants, st.none() | positions),
    st.none() | positions,
    st.none() | st.integers(1, 2**62),
    unfit=st.booleans(),
    absent=st.booleans(),
    moves=st.booleans(),
    waits_from=instants,
    keys=st.lists(
        st.builds(KeyPeriod, positions, positions, st.lists(st.text(max_size=3), max_size=2).map(tuple)), max_size=2
    ).map(tuple),
)


@given(states)
def test_a_state_comes_back_from_its_text(state: SnapshotState) -> None:
    assert SnapshotState.of_text(state.to_text()) == state


def counted(partition: int, number: int, first: int | None, last: int | None, **counts: int) -> WindowTable:
    kept, absent = counts.get("kept", 0), counts.get("absent", 0)
    positions = [None if one is None else at(one) for one in (first, last)]
    return WindowTable(
        partition, START + number * HOUR, ITEMS, 9, kept, 0, 0, 7, absent, counts.get("invalid", 0), positions[0], positions[1],
        truncations=counts.get("truncations", 0), partial_moves=counts.get("moves", 0),
        statements=counts.get("statements", 0),
    )  # fmt: skip


def test_windows_of_kafka_partitions_add_up() -> None:
    rows = [
        counted(0, 0, 5, 9, kept=2, absent=1, statements=1),
        counted(1, 0, 1, 7, kept=3, truncations=1, invalid=2, moves=4, statements=2),
        counted(0, 1, 11, 12, kept=1),
        counted(0, 2, None, None),
        replace(counted(1, 1, 3, 4, kept=8), table=ORDERS),
    ]
    assert windows_by_table(rows) == {
        ITEMS: (
            replace(
                known(0, 1, 9, changes=5, absent=1), truncations=1, invalid_values=2, partial_moves=4, statements=3
            ),
            known(1, 11, 12, changes=1),
        ),
        ORDERS: (known(1, 3, 4, changes=8),),
    }


def test_windows_are_replaced_where_their_files_are_others() -> None:
    hours = [START + number * HOUR for number in range(5)]
    before = {hours[0]: frozenset("a"), hours[1]: frozenset("b"), hours[2]: frozenset("c"), hours[3]: frozenset("d")}
    now = {hours[0]: frozenset("a"), hours[1]: frozenset("x"), hours[2]: frozenset("cy"), hours[4]: frozenset("e")}
    assert replaced_windows(before, now) == {hours[1], hours[2], hours[3], hours[4]}
    assert replaced_windows(before, before) == frozenset()


def test_files_that_were_only_compacted_change_nothing() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    old = frozenset({"lake/data/r1/a.parquet", "lake/data/r2/b.parquet"})
    joined = frozenset({f"lake/data/r2/{compacted_name(old)}-0-1234.parquet"})
    assert replaced_windows({start: old}, {start: joined}) == frozenset()
    assert replaced_windows({start: old | {"lake/data/r3/c.parquet"}}, {start: joined}) == {start}
    assert replaced_windows({start: old}, {start: joined | {"lake/data/r3/c.parquet"}}) == {start}


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({}, False),
        ({"chain": "r2"}, True),  # the chain began anew: rows behind the cut came late
        ({"frontier": Frontier(datetime(2026, 3, 1, 1, tzinfo=UTC), None, SourcePosition(0, 1, 9))}, True),
        ({"frontier": Frontier(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), None)}, True),
    ],
)
def test_an_open_window_that_only_grows_is_not_a_replaced_one(change: dict[str, Any], replaced: bool) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    state = replace(SnapshotState(Frontier(start, None, SourcePosition(0, 1, 9)), chain="r1"), **change)
    before, now = frozenset({"lake/data/r1/a.parquet"}), frozenset({"lake/data/r1/a.parquet", "lake/data/r2/b.parquet"})
    chains = {start: Chain("r1", frozenset({"r1", "r2"}))}
    found = replaced_windows({start: before}, {start: now}, state=state, chains=chains)
    assert found == (frozenset({start}) if replaced else frozenset())
    strange = {start: frozenset({"lake/data/killed/a.parquet"})}  # a run that was killed before it wrote its mark
    assert replaced_windows(strange, {start: now}, state=state, chains=chains) == {start}
