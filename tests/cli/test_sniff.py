"""``dts-assets sniff`` of recordings in every format and of a real broker: what it shows, and that its file works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.model.formats import FormatSettings
from dts_assets.settings import Settings, load_settings
from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.wire.recognition.recogniser import recognise
from dts_emulator.kafka.private_broker import Broker
from tests.flows.drs_task import DrsTask
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.sources.kafka_topics import Sent, send
from tests.wire.scenarios import Scenario, scenarios

START = datetime(2026, 1, 5, tzinfo=UTC)


def clean() -> Iterable[Scenario]:
    """Scenarios whose messages are all right, of formats that are registered."""
    for one in scenarios():
        whole = not (one.expected["rejected"] or one.expected["fragments"])
        if whole and one.folder.parent.name in registered_formats():
            yield one


def recorded(folder: Path, name: str) -> bytes | None:
    """All clean scenarios of a format as one recording; the schema that they are read with."""
    found = [one for one in clean() if one.folder.parent.name == name]
    schemas = {getattr(one.format, "schema", None) for one in found}
    if len(schemas) > 1:  # each is its own topic; one of them is enough
        found = found[:1]
    values = [value for one in found for value in one.messages()["value"].to_pylist()]
    rows = [
        {"topic": "t", "partition": number % 2, "offset": number, "timestamp": START + timedelta(seconds=number), "value": value,
         "headers": []} for number, value in enumerate(values)
    ]  # fmt: skip
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, MESSAGE_SCHEMA), folder / "part.parquet")
    schema = getattr(found[0].format, "schema", None)
    assert schema is None or isinstance(schema, bytes)
    return schema


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["sniff", *arguments])
    return done.exit_code, done.output


def checked(file: Path) -> Settings:
    """The settings of a file that passes ``config check``."""
    done = CliRunner().invoke(cli, ["config", "check", "--connect", "--config", str(file)])
    assert done.exit_code == 0, done.output
    return load_settings(file)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", registered_formats())
def test_a_recording_of_every_format_gives_a_file_that_passes_all_checks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dts_assets.flows.preflight.require_java", lambda: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    schema = recorded(tmp_path / "recording", name)
    options = []
    if schema is not None:
        (tmp_path / "own.avsc").write_bytes(schema)
        options = ["--schema", str(tmp_path / "own.avsc")]
    file = tmp_path / "found.yaml"
    code, output = run(str(tmp_path / "recording"), "--out", str(file), *options)
    assert code == 0, output
    (one,) = checked(file).subscriptions.values()
    batch = pq.read_table(tmp_path / "recording").to_batches()[0].select(MESSAGE_SCHEMA.names)
    assert name in recognise(batch, FormatSettings(schema=schema)).formats
    assert one.format == name or f"or {name}: no message told which" in file.read_text()
    assert (one.name, one.partitions, one.window.every) == ("recording", 2, timedelta(minutes=5))
    assert one.window.start == START
    assert (one.schema_file is not None) == traits_of(one.format).needs_schema
    assert "looked at" in output
    assert "insert" in output or "read" in output, "rows by operation"


def test_the_scenarios_cover_every_format() -> None:
    assert {one.folder.parent.name for one in clean()} == set(registered_formats())


@pytest.fixture
def drs(tmp_path: Path) -> Path:
    task = DrsTask(4, form="drs-json")
    task.work(border(0) + timedelta(seconds=5), 60)
    return write_capture(tmp_path / "my Topic-1", task.messages)


def test_tables_are_shown_with_types_and_no_value_of_a_row(drs: Path) -> None:
    code, output = run(str(drs))
    assert code == 0, output
    assert "60 of 60 messages look like drs-json (" in output
    assert "bank.accounts" in output
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert "id int bigint key" in lines
    assert "balance decimal string" in lines
    assert not any(secret in output for secret in ("Łukasz", "李雷", "10.00"))
    assert "my_topic_1:" in output, "the folder's name, as the lake can take it"
    assert "source_time_zone" in output


def test_a_file_that_is_there_is_not_overwritten(drs: Path, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("mine")
    code, output = run(str(drs), "--out", str(file))
    assert (code, file.read_text()) == (2, "mine")
    assert "is there already" in output


def test_an_avro_topic_without_its_schema_is_named_and_asks_for_it(tmp_path: Path) -> None:
    recorded(tmp_path / "recording", "dts-avro")
    code, output = run(str(tmp_path / "recording"))
    assert code == 0, output
    assert "format: dts-avro" in output
    assert 'schema: "./Record.avsc"' in output
    assert "say --schema and the file" in output


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b'{"payload": {"op": "c", "source": {"db": "shop"}, "after": {"id": "hunter2"}}}', "Debezium JSON"),
        (b"hunter2;1;2", "of these messages"),
    ],
)
def test_what_cannot_be_read_is_named_and_no_file_is_written(value: bytes, words: str, tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "odd", [Message(0, number, border(0), value, number) for number in range(9)])
    code, output = run(str(folder), "--out", str(tmp_path / "pipeline.yaml"))
    assert code == 14, output
    assert f"The wire format {words} cannot be used" in output
    assert not (tmp_path / "pipeline.yaml").exists()
    assert "hunter2" not in output


def test_folders_that_are_no_recording_are_refused(tmp_path: Path) -> None:
    assert run(str(tmp_path / "gone"))[0] == 10
    (tmp_path / "empty").mkdir()
    assert run(str(tmp_path / "empty"))[0] == 10
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "x.parquet").write_bytes(b"secret")
    code, output = run(str(tmp_path / "odd"))
    assert (code, "secret" in output) == (10, False)
    write_capture(tmp_path / "no_message", [])
    code, output = run(str(tmp_path / "no_message"))
    assert (code, "no message is in it" in output) == (10, True)


def test_messages_without_a_value_tell_no_format(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "nulls", [Message(0, number, border(0), None, number) for number in range(3)])
    code, output = run(str(folder))
    assert code == 1, output
    assert "no message that tells its format" in output


def test_a_folder_of_several_topics_is_numbered_by_name(drs: Path, tmp_path: Path) -> None:
    table = pq.read_table(drs)
    other = table.set_column(0, "topic", pa.array(["other"] * len(table)))
    pq.write_table(other.filter(pa.compute.equal(other["partition"], 0)), drs / "other.parquet")
    code, output = run(str(drs), "--out", str(tmp_path / "two.yaml"))
    assert code == 0, output
    (one,) = load_settings(tmp_path / "two.yaml").subscriptions.values()
    assert one.source.capture is not None
    assert list(one.source.capture.topics.items()) == [("other", 1), ("subscription", 2)]
    assert one.partitions == 3


def test_a_first_message_of_the_future_does_not_begin_the_windows(drs: Path, tmp_path: Path) -> None:
    for file in drs.glob("*.parquet"):
        rows = pq.read_table(file).to_pylist()
        rows = [one | {"timestamp": datetime(2900, 1, 1, tzinfo=UTC)} if one["offset"] < 2 else one for one in rows]
        pq.write_table(pa.Table.from_pylist(rows, MESSAGE_SCHEMA), file)
    code, output = run(str(drs), "--out", str(tmp_path / "found.yaml"))
    assert code == 0, output
    (one,) = load_settings(tmp_path / "found.yaml").subscriptions.values()
    assert one.window.start == border(0)


def test_a_topic_is_named_as_it_is_and_takes_nothing_from_the_environment(drs: Path, tmp_path: Path) -> None:
    table = pq.read_table(drs)
    odd = table.set_column(0, "topic", pa.array(['${HOME} "x" 中'] * len(table)))
    pq.write_table(odd, drs / "odd.parquet")
    code, output = run(str(drs), "--out", str(tmp_path / "found.yaml"))
    assert code == 0, output
    (one,) = load_settings(tmp_path / "found.yaml").subscriptions.values()
    assert one.source.capture is not None
    assert dict(one.source.capture.topics) == {"subscription": 2, '${HOME} "x" 中': 2}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x", "--bootstrap-servers", "h:1", "--topic", "t"),
        ("--bootstrap-servers", "h:1"),
        ("x", "--topic", "t"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--setting", "sasl.password=hunter2"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--setting", "hunter2"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--setting", "no.such.setting=1"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--topic", "t"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--setting", "sasl.password=${NOT_SET_ANYWHERE}"),
        ("--bootstrap-servers", "no address", "--topic", "t"),
        ("--bootstrap-servers", "h:1", "--topic", "t", "--name", "Not A Name"),
    ],
)
def test_what_does_not_say_one_place_is_a_mistake_of_usage(arguments: tuple[str, ...]) -> None:
    code, output = run(*arguments)
    assert code == 2, output
    assert "hunter2" not in output


@pytest.mark.long
@pytest.mark.spark
def test_the_file_of_a_recording_runs_to_the_end(drs: Path, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    code, output = run(str(drs), "--name", "bank", "--out", str(file))
    assert code == 0, output
    done = subprocess.run(
        [sys.executable, "-m", "dts_assets", "run", "--config", str(file)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    from pyiceberg.catalog.sql import SqlCatalog

    warehouse = tmp_path / "lake"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    task = DrsTask(4, form="drs-json")
    task.work(border(0) + timedelta(seconds=5), 60)
    rows = catalog.load_table(("bank", "snapshot", "bank", "accounts")).scan().to_arrow().to_pylist()
    assert {str(row["id"]) for row in rows} == set(task.rows)


@pytest.mark.kafka
@pytest.mark.more
def test_topics_of_a_broker_with_a_login(kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dts_assets.flows.preflight.require_java", lambda: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    task = DrsTask(5)
    task.work(border(0), 50)
    kafka_broker.create_topic("sniffed-a", 2)
    kafka_broker.create_topic("sniffed-b", 1)
    for topic, wanted in (("sniffed-a", (0, 1)), ("sniffed-b", (0,))):
        sent = [
            Sent(one.partition, (one.time - border(0)).total_seconds(), one.value)
            for one in task.messages
            if one.partition in wanted
        ]
        send(kafka_broker, topic, sent)
    login = kafka_broker.client_config("SASL_SSL")
    servers = login.pop("bootstrap.servers")
    monkeypatch.setenv("SNIFF_PASSWORD", login["sasl.password"])
    settings = [f"{key}={'${SNIFF_PASSWORD}' if key == 'sasl.password' else value}" for key, value in login.items()]
    options = [part for one in settings for part in ("--setting", one)]
    file = tmp_path / "pipeline.yaml"
    code, output = run(
        "--bootstrap-servers", servers, "--topic", "sniffed-b", "--topic", "sniffed-a", *options, "--out", str(file)
    )
    assert code == 0, output
    assert login["sasl.password"] not in output + file.read_text()
    (one,) = checked(file).subscriptions.values()
    kafka = one.source.kafka
    assert kafka is not None
    assert (kafka.topics, one.partitions, one.name) == (("sniffed-b", "sniffed-a"), 3, "sniffed_b")
    assert (one.format, one.window.every, one.window.end) == ("drs-json-c", timedelta(hours=1), None)
    assert "p02 sniffed-a, partition 1" in " ".join(output.split())
    assert json.dumps("${SNIFF_PASSWORD}") in file.read_text()


@pytest.mark.kafka
def test_a_topic_that_is_not_there_and_one_without_messages(kafka_broker: Broker) -> None:
    servers = kafka_broker.client_config()["bootstrap.servers"]
    code, output = run("--bootstrap-servers", servers, "--topic", "sniffed-never-made")
    assert (code, "has no topic sniffed-never-made" in output) == (10, True), output
    kafka_broker.create_topic("sniffed-empty", 2)
    code, output = run("--bootstrap-servers", servers, "--topic", "sniffed-empty")
    assert (code, "no message that tells its format" in output) == (1, True), output
