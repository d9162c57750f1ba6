"""Lake tables by asset key: names, creation by several at once, widening, and what old rows then say."""

from __future__ import annotations

import inspect
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.serializers import FromInputFile
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.columns import changelog_columns, snapshot_columns
from dts_assets.store.commit import replace
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, read_batches
from dts_assets.store.iceberg_tables import ensure_table, evolve, spark_name, table_identifier
from dts_assets.store.schemas import (
    SOURCE_TABLE_PROPERTY,
    SYSTEM_TABLES,
    TableLayout,
    changelog_layout,
    snapshot_layout,
)
from dts_assets.store.types import FIELD_ID, arrow_schema, iceberg_schema, iceberg_type, lake_type
from dts_assets.store.write_targets import write_target

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from tests.store.conftest import Cells

ORDERS = (Column("id", "int", True), Column("total", "decimal(10,2)", False))
TABLE = TableId("shopdb", "", "orders")
PATH = ("shop", "changelog", *TABLE.path)


def test_each_table_of_a_new_catalog_may_be_made_by_another_process_first(
    lake_location: LakeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(SqlCatalogBaseTable.metadata.sorted_tables)
    assert len(left) == 2

    def create(catalog: SqlCatalog) -> None:
        table = left.pop()
        table.create(catalog.engine)  # the other process
        table.create(catalog.engine)

    monkeypatch.setattr(SqlCatalog, "create_tables", create)
    assert not open_catalog(lake_location).list_namespaces()
    assert not left


class TestMetadata:
    def test_a_metadata_file_is_read_once(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []
        whole = FromInputFile.table_metadata

        def counted(file: Any) -> Any:
            read.append(file.location)
            return whole(file)

        monkeypatch.setattr(FromInputFile, "table_metadata", counted)
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "one"))
        for _ in range(5):
            table = cells.catalog.load_table(cells.identifier)
        # Another test's run may still keep its lease, so only files of this table count.
        own = [one for one in read if one.startswith(f"{table.location()}/")]
        assert len(own) == len(set(own)) <= 3
        assert list(inspect.signature(SqlCatalog._convert_orm_to_iceberg).parameters) == ["self", "orm_table"]
        assert table.name() == cells.identifier

    def test_a_table_is_found_as_pyiceberg_finds_it(self, cells: Cells) -> None:
        catalog = cells.catalog
        assert isinstance(catalog, SqlCatalog)
        replace(catalog, cells.identifier, {}, cells.write([(0, 0)], "one"))
        mine, theirs = catalog.load_table(cells.identifier), SqlCatalog.load_table(catalog, cells.identifier)
        assert mine == theirs
        assert mine.metadata_location == theirs.metadata_location
        for load in (catalog.load_table, partial(SqlCatalog.load_table, catalog)):
            for wrong in ((*cells.identifier[:-1], "nothing"), ("nobody", cells.identifier[-1]), "a.b.c"):
                with pytest.raises(NoSuchTableError):
                    load(wrong)
        # Other engines keep views in the same table of the catalog.
        with catalog.engine.begin() as connection:
            connection.execute(text("UPDATE iceberg_tables SET iceberg_type = 'VIEW'"))
        for load in (catalog.load_table, partial(SqlCatalog.load_table, catalog)):
            with pytest.raises(NoSuchTableError):
                load(cells.identifier)

    def test_commits_change_nothing_that_was_loaded_and_are_seen_by_all(
        self, cells: Cells, lake_location: LakeLocation
    ) -> None:
        other = open_catalog(lake_location)
        for number in range(4):
            before = cells.catalog.load_table(cells.identifier)
            told = before.metadata.model_dump_json()
            writer = (cells.catalog, other)[number % 2]
            done = replace(writer, cells.identifier, {}, cells.write([(0, 0)], f"g{number}"))
            with writer.load_table(cells.identifier).transaction() as change:
                change.set_properties({"number": str(number)})
            assert before.metadata.model_dump_json() == told
            for catalog in (cells.catalog, other):
                table = catalog.load_table(cells.identifier)
                head = table.current_snapshot()
                assert head is not None
                assert (head.snapshot_id, table.properties["number"]) == (done.snapshot_id, str(number))
            assert before.refresh().properties["number"] == str(number)


