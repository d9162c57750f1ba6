"""``dts-assets capture`` and ``config check --connect``, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.sources.capture_source import CaptureSource
from dts_emulator.kafka.private_broker import Broker
from tests.sources.kafka_topics import at, numbered, send

pytestmark = pytest.mark.kafka
TOPIC = "captured-by-command"


@pytest.fixture(scope="module")
def topic(kafka_broker: Broker) -> str:
    kafka_broker.create_topic(TOPIC, 2)
    send(kafka_broker, TOPIC, [*numbered(10), *numbered(4, 1)])
    return TOPIC


@pytest.fixture
def config(kafka_broker: Broker, tmp_path: Path, topic: str) -> Path:
    login = kafka_broker.client_config("SASL_SSL")
    servers = login.pop("bootstrap.servers")
    lines = "\n".join(f"          {key}: {value}" for key, value in login.items())
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"""\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source:
      kafka:
        bootstrap_servers: {servers}
        topics: [{topic}]
        config:
{lines}
    partitions: 2
    window: {{every: 1h, start: 2026-01-05T00:00Z, live: true}}
""")
    return file


def run(*arguments: str, config: Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*arguments, "--config", str(config)])
    return done.exit_code, done.output


def test_a_topic_is_recorded_and_goes_on(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    code, output = run("capture", "shop", str(folder), "--from", at(7).isoformat(), config=config)
    assert (code, "│ 3 │" in " ".join(output.split())) == (0, True), output
    assert [mark.low for mark in CaptureSource(str(folder), 2).watermarks().values()] == [7, 0]
    code, output = run("capture", "shop", str(folder), "--from", "0", config=config)
    assert (code, output.strip().startswith("recorded into")) == (0, True), output
    code, output = run("capture", "shop", str(folder), config=config)
    assert (code, output) == (0, "Nothing new to record.\n")


def test_what_is_no_offset_and_no_time_is_refused(config: Path, tmp_path: Path) -> None:
    code, output = run("capture", "shop", str(tmp_path / "x"), "--from", "yesterday", config=config)
    assert (code, "write an offset" in output) == (2, True)
    code, output = run("capture", "shops", str(tmp_path / "x"), config=config)
    assert (code, "there are shop" in output) == (2, True)


def test_the_configuration_can_be_checked_with_the_broker(config: Path, kafka_broker: Broker) -> None:
    code, output = run("config", "check", "--connect", config=config)
    assert code == 2, "its messages are numbers"
    assert "none of 14 messages looks like a format that is known here" in output
    kafka_broker.create_topic(f"{TOPIC}-empty", 2)
    config.write_text(config.read_text().replace(TOPIC, f"{TOPIC}-empty"))
    code, output = run("config", "check", "--connect", config=config)
    assert code == 0, output
    assert f"the Kafka topic {TOPIC}-empty at 127.0.0.1" in " ".join(output.split())
    config.write_text(config.read_text().replace("partitions: 2", "partitions: 3"))
    code, output = run("config", "check", config=config)
    assert code == 0
    done = CliRunner().invoke(cli, ["config", "check", "--connect", "--config", str(config)])
    assert done.exit_code == 10
    assert "says partitions: 3" in done.output
