"""What another engine commits on a branch becomes the table at once, if the table still stands where the branch began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dts_assets.errors import StaleGenerationError
from dts_assets.store.branches import branched
from dts_assets.store.iceberg_tables import ensure_table
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from dts_assets.store.catalog import LakeLocation

PLAIN = ("shop", "plain")


def other_engine(catalog: Catalog, numbers: list[int], branch: str = "main") -> None:
    catalog.load_table(PLAIN).append(pa.table({"number": pa.array(numbers, pa.int32())}), branch=branch)


def content(catalog: Catalog) -> list[int]:
    return sorted(catalog.load_table(PLAIN).scan().to_arrow()["number"].to_pylist())


def head(catalog: Catalog) -> int | None:
    found = catalog.load_table(PLAIN).current_snapshot()
    return None if found is None else found.snapshot_id


@pytest.fixture
def plain(catalog: Catalog) -> Catalog:
    ensure_table(catalog, PLAIN, layout(iceberg_schema((("number", "int"),))))
    return catalog


def test_nothing_is_seen_before_the_end_and_all_of_it_then(plain: Catalog) -> None:
    for numbers, expected in (([1, 2], [1, 2]), ([3], [1, 2, 3])):  # an empty table, and one that is not
        before = [] if head(plain) is None else content(plain)
        with branched(plain, PLAIN, head(plain)) as branch:
            other_engine(plain, numbers, branch)
            assert content(plain) == before
        assert content(plain) == expected
        assert list(plain.load_table(PLAIN).metadata.refs) == ["main"]


def test_the_first_version_begins_to_count_its_rows(plain: Catalog) -> None:
    """Spark adds to the totals of the version before, and counts nothing where that has none."""
    with branched(plain, PLAIN, None) as branch:
        begun = plain.load_table(PLAIN).snapshot_by_name(branch)
        assert begun is not None
        assert begun.summary is not None
        totals = {name: one for name, one in begun.summary.additional_properties.items() if name.startswith("total-")}
        assert set(totals.values()) == {"0"}
        other_engine(plain, [1, 2], branch)
    (counted,) = (one for one in plain.load_table(PLAIN).snapshots() if one.snapshot_id == head(plain))
    assert counted.summary is not None
    assert totals.keys() <= counted.summary.additional_properties.keys(), "all that an engine counts"
    assert counted.summary["total-records"] == "2"


def test_rows_that_an_engine_never_counted_are_counted_by_files(
    plain: Catalog, lake_location: LakeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in lakes of earlier versions, whose first versions had no totals."""
    lake = Lake(lake_location)
    assert lake.size(PLAIN) is None
    monkeypatch.setattr("dts_assets.store.branches._TOTALS_OF_NOTHING", {"made-by": "an earlier version"})
    with branched(plain, PLAIN, None) as branch:
        other_engine(plain, [1, 2], branch)
    state, size = lake.state(PLAIN), lake.size(PLAIN)
    assert state is not None
    assert "total-records" not in state.properties
    assert size is not None
    assert size.rows == 2
    assert size.bytes > 0


@pytest.mark.parametrize("first", [[], [1]])
def test_a_table_that_went_on_meanwhile_stays_as_it_is(plain: Catalog, first: list[int]) -> None:
    if first:
        other_engine(plain, first)
    with pytest.raises(StaleGenerationError), branched(plain, PLAIN, head(plain)) as branch:  # noqa: PT012  # what happens meanwhile
        other_engine(plain, [7], branch)
        other_engine(plain, [8])
    assert content(plain) == [*first, 8]
    assert list(plain.load_table(PLAIN).metadata.refs) == ["main"]


def test_a_plan_of_an_older_table_is_refused_before_any_work(plain: Catalog) -> None:
    other_engine(plain, [1])
    with pytest.raises(StaleGenerationError), branched(plain, PLAIN, None):
        pytest.fail("the other engine is not asked")
    assert content(plain) == [1]


def test_the_branch_of_a_killed_run_is_removed_by_the_next_one(plain: Catalog) -> None:
    other_engine(plain, [1])
    left = branched(plain, PLAIN, head(plain))
    other_engine(plain, [9], left.__enter__())
    with branched(plain, PLAIN, head(plain)) as branch:
        other_engine(plain, [2], branch)
    assert content(plain) == [1, 2]
    assert list(plain.load_table(PLAIN).metadata.refs) == ["main"]
    with pytest.raises(StaleGenerationError):
        left.__exit__(None, None, None)
    assert content(plain) == [1, 2]


def test_an_engine_that_commits_nothing_changes_nothing(plain: Catalog) -> None:
    other_engine(plain, [1])
    with branched(plain, PLAIN, head(plain)):
        pass
    assert content(plain) == [1]
    assert list(plain.load_table(PLAIN).metadata.refs) == ["main"]
