"""DRS: a message with the id and the content of one in another Kafka partition is a copy, where its table has a key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.problems import Completeness, ProblemCode
from tests.flows.drs_avro_topic import in_drs_avro
from tests.flows.drs_avro_topic import settings as avro_settings
from tests.flows.harness import Bench, Harness, refresh, settle_open
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.flows.test_any_order import assert_equal
from tests.flows.test_live import content
from tests.tiers import chosen

pytestmark = pytest.mark.spark

SETTINGS: dict[str, Any] = {
    "format": "drs-json-c", "partitions": 3, "source_time_zone": "+08:00", "window": {"end": border(3)}, "history": ["*"],
}  # fmt: skip


@dataclass
class Task:
    """A task that sends changes of two tables into three Kafka partitions; ``lines`` has no key."""

    messages: list[Message] = field(default_factory=list)
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    copies: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    _offsets: Counter[int] = field(default_factory=Counter)
    _id: int = 100

    def change(self, at: datetime, table: str, rows: Iterable[int], kind: str = "INSERT", partition: int = 0) -> int:
        """Send a change; return its number among all that were sent."""
        self._id += 1
        keyed = table == "accounts"
        data = [{"id": str(row), "note": f"{kind} {self._id}"} for row in rows]
        body = {
            "mysqlType": {"id": "int", "note": "varchar"}, "id": self._id, "es": int(at.timestamp()) * 1000,
            "ts": int(at.timestamp() * 1000) + 5, "database": "bank", "table": table, "type": kind, "isDdl": False, "sql": "",
            "sqlType": {}, "data": data, "old": data if kind == "UPDATE" else None, "pkNames": ["id"] if keyed else None,
        }  # fmt: skip
        self.sent.append((partition, json.dumps(body).encode()))
        self.changes[table] += len(data)
        self._put(partition, at, self.sent[-1][1])
        return len(self.sent) - 1

    def begin_anew(self) -> None:
        """The task is made anew: ids begin again."""
        self._id = 100

    def again(self, at: datetime, number: int, partition: int) -> None:
        """Send a change again, into any Kafka partition, with another time of sending."""
        body = json.loads(self.sent[number][1])
        self.copies[body["table"]] += len(body["data"])
        self._put(partition, at, json.dumps({**body, "ts": body["ts"] + 777}).encode())

    def _put(self, partition: int, at: datetime, value: bytes) -> None:
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        self.messages.append(Message(partition, offset, at, value, offset))


def task_with_copies() -> Task:
    """Copies in the same window and in later ones, above and below the Kafka partition of the original, at ids that grow."""
    task = Task()
    at = border(0)
    for step in range(12):
        at = border(0) + timedelta(seconds=10 * step)
        number = task.change(at, "accounts", [step, 100 + step], partition=step % 3)
        task.change(at, "lines", [step], partition=step % 3)
        if step % 4 == 1:
            task.again(at + timedelta(seconds=2), number, (step + 1) % 3)
            task.again(at + timedelta(seconds=3), number + 1, (step + 1) % 3)
        if step % 4 == 2:
            task.again(at + timedelta(seconds=2), number, (step + 2) % 3)
            task.again(at + timedelta(seconds=3), number, (step + 1) % 3)
    for window in (1, 2):
        for step in range(6):
            at = border(window) + timedelta(seconds=10 * step)
            kind = "UPDATE" if step % 2 else "DELETE"
            task.change(at, "accounts", [window * 3 + step], kind, partition=step % 3)
        last = task.change(at, "accounts", [900 + window], partition=2)
        task.again(border(window + 1) - timedelta(seconds=3), last, 1)
        if window == 1:
            task.again(border(2) + timedelta(seconds=1), last, 0)  # in the next window, whose ids go on
    task.messages.sort(key=lambda one: (one.time, one.partition, one.offset))
    return task


def kept_and_redelivered(harness: Harness) -> tuple[Counter[str], Counter[str]]:
    kept, redelivered = Counter[str](), Counter[str]()
    for row in harness.pipeline.ledger.window_tables():
        kept[row.table.table] += row.kept
        redelivered[row.table.table] += row.redelivered
    return kept, redelivered


def assert_stored_once(task: Task, harness: Harness) -> None:
    kept, redelivered = kept_and_redelivered(harness)
    assert kept["accounts"] == task.changes["accounts"]
    assert redelivered["accounts"] == task.copies["accounts"] > 0
    assert kept["lines"] == task.changes["lines"] + task.copies["lines"]
    changelog = harness.rows("changelog", "bank", "accounts")
    assert len({(row["source_position"]["position"], row["row_number"]) for row in changelog}) == len(changelog)
    assert not harness.pipeline.ledger.lineages()[1:]
    problems = {problem.code for row in harness.pipeline.ledger.cuts() for problem in row.problems}
    assert problems == set()
    assert {row.completeness for row in harness.pipeline.ledger.cuts()} == {Completeness.OBSERVED}
    versions = harness.rows("history", "bank", "accounts")
    assert len({(row["id"], *row["_valid_from_position"].values()) for row in versions}) == len(versions)
    for row in harness.rows("redeliveries"):
        assert (row["kept_partition"], row["kept_offset"]) != (row["kafka_partition"], row["kafka_offset"])
        assert row["reason"] == "reread"


@pytest.mark.parametrize("order", chosen([(2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1), (1, 0, 2)], 1), ids=str)
def test_a_copy_in_another_kafka_partition_is_stored_once_in_any_order(
    bench: Bench, tmp_path: Path, order: tuple[int, ...]
) -> None:
    task = task_with_copies()
    capture = write_capture(tmp_path / "capture", task.messages)
    forwards = bench.open(capture, **SETTINGS)
    for number in range(3):
        forwards.all(number)
    assert forwards.settle() == 0
    assert_stored_once(task, forwards)
    other = bench.open(capture, **SETTINGS)
    for number in order:
        other.all(number)
    other.settle()
    assert_equal(other, forwards)


@pytest.mark.more
def test_a_task_that_sends_again_into_other_kafka_partitions_begins_nothing(bench: Bench, tmp_path: Path) -> None:
    """Ids fall there to ones that the Kafka partition never had: other Kafka partitions tell that they are copies."""
    task = Task()
    for step in range(30):
        at = border(step // 10) + timedelta(seconds=20 * (step % 10))
        task.change(at, "accounts", [step], partition=step % 3)
    for number in range(8, 24):  # the third window's end tells much of the first and all of the second again
        task.again(border(3) - timedelta(seconds=50 - number), number, (number + 1) % 3)
    for number in range(8, 24):  # and once more
        task.again(border(3) - timedelta(seconds=25 - number), number, (number + 2) % 3)
    messages = sorted(task.messages, key=lambda one: (one.time, one.partition, one.offset))
    capture = write_capture(tmp_path / "capture", messages)
    forwards = bench.open(capture, **SETTINGS)
    for number in range(3):
        forwards.all(number)
    assert_stored_once(task, forwards)
    backwards = bench.open(capture, **SETTINGS)
    for number in (2, 1, 0):
        backwards.all(number)
    backwards.settle()
    assert_equal(backwards, forwards)


@pytest.mark.more
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_messages_of_a_task_made_anew_in_two_kafka_partitions_are_of_a_lineage_of_their_own(
    bench: Bench, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Each of the two Kafka partitions told the other one that its message was an old one, and the row stayed as it was."""
    task = Task()
    for step in range(9):
        task.change(border(0) + timedelta(seconds=10 * step), "accounts", [step % 3], partition=step % 3)
    task.begin_anew()
    number = task.change(border(1) + timedelta(seconds=10), "accounts", [0, 1], "UPDATE")
    task.again(border(1) + timedelta(seconds=11), number, 1)
    harness = bench.open(write_capture(tmp_path / "capture", task.messages), **SETTINGS)
    for window in order:
        harness.all(window)
    harness.settle()
    notes = {row["id"]: row["note"] for row in harness.rows("snapshot", "bank", "accounts")}
    assert notes == {0: "UPDATE 101", 1: "UPDATE 101", 2: "INSERT 109"}
    assert len(harness.pipeline.ledger.lineages()) == 2
    assert kept_and_redelivered(harness)[1]["accounts"] == 2
    problems = {problem.code for row in harness.pipeline.ledger.cuts() for problem in row.problems}
    assert problems == {ProblemCode.LINEAGES}, "the third Kafka partition does not show the begin"


