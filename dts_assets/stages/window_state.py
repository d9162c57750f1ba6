"""The state of a window that is still open, as bytes, with which the next reading goes on.

Facts of a window are found by looking at its entries in order. A window that is read in parts must come out as if it had been
read in one go, so the trackers themselves are kept between two parts, and not only their results.

The bytes stand in the lake, so they hold values only: fields of the trackers by name, never the name of a class. Whoever can
write the lake can at most make the state unreadable or its figures wrong; nothing is executed, and sizes are bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from dts_assets.model.offsets import OffsetRange
from dts_assets.model.type_reading import READING_TYPES
from dts_assets.stages.arrivals import ArrivalTracker
from dts_assets.stages.collecting import Tally
from dts_assets.stages.delivery_tracker import Delivery
from dts_assets.stages.entry_facts import EntryFacts
from dts_assets.stages.event_rows import EventRows
from dts_assets.stages.form_tracker import FormTracker
from dts_assets.stages.repeated_neighbours import NeighbourTracker
from dts_assets.stages.run_tracker import RunTracker
from dts_assets.stages.table_tracker import TableTracker

STATE_VERSION = 13
"""The first byte of every state. Raised when a field of a tracker gets another name, type or meaning."""

MOST_STORED_BYTES = 2 << 20
MOST_BYTES = 8 << 20
"""Bounds of a state, stored and read; a larger one is not kept.

64 runs with CHECKPOINTs take about 20 KB.
"""

_INT64 = np.iinfo(np.int64)
_LEVEL = 1


@dataclass(slots=True)
class WindowState:
    """The trackers of one Kafka partition and window, which see every message and entry once, in offset order."""

    tally: Tally
    facts: EntryFacts
    runs: RunTracker
    delivery: Delivery
    tables: TableTracker
    neighbours: NeighbourTracker
    events: EventRows
    arrivals: ArrivalTracker
    forms: FormTracker

    @classmethod
    def begin(cls, offsets: OffsetRange) -> WindowState:
        """Return the state before the first message of a cell with these offsets."""
        return cls(
            Tally(), EntryFacts(), RunTracker(), Delivery(offsets), TableTracker(), NeighbourTracker(), EventRows(),
            ArrivalTracker(), FormTracker(),
        )  # fmt: skip

    def to_bytes(self) -> bytes | None:
        """Return the bytes that :meth:`of_bytes` reads, or None if they would be too many. No message and no row is in them."""
        state = msgspec.msgpack.encode(self, enc_hook=_plain)
        stored = bytes([STATE_VERSION]) + zlib.compress(state, _LEVEL)
        return stored if len(state) <= MOST_BYTES and len(stored) <= MOST_STORED_BYTES else None

    @classmethod
    def of_bytes(cls, stored: bytes) -> WindowState:
        """Return the state that :meth:`to_bytes` wrote.

        Raises:
            ValueError: The bytes are of another version, damaged, too many, or no state. The message says which.
        """
        state = _inflated(stored)
        try:
            found = _DECODER.decode(state)
            _refuse_nonsense(found)
        except (msgspec.MsgspecError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"it does not hold the state of a window ({type(error).__name__})") from error
        return found


def _inflated(stored: bytes) -> bytes:
    """Return the encoded state, without ever inflating more than a state may have.

    Raises:
        ValueError: The bytes are of another version, too many, or damaged.
    """
    if len(stored) > MOST_STORED_BYTES:
        raise ValueError(f"it has {len(stored)} bytes, and a state has at most {MOST_STORED_BYTES}")
    if stored[:1] != bytes([STATE_VERSION]):
        version = f"version {stored[0]}" if stored else "no version"
        raise ValueError(f"it has {version}, and this code reads version {STATE_VERSION}")
    reader = zlib.decompressobj()
    try:
        state = reader.decompress(stored[1:], MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError("it is damaged") from error
    if len(state) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes when it is unpacked")
    if not reader.eof or reader.unused_data:
        raise ValueError("it is damaged")
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no place in the state of a window")


def _restored(_kind: type, value: Any) -> Any:
    """Return the intervals of GTIDs that pairs stand for, the one array in a state."""
    pairs = msgspec.convert(value, list[tuple[int, int]])
    return np.array(pairs, np.int64).reshape(-1, 2)


with READING_TYPES:
    _DECODER = msgspec.msgpack.Decoder(WindowState, dec_hook=_restored)


def _refuse_nonsense(state: WindowState) -> None:
    """Refuse a state with nonsense in it, before any later batch or ledger row meets it.

    Raises:
        OverflowError: A number does not fit 64 bits.
        ValueError: Its results cannot be made.
    """
    if any(not _INT64.min <= number <= _INT64.max for number in _numbers(state)):
        raise OverflowError("a number is too large")
    state.runs.runs()
    state.delivery.result()
    for _ in state.delivery.problems():
        pass


def _numbers(value: Any) -> Iterator[int]:
    """Yield every whole number in a value, however deep."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _numbers(pair)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _numbers(one)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _numbers(getattr(value, one.name))
