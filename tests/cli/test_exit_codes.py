"""The exit codes of ``dts-assets --help`` are a contract: each command is run into each code that docs/exit-codes.md lists."""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import EXIT_CODES, cli
from dts_assets.cli.run import Outcome as RunOutcome
from dts_assets.errors.windows import IncompleteWindowError
from dts_assets.flows.one_by_one import OneByOne
from tests.shop_example import shop_config

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "exit-codes.md"
KNOWN = {0, 1, 2, 3, 4, 10, 11, 12, 13, 14}
EXAMPLE = str(ROOT / "examples" / "shop")
DATABASE = "jdbc: {url: 'jdbc:mysql://127.0.0.1:1/', user: reader}"


def documented() -> dict[str, set[int]]:
    """The codes of each command, besides 0, 1 and 2."""
    rows = re.findall(r"^\| `([a-z -]+)` \| ([\d, ]*)\|", DOCUMENT.read_text("utf-8"), re.M)
    return {name: {int(code) for code in codes.replace(" ", "").split(",") if code} for name, codes in rows}


def commands(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands that do something, by their names."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield name, command
    if isinstance(command, click.Group):
        for one in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), one)
            assert found is not None
            yield from commands(found, f"{name} {one}".strip())


COMMANDS = dict(commands())
FOLDER = "{folder}"
TYPED: Mapping[str, tuple[str, ...]] = {
    "as-of": ("shop", "--window", "2026-01-05-00:00", "--out", "{folder}/out"),
    "capture": ("shop", "{folder}/captured"),
    "config check": (),
    "config schema": (),
    "copies": ("shop",),
    "copy": ("shop",),
    "demo": (),
    "faults": (EXAMPLE, "{folder}/faults"),
    "freshness": ("{folder}/commits.jsonl",),
    "inspect entry": ("0", "0", "0"),
    "inspect message": ("0", "0"),
    "inspect transaction": ("0-1-5",),
    "inspect window": ("2026-01-05T00:00",),
    "keys": ("shop",),
    "live": ("--folder", "{folder}"),
    "maintain": ("shop",),
    "prove": ("shop", "--into", "mysql://root@127.0.0.1:1/"),
    "redrive": ("shop",),
    "resync": ("shop", "shopdb.orders"),
    "rules apply": ("shop",),
    "rules check": ("shop",),
    "run": (),
    "schema": ("shopdb.coupons",),
    "size": ("shop",),
    "sniff": ("{folder}/capture",),
    "spark-server": ("--port", "0"),
    "statements": ("shop",),
    "tables": (),
    "tables add": ("shopdb.coupons",),
    "tables pause": ("shopdb.coupons", "--reason", "a test"),
    "tables rebuild": ("shopdb.coupons",),
    "tables remove": ("shopdb.coupons",),
    "tables resume": ("shopdb.coupons",),
    "verify files": ("shop",),
    "verify source": ("shop",),
}
"""Each command with arguments that mean something in the configurations below."""

WITHOUT_CONFIG = {"config schema", "faults", "live", "sniff"}


