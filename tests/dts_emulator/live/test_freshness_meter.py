"""Freshness is counted per row change, from the commit to the first moment at which all snapshots hold it."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
from dts_emulator.live.freshness_meter import Commit, CommitLog, CutLog, Sighting, freshness, visible_rows
from dts_emulator.messages.capture_files import CAPTURE_SCHEMA

START = datetime(2026, 1, 5, tzinfo=UTC)
COMMITS = [
    Commit(100.0, 0, (1, 400)),
    Commit(100.5, 10, (1, 900)),
    Commit(101.0, 10, (1, 900)),  # nothing happened
    Commit(102.0, 50, (2, 300)),
    Commit(103.0, 100, (2, 700)),
]


def test_every_row_counts_from_the_commit_before_its_own() -> None:
    found = freshness(COMMITS, [Sighting(110.0, (1, 900)), Sighting(121.0, (2, 700))])
    # 10 rows after 10 s, 40 after 20, 50 after 19.
    assert (found.rows, found.visible, found.since) == (100, 100, None)
    assert (found.p50, found.p95, found.worst) == (19.0, 20.0, 20.0)


def test_what_is_not_visible_is_no_part_of_the_percentiles_and_is_said() -> None:
    found = freshness(COMMITS, [Sighting(110.0, (2, 299))])
    assert (found.rows, found.visible, found.p50, found.worst) == (100, 10, 10.0, 10.0)
    assert found.since == 101.0


def test_nothing_is_visible_without_a_cut() -> None:
    found = freshness(COMMITS, [])
    assert (found.rows, found.visible, found.p50, found.p95, found.worst) == (100, 0, None, None, None)
    assert found.since == 100.0
    assert freshness([], []).since is None


def test_only_commits_of_the_stretch_count() -> None:
    everything = [Sighting(110.0, (9, 0))]
    assert freshness(COMMITS, everything, begin=100.5).rows == 90
    assert freshness(COMMITS, everything, end=102.5).rows == 50
    assert freshness(COMMITS, everything, begin=101.0, end=102.0).worst == 9.0


def test_files_are_compared_as_numbers_and_a_mark_that_was_taken_back_changes_nothing() -> None:
    commits = [Commit(0.0, 0, (9, 50)), Commit(1.0, 5, (9, 90)), Commit(2.0, 6, (10, 5))]
    taken_back = [Sighting(5.0, (9, 90)), Sighting(6.0, (9, 50)), Sighting(7.0, (10, 5))]
    found = freshness(commits, reversed(taken_back))
    assert (found.visible, found.p50, found.worst) == (6, 5.0, 6.0)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=6),
)
def test_it_is_what_looking_at_every_row_gives(steps: list[tuple[int, int]], sightings: list[tuple[int, int]]) -> None:
    commits = [Commit(0.0, 0, (1, 0))]
    for seconds, rows in steps:
        last = commits[-1]
        commits.append(Commit(last.time + seconds, last.rows + rows, (1, last.place[1] + rows)))
    seen = [Sighting(float(time), (1, position)) for time, position in sightings]
    ages: list[float] = []
    hidden = 0
    for before, commit in itertools.pairwise(commits):
        times = [one.time for one in seen if one.place >= commit.place]
        rows = commit.rows - before.rows
        ages += [min(times) - before.time] * rows if times else []
        hidden += 0 if times else rows
    ages.sort()
    found = freshness(commits, seen)
    assert (found.rows, found.visible) == (len(ages) + hidden, len(ages))
    if ages:
        assert (found.worst, found.p50) == (ages[-1], ages[(len(ages) - 1) // 2])
    assert (found.since is None) is (hidden == 0)


def test_rows_visible_are_those_at_or_before_the_cut() -> None:
    assert visible_rows(COMMITS, None) == 0
    assert visible_rows(COMMITS, (1, 399)) == 0
    assert visible_rows(COMMITS, (1, 900)) == 10
    assert visible_rows(COMMITS, (2, 699)) == 50
    assert visible_rows(COMMITS, (3, 4)) == 100
    assert visible_rows([], (3, 4)) == 0


def test_the_workload_is_read_while_it_writes(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "commits.jsonl")
    assert log.read() == []
    lines = [
        json.dumps({"time": 1.5 + n, "rows": n * 10, "gtid": f"0-1-{n}", "file": "mysql-bin.000012", "position": 5 + n})
        for n in range(3)
    ]
    with (tmp_path / "commits.jsonl").open("w") as stream:
        stream.write(lines[0] + "\n" + lines[1][:20])
        stream.flush()
        assert log.read() == [Commit(1.5, 0, (12, 5))]
        stream.write(lines[1][20:] + "\n" + lines[2] + "\n")
        stream.flush()
        assert log.read() == [Commit(1.5 + n, n * 10, (12, 5 + n)) for n in range(3)]
    assert len(log.read()) == 3


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A subscription over a topic whose first message is of the first window, with an empty lake."""
    row = {
        "topic": "t", "partition": 0, "offset": 0, "timestamp": START + timedelta(minutes=1), "key": None,
        "value": b"", "headers": [],
    }  # fmt: skip
    (tmp_path / "capture").mkdir()
    pq.write_table(pa.Table.from_pylist([row], schema=CAPTURE_SCHEMA), tmp_path / "capture" / "part-0.parquet")
    settings = Subscription.model_validate(
        {
            "format": "dts-protobuf",
            "source": {"capture": {"path": str(tmp_path / "capture"), "complete": False}},
            "partitions": 1,
            "window": {"every": "5m", "start": START},
            NAME_KEY: "shop",
            FOLDER_KEY: tmp_path,
        }
    )
    source = CaptureSource(str(tmp_path / "capture"), 1)
    return Pipeline(settings, source, Lake(LakeLocation(str(tmp_path / "lake"))))


def test_every_commit_of_the_cuts_is_a_sighting(pipeline: Pipeline) -> None:
    log = CutLog(pipeline)
    assert log.read() == []
    assert log.place is None

    def mark(
        number: int, position: int | None, *, consistency: Consistency = Consistency.CUT, open_in: tuple[int, ...] = ()
    ) -> None:
        window = pipeline.grid.at(number)
        cut = None if position is None else SourcePosition(0, 3, position)
        row = Cut(window, cut, None, consistency, Completeness.OBSERVED, (), "", (), "", open_in=open_in)
        pipeline.ledger.replace_cuts([window], [row])

    before = datetime.now(UTC).timestamp()
    mark(1, 700)  # behind a hole
    mark(0, 500)
    mark(0, 600)
    mark(2, 900)
    mark(3, None, consistency=Consistency.WINDOW)
    pipeline.ledger.replace_cuts([pipeline.grid.at(2)], [])
    found = log.read()
    assert [sighting.place for sighting in found] == [(3, 700), (3, 700), (3, 900), (3, 900), (3, 700)]
    assert all(before - 1 < sighting.time < datetime.now(UTC).timestamp() + 1 for sighting in found)
    assert log.place == (3, 900)
    mark(2, 950)
    assert [sighting.place for sighting in log.read()][-1] == (3, 950)
    mark(1, 700, open_in=(0,))  # made while it was open, and not since: what follows it does not count
    assert [sighting.place for sighting in log.read()][-1] == (3, 700)
    assert len(log.sightings) == 7
