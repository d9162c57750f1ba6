"""Tags of snapshots at closed cuts: whatever was run again, each names rows that the source had at that cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyiceberg.table import DataScan, Table

from dts_assets.flows import cut_tags as flow
from dts_assets.flows.moments import tables_at
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.cut_tags import tag_of
from dts_assets.model.frontier import Consistency
from dts_assets.planning.cuts import window_cut
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.planning.source_moments import AtWindow
from dts_assets.store import expiry
from dts_assets.store.tags import cut_tags
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import WINDOWS, History, bank_history, border
from tests.flows.short import SECOND, insert, items, open_short, short_source, three_windows
from tests.flows.source import Contents, Position, folded, write_capture
from tests.flows.test_live import LIVE, pieces, with_an_end
from tests.flows.test_moments import _flat
from tests.store.test_expiry import LATER
from tests.tiers import times


@pytest.fixture(scope="module")
def history() -> History:
    return bank_history(5)


def snapshot(harness: Harness, name: str) -> Table | None:
    return harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table_id(name)))


def closed(harness: Harness) -> dict[str, int]:
    """The tags of windows whose marks say that they are closed and have a cut, with the windows' numbers."""
    grid = harness.pipeline.grid
    return {
        tag_of(row.window): grid.number(row.window.start)
        for row in harness.pipeline.ledger.cuts()
        if row.consistency is Consistency.CUT and not row.open_in
    }


def tags(harness: Harness, name: str) -> dict[str, int]:
    found = snapshot(harness, name)
    return {} if found is None else cut_tags(found)


def behind(history: History, number: int) -> Contents:
    """Rows behind a window that is closed by later messages, as the model's CHECKPOINTs say."""
    if number < WINDOWS - 1:
        return history.after(number)
    last: dict[int, Position] = {}
    for one in history.source.checkpoints:
        if history.window_of(one.time) == number:
            last[one.partition] = max(last.get(one.partition, (0, 0)), one.position)
    cut = min(last.values())
    ends = history.ends()
    whole = max((window for window, end in enumerate(ends[:-1]) if end.cut is None), default=-1)
    shown = [
        one
        for one in history.source.changes
        if history.window_of(one.arrived) <= whole or one.position <= max(cut, ends[-2].cut or cut)
    ]
    return folded(history.source.tables, shown)


def require_right(harness: Harness, history: History) -> int:
    """Compare each tag with the model; how many there were."""
    numbers, seen = closed(harness), 0
    after: dict[int, Contents] = {}
    for name, source in history.source.tables.items():
        found = snapshot(harness, name)
        for tag, version in tags(harness, name).items():
            assert tag in numbers, f"{name} has {tag}, which is no closed cut"
            seen += 1
            if source.keys and found is not None:
                wanted = after.setdefault(numbers[tag], behind(history, numbers[tag]))[name]
                rows = [_flat(source, one) for one in found.scan(snapshot_id=version).to_arrow().to_pylist()]
                assert {source.key(row): row for row in rows} == wanted, (name, tag)
    return seen


def told(scan: DataScan) -> list[str]:
    """Rows without NULL: what is made from nothing has columns that no version had then."""
    rows = scan.to_arrow().drop_columns(["_sum"]).to_pylist()  # a sum tells the fields of its own table
    return sorted(repr(sorted((name, value) for name, value in row.items() if value is not None)) for row in rows)


@pytest.mark.more
def test_every_table_has_the_tag_of_every_closed_cut(bench: Bench, history: History, tmp_path: Path) -> None:
    """Windows made one after the other; the last one has no cut, because the recording ends."""
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages))
    for number in range(WINDOWS):
        harness.all(number)
        require_right(harness, history)
    wanted = {tag_of(harness.windows(number)[0]) for number in range(WINDOWS - 1)}
    assert closed(harness).keys() == wanted
    for name in history.source.tables:
        assert tags(harness, name).keys() == wanted


def test_windows_that_one_run_makes_have_tags_where_a_version_is_theirs(
    bench: Bench, history: History, tmp_path: Path
) -> None:
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages))
    harness.all(0, 1, 2)
    assert require_right(harness, history)
    last = tag_of(harness.windows(2)[0])
    assert all(last in tags(harness, name) for name in history.source.tables)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(2, 40)))
