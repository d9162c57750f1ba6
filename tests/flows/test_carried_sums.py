"""The sum that a snapshot carries: known over changes and statements, or said not to be known until files are in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.snapshot_compaction import compact_rows
from dts_assets.flows.this_process import this_process
from dts_assets.settings.verification import Verification
from tests.flows.carried_sums import sums_that_hold
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, item, open_short, short_source, three_windows
from tests.flows.source import DATABASE, Ddl, Dml, Source

ITEMS = table_id("items")


def altered(statement: str) -> Source:
    """Rows, a statement in the second window, and in the third one changes of some rows."""
    source = short_source()
    insert(source, border(0) + SECOND, range(20))
    table = source.tables["items"]
    rows = [{**item(number), "note": f"n{number}"} for number in range(20)]
    source.transaction(border(0) + 2 * SECOND, Dml(table, [(item(one["id"]), one) for one in rows]))
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Ddl(statement))
    if "DROP" in statement:
        table.columns = [one for one in table.columns if one.name != "note"]
    if "CHANGE" in statement:
        table.columns = [replace(one, name="remark") if one.name == "note" else one for one in table.columns]
    source.checkpoint(border(1) + 500 * SECOND)
    names = [one.name for one in table.columns]
    row = {name: value for name, value in {**rows[3], "remark": "n3"}.items() if name in names}
    source.transaction(border(2) + SECOND, Dml(table, [(row, {**row, "n": 7})]))
    gone = {name: value for name, value in {**rows[4], "remark": "n4"}.items() if name in names}
    source.transaction(border(2) + 2 * SECOND, Dml(table, [(gone, None)]))
    source.checkpoint(border(2) + 500 * SECOND)
    return source


def made(tmp_path: Path, source: Source) -> Harness:
    return open_short(bench_in_process(tmp_path, "sums"), tmp_path / "capture", source.messages)


def put_in_order(harness: Harness) -> None:
    tables = known_tables(harness.pipeline)
    compact_rows(harness.pipeline, SNAPSHOT, tables, spark=this_process, progress=harness.lines.append)


def own_sums(harness: Harness) -> list[int | None]:
    found = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", ITEMS))
    assert found is not None
    return [*found["_sum"].to_pylist()]


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("statement", "stays"),
    [
        ("ALTER TABLE items ADD COLUMN more INT NULL", True),
        ("ALTER TABLE items CHANGE note remark TEXT", True),
        ("ALTER TABLE items MODIFY n BIGINT FIRST", True),
        ("ALTER TABLE items ADD COLUMN more INT NOT NULL DEFAULT 5", True),  # all files are written anew
        ("ALTER TABLE items DROP COLUMN note", False),
    ],
)
def test_a_statement_leaves_a_sum_that_is_right_or_none(statement: str, stays: bool, tmp_path: Path) -> None:
    harness = made(tmp_path, altered(statement))
    harness.all(0)
    first = sums_that_hold(harness.pipeline)[ITEMS]
    assert first is not None
    harness.all(1)
    assert (sums_that_hold(harness.pipeline)[ITEMS] is not None) is stays
    assert any(one is None for one in own_sums(harness)) is not stays
    harness.all(2)  # which puts files in order, too, behind the changes of the window before
    sums_that_hold(harness.pipeline)
    put_in_order(harness)
    assert sums_that_hold(harness.pipeline)[ITEMS] not in (None, first)
    assert None not in own_sums(harness)


@pytest.mark.more
def test_a_lake_of_before_sums_gets_them_when_its_files_are_in_order(tmp_path: Path) -> None:
    harness = made(tmp_path, three_windows())
    pipeline = harness.pipeline
    without = pipeline.settings.model_copy(update={"verify": Verification(without_sums=(f"{DATABASE}.*",))})
    harness.pipeline = replace(pipeline, settings=without)
    harness.all(0)
    assert set(own_sums(harness)) == {None}
    assert sums_that_hold(harness.pipeline)[ITEMS] is None
    harness.pipeline = pipeline
    harness.all(1)
    sums_that_hold(pipeline)
    put_in_order(harness)
    assert None not in own_sums(harness)
    known = sums_that_hold(pipeline)[ITEMS]
    assert known is not None
    harness.all(2)
    assert sums_that_hold(pipeline)[ITEMS] not in (None, known)


def test_files_that_are_put_in_order_keep_the_sum(tmp_path: Path) -> None:
    harness = made(tmp_path, three_windows())
    harness.all()
    before = sums_that_hold(harness.pipeline)[ITEMS]
    put_in_order(harness)
    assert sums_that_hold(harness.pipeline)[ITEMS] == before
    assert before is not None
