"""Waiting for something outside of this process, for a bounded time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

_Found = TypeVar("_Found")


def wait_for(look: Callable[[], _Found | None], *, seconds: float, every: float = 0.05) -> _Found | None:
    """Call ``look`` until it returns something true, and return that; None after ``seconds`` in vain.

    ``look`` is called at least once, and ``every`` so many seconds from then on. What it raises is not caught.
    """
    looking = Retrying(
        retry=retry_if_result(lambda found: not found),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(every),
        retry_error_callback=lambda _: None,
    )
    return looking(look)


def wait_until(holds: Callable[[], bool], *, seconds: float, every: float = 0.05) -> bool:
    """Call ``holds`` until it is true; return False if it still is not after ``seconds``."""
    return bool(wait_for(holds, seconds=seconds, every=every))
