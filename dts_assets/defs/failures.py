"""The sentences of runs and ticks that fail, their exit codes, and whether a repetition may succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from dts_assets.errors import DtsAssetsError

if TYPE_CHECKING:
    from dagster_shared.error import SerializableErrorInfo

Ticked: TypeAlias = dg.SensorResult | dg.SkipReason
"""The result of one tick of a sensor."""

CANNOT_BE_RETRIED = "dts-assets/cannot-be-retried"
"""A tag of failed runs that would fail again until somebody changes something. Sensors do not ask for them again."""


IN_THE_UI = "see the run in the Dagster UI"


@contextmanager
def explained(
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.AssetCheckExecutionContext,
) -> Iterator[None]:
    """Turn an error that is meant for people into a failure that shows its sentence and no stack.

    The run gets a tag if a repetition is of no use.

    Raises:
        dagster.Failure: An error of our tree was raised inside.
    """
    try:
        yield
    except DtsAssetsError as error:
        if not error.retriable:
            context.instance.add_run_tags(context.run.run_id, {CANNOT_BE_RETRIED: type(error).__name__})
        raise dg.Failure(
            description=str(error), metadata={"can_be_retried": error.retriable}, allow_retries=error.retriable
        ) from error


def skips_with_reason(tick: Callable[..., Ticked]) -> Callable[..., Ticked]:
    """Let a sensor skip a tick that raises an error for people: its sentence is the reason."""

    @wraps(tick)
    def skipping(*arguments: Any, **resources: Any) -> Ticked:
        try:
            return tick(*arguments, **resources)
        except DtsAssetsError as error:
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
    return f"{foreign[0].message.strip()} ({IN_THE_UI})" if foreign else IN_THE_UI


def error_code(error: SerializableErrorInfo | None) -> int:
    """Return the exit code of an error as Dagster keeps it; 1 without an error of our tree."""
    ours = _ours(error)
    return DtsAssetsError.exit_code if ours is None else ours[1].exit_code


def is_explained(error: SerializableErrorInfo | None) -> bool:
    """Return whether an error of our tree is in a chain of causes."""
    return _ours(error) is not None


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
