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
from dts_assets.flows.follow import PACE, PATIENCE, Refreshed, follow
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
