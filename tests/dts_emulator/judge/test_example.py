"""The shipped example is right before any of the project's own decoding reads it, and holds what it promises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dts_assets.model.columns import decimal_arguments, mysql_type
from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.judge.comparison import compare
from dts_emulator.messages.capture_files import CAPTURE_SCHEMA

EXAMPLES = Path(__file__).parents[3] / "examples"
HOUR = 3_600_000
T0 = 1_767_571_200_000  # 2026-01-05T00:00Z


@pytest.fixture(scope="module")
def replay(replayed: Callable[[Path], Any]) -> Any:
    return replayed(EXAMPLES / "shop")


@pytest.fixture(scope="module")
def messages() -> pa.Table:
    tables = [pq.read_table(file) for file in sorted((EXAMPLES / "shop").glob("*.parquet"))]
    return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])


@pytest.mark.more
def test_a_plain_replay_gives_the_databases_own_content(
    replay: Any, differences: Callable[[Any, Path], list[str]]
) -> None:
    assert len(list((EXAMPLES / "shop.expected").glob("*.parquet"))) == 12
    assert differences(replay, EXAMPLES / "shop.expected") == []


@pytest.mark.more
def test_a_replay_that_lost_one_change_is_noticed(replay: Any, differences: Callable[[Any, Path], list[str]]) -> None:
    rows = replay.keyed["shopdb.orders"]
    key, row = rows.popitem()
    try:
        assert differences(replay, EXAMPLES / "shop.expected") == ["shopdb.orders"]
    finally:
        rows[key] = row


def typed(name: str, lake_type: str, texts: list[str | None]) -> pa.Array:
    """Texts of the plain replay as a typed column, the way the lake holds them."""
    arguments = decimal_arguments(lake_type)
    known: dict[str, tuple[Callable[[str], Any], pa.DataType]] = {
        "int": (int, pa.int32()),
        "bigint": (int, pa.int64()),
        "float": (float, pa.float32()),
        "double": (float, pa.float64()),
        "string": (str, pa.string()),
        "binary": (bytes.fromhex, pa.binary()),
        "date": (date.fromisoformat, pa.date32()),
        "timestamp": (lambda text: datetime.fromisoformat(f"{text}+00:00"), pa.timestamp("us", "UTC")),
        "timestamp_ntz": (datetime.fromisoformat, pa.timestamp("us")),
    }
    to_value, arrow = known.get(lake_type) or (Decimal, pa.decimal128(*(arguments or (38, 0))))
    return pa.array([None if text is None else to_value(text) for text in texts], arrow)


def snapshots(replay: Any) -> Iterator[tuple[Path, pa.Table]]:
    """Every table of the example as a snapshot of the lake would hold it, made by the plain replay."""
    for file in sorted((EXAMPLES / "shop.expected").glob("*.parquet")):
        name = file.stem
        described = json.loads(pq.read_schema(file).metadata[b"source_table"])["columns"]
        if name in replay.bags:
            rows = [dict(row) for row in replay.bags[name].elements()]
        else:
            rows = [dict(row) for row in replay.keyed[name].values()]
        columns = {
            column["name"]: typed(
                column["name"], str(mysql_type(column["type"])), [row.get(column["name"]) for row in rows]
            )
            for column in described
        }
        yield file, pa.table(columns)


def test_the_judge_finds_the_replayed_tables_equal(replay: Any) -> None:
    found = list(snapshots(replay))
    assert len(found) == 12
    for file, snapshot in found:
        verdict = compare(snapshot, file)
        assert verdict.equal, str(verdict)
        assert str(verdict.table) == file.stem
        assert verdict.rows_found == snapshot.num_rows > 0


def test_the_judge_notices_two_values_exchanged_in_any_column(replay: Any, tmp_path: Path) -> None:
    source, whole = next((file, table) for file, table in snapshots(replay) if file.stem == "shopdb.type_gallery")
    expected = pq.read_table(source).slice(0, 25)
    few = tmp_path / source.name
    pq.write_table(expected, few)
    snapshot = whole.filter(pc.is_in(whole["id"], expected["id"].cast(pa.int32())))
    assert compare(snapshot, few).equal
    for index, column in enumerate(snapshot.column_names):
        values = snapshot.column(column).to_pylist()
        other = next(place for place, value in enumerate(values) if value != values[0])
        values[0], values[other] = values[other], values[0]
        changed = snapshot.set_column(index, column, pa.array(values, snapshot.schema.field(column).type))
        assert not compare(changed, few).equal, column


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
        mine = messages.filter(pc.equal(messages["partition"], partition))
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
