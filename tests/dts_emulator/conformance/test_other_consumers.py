"""The table of docs/conformance.md: how other consumers fare, as it is found here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from dts_emulator.conformance.judge import Outcome, Verdict, judge
from dts_emulator.conformance.reading import read_suite
from dts_emulator.conformance.value_cases import VALUE_CASES
from dts_emulator.machine.flink import JARS
from tests.dts_emulator.conformance import flink_consumer
from tests.dts_emulator.conformance.plain_consumers import READERS, consume, has_rows

PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def line(consumer: str, format_name: str, verdicts: Sequence[Verdict]) -> str:
    """A line of the table: a consumer, a format, how many cases it has right, and those that it has wrong."""
    mine = [one for one in verdicts if one.case.format == format_name]
    wrong = [one.case.name for one in mine if one.outcome is Outcome.FAIL]
    names = ", ".join(f"`{name}`" for name in wrong)
    return f"| {consumer} | `{format_name}` | {len(mine) - len(wrong)} of {len(mine)} | {names} |"


def assert_shown(lines: Sequence[str]) -> None:
    shown = PAGE.read_text("utf-8").splitlines()
    missing = [one for one in lines if one not in shown]
    assert not missing, "docs/conformance.md lacks these lines:\n" + "\n".join(missing)


def test_a_plain_consumer_has_these_cases_wrong(suite: Path, tmp_path: Path) -> None:
    cases = [case for case in read_suite(suite) if case.format in READERS and has_rows(case)]
    ended = set()
    for case in cases:
        try:
            consume(case, tmp_path)
        except (ValueError, LookupError, DecodeError):
            ended.add(case.label)
    broken = {f"{name}/a_message_that_is_none" for name in READERS}
    assert ended == {*broken, "dts-protobuf/messages_that_a_producer_sends_twice"}
    verdicts = judge(cases, tmp_path)
    assert_shown([line("a plain consumer", name, verdicts) for name in READERS])


def test_a_reader_that_shares_nothing_agrees_with_the_model_on_every_kind_of_value(suite: Path, tmp_path: Path) -> None:
    """A mistake of the model or of an encoder would have to be made by this product and by plain loops alike."""
    right = set()
    for case in read_suite(suite):
        if case.format in READERS and case.name in {one.name for one in VALUE_CASES}:
            consume(case, tmp_path)
            (verdict,) = judge([case], tmp_path)
            if verdict.outcome is Outcome.PASS:
                right.add(case.name)
    assert right == {one.name for one in VALUE_CASES}


@pytest.mark.long
def test_flink_has_these_cases_wrong(suite: Path, tmp_path: Path) -> None:
    if not JARS.is_dir():
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "flink"], check=True)
    verdicts = flink_consumer.run(suite, tmp_path)
    assert_shown([line("Flink 2.0.0, `canal-json`", name, verdicts) for name in flink_consumer.FORMATS])
