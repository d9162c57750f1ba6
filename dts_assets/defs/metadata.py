"""Reports as Dagster metadata: plain numbers under plain names, so that the UI plots them over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.model.problems import Problem

if TYPE_CHECKING:
    from dts_assets.flows.reports import EntriesCellReport, RawCellReport, TableReport, WindowReport

Metadata = Mapping[str, Any]


def column_schema(columns: Iterable[tuple[str, str]], *, keys: Iterable[str] = ()) -> dg.TableSchema:
    """A table's columns (name and lake type) as the UI shows them; ``keys`` are marked."""
    marked = set(keys)
    return dg.TableSchema(columns=[_column(name, kind, name in marked) for name, kind in columns])


@lru_cache(maxsize=10_000)
def _column(name: str, kind: str, is_key: bool) -> dg.TableColumn:
    """Kept, because tables repeat columns: those of the source coordinates alone are most of a graph's."""
    return dg.TableColumn(
        name,
        type=kind,
        description="part of the primary key" if is_key else None,
        constraints=dg.TableColumnConstraints(nullable=not is_key, unique=False),
    )


def raw_metadata(report: RawCellReport) -> Metadata:
    """One cell of raw."""
    row = report.row
    return {
        "dagster/partition_row_count": row.messages,
        "messages": row.messages,
        "start_offset": row.offsets.start,
        "end_offset": row.offsets.end,
        "message_bytes": row.bytes,
        "stored_bytes": report.stored_bytes,
        "closed_by": row.closed_by,
        "kept_as_stored": report.kept,
        **_problems(row.problems),
        **_instants(first_message=row.first_time, last_message=row.last_time),
    }


def entries_metadata(report: EntriesCellReport) -> Metadata:
    """One cell of entries: its counts, and what is known of its completeness."""
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
        "quarantined": counts.quarantined_messages + counts.quarantined_fragments + counts.quarantined_entries,
        "stored_bytes": report.stored_bytes,
        "completeness": row.completeness.value,
        "completeness_level": row.completeness.rank,
        "closed_by": row.closed_by,
        "generation": row.generation,
        **({} if report.lag_seconds is None else {"lag_seconds": report.lag_seconds}),
        **({} if row.checkpoint is None else {"checkpoint": str(row.checkpoint)}),
        **_problems(row.problems),
    }


def changelog_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """One window of a changelog."""
    start = window.row.window.start
    return {
        "dagster/partition_row_count": report.changes.get(start, 0),
        "row_changes": report.changes.get(start, 0),
        "invalid_values": report.invalid_values.get(start, 0),
        "quarantined": report.quarantined.get(start, 0),
        "stored_bytes": report.stored_bytes.get(start, 0),
        "completeness": window.row.completeness.value,
        "generation": window.row.generation,
    }


def snapshot_metadata(report: TableReport, window: WindowReport) -> Metadata:
    """One window of a snapshot; ``applied`` says whether the frontier has reached it."""
    return {
        "row_changes": report.changes.get(window.row.window.start, 0),
        "applied": window.applied,
        "committed": report.snapshot_committed,
        "consistency": window.row.consistency,
        **({} if window.row.cut is None else {"cut": str(window.row.cut)}),
        **({} if report.snapshot_rows is None else {"dagster/row_count": report.snapshot_rows}),
    }


def problems_text(problems: Iterable[Problem]) -> str:
    """Problems as a list in Markdown; never a payload."""
    lines = [f"- **{problem.code.value}**{_where(problem)}: {problem.detail}" for problem in problems]
    return "\n".join(lines) or "none"


def _where(problem: Problem) -> str:
    if problem.first_offset is None:
        return ""
    return f" at offsets {problem.first_offset} to {problem.last_offset}"


def _problems(problems: tuple[Problem, ...]) -> Metadata:
    shown: dict[str, Any] = {"problems": len(problems)}
    if problems:
        shown["problem_list"] = dg.MetadataValue.md(problems_text(problems))
    return shown


def _instants(**instants: datetime | None) -> Metadata:
    return {name: dg.MetadataValue.timestamp(instant) for name, instant in instants.items() if instant is not None}