def test_tags_stay_right_whatever_is_made_again_in_whatever_order(
    bench: Bench, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where tables are too many for commits of tags alone."""
    random = Random(seed)
    if seed % 2:
        monkeypatch.setattr(flow, "TAGGED_UNCHANGED", 0)
    history = bank_history(seed, transactions=random.choice((10, 80)), long_set=seed % 3 == 0)
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages))
    for _ in range(4):
        harness.work_at_random(random, 3)
        require_right(harness, history)
    harness.settle()
    require_right(harness, history)
    again = random.randrange(WINDOWS)
    harness.all(*range(again, WINDOWS))
    require_right(harness, history)


@pytest.mark.more
def test_a_window_that_is_made_again_with_other_rows_takes_its_tag_and_the_later_ones_along(
    bench: Bench, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another rule. Tags that stay name what the changelog tells, without a stored version."""
    capture = write_capture(tmp_path / "capture", history.source.messages)
    harness = bench.open(capture, name="other_rows")
    for number in range(3):
        harness.all(number)
    before = tags(harness, "accounts")
    zero, one, two = (tag_of(harness.windows(number)[0]) for number in range(3))
    again = bench.open(capture, name="other_rows", rows={"bank.accounts": "id > 5"})
    again.tables(1)
    after = tags(again, "accounts")
    assert after.keys() == {zero, two}, f"{one} stood on rows that are others now"
    assert after[zero] == before[zero], "windows before it are as they were"
    assert after[two] != before[two], "the newest came back with the new rows"
    monkeypatch.setattr("dts_assets.flows.moments._nearest_version", lambda *_: lambda _: None)
    for tag, number in ((zero, 0), (two, 2)):
        anew = tables_at(again.pipeline, AtWindow(again.windows(number)[0].start), tmp_path / tag)
        for name in history.source.tables:
            table, wanted = snapshot(again, name), told(anew.tables[table_id(name)].scan())
            assert table is not None
            assert told(table.scan().use_ref(tag)) == wanted != [], (name, tag)
    assert tags(again, "goods").keys() == {zero, two}, "its changelog was written anew, too"


def test_a_cut_that_moves_loses_its_tag_where_no_row_was_written_again(bench: Bench, tmp_path: Path) -> None:
    """The window gets a later CHECKPOINT in a message that comes late: changes of a later cut then belong to it."""
    source = three_windows()
    harness = open_short(bench, tmp_path / "capture", source.messages)
    for number in range(2):
        harness.all(number)
    tag = tag_of(harness.windows(0)[0])
    cuts = {row.window.start: window_cut(row) for row in harness.pipeline.ledger.cuts()}
    later = {
        start: replace(one, cut=one.cut.next) if tag_of(one.window) == tag and one.cut else one
        for start, one in cuts.items()
    }
    state = harness.pipeline.lake.state(harness.pipeline.table_path("snapshot", table_id("items")))
    assert state is not None
    reached = SnapshotState.of_text(state.properties[STATE_PROPERTY]).frontier
    flow.remove_moved_tags(harness.pipeline, cuts, cuts, reached)
    assert tag in tags(harness, "items"), "nothing has moved"
    flow.remove_moved_tags(harness.pipeline, cuts, later, reached)
    assert tags(harness, "items").keys() == {tag_of(harness.windows(1)[0])}


@pytest.mark.more
def test_a_source_that_is_followed_has_tags_of_closed_windows_alone(bench: Bench, tmp_path: Path) -> None:
    """Refreshes of the open window stand at cuts, too, which no window has in the end."""
    history = bank_history(8)
    capture = tmp_path / "capture"
    left = pieces(with_an_end(history), Random(2), times(8, 30))
    write_capture(capture, left.pop(0), name="first")
    harness = bench.open(capture, complete=False, window={**LIVE, "end": None})
    refresh(harness)
    last = set(list(closed(harness))[-1:])
    for number, some in enumerate(left):
        write_capture(capture, some, name=f"left{number}")
        before = closed(harness)
        refresh(harness)
        require_right(harness, history)
        last |= {max(more)} if (more := closed(harness).keys() - before.keys()) else set()
    settle_open(harness, rounds=10)
    require_right(harness, history)
    assert len(last) > 2, "windows close in several refreshes"
    for name in history.source.tables:
        assert tags(harness, name).keys() >= last, (
            "a window that closes has a version, though the next one is open already"
        )


@pytest.mark.more
def test_tables_that_stand_still_get_none_and_all_once_they_go_on(bench: Bench, tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=4)
    one = table_id("one")
    harness.all(0)
    paused_by_person(harness.pipeline, [one], reason="looked at")
    harness.all(1)
    first, second = (tag_of(harness.windows(number)[0]) for number in (0, 1))
    assert tags(harness, "one").keys() == {first}
    assert tags(harness, "two").keys() == {first, second}
    resume_tables(harness.pipeline, [one])
    harness.settle()
    assert first in tags(harness, "one")
    table = snapshot(harness, "one")
    assert table is not None
    for tag, version in cut_tags(table).items():
        number = closed(harness)[tag]
        held = [change for change in source.changes if change.arrived < border(number + 1)]
        wanted = {key[0]: row["n"] for key, row in folded(source.tables, held)["one"].items()}
        assert {row["id"]: row["n"] for row in table.scan(snapshot_id=version).to_arrow().to_pylist()} == wanted


@pytest.mark.more
def test_as_many_as_are_asked_for_are_kept_and_their_versions_do_not_expire(
    bench: Bench, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 1)
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    capture = write_capture(tmp_path / "capture", history.source.messages)
    harness = bench.open(capture, name="kept_tags", cut_tags=1)
    for number in range(2):
        harness.all(number)
    (tag,) = tags(harness, "accounts")
    assert tag == tag_of(harness.windows(1)[0])
    found = snapshot(harness, "accounts")
    assert found is not None
    found.manage_snapshots().create_tag(found.snapshots()[0].snapshot_id, "cut-mine").commit()
    harness.all(2)
    found = snapshot(harness, "accounts")
    assert found is not None
    assert cut_tags(found).keys() == {tag_of(harness.windows(2)[0])}
    held = cut_tags(found)[tag_of(harness.windows(2)[0])]
    identifier = harness.pipeline.lake.identifier(harness.pipeline.table_path("snapshot", table_id("accounts")))
    harness.all(3)
    expiry.expire_snapshots(harness.pipeline.lake.catalog, identifier, now=LATER)
    found = snapshot(harness, "accounts")
    assert found is not None
    assert found.snapshot_by_id(held) is not None
    assert found.scan(snapshot_id=held).to_arrow().num_rows
    assert "cut-mine" in found.metadata.refs, "tags of other people stay"
    none = bench.open(capture, name="kept_tags", cut_tags=0)
    none.all(*range(WINDOWS))
    rebuild_tables(
        none.pipeline, [table_id("accounts")], RebuildFrom.CHANGELOG, spark=none._spark, progress=none.lines.append
    )
    assert not tags(none, "accounts")


@pytest.mark.more
def test_a_table_that_is_rebuilt_has_the_tags_that_its_new_rows_are(
    bench: Bench, history: History, tmp_path: Path
) -> None:
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages))
    for number in range(3):
        harness.all(number)
    names = [table_id("accounts"), table_id("goods")]
    rebuild_tables(harness.pipeline, names, RebuildFrom.CHANGELOG, spark=harness._spark, progress=harness.lines.append)
    assert require_right(harness, history)
    for name in ("accounts", "goods"):
        found = snapshot(harness, name)
        assert found is not None
        assert {*cut_tags(found).values()} <= {found.metadata.current_snapshot_id}, "versions of before have no tag"


@pytest.mark.more
def test_an_unchanged_table_costs_a_commit_only_where_tables_are_few(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = short_source(items("one"), items("two"))
    for number in range(3):
        for name in ("one", "two") if number != 1 else ("one",):
            insert(source, border(number) + 10 * SECOND, range(10 * number, 10 * number + 4), table=name)
        source.checkpoint(border(number) + 300 * SECOND)
    source.checkpoint(border(3) + 10 * SECOND)
    monkeypatch.setattr(flow, "TAGGED_UNCHANGED", 1)
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=4)
    told = [tag_of(harness.windows(number)[0]) for number in range(3)]
    harness.all(0)
    metadata = snapshot(harness, "two").metadata_location  # type: ignore[union-attr]
    harness.all(1)
    assert snapshot(harness, "two").metadata_location == metadata  # type: ignore[union-attr]
    harness.all(2)
    found = tags(harness, "two")
    assert sorted(found) == told, "the tag of the window without a change came with the next change"
    assert found[told[0]] == found[told[1]] != found[told[2]]
    assert sorted(tags(harness, "one")) == told
