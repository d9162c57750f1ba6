"""A topic that forgets: what was never stored is a gap with a name, what was stored stays. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dts_assets.defs.checks import completeness_result
from dts_assets.flows import entries, raw
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.topic import find_topic_state
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness, ProblemCode
from dts_assets.model.spans import Span
from dts_assets.planning.judgements import judge_cell
from dts_assets.planning.loss import LossState
from dts_assets.store.catalog import LakeLocation
from tests.flows.forgetful import HOUR, START, Broker, Topic, here, open_topic, window


@pytest.fixture
def topic() -> Topic:
    """One Kafka partition, four messages an hour for six hours; the next day has begun."""
    found = Topic({0: []}, START + 30 * HOUR)
    found.send(0, *(quarter / 4 for quarter in range(24)), 29.5)
    return found


@pytest.fixture
def pipeline(lake_location: LakeLocation, tmp_path: Path, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    for flow in (raw, entries):
        monkeypatch.setattr(flow, "run_tasks", here)
    return open_topic(lake_location, tmp_path, topic)


def no_spark() -> Any:
    return None


def ingest(pipeline: Pipeline, *numbers: int) -> None:
    span = Span((0,), tuple(map(window, numbers)))
    raw.materialize_raw(pipeline, span, spark=no_spark, progress=lambda _: None)
    entries.materialize_entries(pipeline, span, spark=no_spark, progress=lambda _: None)


def offsets(pipeline: Pipeline) -> list[int]:
    """The stored messages."""
    table = pipeline.lake.scan(pipeline.path("raw_envelopes"))
    return [] if table is None else sorted(table["offset"].to_pylist())


def test_what_is_there_is_whole(pipeline: Pipeline) -> None:
    ingest(pipeline, 0, 1)
    assert [(row.offsets, row.completeness) for row in pipeline.ledger.windows()] == [
        (OffsetRange(0, 4), Completeness.OBSERVED), (OffsetRange(4, 8), Completeness.OBSERVED),
    ]  # fmt: skip


def test_messages_that_went_unread_are_a_named_gap_and_the_check_fails(pipeline: Pipeline, topic: Topic) -> None:
    ingest(pipeline, 0)
    topic.low = {0: 6}
    (before,) = find_topic_state(pipeline, Broker()).partitions
    assert (before.loss.state, before.loss.lost) == (LossState.LOST, (OffsetRange(4, 6),))
    ingest(pipeline, 1)
    row = pipeline.ledger.windows()[-1]
    assert (row.offsets, row.counts.messages, row.completeness) == (OffsetRange(4, 8), 2, Completeness.INCOMPLETE)
    (gap,) = [problem for problem in row.problems if problem.code is ProblemCode.GAP]
    assert (gap.first_offset, gap.last_offset) == (4, 5)
    check = completeness_result(judge_cell(row, quarantine_rows=0))
    assert not check.passed
    assert "**gap** at offsets 4 to 5" in str(check.metadata["problem_list"].value)
    after = find_topic_state(pipeline, Broker())
    assert after.state is not LossState.LOST
    assert [(one.window, one.offsets) for one in after.gaps] == [(window(1), OffsetRange(4, 6))]


def test_windows_that_went_as_a_whole_are_no_empty_success(pipeline: Pipeline, topic: Topic) -> None:
    ingest(pipeline, 0)
    topic.low = {0: 18}
    ingest(pipeline, 1, 2, 3, 4, 5)
    found = {row.window: row.completeness for row in pipeline.ledger.windows()}
    assert [found[window(number)] for number in range(6)] == [
        Completeness.OBSERVED, *[Completeness.INCOMPLETE] * 4, Completeness.OBSERVED,
    ]  # fmt: skip
    assert [(one.window, one.offsets) for one in find_topic_state(pipeline, Broker()).gaps] == [
        (window(1), OffsetRange(4, 18))
    ]


def test_a_stored_window_whose_messages_are_gone_is_kept_when_it_is_made_again(
    pipeline: Pipeline, topic: Topic
) -> None:
    ingest(pipeline, 0, 1, 2)
    stored, messages = pipeline.ledger.windows(), offsets(pipeline)
    topic.low = {0: 6}
    report = raw.materialize_raw(
        pipeline, Span((0,), (window(0), window(1), window(2))), spark=no_spark, progress=lambda _: None
    )
    assert [cell.kept for cell in report.cells] == [True, True, False]
    ingest(pipeline, 0, 1, 2)
    assert pipeline.ledger.windows() == stored
    assert offsets(pipeline) == messages == list(range(12))


def test_everything_is_gone(pipeline: Pipeline, topic: Topic) -> None:
    ingest(pipeline, 0)
    topic.low = {0: 25}
    (one,) = find_topic_state(pipeline, Broker()).partitions
    assert (one.loss.state, one.loss.lost, one.loss.remaining) == (LossState.LOST, (OffsetRange(4, 25),), None)
    ingest(pipeline, 1)
    assert pipeline.ledger.windows()[-1].completeness is Completeness.INCOMPLETE
