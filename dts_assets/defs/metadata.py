"""The reports of flows as Dagster metadata: plain numbers under plain names, which the UI plots over partitions.

Numbers of time, equal in meaning in every layer:

- ``seconds`` is how long the tasks of the partition took on the workers, without the planning and the commits that the partitions
  of a run share; rates are per second of it. ``run_seconds`` is the whole run, the same for all its partitions.
- ``event_lag_seconds`` runs from the last thing that happened in the window to the window's end: the last message's Kafka time
  for raw, the source's own time of the last event for entries, of the table's last change for a changelog and a snapshot. It is
  measured against the window and not against the clock, so that a window made again later shows the same number.
- ``delivery_lag_seconds`` of entries runs from the last event at the source to the last message in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.flows.layers import HISTORY, SNAPSHOT, SQL
from dts_assets.model.problems import Problem
from dts_assets.model.windows import ClosedBy

if TYPE_CHECKING:
    from dts_assets.flows.reports import EntriesCellReport, LayerOutcome, RawCellReport, TableReport, WindowReport
    from dts_assets.model.removals import NotRemoved
    from dts_assets.planning.column_types import ConvertedColumn
    from dts_assets.planning.judgements import Judgement

Metadata = Mapping[str, Any]


def column_schema(columns: Iterable[tuple[str, str]], *, keys: Iterable[str] = ()) -> dg.TableSchema:
    """Return columns (name and lake type) as the UI shows them; ``keys`` are parts of the key."""
    of_key = set(keys)
    return dg.TableSchema(columns=[_column(name, kind, name in of_key) for name, kind in columns])


_CHANGES_SHOWN = 100
"""The most changes of a schema that metadata list."""

KEY_TAG = "dts-assets/primary_key"
"""The tag of columns that are part of a table's primary key."""


@lru_cache(maxsize=10_000)
def _column(name: str, kind: str, is_key: bool) -> dg.TableColumn:
    """Return a column, which is optional in the lake even where it is part of the source's key.

    Columns are kept, because tables repeat them: source coordinates alone are most of a graph.
    """
    return dg.TableColumn(
        name,
        type=kind,
        description="part of the primary key" if is_key else None,
        constraints=dg.TableColumnConstraints(nullable=True, unique=False),
        tags={KEY_TAG: ""} if is_key else {},
    )


def raw_metadata(report: RawCellReport) -> Metadata:
    """Return the metadata of one cell of raw."""
    row = report.row
    return {
        "dagster/partition_row_count": row.messages,
        "messages": row.messages,
        "start_offset": row.offsets.start,
        "end_offset": row.offsets.end,
        "message_bytes": row.bytes,
        "stored_bytes": report.stored_bytes,
        "closed_by": row.closed_by.value,
        "still_open": row.closed_by is ClosedBy.OPEN,
        "kept_as_stored": report.kept,
        **known(event_lag_seconds=report.event_lag_seconds),
        **_work(report.seconds, messages_per_second=row.messages),
        **_problems(row.problems),
        **_instants(first_message=row.first_time, last_message=row.last_time),
    }


def entries_metadata(report: EntriesCellReport) -> Metadata:
    """Return the metadata of one cell of entries: its counts and its completeness."""
    row, counts = report.row, report.row.counts
    return {
        "dagster/partition_row_count": counts.entries - counts.quarantined_entries,
        "messages": counts.messages,
        "start_offset": row.offsets.start,
        "end_offset": row.offsets.end,
        "entries": counts.entries,
        "row_changes": report.changes,
        "fragments": counts.fragments,
        "fragments_carried_in": counts.carried_in,
        "fragments_carried_out": counts.carried_out,
        "fragments_waiting": counts.waiting,
        "quarantined": counts.quarantined,
        "message_bytes": report.message_bytes,
        "stored_bytes": report.stored_bytes,
        **_level(report.judgement),
        "closed_by": row.closed_by.value,
        "generation": row.generation,
        **known(event_lag_seconds=report.event_lag_seconds, delivery_lag_seconds=report.delivery_lag_seconds),
        **_work(report.seconds, row_changes_per_second=report.changes),
        **known(checkpoint=None if row.checkpoint is None else str(row.checkpoint)),
        **_problems(row.problems),
    }


def changelog_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """Return the metadata of one window of a changelog.

    The seconds are those of all tables, which are decoded by the same tasks; the rate is that of this table alone.
    """
    start = window.row.window.start
    return {
        "dagster/partition_row_count": report.changes.get(start, 0),
        "row_changes": report.changes.get(start, 0),
        "invalid_values": report.invalid_values.get(start, 0),
        "quarantined": report.quarantined.get(start, 0),
        "stored_bytes": report.stored_bytes.get(start, 0),
        **_level(window.judgement),
        "generation": window.row.generation,
        **known(event_lag_seconds=report.event_lag_seconds(window.row.window)),
        **_work(window.seconds, row_changes_per_second=report.changes.get(start, 0)),
        **_schema_changes(report, window),
        **_problems(window.row.problems),
    }


