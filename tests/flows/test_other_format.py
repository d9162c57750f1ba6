"""A window whose messages are of another format than the configuration says names that format, and nothing else of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.problems import Problem, ProblemCode
from tests.flows.drs_task import DrsTask
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.source import Message, write_capture

pytestmark = pytest.mark.spark


def task_of(form: str) -> DrsTask:
    task = DrsTask(7, form=form)
    task.work(border(0) + timedelta(seconds=5), 60)
    return task


def opened(bench: Bench, capture: Path, form: str, *, name: str | None = None) -> Harness:
    harness = bench.open(capture, name=name, format=form, partitions=2, window={"end": border(2)})
    harness.settle()
    return harness


def format_problems(harness: Harness) -> list[Problem]:
    rows = harness.pipeline.ledger.windows()
    assert rows
    return [problem for row in rows for problem in row.problems if problem.code is ProblemCode.FORMAT]


def test_the_first_window_names_the_format_that_the_messages_look_like(bench: Bench, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", task_of("drs-json").messages)
    found = format_problems(opened(bench, capture, "dts-protobuf"))
    assert len(found) == 2, "one for each Kafka partition with messages"
    for problem in found:
        assert problem.detail.endswith(
            " messages that were looked at look like drs-json: see `format` in the configuration"
        )
    assert format_problems(opened(bench, capture, "drs-json")) == []


@pytest.mark.more
def test_a_run_with_the_right_format_heals_everything(bench: Bench, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", task_of("drs-json").messages)
    assert format_problems(opened(bench, capture, "dts-protobuf", name="healed"))
    healed, right = (opened(bench, capture, "drs-json", name=name) for name in ("healed", "right_from_the_start"))
    assert format_problems(healed) == []
    tables = known_tables(right.pipeline)
    assert known_tables(healed.pipeline) == tables != {}
    for table in tables:
        for layer in ("changelog", "snapshot"):
            mine, other = (sorted(map(str, one.rows(layer, *table.path))) for one in (healed, right))
            assert mine == other != []


def test_a_few_bad_messages_are_no_other_format(bench: Bench, tmp_path: Path) -> None:
    task = task_of("drs-json-c")
    debezium = b'{"op": "c", "source": {}, "after": {"id": "secret-of-a-row"}}'
    bad = [Message(0, 10_000 + number, border(1), debezium, 10_000 + number) for number in range(5)]
    capture = write_capture(tmp_path / "capture", [*task.messages, *bad])
    (found,) = format_problems(opened(bench, capture, "drs-json-c"))
    assert (
        "5 of 5 messages that were looked at look like Debezium JSON, which this version does not read" in found.detail
    )
    assert "secret" not in found.detail, "the second window holds nothing else, the first one is not concerned"


def test_what_is_neither_is_named_as_nothing(bench: Bench, tmp_path: Path) -> None:
    noise = [Message(0, number, border(0), b"\xff\xff%d" % number, number) for number in range(100, 200)]
    capture = write_capture(tmp_path / "capture", noise)
    harness = opened(bench, capture, "drs-json")
    assert format_problems(harness) == []
    assert any(row.counts.quarantined_sets == 100 for row in harness.pipeline.ledger.windows())
