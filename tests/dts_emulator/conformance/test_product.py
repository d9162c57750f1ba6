"""This product ends every case of the suite with the rows of the model, and with each change once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dts_emulator.conformance.catalog import places
from dts_emulator.conformance.judge import Outcome, judge
from dts_emulator.conformance.reading import ReadCase, read_suite
from tests.dts_emulator.conformance.product import consumed, write_result
from tests.tiers import chosen

LABELS = [f"{name}/{case.name}" for name, case in places()]
FIRST = [
    "dts-protobuf/redelivery_in_other_pieces", "dts-avro/another_server_tells_changes_again",
    "dts-json/null_and_empty", "drs-json/postgresql_large_value_that_was_not_logged", "drs-json/dds_updates_by_paths",
    "drs-json-c/full_load_and_changes", "drs-avro/records_in_containers", "canal-json/a_message_that_is_none",
]  # fmt: skip
"""Cases of all formats that the first tier runs."""


@pytest.fixture(scope="module")
def cases(suite: Path) -> dict[str, ReadCase]:
    return {case.label: case for case in read_suite(suite)}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("label", chosen([*FIRST, *(one for one in LABELS if one not in FIRST)], len(FIRST)))
def test_the_product_passes_every_case(cases: dict[str, ReadCase], label: str, tmp_path: Path) -> None:
    case, results = cases[label], tmp_path / "results"
    write_result(case, consumed(case, tmp_path), results)
    wanted = {one["file"] for one in case.described["tables"] if one["changes"] is not None}
    assert {path.name for path in results.glob("*/*/changes/*.jsonl")} == wanted, "changes are judged, too"
    (verdict,) = judge([case], results)
    assert (verdict.outcome, verdict.differences) == (Outcome.PASS, ())
    found = json.loads((results / label / "quarantine.json").read_text())
    assert found == case.described["quarantine"]


def test_the_first_tier_has_every_format() -> None:
    assert {label.partition("/")[0] for label in FIRST} == {name for name, _ in places()}
    assert set(FIRST) <= set(LABELS)
