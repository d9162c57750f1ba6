"""The shipped example is right before any of the project's own decoding reads it, and holds what it promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.emulator.capture import CAPTURE_SCHEMA
from dts_assets.protocol import subscribe_pb2 as pb

EXAMPLES = Path(__file__).parents[2] / "examples"
HOUR = 3_600_000
T0 = 1_767_571_200_000  # 2026-01-05T00:00Z


@pytest.fixture(scope="module")
def replay(replayed: Callable[[Path], Any]) -> Any:
    return replayed(EXAMPLES / "shop")


@pytest.fixture(scope="module")
def messages() -> pa.Table:
    tables = [pq.read_table(file) for file in sorted((EXAMPLES / "shop").glob("*.parquet"))]
    return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])


def test_a_plain_replay_gives_the_databases_own_content(
    replay: Any, differences: Callable[[Any, Path], list[str]]
) -> None:
    assert len(list((EXAMPLES / "shop.expected").glob("*.parquet"))) == 12
    assert differences(replay, EXAMPLES / "shop.expected") == []


def test_a_replay_that_lost_one_change_is_noticed(replay: Any, differences: Callable[[Any, Path], list[str]]) -> None:
    rows = replay.keyed["shopdb.orders"]
    key, row = rows.popitem()
    try:
        assert differences(replay, EXAMPLES / "shop.expected") == ["shopdb.orders"]
    finally:
        rows[key] = row


def test_it_holds_what_it_promises(replay: Any, messages: pa.Table) -> None:
    assert replay.changes >= 20_000
    assert messages.schema.equals(CAPTURE_SCHEMA)
    assert set(messages["partition"].to_pylist()) == {0, 1, 2, 3}
    assert sum(file.stat().st_size for file in (EXAMPLES / "shop").glob("*.parquet")) < 6_000_000
    operations = Counter(
        entry.event.dmlEvent.dmlEventType for _, entry in replay.entries if entry.header.messageType == pb.DML
    )
    assert set(operations) == {pb.INSERT, pb.UPDATE, pb.DELETE}
    sql = {entry.event.ddlEvent.sql for _, entry in replay.entries if entry.header.messageType == pb.DDL}
    assert sum("ADD COLUMN" in statement for statement in sql) == 1


def test_every_column_but_keys_and_required_ones_is_null_somewhere(replay: Any) -> None:
    gallery = replay.keyed["shopdb.type_gallery"].values()
    nulls = {name for row in gallery for name, value in row if value is None}
    assert nulls == {name for name, _ in next(iter(gallery))} - {"id"}


def test_message_times_never_go_back_and_fill_eight_hours(messages: pa.Table) -> None:
    for partition in range(4):
        mine = messages.filter(pa.compute.equal(messages["partition"], partition))
        times = mine["timestamp"].cast(pa.int64()).to_pylist()
        assert times == sorted(times)
        assert {(time - T0) // HOUR for time in times} == {0, 1, 2, 3, 4, 5, 6, 7, 8}
        assert mine["offset"].to_pylist() == list(range(mine.num_rows))


def test_sets_straddle_the_ends_of_hours(messages: pa.Table) -> None:
    crossings = 0
    start = 0
    for message in (
        messages.select(["timestamp", "value"])
        .cast(pa.schema([("timestamp", pa.int64()), ("value", pa.binary())]))
        .to_pylist()
    ):
        envelope = pb.Envelope.FromString(message["value"])
        start = message["timestamp"] if envelope.index == 0 else start
        crossings += (
            envelope.index == envelope.total - 1 and (start - T0) // HOUR != (message["timestamp"] - T0) // HOUR
        )
    assert crossings >= 3


def test_a_checkpoint_behind_the_last_commit_lies_inside_the_last_hour(replay: Any) -> None:
    for partition in range(4):
        mine = [entry for number, entry in replay.entries if number == partition]
        last = max(
            e.header.position for e in mine if e.header.messageType == pb.COMMIT and e.header.fileName.endswith("3")
        )
        covering = [
            e.header.timestamp
            for e in mine
            if e.header.messageType == pb.CHECKPOINT
            and e.header.fileName.endswith("3")
            and e.event.checkpointEvent.position >= last
        ]
        assert min(covering) * 1000 < T0 + 8 * HOUR


def test_gtids_are_contiguous(replay: Any) -> None:
    numbers = {entry.header.gtid for _, entry in replay.entries if entry.header.gtid}
    assert len({gtid.partition(":")[0] for gtid in numbers}) == 1
    assert sorted(int(gtid.partition(":")[2]) for gtid in numbers) == list(range(1, len(numbers) + 1))
