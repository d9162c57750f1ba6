"""Tables copied beside the stream: whatever was read when, snapshots are the source, judged by the model that wrote it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.looks import looks
from dts_assets.flows.moments import tables_at
from dts_assets.flows.repairs import enter_repair
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.planning.source_moments import AtPosition
from dts_assets.planning.topic_marks import TopicMarks
from tests.flows.copied import Read, copy_rows, reads_of, texts
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import WINDOWS, History, bank_history, border
from tests.flows.short import SECOND, insert, items, open_short, short_source, update
from tests.flows.source import Contents, Ddl, Dml, Position, write_capture
from tests.flows.source_tables import Row, Table
from tests.flows.test_live import pieces, with_an_end
from tests.flows.test_moments import contents
from tests.tiers import chosen, times

KEYED = ("accounts", "seats", "goods")


def opened(bench: Bench, history: History, folder: Path, *, since: datetime, name: str | None = None) -> Harness:
    """The bank, whose topic has messages from an instant on alone."""
    messages = [one for one in history.source.messages if one.time >= since]
    return bench.open(write_capture(folder / "capture", messages), name=name, history=["*"])


def positions(history: History, *, since: datetime, until: Position) -> list[Position]:
    """The ends of transactions at which a copy may be read: everything behind them is in the topic."""
    missing = [
        one.position for one in history.source.changes if _begins(history, one.partition, one.first_offset) < since
    ]
    return [one for one in sorted(history.source.contents) if max(missing, default=(0, 0)) < one <= until]


def _begins(history: History, partition: int, offset: int) -> datetime:
    return next(one.time for one in history.source.messages if (one.partition, one.offset) == (partition, offset))


def last_cut(history: History) -> Position:
    return max(end.cut for end in history.ends() if end.cut is not None)


def copy_all(harness: Harness, history: History, random: Random, *, since: datetime) -> None:
    """Copy all keyed tables, each while its columns stayed what they were."""
    ends = positions(history, since=since, until=last_cut(history))
    for name in KEYED:
        table = history.source.tables[name]
        has_more = {at: any("added" in row for row in history.source.contents[at][name].values()) for at in ends}
        began = random.choice(ends)
        mine = [at for at in ends if has_more[at] is has_more[began]]
        shown = (
            table if has_more[began] else replace(table, columns=[one for one in table.columns if one.name != "added"])
        )
        copy_rows(harness, shown, reads_of(table, lambda at, name=name: history.at(at)[name].values(), mine, random))  # type: ignore[misc]


@pytest.mark.more
@pytest.mark.parametrize("seed", chosen([1, 0, *range(2, 60)], 1))
def test_a_topic_that_begins_in_the_middle_and_a_copy_are_the_source(bench: Bench, tmp_path: Path, seed: int) -> None:
    """Chunks are read at any positions between their watermarks, before, between or behind the runs of the windows."""
    random, history, first = Random(seed), bank_history(seed), 1 + seed % 2
    harness = opened(bench, history, tmp_path, since=border(first))
    if seed % 2:
        harness.settle()
    for _ in range(2 * (seed % 3)):
        harness.work_at_random(random, 1)
    copy_all(harness, history, random, since=border(first))
    assert harness.settle()
    assert harness.snapshots(keyed(history)) == only_keyed(history.final())
    assert all(row.balanced for row in harness.pipeline.ledger.window_tables())
    before = harness.everything(without=("_kafka_offset",))
    harness.tables(*range(first, WINDOWS))
    assert harness.everything(without=("_kafka_offset",)) == before


@pytest.mark.more
def test_without_the_copy_rows_are_missing(bench: Bench, tmp_path: Path) -> None:
    """So the tests here can fail."""
    history = bank_history(2)
    harness = opened(bench, history, tmp_path, since=border(2))
    harness.settle()
    assert harness.snapshots(keyed(history)) != only_keyed(history.final())


def keyed(history: History) -> dict[str, Table]:
    return {name: table for name, table in history.source.tables.items() if table.keys}


def only_keyed(whole: Contents) -> Contents:
    return {name: rows for name, rows in whole.items() if name in KEYED}


@pytest.mark.more
def test_a_copy_that_comes_later_gives_what_one_that_came_before_gives(bench: Bench, tmp_path: Path) -> None:
    """Before all runs, between them, and behind them; its window is the one whose cut reaches its watermark."""
    history, found = bank_history(6), []
    for order in chosen(("before", "behind", "between"), 2):
        harness = opened(bench, history, tmp_path / order, since=border(1))
        windows = range(1, WINDOWS)
        if order == "behind":
            harness.settle()
        if order == "between":
            harness.all(1)
        copy_all(harness, history, Random(1), since=border(1))
        if order == "before":
            for number in windows:
                harness.all(number)
        harness.settle()
        found.append((harness.snapshots(keyed(history)), taken(harness), completeness(harness)))
    assert len(found) > 1
    assert all(one == found[0] for one in found)
    assert found[0][0] == only_keyed(history.final())


def taken(harness: Harness) -> list[tuple[str, datetime | None]]:
    return [(one.table.table, one.window_start) for one in harness.pipeline.ledger.copied_tables()]


def completeness(harness: Harness) -> list[tuple[datetime, Completeness]]:
    return [(row.window.start, row.completeness) for row in harness.pipeline.ledger.cuts()]


@pytest.mark.more
def test_a_table_with_a_copy_is_as_complete_as_without_one(bench: Bench, tmp_path: Path) -> None:
    history, found = bank_history(6), []
    for copies in (False, True):
        harness = opened(bench, history, tmp_path / str(copies), since=border(1))
        if copies:
            copy_all(harness, history, Random(1), since=border(1))
        harness.settle()
        counts = [row for row in harness.pipeline.ledger.window_tables() if row.kafka_partition >= 0]
        found.append((completeness(harness), [(row.table, row.changes, row.row_hash) for row in counts]))
    assert found[0] == found[1]


@pytest.mark.more
def test_rows_of_a_copy_have_no_place_in_kafka(bench: Bench, tmp_path: Path) -> None:
    history = bank_history(6)
    harness = opened(bench, history, tmp_path, since=border(1))
    copy_all(harness, history, Random(1), since=border(1))
    harness.settle()
    rows = harness.rows("changelog", *table_id("goods").path)
    copied = [row for row in rows if row["kafka_partition"] is None]
    assert {row["op"] for row in copied} == {"truncate", "read"}
    assert all(row["kafka_offset"] is None for row in copied)
    (one,) = [one for one in harness.pipeline.ledger.copied_tables() if one.table == table_id("goods")]
    assert len(copied) == one.rows + 1
    assert len({row["row_number"] for row in copied if row["op"] == "read"}) == one.rows
    assert len(harness.rows("copies", *table_id("goods").path)) == one.rows


@pytest.mark.more
def test_a_bag_is_what_it_was_where_it_was_read(bench: Bench, tmp_path: Path) -> None:
    """A table without a key is read at one exact position; changes before it are in it, those behind it come."""
    history = bank_history(6)
    harness, journal = opened(bench, history, tmp_path, since=border(1)), history.source.tables["journal"]
    at = Random(2).choice(positions(history, since=border(1), until=last_cut(history)))
    copy_rows(harness, journal, [Read(at, at, tuple(lines(history, until=at)))])
    harness.settle()
    shown = [(row["line"], row["at"]) for row in harness.rows("snapshot", *table_id("journal").path)]
    expected = [(row["line"], row["at"]) for row in lines(history, until=(1 << 30, 0))]
    assert sorted(map(str, shown)) == sorted(map(str, expected))


def lines(history: History, *, until: Position) -> list[Row]:
    """The rows of the journal behind all changes up to a position."""
    found: list[Row] = []
    for change in sorted(history.source.changes, key=lambda one: (one.position, one.row_number)):
        if change.table == "journal" and change.position <= until:
            if change.before is not None:
                found.remove(change.before)
            if change.after is not None:
                found.append(change.after)
    return found


@pytest.mark.more
def test_a_resync_mends_a_table_and_touches_no_other(bench: Bench, tmp_path: Path) -> None:
    """Messages were lost: the table is wrong until it is copied anew, and so are others that are not."""
    history = bank_history(4)
    lost = [one for one in history.source.messages if border(1) <= one.time < border(2) and one.partition]
    messages = [one for one in history.source.messages if one not in lost]
    harness = bench.open(write_capture(tmp_path / "capture", messages), history=["*"])
    harness.settle()
    wrong = harness.snapshots(keyed(history))
    assert all(wrong[name] != history.final()[name] for name in ("goods", "seats"))
    goods, ends = history.source.tables["goods"], positions(history, since=border(2), until=last_cut(history))
    read = reads_of(goods, lambda at: history.at(at)["goods"].values(), ends, Random(1))
    copy_rows(harness, goods, read, CopyKind.RESYNC)
    assert harness.settle()
    mended = harness.snapshots(keyed(history))
    assert mended["goods"] == history.final()["goods"]
    assert mended["seats"] == wrong["seats"]


@pytest.mark.more
def test_a_table_is_absent_as_of_a_moment_before_its_copy_is_whole(bench: Bench, tmp_path: Path) -> None:
    history, goods = bank_history(6), table_id("goods")
    harness = opened(bench, history, tmp_path, since=border(1))
    ends = positions(history, since=border(1), until=last_cut(history))
    low, read, high = ends[len(ends) // 4], ends[len(ends) // 3], ends[len(ends) // 2]
    rows = tuple(history.at(read)["goods"].values())
    copy_rows(harness, history.source.tables["goods"], [Read(low, high, rows)])
    harness.settle()
    for number, position in enumerate(Random(1).sample(ends, times(6, len(ends)))):
        found = tables_at(harness.pipeline, AtPosition(None, *position), tmp_path / str(number), tables=[goods])
        if position < high:
            assert found.absent == (goods,)
        else:
            assert contents(history, found)["goods"] == history.at(position)["goods"]


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 20)))
def test_a_copy_comes_while_windows_are_open(bench: Bench, tmp_path: Path, seed: int) -> None:
    """Refreshes go on before and behind it; rows that stand already are appended to, and never doubled."""
    random, history = Random(seed), bank_history(seed + 30)
    messages = [one for one in with_an_end(history) if one.time >= border(1)]
    harness = bench.open(tmp_path / "capture", complete=False, window={"live": True})
    parts = pieces(messages, random, times(4, 6))
    copied_at = random.randrange(len(parts))
    for number, some in enumerate(parts):
        write_capture(tmp_path / "capture", some, name=f"piece{number}")
        if number == copied_at:
            copy_all(harness, history, random, since=border(1))
        refresh(harness)
        if random.random() < 0.4:
            settle_open(harness, rounds=10)
    settle_open(harness, rounds=10)
    cut = max(row.cut for row in harness.pipeline.ledger.cuts() if row.cut is not None)
    assert harness.snapshots(keyed(history)) == only_keyed(history.at((cut.file, cut.position)))
    assert all(row.balanced for row in harness.pipeline.ledger.window_tables())
    for name in KEYED:
        rows = harness.rows("changelog", *table_id(name).path)
        copied = [row["row_number"] for row in rows if row["kafka_partition"] is None and row["op"] == "read"]
        (one,) = [one for one in harness.pipeline.ledger.copied_tables() if one.table == table_id(name)]
        assert sorted(copied) == list(range(one.rows))


@pytest.mark.more
def test_a_repair_mends_single_rows_and_later_changes_stay(bench: Bench, tmp_path: Path) -> None:
    """Rows that differ as of a position are taken from there: changed, missing and surplus ones."""
    history = bank_history(11)
    lost = [one for one in history.source.messages if border(1) <= one.time < border(2) and one.partition]
    messages = [one for one in history.source.messages if one not in lost]
    harness = bench.open(write_capture(tmp_path / "capture", messages), history=["*"])
    harness.settle()
    wrong = harness.snapshots(keyed(history))
    at = positions(history, since=border(2), until=last_cut(history))[0]
    kinds = set[str]()
    for name in ("goods", "seats", "accounts"):
        table = history.source.tables[name]
        shown = tables_at(harness.pipeline, AtPosition(None, *at), tmp_path / name, tables=[table_id(name)])
        there, true = contents(history, shown)[name], history.at(at)[name]
        differing = [row for key, row in true.items() if there.get(key) != row]
        surplus = [
            {**dict.fromkeys(row), **dict(zip(table.keys, key, strict=True))}
            for key, row in there.items()
            if key not in true
        ]
        kinds |= {"surplus"} if surplus else set()
        kinds |= {"missing" for row in differing if table.key(row) not in there}
        kinds |= {"changed" for row in differing if table.key(row) in there}
        columns = tuple(ColumnShape(one.name, one.kind.original_type, one.is_key) for one in table.columns)
        rows, removed = texts(columns, differing), texts(columns, surplus)
        position = SourcePosition(0, *at)
        enter_repair(harness.pipeline, table_id(name), columns, position, rows=rows, removed=removed, origin="a test")
    assert kinds == {"changed", "missing", "surplus"}
    assert wrong != only_keyed(history.final())
    assert harness.settle()
    assert harness.snapshots(keyed(history)) == only_keyed(history.final())
    assert all(row.balanced for row in harness.pipeline.ledger.window_tables())
    assert {
        row["op"] for row in harness.rows("changelog", *table_id("goods").path) if row["kafka_partition"] is None
    } == {"repair"}


@pytest.mark.more
@pytest.mark.parametrize(
    "settings",
    chosen(
        [
            {"rows": {"bank.accounts": "balance >= 0", "bank.goods": "d is not null"}},
            {"rename": {"bank.*": "shop.*"}},
            {"columns": {"bank.goods.g": {"mask": "***"}, "bank.accounts.owner": "drop"}},
            {"deletes": "soft", "audit_columns": ["op"]},
            {"schema_changes": "keep"},
        ],
        2,
    ),
    ids=lambda one: next(iter(one)),
)
def test_copied_rows_go_through_the_same_settings_as_all_others(
    bench: Bench, tmp_path: Path, settings: dict[str, Any]
) -> None:
    """A lake whose topic has everything, and one that begins with a copy, have equal snapshots in the end."""
    history, found = bank_history(7), []
    for name, since in (("whole", border(0)), ("copied", border(1))):
        messages = [one for one in history.source.messages if one.time >= since]
        harness = bench.open(write_capture(tmp_path / name, messages), **settings)
        if name == "copied":
            copy_all(harness, history, Random(4), since=since)
        harness.settle()
        database = "shop" if "rename" in settings else "bank"
        shown = {table: harness.rows("snapshot", database, table) for table in KEYED}
        kept = {table: [row for row in rows if row.get("_deleted_at") is None] for table, rows in shown.items()}
        found.append({table: sorted(repr(_own(row)) for row in rows) for table, rows in kept.items()})
    assert found[0] == found[1]
    assert all(found[0].values())


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what tells how it came."""
    return {name: row[name] for name in sorted(row) if not name.startswith("_") or name == "_source__event_time"}


