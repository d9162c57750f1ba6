"""The cost of a step in numbers that no machine changes: executed lines of the product, and the greatest allocation."""

from __future__ import annotations

import ctypes
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pyarrow as pa

import dts_assets

Given = TypeVar("Given")

MOST_RATIO = 2.5
"""Twice as much of two things may cost so many times as much: two, and room for sorting and for tables that double."""

_ROOT = str(Path(dts_assets.__file__).parent)


@dataclass(frozen=True, slots=True)
class Cost:
    """The executed lines of the product, and the most bytes that Python, numpy and Arrow held at once."""

    lines: int
    bytes: int

    def over(self, less: Cost) -> float:
        """Return how many times as much this is, by the number that grows more."""
        return max(self.lines / max(less.lines, 1), self.bytes / max(less.bytes, 1))


def cost(step: Callable[[Given], object], given: Given) -> Cost:
    """Return the cost of a step that finds nothing in a cache: an earlier test may have decoded the smaller message alone."""
    count = 0
    _clear_caches()

    def in_frame(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return in_frame

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return in_frame if frame.f_code.co_filename.startswith(_ROOT) else None

    before, usual = sys.gettrace(), pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    # A buffer that stays, such as one in a cache, gives its memory back to this pool, whenever that is: the pool never goes.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
    pa.set_memory_pool(pool)
    tracemalloc.start()
    sys.settrace(entered)
    try:
        step(given)
    finally:
        sys.settrace(before)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    return Cost(count, most + (pool.max_memory() or 0))


def _clear_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(dts_assets.__name__):
            for one in list(vars(module).values()):
                if isinstance(one, _lru_cache_wrapper):
                    one.cache_clear()


def doubled(make: Callable[[int], Given], step: Callable[[Given], object], size: int) -> float:
    """Return how many times as much a step costs for twice the size, or for twice that size where this is less.

    Buffers double at some size, which is seen at one of both; a product of two things is seen at both. Where it is seen, all is
    measured again: another thread, which an earlier test left, may have allocated meanwhile.
    """
    step(make(size // 4))  # which imports modules
    ratio = _least_growth(make, step, size)
    return ratio if ratio <= MOST_RATIO else min(ratio, _least_growth(make, step, size))


def _least_growth(make: Callable[[int], Given], step: Callable[[Given], object], size: int) -> float:
    less, more = cost(step, make(size)), cost(step, make(2 * size))
    ratio = more.over(less)
    return ratio if ratio <= MOST_RATIO else cost(step, make(4 * size)).over(more)
