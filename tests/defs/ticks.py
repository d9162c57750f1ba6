"""Ticks of the sensors in a project of two Kafka partitions, and the ledger rows that runs leave."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from dts_assets.defs.partitions import RANGE_END, RANGE_START
from dts_assets.defs.sensors import ingest_sensor, live_sensor, tables_sensor
from dts_assets.defs.table_assets import graph_tables
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.ledger_rows import Counts, IngestWindow, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.copied_tables import NO_COPIES
from dts_assets.planning.staleness import generation, input_text, raw_input

if TYPE_CHECKING:
    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, GRACE = timedelta(hours=1), timedelta(minutes=10)
GRID = WindowGrid(HOUR, START)


TWO_WINDOWS = [(0, 0, START), (1, 0, START), (0, 1, START + HOUR), (1, 1, START + HOUR)]


def growing(project: Project) -> Project:
    """A capture that is still growing, of two Kafka partitions; one table is known."""
    return project.configure(complete=False, end="null").register(
        {TableId("shopdb", "", "orders"): [("id", "int", True)]}
    )


def ingest_tick(project: Project, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    return tick(ingest_sensor(project.subscription, graph_tables(project.subscription)), project, instance, cursor)


def tables_tick(project: Project, instance: dg.DagsterInstance) -> dg.SensorResult:
    return tick(tables_sensor(project.subscription), project, instance, None)


def tick(
    sensor: dg.SensorDefinition, project: Project, instance: dg.DagsterInstance, cursor: str | None
) -> dg.SensorResult:
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"pipelines": project.pipelines}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult), result
    return result


def ranges(result: dg.SensorResult) -> list[tuple[str, str]]:
    return [(request.tags[RANGE_START], request.tags[RANGE_END]) for request in result.run_requests or ()]


def keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or ()]


def skipped(project: Project, instance: dg.DagsterInstance) -> str | None:
    with dg.build_sensor_context(instance=instance, resources={"pipelines": project.pipelines}) as context:
        result = live_sensor(project.subscription)(context)
    assert isinstance(result, dg.SkipReason), result
    return result.skip_message


def ingested(project: Project, cells: Iterable[Cell], *, raw: str = "r1", head: Cell | None = None) -> None:
    """Ledger rows as the first two flows leave them; ``head`` was looked for and is not there yet."""
    ledger = project.pipeline.ledger
    for cell in cells:
        inputs = [input_text(raw_input(cell), raw)] + ([input_text(raw_input(head), "absent")] if head else [])
        window = (cell.kafka_partition, cell.window, 0, OffsetRange(0, 1))
        ledger.replace_raw_windows([cell], [RawWindow(*window, ClosedBy.MESSAGE, 1, 9, START, START, (), raw, "1")])
        row = IngestWindow(
            *window, Counts(messages=1, whole=1), None, None, (), ClosedBy.MESSAGE, Completeness.OBSERVED, (), "1",
            generation(inputs, code_version="1"), tuple(inputs),
        )  # fmt: skip
        ledger.replace_windows([cell], [row])


def tables_made(project: Project, number: int) -> None:
    """The ledger row that a run of the tables leaves."""
    pipeline, window = project.pipeline, GRID.at(number)
    mark = pipeline.topic_marks(pipeline.ledger.windows(), known_tables(pipeline), copied=NO_COPIES).mark(window)
    pipeline.ledger.replace_cuts([window], [mark])


def cells(*numbers: int) -> list[Cell]:
    return [Cell(partition, GRID.at(number)) for number in numbers for partition in (0, 1)]
