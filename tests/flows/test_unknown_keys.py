"""Statements behind which nobody knows by which values changes find rows: such tables are not proven."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from dts_assets.flows.unproven import unproven_tables
from tests.flows.harness import table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import INT, WALL_CLOCK, Field, Table

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
