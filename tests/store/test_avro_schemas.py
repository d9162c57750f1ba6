"""Manifests are read alike whether their schemas were parsed before or not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro import file as avro
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from dts_assets.store import avro_schemas
from dts_assets.store.catalog import LakeLocation, open_catalog

ROWS = pa.table({"day": pa.array([1, 1, 2], pa.int32()), "name": ["a", "b", "c"]})


@pytest.fixture
def catalog(lake_location: LakeLocation) -> Catalog:
    return open_catalog(lake_location)


def made(catalog: Catalog, name: str, *, parts: bool) -> Table:
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table(("shop", name), ROWS.schema)
    if parts:
        with table.update_spec() as update:
            update.add_identity("day")
    for _ in range(2):
        table.append(ROWS)
    return table


def entries(table: Table) -> list[ManifestEntry]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [one for manifest in snapshot.manifests(table.io) for one in manifest.fetch_manifest_entry(table.io)]


def told(table: Table) -> str:
    """All that manifests and manifest lists say, as text."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return json.dumps([_plain(snapshot.manifests(table.io)), _plain(entries(table))])


def _plain(value: Any) -> Any:
    """A record as the list of its values, a mapping as its pairs: some mappings do not show what they hold."""
    if isinstance(value, Record):
        return [_plain(one) for one in value._data]
    if isinstance(value, Mapping):
        return sorted(map(_plain, value.items()))
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else repr(value)


_IN_PYICEBERG_ALONE = """
import sys
from pyiceberg.table import StaticTable
from tests.store.test_avro_schemas import told
from pyiceberg.avro import file
assert type(file.resolve_reader).__name__ == "function"
print(told(StaticTable.from_metadata(sys.argv[1])))
"""


@pytest.mark.more
@pytest.mark.parametrize("parts", [False, True])
def test_entries_are_those_that_pyiceberg_reads_alone(catalog: Catalog, parts: bool) -> None:
    table = made(catalog, "orders", parts=parts)
    assert len(entries(table)) == (4 if parts else 2)
    command = [sys.executable, "-W", "ignore", "-c", _IN_PYICEBERG_ALONE, table.metadata_location]
    house = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=house, capture_output=True, text=True, check=True)
    first, second = told(table), told(table)
    assert [first, second] == [done.stdout.strip()] * 2


def test_each_schema_is_parsed_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog, "orders", parts=True)
    entries(table)
    monkeypatch.setattr("pyiceberg.utils.schema_conversion.AvroSchemaConversion.avro_to_iceberg", lambda *_: None)
    assert len(entries(table)) == 4


def test_tables_of_other_partitions_are_read_with_their_own_schemas(catalog: Catalog) -> None:
    tables = [made(catalog, name, parts=parts) for name, parts in (("one", False), ("two", True), ("three", False))]
    for _ in range(2):
        assert [{len(one.data_file.partition) for one in entries(table)} for table in tables] == [{0}, {1}, {0}]


def test_threads_read_alike(catalog: Catalog) -> None:
    tables = [made(catalog, f"t{number}", parts=number % 2 == 0) for number in range(4)]
    alone = [told(table) for table in tables]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(told, tables * 10)) == alone * 10


def test_what_is_kept_has_a_bound(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_schemas, "_KEPT", 1)
    readers = avro_schemas._Readers(resolve_reader)
    monkeypatch.setattr(avro, "resolve_reader", readers)
    tables = [made(catalog, name, parts=parts) for name, parts in (("one", False), ("two", True))]
    for _ in range(2):
        assert [len(entries(table)) for table in tables] == [2, 4]
    assert len(readers._known) == 1


def test_it_is_arranged_once(catalog: Catalog) -> None:
    def arranged() -> list[object]:
        return [getattr(avro, name) for name in avro_schemas._READERS] + [AvroFileHeader.get_schema]

    before = arranged()
    avro_schemas.parse_schemas_once()
    assert arranged() == before
