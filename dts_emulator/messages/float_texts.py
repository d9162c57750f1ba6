"""Floating-point numbers as the vendor's producer writes them.

The documents say that numbers below 1e-4 or from 1e+6 on come in scientific notation. That is the shortest ``%g`` of Go's
strconv: the fewest digits that read back as the same number, an exponent of at least two digits with its sign.
"""

from __future__ import annotations

import numpy as np

_SMALLEST, _LARGEST = -4, 6
"""Decimal exponents from which on, and up to which, a number is written out."""


def double_text(value: float) -> str:
    """Return the shortest text that reads back as the same double: ``0.1``, ``1e+06``, ``1.2510357e+07``."""
    return _text(np.format_float_scientific(np.float64(value), unique=True, trim="-", exp_digits=1))


def single_text(value: float) -> str:
    """Return the shortest text that reads back as the same single; ``value`` is a single's exact value."""
    return _text(np.format_float_scientific(np.float32(value), unique=True, trim="-", exp_digits=1))


def java_double_text(value: float) -> str:
    """Return a double with these digits as Java prints it: ``10357.0``, ``1.2510357E7`` (Java API, ``Double.toString``)."""
    return _java_text(np.format_float_scientific(np.float64(value), unique=True, trim="-", exp_digits=1))


def java_single_text(value: float) -> str:
    """Return a single as Java prints it; ``value`` is a single's exact value."""
    return _java_text(np.format_float_scientific(np.float32(value), unique=True, trim="-", exp_digits=1))


def _java_text(scientific: str) -> str:
    """Written out from 10^-3 up to 10^7, with at least one digit behind the point."""
    mantissa, _, power = scientific.partition("e")
    exponent = int(power)
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    digits = mantissa.replace(".", "")
    if digits != "0" and not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"


def _text(scientific: str) -> str:
    mantissa, _, power = scientific.partition("e")
    exponent = int(power)
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    digits = mantissa.replace(".", "")
    if digits == "0":
        return f"{sign}0"
    if exponent < _SMALLEST or exponent >= _LARGEST:
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, rest = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
