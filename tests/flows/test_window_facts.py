"""Facts about a table at the end of a window: the same whether the window is made alone, with others, or again later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from dts_assets.defs.layers import LAYERS
from dts_assets.flows.reports import TablesReport
from dts_assets.flows.unproven import unproven_tables
from dts_assets.flows.window_facts import unknown_by_window
from dts_assets.model.positions import SourcePosition
from dts_assets.wire.ddl.schema_news import SchemaNews
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Table

Verdicts = dict[tuple[str, str, datetime], tuple[bool, str]]
STRANGE = "ALTER TABLE items MODIFY n BIGINT FROBNICATE"


def verdicts(report: TablesReport) -> Verdicts:
    """What each check about one table says, by check, table and window; nothing of tables without changes."""
    return {
        (check.name, table.table.table, window.row.window.start): (found.passed, found.severity.value)
        for layer in LAYERS
        for check in layer.table_checks
        for table in report.tables
        for window in report.windows
        if check.is_about(table, window)
        for found in [check.judge(table, window)]
    }


def made(harness: Harness, *windows: int) -> TablesReport:
    harness.raw(*windows)
    harness.entries(*windows)
    return harness.tables(*windows)


def of_pieces(source: Source, folder: Path, name: str, pieces: Sequence[Sequence[int]]) -> Verdicts:
    harness = open_short(
        bench_in_process(folder, name), folder / f"capture_{name}", source.messages, windows=max(map(max, pieces)) + 1
    )
    found: Verdicts = {}
    for piece in pieces:
        found |= verdicts(made(harness, *piece))
    return found


def told(found: Verdicts, check: str = "schema", table: str = "items") -> list[tuple[int, bool, str]]:
    """The verdicts of one check as (window, passed, severity)."""
    return [
        (number, *found[check, table, border(number)]) for number in range(9) if (check, table, border(number)) in found
    ]


@pytest.mark.more
def test_a_table_is_not_proven_from_the_statement_on_however_its_windows_are_made(tmp_path: Path) -> None:
    source = short_source()
    for window in range(3):
        insert(source, border(window) + SECOND, (2 * window,))
        if window == 1:
            source.transaction(border(window) + 10 * SECOND, Ddl(STRANGE))
        insert(source, border(window) + 20 * SECOND, (2 * window + 1,))
        source.checkpoint(border(window) + 60 * SECOND)
    found = of_pieces(source, tmp_path, "whole", [range(3)])
    assert told(found) == [(0, True, "WARN"), (1, False, "ERROR"), (2, False, "ERROR")]
    assert {passed for _, passed, _ in told(found, "paused_tables")} == {True}
    alone = open_short(bench_in_process(tmp_path, "alone"), tmp_path / "capture_alone", source.messages)
    of_window = [{key: one for key, one in found.items() if key[2] == border(window)} for window in range(3)]
    assert [verdicts(made(alone, window)) for window in range(3)] == of_window
    assert verdicts(alone.tables(0)) == of_window[0], "made again"
    (said,) = unproven_tables(alone.pipeline).results.values()
    assert said.endswith("an attribute that is not known")


@pytest.mark.more
def test_other_tables_are_not_concerned_and_one_without_changes_gets_nothing(tmp_path: Path) -> None:
    source = short_source(items(), items("others"), items("quiet"))
    for name in source.tables:
        insert(source, border(0) + SECOND, range(3), table=name)
    source.checkpoint(border(0) + 60 * SECOND)
    source.transaction(border(1) + SECOND, Ddl(STRANGE))
    insert(source, border(1) + 2 * SECOND, (3,), table="others")
    source.checkpoint(border(1) + 60 * SECOND)
    insert(source, border(2) + SECOND, (4,), table="others")
    source.checkpoint(border(2) + 60 * SECOND)
    found = of_pieces(source, tmp_path, "whole", [range(3)])
    assert told(found) == [(0, True, "WARN"), (1, False, "ERROR")], "a statement is a change of its table"
    assert told(found, table="others") == [(number, True, "WARN") for number in range(3)]
    assert told(found, table="quiet") == [(0, True, "WARN")]
    assert of_pieces(source, tmp_path, "alone", [[0], [1], [2]]) == found


@pytest.mark.more
def test_a_statement_that_finds_no_row_fails_nothing_and_later_rows_tell_the_columns(tmp_path: Path) -> None:
    table, other = items(), items("others")
    source = short_source(table, other)
    insert(source, border(0) + SECOND, range(3), table="others")
    source.transaction(border(0) + 10 * SECOND, Ddl(STRANGE))
    source.checkpoint(border(0) + 60 * SECOND)
    insert(source, border(1) + SECOND, range(3))
    source.checkpoint(border(1) + 60 * SECOND)
    source.transaction(border(2) + SECOND, Ddl(STRANGE))
    insert(source, border(2) + 2 * SECOND, (9,))
    source.checkpoint(border(2) + 60 * SECOND)
    found = of_pieces(source, tmp_path, "whole", [range(3)])
    assert [one for one in told(found) if one[0] > 0] == [(1, True, "WARN"), (2, False, "ERROR")]
    assert all(passed for _, passed, _ in told(found)[:-1])
    known = {key: one for key, one in found.items() if key[1:] != ("items", border(0))}
    assert of_pieces(source, tmp_path, "alone", [[0], [1], [2]]) == known, "no event has told of the table before"


@pytest.mark.more
def test_a_table_that_is_created_anew_is_proven_again_in_each_piece(tmp_path: Path) -> None:
    source = short_source()
    insert(source, border(0) + SECOND, range(3))
    source.transaction(border(0) + 10 * SECOND, Ddl(STRANGE))
    source.checkpoint(border(0) + 60 * SECOND)
    insert(source, border(1) + SECOND, (3,))
    source.checkpoint(border(1) + 60 * SECOND)
    source.transaction(border(2) + SECOND, Ddl("DROP TABLE items"))
    source.rows["items"].clear()
    source.transaction(border(2) + 2 * SECOND, Ddl("CREATE TABLE items (id INT PRIMARY KEY, n INT, note TEXT)"))
    insert(source, border(2) + 3 * SECOND, range(2))
    source.checkpoint(border(2) + 60 * SECOND)
    found = of_pieces(source, tmp_path, "whole", [range(3)])
    assert told(found) == [(0, False, "ERROR"), (1, False, "ERROR"), (2, True, "WARN")]
    assert of_pieces(source, tmp_path, "alone", [[0], [1], [2]]) == found
    assert of_pieces(source, tmp_path, "two", [[0, 1], [2]]) == found


@pytest.mark.more
def test_a_column_of_two_types_warns_where_the_second_type_comes_in_each_piece(tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True), Field("n", INT)])
    source = short_source(table)
    for window in range(3):
        if window == 1:
            table.columns[1] = Field("n", TEXT)
        row = {"id": window, "n": None}
        source.transaction(border(window) + SECOND, Dml(table, [(None, row)]))
        source.checkpoint(border(window) + 60 * SECOND)
    found = of_pieces(source, tmp_path, "whole", [range(3)])
    assert [(number, passed) for number, passed, _ in told(found)][:2] == [(0, True), (1, False)]
    assert of_pieces(source, tmp_path, "alone", [[0], [1], [2]]) == found


def test_values_of_a_commit_stand_at_the_window_whose_statement_changed_their_column() -> None:
    total = SchemaNews("column total int(11)", None, None, "Total")
    first, second, third = (border(number) for number in range(3))
    position = SourcePosition(0, 4, 700)
    said = {
        second: [SchemaNews("column total int(11)", position, None, "Total")],
        third: [SchemaNews("column b int(11) added", position, None, "b")],
    }
    assert unknown_by_window({"total": 3}, said, [first, third]) == {second: {"total": 3}}
    assert unknown_by_window({"renamed": 3}, said, [first]) == {second: {"renamed": 3}, third: {"renamed": 3}}
    assert unknown_by_window({"total": 3}, {second: [total]}, [first, third]) == {third: {"total": 3}}
    assert unknown_by_window({}, said, [first]) == {}
