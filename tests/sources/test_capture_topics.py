"""A capture of several topics: which Kafka partition a message is of, and captures that are not as described."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dts_assets.errors.sources import CaptureError
from dts_assets.model.offsets import OffsetRange
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.sources.capture_topics import recorded_topics
from tests.sources.test_capture_source import numbered, write


class TestSeveralTopics:
    """The Kafka partitions of several topics are numbered in the order in which the topics are listed."""

    TOPICS = (("shop", 2), ("ddl", 1))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write(tmp_path / "a.parquet", [numbered([0, 1]), numbered([5], 1)], topic="shop")
        write(tmp_path / "b.parquet", [numbered([7, 8, 9])], topic="ddl")
        return tmp_path

    def test_each_partition_has_the_messages_of_its_topic(self, folder: Path) -> None:
        found = CaptureSource(str(folder), 3, topics=self.TOPICS)
        assert [(mark.low, mark.high) for mark in found.watermarks().values()] == [(0, 2), (5, 6), (7, 10)]
        batches = [batch for number in range(3) for batch in found.read(number, OffsetRange(0, 100))]
        rows = [(row["topic"], row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]
        assert rows == [
            ("shop", 0, 0), ("shop", 0, 1), ("shop", 1, 5), ("ddl", 0, 7), ("ddl", 0, 8), ("ddl", 0, 9),
        ]  # fmt: skip

    def test_another_order_is_another_numbering(self, folder: Path) -> None:
        found = CaptureSource(str(folder), 3, topics=tuple(reversed(self.TOPICS)))
        assert [(mark.low, mark.high) for mark in found.watermarks().values()] == [(7, 10), (0, 2), (5, 6)]

    def test_topics_mixed_in_one_row_group_are_told_apart(self, tmp_path: Path) -> None:
        write(tmp_path / "a.parquet", [numbered([0, 1]), numbered([5], 1)], topic="shop")
        table = pq.read_table(tmp_path / "a.parquet")
        other = table.set_column(0, "topic", pa.array(["ddl"] * len(table))).filter(pc.equal(table["partition"], 0))
        pq.write_table(pa.concat_tables([table, other]), tmp_path / "a.parquet")
        found = CaptureSource(str(tmp_path), 3, topics=self.TOPICS)
        (batch,) = found.read(2, OffsetRange(0, 100))
        assert set(batch["topic"].to_pylist()) == {"ddl"}
        assert batch["offset"].to_pylist() == [0, 1]

    def test_a_topic_that_is_not_listed_is_refused_by_name(self, folder: Path) -> None:
        with pytest.raises(CaptureError, match="it holds topic ddl, and topics names shop; add it at the end"):
            CaptureSource(str(folder), 2, topics=self.TOPICS[:1]).watermarks()

    def test_a_partition_that_a_topic_is_not_said_to_have_is_refused(self, folder: Path) -> None:
        with pytest.raises(CaptureError, match="it holds Kafka partition 1 of topic shop, and topics says 1"):
            CaptureSource(str(folder), 2, topics=(("shop", 1), ("ddl", 1))).watermarks()

    def test_the_least_numbers_of_partitions_can_be_seen(self, folder: Path) -> None:
        assert recorded_topics(folder) == (("ddl", 1), ("shop", 2))
