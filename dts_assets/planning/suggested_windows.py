"""The windows that suit a topic of which nothing is known but the times of its messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_LENGTHS = (
    *(number * _MINUTE for number in (5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 4, 6, 8, 12, 24)),
)  # fmt: skip
_MANY = 24
"""The most windows of a span, as long as a window has less than a day."""

_MIDNIGHT = datetime(2000, 1, 1, tzinfo=UTC)
"""The least start of windows, if there are later messages.

Messages without a time are dated 1970, and windows would go on from then.
"""


@dataclass(frozen=True, slots=True)
class SuggestedWindows:
    """The windows of a topic: length, start, and the end of the last; None where they go on.

    ``early`` says that messages are dated before the start, so that no window has them.
    """

    every: timedelta
    start: datetime
    end: datetime | None
    early: bool = False


def suggest_windows(first: datetime, last: datetime, *, goes_on: bool) -> SuggestedWindows:
    """Return windows for messages dated between two instants.

    They are the shortest of which there are no more than 24, but at least an hour long where the topic ``goes_on``, and at most
    a day. The start and the end are borders between windows of that length.
    """
    begin = max(first, _MIDNIGHT) if last >= _MIDNIGHT else first
    last = max(last, begin)
    least = _HOUR if goes_on else _LENGTHS[0]
    fitting = (every for every in _LENGTHS if every >= least and last - _floor(begin, every) < _MANY * every)
    every = next(fitting, _LENGTHS[-1])
    end = None if goes_on else _floor(last, every) + every
    return SuggestedWindows(every, _floor(begin, every), end, early=first < begin)


def _floor(instant: datetime, every: timedelta) -> datetime:
    return instant - (instant - _MIDNIGHT) % every