@pytest.mark.more
def test_a_resync_ends_what_is_not_proven(bench: Bench, tmp_path: Path) -> None:
    """A statement that nobody understands leaves a doubt; behind the copy there is none, and another one begins another."""
    source = short_source()
    insert(source, border(0) + 10 * SECOND, range(20))
    strange = Ddl("ALTER TABLE items EXCHANGE PARTITION p0 WITH TABLE others")
    source.transaction(border(0) + 20 * SECOND, strange)
    update(source, border(0) + 30 * SECOND, {1: 5})
    source.checkpoint(border(0) + 60 * SECOND)
    update(source, border(1) + 10 * SECOND, {2: 5})
    source.checkpoint(border(1) + 60 * SECOND)
    copied_at = source.committed
    read = [Read(copied_at, copied_at, tuple(source.rows["items"].values()))]
    update(source, border(2) + 10 * SECOND, {3: 5})
    source.checkpoint(border(2) + 60 * SECOND)
    source.transaction(border(3) + 10 * SECOND, strange)
    update(source, border(3) + 20 * SECOND, {4: 5})
    source.checkpoint(border(3) + 60 * SECOND)
    insert(source, border(4) + SECOND, range(100, 110))
    harness = open_short(bench, tmp_path / "capture", source.messages, window={"end": None})
    harness.raw(0, 1, 2, 3)
    harness.entries(0, 1, 2, 3)
    found = [doubt(harness, 0), doubt(harness, 1)]
    copy_rows(harness, source.tables["items"], read, CopyKind.RESYNC)
    found += [doubt(harness, 1), doubt(harness, 2), doubt(harness, 3)]
    assert ["EXCHANGE" in one or "partition" in one.lower() or bool(one) for one in found] == [
        True,
        True,
        False,
        False,
        True,
    ]