class TestNames:
    def test_an_asset_key_is_an_identifier(self) -> None:
        assert table_identifier(PATH) == PATH
        assert spark_name(PATH) == "lake.`shop`.`changelog`.`shopdb`.`orders`"

    @given(*[st.tuples(*[st.text("a%~./2E7订", min_size=0, max_size=6)] * 2)] * 2)
    @example(("a.b", "t"), ("a~2Eb", "t"))
    @example(("%", "~"), ("~", "%"))
    def test_names_in_urls_have_no_percent_and_are_unique(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """The path of a request may have no ``%25``: servers take it for an attack."""
        paths = [("shop", *TableId(database, "", table).path) for database, table in (one, other)]
        found = [table_identifier(path, in_urls=True) for path in paths]
        assert not any("%" in part for name in found for part in name)
        assert (found[0] == found[1]) == (paths[0] == paths[1])
        assert table_identifier(("shop", "a%2Eb", "c~d"), in_urls=True) == ("shop", "a~2Eb", "c~7Ed")

    def test_one_namespace_level_joins_the_rest(self) -> None:
        assert table_identifier(PATH, joined=True) == ("shop", "changelog__shopdb__orders")
        assert table_identifier(("shop", "windows"), joined=True) == ("shop", "windows")

    @given(*[st.lists(st.text("abxAE_%~订0", min_size=1, max_size=5), min_size=1, max_size=4)] * 2)
    @example(["a__b", "c"], ["a", "b__c"])
    @example(["a_", "b"], ["a", "_b"])
    @example(["Orders"], ["orders"])
    @example(["a_x41_"], ["aA"])
    @example(["x" * 300], ["x" * 299 + "y"])
    def test_joined_names_are_lower_case_and_never_shared(self, one: list[str], other: list[str]) -> None:
        found = [table_identifier(("shop", *path), joined=True) for path in (one, other)]
        assert (found[0] == found[1]) == (one == other)
        assert all(re.fullmatch(r"[a-z0-9_]{1,255}", name) for _, name in found)

    def test_joined_names_by_example(self) -> None:
        path = ("shop", "changelog", *TableId("shopdb", "", "Order_lines").path)
        assert table_identifier(path, joined=True) == ("shop", "changelog__shopdb___x4f_rder_lines")

    @pytest.mark.parametrize(("kind", "joined"), [("sqlite", False), ("rest", False), ("hive", True), ("glue", True)])
    def test_the_catalog_decides_about_joining(self, kind: str, joined: bool) -> None:
        assert LakeLocation("/lake", {"type": kind}).joins_names is joined

    @pytest.mark.parametrize("name", ["a.b", "数据 库", "x%y", "q`t", "Tab-1_z", "a/b", "", "订" * 64, "x" * 300])
    def test_odd_names_are_tables_all_the_same(self, catalog: Catalog, name: str) -> None:
        path = ("shop", "snapshot", *TableId(name, "", "t" + name).path)
        layout = snapshot_layout(TableId(name, "", "t" + name), ORDERS)
        made = ensure_table(catalog, path, layout)
        assert json.loads(made.properties[SOURCE_TABLE_PROPERTY]) == [name, "", "t" + name]
        with TableWriter(_target(catalog, path)) as writer:
            writer.write(pa.RecordBatch.from_pylist([{"id": 1}]))
            replace(catalog, path, {}, writer.close())
        assert catalog.load_table(path).scan().to_arrow()["id"].to_pylist() == [1]
        assert all(sign not in made.location().removeprefix("file://") for sign in "%#? `")


class TestTypes:
    @pytest.mark.parametrize("layout", SYSTEM_TABLES.values(), ids=SYSTEM_TABLES)
    def test_text_and_iceberg_say_the_same(self, layout: TableLayout) -> None:
        columns = [(field.name, lake_type(field.field_type)) for field in layout.schema.fields]
        assert iceberg_schema(columns) == layout.schema

    def test_every_column_of_a_declared_table_has_an_id_of_its_own(self) -> None:
        for layout in SYSTEM_TABLES.values():
            ids = [field.metadata[FIELD_ID] for field in arrow_schema(layout.schema)]
            assert len(set(ids)) == len(ids)

    @pytest.mark.parametrize("text", ["tinyint", "array<int", "struct<a>", "int int", "decimal(x)", ""])
    def test_what_is_no_type_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"type|expected"):
            iceberg_type(text)

    def test_a_reserved_source_column_is_renamed_and_the_table_says_so(self) -> None:
        layout = snapshot_layout(TABLE, (Column("_op", "string", False), Column("_Operation", "int", False)))
        assert [field.name for field in layout.schema.fields][:2] == ["_source__op", "_Operation"]
        assert "_op" in str(layout.schema.fields[0].doc)
        assert layout.schema.fields[1].doc is None


class TestCreation:
    def test_several_creators_get_one_table(self, lake_location: LakeLocation) -> None:
        layout = SYSTEM_TABLES["entries"]

        def create(_: int) -> str:
            catalog = open_catalog(lake_location)
            made = ensure_table(catalog, ("shop", "entries"), layout)
            return str(made.metadata.table_uuid)

        with ThreadPoolExecutor(6) as pool:
            assert len(set(pool.map(create, range(6)))) == 1

    @pytest.mark.parametrize("said", ["database is locked", "disk I/O error"])
    def test_a_catalog_that_is_locked_for_a_moment_is_asked_again(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, said: str
    ) -> None:
        """SQLite refuses one of two readers that both want to write, without waiting."""
        create, tries = catalog.create_namespace, list[int]()

        def refused(*arguments: Any, **named: Any) -> None:
            tries.append(1)
            if len(tries) < 4:
                raise OperationalError("INSERT", None, Exception(said))
            create(*arguments, **named)

        monkeypatch.setattr(catalog, "create_namespace", refused)
        layout = SYSTEM_TABLES["entries"]
        if "locked" in said:
            ensure_table(catalog, ("shop", "entries"), layout)
            assert len(tries) == 4
        else:
            with pytest.raises(OperationalError, match=said):
                ensure_table(catalog, ("shop", "entries"), layout)

    def test_the_folder_reads_like_the_asset(self, catalog: Catalog, lake_location: LakeLocation) -> None:
        layout = changelog_layout(TABLE, ORDERS)
        table = ensure_table(catalog, PATH, layout)
        assert table.location() == f"{lake_location.warehouse_uri}/shop/changelog/shopdb/orders"
        assert [field.name for field in table.spec().fields] == ["window_start"]
        assert table.metadata.format_version == 2


