"""A source that attacks the server on which its statements are run: by ``prove``, and as a script of ``statements``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli import prove as prove_module
from dts_assets.cli import statements as statements_module
from dts_assets.cli.main import cli
from dts_assets.flows.scratch_account import scratch_account
from dts_assets.flows.scratch_server import Login, ScratchAddress, StatementRefused, scratch_server
from dts_emulator.source.server import Server, private_server
from tests.cli.test_prove import CONFIG
from tests.cli.test_statements import run_in
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl
from tests.wire.statements_of_others import BESIDE_TABLES, BEYOND, HIDDEN, IN_THE_WORDS_OF_A_CLIENT

pytestmark = [pytest.mark.database, pytest.mark.more]

MARKER = "the marker of another database"
SLOW = (
    "CREATE TABLE slow (id INT PRIMARY KEY, s BIGINT DEFAULT (SLEEP(1000)), f TEXT DEFAULT (LOAD_FILE('/etc/passwd')))"
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """A source that makes a table, attacks in all forms, and goes on."""
    source = short_source(items("one"), items("made"))
    source.transaction(border(0) + SECOND, Ddl("CREATE TABLE one (id INT PRIMARY KEY, n INT, note TEXT)"))
    for sql in (*BESIDE_TABLES, *HIDDEN, *BEYOND, *IN_THE_WORDS_OF_A_CLIENT, SLOW):
        # Of each form that passes, the table goes again, so that the next one is tried.
        source.transaction(border(0) + SECOND, Ddl(sql.replace("shop", DATABASE)))
        source.transaction(border(0) + SECOND, Ddl("DROP TABLE IF EXISTS t, u, x, slow"))
    insert(source, border(0) + 10 * SECOND, range(10), table="one", n=77_123)
    source.checkpoint(border(0) + 300 * SECOND)
    folder = tmp_path_factory.mktemp("attacked")
    made = open_short(bench_in_process(folder, "attacked"), folder / "capture", source.messages)
    made.all(0)
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    log = tmp_path / "general.log"
    with private_server(extra=("--skip-log-bin", "--general-log=1", f"--general-log-file={log}")) as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE other")
            for engine in ("InnoDB", "MyISAM"):
                cursor.execute(f"CREATE TABLE other.{'t' if engine == 'MyISAM' else 'i'} (a TEXT) ENGINE={engine}")
            cursor.execute("INSERT INTO other.t VALUES (%s)", (MARKER,))
        yield running


@pytest.fixture
def called(harness: Harness, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "pipeline.yaml").write_text(CONFIG)
    for module in (prove_module, statements_module):
        monkeypatch.setattr(module, "open_pipeline", lambda settings, name, **_: harness.pipeline)

    def call(command: str, *options: str, user: str = "root") -> Result:
        into = ("--into", f"mysql://{user}@localhost/?socket={server.socket}") if command == "prove" else ()
        arguments = [command, "shop", *into, *options, "--config", str(tmp_path / "pipeline.yaml")]
        return CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})

    return call


def around(server: Server) -> dict[str, Any]:
    """All that a server has beside the tables of the source's database."""
    asked = {
        "accounts": "SELECT user, host FROM mysql.user ORDER BY 1, 2",
        "rights": "SELECT host, db, user FROM mysql.db",
        "servers": "SELECT * FROM mysql.servers",
        "routines": "SELECT routine_schema, routine_name FROM information_schema.routines WHERE routine_schema <> 'sys'",
        "triggers": "SELECT trigger_schema, trigger_name FROM information_schema.triggers WHERE trigger_schema <> 'sys'",
        "events": "SELECT event_schema, event_name FROM information_schema.events",
        "views": "SELECT table_schema, table_name FROM information_schema.views WHERE table_schema <> 'sys'",
        "engines": "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = %s",
        "databases": "SELECT schema_name FROM information_schema.schemata WHERE schema_name <> %s ORDER BY 1",
        "marker": "SELECT * FROM other.t",
        "tables": "SELECT table_name, create_time, update_time FROM information_schema.tables WHERE table_schema = 'other'",
    }
    found: dict[str, Any] = {}
    with server.connect() as connection, connection.cursor() as cursor:
        for name, sql in asked.items():
            cursor.execute(sql, (DATABASE,) if "%s" in sql else None)
            found[name] = cursor.fetchall()
    return found