def snapshot_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """Return the metadata of one window of a snapshot; ``applied`` says whether the frontier has reached the window."""
    outcome = report.layers[SNAPSHOT.name]
    return _of_rows(report, window, outcome, unknown_values=sum(outcome.unknown_values.values()))


def history_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """Return the metadata of one window of a history, as that of a snapshot; its rows are versions."""
    return _of_rows(report, window, report.layers[HISTORY.name])


def statement_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """Return the metadata of one window of statements.

    ``without_statement`` is known where the run has written the window: a change that the dialect cannot write is a comment.
    """
    start, outcome = window.row.window.start, report.layers[SQL.name]
    return {
        "row_changes": report.changes.get(start, 0),
        "committed": outcome.committed,
        "still_open": window.judgement.still_open,
        **known(
            event_lag_seconds=report.event_lag_seconds(window.row.window),
            without_statement=outcome.refused.get(start),
            stored_bytes=outcome.bytes,
            **{"dagster/row_count": outcome.rows},
        ),
        **_problems(window.row.problems),
    }


def _not_removed(counts: NotRemoved | None) -> Metadata:
    """Return the counts of changes that did not find their row; nothing where all did."""
    if counts is None:
        return {}
    removals = {"unmatched_removals": counts.unmatched, "ambiguous_removals": counts.ambiguous}
    return {**removals, **known(unmatched_updates=counts.unseen or None, unfitting_updates=counts.misfits or None)}


def _of_rows(report: TableReport, window: WindowReport, outcome: LayerOutcome, **more: int) -> Metadata:
    return {
        "row_changes": report.changes.get(window.row.window.start, 0),
        "applied": window.applied,
        "committed": outcome.committed,
        "consistency": window.row.consistency.value,
        "still_open": window.judgement.still_open,
        **known(event_lag_seconds=report.event_lag_seconds(window.row.window), stored_bytes=outcome.bytes),
        **({} if window.row.cut is None else {"cut": str(window.row.cut)}),
        **known(**{"dagster/row_count": outcome.rows}),
        **_not_removed(outcome.not_removed),
        **more,
        **_converted(report.facts.converted.get(window.row.window.start, ())),
        **_schema_changes(report, window),
        **_problems(window.row.problems),
    }


def of_run(
    seconds: float,
    *,
    columns: Iterable[tuple[str, str]],
    keys: Iterable[str] = (),
    location: str | None = None,
    decoder: str = "",
    paused: Iterable[str] = (),
) -> Metadata:
    """Return the metadata that all partitions of a run share.

    ``decoder`` names the parser and its version, ``paused`` the tables that stood still.
    """
    return {
        "run_seconds": round(seconds, 3),
        "dagster/column_schema": column_schema(columns, keys=keys),
        **known(**{"dagster/uri": location, "decoder": decoder or None, "paused_tables": ", ".join(paused) or None}),
    }


def problems_text(problems: Iterable[Problem]) -> str:
    """Return problems as a list in Markdown; it never holds a payload."""
    lines = [f"- **{problem.code.value}**{_where(problem)}: {problem.detail}" for problem in problems]
    return "\n".join(lines) or "none"


def _converted(columns: tuple[ConvertedColumn, ...]) -> Metadata:
    """Return the columns that hold values in another form; their list is Markdown and holds no value."""
    listed = "\n".join(f"- {column}" for column in columns)
    return {"converted_columns": len(columns), **({"converted_list": dg.MetadataValue.md(listed)} if columns else {})}


def _schema_changes(report: TableReport, window: WindowReport) -> Metadata:
    """Return the changes of the table's schema in a window, as Markdown; nothing without changes."""
    news = report.news.get(window.row.window.start, ())
    if not news:
        return {}
    shown = [f"- {one}" for one in news[:_CHANGES_SHOWN]]
    more = [f"- and {len(news) - _CHANGES_SHOWN:,} more"] if len(news) > _CHANGES_SHOWN else []
    return {"schema_changes": len(news), "schema_change_list": dg.MetadataValue.md("\n".join([*shown, *more]))}


def _level(judged: Judgement) -> Metadata:
    """Return the level of a partition; while it is open, numbers and rates beside it hold so far."""
    return {
        "completeness": judged.level_text,
        "completeness_level": judged.level.rank,
        "still_open": judged.still_open,
    }


def _where(problem: Problem) -> str:
    if problem.first_offset is None:
        return ""
    return f" at offsets {problem.first_offset} to {problem.last_offset}"


def _problems(problems: tuple[Problem, ...]) -> Metadata:
    listed = {"problem_list": dg.MetadataValue.md(problems_text(problems))} if problems else {}
    return {"problems": len(problems), **listed}


def known(**values: Any) -> Metadata:
    """Return the values that are known: those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _work(seconds: float, **amounts: int) -> Metadata:
    """Return the seconds of work and the amounts per second; nothing where no task ran."""
    if seconds <= 0:
        return {}
    return {"seconds": round(seconds, 3), **{name: round(amount / seconds, 1) for name, amount in amounts.items()}}


def _instants(**instants: datetime | None) -> Metadata:
    return {name: dg.MetadataValue.timestamp(instant) for name, instant in instants.items() if instant is not None}
