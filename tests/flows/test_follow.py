"""What a live run does about an error: trouble that may pass is waited out, and all other trouble ends the run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from dts_assets.errors import OvertakenError, SetBackTableError
from dts_assets.errors.machine import MissingJavaError
from dts_assets.errors.sources import BrokerDeniedError, BrokerLoginError, UnknownTopicError, UnreachableBrokerError
from dts_assets.flows.follow import LATEST_UPKEEP, PACE, PATIENCE, Refreshed, follow
from dts_assets.flows.upkeep import NO_UPKEEP, Upkeep
from tests.flows.harness import table_id
from tests.flows.history import border

AWAY = UnreachableBrokerError("host:9092", "connection refused", seconds=5)
WRONG = BrokerLoginError("host:9092", "SCRAM-SHA-512")
REFUSALS = [WRONG, BrokerDeniedError("host:9092", "read topic shop"), UnknownTopicError("host:9092", "shop")]
PASSING = [
    AWAY,
    OvertakenError("shop", "p00"),
    OperationalError("SELECT", None, Exception("database is locked")),
    CommitFailedException("409"),
]
TOO_MANY = int(PATIENCE / PACE) + 2


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> Any:
    """Follow for ten minutes of a clock that only sleep moves; None stands for a refresh that succeeds."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def run(troubles: list[Exception | None]) -> None:
        def refreshed(*_: Any, **__: Any) -> Refreshed:
            if troubles and (trouble := troubles.pop(0)) is not None:
                raise trouble
            return Refreshed((), (), ())

        monkeypatch.setattr("dts_assets.flows.follow.refresh", refreshed)
        nothing = cast("Any", None)
        lasts = timedelta(minutes=10)
        list(
            follow(
                lambda: nothing, border(0), lasts=lasts, spark=nothing,
                progress=lines.append, clock=lambda: now, sleep=sleep,
            )
        )  # fmt: skip

    return run


SCATTERED = Upkeep(closed=True)


def kept(
    monkeypatch: pytest.MonkeyPatch,
    seconds: list[float],
    left: list[Upkeep],
    troubles: tuple[Exception, ...] = (),
) -> list[float]:
    """When upkeep is done, by a clock that refreshes and sleep move: one refresh after the other, some of which leave upkeep."""
    now, moments, failing = 0.0, list[float](), list(troubles)

    def sleep(for_seconds: float) -> None:
        nonlocal now
        now += for_seconds

    def refreshed(*_: Any, defer: Any, **__: Any) -> Refreshed:
        sleep(seconds.pop(0) if seconds else 1.0)
        if left:
            defer(left.pop(0))
        return Refreshed((), (), ())

    def kept_up(*_: Any, **__: Any) -> None:
        if failing:
            raise failing.pop(0)
        moments.append(now)

    monkeypatch.setattr("dts_assets.flows.follow.refresh", refreshed)
    monkeypatch.setattr("dts_assets.flows.follow.keep_up", kept_up)
    nothing = cast("Any", None)
    list(
        follow(
            lambda: nothing, border(0), lasts=timedelta(minutes=10), spark=nothing,
            progress=lambda _: None, clock=lambda: now, sleep=sleep,
        )
    )  # fmt: skip
    return moments


def test_upkeep_waits_for_a_refresh_with_time_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, [9.0, 8.0, 3.0], [SCATTERED]) == [23.0]
    assert kept(monkeypatch, [2.0], [SCATTERED, NO_UPKEEP, SCATTERED]) == [2.0, 21.0]
    assert kept(monkeypatch, [], []) == []


def test_upkeep_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refreshes that have no time to spare, and upkeep of a run that is about to end."""
    assert kept(monkeypatch, [12.0] * 60, [SCATTERED]) == [12.0 * LATEST_UPKEEP]
    assert kept(monkeypatch, [60.0] * 10, [SCATTERED]) == [600.0]
    assert kept(monkeypatch, [1.0] * 40, [Upkeep(still=frozenset([table_id("one")]))]) == [10.0 * LATEST_UPKEEP - 9.0]


def test_upkeep_that_meets_a_passing_trouble_is_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, [2.0], [SCATTERED], (AWAY, CommitFailedException("409"))) == [21.0]
    with pytest.raises(ValueError, match="odd"):
        kept(monkeypatch, [2.0], [SCATTERED], (ValueError("odd"),))


def again(lines: list[str]) -> int:
    return sum("Trying again" in line for line in lines)


@pytest.mark.parametrize("trouble", PASSING, ids=lambda trouble: type(trouble).__name__)
def test_trouble_that_may_pass_is_waited_out(trouble: Exception, run: Any, lines: list[str]) -> None:
    run([trouble] * 10)
    assert again(lines) == 10


def test_trouble_that_does_not_pass_in_time_ends_the_run(run: Any) -> None:
    with pytest.raises(UnreachableBrokerError):
        run([AWAY] * TOO_MANY)


@pytest.mark.parametrize(
    "trouble",
    [ValueError("odd"), SetBackTableError("shop.entries", current=1, newest=2), MissingJavaError(), *REFUSALS],
    ids=lambda trouble: type(trouble).__name__,
)
def test_other_trouble_ends_the_run_at_once(trouble: Exception, run: Any, lines: list[str]) -> None:
    with pytest.raises(type(trouble)):
        run([trouble])
    assert again(lines) == 0


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_a_broker_that_let_the_run_in_may_refuse_it_while_it_restarts(
    refusal: Exception, run: Any, lines: list[str]
) -> None:
    run([None, *[refusal] * 5])
    assert again(lines) == 5
    run([None, AWAY, refusal, AWAY, None])
    with pytest.raises(type(refusal)):
        run([None, *[refusal] * TOO_MANY])