def doubt(harness: Harness, window: int) -> str:
    """The reason why the snapshot is not proven behind a window."""
    (table,) = [one for one in harness.tables(window).tables if one.table == table_id("items")]
    return table.layers["snapshot"].doubt


def test_a_topic_is_judged_again_when_a_copy_counts_and_when_a_window_has_taken_it(bench: Bench) -> None:
    source = short_source(items("one"))
    insert(source, border(0) + SECOND, range(3), table="one")
    source.checkpoint(border(0) + 300 * SECOND)
    harness = open_short(bench, bench.folder / "capture", source.messages)
    harness.all(0)
    ledger = harness.pipeline.ledger

    def judged(*copied: CopiedTable) -> TopicMarks:
        ledger.change_copied_tables(lambda _: copied)
        return next(looks(harness.pipeline, known_names(harness.pipeline))).topic

    at, first = SourcePosition(0, 1, 4), judged()
    chunk = CopiedChunk(0, None, None, low=at, high=at, rows=1)
    copy = CopiedTable("c", table_id("one"), CopyKind.RESYNC, CopyState.READING, "a test", (), (chunk,), border(0))
    assert judged(copy) is first, "one that is being read is no input of a window"
    read = judged(replace(copy, state=CopyState.COPIED))
    assert read is not first
    taken = judged(replace(copy, state=CopyState.COPIED, window_start=border(0)))
    assert taken is not read
    assert list(taken.copied) == [border(0)]


