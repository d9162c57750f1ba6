"""What a cell says of its own completeness is read back as it was written."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import Catalog

from dts_assets.model.delivery import (
    NOTHING_DELIVERED,
    CellDelivery,
    Hole,
    SeqIds,
    ShardSequence,
    ShardTransactions,
    Transaction,
)
from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.store.columns import columns_of
from dts_assets.store.ledger import Ledger
from dts_assets.store.rows import to_row
from tests.store.test_ledger import GRID

OPEN = Transaction("0-1-7", SourcePosition(0, 3, 9), 5, 77, begun=False)
FULL = CellDelivery(
    5, 9, 4, 1, 2, (Hole(6, 7, 8),),
    (ShardSequence("a", 5, 5, 9, 9, 12, 1, 2, 3, (Hole(7, 7, 8),)), ShardSequence("b", 1, 6, 1, 6, 1, 0, 0, 0)),
    (
        ShardTransactions("a", 3, 2, 7, OPEN, (OPEN,), 1, SourcePosition(0, 4, 1), 9, "0:1-7", 1, True),
        ShardTransactions("b", 0, 0, 0, None, (), 0, None, None, None, 0, False),
    ),
    3, SeqIds(1, 9, 2),
)  # fmt: skip


def row(number: int, delivery: CellDelivery, grid: WindowGrid = GRID) -> IngestWindow:
    return IngestWindow(
        0, grid.at(number), 0, OffsetRange(5, 10), Counts(), None, None, (), ClosedBy.MESSAGE, Completeness.OBSERVED, (), "1",
        "g", (), delivery=delivery,
    )  # fmt: skip


@pytest.mark.parametrize("delivery", [FULL, NOTHING_DELIVERED])
def test_the_ledger_gives_back_what_was_delivered(catalog: Catalog, delivery: CellDelivery) -> None:
    ledger = Ledger(catalog, "shop")
    ledger.replace_windows([Cell(0, GRID.at(0))], [row(0, delivery)])
    assert ledger.windows() == [row(0, delivery)]


def test_every_fact_has_its_column() -> None:
    names = [name for name, _ in columns_of(CellDelivery)]
    assert [name for name in to_row(row(0, FULL)) if name in names] == names
