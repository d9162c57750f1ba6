"""Tables as of a moment: each transaction of a recorded source, judged by the model that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.errors import NothingFoundError
from dts_assets.flows import snapshots
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.moments import TablesAt, plan_moment, tables_at
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.flows.stored_snapshots import changelog_versions
from dts_assets.model.positions import file_number
from dts_assets.model.tables import TableId
from dts_assets.planning.moment_frontiers import is_held_by
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.planning.source_moments import AtGtid, AtPosition, AtTime, AtWindow, Moment, moment_of
from dts_assets.store import expiry
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import END, EVERY, START, WINDOWS, History, bank_history, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import Contents, Position, write_capture
from tests.flows.source_tables import Table
from tests.flows.test_bank_transfer import RIGHT, bank_of_transfers
from tests.store.test_expiry import LATER
from tests.tiers import chosen, times


@pytest.fixture(scope="module")
def history() -> History:
    return bank_history(5)


@pytest.fixture
def harness(bench: Bench, history: History, tmp_path: Path) -> Harness:
    """The bank, made window by window, so that there is a version at every cut."""
    made = bench.open(write_capture(tmp_path / "capture", history.source.messages))
    for number in range(WINDOWS):
        made.all(number)
    return made


def contents(history: History, found: TablesAt) -> Contents:
    """The rows of keyed tables, as the model holds them; a table that is absent has none."""
    assert not found.failed
    assert not found.paused
    shown: Contents = {}
    for name, table in history.source.tables.items():
        if table.keys:
            made = found.tables.get(table_id(name))
            rows = [] if made is None else made.scan().to_arrow().to_pylist()
            shown[name] = {table.key(row): row for row in (_flat(table, one) for one in rows)}
            assert len(shown[name]) == len(rows)
    return shown


def _flat(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    names = {
        column.name: f"_source_{column.name}" if column.name == "_event_time" else column.name
        for column in table.columns
    }
    return {name: row.get(shown) for name, shown in names.items()}


def whole(history: History) -> list[Position]:
    """The ends of all transactions up to the last cut."""
    last = max(end.cut for end in history.ends() if end.cut is not None)
    return sorted(one for one in history.source.contents if (0, 0) < one <= last)


def expected(history: History, position: Position) -> Contents:
    return {name: rows for name, rows in history.at(position).items() if history.source.tables[name].keys}


@pytest.mark.more
def test_tables_are_what_the_source_had_behind_every_transaction(
    harness: Harness, history: History, tmp_path: Path
) -> None:
    """By position and by GTID, from a stored version as far as there is one before it."""
    positions = whole(history)
    gtids = {one["place"]: one["gtid"] for one in commits(harness)}
    begun = set[int]()
    for number, position in enumerate(Random(1).sample(positions, times(8, len(positions)))):
        moment = AtGtid(gtids[position]) if number % 2 else AtPosition(None, *position)
        found = tables_at(harness.pipeline, moment, tmp_path / f"moment_{number}")
        assert contents(history, found) == expected(history, position), (position, found.where)
        begun |= {*found.begun.values()}
    assert len(begun) > 3, "moments begin as versions of several cuts"


def commits(harness: Harness) -> list[dict[str, Any]]:
    """The COMMITs of the stream, each once, by position."""
    found = {
        (file_number(row["file_name"]), row["position"]): row
        for row in harness.rows("entries")
        if row["message_type"] == "COMMIT"
    }
    return [{"place": place, **row} for place, row in sorted(found.items())]


@pytest.mark.more
def test_a_time_is_the_last_transaction_before_the_first_one_that_was_committed_later(
    harness: Harness, history: History, tmp_path: Path
) -> None:
    """Also within a second, at a time that no transaction has, and in a window in which nothing was committed before it."""
    told = commits(harness)
    last = whole(history)[-1]
    chosen = [one for one in told if one["place"] < last]
    times_asked = [one["event_time"] for one in Random(4).sample(chosen, times(6, len(chosen)))]
    times_asked += [
        chosen[0]["event_time"],
        chosen[9]["event_time"] + timedelta(milliseconds=999),
        chosen[20]["event_time"] - SECOND,
    ]
    for number, time in enumerate(times_asked):
        found = tables_at(harness.pipeline, AtTime(time), tmp_path / f"moment_{number}")
        place = max(one["place"] for one in told if one["event_time"] <= time)
        assert contents(history, found) == expected(history, place), time


@pytest.mark.more
def test_a_time_is_refused_before_the_first_transaction_and_behind_the_last_complete_one(
    harness: Harness, history: History, tmp_path: Path
) -> None:
    told = commits(harness)
    late = told[-1]["event_time"]
    for time, reason in (
        (told[0]["event_time"] - SECOND, "was committed later, at 0:"),
        (late, "no transaction behind that time"),
    ):
        with pytest.raises(NothingFoundError, match=reason):
            tables_at(harness.pipeline, AtTime(time), tmp_path / "moment")
    with pytest.raises(NothingFoundError, match="everything up to window"):
        tables_at(harness.pipeline, AtTime(END + EVERY), tmp_path / "moment")


@pytest.mark.more
def test_from_nothing_and_from_a_version_come_the_same_rows(
    harness: Harness, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = whole(history)[-3]
    moment = AtPosition(None, *position)
    begun = tables_at(harness.pipeline, moment, tmp_path / "begun")
    assert begun.begun
    monkeypatch.setattr("dts_assets.flows.moments._nearest_version", lambda *_: lambda _: None)
    anew = tables_at(harness.pipeline, moment, tmp_path / "anew")
    assert not anew.begun
    assert rows_of(begun) == rows_of(anew)
    assert contents(history, anew) == expected(history, position)


@pytest.mark.more
def test_a_folder_goes_on_from_an_earlier_moment_and_not_from_a_later_one(
    harness: Harness, history: History, tmp_path: Path
) -> None:
    """Whatever is forgotten there, no file of the lake goes."""
    lake = sizes_in(tmp_path / "lake")
    positions = sorted(Random(7).sample(whole(history), 5))
    went_on = 0
    for position in (*positions, positions[0], positions[0], positions[3]):
        found = tables_at(harness.pipeline, AtPosition(None, *position), tmp_path / "moment")
        assert contents(history, found) == expected(history, position), position
        went_on += not found.begun
    assert went_on >= 2, "the moment before was nearer than any version"
    assert sizes_in(tmp_path / "lake") == lake


@pytest.mark.more
def test_a_version_with_a_tag_is_begun_from_when_its_changelog_has_forgotten(
    harness: Harness, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_changelogs(harness, monkeypatch)
    for number, position in enumerate(Random(8).sample(whole(history), times(5, 30))):
        found = tables_at(harness.pipeline, AtPosition(None, *position), tmp_path / f"moment_{number}")
        assert contents(history, found) == expected(history, position), position
    first = min(end.cut for end in history.ends() if end.cut is not None)
    later = min(one for one in whole(history) if one > first)
    begun = tables_at(harness.pipeline, AtPosition(None, *later), tmp_path / "begun").begun
    assert begun.keys() >= {table_id(name) for name in ("accounts", "goods")}


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [{}, {"deletes": "soft", "audit_columns": ["op", "position"]}, {"consistency": "window"}],
    ids=["hard", "soft", "whole windows"],
)
@pytest.mark.parametrize("seed", chosen(range(1, 6), 1))
def test_a_table_goes_back_from_a_later_version_where_no_earlier_one_is_left(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, options: dict[str, Any]
) -> None:
    """Rows are those of the source at every moment, and those of a table that is made from nothing, down to their messages."""
    history = bank_history(seed)
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages), cut_tags=0, **options)
    for number in range(WINDOWS):
        harness.all(number)
    monkeypatch.setattr("dts_assets.planning.moment_frontiers._CHANGES_OF_ONE_TAKEN_BACK", 0)
    forget_snapshots(harness, monkeypatch)
    positions, went_back = whole(history), set[TableId]()
    moments: list[Moment] = [AtPosition(None, *one) for one in Random(11).sample(positions, times(4, len(positions)))]
    moments = [] if "consistency" in options else moments  # whole windows have moments at their ends alone
    for number, moment in enumerate([*moments, *(AtWindow(border(one)) for one in range(WINDOWS))]):
        planned = plan_moment(harness.pipeline, moment)
        found = tables_at(harness.pipeline, moment, tmp_path / f"moment_{number}")
        if isinstance(moment, AtPosition) and not options:
            assert contents(history, found) == expected(history, (moment.file, moment.position)), moment
        went_back |= {
            table
            for table, version in planned.begins.items()
            if not is_held_by(SnapshotState.of_text(version.properties[STATE_PROPERTY]).frontier, planned.frontier)
        }
        with monkeypatch.context() as patch:
            patch.setattr("dts_assets.flows.moments._nearest_version", lambda *_: lambda _: None)
            anew = tables_at(harness.pipeline, moment, tmp_path / f"anew_{number}")
        assert told_values(found) == told_values(anew), moment
    assert went_back >= {table_id("accounts"), table_id("journal")}


@pytest.mark.more
def test_windows_that_are_made_again_are_refused_until_snapshots_have_their_rows(
    bench: Bench, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rule is in changelogs, and neither in snapshots nor in their tags yet: a run was killed between."""
    capture = write_capture(tmp_path / "capture", history.source.messages)
    made = bench.open(capture, name="made_again")
    for number in range(WINDOWS):
        made.all(number)
    again = bench.open(capture, name="made_again", rows={"bank.accounts": "id > 5", "bank.goods": "sku < 20"})
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "merge_rows", _die)
        with pytest.raises(Killed):
            again.tables(1)
    last = AtPosition(None, *whole(history)[-1])
    with pytest.raises(NothingFoundError, match="2 later windows wait for one that is missing"):
        tables_at(again.pipeline, last, tmp_path / "refused")
    again.tables(1)
    forget_changelogs(again, monkeypatch)
    begun = 0
    for number, position in enumerate(Random(2).sample(whole(history), times(4, 12))):
        moment = AtPosition(None, *position)
        found = tables_at(again.pipeline, moment, tmp_path / f"moment_{number}")
        begun += bool(found.begun)
        with monkeypatch.context() as patch:
            patch.setattr("dts_assets.flows.moments._nearest_version", lambda *_: lambda _: None)
            anew = tables_at(again.pipeline, moment, tmp_path / f"anew_{number}")
        assert told_values(found) == told_values(anew)
    assert begun
    assert contents(history, tables_at(again.pipeline, last, tmp_path / "last")) != expected(
        history, whole(history)[-1]
    )