class TestWidening:
    def test_new_columns_and_wider_types_keep_old_rows(self, catalog: Catalog, cells: Cells) -> None:
        layout = changelog_layout(TABLE, ORDERS)
        ensure_table(catalog, PATH, layout)
        old_target = _target(catalog, PATH)
        _write(catalog, old_target, cells, 0, {"id": 1, "total": None})
        wider = (Column("id", "bigint", True), Column("total", "decimal(12,2)", False), Column("note", "string", False))
        schema = evolve(catalog, PATH, changelog_columns(wider))
        assert [child.name for child in schema.field("after").type] == ["id", "total", "note"]
        assert schema.field("after").type.field("id").type == pa.int64()
        _write(catalog, _target(catalog, PATH), cells, 1, {"id": 2**40, "total": None, "note": "x"})
        _write(catalog, old_target, cells, 2, {"id": 3, "total": None})  # planned before the change, committed after it
        rows = catalog.load_table(PATH).scan().to_arrow()["after"].to_pylist()
        assert sorted((row["id"], row["note"]) for row in rows) == [(1, None), (3, None), (2**40, "x")]

    def test_nothing_new_is_no_new_schema(self, catalog: Catalog) -> None:
        layout = snapshot_layout(TABLE, ORDERS)
        table = ensure_table(catalog, PATH, layout)
        assert evolve(catalog, PATH, snapshot_columns(ORDERS)).equals(arrow_schema(table.schema()), check_metadata=True)
        evolve(catalog, PATH, snapshot_columns((Column("id", "bigint", True), ORDERS[1])))
        evolve(catalog, PATH, snapshot_columns(ORDERS))  # an older writer: the wider type stays
        after = catalog.load_table(PATH)
        assert len(after.metadata.schemas) == 2
        assert lake_type(after.schema().find_type("id")) == "bigint"

    def test_a_respelled_column_stays_one_with_its_rows(self, catalog: Catalog, cells: Cells) -> None:
        ensure_table(catalog, PATH, changelog_layout(TABLE, ORDERS))
        old_target = _target(catalog, PATH)
        _write(catalog, old_target, cells, 0, {"id": 1, "total": None})
        respelled = (Column("ID", "bigint", True, ("id", "ID")), ORDERS[1])
        schema = evolve(catalog, PATH, changelog_columns(respelled))
        assert [child.name for child in schema.field("after").type] == ["ID", "total"]
        (old,) = [file.file.file_path for file in catalog.load_table(PATH).scan().plan_files()]
        (batch,) = read_batches(FileStore(), [old], schema.names)
        assert cast_to_schema(batch, schema, "t")["after"].to_pylist() == [{"ID": 1, "total": None}], (
            "as compaction does"
        )
        _write(catalog, _target(catalog, PATH), cells, 1, {"ID": 2**40, "total": None})
        rows = catalog.load_table(PATH).scan().to_arrow()["after"].to_pylist()
        assert sorted(row["ID"] for row in rows) == [1, 2**40]

    def test_types_without_a_common_one_are_refused(self, catalog: Catalog) -> None:
        layout = snapshot_layout(TABLE, ORDERS)
        ensure_table(catalog, PATH, layout)
        with pytest.raises(LakeTableError, match="column id is int and cannot become string"):
            evolve(catalog, PATH, snapshot_columns((Column("id", "string", True),)))

    def test_several_wideners_all_succeed(self, lake_location: LakeLocation, catalog: Catalog) -> None:
        layout = snapshot_layout(TABLE, ORDERS)
        ensure_table(catalog, PATH, layout)

        def widen(number: int) -> None:
            evolve(open_catalog(lake_location), PATH, snapshot_columns((Column(f"c{number}", "string", False),)))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(widen, range(4)))
        assert {f"c{number}" for number in range(4)} <= {
            field.name for field in catalog.load_table(PATH).schema().fields
        }


def _target(catalog: Catalog, path: tuple[str, ...]) -> WriteTarget:
    return write_target(catalog.load_table(path), "run")


def _write(catalog: Catalog, target: WriteTarget, cells: Cells, window: int, after: dict[str, object]) -> None:
    with TableWriter(target) as writer:
        writer.write(
            pa.RecordBatch.from_pylist([{"op": "insert", "after": after, "window_start": cells.window(window)}])
        )
        replace(catalog, PATH, {"window_start": {cells.window(window)}}, writer.close())
