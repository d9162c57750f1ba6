"""The command ``prove``: what it says and how it ends, and what it never says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli import prove as command
from dts_assets.cli.main import cli
from dts_emulator.source.server import Server, private_server
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl
from tests.flows.test_damaged_files import file_of, fresh

pytestmark = pytest.mark.database

SECRET = "s3cret word"
CONFIG = """
lake: {warehouse: ./lake}
subscriptions:
  shop: {format: dts-protobuf, source: {capture: .}, partitions: 2, window: {every: 1h, start: 2026-01-01T00:00Z}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server(extra=("--skip-log-bin",)) as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER prover IDENTIFIED BY %s", (SECRET,))
            cursor.execute("GRANT ALL ON *.* TO prover WITH GRANT OPTION")
        yield running


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    source = short_source(items("one"), items("made"))
    source.transaction(border(0) + SECOND, Ddl("CREATE TABLE one (id INT PRIMARY KEY, n INT, note TEXT)"))
    source.transaction(border(0) + SECOND, Ddl("GRANT ALL ON *.* TO nobody"))
    source.transaction(border(0) + SECOND, Ddl("DROP TABLE elsewhere.one"))
    insert(source, border(0) + 10 * SECOND, range(10), table="one", n=77_123)
    source.checkpoint(border(0) + 300 * SECOND)
    folder = tmp_path_factory.mktemp("prove")
    made = open_short(bench_in_process(folder, "prove"), folder / "capture", source.messages)
    made.all(0)
    return made


@pytest.fixture
def called(harness: Harness, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "pipeline.yaml").write_text(CONFIG)
    monkeypatch.setattr(command, "open_pipeline", lambda settings, name, **_: harness.pipeline)

    def call(*options: str, password: str = SECRET) -> Result:
        url = f"mysql://prover@localhost/?socket={server.socket}"
        arguments = ["prove", "shop", "--into", url, *options, "--config", str(tmp_path / "pipeline.yaml")]
        done = CliRunner().invoke(cli, arguments, env={"DTS_ASSETS_SCRATCH_PASSWORD": password, "COLUMNS": "200"})
        assert SECRET not in done.output
        return done

    return call


@pytest.mark.more
def test_what_is_equal_is_said_and_what_the_source_did_elsewhere_is_not_done(called: Any, server: Server) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE elsewhere")
        cursor.execute("CREATE TABLE elsewhere.one (id INT)")
        done = called()
        assert done.exit_code == 0, done.output
        assert f"{DATABASE}.one" in done.stdout
        assert "equal" in done.stdout
        assert "10 changes and 1 statements of DDL were run" in done.stderr
        assert "1 statements of the source are left out: about other tables" in done.stderr
        cursor.execute("SHOW TABLES IN elsewhere")
        assert len(cursor.fetchall()) == 1
    assert called().exit_code == 2, "the databases are full now"
    assert called("--existing", "drop").exit_code == 0


@pytest.mark.more
def test_rows_that_differ_are_named_by_key_and_their_values_are_hidden(called: Any, harness: Harness) -> None:
    (file,) = harness.pipeline.lake.data_files(harness.pipeline.table_path("snapshot", table_id("one")))
    path = Path(file.path.removeprefix("file://"))
    before, rows = path.read_bytes(), pq.read_table(path)
    spoiled = rows["n"].to_pylist()
    spoiled[4] += 1
    at = rows.schema.get_field_index("n")
    pq.write_table(rows.set_column(at, rows.schema.field("n"), pa.array(spoiled, rows["n"].type)), path)
    try:
        done = called("--existing", "drop")
        shown = called("--existing", "drop", "--show-values")
    finally:
        path.write_bytes(before)
    key = rows["id"][4].as_py()
    assert done.exit_code == shown.exit_code == 3
    assert f"{DATABASE}.one: id '{key}' differs in n\n" in done.stdout
    assert "77123" not in done.output
    assert f"id '{key}' differs in n (lake '77124', server '77123')" in shown.stdout


@pytest.mark.more
def test_where_no_snapshot_can_be_opened_the_command_ends_with_the_sentence_of_that(
    called: Any, harness: Harness
) -> None:
    files = [
        file_of(harness, ("snapshot", *table_id(name).path), "metadata")
        for name in ("one", "made")
        if harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table_id(name))) is not None
    ]
    assert files
    contents = {file: file.read_bytes() for file in files}
    try:
        for file in files:
            file.write_bytes(b"")
        fresh(harness)
        done = called("--existing", "drop")
    finally:
        for file, content in contents.items():
            file.write_bytes(content)
        fresh(harness)
    assert done.exit_code == 11, done.output
    assert all(str(file) in done.stderr for file in files)
    assert "has no snapshot" not in done.output


def test_a_wrong_password_is_a_sentence_without_it(called: Any) -> None:
    done = called(password="not the right one")
    assert done.exit_code == 10
    assert "does not let prover in (error 1045)" in done.stderr
    assert "not the right one" not in done.output


def test_a_server_that_is_not_reached_says_nothing_of_a_password(tmp_path: Path) -> None:
    """Error 2003 is about the address: nobody was asked for a password."""
    (tmp_path / "pipeline.yaml").write_text(CONFIG)
    arguments = ["prove", "shop", "--into", "mysql://root@127.0.0.1:1/", "--config", str(tmp_path / "pipeline.yaml")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 10
    assert "it does not answer (error 2003)" in done.stderr
    assert "that the server runs" in done.stderr
    assert "password" not in done.stderr


def test_an_option_file_has_the_password(called: Any, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(f'[client]\npassword="{SECRET}"\n')
    assert called("--existing", "drop", "--option-file", str(file), password="").exit_code == 0