def named(rule: str) -> dict[str, Any]:
    """Settings that meet copies: shards that are merged with a row filter, soft deletes, and Avro's frames."""
    if rule == "merged":
        return {"merge": {"bank.all": ["bank.acc*"]}, "rows": {"bank.all": "id <> 3"}, "deletes": {"*": "soft"}}
    return {}


@pytest.mark.more
@pytest.mark.parametrize("rule", ["merged", "drs-avro", "drs-json"])
def test_copies_meet_other_features(bench: Bench, tmp_path: Path, rule: str) -> None:
    task = task_with_copies()
    settings = {**SETTINGS, **named(rule)}
    if rule == "drs-json":
        settings["format"] = rule
    messages = task.messages
    if rule == "drs-avro":
        messages = in_drs_avro(messages, seed=3)
        settings |= avro_settings(tmp_path)
    capture = write_capture(tmp_path / "capture", messages)
    forwards = bench.open(capture, **settings)
    for number in range(3):
        forwards.all(number)
    table = "all" if rule == "merged" else "accounts"
    kept, redelivered = kept_and_redelivered(forwards)
    filtered = sum(row.filtered for row in forwards.pipeline.ledger.window_tables() if row.table.table == table)
    assert kept[table] + filtered == task.changes["accounts"]
    assert (filtered > 0) is (rule == "merged")
    assert redelivered[table] == task.copies["accounts"]
    backwards = bench.open(capture, **settings)
    for number in (2, 1, 0):
        backwards.all(number)
    backwards.settle()
    assert_equal(backwards, forwards)


