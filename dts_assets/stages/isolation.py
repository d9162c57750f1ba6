"""Decoding in which an error that nobody expected stops at the row that raises it.

Bad input that is known is rejected by decoders themselves. Whatever else they raise is a fault of this code that one message
brought to light; all other messages are decoded, and the message goes to quarantine with the place of the fault.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from dts_assets.errors import DtsAssetsError
from dts_assets.model.problems import Reason
from dts_assets.wire.format import TooLargeError

Decoded = TypeVar("Decoded")

_PACKAGE = Path(__file__).resolve().parents[1]


def decoded_apart(
    decode: Callable[[pa.RecordBatch], Decoded], rows: pa.RecordBatch
) -> Iterator[tuple[pa.RecordBatch, Decoded | Exception]]:
    """Yield rows in order, in batches with their results, or one by one with their errors.

    A batch that cannot be decoded is halved until the rows that raise errors stand alone: of n rows some 2 log2(n) batches are
    decoded for each of them.

    Raises:
        DtsAssetsError: An error for people, such as a wrong setting; it is no fault of a row.
        MemoryError: There is not enough memory.
    """
    waiting = [rows]
    while waiting:
        some = waiting.pop()
        try:
            result: Decoded | Exception = decode(some)
        except (DtsAssetsError, MemoryError):
            raise
        except Exception as error:
            if some.num_rows > 1:
                half = some.num_rows // 2
                waiting += [some.slice(half), some.slice(0, half)]
                continue
            result = error
        yield some, result


def rejection_of(error: Exception) -> tuple[Reason, str]:
    """Return the reason and the detail with which a row that stands alone goes to quarantine."""
    if isinstance(error, TooLargeError):
        return Reason.TOO_LARGE, str(error)
    return Reason.UNEXPECTED, fault_of(error)


def fault_of(error: Exception) -> str:
    """Return the kind of an error and its line in this package: ``KeyError at wire/casts.py:120``.

    The error's own text is left out, since it may hold a value.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(_PACKAGE):
            return f"{type(error).__name__} at {file.relative_to(_PACKAGE).as_posix()}:{frame.lineno}"
    return type(error).__name__
