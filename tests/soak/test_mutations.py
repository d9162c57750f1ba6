"""Every single lost, repeated or damaged message of a recording is found where it is; clean recordings raise no alarm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.problems import Completeness, ProblemCode
from dts_emulator.faults.damage import FoundBy
from dts_emulator.faults.injection import Kind
from dts_emulator.faults.recorded_topic import Topic
from tests.soak.ledger import Judged, judge
from tests.soak.many import RUNS, many
from tests.soak.mutations import Recording, Report, equations, shop, slice_of
from tests.tiers import chosen, times

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
MESSAGES = times(500, 100_000)
SINGLE_FAULTS = times(5, 25)
REDELIVERIES = (Kind.REPEAT, Kind.REREAD, Kind.CUT)
FIRST = ("dts-protobuf", "drs-json-c", "canal-json")
"""One format of each kind: of numbers without a gap, of ids, and of neither."""
LOSSES = (Kind.DROP, Kind.TRUNCATE, Kind.REORDER, Kind.FLIP)


@pytest.fixture(scope="module")
def topic() -> Topic:
    return shop()


@pytest.fixture(scope="module", params=[0, 90], ids=["many rows", "large sets"])
def recording(topic: Topic, request: pytest.FixtureRequest) -> Recording:
    start = MIDNIGHT + timedelta(minutes=request.param)
    return Recording.of(slice_of(topic, start, start + timedelta(minutes=6)), timedelta(minutes=2))


def assert_proven(judged: Judged) -> None:
    """Every window is proven but the last one of a slice: it may end behind its last CHECKPOINT, where nothing vouches."""
    *earlier, last = (level for _, level in sorted(judged.windows.items()))
    assert set(earlier) == {Completeness.PROVEN}
    assert last in (Completeness.PROVEN, Completeness.CONTIGUOUS)


@pytest.mark.more
@pytest.mark.parametrize("minutes", [60, pytest.param(7, marks=pytest.mark.long)])
def test_the_clean_recording_is_proven(topic: Topic, minutes: int) -> None:
    clean = Recording.of(topic, timedelta(minutes=minutes)).clean
    judged = judge(clean)
    assert (judged.of_cells, judged.of_windows, clean.quarantine, clean.unknown) == ([], [], [], {})
    assert set(judged.windows.values()) == {Completeness.PROVEN}
    assert equations(clean, Recording.of(topic, timedelta(minutes=minutes)).tables) == []


@pytest.mark.more(after=1)
@pytest.mark.parametrize("kind", REDELIVERIES)
def test_what_comes_again_or_in_more_pieces_changes_nothing(recording: Recording, kind: Kind) -> None:
    for seed in range(times(1, 4)):
        mutated = recording.mutated(seed=seed, kinds=[kind], count=12)
        assert mutated.report().violations == []
        assert (mutated.judged.of_cells, mutated.judged.of_windows, mutated.outcome.quarantine) == ([], [], [])
        assert_proven(mutated.judged)
        assert sorted(mutated.outcome.rows.contents.tolist()) == sorted(recording.clean.rows.contents.tolist())


@pytest.mark.more(after=1)
@pytest.mark.parametrize("kind", LOSSES)
def test_a_single_fault_is_found_where_it_is(recording: Recording, kind: Kind) -> None:
    total = Report()
    for seed in range(SINGLE_FAULTS):
        mutated = recording.mutated(seed=seed, kinds=[kind], count=1)
        report = mutated.report()
        total.add(report)
        (fault,) = mutated.faults
        if report.kinds[kind].located and kind in (Kind.DROP, Kind.TRUNCATE, Kind.REORDER):
            assert Completeness.INCOMPLETE in mutated.judged.windows.values(), fault.json()
        if kind is Kind.DROP and fault.found_by is FoundBy.SEQUENCE:
            gaps = [problem for _, problem in mutated.judged.of_cells if problem.code is ProblemCode.GAP]
            assert [one.first_offset for one in gaps] == [fault.first_offset]
    seen = total.kinds[kind]
    assert total.violations == []
    assert (seen.faults, seen.missed) == (SINGLE_FAULTS, 0)
    assert seen.found + seen.not_knowable == SINGLE_FAULTS
    if kind is not Kind.FLIP:  # of which many only change a value
        assert seen.located >= SINGLE_FAULTS - 2


def test_a_message_that_is_lost_without_numbers_leaves_a_hole_that_no_level_hides(topic: Topic) -> None:
    start = MIDNIGHT + timedelta(minutes=90)
    bare = Recording.of(slice_of(topic, start, start + timedelta(minutes=6)), timedelta(minutes=2), numbered=False)
    assert_proven(judge(bare.clean))
    for seed in range(times(3, 12)):
        mutated = bare.mutated(seed=seed, kinds=[Kind.DROP], count=1, keep_offsets=True)
        holes = [one for cell in mutated.outcome.cells.values() for one in cell.delivery.offset_holes]
        assert [(one.first, one.last) for one in holes] == [(mutated.faults[0].from_offset,) * 2]
        (window,) = [one for one in bare.windows if one.start <= mutated.faults[0].time < one.end]
        assert mutated.judged.windows[window] in (Completeness.OBSERVED, Completeness.INCOMPLETE)


@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("format_name", chosen([*FIRST, *sorted(RUNS.keys() - FIRST)], len(FIRST)))
def test_many_mutated_messages_make_no_wrong_row(format_name: str) -> None:
    report = many(format_name, MESSAGES, processes=times(1, 2))
    assert report.violations == []
    assert report.messages >= MESSAGES
    assert report.rows > 0
    for kind, seen in report.kinds.items():
        assert seen.missed == 0, kind
        assert seen.harmless + seen.found + seen.not_knowable == seen.faults
    if format_name == "canal-json":  # where each message counts as it is, and bytes alone can be wrong
        assert all(report.kinds[kind].harmless == report.kinds[kind].faults for kind in (Kind.REPEAT, Kind.REREAD))
        assert all(report.kinds[kind].not_knowable == report.kinds[kind].faults for kind in (Kind.DROP, Kind.REORDER))
        assert report.kinds[Kind.TRUNCATE].located == report.kinds[Kind.TRUNCATE].faults
        assert report.kinds[Kind.FLIP].located > report.kinds[Kind.FLIP].faults / 4
        return
    numbered = format_name in ("dts-protobuf", "dts-protobuf of PostgreSQL", "dts-avro", "dts-json")
    for kind in (Kind.REORDER, Kind.TRUNCATE, *([Kind.DROP] if numbered else [])):
        seen = report.kinds[kind]
        assert seen.located >= (seen.faults - seen.harmless) * 0.97
    if numbered:
        harmless = {kind for kind, seen in report.kinds.items() if seen.harmless == seen.faults}
        assert harmless == report.kinds.keys() & set(REDELIVERIES)
        return
    assert report.kinds[Kind.DROP].not_knowable == report.kinds[Kind.DROP].faults
    for kind in (Kind.REPEAT, Kind.REREAD):  # of some nobody can tell whether they are pieces of one event
        seen = report.kinds[kind]
        assert seen.harmless + seen.located == seen.faults
        assert seen.harmless > seen.faults * 0.8
