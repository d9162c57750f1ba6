"""Backfills as the UI asks for them and the daemon makes them, in one process: GraphQL, backfill iterations, runs.

Run by ``test_backfills.py`` in a process of its own, because the Spark session of a process knows one lake. Prints one JSON
object.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.schema import create_schema
from rich.console import Console

from dts_assets.cli.run import run_all
from dts_assets.defs.assemble import assemble
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.flows.find_work import find_work
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import Window
from dts_assets.settings import load_settings
from tests.flows.harness import Harness

LAUNCH = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
MOST_ITERATIONS = 12


class Session:
    """One configuration, one instance, and the code location as the webserver and the daemon see it."""

    def __init__(self, config: Path, instance: dg.DagsterInstance) -> None:
        self.config = config
        self.instance = instance

    def pipeline(self, name: str) -> Pipeline:
        return open_pipeline(load_settings(self.config), name)

    def backfill(self, assets: Iterable[Sequence[str]], partitions: Iterable[str]) -> dict[str, int]:
        """Ask as the UI does, go on as the daemon does; how many runs it took."""
        sys.modules.pop(
            "dts_assets.definitions", None
        )  # runs load it in this process, and tables may have been found since
        target = ModuleTarget("dts_assets.definitions", None, str(self.config.parent), "dts_assets")
        with WorkspaceProcessContext(self.instance, target) as workspace:
            params = {"assetSelection": [{"path": list(path)} for path in assets], "partitionNames": list(partitions)}
            answer = create_schema().execute(
                LAUNCH, context_value=workspace.create_request_context(), variable_values={"params": params}
            )
            assert not answer.errors, answer.errors
            launched = answer.data["launchPartitionBackfill"]
            assert launched["__typename"] == "LaunchBackfillSuccess", launched
            logger = logging.getLogger("backfill")
            status = BulkActionStatus.REQUESTED
            for _ in range(MOST_ITERATIONS):
                problems = [one for one in execute_backfill_iteration(workspace, logger) if one is not None]
                assert not problems, problems
                backfill = self.instance.get_backfill(launched["backfillId"])
                assert backfill is not None
                status = backfill.status
                if status is not BulkActionStatus.REQUESTED:
                    break
            assert status is BulkActionStatus.COMPLETED_SUCCESS, status
        runs = self.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": launched["backfillId"]}))
        assert all(run.is_success for run in runs)
        return {"runs": len(runs)}

    def one_run(self, name: str) -> None:
        """Everything of a subscription in one run of each job."""
        span = whole(self.pipeline(name))
        for job, tags in ((ingest_job_name(name), span_tags(span)), (tables_job_name(name), window_tags(span.windows))):
            definitions = assemble(load_settings(self.config), self.config)
            result = definitions.resolve_job_def(job).execute_in_process(instance=self.instance, tags=tags)
            assert result.success

    def events(self, name: str) -> dict[str, dict[str, int]]:
        """How many materializations every partition of every asset of a subscription has."""
        found: dict[str, Counter[str]] = {}
        for key in self.instance.all_asset_keys():
            if key.path[0] == name:
                records = self.instance.fetch_materializations(key, limit=10_000).records
                found[key.to_user_string()] = Counter(str(one.partition_key) for one in records)
        return {key: dict(counted) for key, counted in found.items()}

    def everything(self, name: str) -> dict[str, list[str]]:
        return Harness(self.pipeline(name), None).everything()  # type: ignore[arg-type]  # reads only

    def table_assets(self, name: str) -> list[tuple[str, ...]]:
        definitions = assemble(load_settings(self.config), self.config)
        keys = definitions.resolve_asset_graph().get_all_asset_keys()
        return [tuple(key.path) for key in keys if key.path[0] == name and key.path[1] in ("changelog", "snapshot")]


def whole(pipeline: Pipeline) -> Span:
    assert pipeline.grid.end is not None
    return Span(tuple(pipeline.kafka_partitions), tuple(pipeline.grid.until(pipeline.grid.end)))


def ragged(span: Span) -> tuple[list[Cell], list[Cell]]:
    """The cells in two sets that are no rectangles: stairs, and what is left."""
    stairs = [cell for cell in span.cells() if span.windows.index(cell.window) <= cell.kafka_partition]
    return stairs, [cell for cell in span.cells() if cell not in stairs]


def main(config: Path) -> dict[str, Any]:
    report: dict[str, Any] = {}
    with dg.DagsterInstance.from_config(os.environ["DAGSTER_HOME"]) as instance:
        session = Session(config, instance)
        session.one_run("once")
        ingest = [("pieces", "raw_envelopes"), ("pieces", "entries")]
        span = whole(session.pipeline("pieces"))
        for number, cells in enumerate(ragged(span)):
            report[f"ingest_{number}"] = session.backfill(ingest, [str(cell) for cell in cells])
        halves: tuple[Sequence[Window], ...] = (span.windows[::2], span.windows[1::2])
        for number, windows in enumerate(halves):
            keys = [window.key for window in windows]
            report[f"tables_{number}"] = session.backfill(session.table_assets("pieces"), keys)
        report["events"] = {name: session.events(name) for name in ("once", "pieces")}
        # The daemon's runs come in any order: sets that begin in a window that was made later are joined now.
        report["stale"] = [str(cell) for cell in find_work(session.pipeline("pieces")).stale_entries]
        outcome = run_all(config, Console(quiet=True))
        assert not outcome.failures, outcome.failures
        report["events_settled"] = session.events("pieces")
        once, pieces = session.everything("once"), session.everything("pieces")
        report["rows"] = {name: len(rows) for name, rows in pieces.items()}
        report["differ"] = [name for name in once.keys() | pieces.keys() if once.get(name) != pieces.get(name)]
        session.backfill(ingest, [str(cell) for cell in span.cells()])
        session.backfill(session.table_assets("pieces"), [window.key for window in span.windows])
        again = session.everything("pieces")
        report["differ_again"] = [name for name in once if once[name] != again.get(name)]
        report["events_again"] = session.events("pieces")
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
