"""The command ``as-of``: its files, and its sentences where it cannot write them."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.flows import moments
from dts_assets.flows.one_by_one import OneByOne
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from tests.flows.harness import Harness
from tests.shop_example import shop_config, shop_of

COUPONS, CUSTOMERS = (TableId("shopdb", "", name) for name in ("coupons", "customers"))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    made = shop_of(shop_config(tmp_path_factory.mktemp("as_of"), "customers", "coupons"))
    for number in range(5):
        made.all(number)
    return made


def call(harness: Harness, *arguments: str) -> Result:
    config = harness.pipeline.settings.folder / "pipeline.yaml"
    done = CliRunner().invoke(cli, ["as-of", *arguments, "--config", str(config)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def rows_of(folder: Path) -> list[str]:
    return sorted(map(repr, pq.read_table(folder).to_pylist()))


def stored(harness: Harness, table: TableId, hour: int) -> list[str]:
    """The rows of the version that a snapshot had behind the window of an hour."""
    found = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table))
    assert found is not None
    for version in reversed(found.snapshots()):
        assert version.summary is not None
        state = SnapshotState.of_text(version.summary.additional_properties[STATE_PROPERTY])
        if state.frontier.window is not None and state.frontier.window.hour <= hour:
            return sorted(map(repr, found.scan(snapshot_id=version.snapshot_id).to_arrow().to_pylist()))
    raise AssertionError(f"there is no version of {hour}:00")


@pytest.mark.more
def test_the_files_of_a_window_have_the_rows_that_the_snapshots_had_then(harness: Harness, tmp_path: Path) -> None:
    done = call(harness, "shop", "--window", "2026-01-05-02:00", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    assert {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet")} == {
        "shopdb.coupons/part-00000.parquet", "shopdb.customers/part-00000.parquet",
    }  # fmt: skip
    assert [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []
    for table in (COUPONS, CUSTOMERS):
        assert rows_of(tmp_path / "out" / str(table)) == stored(harness, table, 2)
    assert "shop as of window 2026-01-05-02:00" in done.stdout
    assert done.stdout.count("a stored version") == 2
    said = " ".join(done.stderr.split())
    assert re.search(
        r"shopdb\.customers begins from version \d+ of 2026-01-05 0[0-2]:00 UTC and reads 0 changes \(0 B\)", said
    )
    assert "all 2 tables as of window 2026-01-05-02:00: 0 changes (0 B) of changelogs to read" in said


@pytest.mark.more
def test_a_transaction_of_one_table(harness: Harness, tmp_path: Path) -> None:
    changes = [row for row in harness.rows("changelog", *CUSTOMERS.path) if row["window_start"].hour == 3]
    gtid = min(changes, key=lambda row: tuple(row["source_position"].values()))["transaction_id"]
    done = call(harness, "shop", "--gtid", gtid, "--table", "shopdb.customers", "--out", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shopdb.customers"]
    assert f"as of {gtid}, which ends at 0:" in " ".join(done.stdout.split())
    found = rows_of(tmp_path / "shopdb.customers")
    assert re.search(
        r"shopdb\.customers begins from version \d+ .* reads [1-9]\d* changes", " ".join(done.stderr.split())
    )
    assert found not in ([], stored(harness, CUSTOMERS, 2), stored(harness, CUSTOMERS, 3))


@pytest.mark.more
def test_a_table_that_is_not_there_yet_has_no_folder(harness: Harness, tmp_path: Path) -> None:
    done = call(harness, "shop", "--position", "0:1:4", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert "not there at that moment: shopdb.coupons, shopdb.customers" in done.stderr


def test_a_table_that_stands_still_is_named_and_left_out(harness: Harness, tmp_path: Path) -> None:
    paused_by_person(harness.pipeline, [CUSTOMERS], reason="its key is being changed")
    try:
        done = call(harness, "shop", "--window", "2026-01-05-02:00", "--out", str(tmp_path))
    finally:
        resume_tables(harness.pipeline, [CUSTOMERS])
    assert done.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["shopdb.coupons"]
    assert "stand still: shopdb.customers (its key is being changed)" in done.stderr


def test_a_table_that_was_not_proven_then_is_written_and_named(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "unproven_at", lambda *_: OneByOne({CUSTOMERS: "0:4:900: its rows are others"}))
    done = call(harness, "shop", "--window", "2026-01-05-02:00", "--out", str(tmp_path))
    assert done.exit_code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shopdb.coupons", "shopdb.customers"]
    assert "not proven at that moment: shopdb.customers (since 0:4:900: its rows are others)" in done.stderr


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("shop",), 2, "Name one moment: --gtid, --position, --time or --window."),
        (("shop", "--gtid", "0-1-5", "--window", "2026-01-05-02:00"), 2, "Name one moment"),
        (("shop", "--window", "0:4:1187"), 2, "0:4:1187 is no window"),
        (("shop", "--position", "last week"), 2, "last week is no moment"),
        (("shop", "--window", "2026-01-05-02:00", "--table", "shopdb.custmers"), 2, "did you mean shopdb.customers?"),
        (("nobody", "--window", "2026-01-05-02:00"), 2, "nobody"),
        (("shop", "--window", "2026-01-06-02:00"), 1, "no window that starts at"),
        (("shop", "--gtid", "0-7-99999"), 1, "no entry of it was ever stored"),
        (("shop", "--time", "2026-01-04T10:00"), 1, "the first transaction that it has was committed later"),
        (("shop", "--time", "2026-01-05T04:59:59"), 1, "no transaction behind that time is complete"),
        (("shop", "--time", "2026-02-05T04:59:59"), 1, "everything up to window"),
        (("shop", "--position", "0:99:4"), 1, "everything up to window 2026-01-05-04:00 is complete"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(
    harness: Harness, tmp_path: Path, arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    done = call(harness, *arguments, "--out", str(tmp_path / "out"))
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert done.exit_code == exit_code
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_folder_with_files_is_left_as_it_is(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = call(harness, "shop", "--window", "2026-01-05-02:00", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert "is not empty; name a new folder" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
