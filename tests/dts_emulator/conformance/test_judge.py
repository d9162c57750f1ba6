"""The judge finds every difference, in every case, and takes other spellings of a value for the value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dts_emulator.conformance import __main__ as command
from dts_emulator.conformance.judge import Outcome, judge
from dts_emulator.conformance.reading import CHANGES, EXPECTED, ReadCase, read_suite
from dts_emulator.conformance.texts import ValueKind, comparable
from dts_emulator.errors import NotAResult

Rows = list[dict[str, Any]]


@pytest.fixture
def right(suite: Path, tmp_path: Path) -> Path:
    """Results that are right everywhere: the suite's own rows."""
    results = tmp_path / "results"
    for case in read_suite(suite):
        folder = results / case.format / case.name
        shutil.copytree(case.folder / EXPECTED, folder / "rows")
        if (case.folder / CHANGES).is_dir():
            shutil.copytree(case.folder / CHANGES, folder / "changes")
        (folder / "quarantine.json").write_text(json.dumps(case.described["quarantine"]))
    return results


def case_of(suite: Path, label: str) -> ReadCase:
    return next(one for one in read_suite(suite) if one.label == label)


def altered(path: Path, alter: Callable[[Rows], object]) -> None:
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    alter(rows)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def damage(name: str, rows: Rows) -> None:
    rows[-1][name] = "7" if rows[-1][name] is None else None


def failures(suite: Path, results: Path) -> dict[str, str]:
    verdicts = judge(read_suite(suite), results)
    assert {one.outcome for one in verdicts} <= {Outcome.PASS, Outcome.FAIL}
    return {one.case.label: "; ".join(one.differences) for one in verdicts if one.outcome is Outcome.FAIL}


@pytest.mark.more
def test_right_results_pass_in_any_order_of_rows(suite: Path, right: Path) -> None:
    for path in right.glob("*/*/rows/*.jsonl"):
        altered(path, list.reverse)
    assert failures(suite, right) == {}


@pytest.mark.more
def test_a_damaged_row_is_found_in_every_case(suite: Path, right: Path) -> None:
    damaged = set()
    for case in read_suite(suite):
        table = next(one for one in case.described["tables"] if one["rows"])
        name = next(one["name"] for one in table["columns"] if one["name"] not in table["key"])
        altered(right / case.format / case.name / "rows" / table["file"], partial(damage, name))
        damaged.add(case.label)
    assert set(failures(suite, right)) == damaged
    assert len(damaged) > 150


def test_a_change_too_many_is_found_in_every_case_that_judges_changes(suite: Path, right: Path) -> None:
    damaged = set()
    for path in right.glob("*/*/changes/*.jsonl"):
        altered(path, lambda rows: rows.append(rows[-1]))
        damaged.add(f"{path.parts[-4]}/{path.parts[-3]}")
    assert set(failures(suite, right)) == damaged
    assert len(damaged) >= 50


DAMAGES: dict[str, tuple[Callable[[Rows], object], str]] = {
    "NULL becomes an empty text": (lambda rows: rows[1].update(note=""), "these columns differ: note"),
    "a row is missing": (lambda rows: rows.pop(), "1 rows missing, 0 rows too many, 3 expected"),
    "a row stands twice": (lambda rows: rows.append(rows[0]), "0 rows missing, 1 rows too many, 3 expected"),
    "a column is missing": (lambda rows: rows[0].pop("n"), "these columns differ: n"),
    "a column too many": (lambda rows: rows[0].update(more="1"), "these columns differ: more"),
    "another key": (lambda rows: rows[0].update(id="77"), "1 rows missing, 1 rows too many, 3 expected"),
}  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_difference_is_named_without_values(suite: Path, right: Path, damage: str) -> None:
    alter, sentence = DAMAGES[damage]
    altered(right / "dts-avro" / "null_and_empty" / "rows" / "d.notes.jsonl", alter)
    (found,) = failures(suite, right).items()
    assert found[0] == "dts-avro/null_and_empty"
    assert sentence in found[1]
    assert "NULL" not in found[1]


def test_a_table_without_a_key_is_a_bag(suite: Path, right: Path) -> None:
    altered(right / "drs-json-c" / "table_without_a_key" / "rows" / "d.bag.jsonl", lambda rows: rows.pop())
    assert "1 rows missing" in failures(suite, right)["drs-json-c/table_without_a_key"]


def test_files_that_are_missing_or_too_many_are_found(suite: Path, right: Path) -> None:
    (right / "drs-json" / "deletes" / "rows" / "d.items.jsonl").unlink()
    shutil.rmtree(right / "drs-json" / "bits")
    (right / "drs-json" / "null_and_empty" / "rows" / "d.more.jsonl").write_text("{}\n")
    (right / "drs-json" / "a_message_that_is_none" / "quarantine.json").write_text("{}")
    assert failures(suite, right) == {
        "drs-json/deletes": "d.items: there is no file rows/d.items.jsonl",
        "drs-json/bits": "there is no result",
        "drs-json/null_and_empty": "d.more: the source has no such table",
        "drs-json/a_message_that_is_none": "0 messages or events in quarantine, 1 are expected",
    }


def test_changes_are_compared_in_their_order(suite: Path, right: Path) -> None:
    altered(right / "drs-json" / "deletes" / "changes" / "d.items.jsonl", list.reverse)
    assert failures(suite, right) == {"drs-json/deletes": "d.items: changes are in another order"}


