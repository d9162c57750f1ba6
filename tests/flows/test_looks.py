"""A look behind settled days finds the work that a look over all windows finds, whatever was done to the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.regular_topic import (
    MESSAGES,
    SERVER,
    RegularTopic,
    cells_of,
    entries_mark_of,
    entries_mark_with_ids,
    raw_mark_of,
)
from dts_assets.flows.find_work import find_work
from dts_assets.flows.looks import forget, looks, raw_marks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.flows.settling import settle_days
from dts_assets.model.ledger_rows import IngestWindow, MissingTable, PausedBy, PausedTable, RawWindow, SettledDay
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run, SeenStatement, ServerRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning.copied_tables import NO_COPIES
from dts_assets.planning.staleness import input_text, raw_input
from dts_assets.planning.work import Work
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.registry import RegisteredTable, merge_registry

START = datetime(2026, 1, 5, tzinfo=UTC)
EVERY = timedelta(hours=6)
A_DAY = 4
DAYS = 6
PARTITIONS = 2
A_RUN = Run("", 0, 1, SourcePosition(0, 1, 4), SourcePosition(0, 1, 9), START, START, 1, None, False, (), False, 0)
"""Where a format has none, it must mean nothing."""


@dataclass
class Aged:
    """A lake of some days, the topic that it follows, and the settings that it is opened with."""

    folder: Path
    topic: RegularTopic
    settings: dict[str, Any]
    format: str = "dts-protobuf"

    @property
    def entries_mark_of(self) -> Callable[..., IngestWindow]:
        makers = {"drs-json-c": entries_mark_with_ids, "canal-json": entries_mark_without_numbers}
        return makers.get(self.format, entries_mark_of)

    @property
    def pipeline(self) -> Pipeline:
        values = {
            "format": self.format,
            "source": {"kafka": {"bootstrap_servers": "nowhere:9092", "topics": ["shop"], "group_id": "shop"}},
            "partitions": self.topic.partitions,
            "window": {"every": EVERY, "start": START, "live": True},
            **self.settings,
            NAME_KEY: "shop",
            FOLDER_KEY: self.folder,
        }
        return Pipeline(Subscription.model_validate(values), self.topic, Lake(LakeLocation(str(self.folder / "lake"))))

    @property
    def ledger(self) -> Ledger:
        return self.pipeline.ledger

    def window(self, number: int) -> Window:
        return self.topic.grid.at(number)

    def store(self, numbers: Iterable[int], change: Callable[[IngestWindow], IngestWindow] = lambda row: row) -> None:
        """Store raw and entries of some windows."""
        cells = cells_of(self.topic, [self.window(number) for number in numbers])
        now = self.topic.clock
        raw = [
            raw_mark_of(self.topic, cell, closed_by=ClosedBy.MESSAGE if cell.window.end <= now else ClosedBy.OPEN)
            for cell in cells
        ]
        decoding = self.pipeline.decoding_settings()
        entries = [change(self.entries_mark_of(self.topic, row, decoding=decoding)) for row in raw]
        self.ledger.replace_raw_windows(cells, raw)
        self.ledger.replace_windows(cells, entries)

    def make_tables(self) -> None:
        """Store the marks that all windows are to have now."""
        pipeline = self.pipeline
        topic = pipeline.topic_marks(pipeline.ledger.windows(), known(pipeline), copied=NO_COPIES)
        windows = sorted({row.window for row in pipeline.ledger.windows()})
        pipeline.ledger.replace_cuts(windows, [topic.mark(window) for window in windows])

    def settle(self) -> list[SettledDay]:
        settle_days(self.pipeline, lambda line: None)
        return self.ledger.settled_days()

    def change_raw(self, cell: Cell, **facts: Any) -> None:
        (row,) = [row for row in self.ledger.raw_windows([cell.window]) if row.cell == cell]
        self.ledger.replace_raw_windows([cell], [replace(row, **facts)])

    def change_entries(self, cell: Cell, **facts: Any) -> None:
        (row,) = [row for row in self.ledger.windows([cell.window]) if row.cell == cell]
        self.ledger.replace_windows([cell], [replace(row, **facts)])


def entries_mark_without_numbers(*given: Any, **settings: Any) -> IngestWindow:
    """A mark of entries that stand where they came: nothing is noted of the source."""
    return replace(entries_mark_of(*given, **settings), runs=(), checkpoints=(), checkpoint=None, positions=())


def known(pipeline: Pipeline) -> list[TableId]:
    from dts_assets.flows.known_tables import known_tables

    return list(known_tables(pipeline))


@pytest.fixture(
    params=["dts-protobuf", *(pytest.param(name, marks=pytest.mark.long) for name in ("drs-json-c", "canal-json"))]
)
def aged(tmp_path: Path, request: pytest.FixtureRequest) -> Aged:
    """A lake of six days and a half, all of whose days are settled."""
    topic = RegularTopic(WindowGrid(EVERY, START), PARTITIONS, START + (DAYS + 0.4) * A_DAY * EVERY)
    found = Aged(tmp_path, topic, {}, request.param)
    pipeline = found.pipeline
    pipeline.check_shape()
    pipeline.first_window()
    found.store(range(DAYS * A_DAY + 2))
    found.make_tables()
    assert len(found.settle()) == DAYS
    assert windows_read(found) == 2 * A_DAY - 2
    return found


def windows_read(aged: Aged) -> int:
    """The windows that a look reads of those that the lake has."""
    look = next(looks(aged.pipeline, known(aged.pipeline)))
    return len({cell.window for cell in look.entries})


def work_without_settled(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> Work:
    """What a look over all windows finds in a process that remembers nothing."""
    forget()
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "settled_days", lambda self: [])
        return find_work(aged.pipeline)


def cell(number: int, partition: int = 0) -> Cell:
    return Cell(partition, WindowGrid(EVERY, START).at(number))


def of_everything(aged: Aged) -> None:
    pass


def another_message_in_raw(aged: Aged) -> None:
    aged.change_raw(cell(5), generation="another")


def entries_made_again(aged: Aged) -> None:
    aged.change_entries(cell(5), generation="another")


def entries_of_the_last_settled_day(aged: Aged) -> None:
    aged.change_entries(cell(DAYS * A_DAY - 1), generation="another")


def a_mark_of_raw_is_taken_back(aged: Aged) -> None:
    aged.ledger.replace_raw_windows([cell(5)], [])


def a_mark_of_entries_is_taken_back(aged: Aged) -> None:
    aged.ledger.replace_windows([cell(2, 1)], [])


def marks_of_tables_are_gone(aged: Aged) -> None:
    aged.ledger.replace_cuts([aged.window(number) for number in range(3, 9)], [])


def the_ledger_is_empty(aged: Aged) -> None:
    cells = [row.cell for row in aged.ledger.raw_windows()]
    aged.ledger.replace_raw_windows(cells, [])
    aged.ledger.replace_windows(cells, [])


def an_old_window_lacks_a_resumed_table(aged: Aged) -> None:
    window = aged.window(4)
    (row,) = aged.ledger.cuts([window])
    lacks = MissingTable("shopdb", "", "orders", "it failed", START)
    aged.ledger.replace_cuts([window], [replace(row, paused=(lacks,))])


def the_clock_steps_back(aged: Aged) -> None:
    aged.topic.until, aged.topic.clock = aged.topic.clock, START + 3.4 * A_DAY * EVERY


def the_clock_steps_back_a_little(aged: Aged) -> None:
    aged.topic.until, aged.topic.clock = aged.topic.clock, aged.topic.clock - EVERY


def the_clock_steps_back_to_the_settled_days(aged: Aged) -> None:
    aged.topic.until, aged.topic.clock = aged.topic.clock, START + DAYS * A_DAY * EVERY


def time_goes_on(aged: Aged) -> None:
    aged.topic.clock += 9 * EVERY


def a_kafka_partition_is_added(aged: Aged) -> None:
    aged.topic.partitions += 1


def other_types(aged: Aged) -> None:
    aged.settings["types"] = {"shopdb.orders.id": "string"}


def another_table_is_found(aged: Aged) -> None:
    pipeline = aged.pipeline
    table = RegisteredTable(TableId("shopdb", "", "new"), ())
    merge_registry(pipeline.settings.registry_path, [table], lake=pipeline.lake.identity("shop"))


def an_old_window_is_open_again(aged: Aged) -> None:
    aged.change_raw(cell(6), closed_by=ClosedBy.OPEN)
    aged.change_entries(cell(6), closed_by=ClosedBy.OPEN)


def a_head_lies_in_a_settled_day(aged: Aged) -> None:
    last = cell(DAYS * A_DAY + 1)
    (row,) = [row for row in aged.ledger.windows([last.window]) if row.cell == last]
    (old,) = [row for row in aged.ledger.raw_windows([cell(3).window]) if row.cell == cell(3)]
    aged.change_entries(last, inputs=(*row.inputs, input_text(raw_input(cell(3)), old.generation)))


def a_head_came_back_changed(aged: Aged) -> None:
    last = cell(DAYS * A_DAY + 1)
    (row,) = [row for row in aged.ledger.windows([last.window]) if row.cell == last]
    aged.change_entries(last, inputs=(*row.inputs, input_text(raw_input(cell(3)), "as it was")))


def _with_run(aged: Aged, number: int, **facts: Any) -> None:
    (row,) = [row for row in aged.ledger.windows([cell(number).window]) if row.cell == cell(number)]
    run = row.runs[0] if row.runs else A_RUN
    aged.change_entries(cell(number), runs=(*row.runs, replace(run, **facts)))


def positions_of_days_ago_are_sent_again(aged: Aged) -> None:
    (old,) = [row for row in aged.ledger.windows([cell(2).window]) if row.cell == cell(2)]
    run = old.runs[0] if old.runs else A_RUN
    _with_run(aged, DAYS * A_DAY, first=run.first, last=run.last, gtid=run.gtid, servers=run.servers)


def another_server_tells_on(aged: Aged) -> None:
    server = ServerRange("other", 1, 5, SourcePosition(0, 1, 10))
    _with_run(
        aged, DAYS * A_DAY, first=SourcePosition(0, 1, 5), last=SourcePosition(0, 1, 90), server_id=2, gtid="other:1",
        servers=(server,),
    )  # fmt: skip


def a_statement_of_days_ago_comes_again(aged: Aged) -> None:
    one = SeenStatement("", 1, SourcePosition(0, 1, 2_000), f"{SERVER}:2", START)
    aged.change_entries(cell(DAYS * A_DAY, 1), statements=(one,))


def gtids_turn_out_to_be_made_up(aged: Aged) -> None:
    last = cell(DAYS * A_DAY)
    (row,) = [row for row in aged.ledger.windows([last.window]) if row.cell == last]
    aged.change_entries(last, checkpoints=tuple(replace(one, fake_gtid=True) for one in row.checkpoints))


def the_stored_past_cannot_be_read(aged: Aged) -> None:
    aged.ledger.change_settled_days(lambda rows: [replace(row, past=row.past and b"?") for row in rows])


def a_settled_day_is_missing(aged: Aged) -> None:
    aged.ledger.change_settled_days(lambda rows: [row for place, row in enumerate(rows) if place != 2])


QUICK = [
    of_everything, entries_made_again, a_mark_of_raw_is_taken_back, an_old_window_lacks_a_resumed_table,
    the_clock_steps_back, a_head_came_back_changed, positions_of_days_ago_are_sent_again, another_server_tells_on,
]  # fmt: skip
LONG = [
    another_message_in_raw, entries_of_the_last_settled_day, a_mark_of_entries_is_taken_back,
    marks_of_tables_are_gone, the_ledger_is_empty, the_clock_steps_back_a_little,
    the_clock_steps_back_to_the_settled_days, time_goes_on, a_kafka_partition_is_added, other_types,
    another_table_is_found, an_old_window_is_open_again, a_head_lies_in_a_settled_day,
    a_statement_of_days_ago_comes_again, gtids_turn_out_to_be_made_up, the_stored_past_cannot_be_read,
    a_settled_day_is_missing,
]  # fmt: skip
ATTACKS = [*QUICK, *(pytest.param(attack, marks=pytest.mark.long) for attack in LONG)]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_the_work_is_that_of_all_windows(
    aged: Aged, attack: Callable[[Aged], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    attack(aged)
    assert find_work(aged.pipeline) == work_without_settled(aged, monkeypatch)
    aged.settle()
    assert find_work(aged.pipeline) == work_without_settled(aged, monkeypatch)


def test_settings_changed_to_and_fro_leave_the_days_settled(aged: Aged) -> None:
    other_types(aged)
    assert windows_read(aged) == DAYS * A_DAY + 2
    aged.settings.clear()
    assert windows_read(aged) == 2 * A_DAY - 2


def test_a_window_made_again_with_equal_rows_is_judged_again_and_later_days_stay(aged: Aged) -> None:
    before = aged.ledger.settled_days()
    aged.store([5])
    assert windows_read(aged) > 2 * A_DAY
    after = aged.settle()
    assert [row.after for row in after] == [row.after for row in before]
    assert [row.key == old.key for row, old in zip(after, before, strict=True)] == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]
    assert windows_read(aged) == 2 * A_DAY - 2


@pytest.mark.long
def test_days_are_settled_one_after_the_other_as_they_end(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(DAYS * A_DAY + 2, DAYS * A_DAY + 3 * A_DAY):
        aged.topic.clock += EVERY
        aged.store([number - 1, number])
        aged.make_tables()
        assert len(aged.settle()) == number // A_DAY
        assert find_work(aged.pipeline) == work_without_settled(aged, monkeypatch)
        assert windows_read(aged) <= 2 * A_DAY + 1


def test_the_topic_is_judged_again_where_anything_changed_that_it_follows_from(aged: Aged) -> None:
    def judged() -> object:
        return next(looks(aged.pipeline, known(aged.pipeline))).topic

    aged.ledger.change_settled_days(lambda rows: [])  # so that all looks read the same files
    first = judged()
    aged.change_raw(cell(DAYS * A_DAY + 1), generation="another")
    assert judged() is first, "no mark of entries changed"
    aged.change_entries(cell(DAYS * A_DAY + 1), generation="another")
    second = judged()
    assert second is not first
    assert judged() is second
    other_types(aged)
    third = judged()
    assert third not in (first, second)
    another_table_is_found(aged)
    assert judged() not in (first, second, third)


def test_days_that_lack_a_paused_table_are_settled_until_it_is_resumed(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = TableId("shopdb", "", "orders")
    pipeline = aged.pipeline
    known_too = [RegisteredTable(orders, ())]
    merge_registry(pipeline.settings.registry_path, known_too, lake=pipeline.lake.identity("shop"))
    pause = PausedTable(orders, "", "asked for", PausedBy.PERSON, START)
    aged.ledger.change_paused_tables(lambda rows: [pause])
    window = aged.window(9)
    (row,) = aged.ledger.cuts([window])
    aged.ledger.replace_cuts([window], [replace(row, paused=(MissingTable.of(pause),))])
    assert len(aged.settle()) == DAYS
    assert [len(day.lacking) for day in aged.ledger.settled_days()] == [0, 0, 1, 0, 0, 0]
    assert windows_read(aged) == 2 * A_DAY - 2
    assert find_work(aged.pipeline).tables == work_without_settled(aged, monkeypatch).tables
    aged.ledger.change_paused_tables(lambda rows: [])
    assert window in find_work(aged.pipeline).tables
    assert find_work(aged.pipeline) == work_without_settled(aged, monkeypatch)


def test_settled_days_are_made_again_for_a_table_that_was_removed_and_is_added(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = TableId("shopdb", "", "orders")
    pipeline = aged.pipeline
    merge_registry(pipeline.settings.registry_path, [RegisteredTable(orders, ())], lake=pipeline.lake.identity("shop"))
    remove_tables(pipeline, [orders], progress=lambda line: None)
    assert len(aged.settle()) == DAYS
    assert find_work(aged.pipeline).tables == work_without_settled(aged, monkeypatch).tables
    add_tables(pipeline, [orders], progress=lambda line: None)
    assert {aged.window(number) for number in range(DAYS * A_DAY)} <= {*find_work(aged.pipeline).tables}
    assert find_work(aged.pipeline) == work_without_settled(aged, monkeypatch)


def test_a_lake_without_settled_days_is_settled_bit_by_bit(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    aged.ledger.change_settled_days(lambda rows: [])
    monkeypatch.setattr("dts_assets.flows.settling._MOST_DAYS", 2)
    assert [len(aged.settle()) for _ in range(4)] == [2, 4, 6, 6]


@pytest.mark.parametrize("past", [None, b"written by another version"])
def test_days_are_settled_again_from_the_last_one_whose_past_is_known(aged: Aged, past: bytes | None) -> None:
    """Of old days the past is not kept, and a day behind one of them may be judged again."""
    aged.ledger.change_settled_days(
        lambda rows: [replace(row, past=past if 1 <= at <= 2 else row.past) for at, row in enumerate(rows)]
    )
    before = len(aged.ledger.settled_days())
    aged.store([3 * A_DAY + 1])
    assert windows_read(aged) > 2 * A_DAY
    assert len(aged.settle()) == before == DAYS
    assert windows_read(aged) == 2 * A_DAY - 2


def test_several_processes_may_settle_at_once(aged: Aged) -> None:
    expected = aged.ledger.settled_days()
    aged.ledger.change_settled_days(lambda rows: [])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: aged.settle(), range(3)))
    assert aged.ledger.settled_days() == expected


def test_a_topic_behind_the_stored_offsets_is_refused_by_the_settled_ones_too(aged: Aged) -> None:
    from dts_assets.errors.sources import RecreatedTopicError

    aged.topic.clock = START + EVERY
    with pytest.raises(RecreatedTopicError):
        find_work(aged.pipeline)


def test_the_marks_of_raw_behind_settled_days_are_those_of_all_windows(aged: Aged) -> None:
    rows: list[RawWindow] = aged.ledger.raw_windows()
    behind = raw_marks(aged.pipeline).behind_settled([aged.window(DAYS * A_DAY)])
    assert behind == rows[-len(behind or ()) :]
    assert len(behind or ()) < len(rows)
    assert raw_marks(aged.pipeline).behind_settled([aged.window(2)]) is None
    assert behind is not None
    assert behind[0].offsets.start == (DAYS - 1) * A_DAY * MESSAGES
