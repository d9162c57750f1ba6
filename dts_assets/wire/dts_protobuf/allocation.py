"""How the C library's memory is kept between calls of the columnar decoder, on Linux with glibc; elsewhere nothing is done.

The decoder allocates a chunk's worth of buffers in a call and frees them after it. As set up, glibc takes each from the kernel
and gives it back, so that every page is zeroed and mapped again at every call: measured, 20 to 30 % of the time of 16 MB.
A process that decodes keeps what it has freed instead, up to these bounds, which a chunk needs anyway.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_KEPT = 256 << 20
"""Bytes at the end of the heap that are kept."""
_FROM_HEAP = 64 << 20
"""Buffers up to this size come from the heap. Larger ones belong to an unusual event and go back to the kernel."""


@cache
def keep_freed_memory() -> bool:
    """Let this process keep the memory of a chunk when it is freed. False where the C library cannot be told so."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # no glibc
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _FROM_HEAP)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))
