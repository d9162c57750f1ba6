"""Sets that are not whole yet: their fragments, and the fragments that are missing.

Where messages carry sequence numbers (``ps``), fragment ``index`` of a set has number ``base`` + ``index``, so that every
fragment names its set: none can be put into another's, whatever was lost, repeated or moved. Without them only order and
content tell: a fragment goes on with a set if it is the next one, and repeats it if it holds the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa

from dts_assets.model.problems import Reason

MOST_SET_BYTES = 1 << 30
"""The most bytes of a set.

A packet of MySQL has no more, and an Arrow array holds twice as many.
"""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One segment of a split entry set; ``sequence`` is its message's ``ps`` header."""

    offset: int
    total: int
    index: int
    data: bytes | pa.Buffer
    sequence: int | None = None

    @property
    def base(self) -> int | None:
        """The sequence number of its set's first fragment."""
        return None if self.sequence is None else self.sequence - self.index

    def repeats(self, other: Fragment) -> bool:
        """Tell whether both have one place in sets of equal size, and hold equal bytes."""
        return (self.total, self.index) == (other.total, other.index) and same_bytes(self.data, other.data)


def same_bytes(one: bytes | pa.Buffer, other: bytes | pa.Buffer) -> bool:
    """Tell whether two segments hold equal bytes; nothing is copied."""
    return bool(pa.py_buffer(one).equals(pa.py_buffer(other)))


@dataclass(slots=True)
class PartialSet:
    """The fragments of one set that have come, by index.

    ``reason`` is set once something has spoken against it; ``size`` is that of the parts, in bytes; ``head`` are fragments of it
    that were found before the range. ``abandoned`` says that the producer gave the number of its next fragment to another
    message; ``seen_to`` is the greatest number that came after it. ``outlived`` says that it was interrupted in an earlier range,
    ``passed`` that messages of its shard came after it in this one.
    """

    total: int
    base: int | None
    parts: dict[int, Fragment] = field(default_factory=dict)
    size: int = 0
    low: int = 0
    high: int = -1
    reason: Reason | None = None
    head: tuple[Fragment, ...] = ()
    searched: bool = False
    abandoned: bool = False
    seen_to: int = -1
    outlived: bool = False
    passed: bool = False

    @classmethod
    def of(cls, fragment: Fragment) -> PartialSet:
        """Return a set that begins with a fragment, the first to come."""
        one = cls(fragment.total, fragment.base, low=fragment.index)
        one.put(fragment)
        return one

    def takes(self, fragment: Fragment) -> bool:
        """Tell whether the fragment belongs to this set.

        Without numbers a set is never filled up behind, and never begun again.
        """
        if fragment.total != self.total:
            return False
        if self.base is not None and fragment.base is not None:
            return self.base == fragment.base
        held = self.parts.get(fragment.index)
        return fragment.index > self.high if held is None else fragment.index > 0 and fragment.repeats(held)

    def put(self, fragment: Fragment) -> None:
        """Take a fragment; of two copies the later one stays."""
        held = self.parts.get(fragment.index)
        self.size += len(fragment.data) - (0 if held is None else len(held.data))
        self.parts[fragment.index] = fragment
        self.low, self.high = min(self.low, fragment.index), max(self.high, fragment.index)

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments that have come, by index."""
        return [self.parts[index] for index in sorted(self.parts)]

    @property
    def ended(self) -> bool:
        """True if the last fragment has come."""
        return self.high == self.total - 1

    @property
    def unbroken(self) -> bool:
        """True if no fragment is missing between those that have come."""
        return self.high - self.low + 1 == len(self.parts)

    def equals(self, data_of: Callable[[int], bytes | pa.Buffer]) -> bool:
        """Tell whether every fragment holds the bytes that a whole set has in its place."""
        return all(same_bytes(fragment.data, data_of(index)) for index, fragment in self.parts.items())

    def with_head(self) -> list[Fragment]:
        """Return all known fragments by index; those of the range go before those of the head."""
        return [one for _, one in sorted({**{one.index: one for one in self.head}, **self.parts}.items())]

    @property
    def missing(self) -> str:
        """The first indexes that are not there, for people."""
        there = [one.index for one in self.with_head()]
        first = next((place for place, index in enumerate(there) if place != index), len(there))
        last = min((index for index in there if index > first), default=self.total) - 1
        return f"fragment {first} is missing" if first == last else f"fragments {first} to {last} are missing"

    @property
    def contradicted(self) -> bool:
        """True if fragments contradict each other about one place."""
        return self.reason is Reason.CONTRADICTORY_FRAGMENT

    @property
    def may_go_on(self) -> bool:
        """True if only the end is missing and may still come.

        No later number has come, or the producer itself gave the set up and has had no whole further range to send it again.
        """
        if self.base is None or not self.unbroken or self.low != len(self.head) or (self.outlived and self.passed):
            return False
        return self.abandoned or self.seen_to <= self.base + self.high


def indexes_text(indexes: Iterable[int]) -> str:
    """Return ascending numbers as text: ``0-2, 5`` for 0, 1, 2, 5."""
    runs = [[index for _, index in run] for _, run in groupby(enumerate(indexes), lambda one: one[1] - one[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
