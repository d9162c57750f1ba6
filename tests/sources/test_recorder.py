"""Recording a source: nothing twice, nothing left out, one topic a folder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.errors.sources import CaptureError
from dts_assets.model.offsets import OffsetRange
from dts_assets.sources import recorder
from dts_assets.sources.capture_source import MESSAGE_SCHEMA, CaptureSource
from dts_assets.sources.recorder import record
from tests.sources.kafka_topics import at

EVERYTHING = OffsetRange(0, 2**62)


@dataclass
class Topic:
    """A folder that stands for a topic: messages are added to it and deleted from it."""

    folder: Path
    name: str = "shop"
    partitions: int = 2

    def add(self, kafka_partition: int, *offsets: int) -> None:
        rows = [
            {"topic": self.name, "partition": kafka_partition, "offset": offset, "timestamp": at(offset), "value": b"v" * 10}
            for offset in offsets
        ]  # fmt: skip
        path = self.folder / f"{kafka_partition}-{offsets[0]}.parquet"
        self.folder.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, MESSAGE_SCHEMA), path)

    def delete(self, kafka_partition: int, first: int) -> None:
        (self.folder / f"{kafka_partition}-{first}.parquet").unlink()

    @property
    def source(self) -> CaptureSource:
        return CaptureSource(str(self.folder), self.partitions)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path / "topic")


def held(folder: Path, partitions: int = 2) -> dict[int, list[int]]:
    there = CaptureSource(str(folder), partitions)
    return {
        number: [offset for batch in there.read(number, EVERYTHING) for offset in batch["offset"].to_pylist()]
        for number in range(partitions)
    }


def test_a_recording_goes_on_where_it_ended(topic: Topic, tmp_path: Path) -> None:
    topic.add(0, 5, 6)
    first = record(topic.source, 2, tmp_path / "to")
    assert (first.messages, first.bytes, first.gone) == ({0: 2}, {0: 20}, {})
    topic.add(0, 8)
    topic.add(1, 0)
    assert record(topic.source, 2, tmp_path / "to").messages == {0: 1, 1: 1}
    assert record(topic.source, 2, tmp_path / "to").messages == {}
    assert held(tmp_path / "to") == {0: [5, 6, 8], 1: [0]}
    assert CaptureSource(str(tmp_path / "to"), 2).watermarks() == topic.source.watermarks()


@pytest.mark.parametrize(
    ("since", "kept"), [(None, [5, 6, 7]), (6, [6, 7]), (3, [5, 6, 7]), (at(6.5), [7]), (at(9), [])]
)
def test_it_begins_at_an_offset_or_a_time(topic: Topic, tmp_path: Path, since: Any, kept: list[int]) -> None:
    topic.add(0, 5, 6, 7)
    record(topic.source, 2, tmp_path / "to", since=since)
    assert held(tmp_path / "to")[0] == kept


def test_what_comes_while_it_waits_is_recorded(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = count()  # a second each, however slow the machine is
    monkeypatch.setattr(recorder, "time", SimpleNamespace(monotonic=lambda: next(rounds), sleep=lambda _: None))
    topic.add(0, 1)
    more = iter(range(2, 5))

    def add_one(_: Any) -> None:
        if (offset := next(more, None)) is not None:
            topic.add(0, offset)

    record(topic.source, 2, tmp_path / "to", seconds=9, progress=add_one)
    assert held(tmp_path / "to")[0] == [1, 2, 3, 4]


def test_messages_that_were_deleted_meanwhile_are_named(topic: Topic, tmp_path: Path) -> None:
    topic.add(0, 5)
    record(topic.source, 2, tmp_path / "to")
    topic.delete(0, 5)
    topic.add(0, 9)
    assert record(topic.source, 2, tmp_path / "to").gone == {0: OffsetRange(6, 9)}
    assert held(tmp_path / "to")[0] == [5, 9]


def test_another_topic_is_refused(topic: Topic, tmp_path: Path) -> None:
    topic.add(0, 5)
    record(topic.source, 2, tmp_path / "to")
    other = Topic(tmp_path / "other", "orders")
    other.add(0, 6)
    other.add(1, 1)
    with pytest.raises(CaptureError, match="has shop, so record orders into another folder"):
        record(other.source, 2, tmp_path / "to")
    assert held(tmp_path / "to") == {0: [5], 1: []}
    assert not list((tmp_path / "to").glob(".*"))


def test_a_topic_that_was_made_anew_is_refused(topic: Topic, tmp_path: Path) -> None:
    topic.add(0, 5)
    record(topic.source, 2, tmp_path / "to")
    topic.delete(0, 5)
    topic.add(0, 1)
    with pytest.raises(CaptureError, match="was made anew"):
        record(topic.source, 2, tmp_path / "to")


def test_a_file_that_is_broken_off_is_not_there(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.add(0, 5)
    whole = CaptureSource.read

    def broken_off(self: CaptureSource, number: int, offsets: OffsetRange) -> Any:
        yield from whole(self, number, offsets)
        if str(topic.folder) == self.path:
            raise KeyboardInterrupt

    monkeypatch.setattr(CaptureSource, "read", broken_off)
    with pytest.raises(KeyboardInterrupt):
        record(topic.source, 2, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_long_recordings_are_several_files(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_FILE_BYTES", 1)
    for offset in range(3):
        topic.add(0, offset)
    record(topic.source, 2, tmp_path / "to")
    assert len(list((tmp_path / "to").iterdir())) == 3
    assert held(tmp_path / "to")[0] == [0, 1, 2]
