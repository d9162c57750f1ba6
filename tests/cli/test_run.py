"""The sentence that `dts-assets run` shows for a run that failed: ours, and not the text of a library below it."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dagster._utils.error import serializable_error_info_from_exc_info
from dagster_shared.error import SerializableErrorInfo

from dts_assets.cli.dagster_runs import IN_THE_UI, Request, error_sentence, open_dagster
from dts_assets.cli.main import cli
from dts_assets.defs.assemble import assemble
from dts_assets.defs.partitions import span_tags
from dts_assets.errors import DtsAssetsError, UnwritableLakeError
from dts_assets.errors.sources import GroupInUseError, UnreachableBrokerError
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


def kept(error: Exception, cause: Exception | None) -> SerializableErrorInfo:
    """An error as Dagster keeps it."""
    try:
        raise error from cause
    except Exception:
        return serializable_error_info_from_exc_info(sys.exc_info())


def library_error() -> Exception:
    error = OSError("(sqlite3.OperationalError) text of a library")
    error.__cause__ = ValueError("deeper")
    return error


@pytest.mark.parametrize(
    "error",
    [
        UnreachableBrokerError("host:9092", "connection refused", seconds=5),
        GroupInUseError("host:9092", "shop-group"),
        UnwritableLakeError("/lake", "permission denied"),
    ],
)
def test_an_error_of_ours_is_shown_whatever_caused_it_and_whatever_it_caused(error: DtsAssetsError) -> None:
    assert error_sentence(kept(error, library_error())) == str(error)
    error.__cause__ = library_error()
    assert error_sentence(kept(RuntimeError("a task failed"), error)) == str(error)


def test_a_strangers_error_is_named_with_its_class_and_the_place_of_its_stack() -> None:
    assert error_sentence(kept(RuntimeError("odd"), ValueError("deeper"))) == f"RuntimeError: odd ({IN_THE_UI})"
    assert error_sentence(None) == IN_THE_UI


def test_a_run_ends_with_the_sentence_of_its_broker_or_its_lake(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = UnreachableBrokerError("host:9092", "connection refused", seconds=5)

    def ask(*_: Any, **__: Any) -> None:
        raise broker from library_error()

    lake = project.folder / "lake"
    lake.mkdir()
    (lake / "catalog.db").write_text("no database" * 100)
    request = Request("shop_ingest", "all", span_tags(Span((0, 1), (project.subscription.grid.at(0),))))
    with open_dagster(project.config) as dagster:
        definitions = assemble(load_settings(project.config), project.config)
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", ask)
        assert dagster.execute(definitions, request) == str(broker)
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", lambda pipeline, *_, **__: pipeline.lake.catalog)
        expected = UnwritableLakeError(str(lake), "its catalog catalog.db cannot be opened")
        assert dagster.execute(definitions, request) == str(expected)


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
