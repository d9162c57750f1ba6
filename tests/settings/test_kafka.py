"""Settings of the Kafka client library: what is wrong with them is said before anything connects."""

from __future__ import annotations

import shutil
from pathlib import Path

import certifi
import pytest

from dts_assets.errors import ConfigErrors, ConfigMistake
from dts_assets.settings.load import load_settings
from dts_assets.settings.sources import Kafka

FILE = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source:
      kafka:
        bootstrap_servers: {servers}
        topics: [shop]
        config:
{config}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z, live: true}}
"""
LOGIN = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "account",
    "sasl.password": "${PASSWORD}",
}
SECRET = "hunter2"


def written(folder: Path, config: dict[str, str], servers: str = "host:9092") -> Path:
    lines = "\n".join(f"          {key}: {value}" for key, value in config.items()) or "          {}"
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(config=lines, servers=servers))
    return file


def kafka(folder: Path, config: dict[str, str], servers: str = "host:9092") -> Kafka:
    settings = load_settings(written(folder, config, servers), environment={"PASSWORD": SECRET})
    found = settings.subscriptions["shop"].source.kafka
    assert found is not None
    return found


def mistakes(folder: Path, config: dict[str, str], servers: str = "host:9092") -> list[ConfigMistake]:
    with pytest.raises(ConfigErrors) as caught:
        load_settings(written(folder, config, servers), environment={"PASSWORD": SECRET})
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__context__!r}"
    return list(caught.value.mistakes)


def test_a_broker_with_a_login_is_taken_and_its_password_is_not_shown(tmp_path: Path) -> None:
    found = kafka(tmp_path, LOGIN, "host-1:9092, 10.0.0.2:9093,[::1]:9092")
    assert found.config["sasl.password"] == SECRET
    assert SECRET not in repr(found)
    assert "sasl.password" in repr(found)


def test_without_a_login_nothing_has_to_be_said(tmp_path: Path) -> None:
    assert dict(kafka(tmp_path, {}).config) == {}
    assert kafka(tmp_path, {"fetch.min.bytes": "1", "log_level": "3"}).config["fetch.min.bytes"] == "1"


def test_files_are_named_relative_to_the_configuration(tmp_path: Path) -> None:
    config = {"security.protocol": "ssl", "ssl.ca.location": "./ca.pem", "client.id": "./x"}
    shutil.copy(certifi.where(), tmp_path / "ca.pem")
    found = kafka(tmp_path, config)
    assert (found.config["ssl.ca.location"], found.config["client.id"]) == (str(tmp_path / "ca.pem"), "./x")
    assert kafka(tmp_path, {**config, "ssl.ca.location": "probe"}).config["ssl.ca.location"] == "probe"


@pytest.mark.parametrize(
    ("key", "value", "fix"),
    [
        ("auto.offset.reset", "earliest", "remove the key"),
        ("enable.auto.commit", "true", "remove the key"),
        ("isolation.level", "read_uncommitted", "remove the key"),
        ("group.instance.id", "one", "remove the key"),
        ("group.id", "consumer-grp-1", "write group_id"),
        ("bootstrap.servers", "other:9092", "write bootstrap_servers"),
        ("metadata.broker.list", "other:9092", "write bootstrap_servers"),
        ("error_cb", "print", "remove the key"),
        ("logger", "x", "remove the key"),
        ("plugin.library.paths", "x.so", "remove the key"),
        ("sasl.passwort", "x", "did you mean sasl.password?"),
        ("SSL.CA.LOCATION", "probe", "CONFIGURATION.md"),
        ("ssl.ca.locatoin", "probe", "did you mean ssl.ca.location?"),
        ("ssl.ca.location", "probe", "write security.protocol: ssl"),
        ("enable.ssl.certificate.verification", "true", "write security.protocol: ssl"),
        ("nothing.like.it", "x", "CONFIGURATION.md"),
        ("security.protocol", "sasl", "write one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ("fetch.min.bytes", "-3", "from 0 to 2147483647"),
        ("fetch.min.bytes", "many", "CONFIGURATION.md"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_line(tmp_path: Path, key: str, value: str, fix: str) -> None:
    (found,) = mistakes(tmp_path, {"client.id": "x", key: value})
    assert (found.path, found.line) == (f"subscriptions.shop.source.kafka.config.{key}", 11)
    assert fix in found.fix


def test_all_refused_keys_are_named_at_once(tmp_path: Path) -> None:
    found = mistakes(tmp_path, {"auto.offset.reset": "earliest", "client.id": "x", "enable.auto.commit": "true"})
    assert [one.path.rpartition("config.")[2] for one in found] == ["auto.offset.reset", "enable.auto.commit"]


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        ({"sasl.username": None}, "sasl.mechanism", "sasl.username is missing"),
        ({"sasl.password": '""'}, "sasl.mechanism", "sasl.password is missing"),
        ({"sasl.mechanism": None}, "security.protocol", "no SASL mechanism"),
        ({"sasl.mechanism": "SCRAM"}, "sasl.mechanism", '"SCRAM" is no SASL mechanism'),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", '"GSSAPI" is no SASL mechanism'),
        ({"security.protocol": None}, "sasl.mechanism", "security.protocol is not said"),
        ({"security.protocol": "ssl"}, "sasl.mechanism", "security.protocol is ssl"),
        ({"security.protocol": "sasl_ssl", "ssl.ca.location": "./none.pem"}, "ssl.ca.location", '"./none.pem" cannot be used'),
        ({"security.protocol": "sasl_ssl", "ssl.ca.pem": "${PASSWORD}"}, "ssl.ca.pem", '"${PASSWORD}" cannot be'),
        ({"ssl.ca.location": "probe"}, "ssl.ca.location", "security.protocol is sasl_plaintext"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "sasl_ssl", "ssl.verify": "x"},
            "ssl.verify", "has no such setting",
        ),
        ({"debug": "${PASSWORD}"}, "debug", '"${PASSWORD}" cannot be'),
    ],
)  # fmt: skip
def test_a_login_that_cannot_work_is_named(
    tmp_path: Path, change: dict[str, str | None], place: str, what: str
) -> None:
    config = {key: value for key, value in (LOGIN | change).items() if value is not None}
    (found,) = mistakes(tmp_path, config)
    assert found.path.rpartition("config.")[2] == place
    assert what in found.message


@pytest.mark.parametrize("change", [
    {"sasl.password": "${LOST}"}, {"sasl.username": "${LOST}"}, {"sasl.mechanism": "${LOST}"}, {"security.protocol": "${LOST}"},
    {"fetch.min.bytes": "${LOST}"}, {"sasl.username": "a${LOST}", "sasl.password": "${LOST}"},
    {"security.protocol": "sasl_ssl", "ssl.ca.location": "${LOST}"},
])  # fmt: skip
def test_a_variable_that_is_not_set_is_one_mistake_and_no_advice_to_write_a_secret(
    tmp_path: Path, change: dict[str, str]
) -> None:
    (found,) = mistakes(tmp_path, LOGIN | change)
    assert (found.message, found.fix) == ("the environment has no variable LOST", "set LOST in the environment")


def test_a_password_that_is_missing_is_not_to_be_written_into_the_file(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, {key: value for key, value in LOGIN.items() if key != "sasl.password"})
    assert 'sasl.password: "${NAME}"' in found.fix


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_there_cannot_be_is_named(tmp_path: Path, port: str) -> None:
    (found,) = mistakes(tmp_path, {}, f"host:9092,other:{port}")
    assert "a port from 1 to 65535" in found.fix


@pytest.mark.parametrize("servers", ["kafka://host:9092", '"host:9092,"', "host:port", '"a b"'])
def test_addresses_are_hosts_with_ports(tmp_path: Path, servers: str) -> None:
    (found,) = mistakes(tmp_path, {}, servers)
    assert found.path == "subscriptions.shop.source.kafka.bootstrap_servers"
    assert "write host:port" in found.fix
