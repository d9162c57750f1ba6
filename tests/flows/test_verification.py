"""A lake compared with the real MariaDB that it was made of: equal at each moment, and unequal where a cell was damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_assets.flows.verification import verify_at
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import moment_of
from dts_emulator.source.server import Server, private_server
from tests.flows.verified_source import fill, lake_of, place_of

pytestmark = pytest.mark.database

ORDERS, PAIRS, BAG = (TableId("d", "", name) for name in ("orders", "pairs", "bag"))


@pytest.fixture
def server() -> Iterator[Server]:
    with private_server() as running:
        fill(running)
        yield running


def test_an_equal_lake_is_equal(server: Server, tmp_path: Path) -> None:
    harness = lake_of(server, tmp_path)
    with moment_of(place_of(server)) as moment:
        found = verify_at(harness.pipeline, moment, tmp_path / "moment", timeout=0)
    assert {table: (one.is_equal, one.refused) for table, one in found.verdicts.items()} == dict.fromkeys(
        [ORDERS, PAIRS, BAG], (True, "")
    )
    assert all(one.stored is not None for one in found.verdicts.values())
    assert found.verdicts[ORDERS].lake.rows == 302
    assert set(found.verdicts[ORDERS].left_out) == {"price"}
    assert found.verdicts[ORDERS].lake.misfits == found.verdicts[ORDERS].source.misfits == 2
