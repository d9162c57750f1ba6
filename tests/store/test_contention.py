"""Calls that lose against other writers are repeated; all others are not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
    UnauthorizedError,
)
from pyspark.errors import PySparkException
from requests.exceptions import ConnectionError as NoConnectionError
from requests.exceptions import InvalidURL, ReadTimeout, SSLError
from sqlalchemy.exc import OperationalError

from dts_assets.errors import CatalogRefusalError, LakeChangeError, StaleGenerationError, UnavailableCatalogError
from dts_assets.store import contention
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.contention import explained_trouble, until_it_gets_through


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


def cut_off() -> Exception:
    return OperationalError("SELECT", None, Exception("SSL SYSCALL error"), connection_invalidated=True)


@pytest.mark.parametrize(
    "error",
    [
        locked(), locked("database is busy"), locked("deadlock detected"), cut_off(), CommitFailedException("somebody else"),
        ServiceUnavailableError("503"), NoConnectionError("refused"), ReadTimeout("late"),
    ],
)  # fmt: skip
def test_a_call_is_repeated_until_it_gets_through(error: Exception) -> None:
    tries, attempt = failing(3, error)
    assert until_it_gets_through("shop.cuts", attempt, lost=(CommitFailedException,)) == "through"
    assert len(tries) == 4


@pytest.mark.parametrize(
    "error",
    [locked("disk I/O error"), CommitFailedException("not named"), ValueError("ours"), SSLError("certificate")],
)
def test_any_other_error_is_raised_at_once(error: Exception) -> None:
    tries, attempt = failing(3, error)
    with pytest.raises(type(error)):
        until_it_gets_through("shop.cuts", attempt)
    assert len(tries) == 1


def test_what_never_gets_through_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "GIVE_UP_AFTER", 0.05)
    for error, said in (
        (locked(), "other writers kept it busy"),
        (ServiceUnavailableError("503"), "gave no answer"),
        (CommitStateUnknownException("?"), "right in both cases"),
    ):
        with pytest.raises(LakeChangeError, match=rf"shop\.cuts .*{said}") as caught:
            until_it_gets_through("shop.cuts", failing(10_000, error)[1], lost=(CommitStateUnknownException,))
        assert caught.value.retriable
    stale = StaleGenerationError("shop.cuts", expected="a", found="b")
    with pytest.raises(StaleGenerationError):
        until_it_gets_through("shop.cuts", failing(10_000, stale)[1], lost=(StaleGenerationError,))


SECRET = "hunter2"


@pytest.mark.parametrize(
    "error",
    [
        locked(f"database is locked, {SECRET}"),
        cut_off(),
        CommitFailedException(SECRET),
        CommitStateUnknownException(SECRET),
        ServiceUnavailableError(SECRET),
        NoConnectionError(f"https://user:{SECRET}@catalog refused"),
        PySparkException(f"org.apache.iceberg.exceptions.CommitFailedException: {SECRET}"),
        PySparkException(f"[SQLITE_BUSY] The database file is locked, {SECRET}"),
    ],
)
def test_trouble_of_the_catalog_that_may_pass_is_explained_without_its_text(error: Exception) -> None:
    found = explained_trouble(error)
    assert isinstance(found, UnavailableCatalogError)
    assert found.retriable
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("database is locked"),
        locked("no such table"),
        PySparkException("java.lang.OutOfMemoryError"),
    ],
)
def test_other_trouble_is_left_as_it_is(error: Exception) -> None:
    assert explained_trouble(error) is None


def test_a_catalog_that_others_keep_locked_can_be_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was called a lake that cannot be written, which is left to a person."""
    monkeypatch.setattr("dts_assets.store.catalog.SQLITE_WAIT_SECONDS", 0)
    location = LakeLocation(str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("CREATE TABLE t (n)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnavailableCatalogError, match="locked"):
            open_catalog(location)
        other.rollback()
    assert open_catalog(location).list_namespaces() == []


@pytest.mark.parametrize("error", [SSLError("hush"), InvalidURL("htp://hush"), UnauthorizedError("hush")])
def test_a_catalog_that_refuses_is_named_and_not_asked_again_by_itself(error: Exception) -> None:
    found = explained_trouble(error)
    assert isinstance(found, CatalogRefusalError)
    assert type(error).__name__ in str(found)
    assert "hush" not in str(found)
    assert not found.retriable