@pytest.mark.more
@pytest.mark.parametrize("made_before", [False, True])
def test_a_copy_right_behind_a_swap_leaves_the_rows_that_went(made_before: bool, bench: Bench, tmp_path: Path) -> None:
    """The statement ends where the copy was read; what the copy takes away are rows of the name, not those that it had."""
    table, other = items(), items("goods")
    source = short_source(table, other)
    for one, number in ((table, 1), (other, 7)):
        source.transaction(border(0) + SECOND, Dml(one, [(None, {"id": number, "n": 1, "note": None})]))
    source.checkpoint(border(0) + 300 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("RENAME TABLE goods TO spare, items TO goods, spare TO items"))
    source.rows["items"], source.rows["goods"] = source.rows["goods"], source.rows["items"]
    source.transaction(border(1) + 2 * SECOND, Dml(other, [(None, {"id": 2, "n": 1, "note": None})]))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2, history=["*"])
    harness.raw(0, 1)
    harness.entries(0, 1)
    if made_before:
        harness.settle()
    (at,) = {
        (int(one["file_name"].rpartition(".")[2]), one["position"])
        for one in harness.rows("entries")
        if one["message_type"] == "DDL"
    }
    copy_rows(harness, table, [Read(at, at, ({"id": 7, "n": 1, "note": None},))])
    harness.settle()
    found = {name: sorted(row["id"] for row in harness.rows("snapshot", "bank", name)) for name in ("items", "goods")}
    assert found == {"items": [7], "goods": [1, 2]}