def test_prove_reads_and_changes_nothing_of_another_database(called: Any, server: Server, tmp_path: Path) -> None:
    before, log = around(server), tmp_path / "general.log"
    begun = log.stat().st_size
    done = called("prove")
    said = log.read_bytes()[begun:].decode()
    assert done.exit_code == 4, done.output
    assert f"{DATABASE}.one" in done.stdout
    assert "equal" in done.stdout
    assert "statements of the source are left out: not understood" in done.stderr
    assert "statements of the source are left out: about no table" in done.stderr
    assert "statements of the source are left out: about other tables" in done.stderr
    assert "parts of statements are left out: " in done.stderr
    after = around(server)
    assert after.pop("engines") == (("InnoDB",),)
    before.pop("engines")
    assert after == before
    lines = [line for line in said.splitlines() if "Query" in line and "mysql.user" not in line]
    assert len(lines) > 40
    assert not [
        line for line in lines if "other" in line.lower() or "sleep" in line.lower() or "trigger" in line.lower()
    ]


@pytest.mark.parametrize("options", [(), ("--table", f"{DATABASE}.*")])
def test_a_script_does_nothing_beside_the_chosen_tables(
    called: Any, server: Server, tmp_path: Path, options: tuple[str, ...]
) -> None:
    before = around(server)
    done = called("statements", "--out", str(tmp_path / "shop.sql"), *options)
    assert done.exit_code == 3, done.output
    assert "statements of the source are left out: not understood" in done.stderr
    assert "statements of the source are left out: about no table" in done.stderr
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    run_in(server, tmp_path / "shop.sql", "--force")
    after = around(server)
    before.pop("engines")
    after.pop("engines")
    assert after == before
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {DATABASE}.one")
        assert cursor.fetchall() == ((10,),), "and what stands behind the attacks is done"


def test_an_account_that_may_make_no_other_is_refused(called: Any, server: Server) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER reader@localhost")
        cursor.execute(f"GRANT ALL ON `{DATABASE}`.* TO reader@localhost")
        done = called("prove", user="reader")
        assert done.exit_code == 10
        assert "reader may not make an account with rights on the databases of the tables alone" in done.stderr
        assert "Log in as an account that may" in done.stderr
        cursor.execute("SHOW DATABASES LIKE %s", (DATABASE,))
        assert cursor.fetchall() == ()


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        ("GRANT SELECT ON other.* TO PUBLIC", "the database other"),
        ("GRANT FILE ON *.* TO PUBLIC", "see SHOW GRANTS of a new account"),
    ],
)
def test_a_server_whose_accounts_all_may_more_is_refused(called: Any, server: Server, grant: str, said: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(grant)
    before = around(server)
    done = called("prove")
    assert done.exit_code == 10
    assert said in done.stderr
    assert around(server) == before


@pytest.mark.parametrize("database", ["a_b", "a%b", "a`b", "bänk", "A b"])
def test_an_account_has_rights_on_its_own_database_alone(server: Server, database: str) -> None:
    name, beside = (
        database.replace("`", "``"),
        database.replace("_", "x").replace("%", "xy").replace("`", "").lower() + "x",
    )
    address = ScratchAddress(socket=str(server.socket))
    with scratch_server(address, Login()) as admin:
        with scratch_account(admin, [database]) as own:
            own.run(f"CREATE DATABASE `{name}`")
            own.run(f"CREATE TABLE `{name}`.t (a INT PRIMARY KEY)")
            own.run(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY, ADD b INT, RENAME TO `{name}`.u")
            assert own.tables_in([database]) == {database: 1}
            own.run(f"DROP DATABASE `{name}`")
            for statement in (f"CREATE DATABASE `{beside}`", "SELECT * FROM other.t", "DROP TABLE other.t"):
                with pytest.raises(StatementRefused):
                    own.run(statement)
        assert not [
            user for (user, _) in admin.all("SELECT user, host FROM mysql.user") if user.startswith("dts_assets")
        ]


KILLED = """
import os, signal, sys
from dts_assets.flows.scratch_account import scratch_account
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server

with scratch_server(ScratchAddress(socket=sys.argv[1]), Login()) as admin, scratch_account(admin, ["bank"]):
    print("there", flush=True)
    sys.stdin.read()
"""


def test_an_account_of_a_proof_that_was_killed_goes_with_the_next_and_no_other_does(server: Server) -> None:
    def begun() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", KILLED, str(server.socket)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        return process

    def accounts() -> set[str]:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT user FROM mysql.user WHERE user LIKE 'dts%'")
            return {name for (name,) in cursor.fetchall()}

    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER dts_assets_prove_reader, dts_assets")
    mine = accounts()
    with begun() as killed, begun() as lives:
        assert len(accounts()) == 4
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        left = accounts()
        assert len(left) == 4
        with begun() as third:
            now = accounts()
            third.communicate("")
        assert len(now) == 4
        assert len(now & left) == 3, "that of the proof that lives, and those of people"
        lives.communicate("")
    assert accounts() == mine
