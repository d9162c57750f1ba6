"""Source positions, offsets, frontiers and levels: small values, and how they are ordered."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dts_assets
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import ServerPosition, SourcePosition, file_number, has_place, timeline_of
from dts_assets.model.problems import Completeness

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "number"),
    [("mysql-bin.000005", 5), ("binlog.999999", 999_999), ("binlog.1000000", 1_000_000), ("", 0), ("000007", 7),
     ("mysql-bin.index", 0), ("my.db.000010", 10), ("mysql-bin.", 0),
     ("mysql-bin.²", 0), ("mysql-bin." + "9" * 18, 10**18 - 1), ("mysql-bin." + "9" * 19, 0)],
)  # fmt: skip
def test_the_number_of_a_binlog_file(name: str, number: int) -> None:
    assert file_number(name) == number


@pytest.mark.parametrize(
    ("name", "number", "timeline"),
    [("000000010000000000000001", 1, 1), ("00000002000000000000000F", 15, 2), ("000000010000000100000000", 4096, 1),
     ("0000000A0000001000000FFF", 0x10FFF, 10), ("000000010000000000001000", 0, 0), ("00000001000000000000001", 0, 0),
     ("0/16B3748", 0x16B3748, 0), ("16/B374D848", 0x16B374D848, 0), ("FFFFFFFF/FFFFFFFF", 0, 0), ("0/g", 0, 0)],
)  # fmt: skip
def test_names_of_postgresql_have_the_number_of_their_place(name: str, number: int, timeline: int) -> None:
    """Beyond FFF there is no segment: four gigabytes have 4096 of a megabyte."""
    assert (file_number(name), timeline_of(name), has_place(name)) == (number, timeline, number > 0)


def test_a_place_needs_no_file_in_postgresql() -> None:
    assert has_place("")
    assert not has_place("A")


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_segments_are_ordered_as_their_places(one: int, other: int) -> None:
    numbers = [
        file_number(f"{3:08X}{lsn >> 32:08X}{(lsn & 0xFFFFFFFF) >> 24:08X}") for lsn in (one, other)
    ]  # fmt: skip
    assert (numbers[0] < numbers[1]) == (one >> 24 < other >> 24)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_files_are_ordered_by_number_even_where_it_outgrows_its_digits(one: int, other: int) -> None:
    assert (file_number(f"binlog.{one:06d}") < file_number(f"binlog.{other:06d}")) == (one < other)


def test_positions_are_ordered_by_lineage_then_file_then_position() -> None:
    ascending = [
        SourcePosition(0, 9, 400), SourcePosition(0, 10, 4), SourcePosition(0, 10, 30), SourcePosition(1, 1, 4),
    ]  # fmt: skip
    assert sorted(reversed(ascending)) == ascending
    assert str(ascending[0]) == "0:9:400"


def test_an_offset_range_is_half_open() -> None:
    assert len(OffsetRange(3, 7)) == 4
    assert len(OffsetRange(7, 7)) == len(OffsetRange(9, 7)) == 0
    assert str(OffsetRange(3, 7)) == "[3, 7)"


def test_levels_of_completeness_are_ordered_weakest_first() -> None:
    levels = [Completeness.INCOMPLETE, Completeness.OBSERVED, Completeness.CONTIGUOUS, Completeness.PROVEN]
    assert [level.rank for level in levels] == [0, 1, 2, 3]


LOW, CUT, HIGH = SourcePosition(0, 1, 10), SourcePosition(0, 1, 20), SourcePosition(0, 1, 30)


@pytest.mark.parametrize(
    ("hour", "position", "holds"),
    [(0, HIGH, True), (1, HIGH, True), (2, LOW, True), (2, CUT, True), (2, HIGH, False), (3, CUT, True), (4, LOW, False)],
)  # fmt: skip
def test_a_frontier_holds_whole_windows_and_the_changes_up_to_the_cut(
    hour: int, position: SourcePosition, holds: bool
) -> None:
    reached = Frontier(window=START + 3 * HOUR, whole_until=START + HOUR, cut=CUT)
    assert reached.holds(START + hour * HOUR, position) is holds


def test_an_empty_frontier_holds_nothing() -> None:
    assert not EMPTY_FRONTIER.holds(START, LOW)
    assert not Frontier(START, None, None).holds(START, LOW)


IN_ONE_RUN = {
    "stages/entry_facts.py": "CHECKPOINTs of one Kafka partition",
    "stages/entry_columns.py": "entries of one batch, server by server",
    "stages/run_tracker.py": "a run is of one server",
    "stages/transaction_tracker.py": "what was seen of one server",
}
"""The modules that make positions of lineage 0 of numbers that messages tell, before lineages are decided."""


def bare_positions() -> Iterator[str]:
    """The modules of the product that give a lineage to numbers that have none."""
    root = Path(dts_assets.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("SourcePosition"):
                lineage, *others = node.args
                if ast.unparse(lineage) == "0" and not all(isinstance(one, ast.Constant) for one in others):
                    yield path.relative_to(root).as_posix()


def test_a_position_gets_a_lineage_that_nobody_decided_in_few_modules() -> None:
    """Each of them follows one server, so that its positions compare; any other takes a place without a lineage."""
    assert {*bare_positions()} == {*IN_ONE_RUN}


@pytest.mark.parametrize("compared", [lt, le, gt, ge])
def test_places_at_servers_have_no_order(compared: Callable[[Any, Any], bool]) -> None:
    unordered: list[Any] = [ServerPosition(3, 700), ServerPosition(1, 4)]
    with pytest.raises(TypeError):
        compared(*unordered)
    with pytest.raises(TypeError):
        compared(ServerPosition(3, 700), SourcePosition(0, 3, 701))
    with pytest.raises(TypeError):
        sorted(unordered)


def test_a_place_at_a_server_is_a_position_in_a_lineage() -> None:
    place = ServerPosition(3, 700)
    assert place.of(2) == SourcePosition(2, 3, 700)
    assert SourcePosition(2, 3, 700).at_server == place
    assert (str(place), str(place.of(2))) == ("3:700", "2:3:700")
