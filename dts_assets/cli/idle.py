"""The words of ``dts-assets run`` where nothing was run: the reason, and what to type next."""

from __future__ import annotations

from datetime import UTC, datetime

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.windows import ClosedBy
from dts_assets.settings.values import duration_text

UP_TO_DATE = "Nothing to do: every closed window is there and up to date."
AS_NAMED = "No run is left to do, and what is named above is not in order: mend it, then type dts-assets run."

_SHOWN = 10


def idle_sentence(pipeline: Pipeline) -> str:
    """Return why a subscription without work is not done; empty where every closed window is there.

    Raises:
        SourceError: The source cannot be asked.
    """
    name, settings = pipeline.name, pipeline.settings
    rows = pipeline.ledger.windows()
    closed = {row.window for row in rows if row.closed_by is not ClosedBy.OPEN}
    if closed and not known_tables(pipeline):
        seen = sorted({str(row.table) for row in pipeline.ledger.table_shapes()})
        shown = ", ".join(seen[:_SHOWN]) + (f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else "")
        asked = ", ".join(settings.tables.include) + "".join(f", but not {one}" for one in settings.tables.exclude)
        told = f"the tables that were seen are {shown}" if seen else "their entries name no table"
        return (
            f"{name}: {len(closed):,} closed windows hold no table that is taken: tables of the configuration says {asked}, and "
            f"{told}. Mend it, then type dts-assets run."
        )
    if closed and settings.window.live:
        return (
            f"{name}: all {len(closed):,} closed windows are there. Its open window is followed by the job {name}_live "
            f"(window.live), which this command does not start: type make dev, and let the sensor {name}_follow_live run."
        )
    if closed:
        return ""
    return f"{name}: no window has closed yet: {_next_closing(pipeline)}"


def _next_closing(pipeline: Pipeline) -> str:
    """Return when the next window closes, and what to type then."""
    window, live = pipeline.settings.window, pipeline.settings.window.live
    newest = max((one.latest for one in pipeline.source.watermarks().values() if one.latest is not None), default=None)
    where = f"the newest message is of {_text(newest)}" if newest is not None else "the source has no message yet"
    follow = f" (window.live: the job {pipeline.name}_live follows the open window; make dev starts it)" if live else ""
    if window.start > (newest or datetime.now(UTC)):
        return (
            f"window.start is {_text(window.start)}, and {where}. Name an earlier start, or type dts-assets run when messages of "
            f"that time are there{follow}."
        )
    first = pipeline.first_window()
    following = pipeline.grid.at(0) if first is None else pipeline.grid.of_start(first)
    return (
        f"{where}. Window {following.key} closes in each Kafka partition with its first message from {_text(following.end)} on, "
        f"or {duration_text(window.grace)} after that time without one. Type dts-assets run then{follow}."
    )


def _text(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
