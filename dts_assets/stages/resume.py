"""What has been noted of a window that is still open, as bytes, so that the next reading goes on as if it were the same one.

Facts of a window are found by looking at its entries in order. A window that is read in parts must come out as if it had been
read in one go, so what looks at the entries is kept between two parts, and not only what it has found so far.
"""

from __future__ import annotations

import io
import pickle
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from dts_assets.stages.collecting import Tally
from dts_assets.stages.delivery import Delivery
from dts_assets.stages.entries import EntryFacts
from dts_assets.stages.runs import RunTracker

_OURS = "dts_assets."
_PLAIN = {
    ("datetime", "datetime"),
    ("datetime", "timezone"),
    ("datetime", "timedelta"),
    ("zoneinfo", "ZoneInfo"),
    ("collections", "Counter"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy._core.multiarray", "scalar"),
}


@dataclass(slots=True)
class Noted:
    """All that takes note of the entries of one Kafka partition and window."""

    tally: Tally
    facts: EntryFacts
    runs: RunTracker
    delivery: Delivery

    def to_bytes(self) -> bytes:
        """What :meth:`of_bytes` takes. No message and no row is in it."""
        return zlib.compress(pickle.dumps((self.tally, self.facts, self.runs, self.delivery), protocol=5), 1)

    @classmethod
    def of_bytes(cls, data: bytes) -> Noted:
        """The same as it stood then. Raises pickle.UnpicklingError for bytes that hold anything but our own values: they come
        from a table, and whoever writes tables must not be able to run code here."""
        return cls(*_OwnValues(io.BytesIO(zlib.decompress(data))).load())


def _member(kind: Any, name: str) -> Any:
    """A member of an enumeration, or the way in which time zones are written."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[name]
    if kind is ZoneInfo and name == "_unpickle":
        return getattr(kind, name)
    raise pickle.UnpicklingError(f"{name} has no place in what is kept of an open window")


class _OwnValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):  # by which Python 3.11 names the members of an enumeration
            return _member
        found = super().find_class(module, name) if module.startswith(_OURS) or (module, name) in _PLAIN else None
        if found is None or (module.startswith(_OURS) and not isinstance(found, type)):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in what is kept of an open window")
        return found
