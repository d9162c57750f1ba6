"""`dts-assets tables`: the list, a pause, a resumption, and names that are wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.flows.pauses import pause_tables
from dts_assets.model.ledger_rows import MissingTable, PausedBy, PausedTable
from dts_assets.model.tables import TableId
from tests.defs.projects import Project
from tests.ledger_rows import cut_row

ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")
FIRST, SECOND = TableId("a.b", "", "c"), TableId("a", "", "b.c")
COLUMNS = [("id", "int", True)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path).configure(include=("*",))
    made.send("one", [(partition, 0, datetime(2026, 1, 5, tzinfo=UTC)) for partition in (0, 1)])
    made.pipeline.check_shape()
    return made.register(dict.fromkeys((ORDERS, ITEMS), COLUMNS))


def call(project: Project, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["tables", *arguments, "--config", str(project.config)], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_person_pauses_a_table_once_and_resumes_it(project: Project) -> None:
    done = call(project, "pause", "shopdb.orders", "--reason", "its [key] is wrong")
    assert (done.exit_code, "shopdb.orders stands still from the next run on" in done.output) == (0, True)
    (row,) = project.pipeline.ledger.paused_tables()
    assert (row.table, row.reason, row.by, row.layer) == (ORDERS, "its [key] is wrong", PausedBy.PERSON, "")
    again = call(project, "pause", "shopdb.orders", "shopdb.items", "--reason", "another")
    assert "shopdb.orders is paused already" in again.output
    assert {row.reason for row in project.pipeline.ledger.paused_tables()} == {"its [key] is wrong", "another"}

    window = project.pipeline.grid.at(0)
    lacks = replace(cut_row(window), paused=(MissingTable.of(row),))
    project.pipeline.ledger.replace_cuts([window], [lacks])
    listed = call(project).output
    assert "its [key] is wrong" in listed
    assert [line.split()[-2] for line in listed.splitlines() if "shopdb.orders" in line] == ["1"]

    done = call(project, "resume", "shopdb.orders", "shopdb.items")
    assert "goes on with the next run; 1 window lacks it" in done.output
    assert project.pipeline.ledger.paused_tables() == []
    assert "catches up with the next run" in call(project).output
    assert "shopdb.orders is not paused" in call(project, "resume", "shopdb.orders").output


@pytest.mark.parametrize(
    ("name", "said"), [("shopdb.order", "did you mean shopdb.orders?"), ("x", "dts-assets tables lists the 2 tables")]
)
def test_a_table_that_there_is_not_is_a_sentence(project: Project, name: str, said: str) -> None:
    done = call(project, "pause", name, "--reason", "r")
    assert (done.exit_code, said in done.stderr) == (2, True)
    assert project.pipeline.ledger.paused_tables() == []


def test_a_name_that_may_be_two_tables_is_refused_and_each_has_a_name_of_its_own(project: Project) -> None:
    project.register(dict.fromkeys((FIRST, SECOND), COLUMNS))
    done = call(project, "pause", "a.b.c", "--reason", "r")
    assert (done.exit_code, "a%2Eb.c" in done.stderr, "a.b%2Ec" in done.stderr) == (2, True, True)
    call(project, "pause", "a.b%2Ec", "--reason", "r")
    assert [row.table for row in project.pipeline.ledger.paused_tables()] == [SECOND]


def test_while_a_table_is_paused_the_command_run_ends_with_3_and_says_what_to_do(project: Project) -> None:
    since = datetime(2026, 1, 6, 7, 8, tzinfo=UTC)
    pause_tables(project.pipeline, [PausedTable(ORDERS, "snapshot", "KeyError at a.py:7", PausedBy.FAILURE, since)])
    project.configure(complete=False, include=("*",))
    (project.folder / "capture").rename(project.folder / "moved")  # so that there is nothing to do
    done = CliRunner().invoke(cli, ["run", "--config", str(project.config)], env={"COLUMNS": "200"})
    assert done.exit_code == 3, done.output
    assert (
        "shopdb.orders stands still since 2026-01-06 07:08 UTC, paused by a failure: KeyError at a.py:7" in done.output
    )
    assert "dts-assets tables resume shopdb.orders" in done.output


def test_a_table_that_stands_still_is_not_rebuilt_and_the_way_out_is_named(project: Project) -> None:
    call(project, "pause", "shopdb.orders", "--reason", "words")
    done = call(project, "rebuild", "shopdb.orders")
    assert done.exit_code == 2
    assert "dts-assets tables resume lets it go on" in done.output
    assert call(project, "rebuild", "shopdb.order").exit_code == 2


def test_a_person_removes_a_table_and_adds_it_again(project: Project) -> None:
    done = call(project, "remove", "shopdb.orders")
    assert (done.exit_code, "dts-assets tables add shopdb.orders brings it back" in done.output) == (0, True)
    assert [line.split()[3] for line in call(project).output.splitlines() if "shopdb.orders" in line] == ["removed"]
    assert "shopdb.orders is removed; " in call(project, "resume", "shopdb.orders").output
    assert "shopdb.orders is removed; " in call(project, "pause", "shopdb.orders", "--reason", "words").output
    refused = call(project, "rebuild", "shopdb.orders")
    assert (refused.exit_code, "tables add shopdb.orders brings it back" in refused.stderr) == (2, True)

    (project.folder / "capture").rename(project.folder / "moved")  # so that there is nothing to do
    project.configure(complete=False, include=("*",))
    done = CliRunner().invoke(cli, ["run", "--config", str(project.config)], env={"COLUMNS": "200"})
    assert (done.exit_code, "shopdb.orders" in done.output, "shopdb.items" in done.output) == (0, False, True)

    window = project.pipeline.grid.at(0)
    project.pipeline.ledger.replace_cuts([window], [cut_row(window)])
    done = call(project, "add", "shopdb.orders", "shopdb.items")
    assert "shopdb.orders comes back with the next run; 1 window lacks it." in done.output
    assert "shopdb.items is not removed." in done.output
    (row,) = project.pipeline.ledger.cuts()
    assert [one.id for one in row.paused] == [ORDERS]
    assert "catches up with the next run" in call(project).output
