"""Lakes that another version of the code made: every way in refuses them with a sentence, before Spark starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.errors import LakeFormatError
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.redrive import Quarantined, redrive
from dts_assets.flows.tables import materialize_tables
from dts_assets.flows.topic import find_topic_state
from dts_assets.model.spans import Span
from dts_assets.settings.load import load_settings
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import FORMAT_PROPERTY, LAKE_FORMAT, PROPERTIES, RAW_WINDOWS
from tests.flows.short import three_windows
from tests.flows.source import write_capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {folder}/capture, complete: true}}}}
    partitions: 2
    window: {{every: 10m, start: 2026-03-01T10:00Z, end: 2026-03-01T10:30Z}}
    tables: {{include: ["bank.*"]}}
"""
SHAPE = {"window.every": "0:10:00", "window.start": "2026-03-01T10:00:00+00:00", "partitions": 2, "epoch": 0}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_capture(tmp_path / "capture", three_windows().messages)
    (tmp_path / "pipeline.yaml").write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pipeline.yaml"


def opened(config: Path) -> Pipeline:
    return open_pipeline(load_settings(config), "shop")


def made_by(config: Path, properties: dict[str, str]) -> None:
    """Leave a lake as another version left it: the ledger of raw with these properties beside those of every table."""
    catalog = opened(config).lake.catalog
    catalog.create_namespace("shop")
    catalog.create_table(
        ("shop", "raw_windows"),
        RAW_WINDOWS.schema,
        partition_spec=RAW_WINDOWS.spec,
        properties={**PROPERTIES, **properties},
    )


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started for a lake that cannot be used")


def silent(_line: str) -> None:
    pass


def span(pipeline: Pipeline) -> Span:
    return Span(tuple(pipeline.kafka_partitions), tuple(pipeline.grid.at(number) for number in range(3)))


WAYS_IN: dict[str, Callable[[Pipeline], object]] = {
    "raw": lambda one: materialize_raw(one, span(one), spark=no_spark, progress=silent),
    "entries": lambda one: materialize_entries(one, span(one), spark=no_spark, progress=silent),
    "tables": lambda one: materialize_tables(one, span(one).windows, spark=no_spark, progress=silent),
    "work": find_work,
    "topic": find_topic_state,
    "redrive": lambda one: redrive(one, Quarantined(), spark=no_spark, progress=silent),
    "table": lambda one: one.lake.table(one.path("entries")),
}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"dts-assets.shape": json.dumps(SHAPE)}, "an earlier version of dts-assets (lake format unnamed"),
        (
            {"dts-assets.shape": json.dumps(SHAPE), FORMAT_PROPERTY: "0"},
            "an earlier version of dts-assets (lake format 0",
        ),
        (
            {FORMAT_PROPERTY: str(int(LAKE_FORMAT) + 1)},
            f"a newer version of dts-assets (lake format {int(LAKE_FORMAT) + 1}",
        ),
        ({FORMAT_PROPERTY: "1-beta"}, "another version of dts-assets (lake format 1-beta"),
    ],
    ids=["before-formats", "older", "newer", "unknown"],
)
def test_a_lake_of_another_format_is_refused_by_every_flow(properties: dict[str, str], said: str, config: Path) -> None:
    made_by(config, properties)
    for way_in in WAYS_IN.values():
        with pytest.raises(LakeFormatError) as caught:
            way_in(opened(config))
        assert said in str(caught.value)
        assert "materialize again from the source" in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "redrive shop",
        "inspect message p00 0",
        "inspect entry p00 0 0",
        "inspect window 2026-03-01T10:00",
        "inspect transaction server-1:1",
    ],
)
def test_every_command_says_so_and_ends_with_the_exit_code_of_lakes(command: str, config: Path) -> None:
    made_by(config, {"dts-assets.shape": json.dumps(SHAPE)})
    done = CliRunner().invoke(cli, [*command.split(), "--config", str(config)])
    assert done.exit_code == LakeFormatError.exit_code, done.output
    assert "an earlier version of dts-assets" in " ".join(done.output.split())


def test_a_new_lake_names_its_format_from_its_first_table_on(config: Path) -> None:
    opened(config).check_shape()
    table = opened(config).lake.table(("shop", "raw_windows"))
    assert table is not None
    assert table.properties[FORMAT_PROPERTY] == LAKE_FORMAT
    for way_in in (find_work, find_topic_state):
        way_in(opened(config))


def test_the_format_is_asked_for_once(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(config).check_shape()
    lake = opened(config).lake
    asked: list[object] = []
    load = type(lake.catalog).load_table

    def counted(catalog: object, identifier: object) -> object:
        asked.append(identifier)
        return load(catalog, identifier)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lake.catalog), "load_table", counted)
    for _ in range(3):
        assert lake.table(("shop", "entries")) is None
        lake.require_format("shop")
    assert asked.count(("shop", "raw_windows")) == 1


def test_a_lake_that_travels_asks_anew(config: Path) -> None:
    lake = opened(config).lake
    lake.require_format("shop")  # there is none yet, which is not remembered: another version may make it
    made_by(config, {FORMAT_PROPERTY: "0"})
    with pytest.raises(LakeFormatError):
        lake.require_format("shop")
    with pytest.raises(LakeFormatError):
        Lake(lake.location).require_format("shop")
