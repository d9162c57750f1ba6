"""The checks that snapshots equal the source database, one for each table.

A job of their own executes them, also on a schedule.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs.failures import explained
from dts_assets.defs.resources import PipelineResource
from dts_assets.defs.table_assets import TableAsset
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.model.tables import TableId
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.verification import TableVerdict

EQUALITY = "equal_to_the_source"

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def compared_assets(subscription: Subscription, assets: Sequence[TableAsset]) -> tuple[TableAsset, ...]:
    """Return the snapshots that are compared; none where no source database is named."""
    if subscription.verify.jdbc is None:
        return ()
    globs, routes = subscription.verify.tables, subscription.routes
    return tuple(
        one
        for one in assets
        if one.layer.stored is SNAPSHOT and any(routes.means(one.table, glob) for glob in globs)
    )  # fmt: skip


def equality_keys(assets: Iterable[TableAsset]) -> tuple[dg.AssetCheckKey, ...]:
    """Return the keys of the checks of some snapshots."""
    return tuple(dg.AssetCheckKey(one.key, EQUALITY) for one in assets)


def equality_checks(subscription: Subscription, assets: Sequence[TableAsset]) -> dg.AssetChecksDefinition:
    """Return the checks of some snapshots, which are one step: all are compared at one moment."""
    names = [f"table_{number}" for number in range(len(assets))]

    @dg.op(
        name=f"{subscription.name}_compare_with_source",
        ins={f"in_{name}": dg.In(dg.Nothing) for name in names},
        out={name: dg.Out(dg.Nothing) for name in names},
        tags={"subscription": subscription.name},
    )
    def compare_with_source(context: dg.OpExecutionContext, pipelines: PipelineResource):  # type: ignore[no-untyped-def]
        # No annotation: Dagster takes none for an output that carries nothing.
        from dts_assets.flows.verification import verify

        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            place = pipeline.settings.verify.place
            assert place is not None, "there are no checks without"
            found = verify(pipeline, place, tables=[one.table for one in assets], progress=context.log.info)
        for one in assets:
            yield equality_result(one.key, one.table, found.verdicts.get(one.table), str(found.position))

    specs = {
        name: dg.AssetCheckSpec(
            EQUALITY, asset=one.key, description="The snapshot has the rows of the source database, compared by sums."
        )
        for name, one in zip(names, assets, strict=True)
    }
    made: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name={f"in_{name}": one.key for name, one in zip(names, assets, strict=True)},
        node_def=compare_with_source,
        check_specs_by_output_name=specs,
        can_subset=False,
    )
    return made


def equality_result(
    key: dg.AssetKey, table: TableId, verdict: "TableVerdict | None", position: str
) -> dg.AssetCheckResult:
    """Return the result of one table. Columns and keys are told, and no value of any other column."""
    if verdict is None or verdict.refused:
        why = "the table does not exist at this moment" if verdict is None else verdict.refused
        metadata: dict[str, Any] = {"not_compared": why}
        return _result(key, passed=False, severity=dg.AssetCheckSeverity.WARN, metadata=metadata)
    from dts_assets.flows.verdict_words import difference_lines, verdict_words

    metadata = {
        "verdict": verdict_words(verdict),
        "source_position": position,
        "rows": verdict.lake.rows,
        "rows_at_the_source": verdict.source.rows,
        "left_out": "; ".join(f"{name}: {reason}" for name, reason in verdict.left_out.items()),
        "differences": "; ".join(difference_lines(table, verdict.differences, server="source", values=False)),
    }
    return _result(key, passed=verdict.is_equal, severity=dg.AssetCheckSeverity.ERROR, metadata=metadata)


def _result(
    key: dg.AssetKey, *, passed: bool, severity: dg.AssetCheckSeverity, metadata: dict[str, Any]
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key, check_name=EQUALITY, passed=passed, severity=severity, metadata=metadata
    )  # fmt: skip


def verify_job_name(subscription: str) -> str:
    """Return the name of the job that compares snapshots with the source."""
    return f"{subscription}_verify"


def verify_job(subscription: Subscription, assets: Sequence[TableAsset]) -> Any:
    """Return the job that executes the checks alone."""
    return dg.define_asset_job(
        verify_job_name(subscription.name),
        selection=dg.AssetSelection.checks(*equality_keys(assets)),
        description="Compares the snapshots with the source database, all at one moment, by sums.",
    )


def verify_schedule(subscription: Subscription) -> dg.ScheduleDefinition | None:
    """Return the schedule of the job, which runs from the start; None where nobody asks for it."""
    every = subscription.verify.every
    if every is None:
        return None
    return dg.ScheduleDefinition(
        name=f"{subscription.name}_verify_schedule",
        job_name=verify_job_name(subscription.name),
        cron_schedule=cron_of(every),
        execution_timezone="UTC",
        description="Compares the snapshots with the source database at the times that verify: every names.",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def cron_of(every: timedelta) -> str:
    """Return the cron schedule of a time that divides an hour, or of hours that divide a day."""
    if every >= _DAY:
        return "0 0 * * *"
    if every < _HOUR:
        return f"*/{every // timedelta(minutes=1)} * * * *"
    return f"0 */{every // _HOUR} * * *"
