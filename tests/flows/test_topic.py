"""What is left in the topic: lag, the clock of loss, gaps. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.errors.sources import RecreatedTopicError
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.topic import TopicState, find_topic_state
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.retention import BrokerRetention
from dts_assets.planning.loss import LossState
from dts_assets.settings.sources import Capture, Source
from dts_assets.store.catalog import LakeLocation
from tests.flows.forgetful import HOUR, START, Broker, Topic, open_topic, store_raw, window

GAP = Problem(ProblemCode.GAP, 2, 4, "gone")


@pytest.fixture
def topic() -> Topic:
    """Two Kafka partitions, eight messages each, one every half hour; it is five o'clock."""
    found = Topic({0: [], 1: []}, START + 5 * HOUR)
    for number in (0, 1):
        found.send(number, *(half / 2 for half in range(8)))
    return found


@pytest.fixture
def pipeline(lake_location: LakeLocation, tmp_path: Path, topic: Topic) -> Pipeline:
    return open_topic(lake_location, tmp_path, topic)


def states(state: TopicState) -> list[LossState]:
    return [one.loss.state for one in state.partitions]


def test_before_anything_is_stored_everything_is_unread(pipeline: Pipeline) -> None:
    state = find_topic_state(pipeline, Broker({0: None, 1: 3}))
    assert [(one.stored_end, one.lag_messages, one.committed) for one in state.partitions] == [
        (None, 8, None), (None, 8, 3),
    ]  # fmt: skip
    assert state.lag_seconds == 5 * 3600
    assert state.remaining == 19 * HOUR
    assert states(state) == [LossState.SAFE, LossState.SAFE]


def test_what_was_stored_is_not_unread_any_more(pipeline: Pipeline, topic: Topic) -> None:
    for number in range(3):
        store_raw(pipeline, 0, number, 2 * number, 2 * number + 2)
        store_raw(pipeline, 1, number, 2 * number, 2 * number + 2)
    store_raw(pipeline, 1, 3, 6, 8)
    behind, level = find_topic_state(pipeline, Broker()).partitions
    assert (behind.stored_end, behind.lag_messages, behind.unread.offsets) == (6, 2, (OffsetRange(6, 8),))
    assert behind.unread.first_time == START + 3 * HOUR
    assert behind.behind_seconds == 3600
    assert behind.stored_until == START + 2.5 * HOUR
    assert (level.lag_messages, level.loss.state, level.behind_seconds) == (0, LossState.NOTHING_UNREAD, 0)
    assert topic.reads == [(0, OffsetRange(6, 7))], "one message is read, and only where something is unread"


def test_a_window_that_was_left_out_counts_from_there(pipeline: Pipeline) -> None:
    store_raw(pipeline, 0, 0, 0, 2)
    store_raw(pipeline, 0, 2, 4, 6)
    one = find_topic_state(pipeline, Broker()).partitions[0]
    assert one.unread.offsets == (OffsetRange(2, 4), OffsetRange(6, 8))
    assert one.unread.first_time == START + HOUR


def test_messages_before_the_first_window_were_never_wanted(
    lake_location: LakeLocation, tmp_path: Path, topic: Topic
) -> None:
    pipeline = open_topic(lake_location, tmp_path, topic, window={"start": START + 2 * HOUR})
    assert [one.unread.offsets for one in find_topic_state(pipeline, Broker()).partitions] == [(OffsetRange(4, 8),)] * 2


def test_rows_of_another_epoch_say_nothing(pipeline: Pipeline) -> None:
    store_raw(pipeline, 0, 0, 0, 8, epoch=3)
    assert find_topic_state(pipeline, Broker()).partitions[0].lag_messages == 8


def test_it_warns_when_half_of_the_retention_is_over(pipeline: Pipeline, topic: Topic) -> None:
    store_raw(pipeline, 0, 0, 0, 8)
    topic.clock = START + 12 * HOUR
    assert states(find_topic_state(pipeline, Broker())) == [LossState.NOTHING_UNREAD, LossState.SAFE]
    topic.clock = START + 12.1 * HOUR
    state = find_topic_state(pipeline, Broker())
    assert states(state) == [LossState.NOTHING_UNREAD, LossState.WARNING]
    assert state.remaining is not None
    assert state.remaining / HOUR == pytest.approx(11.9)


def test_what_the_broker_says_counts_if_it_is_less(pipeline: Pipeline) -> None:
    assert find_topic_state(pipeline, Broker(keeps=BrokerRetention(6 * HOUR, None))).remaining == HOUR
    assert find_topic_state(pipeline, Broker(keeps=BrokerRetention(90 * HOUR, None))).remaining == 19 * HOUR


