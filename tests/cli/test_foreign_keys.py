"""Rows that a real MariaDB changes by foreign keys, which no event tells: named by ``run``, healed by ``verify --repair``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_emulator.source.server import Server, private_server
from tests.flows.harness import Harness
from tests.flows.verified_source import START, lake_of, run

pytestmark = pytest.mark.database

CONFIG = """\
lake: {{warehouse: {lake}}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {capture}, complete: true}}, foreign_keys: {setting}}}
    partitions: 2
    window: {{every: 1m, start: 2026-03-01T10:00Z, end: 2026-03-01T10:01Z}}
    tables: {{include: ["d.*"]}}
    verify: {{jdbc: {{url: "jdbc:mariadb://localhost/?localSocket={socket}", user: reader, password: "${{DB_PASSWORD}}"}}}}
"""
TABLES = (
    "CREATE DATABASE d",
    "CREATE TABLE d.parents (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
    """CREATE TABLE d.children (id INT PRIMARY KEY, parent INT, v INT,
       FOREIGN KEY (parent) REFERENCES d.parents (id) ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB""",
    """CREATE TABLE d.grandchildren (id INT PRIMARY KEY, child INT,
       CONSTRAINT of_child FOREIGN KEY (child) REFERENCES d.children (id) ON DELETE SET NULL) ENGINE=InnoDB""",
    """CREATE TABLE d.strict (id INT PRIMARY KEY, parent INT,
       CONSTRAINT of_strict FOREIGN KEY (parent) REFERENCES d.parents (id)) ENGINE=InnoDB""",
    "INSERT INTO d.parents VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO d.children VALUES (10, 1, 1), (11, 1, 2), (20, 2, 3), (30, 3, 4)",
    "INSERT INTO d.grandchildren VALUES (100, 10), (200, 20)",
    "INSERT INTO d.strict VALUES (1, 3)",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("DB_PASSWORD", "s3cret")
    with private_server() as found:
        run(found, TABLES, second=START + 1)
        reader = "reader@localhost"
        grants = (
            f"CREATE USER {reader} IDENTIFIED BY 's3cret'",
            f"GRANT SELECT, REPLICATION CLIENT ON *.* TO {reader}",
        )
        run(found, grants, second=START + 2)
        yield found


def config_of(server: Server, folder: Path, *, setting: str = "named") -> Path:
    (capture,) = folder.glob("capture*")
    path = folder / "pipeline.yaml"
    path.write_text(CONFIG.format(lake=folder / "lake", capture=capture, socket=server.socket, setting=setting))
    (folder / "home").mkdir(exist_ok=True)
    return path


def call(config: Path, *arguments: str) -> Result:
    home = {"DAGSTER_HOME": str(config.parent / "home"), "COLUMNS": "400"}
    done = CliRunner().invoke(cli, [*arguments, "--config", str(config)], env=home)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def lines(done: Result) -> dict[str, str]:
    """The lines about snapshots that are not proven, by table."""
    found = (line.split(": its snapshot is not proven since ") for line in done.output.splitlines())
    return {line[0].removeprefix("d."): line[1] for line in found if len(line) > 1}


def shown(harness: Harness, server: Server, table: str) -> bool:
    """Whether a snapshot has the rows of the server."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM d.{table} ORDER BY id")
        rows = [tuple(row) for row in cursor.fetchall()]
    names = ("id", "parent", "v") if table == "children" else ("id", "child")
    found = sorted(tuple(row[name] for name in names) for row in harness.rows("snapshot", "d", table))
    return found == rows


@pytest.mark.more
def test_rows_that_a_delete_takes_along_are_named_and_a_repair_ends_the_state(server: Server, tmp_path: Path) -> None:
    run(server, ["UPDATE d.parents SET v = 9", "DELETE FROM d.parents WHERE id = 1"], second=START + 10)
    harness = lake_of(server, tmp_path, name="shop")
    assert not shown(harness, server, "children")
    config = config_of(server, tmp_path)
    done = call(config, "run")
    named = lines(done)
    assert (done.exit_code, {*named}) == (3, {"children", "grandchildren"}), done.output
    (deleted,) = [row for row in harness.rows("changelog", "d", "parents") if row["op"] == "delete"]
    position = ":".join(map(str, deleted["source_position"].values()))
    assert all(said.startswith(f"{position}: ") for said in named.values())
    assert "the foreign key children_ibfk_1 (ON DELETE CASCADE ON UPDATE CASCADE)" in named["children"]
    assert "the foreign key of_child (ON DELETE SET NULL)" in named["grandchildren"]
    assert "dts-assets verify shop --table d.children --repair" in named["children"]
    repaired = call(config, "verify", "shop", "--timeout", "1s", "--repair")
    assert repaired.exit_code == 3, repaired.output
    assert "d.children: 2 rows are repaired" in repaired.output
    harness.settle()
    assert all(shown(harness, server, table) for table in ("children", "grandchildren"))
    again = call(config, "run")
    assert (again.exit_code, lines(again)) == (0, {}), again.output
    assert {row.foreign_keys[0].name for row in harness.pipeline.ledger.copied_tables()} == {
        "children_ibfk_1",
        "of_child",
    }


@pytest.mark.more
def test_equal_rows_are_proven_by_the_comparison_and_people_may_accept_them(server: Server, tmp_path: Path) -> None:
    """With foreign_key_checks=0 the server changes no child, and no message shows it."""
    run(server, ["SET foreign_key_checks = 0", "DELETE FROM d.parents WHERE id = 1"], second=START + 10)
    harness = lake_of(server, tmp_path, name="shop")
    assert shown(harness, server, "children")
    for setting, code, said in (("named", 3, False), ("accepted", 0, True), ("logged", 0, False)):
        done = call(config_of(server, tmp_path, setting=setting), "run")
        assert done.exit_code == code, done.output
        assert bool(lines(done)) == (setting == "named")
        accepted = (
            "foreign keys change rows without events of d.children, d.grandchildren, which source: foreign_keys accepts"
        )
        assert (f"shop: {accepted}" in done.output) == said
    config = config_of(server, tmp_path)
    proven = call(config, "verify", "shop", "--timeout", "1s", "--repair")
    assert proven.exit_code == 0, proven.output
    assert "d.children: its rows are as at the source" in proven.output
    harness.settle()
    done = call(config, "run")
    assert (done.exit_code, lines(done)) == (0, {}), done.output