def told_values(found: TablesAt) -> dict[TableId, list[str]]:
    """Rows without NULL: what is made from nothing has columns that no version had then."""
    return {
        table: sorted(
            repr(sorted((name, value) for name, value in row.items() if value is not None))
            for row in one.scan()
            .to_arrow()
            .drop_columns(["_sum"])
            .to_pylist()  # a sum tells the fields of its own table
        )
        for table, one in found.tables.items()
    }


class Killed(BaseException):
    """Stands for the end of the process."""


def _die(*_: object) -> None:
    raise Killed


def forget_changelogs(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all versions of changelogs expire but those that the next runs need."""
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 1)
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    lake = harness.pipeline.lake
    for table in known_tables(harness.pipeline):
        needed = changelog_versions(harness.pipeline, "snapshot", table)
        identifier = lake.identifier(harness.pipeline.table_path("changelog", table))
        assert expiry.expire_snapshots(lake.catalog, identifier, needed=needed, now=LATER)


def forget_snapshots(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all versions of snapshots expire but the present ones."""
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 1)
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    lake = harness.pipeline.lake
    for table in known_tables(harness.pipeline):
        identifier = lake.identifier(harness.pipeline.table_path("snapshot", table))
        assert expiry.expire_snapshots(lake.catalog, identifier, now=LATER)


