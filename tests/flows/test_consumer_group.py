"""The consumer group follows what is stored and decoded, up to a CHECKPOINT. Without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from dts_assets.errors.sources import BrokerDeniedError
from dts_assets.flows.consumer_group import commit_group
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.runs import SeenCheckpoint
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.ledger import Ledger
from tests.flows.forgetful import HOUR, START, Broker, Topic, open_topic, store_raw, window


@pytest.fixture
def topic() -> Topic:
    """Two Kafka partitions with ten messages an hour, for three hours."""
    found = Topic({0: [], 1: []}, START + 3 * HOUR)
    for number in (0, 1):
        found.send(number, *(tenth / 10 for tenth in range(30)))
    return found


@pytest.fixture
def pipeline(lake_location: LakeLocation, tmp_path: Path, topic: Topic) -> Pipeline:
    return open_topic(lake_location, tmp_path, topic)


def decoded(
    pipeline: Pipeline, kafka_partition: int, number: int, *checkpoints: int, end: int | None = None, epoch: int = 0
) -> None:
    """The marks of a window of ten messages, with CHECKPOINTs at some offsets."""
    offsets = OffsetRange(10 * number, 10 * number + 10 if end is None else end)
    store_raw(pipeline, kafka_partition, number, offsets.start, offsets.end, epoch=epoch)
    marks = tuple(SeenCheckpoint("s", offset, SourcePosition(0, 1, offset), None, False) for offset in checkpoints)
    row = IngestWindow(
        kafka_partition, window(number), epoch, offsets, Counts(), None, None, (), ClosedBy.MESSAGE, Completeness.OBSERVED, (),
        "1", "g", (), checkpoints=marks,
    )  # fmt: skip
    pipeline.ledger.replace_windows([Cell(kafka_partition, window(number))], [row])


def test_it_moves_behind_the_last_checkpoint_of_each_kafka_partition(pipeline: Pipeline) -> None:
    broker = Broker({0: None, 1: 2})
    decoded(pipeline, 0, 0, 3, 8)
    decoded(pipeline, 0, 1)
    decoded(pipeline, 1, 0, 5)
    done = commit_group(pipeline, broker)
    assert (done.before, done.after) == ({0: None, 1: 2}, {0: 9, 1: 6})
    assert broker.commits == [{0: 9, 1: 6}]


def test_it_moves_on_with_the_next_window_and_never_back(pipeline: Pipeline) -> None:
    broker = Broker({0: None, 1: None})
    decoded(pipeline, 0, 0, 3)
    commit_group(pipeline, broker)
    decoded(pipeline, 0, 1, 14, 17)
    commit_group(pipeline, broker)
    decoded(pipeline, 0, 1, 14)  # made again, and less of it is known
    commit_group(pipeline, broker)
    assert broker.commits == [{0: 4}, {0: 18}]


def test_nothing_to_commit_asks_the_broker_for_nothing(pipeline: Pipeline) -> None:
    broker = Broker({0: None, 1: None}, denies=("commit",))
    assert commit_group(pipeline, broker).after == {}
    decoded(pipeline, 0, 0)
    assert commit_group(pipeline, broker).after == {}


def test_a_window_that_is_not_there_yet_stops_it(pipeline: Pipeline) -> None:
    broker = Broker({0: None, 1: 12})
    for number in (0, 1):
        decoded(pipeline, number, 2, 25)
    assert commit_group(pipeline, broker).after == {}, "the first windows are missing"
    decoded(pipeline, 0, 0, 5)
    decoded(pipeline, 1, 1, 15)
    assert commit_group(pipeline, broker).after == {0: 6}, "of the second Kafka partition the first is still missing"
    decoded(pipeline, 0, 1, 11)
    decoded(pipeline, 1, 0)
    assert commit_group(pipeline, broker).after == {0: 26, 1: 26}


def test_where_the_group_stands_far_ahead_it_stays(pipeline: Pipeline) -> None:
    decoded(pipeline, 0, 0, 5)
    assert commit_group(pipeline, Broker({0: 29, 1: 0})).after == {}


def test_a_group_that_stands_before_the_first_window_is_moved_too(
    lake_location: LakeLocation, tmp_path: Path, topic: Topic
) -> None:
    pipeline = open_topic(lake_location, tmp_path, topic, window={"start": START + HOUR})
    decoded(pipeline, 0, 1, 13)
    assert commit_group(pipeline, Broker({0: 0, 1: 0})).after == {0: 14}


def test_without_checkpoints_the_end_of_what_is_stored_counts(
    lake_location: LakeLocation, tmp_path: Path, topic: Topic
) -> None:
    pipeline = open_topic(lake_location, tmp_path, topic, format="drs-json-c")
    decoded(pipeline, 0, 0)
    decoded(pipeline, 0, 1, end=17)
    assert commit_group(pipeline, Broker({0: None, 1: None})).after == {0: 17}


def test_windows_of_another_epoch_do_not_count(pipeline: Pipeline) -> None:
    decoded(pipeline, 0, 0, 5, epoch=2)
    assert commit_group(pipeline, Broker({0: 0, 1: 0})).after == {}


def test_it_does_not_move_beyond_the_end_of_a_topic_that_was_made_anew(pipeline: Pipeline, topic: Topic) -> None:
    decoded(pipeline, 0, 0, 8)
    topic.times[0] = topic.times[0][:5]
    assert commit_group(pipeline, Broker({0: None, 1: None})).after == {}


def test_only_the_days_that_the_topic_holds_are_read(
    pipeline: Pipeline, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        decoded(pipeline, number, 0, 5)
        decoded(pipeline, number, 1, 15)
        decoded(pipeline, number, 2, 25)
    topic.low = {0: 12, 1: 12}
    read: list[bool] = []
    whole = Ledger.windows

    def noted(ledger: Ledger, windows: Iterable[Window] | None = None) -> list[IngestWindow]:
        read.append(windows is None)
        return whole(ledger, windows)

    monkeypatch.setattr(Ledger, "windows", noted)
    broker = Broker({0: 12, 1: 16})
    assert commit_group(pipeline, broker).after == {0: 26, 1: 26}
    assert read == [False]
    assert commit_group(pipeline, Broker({0: 12, 1: None})).after == {0: 26, 1: 26}
    assert read == [False, False, True]


def test_a_broker_that_refuses_is_an_error(pipeline: Pipeline) -> None:
    decoded(pipeline, 0, 0, 5)
    with pytest.raises(BrokerDeniedError):
        commit_group(pipeline, Broker({0: None, 1: None}, denies=("commit",)))
