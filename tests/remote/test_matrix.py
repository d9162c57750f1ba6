"""The example equals the database on a REST catalog and a strict S3 store, with own and vended keys, and on a cluster."""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.remote import matrix
from tests.remote.matrix import EQUAL, MASTERS, STORES, Cell, Outcome, run_cell, shown

CHOSEN = (Cell("local", "rest+s3"), Cell("local-cluster", "rest+s3 vended"), Cell("local", "sqlite+s3"))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("cell", CHOSEN, ids=lambda cell: f"{cell.master}, {cell.store}")
def test_the_example_equals_the_database(cell: Cell) -> None:
    outcome = run_cell(cell)
    assert outcome.sentence == EQUAL


def test_chosen_cells_are_cells_of_the_matrix() -> None:
    assert {cell.master for cell in CHOSEN} <= MASTERS.keys()
    assert {cell.store for cell in CHOSEN} <= STORES.keys()


def test_the_command_shows_a_line_and_a_cell_for_each_and_fails_for_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    sentences = {Cell("connect", "rest"): "exit 11: the catalog is away"}

    def cell_of(cell: Cell, *, by_spark: bool) -> Outcome:
        assert by_spark
        return Outcome(sentences.get(cell, EQUAL), 41.6)

    monkeypatch.setattr(matrix, "run_cell", cell_of)
    assert matrix.main(["--master", "local", "--store", "sqlite"]) == 0
    assert "1 of 1: local, sqlite: equal to the database, 42 s" in capsys.readouterr().out
    assert matrix.main([]) == 1
    said = capsys.readouterr().out
    assert said.count(EQUAL) == 2 * (len(MASTERS) * len(STORES) - 1)
    assert said.count("exit 11: the catalog is away, 42 s") == 2


def test_cells_that_were_not_asked_for_are_empty() -> None:
    console = Console(width=200, record=True)
    outcomes = {Cell("local", "sqlite"): Outcome(EQUAL, 40.0), Cell("connect", "rest"): Outcome("exit 1: no", 3.0)}
    console.print(shown(outcomes))
    rows = [line for line in console.export_text().splitlines() if "local" in line or "connect" in line]
    assert [row.count(" s ") for row in rows] == [1, 1]
