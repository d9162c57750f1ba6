"""When the files of a window are compacted."""

from __future__ import annotations

import pytest

from dts_assets.planning.compactions import (
    EVERY,
    FEW,
    FileShape,
    files_to_compact,
    is_worth_compacting,
    needs_compaction,
)


@pytest.mark.parametrize(
    ("readings", "still_open", "needed"),
    [(1, False, False), (2, False, True), (2, True, False), (EVERY - 1, True, False), (EVERY, True, True),
     (EVERY + 1, True, False), (2 * EVERY, True, True), (EVERY + 1, False, True)],
)  # fmt: skip
def test_closed_windows_are_compacted_at_once_and_open_ones_now_and_then(
    readings: int, still_open: bool, needed: bool
) -> None:
    assert needs_compaction(readings, still_open=still_open) is needed


def test_few_files_are_left_as_they_are() -> None:
    assert [is_worth_compacting(files) for files in (0, FEW, FEW + 1)] == [False, False, True]


MB = 1 << 20


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ([], []),
        ([FileShape(100 * MB, 1000, 100)], []),
        ([FileShape(100 * MB, 1000, 101)], [0]),
        ([FileShape(100 * MB, 1000, 101), FileShape(MB, 10)], [0]),
        ([FileShape(MB, 10)] * 4 + [FileShape(100 * MB, 1000, 5)], []),
        ([FileShape(MB, 10)] * 5 + [FileShape(100 * MB, 1000, 5)], [0, 1, 2, 3, 4]),
        ([FileShape(MB, 10), FileShape(9 * MB, 10, 9), *[FileShape(MB, 10)] * 4], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_worn_files_and_many_small_ones_of_a_snapshot_are_written_anew(
    files: list[FileShape], chosen: list[int]
) -> None:
    assert files_to_compact(files) == chosen
