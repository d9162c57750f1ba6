"""The sentences of runs and ticks that fail, their exit codes, and whether a repetition may succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.unexpected import UnexpectedError, without_values
from dts_assets.planning.latches import Trouble
from dts_assets.store.contention import explained_trouble

if TYPE_CHECKING:
    from dagster_shared.error import SerializableErrorInfo

Ticked: TypeAlias = dg.SensorResult | dg.SkipReason
"""The result of one tick of a sensor."""

CANNOT_BE_RETRIED = "dts-assets/cannot-be-retried"
"""A tag of failed runs that would fail again until somebody changes something."""

MAY_PASS = "dts-assets/may-pass"
"""A tag of failed runs whose trouble may pass by itself."""

_OF_THE_PARENT = "no"
"""The value of a tag that no longer holds.

Dagster copies the tags of a run that is executed again.
"""

IN_THE_UI = "see the run in the Dagster UI"


@contextmanager
def explained(
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.AssetCheckExecutionContext,
) -> Iterator[None]:
    """Turn an error that is meant for people into a failure that shows its sentence and no stack.

    The run gets a tag that says whether a repetition may be of use. Troubles of the catalog that pass are explained, too.

    Raises:
        dagster.Failure: An error of our tree, or one that has a sentence there, was raised inside.
        UnexpectedError: Any other was, whose text may hold a value.
    """
    try:
        yield
    except Exception as found:
        error, bare = explained_trouble(found), without_values(found)
    else:
        return
    if error is None:
        raise bare from bare.__cause__
    if error is not bare:
        error.__cause__ = bare
    mine, other = (MAY_PASS, CANNOT_BE_RETRIED) if error.retriable else (CANNOT_BE_RETRIED, MAY_PASS)
    copied = {other: _OF_THE_PARENT} if other in context.run.tags else {}
    context.instance.add_run_tags(context.run.run_id, {mine: type(error).__name__, **copied})
    raise dg.Failure(
        description=str(error), metadata={"can_be_retried": error.retriable}, allow_retries=error.retriable
    ) from error


def trouble_of(run: dg.DagsterRun) -> Trouble:
    """Return the kind of a run's failure, by its tags."""
    if run.tags.get(CANNOT_BE_RETRIED, _OF_THE_PARENT) != _OF_THE_PARENT:
        return Trouble.LASTING
    return Trouble.PASSING if run.tags.get(MAY_PASS, _OF_THE_PARENT) != _OF_THE_PARENT else Trouble.UNKNOWN


def skips_with_reason(tick: Callable[..., Ticked]) -> Callable[..., Ticked]:
    """Let a sensor skip a tick that raises an error for people: its sentence is the reason.

    So do errors of libraries that have a sentence.
    """

    @wraps(tick)
    def skipping(*arguments: Any, **resources: Any) -> Ticked:
        try:
            return tick(*arguments, **resources)
        except Exception as found:
            error, bare = explained_trouble(found), without_values(found)
        if error is None:
            raise bare from bare.__cause__
        return dg.SkipReason(str(error))

    return skipping


def error_sentence(error: SerializableErrorInfo | None) -> str:
    """Return the sentence of an error as Dagster keeps it.

    Of a chain of causes the outermost error of our tree counts: its own causes are texts of libraries. A chain without an error
    of ours gives the outermost error that is not Dagster's, with its class.
    """
    if (ours := _ours(error)) is not None:
        return ours[0].message.strip().partition(": ")[2]
    chain = list(_chain(error))
    foreign = [one for one in chain if not (one.cls_name or "").startswith("Dagster")] or chain
    return f"{_message(foreign[0])} ({IN_THE_UI})" if foreign else IN_THE_UI


def error_code(error: SerializableErrorInfo | None) -> int:
    """Return the exit code of an error as Dagster keeps it; 1 without an error of our tree."""
    ours = _ours(error)
    return DtsAssetsError.exit_code if ours is None else ours[1].exit_code


def is_interruption(error: SerializableErrorInfo | None) -> bool:
    """Return whether a person, or the system, has stopped the process of a run."""
    return any(one.cls_name == "DagsterExecutionInterruptedError" for one in _chain(error))


def is_explained(error: SerializableErrorInfo | None) -> bool:
    """Return whether an error of our tree is in a chain of causes."""
    return _ours(error) is not None


def _message(error: SerializableErrorInfo) -> str:
    """Return the message of an error; one that nobody expected has its class in its text."""
    said = error.message.strip()
    return said.partition(": ")[2] if error.cls_name == UnexpectedError.__name__ else said


def _ours(error: SerializableErrorInfo | None) -> tuple[SerializableErrorInfo, type[DtsAssetsError]] | None:
    """Return the outermost error of our tree in a chain of causes, with its class; None without one."""
    tree = _tree(DtsAssetsError)
    return next(((one, tree[one.cls_name]) for one in _chain(error) if one.cls_name in tree), None)


def _chain(error: SerializableErrorInfo | None) -> Iterator[SerializableErrorInfo]:
    while error is not None:
        yield error
        error = error.cause


def _tree(cls: type[DtsAssetsError]) -> dict[str | None, type[DtsAssetsError]]:
    """Return a class and all classes below it, by name."""
    found: dict[str | None, type[DtsAssetsError]] = {cls.__name__: cls}
    for one in cls.__subclasses__():
        found |= _tree(one)
    return found
