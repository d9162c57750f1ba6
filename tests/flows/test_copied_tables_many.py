"""Tables copied beside the stream: whatever was read when, snapshots are the source, judged by the model that wrote it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.model.copied_tables import CopyKind
from dts_assets.model.problems import Completeness
from dts_assets.planning.source_moments import AtPosition
from tests.flows.copied import Read, copy_rows, reads_of
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import WINDOWS, History, bank_history, border
from tests.flows.source import Contents, Position, write_capture
from tests.flows.test_moments import contents
from tests.tiers import times

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
    ends = positions(history, since=since, until=last_cut(history))
    for name in KEYED:
        table = history.source.tables[name]
        copy_rows(harness, table, reads_of(table, lambda at, name=name: history.at(at)[name].values(), ends, random))  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(4, 44))
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


def test_without_the_copy_rows_are_missing(bench: Bench, tmp_path: Path) -> None:
    """So the tests here can fail."""
    history = bank_history(2)
    harness = opened(bench, history, tmp_path, since=border(2))
    harness.settle()
    assert harness.snapshots(keyed(history)) != only_keyed(history.final())


def keyed(history: History) -> dict[str, object]:
    return {name: table for name, table in history.source.tables.items() if table.keys}


def only_keyed(whole: Contents) -> Contents:
    return {name: rows for name, rows in whole.items() if name in KEYED}
