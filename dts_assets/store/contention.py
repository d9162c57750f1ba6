"""Troubles of the catalog that pass: the repetition of calls, and the sentences of what stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from requests.exceptions import ChunkedEncodingError, RetryError, SSLError, Timeout
from requests.exceptions import ConnectionError as NoConnectionError
from sqlalchemy.exc import DBAPIError, OperationalError
from tenacity import RetryError as NoMoreTries
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from dts_assets.errors import DtsAssetsError, LakeChangeError, UnavailableCatalogError

Result = TypeVar("Result")

GIVE_UP_AFTER = 120.0
"""Seconds after which a call that still loses is given up."""

_NO_ANSWER = (
    AuthorizationExpiredError, ChunkedEncodingError, NoConnectionError, RetryError, ServerError, ServiceUnavailableError,
    Timeout, TooManyRequestsError,
)  # fmt: skip
"""The errors of a server after which another answer may come: time-outs, cut connections, 429, 5xx."""

_LOCKED = re.compile(r"locked|busy|deadlock|could not serialize", re.IGNORECASE)
_OF_SPARK = ("py4j", "pyspark")
_PASSING_IN_SPARK = re.compile(
    r"SQLITE_BUSY|CommitFailedException|CommitStateUnknownException|ServiceUnavailableException|ServiceFailureException"
)
"""Spark raises all errors of its catalog as errors of its own, which name them in their text."""


def until_it_gets_through(
    table: str, attempt: Callable[[], Result], *, lost: tuple[type[Exception], ...] = ()
) -> Result:
    """Return the result of ``attempt``, which is called again while other writers are in its way.

    Other writers are in the way when the catalog's database is locked, and when ``attempt`` raises one of the ``lost``
    exceptions. A catalog that gives no answer is asked again, too. Each call has to begin with the table as it is then.

    Raises:
        DtsAssetsError: The last ``lost`` exception, if it is an error for people.
        LakeChangeError: Other writers were in the way all the time, or the catalog gave no answer.
    """
    retrying = Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, lost) or _gave_no_answer(error) or _is_contended(error)
        ),
        wait=wait_random_exponential(multiplier=0.02, max=0.5),
        stop=stop_after_delay(GIVE_UP_AFTER),
    )
    try:
        return retrying(attempt)
    except NoMoreTries as error:
        last = error.last_attempt.exception()
        if isinstance(last, DtsAssetsError):
            raise last from None
        if isinstance(last, CommitStateUnknownException):
            what = f"its catalog did not say for {GIVE_UP_AFTER:.0f} s whether a commit was made; no file was removed"
            raise LakeChangeError(table, what, ", which is right in both cases") from error
        if last is not None and _gave_no_answer(last):
            raise LakeChangeError(table, f"its catalog gave no answer for {GIVE_UP_AFTER:.0f} s") from error
        raise LakeChangeError(table, f"other writers kept it busy for {GIVE_UP_AFTER:.0f} s") from error


def explained_trouble(error: BaseException) -> DtsAssetsError | None:
    """Return the error for people that stands for an error; None for one that nobody expected.

    Errors of libraries that mean a trouble of the catalog which may pass are explained without their texts, which may hold
    addresses with secrets.
    """
    if isinstance(error, DtsAssetsError):
        return error
    if isinstance(error, CommitFailedException):
        return UnavailableCatalogError("other writers were faster")
    if isinstance(error, CommitStateUnknownException) or _gave_no_answer(error):
        return UnavailableCatalogError(f"it gave no answer ({type(error).__name__})")
    if _is_contended(error):
        return UnavailableCatalogError("its database was locked for too long, or has cut the connection")
    if type(error).__module__.startswith(_OF_SPARK) and (found := _PASSING_IN_SPARK.search(str(error))):
        return UnavailableCatalogError(f"Spark has met {found.group()}")
    return None


def _gave_no_answer(error: BaseException) -> bool:
    """Return whether a server may answer later; a certificate that is not trusted stays so."""
    return isinstance(error, _NO_ANSWER) and not isinstance(error, SSLError)


def _is_contended(error: BaseException) -> bool:
    """Return whether a database has refused because others write, or has gone away.

    Of two readers that both want to write, SQLite refuses one at once, however long it was ready to wait.
    """
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, OperationalError) and _LOCKED.search(str(error.orig)) is not None
