"""The runs of Dagster jobs in the process of a command, on the instance that the UI shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError

from dts_assets.defs.assemble import quiet
from dts_assets.defs.failures import IN_THE_UI, error_code, error_sentence, is_interruption
from dts_assets.errors import DtsAssetsError
from dts_assets.flows.preflight import require_home
from dts_assets.model.failures import Failure
from dts_assets.settings.load import enter_dagster_home

SPARK_LOG = "spark.log"
"""The file in Dagster's home for Spark's own messages during a command."""


@dataclass(frozen=True, slots=True)
class Request:
    """A run: its job, its tags, the keys of its assets (None: all), and its ops' configuration.

    `key` tells the run from others and is shown: `p00|2026-01-05-00:00 to p01|2026-01-05-02:00`.
    """

    job: str
    key: str
    tags: Mapping[str, str]
    selection: tuple[dg.AssetKey, ...] | None = None
    ops: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dagster:
    """The Dagster instance of a configuration, and the place of its home.

    ``failed_checks`` are the evaluations of its runs that failed as errors.
    """

    instance: dg.DagsterInstance
    home: Path
    failed_checks: list[dg.AssetCheckEvaluation] = field(default_factory=list)

    def execute(self, definitions: dg.Definitions, request: Request) -> Failure | None:
        """Run one request and return its failure; None if it succeeded.

        Raises:
            KeyboardInterrupt: A person or the system has stopped this process: the command ends, and not the run alone.
        """
        with quiet(), _interruptions():
            job = definitions.resolve_job_def(request.job)
            with _stderr_in(self.home / SPARK_LOG):
                result = job.execute_in_process(
                    instance=self.instance,
                    tags=dict(request.tags),
                    asset_selection=None if request.selection is None else list(request.selection),
                    raise_on_error=False,
                    run_config={"loggers": {"progress": {"config": {}}}, "ops": dict(request.ops)},
                )
            self.failed_checks.extend(
                one for one in map(_evaluation, result.all_events) if one is not None and is_error(one)
            )
            if any(is_interruption(event.step_failure_data.error) for event in _failures(result)):
                raise KeyboardInterrupt
        return None if result.success else failure_of(result)


@contextmanager
def _interruptions() -> Iterator[None]:
    """Give an interruption as Python does.

    Raises:
        KeyboardInterrupt: Dagster was interrupted between two steps.
    """
    try:
        yield
    except DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None


def _evaluation(event: dg.DagsterEvent) -> dg.AssetCheckEvaluation | None:
    is_one = event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    return event.asset_check_evaluation_data if is_one else None


def is_error(one: dg.AssetCheckEvaluation) -> bool:
    """Return whether a check failed, and not as a warning."""
    return not one.passed and one.severity is dg.AssetCheckSeverity.ERROR


def _failures(result: dg.ExecuteInProcessResult) -> list[dg.DagsterEvent]:
    return [event for event in result.all_events if event.is_step_failure]


@contextmanager
def open_dagster(config: Path) -> Iterator[Dagster]:
    """Open the Dagster instance of a configuration file."""
    require_home(config)
    home = enter_dagster_home(config)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield Dagster(instance, home)


def failure_of(result: dg.ExecuteInProcessResult) -> Failure:
    """Return the failure of the first step that failed; see :func:`error_sentence` and :func:`error_code`."""
    for event in _failures(result):
        failure = event.step_failure_data
        explained = failure.user_failure_data
        said = None if explained is None else explained.description
        return Failure(said or error_sentence(failure.error), error_code(failure.error))
    return Failure(IN_THE_UI, DtsAssetsError.exit_code)


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Send the stderr of this process and its JVM to a file: Spark writes much to it."""
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
