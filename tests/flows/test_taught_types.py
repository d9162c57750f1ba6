"""Types that values taught, because no text of a type says unsigned: they are the same whatever windows came first."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.flows.harness import Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.short import open_short
from tests.flows.source_tables import BIGINT, INT, TEXT, Kind
from tests.flows.test_types_over_time import found, lives
from tests.tiers import chosen

LARGE = Kind("bigint(20)", lambda value: dts_messages.number(value, pb.UINT64), BIGINT.make)
SMALL = Kind("int(10)", lambda value: dts_messages.number(value, pb.UINT32), INT.make)
SIGNED = Kind("int(10)", lambda value: dts_messages.number(value, pb.INT32), INT.make)
MOST, FOUR = Decimal((1 << 64) - 1), (1 << 32) - 1

LIFE = (
    [(LARGE, MOST), (LARGE, Decimal(7)), (LARGE, Decimal(1 << 63))],
    [(BIGINT, -1), (LARGE, MOST), (BIGINT, 5)],
    [(LARGE, MOST), (TEXT, "tea"), (LARGE, Decimal(3))],
    [(SIGNED, -1), (SMALL, FOUR), (TEXT, "tea")],
    [(SMALL, FOUR), (LARGE, MOST), (SIGNED, 7)],
    [(SIGNED, 3), (BIGINT, -3), (LARGE, MOST)],
)
TYPES = {
    "id": "int", "c0": "decimal(20,0)", "c1": "decimal(20,0)", "c2": "string", "c3": "string",
    "c4": "decimal(20,0)", "c5": "decimal(20,0)",
}  # fmt: skip


def shown(harness: Harness) -> tuple[Any, ...]:
    types, changes, hashes, snapshot, invalid = found(harness)
    own = {column.name: column.own_types for column in known_tables(harness.pipeline)[table_id("items")]}
    return types, own, changes, hashes, snapshot, invalid, harness.pipeline.ledger.paused_tables()


@pytest.mark.more
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("order", chosen(list(permutations(range(3))), 1))
def test_a_type_that_values_taught_stays(order: tuple[int, ...], lost: bool, tmp_path: Path) -> None:
    _, messages = lives(*LIFE)
    whole = open_short(bench_in_process(tmp_path / "a", "whole"), tmp_path / "capture", messages, windows=3)
    whole.all()
    assert shown(whole)[0] == TYPES
    assert shown(whole)[-2:] == (0, [])
    other = open_short(bench_in_process(tmp_path / "b", "other"), tmp_path / "capture2", messages, windows=3)
    for window in order:
        other.all(window)
        assert not other.pipeline.ledger.paused_tables()
        if lost:
            other.pipeline.settings.registry_path.unlink()
    other.settle()
    assert shown(other) == shown(whole)
