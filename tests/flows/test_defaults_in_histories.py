"""Inserts that leave out a column with a known default: their versions have the default, as the rows of snapshots do."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, INT, MONEY, TEXT, WALL_CLOCK, Field, Table

SET = "ALTER COLUMN tint SET DEFAULT 'grey', ALTER COLUMN amount DROP DEFAULT"
ADD = (
    "ADD COLUMN tint varchar(80) DEFAULT 'teal', ADD COLUMN amount decimal(12,2) DEFAULT 0.1,"
    " ADD COLUMN at datetime(6) DEFAULT '2026-01-05 08:00:00'"
)
MAPPED: dict[str, Any] = {
    "columns": {"bank.journal.tint": {"mask": "***"}},
    "type_mapping": ["datetime-to-timestamp"],
    "source_time_zone": "Asia/Shanghai",
}
EIGHT = "2026-01-05 08:00:00"
TEAL, GREY, NONE = ("teal", "0.10", EIGHT), ("grey", "None", EIGHT), ("None", "None", "None")


def lacking(said: dict[int, str], windows: int) -> Source:
    """Each window brings a row that lacks the last three columns, and updates it; its statements come first."""
    source = short_source(Table("journal", [Field("id", INT, True), Field("n", INT)]))
    table = source.tables["journal"]
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 9, "n": 1})]))
    for window in range(windows):
        if window in said:
            source.transaction(border(window) + 2 * SECOND, Ddl(f"ALTER TABLE journal {said[window]}"))
        if len(table.columns) == 2:
            table.columns += [Field("tint", TEXT), Field("amount", MONEY), Field("at", WALL_CLOCK)]
        row = {"id": window, "n": 1, "tint": ABSENT, "amount": ABSENT, "at": ABSENT}
        source.transaction(border(window) + 3 * SECOND, Dml(table, [(None, row)]))
        source.transaction(border(window) + 9 * SECOND, Dml(table, [(row, {**row, "n": 2})]))
        source.checkpoint(border(window) + 300 * SECOND)
    return source


def played(tmp_path: Path, source: Source, order: tuple[int, ...], **settings: Any) -> dict[str, dict[Any, Any]]:
    """By layer the values of each row's versions, by its id and number, after windows were made in an order."""
    windows = max(order, default=3) + 1
    bench = bench_in_process(tmp_path, "defaults")
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=windows, history=["*"], **settings)
    for number in order:
        harness.all(number)
    harness.settle()
    return {
        layer: {
            (row["id"], row["n"]): (str(row["tint"]), str(row["amount"]), str(row["at"]))
            for row in harness.rows(layer, DATABASE, "journal")
        }
        for layer in ("snapshot", "history")
    }


@pytest.mark.parametrize(
    "order",
    [
        (),
        (0, 1, 2, 3),
        *(pytest.param(one, marks=pytest.mark.more) for one in [*permutations(range(4))][3::5]),
    ],
)
def test_versions_have_the_defaults_of_their_moment(order: tuple[int, ...], tmp_path: Path) -> None:
    found = played(tmp_path, lacking({0: ADD, 2: SET}, 4), order)
    kept = {(9, 1): TEAL, (0, 2): TEAL, (1, 2): TEAL, (2, 2): GREY, (3, 2): GREY}
    assert found == {
        "snapshot": kept,
        "history": kept | {(number, 1): kept[number, 2] for number in range(4)},
    }


@pytest.mark.parametrize(
    "order", [(0, 1, 2), *(pytest.param(one, marks=pytest.mark.more) for one in [(), (2, 1, 0), (1, 2, 0)])]
)
def test_versions_have_the_default_as_the_rule_and_the_type_of_their_column_make_it(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    found = played(tmp_path, lacking({0: ADD}, 3), order, **MAPPED)
    row = ("***", "0.10", str(datetime(2026, 1, 5, tzinfo=UTC)))
    kept = {(9, 1): row, **{(number, 2): row for number in range(3)}}
    assert found == {"snapshot": kept, "history": kept | {(number, 1): row for number in range(3)}}
