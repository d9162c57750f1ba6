"""A table with rows of another name that stands still lacks their changes, and says so until the name has caught up."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import pause_tables, resume_tables
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.flows.unproven import unproven_tables
from dts_assets.flows.window_facts import window_facts
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import Ddl

ITEMS, GOODS = table_id("items"), table_id("goods")
NAMES = ["RENAME TABLE items TO goods"], ["RENAME TABLE items TO spare", "RENAME TABLE spare TO goods"]


def made(folder: Path, statements: list[str]) -> Harness:
    """A row in each of three windows, and the statements at the end of the last one."""
    source = short_source(items())
    for window in range(3):
        insert(source, border(window) + SECOND, [window])
        for number, sql in enumerate(statements if window == 2 else ()):
            source.transaction(border(window) + (20 + number) * SECOND, Ddl(sql))
        source.checkpoint(border(window) + 500 * SECOND)
    return open_short(bench_in_process(folder, "moved"), folder / "capture", source.messages, windows=3)


def doubts(harness: Harness) -> list[int]:
    """The windows whose check says that the table with the new name is not proven."""
    starts = [border(window) for window in range(3)]
    columns = known_tables(harness.pipeline)
    facts = window_facts(harness.pipeline, {GOODS: starts}, {}, news={}, unseen={}, columns=columns)
    return [starts.index(start) for start in facts[GOODS].doubts]


@pytest.mark.parametrize("statements", [NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.more)])
@pytest.mark.parametrize("order", [(0, 1, 2), pytest.param((2, 1, 0), marks=pytest.mark.more)])
def test_rows_of_a_paused_name_are_named_until_it_is_resumed(
    order: tuple[int, ...], statements: list[str], tmp_path: Path
) -> None:
    harness = made(tmp_path, statements)
    harness.all(order[0])
    since = datetime(2026, 3, 1, 12, tzinfo=UTC)
    pause_tables(harness.pipeline, [PausedTable(ITEMS, "", "words", PausedBy.PERSON, since)])
    for window in order[1:]:
        harness.all(window)
    harness.settle()
    found = unproven_tables(harness.pipeline)
    assert not found.failures
    assert found.results[GOODS].endswith(
        f"rows came from {ITEMS}, which stands still and lacks windows before (dts-assets tables resume bank.items brings them)"
    )
    assert doubts(harness) == [2]
    resume_tables(harness.pipeline, [ITEMS])
    harness.settle()
    assert not unproven_tables(harness.pipeline).results
    assert not doubts(harness)
    assert sorted(row["id"] for row in harness.rows("snapshot", *GOODS.path)) == [0, 1, 2]


def test_a_pause_of_later_windows_concerns_no_table_that_had_the_rows_before(tmp_path: Path) -> None:
    harness = made(tmp_path, [])
    harness.all(0)
    since = datetime(2026, 3, 1, 12, tzinfo=UTC)
    pause_tables(harness.pipeline, [PausedTable(ITEMS, "", "words", PausedBy.PERSON, since)])
    harness.settle()
    assert not unproven_tables(harness.pipeline).results


@pytest.mark.more
def test_rows_of_a_removed_name_are_named(tmp_path: Path) -> None:
    harness = made(tmp_path, NAMES[0])
    harness.all(0)
    remove_tables(harness.pipeline, [ITEMS], progress=harness.lines.append)
    harness.settle()
    said = f"rows came from {ITEMS}, which was removed (dts-assets tables add bank.items brings them)"
    assert unproven_tables(harness.pipeline).results[GOODS].endswith(said)
    add_tables(harness.pipeline, [ITEMS], progress=harness.lines.append)
    harness.settle()
    assert not unproven_tables(harness.pipeline).results
    assert sorted(row["id"] for row in harness.rows("snapshot", *GOODS.path)) == [0, 1, 2]


@pytest.mark.more
@pytest.mark.parametrize("statements", NAMES)
def test_rows_of_a_name_that_is_not_decoded_are_named(statements: list[str], tmp_path: Path) -> None:
    source = short_source(items(), items("goods"))
    insert(source, border(0) + SECOND, [0])
    for number, sql in enumerate(statements):
        source.transaction(border(0) + (20 + number) * SECOND, Ddl(sql))
    insert(source, border(1) + SECOND, [1], table="goods")
    for window in range(2):
        source.checkpoint(border(window) + 500 * SECOND)
    bench = bench_in_process(tmp_path, "excluded")
    harness = open_short(
        bench, tmp_path / "capture", source.messages, windows=2, tables={"exclude": ["bank.items", "bank.spare"]}
    )
    harness.settle()
    assert unproven_tables(harness.pipeline).results[GOODS].endswith(", which is not decoded")


@pytest.mark.more
def test_a_name_that_a_table_which_is_not_decoded_takes_over_keeps_its_rows(tmp_path: Path) -> None:
    """A migration by hand copies the rows, and then the two tables exchange their names."""
    source = short_source(items(), items("next"))
    insert(source, border(0) + SECOND, [1, 2])
    source.transaction(border(0) + 2 * SECOND, Ddl("CREATE TABLE next LIKE items"))
    insert(source, border(0) + 3 * SECOND, [1, 2], table="next")
    source.transaction(border(0) + 20 * SECOND, Ddl("RENAME TABLE items TO last, next TO items"))
    insert(source, border(1) + SECOND, [3])
    for window in range(2):
        source.checkpoint(border(window) + 500 * SECOND)
    bench = bench_in_process(tmp_path, "included")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2, tables={"include": ["bank.items"]})
    harness.settle()
    assert not unproven_tables(harness.pipeline).results
    assert sorted(row["id"] for row in harness.rows("snapshot", *ITEMS.path)) == [1, 2, 3]
