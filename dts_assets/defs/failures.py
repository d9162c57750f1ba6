"""What a run that fails says, and whether the same may succeed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dts_assets.errors import DtsAssetsError

CANNOT_BE_RETRIED = "dts-assets/cannot-be-retried"
"""A tag of failed runs: the same would fail again until somebody changes something. Sensors do not ask for those again."""


@contextmanager
def explained(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> Iterator[None]:
    """Turn an error that is meant for people into a failure that shows its sentence, without a stack that means nothing to them;
    and mark the run if it is no use to try again."""
    try:
        yield
    except DtsAssetsError as error:
        if not error.retriable:
            context.instance.add_run_tags(context.run.run_id, {CANNOT_BE_RETRIED: type(error).__name__})
        raise dg.Failure(
            description=str(error), metadata={"can_be_retried": error.retriable}, allow_retries=error.retriable
        ) from error
