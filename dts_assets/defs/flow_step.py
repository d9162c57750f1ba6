"""The wrapper of steps that run a flow: it starts Spark, opens the pipeline, explains errors and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from dts_assets.defs.failures import explained
from dts_assets.defs.resources import PipelineResource, SparkResource

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline, SparkProvider
    from dts_assets.flows.reports import Progress

StepContext: TypeAlias = dg.AssetExecutionContext | dg.OpExecutionContext

TableEvent: TypeAlias = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
"""An event that a step reports of an asset that is not its own."""


@dataclass(frozen=True, slots=True)
class FlowStep:
    """The arguments that a step gives to its flow.

    `reopen` opens the pipeline by the configuration as it is then.
    """

    pipeline: Pipeline
    spark: SparkProvider
    progress: Progress
    reopen: Callable[[], Pipeline]


@contextmanager
def flow_step(
    context: StepContext, subscription: str, pipelines: PipelineResource, spark: SparkResource, *, start: bool = True
) -> Iterator[FlowStep]:
    """Open a subscription's pipeline for a flow, and turn errors for people into explained failures.

    Spark starts in the background; with `start` off it starts when the flow asks for it. Flows are imported inside of the
    block, so that they load while Spark starts.
    """
    if start:
        spark.start()

    def reopen() -> Pipeline:
        return pipelines.pipeline(subscription)

    with explained(context):
        yield FlowStep(reopen(), spark.session, context.log.info, reopen)


def partition_event(
    key: dg.AssetKey, partition: str, metadata: Mapping[str, Any], *, still_open: bool
) -> dg.AssetMaterialization | dg.AssetObservation:
    """Return the event of a partition that a step of another asset has written.

    It is an observation while the window is open: Dagster shows a partition as done once it was materialized.
    """
    kind = dg.AssetObservation if still_open else dg.AssetMaterialization
    return kind(key, metadata=metadata, partition=partition)


def log_events(context: dg.OpExecutionContext, events: Iterable[TableEvent]) -> None:
    """Log events of assets that the op does not make itself."""
    from dts_assets.defs.event_log import gathered_events  # its databases' libraries are not needed to load definitions

    with gathered_events(context.instance):
        for event in events:
            # Accepted as every event of a user is; the signature names three of them.
            context.log_event(event)  # type: ignore[arg-type]
