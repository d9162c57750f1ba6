"""Statements behind which nobody knows by which values changes find rows: such tables are not proven."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from dts_assets.flows.unproven import unproven_tables
from tests.flows.harness import table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, WALL_CLOCK, Field, Table

BY_KEY = "values of column at are not known in its new type, and changes find rows by it"
BY_ALL = "values of column moment are not known in its new type, and no primary key finds their rows"


@pytest.mark.parametrize(
    ("key", "statements", "said"),
    [
        ("at", ["MODIFY at timestamp NOT NULL"], BY_KEY),
        pytest.param("at", ["MODIFY at varchar(40) NOT NULL"], "", marks=pytest.mark.more),
        pytest.param("id", ["MODIFY at timestamp"], "", marks=pytest.mark.more),
        ("id", ["CHANGE at moment timestamp", "ADD n int", "DROP PRIMARY KEY"], BY_ALL),
        pytest.param("id", ["MODIFY at timestamp", "DROP at", "DROP PRIMARY KEY"], "", marks=pytest.mark.more),
    ],
)
def test_a_table_is_not_proven_where_changes_cannot_find_its_rows(
    key: str, statements: list[str], said: str, tmp_path: Path
) -> None:
    table = Table("journal", [Field("id", INT, key == "id"), Field("at", WALL_CLOCK, key == "at")])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, "at": datetime(2026, 1, 5, 10)})]))
    source.checkpoint(border(0) + 300 * SECOND)
    for number, action in enumerate(statements, 1):
        source.transaction(border(1) + number * SECOND, Ddl(f"ALTER TABLE journal {action}"))
    source.checkpoint(border(1) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "keys"), tmp_path / "capture", source.messages, windows=2)
    harness.all()
    harness.settle()
    found = unproven_tables(harness.pipeline).results
    assert {one: reason.split(": ")[-1] for one, reason in found.items()} == (
        {table_id("journal"): said} if said else {}
    )


SOME = "values of its primary key are not known in some rows, and changes find rows by them"
SOME_OF_ALL = "values are not known in some rows in their new type, and no primary key finds these rows"


def converted(is_key: bool, actions: Sequence[str], gone: str) -> Source:
    """Of two rows no statement says what 12.5 becomes as INT; a row comes later, and statements may follow."""
    table = Table("journal", [Field("code", TEXT, is_key), Field("n", INT)])
    source = short_source(table)
    rows = [{"code": "4", "n": 1}, {"code": "12.5", "n": 2}]
    source.transaction(border(0) + SECOND, Dml(table, [(None, row) for row in rows]))
    if gone:
        source.transaction(border(0) + 2 * SECOND, Dml(table, [(rows[1], None)]))
    table.columns[0] = Field("code", INT, is_key)
    source.rows["journal"].clear()
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE journal MODIFY code INT"))
    source.transaction(border(2) + SECOND, Dml(table, [(None, {"code": 5, "n": 3})]))
    for number, action in enumerate(actions):
        source.transaction(border(3) + number * SECOND, Ddl(action))
    for window in range(4):
        source.checkpoint(border(window) + 300 * SECOND)
    return source


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (), pytest.param((1, 0, 3, 2), marks=pytest.mark.more)])
@pytest.mark.parametrize(
    ("is_key", "actions", "gone", "said"),
    [
        (True, [], "", SOME),
        pytest.param(True, ["ALTER TABLE journal DROP PRIMARY KEY"], "", SOME, marks=pytest.mark.more),
        pytest.param(False, [], "", SOME_OF_ALL, marks=pytest.mark.more),
        pytest.param(True, [], "gone", "", marks=pytest.mark.more),
        (True, ["TRUNCATE TABLE journal"], "", ""),
    ],
)
def test_a_table_is_not_proven_where_some_values_of_its_key_are_not_known(
    is_key: bool, actions: Sequence[str], gone: str, said: str, order: Sequence[int], tmp_path: Path
) -> None:
    source = converted(is_key, actions, gone)
    harness = open_short(bench_in_process(tmp_path, "keys"), tmp_path / "capture", source.messages, windows=4)
    for number in order:
        harness.all(number)
    harness.settle()
    found = unproven_tables(harness.pipeline).results
    assert {one: reason.split(": ")[-1] for one, reason in found.items()} == (
        {table_id("journal"): said} if said else {}
    )
