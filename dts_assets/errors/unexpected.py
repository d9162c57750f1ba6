"""Errors that nobody expected, without their texts, which may hold a value of a row.

Errors end in logs of Spark, in Dagster's event log and on screens. A library puts into its text whatever it was given: the value
that is no number, the key that is not there. Its class and the places of its stack stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.origins import Origin, full_disk, origin_of

_TEXTS_STAY: Mapping[str, bool] = {"dagster": True, "py4j": False, "pyspark": False}
"""The packages of which it is known whether texts of their errors stay; Spark's hold those of tasks."""


class UnexpectedError(Exception):
    """An error that nobody expected: the name of its class is all that is said of it."""

    def __str__(self) -> str:
        """Return the sentence."""
        return f"{self.args[0]} (its own text is left out, because it may hold a value)"


def without_values(error: BaseException) -> BaseException:
    """Return an error that says what it and its causes say, without texts that may hold values.

    Errors for people stay themselves, and so do errors that tell of servers, files and the machine. Every other one becomes an
    :class:`UnexpectedError` with the stack of the original.
    """
    return _bare(error, set())


def _bare(error: BaseException, seen: set[int]) -> BaseException:
    if id(error) in seen:
        return UnexpectedError(_name(error))
    seen.add(id(error))
    made = error if _is_harmless(error) else UnexpectedError(_name(error)).with_traceback(error.__traceback__)
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    if cause is not None:
        made.__cause__ = _bare(cause, seen)
    made.__context__ = None if context is None or context is cause or suppressed else _bare(context, seen)
    made.__suppress_context__ = suppressed
    return made


def _is_harmless(error: BaseException) -> bool:
    """Return whether the text of an error cannot hold a value of a row."""
    if not isinstance(error, Exception) or isinstance(
        error, DtsAssetsError | UnexpectedError | ImportError | MemoryError
    ):
        return True
    package = type(error).__module__.partition(".")[0]
    if package in _TEXTS_STAY:
        return _TEXTS_STAY[package]
    return full_disk(error) is not None or origin_of(error) is not Origin.TABLE


def _name(error: BaseException) -> str:
    """Return the name of the class of an error, with its package."""
    package = type(error).__module__.partition(".")[0]
    return type(error).__name__ if package in ("builtins", "dts_assets") else f"{package}.{type(error).__name__}"
