"""Moments as people write them, and the positions that they mean."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.source_moments import (
    AtGtid,
    AtPosition,
    AtTime,
    AtWindow,
    Moment,
    complete_until,
    moment_of,
    position_of,
)

UUID = "03b4169b-9ef3-5cb1-b1ba-ad0380a42bc7"
SEVEN = datetime(2026, 1, 5, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0:4:1187", AtPosition(0, 4, 1187)),
        ("4:1187", AtPosition(None, 4, 1187)),
        ("mysql-bin.000004:1187", AtPosition(None, 4, 1187)),
        ("mysql-bin.000004, 1187", AtPosition(None, 4, 1187)),
        ("1:mysql-bin.000004:1187", AtPosition(1, 4, 1187)),
        ("4711", AtPosition(None, 0, 4711)),
        ("0:1795626000:3856079964004679681", AtPosition(0, 1795626000, 3856079964004679681)),
        (f"{UUID}:5", AtGtid(f"{UUID}:5")),
        (f"{UUID}:tag:5", AtGtid(f"{UUID}:tag:5")),
        ("0-1-5", AtGtid("0-1-5")),
        ("2026-01-05-07:00", AtWindow(SEVEN)),
        ("2026-01-05T07:00", AtTime(SEVEN)),
        (" 2026-01-05 07:00:00 ", AtTime(SEVEN)),
        ("2026-01-05T15:00+08:00", AtTime(SEVEN)),
        ("2026-01-05", AtTime(SEVEN.replace(hour=0))),
        ("2026-01-05T07:00:00Z", AtTime(SEVEN)),
    ],
)
def test_a_moment_is_told_by_its_form(text: str, moment: Moment) -> None:
    assert moment_of(text) == moment


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "0:1:2:3", f"{UUID}:1-5", f"{UUID}", "2026-13-05", "2026-01-05T25:00", "-4:7", "4:99999999999999999999",
     f"4:{1 << 63}", "٤:٧", "shop.orders", "1e9", f"{UUID}:5' or 1 = 1"],
)  # fmt: skip
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no (moment; write a position|position)"):
        moment_of(text)


def test_a_position_needs_its_lineage_where_there_are_several() -> None:
    asked = AtPosition(None, 4, 7)
    assert position_of(asked, []) == position_of(asked, [0]) == SourcePosition(0, 4, 7)
    assert position_of(AtPosition(1, 4, 7), [0, 1]) == SourcePosition(1, 4, 7)
    with pytest.raises(ValueError, match=r"3 lineages \(0 to 2\), so say which one: 2:4:7"):
        position_of(asked, [2, 0, 1])
    with pytest.raises(ValueError, match="no lineage 5; there are 0, 1"):
        position_of(AtPosition(5, 4, 7), [0, 1])


def test_everything_is_there_up_to_the_cut_and_in_windows_that_count_as_a_whole() -> None:
    eight, cut = SEVEN.replace(hour=8), SourcePosition(0, 4, 700)
    seen = [(SEVEN, SourcePosition(0, 4, 800)), (eight, SourcePosition(0, 4, 900))]
    assert complete_until(EMPTY_FRONTIER, seen) is None
    assert complete_until(Frontier(eight, None, cut), seen) == cut
    assert complete_until(Frontier(eight, SEVEN, cut), seen) == SourcePosition(0, 4, 800)
    assert complete_until(Frontier(eight, eight, None), seen) == SourcePosition(0, 4, 900)
    assert complete_until(Frontier(SEVEN, SEVEN, SourcePosition(0, 5, 1)), seen) == SourcePosition(0, 5, 1)
