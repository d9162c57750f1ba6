"""The command ``verify``: its verdicts, exit codes and sentences, with a real MariaDB as the source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.tables import TableId
from dts_assets.settings import load_settings
from dts_emulator.source.server import Server, private_server
from tests.flows.verified_source import START, fill, lake_of, run

pytestmark = pytest.mark.database

CONFIG = """\
lake: {{warehouse: {lake}}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {capture}, complete: true}}}}
    partitions: 2
    window: {{every: 1m, start: 2026-03-01T10:00Z, end: 2026-03-01T10:01Z}}
    tables: {{include: ["d.*"]}}
    columns: {{"d.pairs.c": {{mask: "***"}}}}
    verify: {{jdbc: {{url: "jdbc:mariadb://localhost/?localSocket={socket}", user: {user}, password: "${{DB_PASSWORD}}"}}}}
"""


@contextmanager
def followed(folder: Path) -> Iterator[tuple[Path, Server]]:
    """A server, and the configuration of a lake that has all of it."""
    with private_server() as server:
        fill(server, 30)
        reader = "reader@localhost"
        grants = (
            f"CREATE USER {reader} IDENTIFIED BY 's3cret'",
            f"GRANT SELECT, REPLICATION CLIENT ON *.* TO {reader}",
        )
        run(server, grants, second=START + 2)
        lake_of(server, folder, name="shop", columns={"d.pairs.c": {"mask": "***"}})
        (capture,) = folder.glob("capture*")
        path = folder / "pipeline.yaml"
        path.write_text(CONFIG.format(lake=folder / "lake", capture=capture, socket=server.socket, user="reader"))
        yield path, server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One lake for the tests that only look."""
    with followed(tmp_path_factory.mktemp("shared")) as (path, _):
        yield path


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "s3cret")


@pytest.fixture
def config(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "pipeline.yaml"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Path, Server]]:
    """A server and a lake that a test may change."""
    with followed(tmp_path) as found:
        yield found


def call(config: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["verify", "shop", "--timeout", "1s", *arguments, "--config", str(config)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.more
def test_equal_tables_end_with_nothing_to_do(config: Path) -> None:
    done = call(config)
    assert done.exit_code == 0, done.output
    assert done.output.count("│ equal") == 3
    assert "d.pairs: the column c was not compared: a rule changes its values (mask)" in done.output
    assert "s3cret" not in done.output


@pytest.mark.more
def test_a_damaged_cell_is_named_and_its_value_shown_on_request_alone(own: tuple[Path, Server]) -> None:
    config, _ = own
    pipeline = open_pipeline(load_settings(config), "shop")
    (file,) = pipeline.lake.data_files(pipeline.table_path("snapshot", TableId("d", "", "orders")))
    path = file.path.removeprefix("file://")
    rows = pq.read_table(path)
    notes = rows["note"].to_pylist()
    at = rows["id"].to_pylist().index(7)
    notes[at] = "hidden"
    field = rows.schema.field("note")
    pq.write_table(rows.set_column(rows.schema.get_field_index("note"), field, [notes]), path, store_schema=False)
    done = call(config, "--table", "d.orders")
    assert done.exit_code == 3, done.output
    assert "d.orders: id '7' differs in note" in done.output
    assert "hidden" not in done.output
    shown = call(config, "--table", "d.orders", "--show-values")
    assert "d.orders: id '7' differs in note (lake 'hidden', source '第7')" in shown.output


@pytest.mark.more
def test_a_wrong_password_ends_with_the_source_and_without_the_password(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "wr0ng")
    done = call(config)
    assert done.exit_code == 10
    assert "refuses user reader" in done.output
    assert "wr0ng" not in done.output


@pytest.mark.more
def test_a_lake_that_lacks_the_moment_says_how_far_it_is(own: tuple[Path, Server]) -> None:
    config, server = own
    run(server, ["INSERT INTO d.bag VALUES ('later', 1)"], second=START + 500)
    done = call(config)
    assert done.exit_code == 1
    assert "is complete" in done.output


def test_no_address_is_a_mistake_of_usage(config: Path) -> None:
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "verify" not in line))
    done = call(config)
    assert done.exit_code == 2
    assert "write verify: jdbc: with url" in " ".join(done.output.split())


def test_a_time_that_is_none_is_a_mistake_of_usage(config: Path) -> None:
    done = call(config, "--timeout", "soon")
    assert done.exit_code == 2
    assert "soon is no duration; write 30m, 12h or 14d" in done.output
