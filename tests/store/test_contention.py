"""Calls that lose against other writers are repeated; all others are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from dts_assets.errors import LakeTableError, StaleGenerationError
from dts_assets.store import contention
from dts_assets.store.contention import until_it_gets_through


def locked(said: str = "database is locked") -> Exception:
    return OperationalError("INSERT", None, Exception(said))


def failing(times: int, error: Exception) -> tuple[list[int], Callable[[], str]]:
    tries: list[int] = []

    def attempt() -> str:
        tries.append(1)
        if len(tries) <= times:
            raise error
        return "through"

    return tries, attempt


@pytest.mark.parametrize("error", [locked(), locked("database is busy"), CommitFailedException("somebody else")])
def test_a_call_is_repeated_until_it_gets_through(error: Exception) -> None:
    tries, attempt = failing(3, error)
    assert until_it_gets_through("shop.cuts", attempt, lost=(CommitFailedException,)) == "through"
    assert len(tries) == 4


@pytest.mark.parametrize("error", [locked("disk I/O error"), CommitFailedException("not named"), ValueError("ours")])
def test_any_other_error_is_raised_at_once(error: Exception) -> None:
    tries, attempt = failing(3, error)
    with pytest.raises(type(error)):
        until_it_gets_through("shop.cuts", attempt)
    assert len(tries) == 1


def test_what_never_gets_through_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "GIVE_UP_AFTER", 0.05)
    with pytest.raises(LakeTableError, match=r"shop\.cuts .* other writers kept it busy"):
        until_it_gets_through("shop.cuts", failing(10_000, locked())[1])
    stale = StaleGenerationError("shop.cuts", expected="a", found="b")
    with pytest.raises(StaleGenerationError):
        until_it_gets_through("shop.cuts", failing(10_000, stale)[1], lost=(StaleGenerationError,))
