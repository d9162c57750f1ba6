"""Random days: whatever is cut over borders and sent again, a lake that loses old rows goes on as one that keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dts_assets.flows import message_retention
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.model.message_retention import ENTRIES, RAW
from tests.flows.aging import EVERY, HOUR, SECOND, START, number_of, on, opened, windows_with_files
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, item, items
from tests.flows.source import Dml, Message, Source, write_capture
from tests.flows.source_tables import Row

DAYS = 6


def random_days(random: Random) -> list[Message]:
    """Changes of rows in both Kafka partitions; sets are cut over borders of windows, and the task goes back at times."""
    source = Source([items()], START, lags=(0.2, 0.3), random=random, fragmented=0.5)
    table, free = source.tables["items"], iter(range(10_000))
    sent: list[Message] = []
    later = 0
    for number in range(2 * DAYS):
        border = START + (number + 1) * EVERY
        before = len(source.messages)
        for hour in (1, 4, 7):
            rows: list[tuple[Row | None, Row | None]] = [(None, item(next(free))) for _ in range(random.randint(1, 6))]
            source.transaction(border - EVERY + hour * HOUR, Dml(table, rows))
            old = random.choice(list(source.rows["items"].values()))
            source.transaction(border - EVERY + hour * HOUR + SECOND, Dml(table, [(old, {**old, "n": number})]))
            if random.random() < 0.8:
                source.checkpoint(border - EVERY + hour * HOUR + 2 * SECOND)
        lane = random.randrange(LANES)
        mine = [row for row in map(item, (next(free) for _ in range(40))) if table.partition(row, LANES) == lane]
        if random.random() < 0.6:
            cut = [border - 3 * SECOND, border - SECOND, border + random.randint(1, 3) * SECOND]
            source.transaction(border - 5 * SECOND, Dml(table, [(None, row) for row in mine]), split={lane: cut})
        found = source.messages[before:]
        sent += [replace(one, offset=one.offset + later, sequence=one.sequence + later) for one in found]
        if random.random() < 0.4:  # read again from the binlog: whole sets, in the order in which they came
            again = [one for one in found if one.time < border - 4 * SECOND]
            for lane in range(LANES):
                last = [one for one in sent if one.partition == lane][-1]
                for place, one in enumerate((one for one in again if one.partition == lane), 1):
                    time = border - 2 * HOUR + place * SECOND
                    sent.append(replace(one, offset=last.offset + place, sequence=last.sequence + place, time=time))
            later += len(again)
    return sent


def followed(folder: Path, messages: list[Message], ages: dict[str, str], *, by: int) -> Harness:
    bench = bench_in_process(folder, "aged")
    for first in range(0, DAYS, by):
        mine = [one for one in messages if on(first) <= one.time < on(first + by)]
        write_capture(folder / "capture", mine, name=f"day{first}")
        harness = opened(bench, folder / "capture", "aged", ages)
        harness.settle()
    return harness


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 7))
def test_all_but_the_old_rows_is_as_without(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_retention, "MESSAGES_KEPT", 20)
    messages = random_days(Random(seed))
    whole = followed(tmp_path / "whole", messages, {}, by=DAYS)
    aged = followed(tmp_path / "aged", messages, {"raw": "1d", "entries": "1d"}, by=1)
    expected, found = (harness.everything(without={"closed_by"}) for harness in (whole, aged))
    for name in expected.keys() - {RAW, ENTRIES}:
        assert found[name] == expected[name], name
    for layer in (RAW, ENTRIES):
        first = {lane: numbers[0] for lane, numbers in windows_with_files(aged, layer).items()}
        assert min(first.values()) > 0
        there = [row for row in whole.rows(layer) if number_of(row["window_start"]) >= first[row["kafka_partition"]]]
        assert sorted(map(str, there)) == sorted(map(str, aged.rows(layer)))
    assert len(expected["redeliveries"]) > 5, "something is read again"
    assert any(row.taken_over for row in whole.pipeline.ledger.windows()), "something is cut"
    assert find_work(aged.pipeline).nothing
    assert all(one.balanced for one in judge_ledger(aged.pipeline))
