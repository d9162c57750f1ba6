"""Moments as callers name them: by one of four words."""

from __future__ import annotations

from datetime import UTC, datetime

from dts_assets.planning.source_moments import AtGtid, AtPosition, AtTime, AtWindow, Moment, moment_of

_KINDS: dict[str, type[Moment]] = {"gtid": AtGtid, "position": AtPosition, "time": AtTime, "window": AtWindow}


def moment_given(**given: datetime | str | None) -> Moment | None:
    """Return the one moment that is named by its kind, None where none is.

    Raises:
        ValueError: Several moments are named, or one is written otherwise.
    """
    told = [(kind, value) for kind, value in given.items() if value is not None]
    if len(told) > 1:
        raise ValueError(f"name one moment, not {' and '.join(kind for kind, _ in told)}")
    if not told:
        return None
    ((kind, value),) = told
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if kind in ("time", "window"):
            return AtTime(instant) if kind == "time" else AtWindow(instant)
        raise ValueError(f"a datetime is no {kind}")
    moment = moment_of(value)
    if not isinstance(moment, _KINDS[kind]):
        raise ValueError(f"{value} is no {kind}")
    return moment
