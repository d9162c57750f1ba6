"""Maintenance keeps every row, every version that is still there and every file that may be committed; the rest goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from dts_assets.flows import snapshot_jobs, snapshot_sorting
from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.orphans import find_orphans, folders_of_tables, orphan_rule, remove_orphans
from dts_assets.flows.this_process import this_process
from dts_assets.flows.turns import tables_turn
from dts_assets.model.maintenance import Step, StepReport
from dts_assets.planning import compactions
from dts_assets.planning.orphans import OrphanRule
from dts_assets.settings.maintenance import Maintenance
from dts_assets.store.files import TableWriter
from dts_assets.store.table_files import named_places
from dts_assets.store.table_folders import OWN_SIGN, place_of
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, insert, items, short_source, three_windows, update
from tests.flows.source import Source, write_capture
from tests.tiers import chosen, times

DAY = timedelta(days=1)
EAGER = {"expire_after": "1s", "keep_versions": 1, "orphans_after": "1d", "steps": [str(one) for one in Step]}
LATER = 10 * DAY
OURS = f"0-{'a' * 32}.parquet"
WINDOWS = 4


def busy(windows: int = WINDOWS, *, changes_from: int = 1) -> Source:
    """Rows that come in each window, all over the keys, and change there."""
    source = short_source(items("one"), items("two"))
    for number in range(windows):
        for name in ("one", "two"):
            insert(source, border(number) + 10 * SECOND, range(number, 300, windows), table=name, n=number)
            if number >= changes_from:
                changed = dict.fromkeys(range(number - 1, 300, windows * 4), 100 + number)
                update(source, border(number) + 60 * SECOND, changed, table=name)
        source.checkpoint(border(number) + 500 * SECOND)
    return source


def opened(folder: Path, capture: Path) -> Harness:
    window = {"end": border(WINDOWS)}
    return bench_in_process(folder, "kept").open(
        capture, name="kept", partitions=LANES, window=window, maintenance=EAGER, cut_tags=0
    )


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """A lake of some windows, each made by runs of its own."""
    capture = write_capture(tmp_path / "capture", busy().messages)
    made = opened(tmp_path, capture)
    for number in range(WINDOWS):
        made.all(number)
    return made


def maintained(
    harness: Harness, *only: Step, dry_run: bool = False, after: timedelta = LATER
) -> Mapping[Step, StepReport]:
    reports = maintain(
        harness.pipeline,
        only=only,
        dry_run=dry_run,
        spark=this_process,
        progress=harness.lines.append,
        now=datetime.now(UTC) + after,
    )
    return {one.step: one for one in reports}


def on_disk(harness: Harness) -> dict[str, int]:
    """The bytes of all files in the folders of the lake's tables."""
    found: dict[str, int] = {}
    for path in maintained_paths(harness.pipeline):
        table = harness.pipeline.lake.table(path)
        if table is not None:
            root = Path(table.location().removeprefix("file://"))
            files = [one for one in root.rglob("*") if one.is_file() and one.name != ".commit-lock"]
            found |= {str(one): one.stat().st_size for one in files}
    return found


def named(harness: Harness) -> set[str]:
    tables = filter(None, map(harness.pipeline.lake.table, maintained_paths(harness.pipeline)))
    return {place for table in tables for place in named_places(table)}


def read_every_version(harness: Harness) -> int:
    """Read all rows of all versions of all tables, and return how many versions there are."""
    versions = 0
    for path in maintained_paths(harness.pipeline):
        table = harness.pipeline.lake.table(path)
        for one in [] if table is None else table.metadata.snapshots:
            assert table is not None
            table.scan(snapshot_id=one.snapshot_id).to_arrow()
            versions += 1
    return versions


