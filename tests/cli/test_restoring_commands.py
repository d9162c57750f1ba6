"""The commands that the sentence on a damaged file prints, typed as they stand: the lake is as before, or nothing restores it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.defs.assemble import assemble
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from tests.flows.damaged import flip
from tests.flows.harness import Harness
from tests.flows.history import EVERY, border
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture
from tests.flows.test_damaged_files import file_of, fresh

pytestmark = pytest.mark.more

ONE, OLD = ("bank", "one"), ("bank", "old")
COMPARED: tuple[tuple[str, ...], ...] = (
    ("raw_envelopes",),
    ("entries",),
    *((layer, *ONE) for layer in ("changelog", "snapshot", "history", "sql")),
)
_COMMAND = re.compile(r"`(dts-assets [^`]+)`")
_PARTITION = re.compile(r"Its partition is (\S+)\.")


Rows: TypeAlias = Mapping[tuple[str, ...], list[str]]
"""The rows of tables as texts, by their paths."""


@dataclass
class Lake:
    """A lake that commands have made, and its rows then."""

    config: Path

    def harness(self) -> Harness:
        """The subscription as a new process opens it."""
        return fresh(Harness(open_pipeline(load_settings(self.config), "shop"), this_process()))

    def typed(self, command: str, code: int = 0) -> Result:
        self.harness()
        words = shlex.split(command)
        assert words[0] == "dts-assets"
        done = CliRunner().invoke(cli, [*words[1:], "--config", str(self.config)], env={"COLUMNS": "300"})
        assert done.exit_code == code, (command, done.exit_code, done.output)
        return done

    def materialize(self, asset: str, partition: str) -> None:
        """What a person asks for in the UI."""
        self.harness()
        job = assemble(load_settings(self.config), self.config).resolve_job_def("shop_ingest")
        keys = [dg.AssetKey(["shop", asset])]
        with dg.DagsterInstance.ephemeral() as instance:
            assert job.execute_in_process(partition_key=partition, asset_selection=keys, instance=instance).success

    def rows(self) -> Rows:
        harness = self.harness()
        paths = (*COMPARED, ("snapshot", *OLD))
        # Numbers of runs and times of writing are others.
        return {path: sorted(map(str, map(without_times, harness.rows(*path)))) for path in paths}


def without_times(row: Mapping[str, object]) -> Mapping[str, object]:
    return {name: row[name] for name in row if name not in ("run_id", "_run_id", "ingested_at", "stored_at")}


@pytest.fixture(scope="module")
def in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
        patch.setattr("dts_assets.defs.resources.SparkResource.session", lambda _: this_process())
        patch.delenv("DAGSTER_HOME", raising=False)
        yield


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, in_this_process: None) -> Lake:
    folder = tmp_path_factory.mktemp("restoring")
    source = three_windows(items("one"), items("two"))
    write_capture(folder / "capture", source.messages)
    (folder / "files").mkdir()
    (folder / "files" / "bank.old.csv").write_text("id,note\n1,first\n2,second\n")
    file, place = source.checkpoints[0].position
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": "./capture", "complete": True}},
        "partitions": LANES,
        "window": {"every": f"{EVERY.seconds // 60}m", "start": border(0), "end": border(3)},
        "tables": {"include": ["bank.one", "bank.two", "bank.old"]},
        "history": ["*.one"],
        "sql": {"tables": ["*.one"], "dialect": "mysql"},
        "bootstrap": {"from": {"csv": "./files"}, "at": f"{file}:{place}"},
    }
    made = Lake(folder / "pipeline.yaml")
    made.config.write_text(yaml.safe_dump({"lake": {"warehouse": "./lake"}, "subscriptions": {"shop": subscription}}))
    made.typed("dts-assets copy shop")
    made.typed("dts-assets run")
    return made


@pytest.fixture(scope="module")
def whole(lake: Lake) -> Rows:
    found = lake.rows()
    assert all(found.values())
    return found


OF_A_TABLE = [
    *((layer, "rows") for layer in ("changelog", "snapshot", "history", "sql")),
    ("changelog", "manifest"), ("snapshot", "manifest list"), ("history", "metadata"), ("sql", "metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "kind"), OF_A_TABLE)
def test_a_file_of_a_table(layer: str, kind: str, lake: Lake, whole: Rows) -> None:
    file = file_of(lake.harness(), (layer, *ONE), kind)
    flip(file)
    lake.typed("dts-assets tables pause bank.one --reason damaged --subscription shop")
    commands = _COMMAND.findall(said_of(lake, file))
    if kind == "rows":  # resume comes before it
        commands.reverse()
    assert [one.split()[1:3] for one in commands] == (
        [["tables", "resume"], ["tables", "rebuild"]]
        if kind == "rows"
        else [["tables", "remove"], ["tables", "add"], ["run"]]
    )
    for command in commands:
        lake.typed(command)
    assert_whole(lake, whole)


@pytest.mark.parametrize("name", ["raw_envelopes", "entries"])
def test_rows_of_all_tables(name: str, lake: Lake, whole: Rows) -> None:
    file = file_of(lake.harness(), (name,), "rows")
    flip(file)
    said = said_of(lake, file)
    (command,) = _COMMAND.findall(said)
    found = _PARTITION.search(lake.typed(command, code=3).output)
    assert found is not None
    assert f"To materialize shop/{name} of its window again" in said
    lake.materialize(name, found[1])
    lake.typed("dts-assets run")
    assert_whole(lake, whole)


NOWHERE: list[tuple[tuple[str, ...], str]] = [
    *(((name,), kind) for name in ("windows", "copied_tables") for kind in ("rows", "metadata")),
    *(((name,), "manifest") for name in ("raw_envelopes", "entries")),
    *((("copies", *OLD), kind) for kind in ("rows", "manifest list")),
]


@pytest.mark.parametrize(("path", "kind"), NOWHERE)
def test_nothing_but_a_copy(path: tuple[str, ...], kind: str, lake: Lake, whole: Rows) -> None:
    file = file_of(lake.harness(), path, kind)
    content = file.read_bytes()
    flip(file)
    said = said_of(lake, file)
    assert "Nothing restores it but a copy of the lake" in said
    assert not _COMMAND.findall(said)
    file.write_bytes(content)
    assert_whole(lake, whole)


def test_the_catalog(lake: Lake, whole: Rows) -> None:
    file = lake.config.parent / "lake" / "catalog.db"
    content = file.read_bytes()
    flip(file)
    said = lake.typed("dts-assets verify files", code=11).output
    assert f"The catalog {file} of the lake is damaged" in said
    assert "Nothing in dts-assets restores it: put a copy of the file in its place" in said
    file.write_bytes(content)
    assert_whole(lake, whole)


def said_of(lake: Lake, file: Path) -> str:
    """The sentence on a damaged file, which is the only one."""
    lines = lake.typed("dts-assets verify files", code=3).stdout.splitlines()
    (line,) = [line for line in lines if str(file) in line]
    assert sum("cannot be used" in line for line in lines) == 1, lines
    return line


def assert_whole(lake: Lake, whole: Rows) -> None:
    """No file is damaged, no table is paused, nothing is left to do, and all rows are there."""
    lake.typed("dts-assets verify files")
    lake.typed("dts-assets run")
    found = lake.rows()
    for path, rows in whole.items():
        assert found[path] == rows, path
