"""Features that meet over random workloads: the tables are those of the database, and a planted fault is found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from dts_assets.settings.models import Subscription
from tests.dts_emulator.server_lives import LifeRecorder, life_recorder
from tests.meetings.__main__ import main
from tests.meetings.cases import Case, Said, Step
from tests.meetings.features import Feature
from tests.meetings.machine import drawn_case, make_small, play

pytestmark = pytest.mark.database

F = Feature


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


@pytest.mark.more
@pytest.mark.parametrize("seed", range(3))
def test_features_that_meet(recorder: LifeRecorder, seed: int) -> None:
    case = drawn_case(recorder, seed, length=25)
    played = play(recorder, case)
    assert not played.faults, "\n".join([*played.faults, case.script()])
    assert played.counts["tables"] > 2


@pytest.mark.more
def test_a_planted_fault_is_found_and_made_small(recorder: LifeRecorder) -> None:
    """Rows that no filter leaves out; another feature, other statements and steps have nothing to do with it."""
    said = (
        "CREATE TABLE d.items (id INT PRIMARY KEY, f INT)",
        "CREATE TABLE d.bag (a INT, f INT)",
        "INSERT INTO d.items VALUES (1, 7)",
        "INSERT INTO d.bag VALUES (1, 7)",
        "INSERT INTO d.items VALUES (2, 70)",
    )
    spoken = tuple(Said(1, second, "d", sql) for second, sql in enumerate(said))
    case = Case(4, frozenset({F.FILTER, F.SOFT}), spoken, (Step("raw", 0, 0),))
    assert not play(recorder, case).faults
    with mock.patch.object(Subscription, "row_filter", return_value=None):
        played = play(recorder, case)
        assert played.faults
        small, found = make_small(recorder, case, played.signs, say=list[str]().append)
    assert found.faults
    assert small == Case(4, frozenset({F.FILTER}), (spoken[0], spoken[4]), ())


@pytest.mark.long
def test_half_an_hour_of_meetings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["meetings", "--seed", "1000", "--minutes", "30"])
    assert main() == 0
