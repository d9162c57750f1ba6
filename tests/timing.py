"""The processor time of a step over its length: what takes a hundred times as long for ten times as much is found here."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time
from typing import TypeVar

Given = TypeVar("Given")

MOST_RATIO = 15
"""Ten times as much may take so many times as long: ten, and room for sorting, for caches and for a busy machine."""

_LEAST_SECONDS = 0.001
_ATTEMPTS = 16


def growth(make: Callable[[int], Given], step: Callable[[Given], object], few: int, *, times: int = 10) -> float:
    """How many times as long ``step`` takes for ``times`` as much as ``few``: the least ratio of some attempts.

    ``make`` is not measured. Its results are used once each, so that nothing is answered from a cache.
    """
    ratio = float("inf")
    for _ in range(_ATTEMPTS):
        short = min(_seconds(make(few), step) for _ in range(2))
        ratio = min(ratio, _seconds(make(few * times), step) / max(short, _LEAST_SECONDS))
        if ratio <= MOST_RATIO:
            break
    return ratio


def _seconds(given: Given, step: Callable[[Given], object]) -> float:
    gc.disable()  # its work grows with all that the tests before have left
    try:
        began = process_time()
        step(given)
        return process_time() - began
    finally:
        gc.enable()
