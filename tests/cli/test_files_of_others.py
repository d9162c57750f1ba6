"""Commands that remove files remove those of this project's runs, and none that another table has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table

from dts_assets.cli.main import cli
from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings.load import load_settings
from dts_assets.store import expiry
from dts_assets.store.table_files import named_places
from dts_assets.store.table_folders import place_of
from tests.cli.test_maintain import CONFIGURATION
from tests.flows.harness import Harness
from tests.flows.short import items, three_windows
from tests.flows.source import write_capture

pytestmark = pytest.mark.more

ROWS = pa.table({"id": pa.array(range(5), pa.int64())})
SNAPSHOT = ("shop", "snapshot", "bank", "items")
CHANGELOG = ("shop", "changelog", "bank", "items")


class Shared:
    """A lake of ours, with its catalog as another program opens it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_capture(folder / "capture", three_windows(items()).messages)
        (folder / "pipeline.yaml").write_text(CONFIGURATION.replace("expire_after: 1s", "expire_after: 0s"))
        self.harness = Harness(open_pipeline(load_settings(folder / "pipeline.yaml"), "shop"), this_process())
        for number in range(3):
            self.harness.all(number)
        self.catalog = self.of_another_program("lake")

    def of_another_program(self, name: str) -> Catalog:
        lake = self.folder / "lake"
        return SqlCatalog(name, uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")

    def ours(self, path: tuple[str, ...]) -> Table:
        return self.catalog.load_table(path)

    def give(self, path: tuple[str, ...], **properties: str) -> None:
        with self.ours(path).transaction() as transaction:
            transaction.set_properties({name.replace("_", "."): value for name, value in properties.items()})

    def theirs(self, catalog: Catalog | None = None, **properties: str) -> Table:
        """A table of another program with a row set in each of three versions, the first two of which only versions hold."""
        catalog = catalog or self.catalog
        catalog.create_namespace_if_not_exists("theirs")
        table = catalog.create_table(
            "theirs.numbers", ROWS.schema, properties={name.replace("_", "."): one for name, one in properties.items()}
        )
        table.append(ROWS)
        for _ in range(2):
            table.overwrite(ROWS)
        return table

    def called(self, *arguments: str) -> Result:
        done = CliRunner().invoke(
            cli, [*arguments, "--config", str(self.folder / "pipeline.yaml")], env={"COLUMNS": "200"}
        )
        assert done.exit_code == 0, done.output
        return done

    def age(self) -> None:
        """Let all files of the lake be old, so that no lease and no age protects one of them."""
        for one in (self.folder / "lake").rglob("*"):
            if one.is_file() and one.name != "catalog.db":
                os.utime(one, times=(0, 0))

    def maintain(self) -> str:
        self.age()
        return self.called("maintain", "shop").output

    def left(self) -> int:
        """Return how many files the search for orphans leaves."""
        self.age()
        count: int = json.loads(self.called("maintain", "shop", "--only", "orphans", "--json").stdout)["left"]
        return count

    def whole(self, table: Table) -> None:
        """Every version of a table can be read, and every file of its metadata is there."""
        for one in table.metadata.snapshots:
            table.scan(snapshot_id=one.snapshot_id).to_arrow()
        assert [one for one in named_places(table) if not Path(one).exists()] == []


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def test_tables_that_share_folders_keep_their_files(shared: Shared) -> None:
    place = f"file://{shared.folder}/lake/pool"
    both: Any = {"write_data_path": place, "write_metadata_path": f"{place}/metadata"}
    for path in (CHANGELOG, SNAPSHOT, ("shop", "entries"), ("shop", "cuts")):
        shared.give(path, **both)
    theirs = shared.theirs(**both)
    foreign = shared.theirs(shared.of_another_program("elsewhere"), **both)
    rows = shared.harness.everything()
    shared.maintain()
    shared.whole(theirs)
    shared.whole(foreign)
    shared.harness.pipeline.lake.replace(
        SNAPSHOT,
        {},
        (),
        properties={"a": "b"},
        keep=lambda _: True,  # its metadata come into the pool
    )
    shared.maintain()
    for one in maintained_paths(shared.harness.pipeline):
        table = shared.harness.pipeline.lake.table(one)
        if table is not None:
            shared.whole(table)
    assert shared.harness.everything() == rows
    before, lost = shared.left(), Path(place_of(place)) / "not-committed-yet.parquet"
    lost.write_bytes(b"theirs, in no catalog that we know")
    assert shared.left() == before + 4, "each of the four says so"
    assert lost.exists()


def test_files_that_another_program_put_below_our_location_stay(shared: Shared) -> None:
    root = Path(place_of(shared.ours(CHANGELOG).location()))
    foreign = [root / "data" / "00000-1-5c7f4dd2-62f6-4dd6-9c1a-5ae5cd4c7f5e.parquet", root / "metadata" / "notes.avro"]
    ours = root / "data" / "killed" / f"0-{'a' * 32}.parquet"
    for one in (*foreign, ours):
        one.parent.mkdir(exist_ok=True)
        one.write_bytes(b"x")
    said = shared.maintain()
    assert [one.exists() for one in (*foreign, ours)] == [True, True, False]
    assert "2 files stay that no version of it holds" in said
    assert "2 files stay that no version of it holds" in shared.maintain()


def test_a_table_that_cannot_be_read_is_named_once_by_a_step_and_read_once(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, read = shared.theirs(), list[str]()
    Path(place_of(theirs.metadata.snapshots[-1].manifest_list)).unlink()
    for path in (CHANGELOG, SNAPSHOT, ("shop", "cuts")):
        lost = Path(place_of(shared.ours(path).location())) / "data" / "killed" / f"0-{'a' * 32}.parquet"
        lost.parent.mkdir()
        lost.write_bytes(b"x")

    def noted(table: Table) -> set[str]:
        read.append(".".join(table.name()))
        return named_places(table)

    monkeypatch.setattr("dts_assets.store.other_tables.named_places", noted)
    shared.age()
    for only, times in (("expiry", 1), ("orphans", 1)):
        read.clear()
        done = CliRunner().invoke(
            cli, ["maintain", "shop", "--only", only, "--config", str(shared.folder / "pipeline.yaml")]
        )
        assert done.output.count("theirs.numbers") == times, done.output
        assert read == ["theirs.numbers"]
    assert "and 2 tables more: The lake table theirs.numbers" in done.output
    assert done.exit_code == 1


def test_other_tables_are_read_once_however_many_windows_come(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that has changed is read again, so that what it borrows between two runs stays."""
    for name, value in (("KEEP_FOR", timedelta(0)), ("KEEP_SNAPSHOTS", 1), ("AT_ONCE", 1)):
        monkeypatch.setattr(expiry, name, value)
    shared.theirs()
    opened, real = list[str](), PyArrowFile.open

    def noted(file: PyArrowFile, seekable: bool = True) -> Any:
        opened.append(file.location)
        return real(file, seekable)

    monkeypatch.setattr(PyArrowFile, "open", noted)

    def read_by_a_run() -> list[str]:
        opened.clear()
        shared.harness.all(0, 1, 2)
        return [one for one in opened if "/theirs/numbers/" in one]

    assert read_by_a_run() != []
    assert [read_by_a_run() for _ in range(3)] == [[], [], []]
    borrows = shared.catalog.create_table("theirs.copy", shared.ours(CHANGELOG).schema())
    shared.harness.all(0, 1, 2)  # now it has been read
    files = [one.file.file_path for one in shared.ours(CHANGELOG).scan().plan_files()]
    borrows.add_files(files)
    rows = borrows.scan().to_arrow()
    shared.harness.all(0, 1, 2)
    shared.harness.all(0, 1, 2)
    assert named_places(shared.ours(CHANGELOG)).isdisjoint(map(place_of, files)), "nobody else holds them any more"
    assert rows.num_rows
    assert shared.catalog.load_table("theirs.copy").scan().to_arrow().equals(rows)


@pytest.mark.parametrize("command", [("maintain", "shop"), ("tables", "remove", "bank.items")])
def test_files_that_another_table_borrowed_stay(shared: Shared, command: tuple[str, ...]) -> None:
    ours = shared.ours(SNAPSHOT)
    borrowed = [one.file.file_path for one in ours.scan().plan_files()]
    assert borrowed
    shared.catalog.create_namespace_if_not_exists("theirs")
    theirs = shared.catalog.create_table("theirs.copy", ours.schema())
    theirs.add_files(borrowed)
    rows = theirs.scan().to_arrow()
    # Another version, of which the borrowed files are no part, so that the expiry has something to remove.
    shared.harness.pipeline.lake.replace(SNAPSHOT, {}, (), properties={"a": "b"})
    shared.age()
    shared.called(*command)
    shared.called(*command)
    assert theirs.scan().to_arrow().equals(rows)
    assert [one for one in borrowed if not Path(place_of(one)).exists()] == []


def test_files_that_we_borrowed_stay_when_the_table_is_removed(shared: Shared) -> None:
    file, ours = shared.folder / "archive.parquet", shared.ours(SNAPSHOT)
    pq.write_table(ours.scan().to_arrow(), file)
    ours.add_files([f"file://{file}"])
    said = shared.called("tables", "remove", "bank.items").output
    assert file.exists()
    assert "1 file stays that no version of it holds" in said
    root = Path(place_of(ours.location()))
    assert [one for one in root.rglob("*") if one.is_file() and one.suffix in (".parquet", ".avro")] == []


def test_a_table_that_is_registered_twice_keeps_its_files(shared: Shared) -> None:
    ours = shared.ours(SNAPSHOT)
    shared.catalog.create_namespace_if_not_exists("theirs")
    twice = shared.catalog.register_table("theirs.twice", ours.metadata_location)
    shared.harness.pipeline.lake.replace(SNAPSHOT, {}, ())
    shared.maintain()
    shared.whole(twice)
    shared.called("tables", "remove", "bank.items")
    shared.whole(twice)


def test_a_lake_in_the_same_folders_with_another_catalog_keeps_its_files(shared: Shared) -> None:
    """Its runs wrote files of the same kind at the same place, and only its metadata say that they are not ours."""
    lake = shared.folder / "lake"
    (lake / "catalog.db").rename(shared.folder / "first.db")
    SqlCatalog("lake", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")
    shared.harness.pipeline.lake._catalog = None
    again = Harness(open_pipeline(load_settings(shared.folder / "pipeline.yaml"), "shop"), this_process())
    for number in range(3):
        again.all(number)
    first = SqlCatalog("lake", uri=f"sqlite:///{shared.folder / 'first.db'}", warehouse=f"file://{lake}")
    assert first.load_table(SNAPSHOT).location() == again.pipeline.lake.catalog.load_table(SNAPSHOT).location()
    assert "files stay that no version of it holds" in shared.maintain()
    for path in (SNAPSHOT, CHANGELOG, ("shop", "entries"), ("shop", "cuts")):
        shared.whole(first.load_table(path))


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"damaged"), Path.unlink], ids=["damaged", "gone"])
def test_beside_a_table_that_cannot_be_read_nothing_goes_unless_it_is_left_out(
    damage: Callable[[Path], object], shared: Shared
) -> None:
    theirs = shared.theirs()
    snapshot = theirs.metadata.snapshots[-1]
    damage(Path(place_of(snapshot.manifest_list)))
    root = Path(place_of(shared.ours(CHANGELOG).location()))
    ours = root / "data" / "killed" / f"0-{'a' * 32}.parquet"
    ours.parent.mkdir()
    ours.write_bytes(b"x")
    shared.age()
    done = CliRunner().invoke(cli, ["maintain", "shop", "--config", str(shared.folder / "pipeline.yaml")])
    assert done.exit_code == 1
    assert "theirs.numbers" in done.output
    assert "maintenance.other_tables: near" in done.output
    assert ours.exists()
    here = {one for one in root.rglob("*") if one.is_file()}
    said = shared.called("tables", "remove", "bank.items").output
    assert "the changelog of bank.items was dropped" in said
    assert "files stay that no version of it holds" in said
    assert {one for one in root.rglob("*") if one.is_file()} == here
    shared.called("tables", "add", "bank.items")
    shared.harness.settle()
    shared.age()
    configured = shared.folder / "pipeline.yaml"
    configured.write_text(configured.read_text().replace("maintenance: {", "maintenance: {other_tables: near, "))
    shared.called("maintain", "shop")
    assert not ours.exists()
