"""The ledger's rows are made from Arrow once, and those of a day's next file only where they are new."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid, day_of
from dts_assets.store import ledger_files
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.ledger import Ledger
from dts_assets.store.rows import from_arrow
from tests.ledger_rows import raw_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))


def raw(number: int, generation: str = "g", partition: int = 0) -> RawWindow:
    return raw_row(Cell(partition, GRID.at(number)), OffsetRange(number, number + 1), generation=generation)


def put(ledger: Ledger, rows: Iterable[RawWindow]) -> None:
    rows = list(rows)
    ledger.replace_raw_windows([row.cell for row in rows], rows)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of marks of raw that were made from Arrow: the thread of the process's leases reads leases meanwhile."""
    counts: list[int] = []
    original = from_arrow

    def counting(kind: Any, table: Any) -> Any:
        if kind is RawWindow:
            counts.append(table.num_rows)
        return original(kind, table)

    monkeypatch.setattr(ledger_files, "from_arrow", counting)
    return counts


def test_only_the_new_rows_of_a_day_are_made(lake_location: LakeLocation, made: list[int]) -> None:
    ledger = Ledger(open_catalog(lake_location), "rows_taken_over")
    put(ledger, [raw(number) for number in range(20)])
    first = ledger.raw_windows()
    assert made == [20]
    put(ledger, [raw(3, "new"), raw(20), raw(7, partition=1)])
    second = ledger.raw_windows()
    assert made == [20, 3]
    expected = [raw(number, "new" if number == 3 else "g") for number in range(21)]
    assert [row for row in second if row.kafka_partition == 0] == expected
    assert all(one is other for one, other in zip(second[:3], first[:3], strict=True))
    ledger.replace_raw_windows([raw(5).cell], [])
    assert raw(5) not in ledger.raw_windows()
    assert made == [20, 3]


def test_manifests_are_read_once(lake_location: LakeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.manifest import ManifestFile

    ledger = Ledger(open_catalog(lake_location), "manifests_once")
    put(ledger, [raw(number) for number in (0, 30, 60)])
    found = ledger.marks_by_day().files
    assert sorted(found) == [day_of(GRID.at(number).start) for number in (0, 30, 60)]
    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", lambda *_, **__: pytest.fail("it was read before"))
    assert ledger.marks_by_day().files == found


def test_marks_by_day_stay_as_they_were(lake_location: LakeLocation) -> None:
    ledger = Ledger(open_catalog(lake_location), "marks_by_day")
    assert ledger.marks_by_day().files == {}
    put(ledger, [raw(0), raw(30)])
    before = ledger.marks_by_day()
    put(ledger, [raw(0, "new")])
    days = [day_of(GRID.at(number).start) for number in (0, 30)]
    assert before.raw_windows(days) == [raw(0), raw(30)]
    assert before.raw_windows(days[1:]) == [raw(30)]
    assert (before.windows(days), before.cuts(days)) == ([], [])
    after = ledger.marks_by_day()
    assert after.raw_windows(days) == [raw(0, "new"), raw(30)]
    assert after.files[days[1]] == before.files[days[1]]
    assert after.files[days[0]] != before.files[days[0]]