@dataclass(frozen=True)
class Place:
    """A folder with a configuration."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "pipeline.yaml"

    def configure(self, *, more: str = "", change: Mapping[str, str] | None = None) -> Place:
        """Write the configuration of a lake that is not there yet."""
        text = shop_config(self.folder, "coupons", hours=2, more=more).read_text()
        for before, after in (change or {}).items():
            assert before in text
            text = text.replace(before, after)
        self.config.write_text(text)
        (self.folder / "commits.jsonl").touch()
        return self

    def call(self, name: str, *more: str, **environment: str) -> Result:
        typed = [one.replace(FOLDER, str(self.folder)) for one in (*TYPED[name], *more)]
        config = () if name in WITHOUT_CONFIG else ("--config", str(self.config))
        home = {"DAGSTER_HOME": str(self.folder / "home"), "COLUMNS": "200"}
        return CliRunner().invoke(cli, [*name.split(), *typed, *config], env={**home, **environment})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "home").mkdir()
    (tmp_path / "capture").symlink_to(EXAMPLE)
    return Place(tmp_path).configure()


def judge(done: Result, code: int) -> None:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    assert "fault of dts-assets" not in done.output
    assert code in (0, 3, 4) or done.stderr.strip(), "it says why"


def without_source(place: Place) -> None:
    place.configure(change={EXAMPLE: f"{place.folder}/gone"})


def without_capture(place: Place) -> None:
    (place.folder / "capture").unlink()


def without_lake(place: Place) -> None:
    (place.folder / "lake").write_text("a file")


def without_database(place: Place) -> None:
    place.configure(more=f"verify: {{{DATABASE}}}\n    bootstrap: {{from: {{{DATABASE}}}}}")


def without_database_and_lake(place: Place) -> None:
    without_database(place)
    without_lake(place)


def without_java(place: Place) -> dict[str, str]:
    without_database(place)
    return {"JAVA_HOME": str(place.folder)}


def without_schema(place: Place) -> None:
    place.configure(more=f"schema: {place.folder}/gone.avsc", change={"dts-protobuf": "dts-avro"})


def damaged_capture(place: Place) -> tuple[str, ...]:
    (folder := place.folder / "damaged").mkdir()
    (folder / "part-0.parquet").write_text("no file of Parquet")
    return "--capture", str(folder)


def taken_folder(place: Place) -> None:
    (place.folder / "other").touch()


Way = Callable[[Place], object]
WAYS: dict[tuple[str, int], Way] = {
    **{
        (name, 11): without_lake
        for name, codes in documented().items()
        if 11 in codes and name not in ("demo", "prove")
    },
    **{(name, 11): without_database_and_lake for name in ("copy", "resync", "verify source")},
    **{(name, 10): without_source for name in ("capture", "config check", "run")},
    **{(name, 10): damaged_capture for name in ("inspect entry", "inspect message", "inspect transaction")},
    **{(name, 13): without_java for name in ("config check", "copy", "resync", "run", "spark-server")},
    **{(name, 14): without_schema for name in ("config check", "run")},
    ("statements", 10): damaged_capture,
    ("verify source", 10): without_database,
    **{(name, 10): without_database for name in ("copy", "resync")},
    ("prove", 10): lambda _: None,
    ("sniff", 10): without_capture,
    ("sniff", 14): lambda place: ("--format", "dts-avro", "--schema", str(DOCUMENT)),
    ("live", 13): taken_folder,
}
"""How a code is brought about in a lake that is not there yet: something is missing, of which a command says so."""

HELD_ELSEWHERE: Mapping[tuple[str, int], str] = {
    ("as-of", 3): "tests/cli/test_as_of.py",
    ("config check", 3): "tests/cli/test_source_preflight.py",
    ("prove", 3): "tests/cli/test_prove.py",
    ("rules apply", 3): "tests/cli/test_rules.py",
    ("rules check", 3): "tests/cli/test_rules.py",
    ("run", 3): "tests/cli/test_run.py",
    ("statements", 3): "tests/cli/test_statements.py",
    ("verify files", 3): "tests/cli/test_verify_files.py",
    ("verify source", 3): "tests/cli/test_verify.py",
}
"""Codes that need a server or damage: the files whose tests bring them about."""

PASSED_ON = {
    **{("demo", code): "run" for code in (10, 11, 13)},
    ("redrive", 13): "copy",
    ("tables rebuild", 13): "copy",
}
"""Codes that a command ends with because another one does the same work, or begins with the same look at the machine."""


@dataclass(frozen=True)
class Outcome:
    """What a command is given by the room below, in place of a server or a whole run."""

    place: str
    result: object

    def give(self, *_: object, **__: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


_NOT_COMPARED = SimpleNamespace(
    position="0:1:4", verdicts={}, unequal=(), refused=("shopdb.orders",), repaired={}, not_repaired={}, proven=(),
    tables={}, equal=True, whole=False, failures={},
)  # fmt: skip
_BLOCKED = IncompleteWindowError("shop", {"p00|2026-01-05-01:00": ("gap",)})
_UNEQUAL = [SimpleNamespace(equal=False)]
OUTCOMES: Mapping[tuple[str, int], tuple[Outcome, ...]] = {
    ("demo", 3): (
        Outcome("dts_emulator.commands.demo_run.run_all", RunOutcome()),
        Outcome("dts_emulator.commands.demo_run.judge", _UNEQUAL),
        Outcome("dts_emulator.commands.demo_run._show", None),
    ),
    ("keys", 3): (Outcome("dts_assets.cli.keys.find_repeated_keys", OneByOne({"shopdb.orders": 2})),),
    ("prove", 4): (
        Outcome("dts_assets.cli.prove.scratch_server", nullcontext()),
        Outcome("dts_assets.cli.prove.prove", _NOT_COMPARED),
        Outcome("dts_assets.cli.prove._say_run", None),
    ),
    ("prove", 11): (Outcome("dts_assets.cli.prove.scratch_server", nullcontext()),),
    ("run", 12): (Outcome("dts_assets.cli.run._run_subscription", _BLOCKED),),
    ("verify source", 4): (Outcome("dts_assets.cli.verify.verify", _NOT_COMPARED),),
}
"""How a code is brought about by what the room below gives."""


@pytest.mark.parametrize(("name", "code"), sorted(OUTCOMES))
def test_a_command_ends_with_the_code_of_its_outcome(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    without_database(place)
    if code == 11:
        without_lake(place)
    for one in OUTCOMES[name, code]:
        monkeypatch.setattr(one.place, one.give)
    judge(place.call(name), code)


def test_the_document_has_every_command_and_every_code() -> None:
    assert documented().keys() == COMMANDS.keys() == TYPED.keys()
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT.read_text("utf-8"), re.M)} == KNOWN
    assert {int(code) for code in re.findall(r"\b(\d+) [a-z]", EXIT_CODES)} == KNOWN


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_section_of_a_docstring(name: str) -> None:
    done = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert done.exit_code == 0
    assert not re.search(r"\b(Raises|Returns|Args|Yields|Attributes):|``|:(?:class|func|data|mod):", done.output)


def codes_tried() -> set[tuple[str, int]]:
    return {*WAYS, *OUTCOMES, *HELD_ELSEWHERE, *PASSED_ON}


def test_each_code_of_the_document_is_tried() -> None:
    listed = {(name, code) for name, codes in documented().items() for code in codes}
    assert listed - codes_tried() == set()
    assert codes_tried() - listed == set()
    for (_, code), file in HELD_ELSEWHERE.items():
        assert re.search(rf"(exit_code|returncode).*== {code}\b", (ROOT / file).read_text("utf-8"))


@pytest.mark.more(after=5)
@pytest.mark.parametrize(("name", "code"), sorted(WAYS), ids=lambda one: str(one).replace(" ", "_"))
def test_a_command_ends_with_its_code(place: Place, name: str, code: int) -> None:
    given = WAYS[name, code](place)
    environment = given if isinstance(given, dict) else {}
    judge(place.call(name, *(given if isinstance(given, tuple) else ()), **environment), code)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_CONFIG))
def test_a_configuration_that_is_missing_or_wrong_is_2(place: Place, name: str) -> None:
    place.config.unlink()
    judge(place.call(name), 2)
    for content in (b"\xff\xfe\x00", b"lake: [\n", b"lake: {}\n", b""):
        place.config.write_bytes(content)
        judge(place.call(name), 2)
    place.config.unlink()
    place.config.mkdir()
    judge(place.call(name), 2)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_option_that_nobody_knows_is_2(place: Place, name: str) -> None:
    judge(place.call(name, "--no-such-option"), 2)


@pytest.mark.parametrize("name", ["copy", "resync", "verify source"])
def test_a_setting_that_is_missing_is_2(place: Place, name: str) -> None:
    done = place.call(name)
    judge(done, 2)
    assert "Subscription shop has no " in done.stderr
    assert not (place.folder / "lake").exists() or name != "verify source", "nothing is made"


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", sorted(name for name, typed in TYPED.items() if "shop" in typed[:1]))
def test_a_subscription_that_there_is_not_is_2(place: Place, name: str) -> None:
    place.configure(change={"  shop:\n": "  store:\n"})
    done = place.call(name)
    judge(done, 2)
    assert "no subscription shop" in done.stderr


@pytest.mark.more(after=2)
@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, ()) for name in COMMANDS if name.startswith("tables ")),
        ("schema", ()),
        ("size", ("--table", "shopdb.gone")),
        ("as-of", ("--table", "shopdb.gone")),
        ("copies", ("--cancel", "shopdb.gone")),
    ],
)
def test_a_table_that_there_is_not_is_2(place: Place, name: str, more: tuple[str, ...]) -> None:
    judge(place.call(name, *more), 2)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", ["as-of", "inspect entry", "inspect message", "inspect transaction", "inspect window"])
def test_what_a_lake_has_not_is_1(place: Place, name: str) -> None:
    judge(place.call(name), 1)


SHOWING = (
    "copies",
    "keys",
    "size",
    "tables",
    "maintain",
    "redrive",
    "statements",
    "freshness",
    "config schema",
    "sniff",
)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", SHOWING)
def test_a_lake_that_is_not_there_yet_has_nothing_to_show(place: Place, name: str) -> None:
    judge(place.call(name), 0)


LAKE_COMMANDS = sorted(name for name, codes in documented().items() if 11 in codes and name not in ("copy", "resync"))


@pytest.mark.more(after=2)
@pytest.mark.parametrize(
    "name", [name for name in LAKE_COMMANDS if name not in ("verify source", "prove", "demo", "config check")]
)
def test_a_catalog_that_does_not_answer_is_11(place: Place, name: str) -> None:
    lake = f"{place.folder}/lake"
    rest = f"{lake}, catalog: {{type: rest, uri: 'http://127.0.0.1:1'}}"
    place.configure(change={lake: rest})
    done = place.call(name)
    judge(done, 11)
    assert "The catalog of the lake cannot be asked now" in done.stderr


@pytest.mark.more(after=2)
@pytest.mark.parametrize("name", ["run", "redrive", "config check"])
def test_a_spark_server_that_is_not_there_is_13(place: Place, name: str) -> None:
    place.config.write_text(place.config.read_text() + "spark: {remote: 'sc://127.0.0.1:1/;token=hunter2'}\n")
    done = place.call(name, *(["--connect"] if name == "config check" else []))
    judge(done, 0 if name == "redrive" else 13)
    assert "hunter2" not in done.output
    assert name == "redrive" or "No Spark answers at sc://127.0.0.1:1: connection refused" in done.stderr


def test_a_port_that_is_taken_is_13(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        judge(place.call("spark-server", "--port", str(server.getsockname()[1])), 13)


def test_an_error_that_nobody_expected_is_one_sentence_without_its_text(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            int("a value of a row")
        except ValueError:
            raise KeyError("a value of a row")  # noqa: B904  # this is how a handler fails

    monkeypatch.setattr("dts_assets.cli.keys.find_repeated_keys", fail)
    done = place.call("keys")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("dts-assets keys could not be finished: KeyError")
    assert "value" not in done.stderr
    monkeypatch.setenv("DTS_ASSETS_TRACEBACK", "1")
    error = place.call("keys").exception
    assert error is not None
    shown = "".join(traceback.format_exception(error))
    assert [shown.count(one) for one in ("in fail", "KeyError (", "ValueError (")] == [2, 1, 1]
    assert "value of a row" not in shown.replace('("a value of a row")', "")
