"""Messages and entries leave by size: the oldest days, as few as are needed, and never a window that is still needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.model.message_retention import ENTRIES, RAW
from tests.flows.aging import DAYS, Days, followed, number_of, windows_with_files
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import chosen

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def whole(days: Days, quick: None, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return followed(bench_in_process(tmp_path_factory.mktemp("whole"), "sized"), days, "sized", ages={}, by=8)


def bytes_of(harness: Harness, layer: str) -> int:
    return sum(file.bytes for file in harness.pipeline.lake.data_files(harness.pipeline.path(layer)))


def first_window(whole: Harness, most: int) -> int:
    """The first window of the first day from which on a lake has at most so many bytes of messages; the last days stay."""
    sizes: dict[int, int] = {}
    for file in whole.pipeline.lake.data_files(whole.pipeline.path(RAW)):
        day = number_of(file.partition["window_start"]) // 2
        sizes[day] = sizes.get(day, 0) + file.bytes
    fits = (day for day in range(DAYS - 1) if sum(size for one, size in sizes.items() if one >= day) <= most)
    return 2 * min(next(fits, DAYS), DAYS - 2)


@pytest.mark.parametrize("share", chosen([0.6, 0.0], 1))
def test_the_oldest_days_go_until_a_layer_is_small_enough(
    days: Days, quick: None, whole: Harness, tmp_path: Path, share: float
) -> None:
    most = {RAW: int(bytes_of(whole, RAW) * share), ENTRIES: int(bytes_of(whole, ENTRIES) * share)}
    sizes = {"raw_size": f"{most[RAW]}B", "entries_size": f"{most[ENTRIES]}B"}
    small = followed(bench_in_process(tmp_path, "sized"), days, "sized", ages=sizes, by=8)
    found = windows_with_files(small, RAW)
    border = first_window(whole, most[RAW])
    assert found[0][0] == border > windows_with_files(whole, RAW)[0][0], (
        "something has left, and no more than is needed"
    )
    # A set that began in the second day was whole in the sixth: where the sixth stays, the second does.
    assert found[1][0] == (3 if share else border)
    expected, shown = (one.everything(without={"closed_by"}) for one in (whole, small))
    for name in expected.keys() - {RAW, ENTRIES}:
        assert shown[name] == expected[name], name
    assert find_work(small.pipeline).nothing
