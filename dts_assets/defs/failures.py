"""The sentences of runs and ticks that fail, and whether a repetition may succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias

import dagster as dg

from dts_assets.errors import DtsAssetsError

Ticked: TypeAlias = dg.SensorResult | dg.SkipReason
"""The result of one tick of a sensor."""

CANNOT_BE_RETRIED = "dts-assets/cannot-be-retried"
"""A tag of failed runs that would fail again until somebody changes something. Sensors do not ask for them again."""


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
