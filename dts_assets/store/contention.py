"""The repetition of catalog calls that lose against other writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyiceberg.exceptions import CommitStateUnknownException
from sqlalchemy.exc import OperationalError
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from dts_assets.errors import DtsAssetsError, LakeTableError

Result = TypeVar("Result")

GIVE_UP_AFTER = 120.0
"""Seconds after which a call that still loses is given up."""


def until_it_gets_through(
    table: str, attempt: Callable[[], Result], *, lost: tuple[type[Exception], ...] = ()
) -> Result:
    """Return the result of ``attempt``, which is called again while other writers are in its way.

    Other writers are in the way when a SQLite catalog is locked, and when ``attempt`` raises one of the ``lost`` exceptions. Each
    call has to begin with the table as it is then.

    Raises:
        DtsAssetsError: The last ``lost`` exception, if it is an error for people.
        LakeTableError: Other writers were in the way all the time, or the catalog gave no answer.
    """
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, lost) or _is_locked(error)),
        wait=wait_random_exponential(multiplier=0.02, max=0.5),
        stop=stop_after_delay(GIVE_UP_AFTER),
    )
    try:
        return retrying(attempt)
    except RetryError as error:
        last = error.last_attempt.exception()
        if isinstance(last, DtsAssetsError):
            raise last from None
        if isinstance(last, CommitStateUnknownException):
            what = f"its catalog did not say for {GIVE_UP_AFTER:.0f} s whether a commit was made; no file was removed"
            raise LakeTableError(table, what, "run it again, which is right in both cases") from error
        raise LakeTableError(table, f"other writers kept it busy for {GIVE_UP_AFTER:.0f} s", "run it again") from error


def _is_locked(error: BaseException) -> bool:
    """Return whether a SQLite catalog has refused because others write.

    Of two readers that both want to write, SQLite refuses one at once, however long it was ready to wait.
    """
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))
