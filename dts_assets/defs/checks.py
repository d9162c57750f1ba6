"""Check results from ledger rows, one per partition.

Dagster stores the result of a run over several partitions under no partition at all. In such a run the evaluation of each
partition is therefore logged as an event of the run, and the result of the run sums the evaluations up. (Evaluations outside a
run would not do: their table takes one for each check and partition, for ever.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from dts_assets.defs.metadata import problems_text

if TYPE_CHECKING:
    from dts_assets.flows.reports import EntriesCellReport, TableReport, WindowReport
    from dts_assets.planning.judgements import Judgement

COMPLETENESS = "completeness"
BALANCE = "balance"
SCHEMA = "schema"
PAUSED = "paused_tables"

_SHOWN = 100
"""The most columns, or changes, that a result names."""


def completeness_result(judged: Judgement) -> dg.AssetCheckResult:
    """Return a result that fails if the ledger knows that a part of the partition is missing."""
    return dg.AssetCheckResult(
        check_name=COMPLETENESS,
        passed=judged.complete,
        metadata={
            "level": judged.level_text,
            "completeness_level": judged.level.rank,
            "still_open": judged.still_open,
            "problems": len(judged.problems),
            "problem_list": dg.MetadataValue.md(problems_text(judged.problems)),
        },
    )


def balance_result(report: EntriesCellReport) -> dg.AssetCheckResult:
    """Return a result that passes if everything in the partition is accounted for.

    That is every message, fragment, entry set and entry, and every row in quarantine.
    """
    counts, judged = report.row.counts, report.judgement
    return dg.AssetCheckResult(
        check_name=BALANCE,
        passed=judged.balanced,
        metadata={
            "messages": counts.messages,
            "fragments": counts.fragments,
            "fragments_waiting": counts.waiting,
            "entries": counts.entries,
            "quarantined": counts.quarantined,
            "quarantine_rows": report.quarantine_rows,
            "unbalanced": ", ".join(judged.unbalanced),
            "still_open": judged.still_open,
        },
    )


def window_balance_result(report: WindowReport) -> dg.AssetCheckResult:
    """Return a result that passes if every change of the window is accounted for.

    A change that entries announce is kept, was delivered before, or is in quarantine.
    """
    return dg.AssetCheckResult(
        check_name=BALANCE,
        passed=report.judgement.balanced,
        metadata={
            "changes": report.changes,
            "unbalanced": len(report.unbalanced),
            "unbalanced_tables": ", ".join(report.unbalanced[:20]),
            "still_open": report.judgement.still_open,
        },
    )


def schema_result(table: TableReport, window: WindowReport) -> dg.AssetCheckResult:
    """Return a result about the columns of a table at the end of a window.

    It fails as an error where columns or rows are not proven behind a statement, of this window or of one before. It
    warns of columns whose values in events the lake holds in another form, of values that the run could not know behind a
    statement, and of updates whose path the stored document does not have. All other changes are listed and fail nothing.
    """
    start = window.row.window.start
    facts, news = table.facts, table.news.get(start, ())
    converted, doubt, unknown = (
        facts.converted.get(start, ()),
        facts.doubts.get(start, ""),
        facts.unknown_values.get(start, {}),
    )
    doubted = [str(one) for one in news if one.doubt is not None] or [f"not proven since {doubt}"] if doubt else []
    misfits = facts.misfits.get(start, 0)
    lists = {
        "converted_list": [str(one) for one in converted],
        "change_list": [str(one) for one in news],
        "not_proven_list": doubted,
        "unknown_list": [_unknown(column, count) for column, count in sorted(unknown.items())],
        "unfitting_list": [_unfitting(misfits)] if misfits else [],
    }
    return dg.AssetCheckResult(
        check_name=SCHEMA,
        passed=not (converted or doubted or unknown or misfits),
        severity=dg.AssetCheckSeverity.ERROR if doubted else dg.AssetCheckSeverity.WARN,
        metadata={
            "columns": len(converted),
            "changes": len(news),
            "not_proven": len(doubted),
            "unknown_values": sum(unknown.values()),
            "unfitting_updates": misfits,
            **{name: _listed(lines) for name, lines in lists.items() if lines},
        },
    )


def _unknown(column: str, count: int) -> str:
    if count == 1:
        return (
            f"`{column}`: 1 value of a standing row is not known (servers convert it differently, or nothing tells it)"
        )
    return (
        f"`{column}`: {count:,} values of standing rows are not known "
        "(servers convert them differently, or nothing tells them)"
    )


def _unfitting(count: int) -> str:
    updates = "1 update names a path" if count == 1 else f"{count:,} updates name paths"
    return f"{updates} that the stored document does not have; a full load or a later replace heals it"


def _listed(lines: Sequence[str]) -> dg.MarkdownMetadataValue:
    more = [f"and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return dg.MetadataValue.md("\n".join(f"- {line}" for line in [*lines[:_SHOWN], *more]))


def paused_result(table: TableReport, window: WindowReport) -> dg.AssetCheckResult:
    """Return a result that fails if the window lacks the table, which stood still when it was made.

    It has the reason, the moment and the commands.
    """
    from dts_assets.planning.pauses import resume_command  # it brings the ledger's rows, which definitions do not need

    said = "".join(
        f"It stands still since {one.since:%Y-%m-%d %H:%M} UTC: {one.reason}. Mend it, then "
        f"`{resume_command(one.id)}`, which the next run of the tables follows; `dts-assets tables` lists all tables."
        for one in window.row.paused
        if one.id == table.table
    )
    return dg.AssetCheckResult(
        check_name=PAUSED,
        passed=not said,
        metadata={"still_open": window.judgement.still_open, **({"reason": dg.MetadataValue.md(said)} if said else {})},
    )


def report_per_partition(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, results: Mapping[str, dg.AssetCheckResult]
) -> dg.AssetCheckResult:
    """Store the result of each partition under its partition; return the result of the run."""
    (first, *more) = results.values()
    if not more:
        return first._replace(asset_key=asset)
    from dts_assets.defs.event_log import gathered_events  # its databases' libraries are not needed to load definitions

    with gathered_events(context.instance):
        for partition, result in results.items():
            context.log_event(evaluation(asset, result, partition))
    failed = sorted(partition for partition, result in results.items() if not result.passed)
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=first.check_name,
        passed=not failed,
        severity=max((results[partition].severity for partition in failed), key=_rank, default=first.severity),
        metadata={"partitions": len(results), "failed": len(failed), "failed_partitions": ", ".join(failed[:20])},
    )


def _rank(severity: dg.AssetCheckSeverity) -> bool:
    return severity is dg.AssetCheckSeverity.ERROR


def evaluation(
    asset: dg.AssetKey,
    result: dg.AssetCheckResult,
    partition: str | None = None,
    *,
    target: AssetCheckEvaluationTargetMaterializationData | None = None,
) -> dg.AssetCheckEvaluation:
    """Return a result as the event of one partition, or of the whole asset.

    ``target`` is the materialization that it is about.
    """
    return dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=str(result.check_name),
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        partition=partition,
        target_materialization_data=target,
    )
