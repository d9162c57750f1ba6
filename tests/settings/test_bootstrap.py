"""The place that tables are copied from: what is taken, what is refused with the way out, and a password that stays secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors
from dts_assets.settings import json_schema
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.settings.load import load_settings

PASSWORD = "a password that nobody guesses"
JDBC = "jdbc: {url: 'jdbc:mariadb://db.example.org:3307/?sslMode=trust', user: copier, password: '${DB_PASSWORD}'}"


def bootstrap_of(tmp_path: Path, written: str) -> Bootstrap:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "lake: {warehouse: ./lake}\n"
        "subscriptions:\n"
        "  shop:\n"
        "    format: dts-protobuf\n"
        "    source: {capture: ./capture}\n"
        "    partitions: 1\n"
        "    window: {every: 1h, start: '2026-01-05T00:00Z'}\n"
        f"    bootstrap: {written}\n"
    )
    found = load_settings(file, environment={"DB_PASSWORD": PASSWORD}).subscriptions["shop"].bootstrap
    assert found is not None
    return found


def test_a_database_has_an_address_and_a_password_that_nothing_shows(tmp_path: Path) -> None:
    bootstrap = bootstrap_of(tmp_path, f"{{from: {{{JDBC}}}, tables: ['shopdb.*'], connections: 4}}")
    jdbc = bootstrap.source.jdbc
    assert jdbc is not None
    place = jdbc.place
    assert (place.host, place.port, jdbc.options, place.user) == ("db.example.org", 3307, "sslMode=trust", "copier")
    assert place.password == PASSWORD
    for shown in (repr(bootstrap), str(bootstrap), bootstrap.model_dump_json(), repr(jdbc)):
        assert PASSWORD not in shown
    assert (bootstrap.connections, bootstrap.chunk_rows, bootstrap.rows_per_second) == (4, 500_000, None)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("jdbc:mysql://db", "db", 3306),
        ("jdbc:mariadb://[::1]:3308/shopdb", "::1", 3308),
    ],
)
def test_addresses_are_read(tmp_path: Path, url: str, host: str, port: int) -> None:
    jdbc = bootstrap_of(tmp_path, f"{{from: {{jdbc: {{url: '{url}', user: u}}}}}}").source.jdbc
    assert jdbc is not None
    assert (jdbc.place.host, jdbc.place.port, jdbc.place.password) == (host, port, "")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{from: {jdbc: {url: 'postgresql://db/', user: u}}}", "is no URL of a MySQL or MariaDB server"),
        (
            "{from: {jdbc: {url: 'jdbc:mysql://db/?sslMode=always', user: u}}}",
            "write one of disable, trust, verify-ca",
        ),
        ("{from: {jdbc: {url: 'jdbc:mysql://db/?sslmod=verify-full', user: u}}}", "did you mean sslMode?"),
        ("{from: {jdbc: {url: 'jdbc:mysql://db/?useSSL=false', user: u}}}", "write sslMode=disable if that is meant"),
        ("{from: {jdbc: {url: 'jdbc:mysql://db/?Password=x', user: u}}}", "the URL has a user or a password"),
        ("{from: {jdbc: {url: 'jdbc:mariadb://db:99999/', user: u}}}", "is no URL of a MySQL or MariaDB server"),
        ("{from: {jdbc: {url: 'jdbc:mariadb://db/?password=x', user: u}}}", "the URL has a user or a password"),
        ("{from: {}}", "nothing is said"),
        ("{from: {parquet: ./a, csv: ./b}, at: '4711'}", "parquet and csv are there"),
        ("{from: {parquet: ./a}}", "nothing tells which position the files are of"),
        (f"{{from: {{{JDBC}}}, at: '4711'}}", "a database tells its own position"),
        (f"{{from: {{{JDBC}}}, connections: 0}}", "connections"),
    ],
)
def test_what_cannot_be_copied_from_is_refused_with_the_way_out(tmp_path: Path, written: str, said: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        bootstrap_of(tmp_path, written)
    assert said in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_editors_know_the_password() -> None:
    assert "password" in json_schema()["$defs"]["Jdbc"]["properties"]
