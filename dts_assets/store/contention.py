"""Troubles of the catalog that pass: the repetition of calls, and the sentences of what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dts_assets.errors import CatalogRefusalError, DtsAssetsError, LakeChangeError, UnavailableCatalogError
from dts_assets.errors.origins import Origin, full_disk, is_refusal, origin_of

Result = TypeVar("Result")

GIVE_UP_AFTER = 120.0
"""Seconds after which a call that still loses is given up."""

_ASKED_AGAIN = (Origin.BUSY, Origin.SILENT)


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
    # Here and not above: definitions explain errors, and repeat no call.
    from tenacity import RetryError as NoMoreTries
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, lost) or origin_of(error) in _ASKED_AGAIN),
        wait=wait_random_exponential(multiplier=0.02, max=0.5),
        stop=stop_after_delay(GIVE_UP_AFTER),
    )
    try:
        return retrying(attempt)
    except NoMoreTries as error:
        last = error.last_attempt.exception()
        if isinstance(last, DtsAssetsError):
            raise last from None
        origin = None if last is None else origin_of(last)
        if origin is Origin.UNSURE:
            what = f"its catalog did not say for {GIVE_UP_AFTER:.0f} s whether a commit was made; no file was removed"
            raise LakeChangeError(table, what, ", which is right in both cases") from error
        if origin is Origin.SILENT:
            raise LakeChangeError(table, f"its catalog gave no answer for {GIVE_UP_AFTER:.0f} s") from error
        raise LakeChangeError(table, f"other writers kept it busy for {GIVE_UP_AFTER:.0f} s") from error


def explained_trouble(error: BaseException) -> DtsAssetsError | None:
    """Return the error for people that stands for an error; None for one that nobody expected.

    Errors of libraries that mean a trouble of the catalog are explained without their texts, which may hold addresses with
    secrets.
    """
    full = full_disk(error)
    if full is not None:
        return full
    if isinstance(error, DtsAssetsError):
        return error
    origin = origin_of(error)
    if origin is Origin.FASTER:
        return UnavailableCatalogError("other writers were faster")
    if origin is Origin.BUSY:
        return UnavailableCatalogError("its database was locked for too long, or has cut the connection")
    if origin in (Origin.SILENT, Origin.UNSURE):
        return UnavailableCatalogError(f"it gave no answer ({type(error).__name__})")
    if is_refusal(error):
        return CatalogRefusalError(type(error).__name__)
    return None