@pytest.mark.more
def test_no_row_is_another_one_and_the_reports_say_what_went(harness: Harness) -> None:
    before, disk, versions = harness.everything(), on_disk(harness), read_every_version(harness)
    told = maintained(harness, dry_run=True)
    assert on_disk(harness) == disk, "a dry run changes nothing"
    done = maintained(harness)
    assert [one.failed for one in done.values()] == [()] * len(Step)
    assert harness.everything() == before
    assert list(done) == list(told) == list(Step)
    assert read_every_version(harness) < versions
    expired = done[Step.EXPIRY]
    assert expired.numbers["versions"] >= told[Step.EXPIRY].numbers["versions"] > 40
    assert expired.freed_bytes >= told[Step.EXPIRY].freed_bytes > 0
    gone = {path: size for path, size in disk.items() if path not in on_disk(harness)}
    assert sum(gone.values()) > expired.freed_bytes > sum(gone.values()) / 3, "files of metadata are not counted"
    assert expired.numbers["files"] <= len(gone)
    again = maintained(harness)
    assert {step: one.tables for step, one in again.items() if step is not Step.EXPIRY} == dict.fromkeys(
        (step for step in Step if step is not Step.EXPIRY), 0
    )
    harness.settle()
    assert harness.everything() == before


@pytest.mark.more
def test_orphans_go_and_nothing_else(harness: Harness) -> None:
    lake, now = harness.pipeline.lake, datetime.now(UTC)
    table = lake.table(harness.pipeline.path("changelog", "bank", "one"))
    assert table is not None
    root = Path(table.location().removeprefix("file://"))
    killed, manifest = f"data/killed/{OURS}", f"metadata/{OWN_SIGN}left-m0.avro"
    placed = {
        killed: 9 * DAY, f"data/busy/{OURS}": 9 * DAY, f"data/busy/1-{OURS}": timedelta(0),
        f"data/young/{OURS}": DAY / 2, manifest: 9 * DAY, f"metadata/{OWN_SIGN}new-m0.avro": timedelta(0),
        "notes.txt": 99 * DAY, f"other/data/{OURS}": 99 * DAY,
        "data/killed-too/a.parquet": 9 * DAY, "metadata/left.avro": 9 * DAY,
    }  # fmt: skip
    for name, age in placed.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"0123456789")
        os.utime(root / name, times=((now - age).timestamp(),) * 2)
    before, rows = on_disk(harness), harness.everything()
    told = maintained(harness, Step.ORPHANS, dry_run=True, after=timedelta(0))[Step.ORPHANS]
    assert on_disk(harness) == before
    done = maintained(harness, Step.ORPHANS, after=timedelta(0))[Step.ORPHANS]
    gone = {str(Path(path).relative_to(root)) for path in before if path not in on_disk(harness)}
    assert gone == {killed, manifest}
    assert told == done
    assert (done.tables, done.freed_bytes, done.numbers) == (1, 20, {"files": 2, "left": 2})
    assert harness.everything() == rows
    read_every_version(harness)


@pytest.mark.more
def test_a_table_that_forbids_it_keeps_its_orphans(harness: Harness) -> None:
    path = harness.pipeline.path("changelog", "bank", "one")
    table = harness.pipeline.lake.table(path)
    assert table is not None
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    file = Path(table.location().removeprefix("file://")) / "data" / "killed" / OURS
    file.parent.mkdir()
    file.write_bytes(b"x")
    os.utime(file, times=(0, 0))
    assert maintained(harness, Step.ORPHANS)[Step.ORPHANS].details == ()
    assert file.exists()


@pytest.mark.more
def test_files_of_a_run_that_holds_its_lease_stay_however_long_it_takes(harness: Harness) -> None:
    path = harness.pipeline.table_path("snapshot", table_id("one"))
    rows = harness.rows("snapshot", "bank", "one")
    with tables_turn(harness.pipeline, harness.lines.append):
        with TableWriter(harness.pipeline.lake.target(path, "going-on")) as writer:
            stored = harness.pipeline.lake.table(path)
            assert stored is not None
            writer.write(stored.scan().to_arrow().combine_chunks().to_batches()[0])
            files = writer.close()
        assert maintained(harness, Step.ORPHANS, after=LATER)[Step.ORPHANS].numbers == {"files": 0, "left": 0}
        harness.pipeline.lake.replace(path, {}, files)
    assert sorted(map(str, harness.rows("snapshot", "bank", "one"))) == sorted(map(str, rows))


