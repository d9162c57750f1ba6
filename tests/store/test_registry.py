"""The table registry: readable by people and by the standard library alone, merged by several at once."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry, read_registry, read_registry_of

ID = RegisteredColumn("id", "int(11)", "int", True)
NAME = RegisteredColumn("名", "varchar(20)", "string", False)
ORDERS = RegisteredTable(TableId("shopdb", "", "orders"), (ID, NAME))
ODD = RegisteredTable(TableId("shop.db", "", "a%b"), (NAME,))
ORACLE = RegisteredTable(TableId("", "SCOTT", "EMP"), (ID,))
LONG = RegisteredTable(TableId("db", "", "订" * 64), (ID,))
NAMELESS = RegisteredTable(TableId("", "", ""), (ID,))
POSTGRES = RegisteredTable(TableId("db", "public", "t"), ())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry" / "shop.json"


def test_no_file_is_no_table(path: Path) -> None:
    assert read_registry(path) == {}


def test_every_kind_of_name_comes_back(path: Path) -> None:
    tables = [ORDERS, ODD, ORACLE, POSTGRES, LONG, NAMELESS]
    made = merge_registry(path, tables)
    assert read_registry(path) == made == {one.table: one for one in tables}
    assert list(made) == sorted(made)
    assert made[ORDERS.table].columns[0].column == Column("id", "int", True)


def test_the_file_is_for_people(path: Path) -> None:
    merge_registry(path, [ORDERS, ODD])
    document = json.loads(path.read_text())
    assert document["version"] == 1
    assert list(document["tables"]) == ["shop%2Edb.a%25b", "shopdb.orders"]
    assert document["tables"]["shopdb.orders"]["path"] == ["shopdb", "orders"]
    assert document["tables"]["shopdb.orders"]["columns"][1] == {
        "name": "名", "original_type": "varchar(20)", "type": "string", "is_key": False,
    }  # fmt: skip
    assert (
        '        {"name": "名", "original_type": "varchar(20)", "type": "string", "is_key": false}\n'
        in path.read_text()
    )


def test_a_path_alone_does_not_name_a_table(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"version": 1, "tables": {"shop%2Edb.t": {"path": ["shop%2Edb", "t"], "columns": []}}}')
    with pytest.raises(LakeTableError, match="no table registry"):
        read_registry(path)


def test_a_respelled_column_stays_one(path: Path) -> None:
    merge_registry(path, [ORDERS])
    respelled = RegisteredColumn("ID", "int(11)", "int", True, ("id", "ID"))
    made = merge_registry(path, [RegisteredTable(ORDERS.table, (respelled,))])
    assert made[ORDERS.table].columns == (respelled, NAME)
    assert read_registry(path) == made
    assert '"spellings": ["id", "ID"]' in path.read_text()
    wider = RegisteredColumn(
        "id", "bigint(20)", "bigint", True
    )  # of a process that has not heard of the other spelling
    merge_registry(path, [RegisteredTable(ORDERS.table, (wider,))])
    found = read_registry(path)[ORDERS.table].columns
    assert found == (RegisteredColumn("ID", "bigint(20)", "bigint", True, ("id", "ID")), NAME)


def test_merging_adds_and_widens_and_never_drops(path: Path) -> None:
    merge_registry(path, [ORDERS])
    wider = RegisteredColumn("id", "bigint(20)", "bigint", True)
    note = RegisteredColumn("note", "text", "string", False)
    merge_registry(path, [RegisteredTable(ORDERS.table, (note, wider))])
    assert read_registry(path)[ORDERS.table].columns == (wider, NAME, note)


def test_sources_come_back_and_grow(path: Path) -> None:
    """A table without any is its own source, as one that was there before somebody merged shards into it."""
    orders, one, other = (TableId("shop", "", name) for name in ("orders", "orders_1", "orders_2"))
    merge_registry(path, [RegisteredTable(orders, (), sources=(other,))])
    assert read_registry(path)[orders].sources == (other,)
    merge_registry(path, [RegisteredTable(orders, (), sources=(one, other))])
    assert read_registry(path)[orders].sources == (one, other)
    merge_registry(path, [RegisteredTable(orders, ())])
    assert read_registry(path)[orders].sources == (orders, one, other)


def test_nothing_new_leaves_the_file_alone(path: Path) -> None:
    merge_registry(path, [ORDERS])
    before = path.stat()
    merge_registry(path, [ORDERS])
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_is_of_the_lake_that_it_names(path: Path) -> None:
    assert read_registry_of(path, "one") is None
    merge_registry(path, [ORDERS], lake="one")
    assert read_registry_of(path, "one") == read_registry(path) == {ORDERS.table: ORDERS}
    assert read_registry_of(path, "two") is None
    merge_registry(path, [ODD], lake="one")
    assert list(read_registry(path)) == [ODD.table, ORDERS.table]


def test_the_tables_of_another_lake_are_replaced_even_by_none(path: Path) -> None:
    merge_registry(path, [ORDERS], lake="one")
    assert merge_registry(path, [ODD], lake="two") == {ODD.table: ODD}
    assert merge_registry(path, [], lake="three") == {}
    assert read_registry_of(path, "three") == {}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_must_not_be_written_is_one_sentence(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(LakeTableError, match=r"cannot be written.*set DAGSTER_HOME"):
        merge_registry(path, [ORDERS])


def test_a_disk_that_is_full_may_have_room_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OSError, match="No space left"):
        merge_registry(path, [ORDERS])


def test_several_writers_lose_nothing(path: Path) -> None:
    tables = [RegisteredTable(TableId("db", "", f"t{number:02d}"), (ID,)) for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: merge_registry(path, [one]), tables))
    assert list(read_registry(path).values()) == tables
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".json"] == ["shop.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "tables": {"a": {"path": [], "columns": []}}}']
)
def test_what_is_no_registry_is_refused_with_the_way_out(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(LakeTableError, match=r"is damaged.*dts-assets run"):
        read_registry(path)


def test_a_file_of_bytes_that_are_no_text_is_refused_with_the_way_out(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"version": 1, "tables": {"\xff\xfe\xfa": 1}}')
    with pytest.raises(LakeTableError, match=r"is damaged.*dts-assets run"):
        read_registry(path)


def test_another_version_is_named_with_the_way_out(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"version": 2, "tables": {}}')
    with pytest.raises(LakeTableError, match=r"version 2.*remove it"):
        read_registry(path)


def test_reading_needs_no_engine() -> None:
    program = (
        "import sys, dts_assets.store.registry, dts_assets.store.columns;"
        "print([name for name in ('pyarrow', 'pyiceberg', 'pyspark', 'numpy') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert shown.stdout.strip() == "[]"
