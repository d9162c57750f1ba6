"""Tables with other names in the lake: everything but the name is as without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_sources, known_tables
from dts_assets.flows.pauses import resume_tables
from dts_assets.model.tables import TableId
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import WINDOWS, History, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source, three_windows
from tests.flows.source import Ddl
from tests.tiers import times

RENAME = {"bank.accounts": "sales.clients", "bank.*": "lake.*_now"}


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "renamed")


def renamed(name: str) -> tuple[str, str]:
    return ("sales", "clients") if name == "accounts" else ("lake", f"{name}_now")


def table_rows(harness: Harness, named: Callable[[str], tuple[str, str]], names: list[str]) -> dict[str, Any]:
    """All rows of all layers by the table's name at the source, as text."""
    return {
        f"{layer}.{name}": sorted(map(repr, harness.rows(layer, *named(name))))
        for layer in ("changelog", "snapshot", "history", "sql")
        for name in names
    }


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_layers_hold_the_rows_of_the_source_table_in_any_order(
    seed: int, bench_of: Bench, bank: History, bank_capture: Path
) -> None:
    layers: dict[str, Any] = {"history": ["bank.*"], "sql": {"tables": ["*"]}}
    plain = bench_of.open(bank_capture, **layers)
    plain.all()
    harness, random = bench_of.open(bank_capture, rename=RENAME, **layers), Random(seed)
    harness.work_at_random(random, 9)
    harness.settle()
    names = sorted(table.table for table in known_tables(plain.pipeline))
    assert "accounts" in names
    assert {(table.database, table.table) for table in known_tables(harness.pipeline)} == set(map(renamed, names))
    expected = table_rows(plain, lambda name: ("bank", name), names)
    assert table_rows(harness, renamed, names) == expected
    assert all(expected[f"snapshot.{name}"] for name in names)
    counts = harness.rows("window_tables")
    assert all(
        row["changes"] == row["kept"] + row["filtered"] + row["redelivered"] + row["quarantined"] for row in counts
    )
    assert not any(report.unbalanced for report in harness.tables(*range(WINDOWS)).windows)
    assert {row["database"] for row in harness.rows("table_shapes")} == {"bank"}
    assert find_work(harness.pipeline).nothing


def test_a_table_that_gets_another_name_later_is_made_under_it(bench_of: Bench, tmp_path: Path) -> None:
    source = three_windows()
    before = open_short(bench_of, tmp_path / "capture", source.messages, name="later")
    before.all()
    rows = before.rows("snapshot", "bank", "items")
    after = open_short(
        bench_of, tmp_path / "again", source.messages, name="later", rename={"bank.items": "bank.things"}
    )
    assert find_work(after.pipeline).tables
    after.settle()
    assert list(known_tables(after.pipeline)) == [table_id("things")]
    assert known_sources(after.pipeline) == {table_id("things"): (table_id("items"),)}
    assert sorted(map(repr, after.rows("snapshot", "bank", "things"))) == sorted(map(repr, rows))
    assert {row["table"] for row in after.rows("window_tables")} == {"things"}


@pytest.mark.more
def test_statements_empty_a_renamed_table(bench_of: Bench, tmp_path: Path) -> None:
    """TRUNCATE by its name at the source, DROP DATABASE by its database there; its name in the lake means nothing."""
    source = short_source()
    insert(source, border(0) + SECOND, range(3))
    source.transaction(border(0) + 2 * SECOND, Ddl("TRUNCATE TABLE bank.items"))
    source.rows["items"].clear()
    insert(source, border(0) + 3 * SECOND, range(5, 7))
    source.transaction(border(0) + 4 * SECOND, Ddl("TRUNCATE TABLE sales.things"), Ddl("DROP DATABASE sales"))
    source.checkpoint(border(0) + 9 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("DROP DATABASE bank"))
    source.rows["items"].clear()
    insert(source, border(1) + 3 * SECOND, [9])
    source.checkpoint(border(1) + 9 * SECOND)
    for order in ((0, 1), (1, 0)):
        harness = open_short(
            bench_of, tmp_path / f"{order}", source.messages, windows=2, rename={"bank.items": "sales.things"}
        )
        for window in order:
            harness.all(window)
        harness.settle()
        assert [row["id"] for row in harness.rows("snapshot", "sales", "things")] == [9]
        assert sum(row["op"] == "truncate" for row in harness.rows("changelog", "sales", "things")) == 2


@pytest.mark.more
def test_rules_find_a_table_by_either_name(bench_of: Bench, tmp_path: Path) -> None:
    source = three_windows()
    rename = {"bank.items": "sales.things"}
    for number, name in enumerate(("bank.items", "sales.things", "bank.*")):
        harness = open_short(
            bench_of, tmp_path / f"{number}", source.messages, rename=rename,
            columns={f"{name}.note": {"mask": "*"}}, rows={name: "n < 2"}, types={f"{name}.n": "bigint"} if number < 2 else {},
            history=[name], deletes={name: "soft"},
        )  # fmt: skip
        harness.all()
        rows = harness.rows("snapshot", "sales", "things")
        assert rows
        assert {row["n"] for row in rows} <= {0, 1}
        assert "_deleted_at" in rows[0]
        assert harness.rows("history", "sales", "things")
        (columns,) = known_tables(harness.pipeline).values()
        assert number == 2 or {column.name: column.type for column in columns}["n"] == "bigint"


@pytest.mark.more
def test_a_source_table_of_the_name_in_the_lake_makes_the_table_stand_still(bench_of: Bench, tmp_path: Path) -> None:
    """Two tables never become one unasked; the third goes on, and taken out of include the collision ends."""
    source = three_windows(items(), items("things"), items("others"))
    rename = {"bank.items": "bank.things"}
    harness = open_short(bench_of, tmp_path / "capture", source.messages, name="one", rename=rename)
    harness.all()
    (pause,) = harness.pipeline.ledger.paused_tables()
    assert pause.table == table_id("things")
    assert "bank.items and bank.things, would both be it" in pause.reason or (
        "bank.things and bank.items, would both be it" in pause.reason
    )
    assert not harness.rows("changelog", "bank", "things")
    assert len(harness.rows("snapshot", "bank", "others")) == len(source.rows["others"])
    mended = open_short(
        bench_of, tmp_path / "mended", source.messages, name="one", rename=rename, tables={"exclude": ["bank.things"]}
    )
    resume_tables(mended.pipeline, [TableId("bank", "", "things")])
    mended.settle()
    shown = {row["id"]: row["n"] for row in mended.rows("snapshot", "bank", "things")}
    assert shown == {row["id"]: row["n"] for row in source.rows["items"].values()}
