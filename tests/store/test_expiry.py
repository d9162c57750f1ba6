"""Old snapshots go, rows stay; what is young, new or needed stays too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from dts_assets.store import expiry
from dts_assets.store.commit import files_in, replace
from dts_assets.store.expiry import KEEP_FOR, expire_snapshots

if TYPE_CHECKING:
    from tests.store.conftest import Cells

LATER = datetime.now(UTC) + KEEP_FOR + timedelta(days=1)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(expiry, "AT_ONCE", 2)


def fill(cells: Cells, commits: int) -> list[int]:
    """One commit after the other; their snapshot ids."""
    made = []
    for number in range(commits):
        done = replace(cells.catalog, cells.identifier, {}, cells.write([(0, number % 3)], str(number)))
        assert done.snapshot_id is not None
        made.append(done.snapshot_id)
    return made


def left(cells: Cells) -> list[int]:
    snapshots = cells.catalog.load_table(cells.identifier).metadata.snapshots
    return [one.snapshot_id for one in sorted(snapshots, key=lambda one: one.sequence_number or 0)]


def test_the_newest_stay_and_so_do_all_rows(cells: Cells) -> None:
    made = fill(cells, 8)
    rows = cells.rows()
    assert expire_snapshots(cells.catalog, cells.identifier, now=LATER) == 5
    assert left(cells) == made[-3:]
    assert cells.rows() == rows
    more = replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "after"))
    assert left(cells) == [*made[-3:], more.snapshot_id]
    assert len(cells.rows()) == len(rows) + 3


def test_a_snapshot_that_is_needed_stays_and_can_be_read(cells: Cells) -> None:
    made = fill(cells, 8)
    assert expire_snapshots(cells.catalog, cells.identifier, needed=made[1:2], now=LATER) == 4
    assert left(cells) == [made[1], *made[-3:]]
    table = cells.catalog.load_table(cells.identifier)
    assert [file.record_count for file in files_in(table, {}, snapshot_id=made[1])] == [3]
    assert table.scan(snapshot_id=made[1]).to_arrow()["generation"].to_pylist() == ["1"] * 3


def test_the_files_of_snapshots_that_go_leave_the_disk_and_no_others(cells: Cells) -> None:
    fill(cells, 8)
    table = cells.catalog.load_table(cells.identifier)
    folder = Path(table.location().removeprefix("file://"))
    rows = cells.rows()
    expire_snapshots(cells.catalog, cells.identifier, now=LATER)
    table = cells.catalog.load_table(cells.identifier)
    needed = {
        file.file_path for one in table.metadata.snapshots for file in files_in(table, {}, snapshot_id=one.snapshot_id)
    }
    assert {path.as_uri() for path in (folder / "data").rglob("*.parquet")} == needed
    lists = {one.manifest_list for one in table.metadata.snapshots}
    manifests = {one.manifest_path for snapshot in table.metadata.snapshots for one in snapshot.manifests(table.io)}
    assert {path.as_uri() for path in (folder / "metadata").glob("*.avro")} == lists | manifests
    assert cells.rows() == rows


@pytest.mark.parametrize("place", range(8))
def test_whatever_snapshot_is_needed_all_its_files_stay(place: int, cells: Cells) -> None:
    made = fill(cells, 8)
    expire_snapshots(cells.catalog, cells.identifier, needed=made[place : place + 1], now=LATER)
    table = cells.catalog.load_table(cells.identifier)
    assert made[place] in left(cells)
    for snapshot in table.metadata.snapshots:
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == 3


def test_young_snapshots_stay(cells: Cells) -> None:
    made = fill(cells, 8)
    assert expire_snapshots(cells.catalog, cells.identifier) == 0
    assert left(cells) == made


def test_a_few_superfluous_ones_are_not_worth_a_commit(cells: Cells) -> None:
    made = fill(cells, 4)
    assert expire_snapshots(cells.catalog, cells.identifier, now=LATER) == 0
    assert left(cells) == made


def test_none_that_reaches_removed_rows_stays_for_being_new(cells: Cells) -> None:
    fill(cells, 3)
    gone = replace(cells.catalog, cells.identifier, cells.rectangle([0], [2]), ())
    at = cells.catalog.load_table(cells.identifier).metadata.snapshots[-1].timestamp_ms / 1000
    after = datetime.fromtimestamp(at, UTC) + timedelta(milliseconds=1)
    rows, folder = cells.rows(), Path(cells.catalog.load_table(cells.identifier).location().removeprefix("file://"))
    assert expire_snapshots(cells.catalog, cells.identifier, none_before=after) == 0, "they are young"
    assert expire_snapshots(cells.catalog, cells.identifier, none_before=after, now=LATER) == 3
    assert left(cells) == [gone.snapshot_id]
    assert cells.rows() == rows
    assert list((folder / "data").rglob("*.parquet")) == []
    assert expire_snapshots(cells.catalog, cells.identifier, none_before=after, now=LATER) == 0


def test_a_tag_keeps_its_snapshot(cells: Cells) -> None:
    made = fill(cells, 8)
    table = cells.catalog.load_table(cells.identifier)
    table.manage_snapshots().create_tag(made[0], "cut").commit()
    assert expire_snapshots(cells.catalog, cells.identifier, now=LATER) == 4
    assert left(cells) == [made[0], *made[-3:]]


def test_a_table_that_is_not_there_or_busy_is_left_alone(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expire_snapshots(cells.catalog, ("shop", "nothing"), now=LATER) == 0
    made = fill(cells, 8)

    def busy(*_: object, **__: object) -> None:
        raise CommitFailedException("somebody was faster")

    monkeypatch.setattr(Table, "_do_commit", busy)
    assert expire_snapshots(cells.catalog, cells.identifier, now=LATER) == 0
    assert left(cells) == made
