"""Damaged files, shared folders and a second lake where a REST catalog places tables in an S3 store."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow.fs import FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from dts_assets.cli.main import cli
from dts_assets.errors.damage import DamagedFileError
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.this_process import this_process
from dts_assets.model.maintenance import Step
from dts_assets.model.tables import TableId
from dts_assets.settings.load import load_settings
from dts_assets.store import catalog as catalogs
from dts_assets.store import ledger_files
from dts_emulator.machine.rest_lake import WAREHOUSE, private_rest_lake
from tests.flows.harness import Harness
from tests.flows.history import START, border
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture
from tests.remote.matrix import fetch_servers

pytestmark = pytest.mark.long

ONE, TWO = TableId("bank", "", "one"), TableId("bank", "", "two")


@pytest.fixture(scope="module")
def servers() -> Iterator[Mapping[str, str]]:
    fetch_servers({"rest+s3"})
    with private_rest_lake() as properties:
        yield properties


class Remote:
    """A subscription in the lake, with the commands on it."""

    def __init__(self, folder: Path, servers: Mapping[str, str], name: str) -> None:
        self.name, self.config = name, folder / "pipeline.yaml"
        write_capture(folder / "capture", three_windows(items("one"), items("two")).messages)
        window = {"every": "10m", "start": f"{START:%Y-%m-%dT%H:%MZ}", "end": f"{border(3):%Y-%m-%dT%H:%MZ}"}
        settings = {
            "lake": {"warehouse": WAREHOUSE, "catalog": dict(servers)},
            "subscriptions": {
                name: {
                    "format": "dts-protobuf", "source": {"capture": str(folder / "capture")}, "partitions": LANES,
                    "window": window, "history": ["*"],
                    "maintenance": {"expire_after": "0s", "keep_versions": 1},
                }
            },
        }  # fmt: skip
        self.config.write_text(json.dumps(settings))
        self.harness = self.opened()

    @classmethod
    def whole(cls, folder: Path, servers: Mapping[str, str], name: str) -> Remote:
        folder.mkdir(exist_ok=True)
        made = cls(folder, servers, name)
        made.harness.all(0, 1, 2)
        return made

    def opened(self) -> Harness:
        """The subscription as a new process opens it."""
        ledger_files.forget()
        catalogs._metadata.cache_clear()
        catalogs._WRITTEN.clear()
        return Harness(open_pipeline(load_settings(self.config), self.name), this_process())

    def table(self, *path: str) -> Table:
        found = self.opened().pipeline.lake.table((self.name, *path))
        assert found is not None
        return found

    def file_of(self, kind: str, *path: str) -> str:
        table = self.table(*path)
        head = table.current_snapshot()
        assert head is not None
        manifests = head.manifests(table.io)
        rows = [entry.data_file.file_path for one in manifests for entry in one.fetch_manifest_entry(table.io)]
        found = {"rows": rows[-1], "manifest": manifests[-1].manifest_path, "manifest list": head.manifest_list}
        return {**found, "metadata": table.metadata_location}[kind]

    def store(self) -> FileSystem:
        return PyArrowFileIO(self.table("windows").io.properties).fs_by_scheme("s3", "lake")

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--config", str(self.config)], env={"COLUMNS": "300"})


def flip(content: bytes) -> bytes:
    return bytes(one ^ 0x5A for one in content)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flip, "cut": lambda content: content[: len(content) * 2 // 3], "gone": lambda _: None,
}  # fmt: skip


def damage(remote: Remote, file: str, kind: str) -> None:
    store, place = remote.store(), file.removeprefix("s3://")
    with store.open_input_stream(place) as stream:
        changed = DAMAGES[kind](stream.read())
    store.delete_file(place)
    if changed is not None:
        with store.open_output_stream(place) as stream:
            stream.write(changed)


CASES = [
    *(("rows", layer, how) for layer in ("changelog", "snapshot", "history") for how in DAMAGES),
    *((kind, "snapshot", how) for kind in ("manifest", "manifest list") for how in DAMAGES),
    ("metadata", "snapshot", "gone"),
]


@pytest.mark.parametrize(("kind", "layer", "how"), CASES)
def test_a_damaged_file_is_named_with_its_table_and_pauses_it_alone(
    kind: str, layer: str, how: str, servers: Mapping[str, str], tmp_path: Path
) -> None:
    """The catalog places a table in a folder whose path does not tell its layer: ``shop.snapshot.bank/one``."""
    remote = Remote(tmp_path, servers, f"{kind} {layer} {how}".replace(" ", "_"))
    remote.harness.all(0)
    file = remote.file_of(kind, layer, "bank", "one")
    assert f"/{layer}/" not in file
    damage(remote, file, how)
    found = remote.call("verify", "files", remote.name)
    assert (found.exit_code, file in found.output, "`dts-assets tables" in found.output) == (3, True, True), (
        found.output
    )
    assert f"bank.one --subscription {remote.name}" in found.output
    harness = remote.opened()
    harness.all(1, 2)
    paused = paused_here(harness.pipeline)
    assert set(paused) <= {ONE}
    assert all(file in one.reason and "bank.one" in one.reason for one in paused.values())
    if paused:
        remote.call("tables", "resume", "bank.one")
    if kind == "rows":
        source = RebuildFrom.ENTRIES if layer == "changelog" else RebuildFrom.CHANGELOG
        rebuild_tables(remote.opened().pipeline, [ONE], source, spark=harness._spark, progress=harness.lines.append)
    else:
        for command in ("remove", "add"):
            done = remote.call("tables", command, "bank.one", "--subscription", remote.name)
            assert done.exit_code == 0, done.output
    remote.opened().settle()
    assert_whole(remote, Remote.whole(tmp_path / "whole", servers, f"whole_{remote.name}"))


@pytest.mark.timeout(1200)
def test_damaged_metadata_that_the_server_reads_again_and_again(servers: Mapping[str, str], tmp_path: Path) -> None:
    """Iceberg's classes of servers read it 20 times more, in 90 seconds, before they answer. So it is opened seldom here."""
    remote = Remote.whole(tmp_path, servers, "read_again")
    file = remote.file_of("metadata", "snapshot", "bank", "one")
    damage(remote, file, "flipped")
    found = remote.call("verify", "files", remote.name)
    assert (found.exit_code, found.output.count(file)) == (3, 1), found.output
    for words in re.findall(r"`dts-assets (tables [^`]+)`", found.output):
        done = remote.call(*shlex.split(words))
        assert done.exit_code == 0, done.output
    remote.opened().settle()
    assert_whole(remote, Remote.whole(tmp_path / "whole", servers, "read_once"))


