"""The job that copies tables, started in the UI's Launchpad, by ``dts-assets copy`` or by ``dts-assets resync``."""

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, field_validator

from dts_assets.defs.flow_step import flow_step
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.model.copied_tables import CopyKind
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.copying import CopyReport

_KINDS = (CopyKind.BOOTSTRAP.value, CopyKind.RESYNC.value)


class CopyConfig(dg.Config):
    """The tables to copy, and how."""

    tables: list[str] = Field(
        default=[],
        description="Names at the source, such as shopdb.orders. Without any, all tables that the configuration names.",
    )
    kind: str = Field(
        default="bootstrap",
        description="bootstrap passes over tables that were copied before; resync copies them anew.",
    )
    server_is_right: bool = Field(
        default=False,
        description="Answers for a database of which nobody can tell whether it is the server of the messages. Another server is "
        "refused all the same.",
    )

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        """Return a kind of copy.

        Raises:
            ValueError: There is no such kind.
        """
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is no kind of copy; write {' or '.join(_KINDS)}")
        return kind


def copy_job_name(subscription: str) -> str:
    """Return the name of the job that copies tables."""
    return f"{subscription}_copy"


def copy_op_name(subscription: str) -> str:
    """Return the name of the job's only op, whose configuration names the tables."""
    return f"{subscription}_copy_tables"


def copy_job(subscription: Subscription) -> dg.JobDefinition:
    """Return the job that copies tables from the place that the configuration names."""
    name = subscription.name

    @dg.op(
        name=copy_op_name(name),
        pool=copy_job_name(name),  # copies do not wait for runs of the tables, nor runs for them
        tags={"subscription": name},
        out=dg.Out(dg.Nothing),
    )
    def copy_tables(
        context: dg.OpExecutionContext, config: CopyConfig, pipelines: PipelineResource, spark: SparkResource
    ) -> None:
        with flow_step(context, name, pipelines, spark, start=False) as step:
            from dts_assets.flows.copies import Copying, bootstrap_of
            from dts_assets.flows.copying import copy_tables, tables_called

            work = Copying(
                step.pipeline, bootstrap_of(step.pipeline), step.spark, step.progress, server_is_right=config.server_is_right
            )  # fmt: skip
            report = copy_tables(work, CopyKind(config.kind), tables_called(config.tables))
        context.add_output_metadata(_metadata(report))
        if report.failed:
            sentences = " ".join(report.failed.values())
            raise dg.Failure(f"{len(report.failed)} tables were not copied: {sentences}", allow_retries=False)

    @dg.job(
        name=copy_job_name(name),
        description="Copies tables from the place that bootstrap names, beside the live run. A run that was cancelled goes on "
        "where it was when it is started again.",
    )
    def job() -> None:
        copy_tables()

    return job


def _metadata(report: "CopyReport") -> dict[str, dg.MetadataValue]:
    lines = ["| table | rows | chunks | seconds | rows a second | state |", "|---|---|---|---|---|---|"]
    for one in report.copied:
        seconds = 0.0 if one.ended is None else (one.ended - one.began).total_seconds()
        rate = f"{one.rows / seconds:,.0f}" if seconds else ""
        lines.append(f"| {one.table} | {one.rows:,} | {len(one.chunks)} | {seconds:,.1f} | {rate} | {one.state} |")
    lines += [f"| {table} | | | | | copied before |" for table in report.there]
    lines += [f"| {table} | | | | | failed |" for table in report.failed]
    rows = sum(one.rows for one in report.copied)
    return {"copies": dg.MetadataValue.md("\n".join(lines)), "rows": dg.MetadataValue.int(rows)}
