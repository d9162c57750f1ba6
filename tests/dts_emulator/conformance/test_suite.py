"""The suite as files: equal bytes each time, cases for every format, and nothing that needs code of ours to be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.settings.formats import registered_formats
from dts_emulator.conformance import __main__ as command
from dts_emulator.conformance import catalog
from dts_emulator.conformance.formats import ABILITIES
from dts_emulator.conformance.reading import CAPTURE, CASE, CHANGES, EXPECTED, MESSAGES, SUITE, ReadCase, read_suite
from dts_emulator.conformance.writing import VERSION, digest_of_plain_files, file_of, write_suite
from dts_emulator.errors import NotASuite
from tests.tiers import chosen

HOUSE = Path(__file__).parents[3]
VERSIONS = HOUSE / "dts_emulator" / "conformance" / "versions.txt"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.more
def test_another_process_writes_equal_bytes(suite: Path, tmp_path: Path) -> None:
    for seed in chosen(("1", "2"), 1):
        arguments = [sys.executable, "-m", "dts_emulator.conformance", str(tmp_path / "again")]
        subprocess.run(
            arguments, cwd=HOUSE, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        )
        assert bytes_of(tmp_path / "again") == bytes_of(suite)


def test_every_format_has_cases() -> None:
    formats = {name for name, _ in catalog.places()}
    assert formats == set(registered_formats()), "add the format to ABILITIES in dts_emulator/conformance/formats.py"
    assert set(ABILITIES) <= formats
    for name in formats:
        assert sum(name == one for one, _ in catalog.places()) > 20


def test_a_version_has_one_content(suite: Path) -> None:
    """Who changes a case raises the version, and adds a line."""
    lines = [line.split() for line in VERSIONS.read_text().splitlines()]
    wanted = [VERSION, digest_of_plain_files(suite)]
    assert lines[-1] == wanted, f"raise VERSION in writing.py, and add to versions.txt the line: VERSION {wanted[1]}"
    assert len({version for version, _ in lines}) == len({digest for _, digest in lines}) == len(lines)


def test_names_are_their_own_and_say_what_happens() -> None:
    assert len({case.name for case in catalog.CASES}) == len(catalog.CASES)
    for case in catalog.CASES:
        assert case.formats, case.name
        assert all((case.title, case.trap, case.rule)), case.name
        assert case.name.replace("_", "").isalnum()
        assert case.name.islower()


def cases(suite: Path) -> list[ReadCase]:
    return [*read_suite(suite)]


def test_a_case_says_what_its_files_hold(suite: Path) -> None:
    judged = 0
    for case in cases(suite):
        described = case.described
        assert (described["format"], described["case"]) == (case.format, case.name)
        messages = [json.loads(line) for line in (case.folder / MESSAGES).read_text("utf-8").splitlines()]
        assert len(messages) == described["messages"] > 0
        places = {(name, number) for name, count in described["topics"].items() for number in range(count)}
        assert {(one["topic"], one["partition"]) for one in messages} == places, case.label
        assert {path.name for path in (case.folder / EXPECTED).iterdir()} == {
            one["file"] for one in described["tables"]
        }
        for table in described["tables"]:
            assert table["file"] == file_of(table["database"], table["schema"], table["table"])
            names = {column["name"] for column in table["columns"]}
            lines = (case.folder / EXPECTED / table["file"]).read_bytes().decode().splitlines(keepends=True)
            rows = [json.loads(line) for line in lines if line.strip()]
            assert lines == sorted(lines), "rows are sorted"
            assert len(rows) == table["rows"]
            for row in rows:
                assert list(row) == sorted(row)
                assert set(row) == names
                assert all(value is None or isinstance(value, str) for value in row.values())
            if table["key"]:
                assert len({tuple(row[name] for name in table["key"]) for row in rows}) == len(rows), case.label
            if table["changes"] is not None:
                judged += 1
                told = (case.folder / CHANGES / table["file"]).read_text("utf-8").splitlines()
                assert len(told) == table["changes"] > 0
    assert judged >= 50


def test_the_parquet_files_hold_the_same_messages(suite: Path) -> None:
    for case in cases(suite):
        rows = pq.read_table(case.folder / CAPTURE).to_pylist()
        stored = sorted(
            (row["topic"], row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000 + 0.5), row["key"],
             row["value"], [(one["key"], one["value"]) for one in row["headers"]]) for row in rows
        )  # fmt: skip
        lines = [json.loads(line) for line in (case.folder / MESSAGES).read_text("utf-8").splitlines()]
        plain = [
            (one["topic"], one["partition"], one["offset"], one["timestamp"], one["key"] and b64decode(one["key"]),
             b64decode(one["value"]), [(head["key"], b64decode(head["value"])) for head in one["headers"]])
            for one in lines
        ]  # fmt: skip
        assert plain == stored, case.label


def test_offsets_of_each_partition_follow_each_other(suite: Path) -> None:
    for case in cases(suite):
        offsets: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for line in (case.folder / MESSAGES).read_text("utf-8").splitlines():
            one = json.loads(line)
            offsets[one["topic"], one["partition"]].append(one["offset"])
        for numbers in offsets.values():
            assert numbers == list(range(len(numbers))), case.label


def test_the_readme_lists_every_case(suite: Path) -> None:
    text = (suite / "README.md").read_text("utf-8")
    assert all(f"| `{case.name}` |" in text for case in catalog.CASES)
    assert "{" not in text.replace('{"a": 1}', "")


@pytest.mark.parametrize("damage", ["changed", "missing", "no list"])
def test_a_suite_that_is_not_as_it_was_written_is_refused(suite: Path, damage: str, tmp_path: Path) -> None:
    shutil.copytree(suite, tmp_path / "suite")
    victim = tmp_path / "suite" / "drs-json" / "deletes" / CASE
    if damage == "changed":
        victim.write_bytes(victim.read_bytes() + b" ")
    elif damage == "missing":
        victim.unlink()
    else:
        (tmp_path / "suite" / SUITE).write_text("[]")
    with pytest.raises(NotASuite):
        read_suite(tmp_path / "suite")


@pytest.mark.more
def test_a_suite_takes_the_place_of_another_one(suite: Path, tmp_path: Path) -> None:
    shutil.copytree(suite, tmp_path / "suite")
    extra = tmp_path / "suite" / "drs-json" / "a_case_of_old"
    extra.mkdir()
    (extra / CASE).write_text("{}")
    write_suite(tmp_path / "suite")
    assert bytes_of(tmp_path / "suite") == bytes_of(suite)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = CliRunner().invoke(command.main, [str(tmp_path)])
    assert (done.exit_code, "it holds other files" in done.output) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
