"""The command line speaks in sentences, ends with the documented codes and starts without heavy imports."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dts_assets import errors
from dts_assets.cli import main as command_module
from dts_assets.cli.main import COMMAND_GROUP, EXIT_CODES, cli
from dts_assets.errors import machine, windows
from dts_assets.errors.sources import CaptureError

HOUSE = Path(__file__).parents[2]

GOOD = """\
lake: {warehouse: ./lake}
subscriptions:
  shop:
    format: dts-protobuf
    source: {capture: {path: ./recorded, complete: false}}
    partitions: 4
    window: {every: 1h, start: 2026-01-05T00:00Z}
    tables: {include: ["shopdb.*"], exclude: ["shopdb.tmp"]}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.yaml"
    file.write_text(GOOD.replace("partitions: 4", "partitions: 400").replace("every: 1h", "every: 7h"))
    return file


def test_check_says_what_a_good_file_means(good: Path) -> None:
    result = CliRunner().invoke(cli, ["config", "check", "--config", str(good)])
    assert (result.exit_code, result.stderr) == (0, "")
    words = " ".join(result.stdout.split())
    assert "no mistakes" in words
    for word in ("shop", "dts-protobuf", "growing", "shopdb.*", "local[2]", "sqlite"):
        assert word in words


def test_check_names_the_jars_that_spark_lacks(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dts_assets.store.jars.FETCHED", tmp_path / "jars")
    result = CliRunner().invoke(cli, ["config", "check", "--config", str(good)])
    assert (result.exit_code, result.stderr) == (0, "")  # a new machine fetches them
    assert "org.apache.iceberg:iceberg-spark-runtime-" in result.stdout
    assert "org.xerial:sqlite-jdbc:" in result.stdout
    for elsewhere in ("spark: {remote: 'sc://localhost:15002'}", "spark: {conf: {spark.jars.ivy: /elsewhere}}"):
        good.write_text(f"{elsewhere}\n{GOOD}")
        result = CliRunner().invoke(cli, ["config", "check", "--config", str(good)])
        assert (result.exit_code, "iceberg-spark-runtime" in result.stdout) == (0, False)


def test_a_socket_is_of_no_use_to_executors_on_other_machines(good: Path) -> None:
    copied = (
        "    bootstrap: {from: {jdbc: {url: 'jdbc:mariadb://localhost/?localSocket=/run/db.sock', user: reader}}}\n"
    )
    for master, code in (("local[2]", 0), ("local-cluster[2,1,1024]", 0), ("spark://127.0.0.1:7077", 10)):
        good.write_text(f"spark: {{master: '{master}'}}\n{GOOD.rstrip()}\n{copied}")
        result = CliRunner().invoke(cli, ["config", "check", "--config", str(good)])
        assert result.exit_code == code, result.output
        assert ("its socket is on this machine" in result.stderr) == bool(code)


def test_the_file_may_be_named_before_the_subcommand_too(good: Path) -> None:
    result = CliRunner().invoke(cli, ["--config", str(good), "config", "check"])
    assert (result.exit_code, result.stderr) == (0, "")


def test_check_names_all_mistakes_on_stderr_and_ends_with_2(bad: Path) -> None:
    result = CliRunner().invoke(cli, ["config", "check", "--config", str(bad)])
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert ":6: subscriptions.shop.partitions:" in lines[0]
    assert ":7: subscriptions.shop.window.every:" in lines[1]
    assert lines[2] == "2 mistakes."


@pytest.fixture
def impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without a mistake that names nothing that is there, on a machine without Java."""
    file = tmp_path / "impossible.yaml"
    (tmp_path / "taken").touch()
    file.write_text(GOOD.replace("complete: false", "complete: true").replace("./lake", "./taken/lake"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "taken"))
    return file


def test_check_looks_at_all_that_a_run_needs_and_makes_nothing(impossible: Path) -> None:
    before = sorted(impossible.parent.rglob("*"))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = str(server.getsockname()[1])
        result = CliRunner().invoke(cli, ["config", "check", "--config", str(impossible), "--port", port])
    assert (result.exit_code, result.stdout) == (CaptureError.exit_code, "")
    capture, lake, java, home, used = result.stderr.splitlines()
    assert f"The capture {impossible.parent / 'recorded'} cannot be used: there is no such folder" in capture
    assert f"The lake {impossible.parent / 'taken' / 'lake'} cannot be written: " in lake
    assert "Spark needs Java 17" in java
    assert "Dagster's home" in home
    assert f"Port {port} is in use" in used
    assert sorted(impossible.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("mended", "exit_code"),
    [
        ({"complete: true": "complete: false"}, 11),
        ({"complete: true": "complete: false", "./taken/lake": "./lake"}, 13),
    ],
)
def test_the_code_is_that_of_the_first_trouble(impossible: Path, mended: dict[str, str], exit_code: int) -> None:
    text = impossible.read_text()
    for before, after in mended.items():
        text = text.replace(before, after)
    impossible.write_text(text)
    result = CliRunner().invoke(cli, ["config", "check", "--config", str(impossible)])
    assert result.exit_code == exit_code
    assert f"{exit_code} " in EXIT_CODES


def test_a_spark_elsewhere_needs_no_java_here(impossible: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    impossible.write_text(GOOD + "spark: {remote: 'sc://host:15002'}\n")
    assert CliRunner().invoke(cli, ["config", "check", "--config", str(impossible)]).exit_code == 0


def test_connect_reads_recordings_and_asks_catalogs(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (good.parent / "recorded").mkdir()
    (good.parent / "recorded" / "odd.parquet").write_text("no file of Parquet")
    catalog = "catalog: {type: rest, uri: 'http://127.0.0.1:1', credential: 'a:secret'}"
    good.write_text(good.read_text().replace("./lake}", "./lake, " + catalog + "}"))
    asked = ["config", "check", "--config", str(good)]
    assert CliRunner().invoke(cli, asked).exit_code == 0, "nothing is read and nobody is asked"
    result = CliRunner().invoke(cli, [*asked, "--connect"])
    assert result.exit_code == CaptureError.exit_code
    capture, lake = result.stderr.splitlines()
    assert "odd.parquet is not a readable Parquet file" in capture
    assert "its rest catalog does not answer (" in lake
    assert "secret" not in result.stderr


def test_the_environment_names_the_file(bad: Path) -> None:
    result = CliRunner().invoke(cli, ["config", "check"], env={"DTS_ASSETS_CONFIG": str(bad)})
    assert result.exit_code == 2
    assert "bad.yaml:6:" in result.stderr


def test_schema_is_json_on_stdout() -> None:
    result = CliRunner().invoke(cli, ["config", "schema"])
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)["properties"]) == {"lake", "spark", "subscriptions"}


@pytest.mark.parametrize(
    "error",
    [
        CaptureError("./recorded", "it has no column offset"),
        errors.UnwritableLakeError("./lake", "permission denied"),
        windows.NotReadyError("shop", {"2026-01-05-01:00": (0,)}),
        machine.MissingJavaError(),
        machine.PortInUseError(3000),
        errors.WireFormatError("dts-avro", "it needs a schema"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_for_people_is_one_sentence_and_its_documented_code(
    error: errors.DtsAssetsError, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command("fails")
    def fails() -> None:
        raise error

    monkeypatch.setitem(cli.commands, "fails", fails)
    result = CliRunner().invoke(cli, ["fails"])
    assert result.exit_code == error.exit_code
    assert result.stderr == f"{error}\n"
    assert f"{error.exit_code} " in EXIT_CODES


def test_a_command_in_a_module_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "COMMANDS_IN_MODULES", {"schema-of": "dts_assets.cli.main:schema"})
    assert CliRunner().invoke(cli, ["schema-of"]).exit_code == 0
    assert "schema-of" in CliRunner().invoke(cli, ["--help"]).stdout


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands of other packages: one that works, one whose package is not there."""
    named = [
        EntryPoint("added", "dts_assets.cli.main:schema", COMMAND_GROUP),
        EntryPoint("broken", "no_such_package.commands:broken", COMMAND_GROUP),
    ]
    monkeypatch.setattr(command_module, "entry_points", lambda group: EntryPoints(named).select(group=group))


@pytest.mark.usefixtures("group")
def test_a_command_of_another_package_is_one_of_ours() -> None:
    assert CliRunner().invoke(cli, ["added"]).exit_code == 0
    listed = CliRunner().invoke(cli, ["--help"]).stdout
    assert "added" in listed
    assert "Not available" in next(line for line in listed.splitlines() if "broken" in line)


@pytest.mark.usefixtures("group")
def test_a_command_whose_package_is_missing_is_one_sentence() -> None:
    result = CliRunner().invoke(cli, ["broken", "--rate", "5", "more"])
    assert result.exit_code == 13
    assert result.stderr.count("\n") == 1
    assert "The command broken cannot be loaded" in result.stderr
    assert "no_such_package" in result.stderr


def test_without_another_package_its_commands_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "entry_points", lambda group: EntryPoints())
    result = CliRunner().invoke(cli, ["live"])
    assert (result.exit_code, "No such command 'live'" in result.stderr) == (2, True)
    assert "live" not in CliRunner().invoke(cli, ["--help"]).stdout


def test_checking_a_configuration_imports_neither_dagster_nor_spark_nor_arrow(good: Path) -> None:
    code = (
        "import sys\n"
        "from dts_assets.cli.main import cli\n"
        f"cli(['config', 'check', '--config', {str(good)!r}], standalone_mode=False)\n"
        "heavy = {'dagster', 'pyspark', 'pyiceberg', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_dash_m_is_the_command(good: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dts_assets", "config", "check", "--config", str(good)],
        cwd=HOUSE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "no mistakes" in done.stdout