def sizes_in(folder: Path, names: str = "*.parquet") -> dict[Path, int]:
    """The files of a lake with their sizes, but for leases: this process renews the one that it has every few seconds."""
    return {one: one.stat().st_size for one in folder.rglob(names) if one.is_file() and "leases" not in one.parts}


def rows_of(found: TablesAt) -> dict[TableId, list[str]]:
    return {
        table: sorted(map(repr, one.scan().to_arrow().drop_columns(["_sum"]).to_pylist()))
        for table, one in found.tables.items()
    }


@pytest.mark.more
def test_a_window_is_its_cut_and_the_present_is_not_touched(harness: Harness, history: History, tmp_path: Path) -> None:
    before = harness.everything()
    files = sizes_in(tmp_path / "lake", "*")
    for number in range(WINDOWS):
        found = tables_at(harness.pipeline, AtWindow(harness.windows(number)[0].start), tmp_path / f"moment_{number}")
        wanted = {name: rows for name, rows in history.after(number).items() if history.source.tables[name].keys}
        assert contents(history, found) == wanted
    assert harness.everything() == before
    assert sizes_in(tmp_path / "lake", "*") == files, "nothing is written into the lake"


@pytest.mark.more
def test_some_tables_are_made_alone(harness: Harness, history: History, tmp_path: Path) -> None:
    position = whole(history)[-1]
    found = tables_at(harness.pipeline, AtPosition(None, *position), tmp_path / "moment", tables={table_id("accounts")})
    assert found.tables.keys() == {table_id("accounts")}
    assert not found.absent


