"""The README's table of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import TABLE, keeps, table, with_table

HOUSE = Path(__file__).parents[2]


def test_of_several_cases_the_worst_and_the_best_are_shown() -> None:
    (line,) = [
        line for line in table({"decode": {"1t-5c-1r": 5.25, "2t-30c-1r": 7.0, "1t-fat-5r": 1.3}}) if "1 or 2" in line
    ]
    assert "| 5.25x to 7x |" in line
    (fat,) = [line for line in table({"decode": {"1t-fat-5r": 1.3}}) if "blob" in line]
    assert "| 1.3x |" in fat


@pytest.mark.parametrize(
    ("promised", "ratio", "kept"),
    [(">= 0.7", 0.7, True), (">= 0.7", 0.69, False), ("<= 1", 1.0, True), ("<= 1", 1.01, False), ("-", 9.0, True)],
)
def test_a_promise_is_kept_or_missed(promised: str, ratio: float, kept: bool) -> None:
    assert keeps(promised, ratio) is kept


def test_a_line_with_a_missed_promise_is_marked() -> None:
    found = table({"reassembly": {"split": 0.67, "whole": 0.78}, "truth": {"clean": 1.1, "redelivered": 1.2}})
    assert [line.count("✗") for line in found[2:]] == [1, 0, 0]
    assert "| 0.67x to 0.78x ✗ |" in found[2]


def test_lines_of_benchmarks_that_were_not_run_stay_in_their_order() -> None:
    before = table({"decode": {"1t-5c-1r": 5.0}, "truth": {"clean": 1.3, "redelivered": 1.2}})
    after = table({"window": {"plain": 5.1, "floor": 1.5}, "truth": {"clean": 1.1}}, "\n".join(before))
    assert [line.partition("`")[2].partition("`")[0] for line in after[2:]] == [
        "decode",
        "window",
        "window",
        "truth",
        "truth",
    ]
    assert "| 1.1x |" in after[-2]
    assert after[-1] == before[-1]


def test_every_line_names_a_benchmark_that_is_there() -> None:
    for row in TABLE:
        assert (HOUSE / "benchmarks" / f"{row.benchmark}.py").is_file()


def test_no_two_lines_begin_alike() -> None:
    """A line of the README is found by its first two cells."""
    beginnings = [(row.what, row.benchmark, row.against) for row in TABLE]
    assert len(set(beginnings)) == len(beginnings)


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