def assert_whole(remote: Remote, whole: Remote) -> None:
    """No file is damaged, and the table has the rows of a lake that no damage befell."""
    clean = remote.call("verify", "files", remote.name)
    assert clean.exit_code == 0, clean.output
    for layer in ("changelog", "snapshot", "history"):
        assert rows_of(remote, layer) == rows_of(whole, layer)


@pytest.mark.parametrize("name", ["raw_envelopes", "entries", "windows"])
def test_a_damaged_file_of_all_tables_ends_the_run_with_11(
    name: str, servers: Mapping[str, str], tmp_path: Path
) -> None:
    remote = Remote(tmp_path, servers, f"of_all_{name}")
    remote.harness.all(0, 1, 2)
    file = remote.file_of("rows", name)
    damage(remote, file, "flipped")
    found = remote.call("verify", "files", remote.name)
    assert (found.exit_code, file in found.output) == (3, True)
    harness = remote.opened()
    with pytest.raises(DamagedFileError) as caught:
        (harness.entries if name == "raw_envelopes" else harness.tables)(0, 1, 2)
    assert (file in str(caught.value), caught.value.exit_code) == (True, 11)


def test_maintenance_leaves_files_of_other_tables_and_of_another_lake_in_the_bucket(
    servers: Mapping[str, str], tmp_path: Path
) -> None:
    remote = Remote(tmp_path, servers, "sharing")
    harness = remote.harness
    harness.all(0, 1, 2)
    pool = "s3://lake/pool"
    catalog, lake = harness.pipeline.lake.catalog, harness.pipeline.lake
    with remote.table("snapshot", "bank", "one").transaction() as transaction:
        transaction.set_properties({"write.data.path": pool, "write.metadata.path": f"{pool}/metadata"})
    inner = SqlCatalog(
        "inner", **{**servers, "uri": f"sqlite:///{tmp_path}/inner.db", "warehouse": f"{WAREHOUSE}/inner"}
    )
    beside = SqlCatalog("beside", **{**servers, "uri": f"sqlite:///{tmp_path}/beside.db", "warehouse": f"{WAREHOUSE}2"})
    theirs = [numbers_of(one, pool if one is catalog else None) for one in (catalog, inner, beside)]
    within = numbers_of(
        beside, None, location=f"{remote.table('snapshot', 'bank', 'one').location()}/theirs", name="within"
    )
    rows = harness.everything()
    for number in range(2):
        done = remote.call("maintain", remote.name)
        assert done.exit_code == 0, done.output
        later = datetime.now(UTC) + timedelta(days=30)
        maintain(
            remote.opened().pipeline,
            only=(Step.EXPIRY, Step.ORPHANS),
            spark=this_process,
            progress=print_nothing,
            now=later,
        )
        for table in (*theirs, within):
            for version in table.metadata.snapshots:
                table.scan(snapshot_id=version.snapshot_id).to_arrow()
        if number == 0:  # a commit of ours comes into the pool
            lake.replace((remote.name, "snapshot", "bank", "one"), {}, (), properties={"a": "b"}, keep=lambda _: True)
    assert remote.opened().everything() == rows


def numbers_of(catalog: Catalog, pool: str | None, *, location: str | None = None, name: str = "numbers") -> Table:
    """A table of another program with a row set in each of three versions."""
    folders = {} if pool is None else {"write.data.path": pool, "write.metadata.path": f"{pool}/metadata"}
    catalog.create_namespace_if_not_exists("theirs")
    rows = pa.table({"id": pa.array(range(5), pa.int64())})
    table = catalog.create_table(f"theirs.{name}", rows.schema, properties=folders, location=location)
    table.append(rows)
    for _ in range(2):
        table.overwrite(rows)
    return table


def print_nothing(_: str) -> None:
    """Take a line of progress."""


def rows_of(remote: Remote, layer: str) -> list[str]:
    return sorted(map(str, remote.opened().rows(layer, "bank", "one")))
