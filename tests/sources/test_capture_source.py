"""A capture: however messages were split into files, row groups and orders, the same messages come out."""

from __future__ import annotations

import os
import pickle
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.errors.sources import CaptureError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.capture_source import MESSAGE_SCHEMA, CaptureSource
from dts_assets.sources.source import Source
from tests.tiers import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
FAR = START + timedelta(days=999)
EVERYTHING = OffsetRange(0, 2**62)


@dataclass(frozen=True)
class Message:
    kafka_partition: int
    offset: int
    time: datetime = START
    value: bytes | None = b"value"
    key: bytes | None = b"key"
    headers: tuple[tuple[str, bytes], ...] | None = ()

    def row(self, topic: str = "shop") -> dict[str, Any]:
        headers = None if self.headers is None else [{"key": name, "value": value} for name, value in self.headers]
        return {
            "topic": topic, "partition": self.kafka_partition, "offset": self.offset, "timestamp": self.time,
            "key": self.key, "value": self.value, "headers": headers,
        }  # fmt: skip


def write(path: Path, groups: Iterable[Sequence[Message]], topic: str = "shop") -> None:
    """One file with these row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, MESSAGE_SCHEMA) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist([message.row(topic) for message in group], MESSAGE_SCHEMA))


def read(source: CaptureSource, kafka_partition: int, offsets: OffsetRange = EVERYTHING) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in source.read(kafka_partition, offsets):
        assert batch.schema == MESSAGE_SCHEMA
        assert batch.num_rows
        rows += batch.to_pylist()
    return rows


def offsets_of(source: CaptureSource, kafka_partition: int, offsets: OffsetRange = EVERYTHING) -> list[int]:
    return [row["offset"] for row in read(source, kafka_partition, offsets)]


def numbered(offsets: Iterable[int], kafka_partition: int = 0, **facts: Any) -> list[Message]:
    return [Message(kafka_partition, offset, **facts) for offset in offsets]


# Any split


def topic_of(sent: Iterable[tuple[int, int, int, bytes | None]]) -> list[Message]:
    """Messages from (Kafka partition, hole before it, minute, value); offsets go up in each partition."""
    following: dict[int, int] = {}
    messages = []
    for kafka_partition, hole, minute, value in sent:
        offset = following.get(kafka_partition, 3 * kafka_partition) + hole
        following[kafka_partition] = offset + 1
        headers = None if hole else (("ShardId", b"s"), ("ps", str(offset).encode()))
        messages.append(
            Message(kafka_partition, offset, START + minute * MINUTE, value, None if hole else b"k", headers)
        )
    return messages


topics = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 2]),
        st.sampled_from([0, 0, 0, 5]),
        st.integers(-60, 60),
        st.none() | st.binary(max_size=3),
    ),
    max_size=16,
).map(topic_of)


@examples(60)
@given(topics, st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 4), st.integers(0, 16), st.integers(0, 16))
def test_any_split_into_files_groups_and_orders_gives_the_same_messages(
    messages: list[Message], seed: int, files: int, groups: int, first: int, length: int
) -> None:
    chance = random.Random(seed)
    copies = [*messages, *chance.sample(messages, len(messages) // 3)]  # some are recorded twice
    if chance.random() < 0.7:
        chance.shuffle(copies)
    split: dict[tuple[int, int], list[Message]] = {}
    for message in copies:
        split.setdefault((chance.randrange(files), chance.randrange(groups)), []).append(message)
    with tempfile.TemporaryDirectory() as folder:
        for file in range(files):
            mine = [split[place] for place in sorted(split, key=lambda _: chance.random()) if place[0] == file]
            write(Path(folder) / chance.choice(["", "deeper"]) / f"part-{file}.parquet", mine)
        source = CaptureSource(folder, 3)
        for kafka_partition in range(3):
            expected = [message for message in messages if message.kafka_partition == kafka_partition]
            assert_holds(source, kafka_partition, expected, OffsetRange(first, first + length))
        assert source.now() == max((message.time for message in messages), default=None)


def assert_holds(source: Source, kafka_partition: int, expected: list[Message], part: OffsetRange) -> None:
    """Everything that a source says of one Kafka partition agrees with the list of its messages."""
    mark = source.watermarks()[kafka_partition]
    if expected:
        latest = max(message.time for message in expected)
        assert mark == Watermark(expected[0].offset, expected[-1].offset + 1, expected[0].time, latest)
    else:
        assert mark == Watermark(0, 0, None, None)
    for offsets in (EVERYTHING, part):
        inside = [message.row() for message in expected if offsets.start <= message.offset < offsets.end]
        found = [row for batch in source.read(kafka_partition, offsets) for row in batch.to_pylist()]
        assert found == inside
    for instant in {message.time for message in expected} | {START, START + MINUTE}:
        limit = instant + 20 * MINUTE
        dated = [message.offset for message in expected if instant <= message.time <= limit]
        assert source.offset_for_time(kafka_partition, instant, not_after=limit) == next(iter(dated), None)
        later = [m.offset for m in expected if part.start <= m.offset < part.end and m.time > instant]
        assert list(source.dated_after(kafka_partition, part, instant)) == later


def test_row_groups_whose_offsets_interleave_come_out_in_order(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [numbered([4, 0, 2]), numbered([20, 21])])
    write(tmp_path / "b.parquet", [numbered([1, 3, 5, 30]), numbered([10, 11]), numbered([2, 40])])
    source = CaptureSource(str(tmp_path), 1)
    assert offsets_of(source, 0) == [0, 1, 2, 3, 4, 5, 10, 11, 20, 21, 30, 40]
    assert offsets_of(source, 0, OffsetRange(3, 21)) == [3, 4, 5, 10, 11, 20]
    assert offsets_of(source, 0, OffsetRange(6, 10)) == []
    assert offsets_of(source, 0, OffsetRange(9, 3)) == []


def test_a_message_recorded_twice_is_given_once(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [numbered([0, 1, 1, 2])])
    write(tmp_path / "b.parquet", [numbered([2, 3]), numbered([0, 3])])
    source = CaptureSource(str(tmp_path), 1)
    assert offsets_of(source, 0) == [0, 1, 2, 3]
    assert source.watermarks()[0].high == 4


def test_columns_in_another_order_narrower_or_finer_and_columns_of_others_are_legal(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([Message(1, 7, START + SECOND).row()], MESSAGE_SCHEMA)
    odd = pa.table(
        {
            "note": pa.array(["ours"]),
            "offset": table["offset"].cast(pa.int32()),
            "partition": table["partition"].cast(pa.int64()),
            "timestamp": table["timestamp"].cast(pa.timestamp("us", tz="UTC")),
            "value": table["value"].cast(pa.large_binary()),
        }
        | {name: table[name] for name in ("headers", "key", "topic")}
    )
    pq.write_table(odd, tmp_path / "odd.parquet")
    source = CaptureSource(str(tmp_path), 2)
    assert read(source, 1) == [Message(1, 7, START + SECOND).row()]
    assert source.offset_for_time(1, START, not_after=FAR) == 7


# Times


def test_an_instant_between_two_milliseconds_is_before_the_later_one_only(tmp_path: Path) -> None:
    millisecond, microsecond = timedelta(milliseconds=1), timedelta(microseconds=1)
    write(tmp_path / "a.parquet", [[Message(0, 0, START), Message(0, 1, START + millisecond)]])
    source = CaptureSource(str(tmp_path), 1)
    found = [source.offset_for_time(0, START + microsecond * late, not_after=FAR) for late in (0, 1, 999, 1000, 1001)]
    assert found == [0, 1, 1, 1, None]
    assert source.offset_for_time(0, START, not_after=START - microsecond) is None
    assert source.dated_after(0, EVERYTHING, START + microsecond) == (1,)


def test_messages_dated_too_far_ahead_are_passed_over(tmp_path: Path) -> None:
    times = [START, START + 90 * MINUTE, START + 10 * MINUTE, START + 30 * MINUTE]
    write(tmp_path / "a.parquet", [[Message(0, number, time) for number, time in enumerate(times)]])
    source = CaptureSource(str(tmp_path), 1)
    limit = START + 35 * MINUTE
    assert source.offset_for_time(0, START + MINUTE, not_after=limit) == 2
    assert source.offset_for_time(0, START + 31 * MINUTE, not_after=limit) is None
    assert source.dated_after(0, EVERYTHING, limit) == (1,)
    assert source.dated_after(0, OffsetRange(2, 4), limit) == ()


_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_that_are_no_dates_count_as_the_first_and_the_last_date(tmp_path: Path, unit: str) -> None:
    stamps = pa.array([(1 << 63) - 1, -(1 << 63) + 1, 0]).cast(pa.timestamp(unit, tz="UTC"))
    a_file(tmp_path / "a.parquet", columns={"timestamp": stamps, "offset": pa.array([0, 1, 2])}, rows=3)
    source = CaptureSource(str(tmp_path), 1)
    times = [row["timestamp"] for row in read(source, 0)]
    if unit != "ns":  # which has years 1677 to 2262 alone
        assert times[:2] == [_LAST, datetime(1, 1, 1, tzinfo=UTC)]
        assert source.watermarks() == {0: Watermark(0, 3, _LAST, _LAST)}
    assert times[2] == datetime(1970, 1, 1, tzinfo=UTC)
    assert source.now() == times[2]
    assert source.offset_for_time(0, times[2], not_after=times[2]) == 2
    assert 0 in source.dated_after(0, EVERYTHING, START)


def test_times_finer_than_milliseconds_are_rounded_down(tmp_path: Path) -> None:
    microseconds = round(START.timestamp()) * 1_000_000
    stamps = pa.array([microseconds + 1_999, -1]).cast(pa.timestamp("us", tz="UTC"))
    a_file(tmp_path / "a.parquet", columns={"timestamp": stamps, "offset": pa.array([0, 1])}, rows=2)
    found = [row["timestamp"] for row in read(CaptureSource(str(tmp_path), 1), 0)]
    assert found == [START + timedelta(milliseconds=1), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)]


def test_a_message_of_the_future_is_not_now(tmp_path: Path) -> None:
    """Windows up to its time, one by one, would never end."""
    future = datetime.now(UTC).replace(microsecond=0) + timedelta(days=999)
    write(tmp_path / "a.parquet", [[Message(0, 0, future), Message(0, 1, START), Message(1, 0, START + MINUTE)]])
    source = CaptureSource(str(tmp_path), 2)
    assert source.now() == START + MINUTE
    assert source.watermarks()[0].latest == future
    assert source.dated_after(0, EVERYTHING, START + MINUTE) == (0,)


@pytest.mark.parametrize(
    ("times", "now"),
    [((999, 998), 999), ((10**6 * 2, 998), 998), ((10**6 * 2,), None)],
    ids=["a clock that is wrong here", "no clock is so wrong", "nothing can be believed"],
)
def test_a_recording_of_the_future_alone(tmp_path: Path, times: Sequence[int], now: int | None) -> None:
    begin = datetime.now(UTC).replace(microsecond=0)
    messages = [Message(0, number, begin + timedelta(days=days)) for number, days in enumerate(times)]
    write(tmp_path / "a.parquet", [messages])
    assert CaptureSource(str(tmp_path), 1).now() == (None if now is None else begin + timedelta(days=now))


# Folders


@pytest.mark.parametrize("exists", [True, False], ids=["empty", "not there yet"])
def test_a_folder_without_files_holds_nothing(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "later"
    source = CaptureSource(str(folder), 2)
    assert source.watermarks() == dict.fromkeys(range(2), Watermark(0, 0, None, None))
    assert source.now() is None
    assert source.offset_for_time(0, START, not_after=FAR) is None
    assert source.dated_after(0, EVERYTHING, START) == ()
    assert read(source, 0) == []


def test_a_file_without_rows_holds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [[]])
    write(tmp_path / "b.parquet", [])
    source = CaptureSource(str(tmp_path), 1)
    assert (source.now(), source.watermarks()[0].high, read(source, 0)) == (None, 0, [])


def test_a_growing_folder_is_seen_without_starting_again(tmp_path: Path) -> None:
    folder = tmp_path / "growing"
    source = CaptureSource(str(folder), 2)
    assert source.now() is None
    write(folder / "a.parquet", [numbered([0, 1])])
    assert source.watermarks()[0].high == 2
    write(folder / "b.parquet", [numbered([2], time=START + MINUTE), numbered([0], 1)])
    assert [mark.high for mark in source.watermarks().values()] == [3, 1]
    assert source.now() == START + MINUTE
    assert offsets_of(source, 0, OffsetRange(1, 9)) == [1, 2]
    write(folder / "a.parquet", [numbered([0, 1]), numbered([3, 4])])
    assert offsets_of(source, 0) == [0, 1, 2, 3, 4]


def test_a_file_that_is_replaced_by_one_of_the_same_size_is_read_again(tmp_path: Path) -> None:
    path, source = tmp_path / "a.parquet", CaptureSource(str(tmp_path), 1)
    write(path, [numbered([1])])
    assert offsets_of(source, 0) == [1]
    before = path.stat()
    write(path, [numbered([2])])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert offsets_of(source, 0) == [2]


def test_a_source_goes_to_other_processes(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [numbered([0, 1])])
    source = CaptureSource(str(tmp_path), 1)
    assert offsets_of(pickle.loads(pickle.dumps(source)), 0) == offsets_of(source, 0) == [0, 1]


# Bytes

MEGABYTE = 1 << 20


def test_batches_are_bounded_by_bytes_wherever_the_large_messages_are(tmp_path: Path) -> None:
    sizes = [10] * 3000 + [3 * MEGABYTE] * 6 + [10] * 3000 + [20 * MEGABYTE] + [10]
    messages = [Message(0, number, value=bytes(size)) for number, size in enumerate(sizes)]
    write(tmp_path / "a.parquet", [messages])
    batches = list(CaptureSource(str(tmp_path), 1).read(0, EVERYTHING))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(len(sizes)))
    assert max(batch.num_rows for batch in batches) > 2000, "small messages are not cut needlessly"
    for batch in batches:
        assert batch.num_rows == 1 or batch.nbytes < 9 * MEGABYTE


# What is no capture


def a_file(
    path: Path, without: Sequence[str] = (), columns: Mapping[str, pa.Array] | None = None, rows: int = 1
) -> None:
    table = pa.Table.from_pylist([Message(0, 0).row()] * rows, MESSAGE_SCHEMA)
    for name, values in (columns or {}).items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    pq.write_table(table.drop_columns(list(without)), path)


@pytest.mark.parametrize("name", MESSAGE_SCHEMA.names)
def test_a_missing_column_is_named_with_its_file(tmp_path: Path, name: str) -> None:
    a_file(tmp_path / "good.parquet")
    a_file(tmp_path / "poor.parquet", without=[name])
    with pytest.raises(CaptureError, match=rf"poor\.parquet has no column {name};") as raised:
        CaptureSource(str(tmp_path), 1).watermarks()
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "clause"),
    [
        ({"offset": pa.array(["0"])}, r"column offset of part\.parquet is string"),
        ({"timestamp": pa.array([0])}, r"column timestamp of part\.parquet is int64"),
        ({"offset": pa.array([None], pa.int64())}, r"part\.parquet has rows without offset"),
        ({"timestamp": pa.array([None], pa.timestamp("ms", tz="UTC"))}, r"part\.parquet has rows without timestamp"),
        ({"partition": pa.array([4], pa.int32())}, r"holds Kafka partition 4, the subscription says partitions: 4"),
        ({"offset": pa.array([-1])}, r"part\.parquet has a message with offset -1, which no broker gives"),
        ({"offset": pa.array([(1 << 63) - 1])}, r"part\.parquet has a message with offset 9223372036854775807"),
        ({"offset": pa.array([1 << 63], pa.uint64())}, r"part\.parquet has a message with offset 9223372036854775808"),
        ({"partition": pa.array([1 << 63], pa.uint64())}, r"holds Kafka partition 9223372036854775808"),
    ],
    ids=[
        "offset is text",
        "timestamp is a number",
        "no offset",
        "no timestamp",
        "partition beyond partitions",
        "offset below zero",
        "no offset behind it",
        "offset beyond 63 bits",
        "partition beyond 63 bits",
    ],
)
def test_columns_that_cannot_be_used(tmp_path: Path, columns: Mapping[str, pa.Array], clause: str) -> None:
    a_file(tmp_path / "part.parquet", columns=columns)
    with pytest.raises(CaptureError, match=clause):
        CaptureSource(str(tmp_path), 4).watermarks()


def test_a_file_may_have_braces_in_its_name(tmp_path: Path) -> None:
    a_file(tmp_path / "{part}.parquet", columns={"offset": pa.array([-1])})
    with pytest.raises(CaptureError, match=r"\{part\}\.parquet has a message with offset -1"):
        CaptureSource(str(tmp_path), 1).watermarks()


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_bytes(b"secret text")
    with pytest.raises(CaptureError, match=r"odd\.parquet is not a readable Parquet file") as raised:
        CaptureSource(str(tmp_path), 1).now()
    assert "secret text" not in str(raised.value)


def test_two_topics_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [numbered([0])], topic="shop")
    write(tmp_path / "b.parquet", [numbered([1])], topic="bank")
    with pytest.raises(CaptureError, match=r"2 topics \(bank, shop\)"):
        CaptureSource(str(tmp_path), 1).watermarks()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [numbered([0])])
    with pytest.raises(CaptureError, match="it is a file; name the folder"):
        CaptureSource(str(tmp_path / "a.parquet"), 1).watermarks()


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("made by hand")
    write(tmp_path / "a.parquet", [numbered([0])])
    assert offsets_of(CaptureSource(str(tmp_path), 1), 0) == [0]


def test_a_capture_that_was_refused_is_looked_at_again(tmp_path: Path) -> None:
    source = CaptureSource(str(tmp_path), 1)
    write(tmp_path / "a.parquet", [[replace(Message(0, 0), kafka_partition=1)]])
    with pytest.raises(CaptureError, match="partitions: 1"):
        source.watermarks()
    write(tmp_path / "a.parquet", [numbered([0, 1, 2])])
    assert source.watermarks()[0].high == 3