def test_absent_is_not_null(suite: Path, right: Path) -> None:
    def fill(rows: Rows) -> None:
        place = next(number for number, row in enumerate(rows) if "after.n" in row["absent"])
        rows[place]["absent"].remove("after.n")
        rows[place]["after"]["n"] = None

    altered(right / "dts-protobuf" / "update_with_minimal_images" / "changes" / "d.items.jsonl", fill)
    assert "first that differs is number 6" in failures(suite, right)["dts-protobuf/update_with_minimal_images"]


def test_a_line_that_is_no_object_is_named(suite: Path, right: Path) -> None:
    (right / "canal-json" / "bits" / "rows" / "d.bits.jsonl").write_text('{}\n["secret"]\n')
    with pytest.raises(NotAResult, match=r"d.bits.jsonl, line 2") as caught:
        judge(read_suite(suite), right)
    assert "secret" not in str(caught.value)


def judged(suite: Path, results: Path) -> tuple[int, list[str]]:
    done = CliRunner().invoke(command.main, ["--judge", str(suite), "--results", str(results)])
    return done.exit_code, done.output.splitlines()


def test_the_command_prints_a_table_and_ends_with_a_code(suite: Path, right: Path, tmp_path: Path) -> None:
    count = len(read_suite(suite))
    code, lines = judged(suite, right)
    assert (code, lines[-1], len(lines)) == (0, f"{count} pass, 0 fail, 0 not run", count + 1)
    altered(right / "drs-json" / "deletes" / "rows" / "d.items.jsonl", lambda rows: rows.pop())
    shutil.rmtree(right / "canal-json")
    code, lines = judged(suite, right)
    assert code == 1
    assert [line for line in lines if "FAIL" in line] == [
        next(line for line in lines if line.startswith("drs-json/deletes "))
    ]
    assert lines[-1].split(", ")[1:] == [
        "1 fail",
        f"{sum(c.format == 'canal-json' for c in read_suite(suite))} not run",
    ]
    (tmp_path / "nothing").mkdir()
    assert judged(suite, tmp_path / "nothing")[0] == 2


@pytest.mark.parametrize("arguments", [[], ["--judge", "."], ["one", "--judge", ".", "--results", "."]])
def test_arguments_that_fit_nothing_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(command.main, arguments).exit_code == 2


SPELLINGS = [
    (ValueKind.INTEGER, "0042", "42"), (ValueKind.INTEGER, "18446744073709551615", "18446744073709551615"),
    (ValueKind.DECIMAL, "-1.50", "-1.5"), (ValueKind.DECIMAL, "1E3", "1000"), (ValueKind.DECIMAL, "-0.00", "0"),
    (ValueKind.SINGLE, "0.1", "0.10000000149011612"), (ValueKind.DOUBLE, "1e15", "1000000000000000"),
    (ValueKind.BYTES, "00ff", "00FF"), (ValueKind.BOOLEAN, "t", "True"),
    (ValueKind.DATETIME, "2026-01-05T10:11:12.500", "2026-01-05 10:11:12.5"),
    (ValueKind.DATETIME, "2026-01-05 10:00:00.000000", "2026-01-05 10:00:00"),
    (ValueKind.INSTANT, "2026-01-05 10:11:12+08:00", "2026-01-05 02:11:12"),
    (ValueKind.INSTANT, "2026-01-05 10:11:12.5+08", "2026-01-05T02:11:12.500Z"),
    (ValueKind.INSTANT, "0000-00-00 00:00:00", "0000-00-00 00:00:00"), (ValueKind.TIME, "-00:00:01.000", "-00:00:01"),
    (ValueKind.JSON, '{"b": 1, "a": [1.50]}', '{"a":[1.50],"b":1}'),
]  # fmt: skip
OTHERS = [
    (ValueKind.INTEGER, "9223372036854775807", "9223372036854775808"), (ValueKind.INTEGER, "", "0"),
    (ValueKind.DECIMAL, "0." + "0" * 29 + "1", "0"), (ValueKind.SINGLE, "0.1", "0.1000001"),
    (ValueKind.DOUBLE, "0.1", "0.10000000149011612"), (ValueKind.DOUBLE, "-0.0", "0.0"), (ValueKind.BYTES, "61", "6100"),
    (ValueKind.TEXT, "a", "a "), (ValueKind.TEXT, "é", "e\u0301"), (ValueKind.TIME, "-00:00:00.000001", "00:00:00.000001"),
    (ValueKind.DATETIME, "2026-01-05 10:00:00.1", "2026-01-05 10:00:00.01"), (ValueKind.DATE, "0000-00-00", "0001-01-01"),
    (ValueKind.INSTANT, "2026-01-05 10:11:12", "2026-01-05 10:11:12+08:00"), (ValueKind.JSON, '{"a": 1.5}', '{"a": 1.50}'),
    (ValueKind.TEXT, "", None), (ValueKind.BYTES, "", None), (ValueKind.INTEGER, "0", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "one", "other"), SPELLINGS)
def test_other_spellings_of_a_value_are_equal(kind: ValueKind, one: str, other: str) -> None:
    assert comparable(kind, one) == comparable(kind, other)


@pytest.mark.parametrize(("kind", "one", "other"), OTHERS)
def test_other_values_are_not_equal(kind: ValueKind, one: str, other: str | None) -> None:
    assert comparable(kind, one) != comparable(kind, other)
