"""Everything that a run would miss is named, in one order, each thing once, and nothing is made on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors, DtsAssetsError, UnwritableLakeError, WireFormatError
from dts_assets.errors.machine import MissingJavaError
from dts_assets.errors.sources import CaptureError, UnreachableBrokerError
from dts_assets.errors.spark import UnreachableMasterError
from dts_assets.flows.preflight import find_troubles, require_spark
from dts_assets.settings import load_settings
from dts_assets.sources.kafka_source import KafkaSource
from tests.flows.drs_task import DrsTask
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.made_up_format.place import SITE_PACKAGES
from tests.wire.scenarios import DATA

SUBSCRIPTION = """\
  {name}:
    format: {format}
    source: {source}
    partitions: {partitions}
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
"""
GONE, GROWING = "{capture: ./gone}", "{capture: {path: ./gone, complete: false}}"
BROKER = "{kafka: {bootstrap_servers: 'broker:9092', topics: [t]}}"


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dts_assets.flows.preflight.require_java", lambda: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


def troubles(
    folder: Path,
    *sources: str,
    lake: str = "{warehouse: ./lake}",
    kind: str = "dts-protobuf",
    connect: bool = False,
    partitions: int = 1,
) -> list[DtsAssetsError]:
    subscriptions = (
        SUBSCRIPTION.format(name=f"s{number}", format=kind, source=source, partitions=partitions)
        for number, source in enumerate(sources)
    )
    config = folder / "pipeline.yaml"
    config.write_text(f"lake: {lake}\nsubscriptions:\n{''.join(subscriptions)}")
    before = sorted(folder.rglob("*"))
    found = find_troubles(load_settings(config, environment={}), config, connect=connect)
    assert sorted(folder.rglob("*")) == before
    return found


def test_a_recording_that_is_yet_to_come_and_a_broker_are_no_trouble(tmp_path: Path) -> None:
    assert troubles(tmp_path, GROWING, BROKER) == []


def test_every_subscription_is_looked_at_and_one_folder_is_one_trouble(tmp_path: Path) -> None:
    found = troubles(tmp_path, GONE, GROWING, GONE, "{capture: ./gone/too}")
    assert [type(one) for one in found] == [CaptureError, CaptureError]
    assert str(tmp_path / "gone" / "too") in str(found[1])


def test_troubles_come_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise MissingJavaError

    monkeypatch.setattr("dts_assets.flows.preflight.require_java", no_java)
    (tmp_path / "file").touch()
    found = troubles(tmp_path, GONE, lake="{warehouse: ./file, catalog: {uri: ./file/c.db}}")
    assert [type(one) for one in found] == [CaptureError, UnwritableLakeError, MissingJavaError]


def test_the_catalog_of_a_lake_elsewhere_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("no database" * 100)
    (found,) = troubles(tmp_path, GROWING, lake="{warehouse: s3://bucket/lake, catalog: {uri: ./c.db}}")
    assert "its catalog c.db cannot be opened" in str(found)


def test_a_schema_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    (found,) = troubles(tmp_path, GROWING, kind="toy-lines\n    schema: ./schema.json")
    assert isinstance(found, WireFormatError)
    assert str(tmp_path / "schema.json") in str(found)


def recording(folder: Path, *, form: str, name: str = "recorded") -> str:
    task = DrsTask(3, form=form)
    task.work(border(0), 40)
    write_capture(folder / name, task.messages)
    return f"{{capture: ./{name}}}"


def test_a_recording_of_another_format_is_a_mistake_with_its_line_and_the_way_out(tmp_path: Path) -> None:
    source = recording(tmp_path, form="drs-json")
    assert troubles(tmp_path, source, partitions=2) == [], "nothing is read on a plain check"
    assert troubles(tmp_path, source, kind="drs-json", partitions=2, connect=True) == []
    (found,) = troubles(tmp_path, source, partitions=2, connect=True)
    assert isinstance(found, ConfigErrors)
    (mistake,) = found.mistakes
    assert (mistake.line, mistake.path) == (4, "subscriptions.s0.format")
    assert "40 of 40 messages look like drs-json (" in mistake.message
    assert mistake.fix == "write format: drs-json"
    assert (found.exit_code, "李雷" in str(found)) == (2, False)


def test_the_sister_format_is_a_mistake_too(tmp_path: Path) -> None:
    source = recording(tmp_path, form="drs-json-c")
    (found,) = troubles(tmp_path, source, kind="drs-json", partitions=2, connect=True)
    assert "write format: drs-json-c" in str(found)


def test_an_empty_recording_contradicts_nothing(tmp_path: Path) -> None:
    write_capture(tmp_path / "empty", [])
    assert troubles(tmp_path, "{capture: ./empty}", connect=True) == []


def test_a_form_that_is_not_read_is_named(tmp_path: Path) -> None:
    value = b'{"payload": {"op": "c", "source": {"db": "shop"}, "after": {"id": 1}}}'
    write_capture(tmp_path / "debezium", [Message(0, number, border(0), value, number) for number in range(5)])
    (found,) = troubles(tmp_path, "{capture: ./debezium}", connect=True)
    assert "5 of 5 messages look like Debezium JSON" in str(found)
    assert "which this version does not read; have the topic sent in a format that is read: " in str(found)


def test_brokers_are_asked_on_demand_and_each_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: KafkaSource) -> None:
        raise UnreachableBrokerError("broker:9092", "connection refused", seconds=5)

    monkeypatch.setattr(KafkaSource, "check", away)
    assert troubles(tmp_path, BROKER, GONE) != []
    found = troubles(tmp_path, BROKER, GONE, connect=True)
    assert [type(one) for one in found] == [UnreachableBrokerError, CaptureError]


def test_a_cluster_is_asked_on_demand_and_by_a_run(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.yaml"
    subscription = SUBSCRIPTION.format(name="shop", format="dts-protobuf", source=GROWING, partitions=1)
    head = "lake: {warehouse: ./lake}\nspark: {master: 'spark://127.0.0.1:1'}\nsubscriptions:\n"
    config.write_text(head + subscription)
    settings = load_settings(config, environment={})
    assert find_troubles(settings, config) == []
    (found,) = find_troubles(settings, config, connect=True)
    assert isinstance(found, UnreachableMasterError)
    with pytest.raises(UnreachableMasterError):
        require_spark(settings)
    config.write_text(head.replace("spark://", "sc://").replace("master", "remote") + subscription)
    with pytest.raises(UnreachableMasterError):
        require_spark(load_settings(config, environment={}))


def test_a_schema_that_lacks_a_field_is_named_before_anything_runs(tmp_path: Path) -> None:
    schema = (DATA / "dts-avro" / "Record.avsc").read_bytes()
    (tmp_path / "Record.avsc").write_bytes(schema)
    assert troubles(tmp_path, f"{GROWING}\n    schema: ./Record.avsc", kind="dts-avro") == []
    (tmp_path / "Record.avsc").write_bytes(schema.replace(b'"oldColumns"', b'"beforeImages"'))
    (found,) = troubles(tmp_path, f"{GROWING}\n    schema: ./Record.avsc", kind="dts-avro")
    assert isinstance(found, WireFormatError)
    assert "its record Record has no field for before (oldColumns)" in str(found)