def test_a_broker_that_does_not_let_us_ask_is_no_failure(pipeline: Pipeline) -> None:
    state = find_topic_state(pipeline, Broker({0: 1}, denies=("retention", "committed")))
    assert [one.committed for one in state.partitions] == [None, None]
    assert state.remaining == 19 * HOUR
    assert [text.split(":")[0] for text in state.unknown] == [
        "how long the broker keeps messages", "where the consumer group stands",
    ]  # fmt: skip


def test_messages_that_went_unread_are_lost(pipeline: Pipeline, topic: Topic) -> None:
    store_raw(pipeline, 0, 0, 0, 2)
    topic.low = {0: 5}
    lost, safe = find_topic_state(pipeline, Broker()).partitions
    assert (lost.loss.state, lost.loss.lost, lost.lag_messages) == (LossState.LOST, (OffsetRange(2, 5),), 3)
    assert lost.unread.first_time == START + 2.5 * HOUR
    assert safe.loss.state is LossState.SAFE


def test_what_went_before_anything_was_stored_is_no_loss(pipeline: Pipeline, topic: Topic) -> None:
    topic.low = {0: 5}
    assert find_topic_state(pipeline, Broker()).partitions[0].loss.state is LossState.SAFE


def test_a_gap_that_was_named_is_told_for_a_day(pipeline: Pipeline, topic: Topic) -> None:
    store_raw(pipeline, 0, 0, 0, 2)
    topic.send(0, 40)
    topic.low, topic.clock = {0: 8}, START + 64 * HOUR
    store_raw(pipeline, 0, 1, 2, 8, problems=(GAP,), messages=0, first_time=None, last_time=None)
    for end in (8, 9):  # before and after the first message behind it is stored
        store_raw(pipeline, 0, 40, 8, end, **({"first_time": None, "last_time": None} if end == 8 else {}))
        state = find_topic_state(pipeline, Broker())
        assert [(gap.kafka_partition, gap.window, gap.offsets) for gap in state.gaps] == [
            (0, window(1), OffsetRange(2, 5))
        ]
        assert state.partitions[0].loss.lost == ()
    topic.clock = START + 88 * HOUR
    assert find_topic_state(pipeline, Broker()).gaps
    topic.clock = START + 88.1 * HOUR
    assert find_topic_state(pipeline, Broker()).gaps == ()


def test_a_topic_that_was_made_anew_is_an_error(pipeline: Pipeline, topic: Topic) -> None:
    store_raw(pipeline, 0, 0, 0, 8)
    topic.times[0] = topic.times[0][:3]
    with pytest.raises(RecreatedTopicError):
        find_topic_state(pipeline, Broker())


def test_deletion_by_size_is_seen_over_two_looks(pipeline: Pipeline, topic: Topic) -> None:
    before = find_topic_state(pipeline, Broker(keeps=BrokerRetention(None, 1000)))
    topic.low = {0: 4}
    after = find_topic_state(pipeline, Broker(keeps=BrokerRetention(None, 1000)), oldest=before.oldest)
    assert [one.loss.by_size for one in after.partitions] == [True, False]
    assert after.partitions[0].loss.lifetime == 3 * HOUR
    assert states(after) == [LossState.WARNING, LossState.SAFE], "the first unread message is the next to go"
    store_raw(pipeline, 0, 0, 4, 7)
    calm = find_topic_state(pipeline, Broker(keeps=BrokerRetention(None, 1000)), oldest=after.oldest)
    assert calm.partitions[0].loss.remaining == 1.5 * HOUR
    assert calm.partitions[0].loss.state is LossState.SAFE


def test_a_recording_forgets_nothing(pipeline: Pipeline, topic: Topic) -> None:
    recorded = pipeline.settings.model_copy(update={"source": Source(capture=Capture(path=Path("capture")))})
    topic.clock = START + 900 * HOUR
    state = find_topic_state(Pipeline(recorded, topic, pipeline.lake))
    assert (state.remaining, state.state) == (None, LossState.SAFE)


def test_messages_deleted_while_they_are_looked_at_are_no_crash(
    pipeline: Pipeline, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_raw(pipeline, 0, 0, 0, 2)
    marks = topic.watermarks()
    topic.low = {0: 5}
    monkeypatch.setattr(topic, "watermarks", lambda: marks)
    one = find_topic_state(pipeline, Broker()).partitions[0]
    assert (one.unread.first_time, one.loss.remaining) == (None, 19 * HOUR)
