"""How far the consumer group may be moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import SeenCheckpoint
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.group_offsets import offset_to_commit
from tests.ledger_rows import ingest_row

CELL = Cell(0, WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC)).at(0))
NOWHERE = SourcePosition(0, 0, 0)


def decoded_row(start: int, end: int, checkpoint: int | None) -> IngestWindow:
    marks = (
        []
        if checkpoint is None
        else [SeenCheckpoint("", offset, NOWHERE, None, False) for offset in (start, checkpoint)]
    )
    return ingest_row(CELL, OffsetRange(start, end), checkpoints=tuple(marks))


def cells(*found: tuple[int, int, int | None]) -> list[IngestWindow]:
    return [decoded_row(*one) for one in found]


CHAIN = cells((10, 20, 15), (20, 30, None), (30, 40, 38))
CASES = [
    # decoded, start, committed, the offset to commit
    ([], 0, None, None),
    (CHAIN, 10, None, 39),
    (CHAIN, 10, 39, None),
    (CHAIN, 10, 50, None),
    (CHAIN, 10, 12, 39),
    (CHAIN[:2], 10, None, 16),
    (CHAIN[:2], 16, 16, None),
    (CHAIN[1:2], 20, None, None),
    ([CHAIN[0], CHAIN[2]], 10, None, 16),
    (CHAIN[1:], 10, None, None),
    (CHAIN[::-1], 10, None, 39),
    (cells((10, 10, None), (10, 20, 12)), 10, None, 13),
]  # fmt: skip


@pytest.mark.parametrize(("decoded", "start", "committed", "expected"), CASES)
def test_behind_the_last_checkpoint_of_the_chain(
    decoded: list[IngestWindow], start: int, committed: int | None, expected: int | None
) -> None:
    assert offset_to_commit(decoded, start=start, committed=committed, by_checkpoint=True) == expected


def test_without_checkpoints_the_end_of_the_chain_counts() -> None:
    assert offset_to_commit(CHAIN, start=10, committed=None, by_checkpoint=False) == 40
    assert offset_to_commit([CHAIN[0], CHAIN[2]], start=10, committed=15, by_checkpoint=False) == 20
    assert offset_to_commit(CHAIN, start=10, committed=40, by_checkpoint=False) is None


lengths = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), max_size=12)


@given(lengths, st.booleans(), st.none() | st.integers(0, 60))
def test_never_past_what_is_stored_never_back(
    made: list[tuple[int, bool, int]], by_checkpoint: bool, committed: int | None
) -> None:
    decoded, at = [], 0
    for length, checkpoint, hole in made:
        decoded.append(decoded_row(at, at + length, at if checkpoint and length else None))
        at += length + hole
    found = offset_to_commit(decoded, start=0, committed=committed, by_checkpoint=by_checkpoint)
    if found is None:
        return
    covered = {offset for one in decoded for offset in range(one.offsets.start, one.offsets.end)}
    assert covered.issuperset(range(found))
    assert committed is None or found > committed
    assert not by_checkpoint or found - 1 in {mark.offset for one in decoded for mark in one.checkpoints}