@pytest.mark.more
def test_files_that_are_committed_between_two_looks_stay(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit lands when the orphans have been found and are not removed yet."""
    path = harness.pipeline.table_path("snapshot", table_id("one"))
    table = harness.pipeline.lake.table(path)
    assert table is not None
    with TableWriter(harness.pipeline.lake.target(path, "late")) as writer:
        writer.write(table.scan().to_arrow().combine_chunks().to_batches()[0])
        files = writer.close()
    (file,) = (Path(one.path.removeprefix("file://")) for one in files)
    os.utime(file, times=(0, 0))
    found = find_orphans(harness.pipeline, path, OrphanRule(datetime.now(UTC) - DAY))
    assert [one.place for one in found.files] == [str(file)]
    harness.pipeline.lake.replace(path, {}, files)
    assert remove_orphans(harness.pipeline, path, found) == []
    assert file.exists()
    assert find_orphans(harness.pipeline, path, OrphanRule(datetime.now(UTC) - DAY)).files == ()


@pytest.mark.more
def test_tags_and_branches_are_respected_until_their_time_comes(harness: Harness) -> None:
    path = harness.pipeline.table_path("snapshot", table_id("one"))
    table = harness.pipeline.lake.table(path)
    assert table is not None
    first, second, third, *_ = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    manager = table.manage_snapshots().create_tag(first.snapshot_id, "cut-2026-01-05-00:00")
    manager.create_tag(second.snapshot_id, "mine").create_branch(third.snapshot_id, "work").commit()
    rows = [table.scan(snapshot_id=one.snapshot_id).to_arrow() for one in (first, second, third)]

    def still(*names: str) -> list[bool]:
        now = harness.pipeline.lake.table(path)
        assert now is not None
        ids = [now.metadata.refs[name].snapshot_id for name in names]
        return [now.scan(snapshot_id=number).to_arrow().num_rows > 0 for number in ids]

    maintained(harness)
    now = harness.pipeline.lake.table(path)
    assert now is not None
    assert len(now.metadata.snapshots) == 4
    found = [now.scan(snapshot_id=one.snapshot_id).to_arrow() for one in (first, second, third)]
    assert [sorted(map(str, one.to_pylist())) for one in found] == [sorted(map(str, one.to_pylist())) for one in rows]
    aged = harness_with(harness, {**EAGER, "tags_after": "2d"})
    done = maintained(aged)
    assert done[Step.TAGS].numbers == {"moments": 1, "tags": 1}
    assert still("mine", "work") == [True, True]
    now = harness.pipeline.lake.table(path)
    assert now is not None
    assert "cut-2026-01-05-00:00" not in now.metadata.refs
    assert len(now.metadata.snapshots) == 3
    read_every_version(harness)


def harness_with(harness: Harness, maintenance: Mapping[str, object], **more: object) -> Harness:
    settings = harness.pipeline.settings.model_copy(
        update={"maintenance": Maintenance.model_validate(maintenance), **more}
    )
    return Harness(replace(harness.pipeline, settings=settings), harness.session)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.more
@pytest.mark.parametrize("after", chosen((3, 0, 40), 1))
def test_a_maintenance_that_was_killed_is_ended_by_the_next_one(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    rows, removed = harness.everything(), [0]
    whole = PyArrowFileIO.delete

    def delete(self: PyArrowFileIO, location: object) -> None:
        if removed[0] >= after:
            raise Killed
        removed[0] += 1
        whole(self, location)  # type: ignore[arg-type]

    monkeypatch.setattr(PyArrowFileIO, "delete", delete)
    with pytest.raises(Killed):
        maintained(harness)
    monkeypatch.setattr(PyArrowFileIO, "delete", whole)
    assert harness.everything() == rows
    read_every_version(harness)
    maintained(harness)
    for path in maintained_paths(
        harness.pipeline
    ):  # this process keeps its lease for a while, and so all files since it began
        remove_orphans(
            harness.pipeline, path, find_orphans(harness.pipeline, path, OrphanRule(datetime.now(UTC) + LATER))
        )
    locks = [one for name in on_disk(harness) if (one := Path(name).parent / ".commit-lock").exists()]
    assert locks, "a commit may wait for one"
    assert harness.everything() == rows
    assert {place_of(path) for path in on_disk(harness)} == named(harness)


@pytest.mark.more
def test_maintenance_beside_a_run_that_writes_loses_nothing(tmp_path: Path) -> None:
    """Files go as orphans after a second and a half here, so that leases and looks protect, and not days."""
    capture = write_capture(tmp_path / "capture", busy().messages)
    alone, beside = (opened(tmp_path / name, capture) for name in ("alone", "beside"))
    windows = times(3, WINDOWS)
    for number in range(windows):
        alone.all(number)
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(windows):
                beside.all(number)
        except BaseException as error:
            failed.append(error)

    writer, rounds, gone = Thread(target=write), 0, 0
    writer.start()
    while writer.is_alive():
        maintained(beside, Step.COMPACTION, Step.EXPIRY, after=timedelta(seconds=2))
        rule = orphan_rule(beside.pipeline, datetime.now(UTC) - timedelta(seconds=1.5))
        for path in maintained_paths(beside.pipeline):
            gone += len(remove_orphans(beside.pipeline, path, find_orphans(beside.pipeline, path, rule)))
        rounds += 1
    writer.join()
    assert failed == []
    assert rounds > 1
    assert beside.everything() == alone.everything()
    read_every_version(beside)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each window adds a file to a snapshot, and none is large."""
    monkeypatch.setattr(snapshot_jobs, "_MOST_SMALL", 100)
    monkeypatch.setattr(compactions, "MOST_SMALL", 100)
    monkeypatch.setattr(snapshot_sorting, "FILE_BYTES", 4_000)


@pytest.mark.more
def test_a_snapshot_is_sorted_by_its_key_and_goes_on_from_there(small_files: None, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", busy(changes_from=WINDOWS).messages)
    harness = opened(tmp_path, capture)
    for number in range(WINDOWS):
        harness.all(number)
    path, before = harness.pipeline.table_path("snapshot", table_id("one")), harness.everything()
    found = harness.pipeline.lake.data_files(path, bounds=["id"], applies_deletes=True)
    ranges = [(one.least["id"], one.greatest["id"]) for one in found]
    assert len(ranges) > 2
    assert max(low for low, _ in ranges) < min(high for _, high in ranges), "every file has keys from all over"
    state = harness.pipeline.lake.state(path)
    done = maintained(harness, Step.SORTING)[Step.SORTING]
    assert done.failed == ()
    assert done.tables == 2
    files = sorted(harness.pipeline.lake.data_files(path, bounds=["id"]), key=lambda one: one.least["id"])
    assert len(files) > 1
    assert all(one.greatest["id"] < other.least["id"] for one, other in pairwise(files))
    assert harness.everything() == before
    table = harness.pipeline.lake.table(path)
    assert table is not None
    head = table.current_snapshot()
    assert state is not None
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation.value == "replace"
    assert maintained(harness, Step.SORTING)[Step.SORTING].tables == 0
    harness.settle()
    assert harness.everything() == before


@pytest.mark.more
def test_a_sorted_snapshot_takes_changes_over(small_files: None, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", busy(changes_from=WINDOWS - 1).messages)
    sorted_, plain = (opened(tmp_path / name, capture) for name in ("sorted", "plain"))
    tables = 0
    for number in range(WINDOWS):
        sorted_.all(number)
        plain.all(number)
        tables += maintained(sorted_, Step.SORTING)[Step.SORTING].tables
    assert tables == 2, "before the last window, which changes rows in all files"
    assert sorted_.everything() == plain.everything()


@pytest.mark.more
def test_an_age_of_nothing_is_an_age(harness: Harness) -> None:
    eager = harness_with(harness, {**EAGER, "expire_after": "0s"})
    assert maintained(eager, Step.EXPIRY, after=timedelta(seconds=1))[Step.EXPIRY].numbers["versions"] > 40


@pytest.mark.more
def test_folders_of_other_tables_are_no_orphans(harness: Harness) -> None:
    """A table may lie in the folder of another one, where names are so."""
    path = harness.pipeline.table_path("snapshot", table_id("one"))
    table = harness.pipeline.lake.table(path)
    assert table is not None
    inner = Path(table.location().removeprefix("file://")) / "data" / "inner"
    inner.mkdir(parents=True)
    (inner / OURS).write_bytes(b"x")
    os.utime(inner / OURS, times=(0, 0))
    rule = OrphanRule(datetime.now(UTC) - DAY)
    others = {*folders_of_tables({path: table}), f"{inner}/"}
    assert find_orphans(harness.pipeline, path, rule, others=others).files == ()
    assert len(find_orphans(harness.pipeline, path, rule).files) == 1


def test_a_lake_that_is_not_there_is_left_alone(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", three_windows(items()).messages)
    empty = bench_in_process(tmp_path, "empty").open(capture, partitions=LANES, window={"end": border(3)})
    assert maintained(empty) == {}
