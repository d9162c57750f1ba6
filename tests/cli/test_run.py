"""The sentence that `dts-assets run` shows for a run that failed: ours, and not the text of a library below it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dts_assets.cli.dagster_runs import IN_THE_UI, Request, definitions_of, open_dagster
from dts_assets.cli.main import cli
from dts_assets.defs.partitions import span_tags
from dts_assets.errors import DtsAssetsError, GroupInUseError, UnreachableBrokerError, UnwritableLakeError
from dts_assets.model.spans import Span
from dts_assets.settings import load_settings
from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    # No flow asks for Spark; and a session of these tests' configuration would be everybody's in this process.
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    made = Project(tmp_path).configure()
    made.send("one", [(partition, 0, START) for partition in (0, 1)])
    return made


@pytest.fixture
def fails(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], str | None]:
    """Gives the sentence of a run whose first flow does something and fails."""

    def of(flow: Callable[[Any], None]) -> str | None:
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", lambda pipeline, *_, **__: flow(pipeline))
        span = Span((0, 1), (project.subscription.grid.at(0),))
        with open_dagster(project.config) as dagster:
            definitions = definitions_of(load_settings(project.config), project.config)
            return dagster.execute(definitions, Request("shop_ingest", "all", span_tags(span)))

    return of


def raising(error: Exception, cause: Exception | None) -> Callable[[Any], None]:
    def flow(_: Any) -> None:
        raise error from cause

    return flow


@pytest.mark.parametrize(
    "error",
    [
        UnreachableBrokerError("host:9092", "connection refused", seconds=5),
        GroupInUseError("host:9092", "shop-group"),
        UnwritableLakeError("/lake", "permission denied"),
    ],
)
def test_an_error_of_ours_is_shown_whatever_caused_it(
    fails: Callable[[Callable[[Any], None]], str | None], error: DtsAssetsError
) -> None:
    cause = OSError("(sqlite3.OperationalError) text of a library")
    cause.__cause__ = ValueError("deeper")
    assert fails(raising(error, cause)) == str(error)


def test_an_error_of_ours_below_a_strangers_is_shown(
    fails: Callable[[Callable[[Any], None]], str | None],
) -> None:
    ours = UnwritableLakeError("/lake", "permission denied")
    ours.__cause__ = OSError("deeper")
    assert fails(raising(RuntimeError("a task failed"), ours)) == str(ours)


def test_a_strangers_error_is_named_with_its_class_and_the_place_of_its_stack(
    fails: Callable[[Callable[[Any], None]], str | None],
) -> None:
    assert fails(raising(RuntimeError("odd"), ValueError("deeper"))) == f"RuntimeError: odd ({IN_THE_UI})"


def test_a_catalog_that_is_no_database_is_named_and_not_in_the_words_of_sqlite(
    fails: Callable[[Callable[[Any], None]], str | None], project: Project
) -> None:
    lake = project.folder / "lake"
    lake.mkdir()
    (lake / "catalog.db").write_text("no database" * 100)
    said = fails(lambda pipeline: pipeline.lake.catalog)
    assert said == str(UnwritableLakeError(str(lake), "its catalog catalog.db cannot be opened"))


def test_a_locked_catalog_ends_the_command_with_the_sentence_of_the_lake(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dts_assets.store.catalog.SQLITE_WAIT_SECONDS", 0)
    lake = project.folder / "lake"
    lake.mkdir()
    with closing(sqlite3.connect(lake / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = CliRunner().invoke(cli, ["run", "--config", str(project.config)])
    assert done.exit_code == UnwritableLakeError.exit_code
    assert f"The lake {lake} cannot be written" in done.stderr
    assert "sqlite3" not in done.stderr
