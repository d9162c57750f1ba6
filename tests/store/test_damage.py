"""Files that are damaged in any way are found and named, whoever reads them; whole ones never are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from dts_assets.errors import damage as errors
from dts_assets.errors.damage import DamagedCatalogError, DamagedFileError, FileOwner, MissingFileError
from dts_assets.errors.origins import Origin, origin_of
from dts_assets.store import catalog as catalogs
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.damage import damage_named, damage_of
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, read_batches
from dts_assets.store.iceberg_tables import table_identifier
from dts_assets.store.open_files import open_parquet
from dts_assets.store.types import FIELD_ID
from tests.flows.damaged import DAMAGES

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
ROWS = 3000


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = open_catalog(LakeLocation(str(tmp_path / "lake")))
    catalog.create_namespace(("shop", "snapshot", "shopdb"))
    location = f"{tmp_path}/lake/shop/snapshot/shopdb/orders"
    made = catalog.create_table(("shop", "snapshot", "shopdb", "orders"), SCHEMA, location)
    catalog.create_namespace_if_not_exists("shop")
    catalog.create_table(("shop", "entries"), SCHEMA, f"{tmp_path}/lake/shop/entries")
    for start in (0, ROWS):
        rows = {"id": list(range(start, start + ROWS)), "note": [f"note {number}" for number in range(ROWS)]}
        made.append(pa.table(rows, SCHEMA))
    return made


def files_of(table: Table) -> dict[str, Path]:
    """A file of each kind that the present version names."""
    head = table.current_snapshot()
    assert head is not None
    (manifest, *_) = head.manifests(table.io)
    (entry, *_) = manifest.fetch_manifest_entry(table.io)
    paths = {
        "metadata": table.metadata_location, "manifest list": head.manifest_list, "manifest": manifest.manifest_path,
        "rows": entry.data_file.file_path,
    }  # fmt: skip
    return {kind: Path(path.removeprefix("file://")) for kind, path in paths.items()}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest", "rows"])
def test_a_damaged_file_is_named_by_whoever_reads_the_table(table: Table, kind: str, damage: str) -> None:
    file = files_of(table)[kind]
    DAMAGES[damage](file)
    catalogs._metadata.cache_clear()
    catalogs._WRITTEN.clear()
    with pytest.raises(DamagedFileError) as caught:
        table.catalog.load_table(table.name()).scan().to_arrow()
    error = caught.value
    assert error.path.removeprefix("file://") == str(file)
    assert isinstance(error, MissingFileError) == isinstance(error, FileNotFoundError) == (damage == "gone")
    assert origin_of(error) is Origin.TABLE
    assert ("tables rebuild shopdb.orders" in str(error)) == (kind == "rows")
    assert ("tables remove shopdb.orders" in str(error)) == (kind != "rows")


def test_whole_files_are_never_called_damaged(table: Table) -> None:
    for file in files_of(table).values():
        assert damage_of(load_file_io({}).new_input(str(file))) is None


@pytest.mark.more
@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest", "rows"])
def test_a_file_that_is_cut_anywhere_is_damaged(table: Table, kind: str) -> None:
    """pyiceberg takes a manifest that ends early for a shorter one, and reads behind its end."""
    file = files_of(table)[kind]
    content = file.read_bytes()
    places = {*range(0, len(content), max(1, len(content) // 60)), *range(len(content) - 20, len(content))}
    for place in places:
        file.write_bytes(content[:place])
        assert damage_of(load_file_io({}).new_input(str(file))) is not None, place


def test_a_file_with_other_bytes_or_rows_than_its_manifest_says_is_damaged(table: Table) -> None:
    source = load_file_io({}).new_input(str(files_of(table)["rows"]))
    assert damage_of(source, size=len(source), rows=ROWS) is None
    for found in (damage_of(source, size=len(source) + 1), damage_of(source, rows=ROWS + 1)):
        assert isinstance(found, DamagedFileError)


def test_an_error_of_the_code_that_works_on_rows_is_no_damage(table: Table) -> None:
    source = load_file_io({}).new_input(str(files_of(table)["rows"]))
    with pytest.raises(KeyError), damage_named(source):
        raise KeyError("a fault of the code")


def test_a_store_that_does_not_answer_is_no_damage(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    source = load_file_io({}).new_input(str(files_of(table)["rows"]))

    def silent(*_: Any, **__: Any) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION")

    monkeypatch.setattr(type(source), "open", silent)
    with pytest.raises(OSError, match="NETWORK_CONNECTION"), damage_named(source):
        raise OSError("AWS Error NETWORK_CONNECTION")


def test_a_byte_that_flips_in_a_page_of_ours_is_found(tmp_path: Path) -> None:
    """Only checksums tell: the values are stored as they are."""
    schema = pa.schema([pa.field(one.name, one.type, metadata={FIELD_ID: str(n)}) for n, one in enumerate(SCHEMA, 1)])
    target = WriteTarget(f"{tmp_path}/shop/entries", schema.serialize().to_pybytes(), (), "run", distinct=("id",))
    with TableWriter(target, "one") as writer:
        writer.write(pa.RecordBatch.from_pydict({"id": list(range(ROWS)), "note": ["same"] * ROWS}, schema))
        (written,) = writer.close()
    file = Path(written.path)
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedFileError) as caught:
        list(read_batches(FileStore(), [str(file)], ["id", "note"]))
    assert origin_of(caught.value) is Origin.RUN
    assert "materialize shop/entries" in str(caught.value)


@pytest.mark.parametrize("damage", [*DAMAGES, "a letter"])
def test_a_damaged_or_lost_catalog_is_named_and_no_new_one_is_made(table: Table, tmp_path: Path, damage: str) -> None:
    lake = LakeLocation(str(tmp_path / "lake"))
    if damage == "a letter":
        lake.database.write_text("Dear reader,\n" * 99)
    else:
        DAMAGES[damage](lake.database)
    with pytest.raises(DamagedCatalogError) as caught:
        open_catalog(lake).load_table(table.name())
    assert str(lake.database) in str(caught.value)
    assert origin_of(caught.value) is Origin.RUN


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/lake/shop/snapshot/shopdb/orders/data/r/0.parquet", FileOwner("shop", "snapshot", "shopdb.orders", True)),
        ("s3://b/shop/history/hr/public/t/metadata/1.avro", FileOwner("shop", "history", "hr.public.t")),
        ("/lake/shop/entries/data/r/0.parquet", FileOwner("shop", "", "entries", True)),
        ("/lake/shop/snapshot/a/data/data/r/0.parquet", FileOwner("shop", "snapshot", "a.data", True)),
        ("/lake/shop/windows/metadata/0.metadata.json", FileOwner("shop", "", "windows")),
        ("/elsewhere/file", FileOwner()),
    ],
)
def test_the_owner_of_a_file_is_told_by_its_path(path: str, owner: FileOwner) -> None:
    assert FileOwner.of(path) == owner


@pytest.mark.parametrize(
    "key", [("shop", "entries"), ("shop", "snapshot", "bank", "one"), ("s", "history", "a%2Eb", "X_y__z", "%")]
)
def test_a_task_knows_a_table_by_its_name_in_any_catalog(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may place a table anywhere, and a task has not opened it."""
    monkeypatch.setattr(errors, "_TABLES", {})
    for number, (joined, in_urls) in enumerate([(False, False), (False, True), (True, False)]):
        file = tmp_path / str(number) / "1.parquet"
        file.parent.mkdir()
        file.write_bytes(b"none")
        name = ".".join(table_identifier(key, joined=joined, in_urls=in_urls))
        with pytest.raises(DamagedFileError) as caught, open_parquet(FileStore(name), str(file)):
            pass
        assert caught.value.owner == FileOwner._of_key(key, is_rows=True)
