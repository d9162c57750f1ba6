"""The lake as programs read it: the example of the page, each form of rows, and reasons where there are none."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from dts_assets.cli.main import cli
from dts_assets.errors import DtsAssetsError, LakeTableError, NothingFoundError
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.lake import Lake, LakeTables, open_lake
from dts_assets.model.tables import TableId
from dts_assets.store import files
from tests.shop_example import ROOT, shop_config, shop_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = TableId("shopdb", "", "orders")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = shop_config(tmp_path_factory.mktemp("lake"), "customers", "orders")
    harness = shop_of(file)
    for number in range(5):
        harness.all(number)
    return file


@pytest.fixture
def shop(config: Path) -> Lake:
    return open_lake("shop", config)


def rows_of(tables: LakeTables, name: str = "shopdb.orders") -> list[str]:
    return sorted(map(repr, tables[name].to_arrow().to_pylist()))


def stored_at(shop: Lake, tag: str) -> list[str]:
    table = shop.pipeline.lake.table(shop.pipeline.table_path("snapshot", ORDERS))
    assert table is not None
    return sorted(map(repr, table.scan().use_ref(tag).to_arrow().to_pylist()))


def test_the_example_of_the_page_runs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "as-of.md").read_text("utf-8"), re.M | re.S)
    found: dict[str, Any] = {}
    exec(code.replace("pipeline.yaml", str(config)), found)
    assert found["orders"].num_rows
    assert len(found["customers"])
    assert min(found["orders"]["total"].to_pylist()) >= 100
    said = capsys.readouterr().out
    assert "as of window 2026-01-05-03:00 reads 0 changes" in said, "a version stands at that cut"
    assert "2 tables" in said


def test_the_tag_of_a_window_is_what_the_lake_gives_for_it(shop: Lake) -> None:
    for hour in range(4):
        with shop.as_of(window=f"2026-01-05-0{hour}:00", tables=["shopdb.orders"]) as then:
            assert rows_of(then) == stored_at(shop, f"cut-2026-01-05-0{hour}:00")
            assert list(then) == ["shopdb.orders"]


def test_all_forms_of_rows_are_the_same_rows(shop: Lake) -> None:
    with shop.now() as present:
        orders = present["shopdb.orders"]
        whole = orders.to_arrow()
        assert orders.to_batches().read_all().sort_by("id").to_pylist() == whole.sort_by("id").to_pylist()
        some = orders.to_pandas(columns=("id", "total"), where="total >= 100")
        assert sorted(some["id"]) == sorted(
            row["id"] for row in whole.to_pylist() if row["total"] is not None and row["total"] >= 100
        )
        assert orders.iceberg.scan().count() == whole.num_rows


@pytest.mark.spark
def test_spark_reads_tables_of_a_moment(shop: Lake, spark: SparkSession) -> None:
    position = _position_within(shop, 3)
    with shop.as_of(position=position) as then, shop.now() as present:
        for tables in (then, present):
            frame = tables["shopdb.orders"].to_spark(spark)
            shown = [row.asDict() for row in frame.select("id", "status").collect()]
            wanted = tables["shopdb.orders"].to_arrow(columns=("id", "status")).to_pylist()
            assert sorted(map(repr, shown)) == sorted(map(repr, wanted))
        assert rows_of(then) != rows_of(present)


def _position_within(shop: Lake, hour: int) -> str:
    """A position in the middle of the changes of a window."""
    found = shop.pipeline.lake.scan(shop.pipeline.table_path("changelog", ORDERS))
    assert found is not None
    rows = [row for row in found.to_pylist() if row["window_start"].hour == hour]
    places = sorted(tuple(row["source_position"].values()) for row in rows)
    return ":".join(map(str, places[len(places) // 2]))


def test_what_a_moment_costs_is_said_without_a_row_being_read(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two versions: the changelog of one window. Without a version: all of it."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("a file was read")

    position = _position_within(shop, 3)
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_batches", read)
        patch.setattr("dts_assets.flows.snapshot_merges.run_tasks", read)
        plan = shop.plan(position=position)
        assert plan.where == f"as of {position}"
    changes = shop.pipeline.lake.data_files(shop.pipeline.table_path("changelog", ORDERS))
    of_hour = [one for one in changes if one.partition["window_start"].hour == 3]
    cost = plan.tables["shopdb.orders"]
    assert cost.begins_at == datetime(2026, 1, 5, 2, tzinfo=UTC)
    assert cost.version is not None
    assert (cost.files, cost.changes, cost.bytes) == (
        len(of_hour), sum(one.rows for one in of_hour), sum(one.bytes for one in of_hour),
    )  # fmt: skip
    assert plan.changes == sum(one.changes for one in plan.tables.values())
    assert plan.bytes == sum(one.bytes for one in plan.tables.values())
    monkeypatch.setattr("dts_assets.flows.moments._nearest_version", lambda *_: lambda _: None)
    whole = shop.plan(position=position, tables=["shopdb.orders"]).tables["shopdb.orders"]
    until = [one for one in changes if one.partition["window_start"].hour <= 3]
    assert whole.version is None
    assert whole.begins_at is None
    assert sum(one.rows for one in until) <= whole.changes <= sum(one.rows for one in changes)


def test_a_plan_is_made_into_its_tables(shop: Lake, tmp_path: Path) -> None:
    position = _position_within(shop, 2)
    plan = shop.plan(position=position, tables=["shopdb.orders"])
    made = shop.make(plan, folder=tmp_path / "mine")
    made.close()
    with shop.as_of(position=position, tables=[ORDERS]) as then:
        assert rows_of(then) == rows_of(made), "a folder of the caller's stays"
        folder = then.folder
        assert folder.exists()
    assert not folder.exists()


@pytest.mark.more
def test_a_kept_folder_says_that_its_files_have_left_the_lake_and_is_made_again(tmp_path: Path) -> None:
    more = "cut_tags: 0\n    maintenance: {expire_after: 0s, keep_versions: 1}"
    file = shop_config(tmp_path, "customers", "orders", more=more)
    harness, kept = shop_of(file), tmp_path / "kept"
    for number in range(3):
        harness.all(number)
    lake = open_lake("shop", file)
    made = lake.as_of(window="2026-01-05-02:00", tables=["shopdb.orders"], folder=kept)
    rows, reader = rows_of(made), made["shopdb.orders"].to_batches()
    for number in (3, 4):
        harness.all(number)
    done = CliRunner().invoke(cli, ["maintain", "shop", "--only", "expiry", "--config", str(file)])
    assert done.exit_code == 0, done.output
    for read in (made["shopdb.orders"].to_arrow, reader.read_all, lambda: made["shopdb.orders"].to_spark(None)):  # type: ignore[arg-type]
        with pytest.raises(LakeTableError, match="which has expired since"):
            read()
    again = open_lake("shop", file).as_of(window="2026-01-05-02:00", tables=["shopdb.orders"], folder=kept)
    assert rows_of(again) == rows


@pytest.mark.parametrize(
    ("moment", "error", "said"),
    [
        ({"window": "2026-01-06-02:00"}, NothingFoundError, "no window that starts at"),
        ({"gtid": "0-7-99999"}, NothingFoundError, "no entry of it was ever stored"),
        ({"position": "0:99:4"}, NothingFoundError, "everything up to window"),
        ({"time": datetime(2026, 1, 4, tzinfo=UTC)}, NothingFoundError, "was committed later"),
        ({"window": "0:4:1187"}, ValueError, "0:4:1187 is no window"),
        ({"gtid": datetime(2026, 1, 4, tzinfo=UTC)}, ValueError, "a datetime is no gtid"),
        ({"gtid": "0-1-4", "time": "2026-01-05T03:00"}, ValueError, "name one moment, not gtid and time"),
        ({"tables": ["shopdb.order"]}, NothingFoundError, "it has shopdb.customers, shopdb.orders"),
    ],
)
def test_what_is_refused_says_why(shop: Lake, moment: dict[str, Any], error: type[Exception], said: str) -> None:
    for call in (shop.plan, shop.as_of):
        with pytest.raises(error, match=re.escape(said)):
            call(**moment)


def test_times_and_windows_are_texts_or_instants(shop: Lake) -> None:
    at = datetime(2026, 1, 5, 2, tzinfo=UTC)
    assert shop.plan(window=at).where == shop.plan(window="2026-01-05-02:00").where
    half_past = at.replace(minute=30)
    assert shop.plan(time=half_past).where == shop.plan(time="2026-01-05T02:30").where
    assert shop.plan(time=half_past.replace(tzinfo=None)).where == shop.plan(time=half_past).where


def test_a_table_that_is_not_there_has_its_reason(shop: Lake) -> None:
    with shop.as_of(position="0:1:4") as early:
        assert len(early) == 0
        assert early.absent == ("shopdb.customers", "shopdb.orders")
        with pytest.raises(KeyError, match="was not there as of 0:1:4"):
            early["shopdb.orders"]
        assert "shopdb.orders" not in early
    paused_by_person(shop.pipeline, [ORDERS], reason="its key is being changed")
    try:
        with shop.now() as present:
            assert list(present) == ["shopdb.customers"]
            with pytest.raises(KeyError, match="is left out: its key is being changed"):
                present["shopdb.orders"]
    finally:
        resume_tables(shop.pipeline, [ORDERS])
    with shop.now(tables=["shopdb.customers"]) as some, pytest.raises(KeyError, match="was not asked for"):
        some["shopdb.orders"]


def test_a_lake_that_is_not_there_yet_says_so(tmp_path: Path) -> None:
    file = shop_config(tmp_path, "customers", "orders")
    with pytest.raises(NothingFoundError, match="no window is complete yet"):
        open_lake("shop", file).now()
    with pytest.raises(NothingFoundError, match="there are shop"):
        open_lake("shopp", file)
    with pytest.raises(DtsAssetsError):
        open_lake("shop", tmp_path / "nothing.yaml")
