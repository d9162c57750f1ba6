"""A table that was set back is refused by its name until it is set forward; whatever else versions can do is let be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from dts_assets.errors import SetBackTableError
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.schemas import SYSTEM_TABLES
from tests.store.conftest import IDENTIFIER, Cells
from tests.store.test_ledger import raw

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from dts_assets.store.catalog import LakeLocation


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    return Lake(lake_location)


def versions(cells: Cells, lake: Lake, count: int) -> list[int]:
    """Commits of one cell each; the ids of their Iceberg snapshots."""
    found = []
    for number in range(count):
        files = cells.write([(0, number)], f"g{number}")
        made = lake.replace(IDENTIFIER, cells.rectangle([0], [number]), files)
        assert made.snapshot_id is not None
        found.append(made.snapshot_id)
    return found


def table_of(cells: Cells) -> Table:
    return cells.catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize(
    "look",
    [
        lambda lake: lake.table(IDENTIFIER),
        lambda lake: lake.state(IDENTIFIER),
        lambda lake: lake.data_files(IDENTIFIER),
        lambda lake: lake.scan(IDENTIFIER),
        lambda lake: lake.ensure(IDENTIFIER, SYSTEM_TABLES["ddl"]),
    ],
    ids=["table", "state", "data_files", "scan", "ensure"],
)
@pytest.mark.parametrize("back", [1, 2])
def test_a_table_that_was_set_back_is_refused(
    cells: Cells, lake: Lake, look: Callable[[Lake], object], back: int
) -> None:
    ids = versions(cells, lake, 3)
    look(lake)
    table_of(cells).manage_snapshots().rollback_to_snapshot(ids[-1 - back]).commit()
    with pytest.raises(SetBackTableError) as caught:
        look(lake)
    assert (caught.value.current, caught.value.newest) == (ids[-1 - back], ids[-1])
    assert "shop.cells" in str(caught.value)
    table_of(cells).manage_snapshots().set_current_snapshot(ids[-1]).commit()
    look(lake)


def test_branches_tags_and_a_move_forward_are_no_way_back(cells: Cells, lake: Lake) -> None:
    ids = versions(cells, lake, 3)
    table_of(cells).manage_snapshots().create_branch(ids[0], "audit").create_tag(ids[1], "monday").commit()
    table = table_of(cells)
    table.append(table.scan().to_arrow().slice(0, 1), branch="audit")  # newer than all of main
    table = table_of(cells)
    assert table.metadata.last_sequence_number > (table.current_snapshot().sequence_number or 0)  # type: ignore[union-attr]
    assert lake.state(IDENTIFIER)
    versions(cells, lake, 1)
    assert lake.state(IDENTIFIER)


def test_a_table_without_versions_is_as_it_should_be(cells: Cells, lake: Lake) -> None:
    assert lake.table(IDENTIFIER) is not None
    assert lake.state(IDENTIFIER) is None


def test_old_versions_that_expired_are_no_way_back(cells: Cells, lake: Lake) -> None:
    ids = versions(cells, lake, 3)
    table_of(cells).maintenance.expire_snapshots().by_ids(ids[:2]).commit()
    assert lake.state(IDENTIFIER)


def test_a_ledger_that_was_set_back_is_refused(lake: Lake) -> None:
    ledger = Ledger(lake.catalog, "shop")
    for number in range(2):
        row = raw(0, number)
        ledger.replace_raw_windows([row.cell], [row])
    table = lake.catalog.load_table(("shop", "raw_windows"))
    table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit()
    row = raw(0, 2)
    with pytest.raises(SetBackTableError):
        ledger.raw_windows()
    with pytest.raises(SetBackTableError):
        ledger.replace_raw_windows([row.cell], [row])
