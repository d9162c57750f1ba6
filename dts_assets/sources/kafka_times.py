"""Message times that were read, because a broker's own answer does not say enough.

A broker finds the first message dated at or after an instant. If that message is dated beyond what is believed, the messages
behind it are read to find the first that is not. Times are kept, so that the next question reads only new messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dts_assets.model.offsets import OffsetRange

Stamps: TypeAlias = Iterator[list[tuple[int, int]]]
"""Offsets with times in milliseconds, ascending by offset, some at a time."""

_NONE = -(2**62)
_TRIMMED = 1 << 20
"""Leading times are dropped once so many of them are of no more use."""


class MessageTimes:
    """The message times of offsets ``[first, end)`` of one Kafka partition, 8 bytes an offset."""

    def __init__(self) -> None:
        self.first = 0
        self._times = array("q")

    @property
    def end(self) -> int:
        """The offset after the last whose time is known."""
        return self.first + len(self._times)

    def cover(self, offsets: OffsetRange, read: Callable[[OffsetRange], Stamps]) -> None:
        """Learn the times of a range; unknown ones are read. Errors of ``read`` go through."""
        if not self.first <= offsets.start <= self.end:
            self.first, self._times = offsets.start, array("q")
        if offsets.start - self.first > _TRIMMED:
            del self._times[: offsets.start - self.first]
            self.first = offsets.start
        if self.end >= offsets.end:
            return
        for some in read(OffsetRange(self.end, offsets.end)):
            for offset, time in some:
                self._skip_to(offset)
                self._times.append(time)
        self._skip_to(offsets.end)

    def dated(self, offsets: OffsetRange, earliest: int, latest: int) -> npt.NDArray[np.int64]:
        """Return the offsets of a covered range whose messages are dated in ``[earliest, latest]``, in milliseconds."""
        times = np.frombuffer(self._times, dtype=np.int64) if self._times else np.empty(0, dtype=np.int64)
        times = times[offsets.start - self.first : offsets.end - self.first]
        inside = (times >= earliest) & (times <= latest)
        found = np.flatnonzero(inside) + offsets.start
        return found.astype(np.int64)

    def _skip_to(self, offset: int) -> None:
        self._times.extend([_NONE] * (offset - self.end))
