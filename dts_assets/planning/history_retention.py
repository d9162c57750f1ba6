"""Retention of histories: from which moment on versions that have ended stay."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from dts_assets.model.frontier import Frontier


def versions_stay_from(frontier: Frontier, retention: timedelta | None) -> datetime | None:
    """Return the moment from which on ended versions stay; None if all do.

    It is a midnight in UTC, so that expired versions leave the files of a table once a day. It follows from the frontier and
    not from a clock, so that a re-run leaves the same versions: 2026-01-05 10:00 and 30 days give 2025-12-06 00:00.
    """
    if retention is None or frontier.window is None:
        return None
    return datetime.combine((frontier.window - retention).astimezone(UTC).date(), time(tzinfo=UTC))