@pytest.mark.more
def test_money_is_never_under_way_at_any_transaction(bench: Bench, tmp_path: Path) -> None:
    source = bank_of_transfers(4)
    harness = bench.open(
        write_capture(tmp_path / "capture", source.messages), window={"every": EVERY, "start": START, "end": END}
    )
    harness.settle()
    (last,) = [row.cut for row in harness.pipeline.ledger.cuts() if row.window == harness.windows(WINDOWS - 2)[0]]
    assert last is not None
    gtids = dict.fromkeys(one.gtid for one in source.changes if one.position <= (last.file, last.position))
    for number, gtid in enumerate(Random(2).sample(sorted(gtids), times(10, 60))):
        found = tables_at(harness.pipeline, AtGtid(gtid), tmp_path / f"moment_{number}")
        assert sum(_balances(found)) == RIGHT, gtid


def _balances(found: TablesAt) -> Iterable[int]:
    for table in found.tables.values():
        yield from table.scan(selected_fields=("balance",)).to_arrow()["balance"].to_pylist()


@pytest.mark.more
@pytest.mark.parametrize(
    ("text", "reason"),
    chosen(
        [
            ("0:99:4", "everything up to window"),
            ("0-9-999999", "complete transaction 0-9-999999"),
            ("3:1:4", "there is no lineage 3"),
            ("2031-01-01-00:00", "window that starts at 2031-01-01T00:00"),
        ],
        2,
    ),
)
def test_a_moment_that_nobody_knows_is_refused(harness: Harness, tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(NothingFoundError) as refused:
        tables_at(harness.pipeline, moment_of(text), tmp_path / "moment")
    assert reason in str(refused.value)
    assert not (tmp_path / "moment").exists()


def test_windows_without_a_cut_have_moments_at_their_ends_alone(bench: Bench, history: History, tmp_path: Path) -> None:
    harness = bench.open(write_capture(tmp_path / "capture", history.source.messages), consistency="window")
    harness.settle()
    with pytest.raises(
        NothingFoundError, match="with consistency: window its windows count as a whole, so name a window"
    ):
        tables_at(harness.pipeline, AtPosition(None, *whole(history)[4]), tmp_path / "moment")
    found = tables_at(harness.pipeline, AtWindow(harness.windows(WINDOWS - 1)[0].start), tmp_path / "moment")
    assert contents(history, found) == {
        name: rows for name, rows in history.final().items() if history.source.tables[name].keys
    }


@pytest.mark.more
def test_a_position_behind_the_last_cut_is_refused_with_that_cut(tmp_path: Path) -> None:
    """The last window counts as a whole, since the recording ends without a CHECKPOINT; the others have cuts."""
    source = short_source(items())
    for window in range(3):
        insert(source, border(window) + SECOND, range(3 * window, 3 * window + 3))
        if window < 2:
            source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "cuts"), tmp_path / "capture", source.messages)
    harness.settle()
    cut = max(row.cut for row in harness.pipeline.ledger.cuts() if row.cut is not None)
    why = f"it lies behind the last cut, {cut}, and the windows from there on count as a whole, so name a window"
    with pytest.raises(NothingFoundError, match=re.escape(why)):
        tables_at(harness.pipeline, AtPosition(None, *source.changes[-1].position), tmp_path / "moment")
    assert len(tables_at(harness.pipeline, AtPosition(*astuple(cut)), tmp_path / "at_the_cut").tables) == 1


@pytest.mark.more
def test_windows_that_have_no_cut_are_refused_as_such(tmp_path: Path) -> None:
    source = short_source(items())
    insert(source, border(0) + SECOND, range(3))
    harness = open_short(bench_in_process(tmp_path, "cuts"), tmp_path / "capture", source.messages, windows=1)
    harness.settle()
    with pytest.raises(NothingFoundError, match="its windows have no cut, so name a window"):
        tables_at(harness.pipeline, AtPosition(None, *source.changes[-1].position), tmp_path / "moment")
