"""Messages whose times are no dates, or of the future: they are stored and named, and stop nothing. Without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.flows import entries, raw
from dts_assets.flows.find_work import find_work
from dts_assets.flows.first_times import first_times
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.topic import find_topic_state
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Span
from dts_assets.planning.rectangles import rectangles
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.capture_source import MESSAGE_SCHEMA, CaptureSource
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
from tests.flows.forgetful import HOUR, START, Topic, here, open_topic

LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SKEW = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for flow in (raw, entries):
        monkeypatch.setattr(flow, "run_tasks", here)


def ingest(pipeline: Pipeline, span: Span) -> None:
    def no_spark() -> Any:
        return None

    raw.materialize_raw(pipeline, span, spark=no_spark, progress=lambda _: None)
    entries.materialize_entries(pipeline, span, spark=no_spark, progress=lambda _: None)


def ingest_all(pipeline: Pipeline) -> list[tuple[OffsetRange, list[int | None]]]:
    """Ingest what is asked for; the stored windows, with the offsets of messages dated beyond now."""
    for span in rectangles(find_work(pipeline).ingest):
        ingest(pipeline, span)
    assert not find_work(pipeline).ingest
    return [
        (row.offsets, [one.first_offset for one in row.problems if one.code is ProblemCode.CLOCK])
        for row in sorted(pipeline.ledger.raw_windows(), key=lambda row: row.window)
    ]


@pytest.mark.parametrize("first", [LAST, START + timedelta(days=999)], ids=["beyond all dates", "the future"])
def test_a_first_message_of_the_future_does_not_begin_the_windows(
    lake_location: LakeLocation, tmp_path: Path, first: datetime
) -> None:
    topic = Topic({0: [first, START + 1.5 * HOUR, first, START + 2.5 * HOUR, START + 3.5 * HOUR]}, START + 4 * HOUR)
    pipeline = open_topic(lake_location, tmp_path, topic)
    assert pipeline.first_window() == START + HOUR
    assert find_topic_state(pipeline).partitions[0].unread.count > 0
    assert ingest_all(pipeline) == [(OffsetRange(1, 3), [2]), (OffsetRange(3, 4), [])]
    assert pipeline.first_window() == START + HOUR


def test_first_messages_count_where_they_are_believed() -> None:
    now, later = START + HOUR, START + 2 * HOUR
    topic = Topic({0: [later, START, now], 1: [now], 2: [later], 3: [], 4: [later, START - HOUR]}, now)
    found = first_times(topic, topic.watermarks(), since=START, skew=SKEW)
    assert found == {0: START, 1: now}
    topic.clock = later
    assert first_times(topic, topic.watermarks(), since=START, skew=SKEW) == {0: later, 1: now, 2: later, 4: later}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("stamp", [1 << 62, 253_402_300_799_999, 157_000_000_000_000], ids=["no date", "9999", "6945"])
def test_one_message_of_a_recording_does_not_make_windows_of_millennia(
    lake_location: LakeLocation, tmp_path: Path, complete: bool, stamp: int
) -> None:
    hour, begin = 3_600_000, round(START.timestamp()) * 1_000
    stamps = [stamp, begin + 1, stamp, begin + hour + 1, begin + 2 * hour + 1, -(1 << 62)]
    columns: dict[str, Any] = {
        "topic": ["shop"] * len(stamps), "partition": [0] * len(stamps), "offset": range(len(stamps)),
        "timestamp": pa.array(stamps).cast(pa.timestamp("ms", tz="UTC")), "key": [None] * len(stamps),
        "value": [None] * len(stamps), "headers": [[]] * len(stamps),
    }  # fmt: skip
    (tmp_path / "capture").mkdir()
    pq.write_table(pa.table(columns, MESSAGE_SCHEMA), tmp_path / "capture" / "a.parquet")
    values: dict[str, Any] = {
        "format": "dts-protobuf", "source": {"capture": {"path": "capture", "complete": complete}}, "partitions": 1,
        "window": {"every": HOUR, "start": START}, NAME_KEY: "shop", FOLDER_KEY: tmp_path,
    }  # fmt: skip
    source = CaptureSource(str(tmp_path / "capture"), 1)
    pipeline = Pipeline(Subscription.model_validate(values), source, Lake(lake_location))
    windows = [(OffsetRange(1, 3), [2]), (OffsetRange(3, 4), []), (OffsetRange(4, 6), [])]
    assert ingest_all(pipeline) == windows[: 3 if complete else 2]
    stored = pipeline.lake.scan(pipeline.path("raw_envelopes"))
    assert stored is not None
    times = dict(zip(stored["offset"].to_pylist(), stored["timestamp"].to_pylist(), strict=True))
    assert times[2] == LAST if stamp > 253_402_300_799_999 else EPOCH + timedelta(milliseconds=stamp)
    assert not complete or times[5] == datetime(1, 1, 1, tzinfo=UTC)
