"""Runs of the tables report what their windows changed in schemas, from the statements and shapes of these windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.reports import TablesReport
from tests.flows.changing_schemas import WINDOWS, Worked, opened
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, items, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import INT, Field


def made(harness: Harness, *windows: int) -> TablesReport:
    harness.raw(*windows)
    harness.entries(*windows)
    return harness.tables(*windows)


def told(report: TablesReport) -> list[list[tuple[str, str | None]]]:
    """The news of the only table, window by window."""
    (table,) = report.tables
    return [[(one.text, one.doubt) for one in table.news.get(window.row.window.start, ())] for window in report.windows]


ADDED = ("column late text added after n", None)
STRANGE = ("a statement that is not understood", "an attribute that is not known")
AGAIN = ("column c int(11) added after late", None)


@pytest.mark.more
def test_each_window_tells_its_changes_whether_it_is_made_alone_or_with_others(tmp_path: Path) -> None:
    worked = Worked()
    whole = opened(worked, tmp_path, "whole")
    assert told(made(whole, *range(WINDOWS))) == [[ADDED], [STRANGE], [AGAIN]]
    alone = opened(worked, tmp_path, "alone")
    assert [told(made(alone, window)) for window in range(WINDOWS)] == [[[ADDED]], [[STRANGE]], [[AGAIN]]]
    assert told(alone.tables(1)) == [[STRANGE]]


def test_columns_that_only_events_tell_are_news_where_the_window_before_had_others(tmp_path: Path) -> None:
    table = items()
    source = short_source(table)
    for window in range(WINDOWS):
        row = {one.name: None for one in table.columns}
        source.transaction(border(window) + SECOND, Dml(table, [(None, {**row, "id": window})]))
        source.checkpoint(border(window) + 2 * SECOND)
        if window == 0:
            table.columns.append(Field("sudden", INT))
    harness = open_short(bench_in_process(tmp_path, "silent"), tmp_path / "capture", source.messages, windows=WINDOWS)
    found = told(made(harness, *range(WINDOWS)))
    assert found == [[], [("an event told column sudden int(11)", None)], []]


@pytest.mark.more
def test_a_table_that_only_a_statement_names_has_no_report(tmp_path: Path) -> None:
    worked = Worked()
    worked.source.transaction(border(2) + 400 * SECOND, Ddl("CREATE TABLE more (id INT FROBNICATE)"))
    worked.source.checkpoint(border(2) + 500 * SECOND)
    assert told(made(opened(worked, tmp_path, "more"), *range(WINDOWS)))[2] == [AGAIN]
