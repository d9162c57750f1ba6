"""Layouts whose column a statement converts, renames or drops: in one run, in several, and behind a pause."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.flows.pauses import resume_tables
from dts_assets.planning.source_moments import AtWindow
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.laid_out_source import CONVERSIONS, ITEMS, LaidOut, laid_by, made, opened, rows_of
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import DATE, INT, TEXT, Field, Table
from tests.flows.test_layouts import assert_readers_find_each_row
from tests.flows.test_merged_tables import MERGE, ORDERS, shard
from tests.flows.test_shards import put

WINDOWS = ((), (0, 1, 2), (2, 0, 1))
FOLLOWED = [
    ("int-text", {"partition": ["bucket(3, c)"]}),
    ("int-text", {"partition": ["c"]}),
    ("int-text", {"partition": ["truncate(2, c)"]}),
    ("int-text", {"sort": ["c"]}),
    ("int-bigint", {"partition": ["c"], "sort": ["c"]}),
    ("text-int", {"partition": ["truncate(2, c)"]}),
    ("clock-text", {"partition": ["bucket(2, c)", "o"], "sort": ["c", "id"]}),
    ("day-clock", {"partition": ["days(c)"]}),
    ("day-clock", {"partition": ["c"]}),
    ("int-double", {"sort": ["c"]}),
    ("text-bytes", {"partition": ["bucket(3, c)"]}),
    ("money-money", {"partition": ["c"]}),
    ("money-money", {"partition": ["truncate(2, c)"]}),
]
CASES = [(name, layout, order) for name, layout in FOLLOWED for order in WINDOWS]
"""What is repeated of them: each in one run, window by window, and in another order."""


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("name", "layout", "order"), [CASES[1], CASES[0], *CASES[2:]])
def test_files_are_written_anew_with_the_type_that_the_column_got(
    name: str, layout: dict[str, Any], order: tuple[int, ...], tmp_path: Path
) -> None:
    source = CONVERSIONS[name].source()
    harness = made(opened(source, tmp_path, layout), order)
    assert not harness.pipeline.ledger.paused_tables()
    assert rows_of(harness) == source.rows
    fields, sort = laid_by(harness)
    assert ([f"{column}" for column, _ in fields], sort) == (
        [one.rpartition("(")[2].rstrip(")").rpartition(" ")[2] for one in layout.get("partition", ())],
        layout.get("sort", []),
    )
    assert_readers_find_each_row(harness, "items", "c")


REFUSED = [
    ("clock-text", {"partition": ["days(c)"]}, {"partition": ["truncate(4, c)"], "sort": ["c"]}, "string"),
    ("int-double", {"partition": ["bucket(3, c)"]}, {"sort": ["c"]}, "double"),
    ("text-bytes", {"partition": ["c"]}, {"partition": ["bucket(3, c)"]}, "binary"),
]  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("name", "layout", "after", "kind"), REFUSED)
@pytest.mark.parametrize("several", [True, False])
def test_a_transform_that_does_not_take_the_new_type_pauses_the_table(
    name: str, layout: dict[str, Any], after: dict[str, Any], kind: str, several: bool, tmp_path: Path
) -> None:
    """Another layout, which may suit the new type alone, and a resumption let it go on."""
    source = CONVERSIONS[name].source()
    harness = opened(source, tmp_path, layout)
    if several:
        harness.all(0)
        stood = rows_of(harness)
    harness.settle()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert f"of c, which became the type {kind}" in paused.reason or not several
    assert "change layout in the configuration, then resume the table" in paused.reason
    assert not several or rows_of(harness) == stood
    changed = opened(source, tmp_path, after)
    changed.settle()
    assert changed.pipeline.ledger.paused_tables(), "nobody has resumed it"
    resume_tables(changed.pipeline, [ITEMS])
    changed.settle()
    assert not changed.pipeline.ledger.paused_tables()
    assert rows_of(changed) == source.rows
    laid_by(changed)


def renamed() -> LaidOut:
    """The column gets another name in the second window, and a third one in the last."""
    laid = LaidOut(INT)
    for number in range(4):
        laid.put(0, id=number, c=number, o=number)
    laid.end(0)
    laid.rename(1, c="d")
    laid.put(1, id=1, d=11, o=1)
    laid.end(1)
    laid.rename(2, d="e")
    laid.put(2, id=9, e=9, o=2)
    laid.end(2)
    laid.put(3, id=9, e=10, o=2)
    laid.end(3)
    return laid


@pytest.mark.more
@pytest.mark.parametrize(("name", "order"), [("c", (0, 1, 2, 3)), ("c", ()), ("c", (3, 0, 2, 1)), ("d", ()), ("e", ())])
def test_a_layout_follows_its_column_to_a_new_name(name: str, order: tuple[int, ...], tmp_path: Path) -> None:
    source = renamed()
    harness = made(opened(source, tmp_path, {"partition": [f"bucket(3, {name})"], "sort": [name]}, windows=4), order)
    assert not harness.pipeline.ledger.paused_tables()
    assert rows_of(harness) == source.rows
    assert laid_by(harness) == ([("e", "bucket[3]")], ["e"])


@pytest.mark.more
def test_a_layout_with_a_name_that_comes_later_waits_for_it(tmp_path: Path) -> None:
    source = renamed()
    layout = {"partition": ["d"]}
    harness = opened(source, tmp_path, layout, windows=4)
    harness.all(0)
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "names the column d, which it has not" in paused.reason
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert rows_of(harness) == source.rows
    assert laid_by(harness) == ([("e", "identity")], [])


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_the_column_that_has_a_name_now_is_meant_by_it(order: tuple[int, ...], tmp_path: Path) -> None:
    """Two columns swap their names: files are written by the column that is called so now."""
    laid = LaidOut(INT)
    for number in range(4):
        laid.put(0, id=number, c=number, o=10 - number)
    laid.end(0)
    laid.rename(1, c="o", o="c")
    laid.end(1)
    laid.put(2, id=2, c=5, o=None)
    laid.end(2)
    harness = made(opened(laid, tmp_path, {"partition": ["bucket(3, c)"], "sort": ["c"]}), order)
    assert rows_of(harness) == laid.rows
    assert laid_by(harness) == ([("c", "bucket[3]")], ["c"])
    assert_readers_find_each_row(harness, "items", "c")


@pytest.mark.more
@pytest.mark.parametrize("policy", ["follow", "keep", "freeze"])
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_a_column_that_is_dropped_pauses_the_table_unless_it_stays(
    policy: str, order: tuple[int, ...], tmp_path: Path
) -> None:
    laid = LaidOut(INT)
    for number in range(4):
        laid.put(0, id=number, c=number, o=number)
    laid.end(0)
    laid.drop(1, "c")
    laid.put(1, id=1, o=11)
    laid.end(1)
    laid.put(2, id=2, o=12)
    laid.end(2)
    settings: dict[str, Any] = {"schema_changes": policy}
    harness = made(opened(laid, tmp_path, {"partition": ["c", "bucket(3, o)"]}, **settings), order)
    if policy == "follow":
        (paused,) = harness.pipeline.ledger.paused_tables()
        assert "its layout names the column c, which was dropped at the source" in paused.reason
        harness = opened(laid, tmp_path, {"partition": ["bucket(3, o)"]}, **settings)
        resume_tables(harness.pipeline, [ITEMS])
        harness.settle()
        assert rows_of(harness) == laid.rows
        assert laid_by(harness) == ([("o", "bucket[3]")], [])
    else:
        assert laid_by(harness) == ([("c", "identity"), ("o", "bucket[3]")], [])
    assert not harness.pipeline.ledger.paused_tables()


@pytest.mark.more
@pytest.mark.parametrize(("name", "order"), [("c", (0, 1, 2, 3)), ("c", ()), ("d", ()), ("e", ())])
def test_a_frozen_column_is_laid_out_by_each_of_its_names(name: str, order: tuple[int, ...], tmp_path: Path) -> None:
    layout = {"partition": [f"bucket(3, {name})"], "sort": [name]}
    harness = made(opened(renamed(), tmp_path, layout, windows=4, schema_changes="freeze"), order)
    assert not harness.pipeline.ledger.paused_tables()
    assert laid_by(harness) == ([("c", "bucket[3]")], ["c"])


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_a_column_that_comes_again_is_another_one(order: tuple[int, ...], tmp_path: Path) -> None:
    laid = LaidOut(TEXT)
    for number in range(4):
        laid.put(0, id=number, c=str(number), o=number)
    laid.end(0)
    laid.drop(1, "c")
    laid.put(1, id=1, o=11)
    laid.add(1, "c", "int", INT)
    laid.put(1, id=2, c=7, o=11)
    laid.end(1)
    laid.put(2, id=3, c=8, o=12)
    laid.end(2)
    harness = made(opened(laid, tmp_path, {"partition": ["bucket(3, c)"], "sort": ["c"]}), order)
    assert not harness.pipeline.ledger.paused_tables()
    assert rows_of(harness) == laid.rows
    assert laid_by(harness) == ([("c", "bucket[3]")], ["c"])
    assert_readers_find_each_row(harness, "items", "c")


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 1, 0)])
def test_a_merged_table_is_written_anew_when_a_shard_converts_its_column(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    one, other = shard(0, 1), shard(0, 2)
    source = short_source(one, other)
    for number, table in enumerate((one, other)):
        put(source, 0, 10 + number, table, 0, 1, 2)
    source.checkpoint(border(0) + 500 * SECOND)
    for window, table in ((1, one), (2, other)):
        sql = f"ALTER TABLE {'.'.join(table.sent_as or ())} MODIFY n varchar(80)"
        source.transaction(border(window) + 5 * SECOND, Ddl(sql))
        table.columns[1] = Field("n", TEXT)
        put(source, window, 10, table, 9, n="nine")
        source.checkpoint(border(window) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "laid_out"), tmp_path / "capture", source.messages, merge=MERGE,
        layout={"shop.orders": {"partition": ["bucket(3, n)"], "sort": ["n"]}},
    )  # fmt: skip
    made(harness, order)
    assert not harness.pipeline.ledger.paused_tables()
    found = sorted((row["_source_table"], row["id"], row["n"]) for row in harness.rows("snapshot", *ORDERS.path))
    expected = [(0, "0"), (1, "1"), (2, "2"), (9, "nine")]
    assert found == [(f"orders_000{number}", *row) for number in (1, 2) for row in expected]
    assert laid_by(harness, ORDERS) == ([("n", "bucket[3]")], ["n"])


@pytest.mark.more
def test_a_moment_has_no_layout(tmp_path: Path) -> None:
    """Its table may lack the column, or have it with a type that no partition field can be made of."""
    laid = LaidOut(DATE)
    laid.put(0, id=1, c=date(2026, 1, 5), o=1)
    laid.end(0)
    laid.modify(1, "c", "varchar(80)", TEXT, str)
    laid.add(1, "extra", "int", INT)
    laid.put(1, id=2, c="tea", o=2, extra=7)
    laid.end(1)
    laid.put(2, id=3, c="more", o=3, extra=8)
    laid.end(2)
    harness = made(opened(laid, tmp_path, {"partition": ["truncate(2, c)", "bucket(2, extra)"]}), (2, 1, 0))
    assert not harness.pipeline.ledger.paused_tables()
    for place, (window, rows) in enumerate(((1, 2), (0, 1), (2, 3))):
        found = tables_at(harness.pipeline, AtWindow(border(window)), tmp_path / f"moment_{place}")
        assert not found.failed
        assert found.tables[ITEMS].scan().to_arrow().num_rows == rows
    first = tables_at(harness.pipeline, AtWindow(border(0)), tmp_path / "moment_1").tables[ITEMS]
    assert first.scan().to_arrow().select(["id", "c", "o"]).to_pylist() == [{"id": 1, "c": date(2026, 1, 5), "o": 1}]


@pytest.mark.more
def test_versions_of_the_former_type_are_read_as_before(tmp_path: Path) -> None:
    source = CONVERSIONS["int-text"].source()
    harness = opened(source, tmp_path, {"partition": ["truncate(10, c)"], "sort": ["c"]})
    harness.all(0)
    pipeline = harness.pipeline
    path = pipeline.table_path("snapshot", ITEMS)
    before, stood = pipeline.lake.state(path), rows_of(harness)
    assert before is not None
    harness.settle()
    table = pipeline.lake.table(path)
    assert table is not None
    old = table.scan(snapshot_id=before.snapshot_id, selected_fields=("id", "c", "o")).to_arrow().to_pylist()
    assert sorted(old, key=lambda row: row["id"]) == stood
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert rows_of(harness) == source.rows


@pytest.mark.more
@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_a_layout_of_the_key_follows_its_conversion(deletes: str, order: tuple[int, ...], tmp_path: Path) -> None:
    """The key has another type behind the statement, so that changes are taken over in steps; another column gets two types."""
    laid = LaidOut(INT)
    for number in range(5):
        laid.put(0, id=number, c=number, o=number)
    laid.end(0)
    laid.modify(1, "c", "varchar(80)", TEXT, str)
    laid.put(1, id=1, c="12", o=1)
    laid.modify(1, "id", "varchar(80)", TEXT, str)
    laid.rekeyed()
    laid.put(1, id="2", c="13", o=2)
    laid.put(1, id="x", c="14", o=2)
    laid.modify(1, "c", "int", INT, int)
    laid.end(1)
    laid.put(2, id="3", c=77, o=3)
    laid.remove(2, "0")
    laid.end(2)
    layout = {"partition": ["truncate(1, id)", "bucket(2, c)"], "sort": ["c", "id"]}
    harness = made(opened(laid, tmp_path, layout, deletes={"bank.*": deletes}), order)
    assert not harness.pipeline.ledger.paused_tables()
    shown = harness.rows("snapshot", *ITEMS.path)
    assert [row["id"] for row in shown if row.get("_deleted_at")] == (["0"] if deletes == "soft" else [])
    rows = [{name: row[name] for name in ("id", "c", "o")} for row in shown if not row.get("_deleted_at")]
    assert sorted(rows, key=lambda row: str(row["id"])) == laid.rows
    assert laid_by(harness) == ([("id", "truncate[1]"), ("c", "bucket[2]")], ["c", "id"])
    assert_readers_find_each_row(harness, "items", "id")


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_a_column_may_get_a_name_and_a_type_at_once(order: tuple[int, ...], tmp_path: Path) -> None:
    laid = LaidOut(INT)
    for number in range(5):
        laid.put(0, id=number, c=number, o=number)
    laid.end(0)
    laid.change(1, "c", "d", "varchar(80)", TEXT, str)
    laid.put(1, id=1, d="tea", o=1)
    laid.end(1)
    laid.put(2, id=7, d="more", o=1)
    laid.end(2)
    harness = made(opened(laid, tmp_path, {"partition": ["bucket(3, c)", "truncate(1, c)"], "sort": ["c"]}), order)
    assert not harness.pipeline.ledger.paused_tables()
    assert rows_of(harness) == laid.rows
    assert laid_by(harness) == ([("d", "bucket[3]"), ("d", "truncate[1]")], ["d"])


@pytest.mark.more
def test_a_layout_with_a_former_name_is_taken_without_a_change_of_rows(tmp_path: Path) -> None:
    source = renamed()
    opened(source, tmp_path, {}, windows=4).settle()
    for layout in ({"partition": ["bucket(3, c)"]}, {"partition": ["d"], "sort": ["c"]}, {}):
        harness = opened(source, tmp_path, layout, windows=4)
        for _ in range(2):
            harness.tables(3)
            assert not harness.pipeline.ledger.paused_tables()
            assert rows_of(harness) == source.rows
        transforms = {"bucket(3, c)": "bucket[3]", "d": "identity"}
        assert laid_by(harness) == (
            [("e", transforms[one]) for one in layout.get("partition", [])],
            ["e"] * len(layout.get("sort", [])),
        )


@pytest.mark.more
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
def test_a_table_without_a_key_is_written_anew_too(order: tuple[int, ...], tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT), Field("c", INT)])
    source = short_source(table)
    rows = [{"id": number, "c": number % 2} for number in (1, 1, 2, 3)]
    source.transaction(border(0) + SECOND, Dml(table, [(None, row) for row in rows]))
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE items MODIFY c varchar(80)"))
    table.columns[1] = Field("c", TEXT)
    source.bags["items"] = [{**row, "c": str(row["c"])} for row in source.bags["items"]]
    source.transaction(border(1) + 2 * SECOND, Dml(table, [({"id": 1, "c": "1"}, {"id": 1, "c": "tea"})]))
    source.checkpoint(border(1) + 500 * SECOND)
    source.transaction(border(2) + SECOND, Dml(table, [({"id": 2, "c": "0"}, None)]))
    source.checkpoint(border(2) + 500 * SECOND)
    harness = open_short(
        bench_in_process(tmp_path, "laid_out"), tmp_path / "capture", source.messages,
        layout={"bank.*": {"partition": ["truncate(2, c)"], "sort": ["c"]}},
    )  # fmt: skip
    made(harness, order)
    assert not harness.pipeline.ledger.paused_tables()
    assert [(row["id"], row["c"]) for row in rows_of(harness)] in (
        [(1, "1"), (1, "tea"), (3, "1")],
        [(1, "tea"), (1, "1"), (3, "1")],
    )
    assert laid_by(harness) == ([("c", "truncate[2]")], ["c"])
