"""The README's table of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import TABLE, table, with_table

HOUSE = Path(__file__).parents[2]


def test_of_several_cases_the_worst_and_the_best_are_shown() -> None:
    (line,) = [
        line for line in table({"decode": {"1t-5c-1r": 5.25, "2t-30c-1r": 7.0, "1t-fat-5r": 1.3}}) if "1 or 2" in line
    ]
    assert "| 5.25x to 7x |" in line
    (fat,) = [line for line in table({"decode": {"1t-fat-5r": 1.3}}) if "blob" in line]
    assert "| 1.3x |" in fat


def test_every_line_names_a_benchmark_that_is_there() -> None:
    for row in TABLE:
        assert (HOUSE / "benchmarks" / f"{row.benchmark}.py").is_file()


def test_only_what_stands_between_the_comments_is_replaced() -> None:
    text = "before\n<!-- figures -->\nold\n<!-- end of figures -->\nafter\n"
    made = with_table(text, ["new", "lines"])
    assert made == "before\n<!-- figures -->\nnew\nlines\n<!-- end of figures -->\nafter\n"
    assert with_table(made, ["new", "lines"]) == made


def test_a_document_without_a_place_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for the table"):
        with_table("text", ["line"])


def test_the_readme_has_a_place() -> None:
    assert with_table((HOUSE / "README.md").read_text(), ["line"]).count("<!-- figures -->") == 1
