"""A year of troubles breaks no law, and a fault that is planted in planning breaks one: the laws can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dts_assets.flows import consumer_group, message_retention, tables
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.message_retention import ENTRIES, RAW
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning import boundaries, latches, leases, loss, raw_reads, staleness, ticks, work
from tests.tiers import times
from tests.year import flows, scheduler
from tests.year.events import Event
from tests.year.operators import Backfill, Cancel, Kill, OtherDecoding, OtherTypes, Pause
from tests.year.plans import KINDS, plan
from tests.year.play import Played, make_small, play, report
from tests.year.scheduler import Step
from tests.year.troubles import (
    BrokerAway,
    EngineAway,
    FailOver,
    MachineAway,
    MachineClock,
    Restart,
    Silence,
    Slow,
    SummerTime,
    TaskClock,
)
from tests.year.world import BEGIN, DAY, HOUR, NOTHING

SEED = 4
"""A world that is not live, of two Kafka partitions."""


def played(events: Sequence[Event], *, days: float = 3, hours: int = 3, seed: int = SEED) -> Played:
    return play(seed, events, days=days, every=timedelta(hours=hours))


def at(hours: float) -> timedelta:
    return hours * HOUR


# The laws hold


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 10)))
def test_no_law_is_broken_while_old_messages_leave(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_retention, "MESSAGES_KEPT", 50)
    days = times(9, 40)
    events = [one for one in plan(seed, days) if not isinstance(one, Backfill | OtherDecoding | OtherTypes)]
    found = play(seed, events, days=days, every=6 * HOUR, ages={"raw": "1d", "entries": "2d"})
    assert not found.broken, found.broken
    assert {row.layer for life in found.world.lives for row in life.memory.removed} == {RAW, ENTRIES}


@pytest.mark.parametrize("seed", range(times(2, 30)))
def test_no_law_is_broken_in_some_weeks(seed: int) -> None:
    days = times(8, 60)
    found = play(seed, plan(seed, days), days=days, every=6 * HOUR)
    assert not found.broken, found.broken
    assert found.world.counts["done"] > 30


@pytest.mark.long
@pytest.mark.timeout(1800)  # a live world has five times as many runs as others
@pytest.mark.parametrize("seed", range(3))
def test_no_law_is_broken_in_a_year(seed: int) -> None:
    found = play(seed, plan(seed, 365), days=365, every=12 * HOUR)
    assert not found.broken, found.broken
    assert len(found.world.read) > 90


@pytest.mark.more
def test_clocks_that_are_put_forward_and_back_lose_no_hour() -> None:
    found = played([SummerTime(at(10), at(20), HOUR)], days=1.5, hours=1)
    assert not found.broken, found.broken
    (life,) = found.world.lives
    windows = sorted({row.window for row in life.memory.raw.values()})
    assert [window.start for window in windows] == [windows[0].start + number * HOUR for number in range(len(windows))]


@pytest.mark.parametrize("kind", KINDS[:: times(5, 1)], ids=lambda kind: kind.__name__)
def test_each_trouble_alone_is_got_over(kind: type[Event]) -> None:
    random = Random(kind.__name__)
    drawn = [kind.of(random, at(hour)) for hour in (20, 30)]
    found = played([one for one in drawn if one.ends < 4 * DAY], hours=6)
    assert not found.broken, (drawn, found.broken)


# A seed repeats


def test_a_seed_is_a_plan_and_a_plan_is_a_year() -> None:
    assert plan(7, 365) == plan(7, 365) != plan(8, 365)
    assert {type(event) for seed in range(20) for event in plan(seed, 365)} == set(KINDS)
    first, again = (play(9, plan(9, 6), days=6, every=6 * HOUR) for _ in range(2))
    assert first.world.counts == again.world.counts
    assert first.world.life.scheduler.number == again.world.life.scheduler.number > 10
    assert [one.offsets for one in first.world.life.memory.raw_windows()] == [
        one.offsets for one in again.world.life.memory.raw_windows()
    ]


# The laws can fail


def latches_never_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(latches.Latch, "holds", lambda latch, now: True)


def stored_boundaries_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(boundaries, "_known", lambda stored: {})


def an_hour_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """As if windows were counted by a clock that is put forward that night."""
    until, gone = WindowGrid.until, BEGIN + 27 * HOUR

    def windows(grid: WindowGrid, *args: Any, **more: Any) -> Iterator[Window]:
        return (window for window in until(grid, *args, **more) if window.start != gone)

    patch.setattr(WindowGrid, "until", windows)


def all_entries_are_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staleness, "changed_inputs", lambda recorded, now: ("raw",))


def no_entries_are_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(work, "stale_entries", lambda *_, **__: ())


def the_frontier_passes_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        tables, "frontier", lambda cuts, grid, *, first, behind: Frontier(max(cuts, default=None), None, None)
    )


def the_group_goes_beyond_what_is_stored(patch: pytest.MonkeyPatch) -> None:
    def offset(decoded: Iterable[IngestWindow], **_: Any) -> int | None:
        return max((row.offsets.end for row in decoded), default=0) + 1

    patch.setattr(consumer_group, "offset_to_commit", offset)


def requests_are_never_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ticks, "LOOK_BACK_EVERY", timedelta(days=10_000))


def losses_have_no_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raw_reads, "gap_of", lambda offsets, watermark: [])


def more_is_lost_than_was_gone(patch: pytest.MonkeyPatch) -> None:
    def there(read: raw_reads.RawRead, watermark: Any) -> OffsetRange:
        return OffsetRange(min(max(read.offsets.start, watermark.low) + 1, read.offsets.end), read.offsets.end)

    patch.setattr(raw_reads.RawRead, "still_there", there)


def nobody_is_warned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loss, "WARN_BELOW", 0.0)


def silence_closes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(boundaries, "_closed_by_silence", lambda instant, closing: ClosedBy.OPEN)


def leases_are_taken_from_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduler, "may_take", lambda *_, **__: True)


def leases_of_the_dead_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases, "EXPIRES_AFTER", float("inf"))


def resumed_tables_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(work, "resumed_in", lambda row, paused: ())


def other_settings_change_nothing_behind(patch: pytest.MonkeyPatch) -> None:
    whole = work._made_from
    patch.setattr(work, "_made_from", lambda row, *rest: row is not None or whole(row, *rest))


def no_day_is_settled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flows, "settle_days", lambda pipeline, progress: None)


@dataclass(frozen=True)
class Mutant:
    """A fault, the events that show it, and words of the law that it breaks."""

    plant: Callable[[pytest.MonkeyPatch], None]
    events: tuple[Event, ...]
    words: str
    hours: int = 3
    days: float = field(default=3)


MUTANTS = (
    Mutant(latches_never_expire, (EngineAway(at(20), at(3)),), "the frontier stands"),
    Mutant(stored_boundaries_are_forgotten, (TaskClock(at(20), at(9), -2 * HOUR),), "do not meet"),
    Mutant(an_hour_is_left_out, (), "the frontier stands"),
    Mutant(all_entries_are_stale, (), "although nothing had happened"),
    Mutant(the_frontier_passes_a_gap, (EngineAway(at(20), at(6)),), "has no mark", hours=1, days=1.2),
    Mutant(the_group_goes_beyond_what_is_stored, (), "beyond"),
    Mutant(requests_are_never_repeated, (Cancel(at(20), NOTHING),), "the frontier stands"),
    Mutant(no_entries_are_stale, (OtherDecoding(at(20), at(12)),), "decoded as"),
    Mutant(losses_have_no_name, (BrokerAway(at(20), at(40)),), "does not say so"),
    Mutant(more_is_lost_than_was_gone, (), "does not say so"),
    Mutant(nobody_is_warned, (EngineAway(at(20), at(40)),), "without a warning"),
    Mutant(silence_closes_nothing, (Silence(at(20), at(50), 0),), "the frontier stands", days=4),
    Mutant(
        leases_are_taken_from_anybody, (Slow(at(20), at(9)), Backfill(at(21), NOTHING, 3, 1, Step.RAW)), "taken from"
    ),
    Mutant(leases_of_the_dead_are_kept, (MachineAway(at(20), at(2)), Kill(at(23), NOTHING)), "the frontier stands"),
    Mutant(resumed_tables_are_forgotten, (Pause(at(20), at(6), 1),), "which goes on"),
    Mutant(other_settings_change_nothing_behind, (OtherTypes(at(20), at(12)),), "made with"),
    Mutant(no_day_is_settled, (), "days again and again", hours=12, days=24),
)
_AT_ONCE = 7
"""The first ones are tried by every ``make test``."""


def named(mutant: Mutant, *, long: bool) -> Any:
    return pytest.param(mutant, id=mutant.plant.__name__, marks=[pytest.mark.long] if long else [])


@pytest.mark.more(after=1)
@pytest.mark.parametrize("mutant", [named(one, long=number >= _AT_ONCE) for number, one in enumerate(MUTANTS)])
def test_a_planted_fault_breaks_a_law(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    before = played(mutant.events, days=mutant.days, hours=mutant.hours)
    assert not before.broken, before.broken
    mutant.plant(monkeypatch)
    after = played(mutant.events, days=mutant.days, hours=mutant.hours)
    assert any(mutant.words in line for line in after.broken), after.broken


@pytest.mark.more
def test_a_plan_that_fails_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    requests_are_never_repeated(monkeypatch)
    others = [FailOver(at(9), NOTHING, 2, 3), Restart(at(15), NOTHING, 0, 3), MachineClock(at(30), at(1), HOUR)]
    events = [*others[:2], Cancel(at(20), NOTHING), *others[2:]]
    found = played(events)
    assert found.broken
    lines: list[str] = []
    small, again = make_small(SEED, events, kind=found.kind, days=3, every=3 * HOUR, say=lines.append)
    assert small == [Cancel(at(20), NOTHING)]
    assert again is not None
    assert again.kind == found.kind
    assert report(SEED, [(2, small[0])], again)[-1].endswith(f"--seed {SEED} --events 2 --as-found")
