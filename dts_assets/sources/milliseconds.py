"""Message times as Kafka has them: milliseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_JUST_UNDER_A_MILLISECOND = timedelta(microseconds=999)


def instant_of(milliseconds: int) -> datetime:
    """Return the instant of a message time."""
    return _EPOCH + milliseconds * _MILLISECOND


def floor_of(instant: datetime) -> int:
    """Return the last message time that is not after an instant."""
    return (instant - _EPOCH) // _MILLISECOND


def ceiling_of(instant: datetime) -> int:
    """Return the first message time that is not before an instant."""
    return (instant + _JUST_UNDER_A_MILLISECOND - _EPOCH) // _MILLISECOND
