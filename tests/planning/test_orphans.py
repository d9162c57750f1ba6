"""Files that nobody names are left behind only where no run can be about to commit them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.planning.orphans import OrphanRule, orphans_among

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = timedelta(days=3)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class File:
    place: str
    written_at: datetime


def found(*files: File, named: tuple[str, ...] = (), begun: tuple[datetime, ...] = ()) -> list[str]:
    return [one.place for one in orphans_among(files, named, OrphanRule(NOW - OLD, begun))]


@pytest.mark.parametrize(("age", "gone"), [(4 * DAY, True), (3 * DAY, False), (2 * DAY, False)])
def test_a_file_that_nobody_names_goes_when_it_is_old(age: timedelta, gone: bool) -> None:
    assert found(File("t/data/run/a", NOW - age)) == (["t/data/run/a"] if gone else [])


def test_a_named_file_stays_however_old_it_is() -> None:
    assert found(File("t/data/run/a", NOW - 90 * DAY), named=("t/data/run/a",)) == []


def test_an_old_file_stays_while_its_folder_gets_files() -> None:
    """A run that has worked for days commits its first file with its last one."""
    old, new = File("t/data/run/a", NOW - 9 * DAY), File("t/data/run/b", NOW - DAY)
    assert found(old, new) == []
    assert found(old, File("t/data/other/b", NOW - DAY)) == [old.place]


def test_a_named_file_of_the_folder_keeps_its_neighbours_too() -> None:
    assert found(File("t/data/run/a", NOW - 9 * DAY), File("t/data/run/b", NOW - DAY), named=("t/data/run/b",)) == []


def test_files_of_metadata_are_judged_one_by_one() -> None:
    old, new = File("t/metadata/a", NOW - 9 * DAY), File("t/metadata/b", NOW - DAY)
    assert found(old, new) == [old.place]


def test_files_written_since_a_run_began_that_still_holds_a_lease_stay() -> None:
    file = File("t/metadata/a", NOW - 5 * DAY)
    assert found(file, begun=(NOW - 6 * DAY, NOW)) == []
    assert found(file, begun=(NOW - 4 * DAY,)) == [file.place]