@pytest.mark.more
def test_an_original_may_come_behind_its_copy_into_an_open_window(bench: Bench, tmp_path: Path) -> None:
    """Kafka partition 0 is read later: of equal messages of a window it has the first one, wherever it was read first."""
    task = Task()
    for step in range(8):
        task.change(border(0) + timedelta(seconds=5 * step), "accounts", [step], partition=1 + step % 2 if step else 0)
    early, late = len(task.messages), border(0) + timedelta(seconds=60)
    for number in (1, 4, 5):
        task.again(late, number, 0)
    task.change(late, "accounts", [77], partition=1)
    messages = task.messages
    ends = [Message(one, 99, border(1) + timedelta(seconds=1), None, 99) for one in range(3)]
    settings: dict[str, Any] = {**SETTINGS, "complete": False, "window": {"live": True, "end": border(3)}}
    capture = tmp_path / "capture"
    followed = bench.open(capture, **settings)
    for name, some in (("a", messages[:early]), ("b", messages[early:]), ("c", ends)):
        write_capture(capture, some, name=name)
        refresh(followed)
        changelog = followed.rows("changelog", "bank", "accounts")
        assert len({row["source_position"]["position"] for row in changelog}) == len(changelog)
    settle_open(followed, rounds=10)
    assert any("other changes than before are copies" in line for line in followed.lines)
    at_once = bench.open(write_capture(tmp_path / "whole", [*messages, *ends]), **settings)
    settle_open(at_once, rounds=10)
    found, expected = content(followed), content(at_once)
    for name, rows in expected.items():
        assert found[name] == rows, name
    first = {
        row["source_position"]["position"]: row["kafka_partition"]
        for row in at_once.rows("changelog", "bank", "accounts")
    }
    assert [place for place, partition in sorted(first.items()) if partition == 0] == [101, 102, 105, 106]
