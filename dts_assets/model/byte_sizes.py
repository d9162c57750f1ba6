"""Numbers of bytes as people read and write them, in units of a thousand: ``20GB`` and ``1.2 GB``."""

from __future__ import annotations

from typing import Final

UNITS: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""The bytes of each unit, the smallest unit first."""


def exact_size(size: int) -> str:
    """Return a number of bytes without any rounding, as a configuration has it: ``20GB``."""
    unit = next(name for name, factor in reversed(UNITS.items()) if size % factor == 0)
    return f"{size // UNITS[unit]}{unit}"


def rounded_size(size: int) -> str:
    """Return a number of bytes rounded to a tenth of its unit: ``1.2 GB``."""
    unit = unit_of(size)
    return f"{size / UNITS[unit]:,.1f} {unit}" if unit != "B" else f"{size} B"


def unit_of(size: int) -> str:
    """Return the largest unit of which a number of bytes has at least one."""
    return next((name for name, factor in reversed(UNITS.items()) if size >= factor), "B")
