"""``config check --connect`` and the check in Dagster: a real MariaDB is asked what its binlog does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.defs.assemble import assemble
from dts_assets.defs.source_settings import SOURCE_SETTINGS, source_job_name
from dts_assets.settings import load_settings
from dts_emulator.source.server import Server, private_server
from tests.flows.verified_source import run
from tests.shop_example import shop_config

pytestmark = pytest.mark.database

TABLES = (
    "CREATE DATABASE shopdb",
    "USE shopdb",
    "CREATE TABLE orders (id INT PRIMARY KEY)",
    "CREATE TABLE items (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES orders (id) ON DELETE SET NULL)",
    "CREATE DATABASE `o``ther`",
    "CREATE TABLE `o``ther`.`p``q` (id INT PRIMARY KEY)",
    "CREATE TABLE far (id INT PRIMARY KEY, o INT COMMENT 'FOREIGN KEY ON DELETE CASCADE', CONSTRAINT `a``b` FOREIGN KEY (o) "
    "REFERENCES `o``ther`.`p``q` (id) ON DELETE RESTRICT ON UPDATE CASCADE)",
    "CREATE TABLE kept (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES orders (id) ON DELETE RESTRICT)",
    "CREATE TABLE bag (n INT)",
    "CREATE TABLE session (id INT PRIMARY KEY) ENGINE=MEMORY",
    "CREATE TABLE prices (id INT PRIMARY KEY, p INT) WITH SYSTEM VERSIONING",
    "CREATE TABLE not_taken (n INT) ENGINE=MEMORY",
    "CREATE USER asker@localhost IDENTIFIED BY 's3cret'",
    "GRANT SELECT ON shopdb.* TO asker@localhost",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        run(running, TABLES)
        yield running


def configured(folder: Path, server: Server, *tables: str, place: str = "source") -> Path:
    """A configuration that names the database in one of the places that it may stand in."""
    url = f"jdbc:mariadb://localhost/?localSocket={server.socket}"
    jdbc = f'jdbc: {{url: "{url}", user: asker, password: "${{DB_PASSWORD}}"}}'
    more = {"verify": f"verify: {{{jdbc}}}", "bootstrap": f"bootstrap: {{from: {{{jdbc}}}}}"}.get(place, "")
    config = shop_config(folder, *tables, more=more)
    if place == "source":
        text = config.read_text()
        config.write_text(text.replace("complete: true}}", f"complete: true}}, database: {{{jdbc}}}}}"))
    return config


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "s3cret")


def check(config: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["config", "check", *options, "--config", str(config)])


@pytest.mark.more(after=1)
@pytest.mark.parametrize("place", ["source", "verify", "bootstrap"])
def test_each_finding_is_one_line(server: Server, place: str, tmp_path: Path) -> None:
    config = configured(tmp_path, server, "orders", "items", "kept", "bag", "session", "prices", "far", place=place)
    done = check(config, "--connect")
    assert done.exit_code == 3, done.output
    lines = [line.removeprefix("shop: ") for line in done.stdout.splitlines() if line.startswith("shop: ")]
    begins = ("Foreign keys", "System versioning", "A restart of the server", "shopdb.bag without")
    assert [line.startswith(begin) for line, begin in zip(lines, begins, strict=True)] == [True] * 4
    assert "change rows of shopdb.far (of o`ther.p`q), shopdb.items (of shopdb.orders), and" in lines[0]
    assert "shopdb.kept" not in "".join(lines)
    assert "not_taken" not in "".join(lines)
    assert "s3cret" not in done.output
    assert check(config).exit_code == 0


@pytest.mark.more
def test_what_is_only_unproven_is_said_and_fails_nothing(server: Server, tmp_path: Path) -> None:
    config = configured(tmp_path, server, "orders", "bag")
    done = check(config, "--connect")
    assert done.exit_code == 0, done.output
    assert "shop: shopdb.bag without a primary key" in done.stdout


@pytest.mark.more
def test_settings_of_the_binlog_are_found(tmp_path: Path) -> None:
    with private_server(
        extra=("--binlog-format=MIXED", "--binlog-row-image=MINIMAL", "--log-bin-compress=ON")
    ) as server:
        run(server, TABLES)
        done = check(configured(tmp_path, server, "orders"), "--connect")
    assert done.exit_code == 3
    for said in ("binlog_format is MIXED", "log_bin_compress is ON", "binlog_row_image is MINIMAL"):
        assert f"shop: {said}" in done.stdout


@pytest.mark.parametrize("place", ["verify", "bootstrap"])
def test_an_option_that_nobody_reads_is_a_mistake_of_the_configuration(place: str, tmp_path: Path) -> None:
    jdbc = 'jdbc: {url: "jdbc:mysql://db.example.org/?requireSSL=true&sslmod=s3cret", user: u}'
    more = f"verify: {{{jdbc}}}" if place == "verify" else f"bootstrap: {{from: {{{jdbc}}}}}"
    done = check(shop_config(tmp_path, "orders", more=more))
    assert (done.exit_code, "its option sslmod is not known; did you mean sslMode?" in done.stderr) == (2, True)
    assert "s3cret" not in done.output


@pytest.mark.more
def test_a_database_that_lets_nobody_in_is_a_trouble(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "wr0ng")
    done = check(configured(tmp_path, server, "orders"), "--connect")
    assert (done.exit_code, "refuses user asker" in done.stderr) == (10, True)
    assert "wr0ng" not in done.output


@pytest.mark.more
def test_dagster_has_a_check_of_the_topic_with_a_schedule(server: Server, tmp_path: Path) -> None:
    config = configured(tmp_path, server, "orders", "items")
    definitions = assemble(load_settings(config), config)
    job = definitions.resolve_job_def(source_job_name("shop"))
    (judged,) = job.execute_in_process().get_asset_check_evaluations()
    assert (judged.asset_key.path[-1], judged.check_name) == ("topic", SOURCE_SETTINGS)
    assert (judged.passed, judged.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "shopdb.items (of shopdb.orders)" in str(judged.metadata["findings"].value)
    named = [one for one in definitions.schedules or () if isinstance(one, dg.ScheduleDefinition)]
    (schedule,) = [one for one in named if one.job_name == source_job_name("shop")]
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    plain = configured(tmp_path, server, "orders")
    (judged,) = (
        assemble(load_settings(plain), plain).resolve_job_def(source_job_name("shop")).execute_in_process()
    ).get_asset_check_evaluations()
    assert judged.passed
