"""The session of a run: opened once, and on a cluster looked at once before any flow gets it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dts_assets.defs.resources import SparkResource
from dts_assets.errors.spark import ExecutorVersionError, UnreachableMasterError, UnusableSparkError

CONFIGURATION = """\
lake: {warehouse: ./lake}
spark: {master: "MASTER", conf: {spark.executor.memory: 9g}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {capture: {path: ./capture, complete: false}}
    partitions: 1
    window: {every: 1h, start: 2026-01-05T00:00Z}
"""
OTHER = ExecutorVersionError("/opt/python", found="3.12", needed="3.11")


class Opened:
    """Sessions that were opened with dagster-pyspark, and looks at their executors."""

    def __init__(self) -> None:
        self.conf: list[Mapping[str, str]] = []
        self.looks: list[tuple[str, str]] = []
        self.fails: Exception | None = None
        self.starts: Exception | None = None

    def resource(self, spark_config: Mapping[str, str]) -> Any:
        self.conf.append(spark_config)
        if self.starts is not None:
            raise self.starts
        return type("Resource", (), {"spark_session": type("Session", (), {"newSession": None})()})

    def look(self, session: Any, master: str, conf: Mapping[str, str]) -> None:
        self.looks.append((master, conf["spark.executor.memory"]))
        if self.fails is not None:
            raise self.fails


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    made = Opened()
    monkeypatch.setattr("dagster_pyspark.LazyPySparkResource", made.resource)
    monkeypatch.setattr("dts_assets.flows.executors.require_executors", made.look)
    monkeypatch.setattr("dts_assets.store.session.require_java", lambda: None)
    monkeypatch.setattr("dts_assets.store.session.require_master", lambda master: None)
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    return made


def resource(folder: Path, master: str) -> SparkResource:
    config = folder / "pipeline.yaml"
    config.write_text(CONFIGURATION.replace("MASTER", master))
    return SparkResource(config_path=str(config))


def test_a_session_is_opened_and_looked_at_once(opened: Opened, tmp_path: Path) -> None:
    spark = resource(tmp_path, "spark://host:7077")
    assert spark.session() is spark.session()
    assert opened.looks == [("spark://host:7077", "9g")]
    assert len(opened.conf) == 1


def test_executors_that_do_not_fit_are_the_error_of_the_session(opened: Opened, tmp_path: Path) -> None:
    opened.fails = OTHER
    spark = resource(tmp_path, "spark://host:7077")
    for _ in range(2):
        with pytest.raises(ExecutorVersionError):
            spark.session()
    assert len(opened.looks) == 1


def test_a_cluster_that_does_not_start_is_explained(opened: Opened, tmp_path: Path) -> None:
    opened.starts = RuntimeError("Could not parse Master URL: 'sparc://host'")
    with pytest.raises(UnusableSparkError, match="none that Spark knows"):
        resource(tmp_path, "sparc://host").session()
    assert opened.looks == []


def test_a_master_that_is_not_there_is_found_before_spark_starts(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("dts_assets.store.session.require_java", lambda: None)
    monkeypatch.setattr("dagster_pyspark.LazyPySparkResource", opened.resource)
    with pytest.raises(UnreachableMasterError):
        resource(tmp_path, "spark://127.0.0.1:1").session()
    assert opened.conf == []
