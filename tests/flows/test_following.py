"""A reader of commits alone has the changelog's rows at any moment: appends, replaced windows, compaction, expired versions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table.snapshots import Operation

from dts_assets.flows.pauses import resume_tables
from examples.changelog_follower import REPLACED_WINDOWS, Step, step_from
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, items, open_short, three_windows
from tests.flows.source import Ddl, write_capture
from tests.flows.test_compared_windows import pause
from tests.tiers import times

ONE = table_id("one")


class Copy:
    """A copy of a changelog in memory."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.rows: pa.Table | None = None
        self.steps: list[Step] = []

    def follow(self, harness: Harness) -> None:
        table = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ONE))
        if table is None:
            return
        step = step_from(table, self.version)
        kept = [] if self.rows is None or step.replaced is None else [self._without(step)]
        self.rows = pa.concat_tables([*kept, step.rows], promote_options="permissive")
        self.version = step.version
        self.steps.append(step)

    def _without(self, step: Step) -> pa.Table:
        assert self.rows is not None
        assert step.replaced is not None
        starts = self.rows["window_start"]
        gone = pc.is_in(starts, value_set=pa.array(sorted(step.replaced), starts.type))
        return self.rows.filter(pc.invert(gone))

    def shown(self) -> list[str]:
        return sorted(map(str, () if self.rows is None else self.rows.to_pylist()))


def stored(harness: Harness) -> list[str]:
    table = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ONE))
    return [] if table is None else sorted(map(str, table.scan().to_arrow().to_pylist()))


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 40)))
def test_a_copy_that_follows_has_the_rows_of_the_changelog(seed: int, tmp_path: Path) -> None:
    chance, capture, copy = Random(seed), tmp_path / "capture", Copy()
    source = three_windows(items("one"), items("two"))
    source.transaction(border(2) + 600 * SECOND - 60 * SECOND, Ddl("TRUNCATE TABLE one"))
    harness = open_short(
        bench_in_process(tmp_path, "following"), capture, [], complete=False, window={"live": True, "end": None}
    )
    ordered = sorted(source.messages, key=lambda one: (one.time, one.partition, one.offset))
    cuts = sorted(chance.sample(range(1, len(ordered)), times(4, 7)))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(ordered)], strict=True)):
        write_capture(capture, ordered[start:end], name=f"part{number}")
        for act in chance.sample(["refresh", "settle", "again", "pause", "resume"], chance.randint(1, 3)):
            closed = [row.window for row in harness.pipeline.ledger.cuts() if not row.open_in]
            if act == "again" and closed:
                harness.tables_of([chance.choice(closed)])
            elif act == "pause" and not harness.pipeline.ledger.paused_tables():
                pause(harness, ONE, number)
            elif act == "resume":
                resume_tables(harness.pipeline, [row.table for row in harness.pipeline.ledger.paused_tables()])
            refresh(harness) if act != "settle" else settle_open(harness, rounds=6)
            if chance.random() < 0.6:
                copy.follow(harness)
                assert copy.shown() == stored(harness)
    copy.follow(harness)
    assert copy.shown() == stored(harness)


def copied(folder: Path) -> tuple[Harness, Copy]:
    """Three windows that have closed, and a copy that has followed so far."""
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench_in_process(folder, "following"), folder / "capture", source.messages)
    harness.settle()
    copy = Copy()
    copy.follow(harness)
    return harness, copy


def test_commits_say_what_they_did(tmp_path: Path) -> None:
    harness, copy = copied(tmp_path)
    assert copy.steps[-1].replaced is None
    harness.tables(1)
    table = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ONE))
    assert table is not None
    said = [(one.operation, one.additional_properties.get(REPLACED_WINDOWS)) for one in
            (snapshot.summary for snapshot in table.snapshots()) if one is not None]  # fmt: skip
    assert said == [(Operation.APPEND, None), (Operation.OVERWRITE, border(1).isoformat())]
    copy.follow(harness)
    assert copy.steps[-1].replaced == frozenset({border(1)})
    assert {row["window_start"] for row in copy.steps[-1].rows.to_pylist()} == {border(1)}
    copy.follow(harness)
    assert copy.steps[-1].rows.num_rows == 0
    assert copy.steps[-1].replaced == frozenset()
    assert copy.shown() == stored(harness)


def test_a_commit_that_makes_one_window_again_and_another_one_new_names_both(tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    harness = open_short(bench_in_process(tmp_path, "following"), tmp_path / "capture", source.messages)
    harness.all(0)
    copy = Copy()
    copy.follow(harness)
    harness.raw(1)
    harness.entries(1)
    harness.tables(0, 1)
    copy.follow(harness)
    assert copy.steps[-1].replaced == frozenset({border(0), border(1)})
    assert copy.shown() == stored(harness)


def test_a_copy_whose_version_has_expired_begins_anew(tmp_path: Path) -> None:
    harness, copy = copied(tmp_path)
    harness.tables(1)
    harness.tables(2)
    table = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ONE))
    assert table is not None
    assert copy.version is not None
    table.maintenance.expire_snapshots().by_id(copy.version).commit()
    copy.follow(harness)
    assert copy.steps[-1].replaced is None
    assert copy.shown() == stored(harness)


@pytest.mark.long
@pytest.mark.spark
def test_a_stream_of_spark_follows_and_a_batch_reads_replaced_windows_again(bench: Bench, tmp_path: Path) -> None:
    """As docs/following-a-changelog.md says: what is streamed, less replaced windows, with their rows of today.

    The version that the stream began with is forgotten on the way.
    """
    source = three_windows(items("one"), items("two"))
    capture = tmp_path / "capture"
    harness = open_short(bench, capture, [], complete=False, window={"live": True, "end": None})
    spark, name = harness.session, harness.pipeline.lake.spark_name(harness.pipeline.table_path("changelog", ONE))
    rows, handled = list[Any](), set[int]()

    def follow() -> None:
        told = spark.table(f"{name}.snapshots").filter("operation = 'overwrite'").collect()
        stream = spark.readStream.format("iceberg").option("streaming-skip-overwrite-snapshots", "true").load(name)
        query = (
            stream.writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
        query.stop()
        new = [row for row in told if row["snapshot_id"] not in handled]
        handled.update(row["snapshot_id"] for row in new)
        windows = {start for row in new for start in row["summary"][REPLACED_WINDOWS].split(",")}
        for start in windows:
            kept = [row for row in rows if row["window_start"].astimezone(UTC) != datetime.fromisoformat(start)]
            again = spark.table(name).filter(f"window_start = timestamp '{start}'").collect()
            rows[:] = [*kept, *again]

    for number in range(3):
        for half in range(2):
            some = [one for one in source.messages if one.time < border(number) + (half + 1) * 300 * SECOND]
            new = [one for one in some if one.time >= border(number) + half * 300 * SECOND]
            write_capture(capture, new, name=f"w{number}{half}")
            settle_open(harness, rounds=6)
            if half:  # the table is made again in the open window
                resume_tables(harness.pipeline, [ONE])
                settle_open(harness, rounds=6)
            else:
                pause(harness, ONE, number)
            follow()
            assert sorted(map(str, rows)) == sorted(map(str, spark.table(name).collect()))
        if number == 1:  # the stream has passed the first append
            table = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ONE))
            assert table is not None
            first = min(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
            table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    assert len(handled) == 3
