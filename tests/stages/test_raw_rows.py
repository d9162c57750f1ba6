"""The digest of messages: the same for the same messages however they are cut, another for anything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.stages.raw_rows import ContentDigest
from dts_assets.wire.format import MESSAGES

START = datetime(2026, 1, 1, tzinfo=UTC)


def message(number: int) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": 0,
        "offset": number,
        "timestamp": START + timedelta(seconds=number),
        "key": None if number % 3 else b"key",
        "value": None if number % 5 == 0 else bytes([number]) * number,
        "headers": None if number % 7 == 0 else [{"key": "ps", "value": str(number).encode()}] * (number % 3),
    }


def digest(messages: list[dict[str, Any]], *, step: int = 100) -> str:
    made = ContentDigest()
    batch = pa.RecordBatch.from_pylist(messages, MESSAGES)
    for start in range(0, len(messages), step):
        made.add(batch.slice(start, step))
    return made.text()


@pytest.mark.parametrize("step", [1, 7, 49])
def test_batches_make_no_difference(step: int) -> None:
    messages = [message(number) for number in range(50)]
    assert digest(messages, step=step) == digest(messages)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 99},
        {"timestamp": START},
        {"key": b"other"},
        {"key": b""},
        {"value": b"\xff" * 20},
        {"value": None},
        {"headers": []},
        {"headers": [{"key": "ps", "value": b"7"}]},
    ],
)
def test_every_difference_shows(change: dict[str, Any]) -> None:
    messages = [message(number) for number in range(19, 23)]
    messages[1] |= {"value": b"a" * 20}
    other = [messages[0], {**messages[1], **change}, *messages[2:]]
    assert digest(other) != digest(messages)


def test_bytes_that_moved_to_the_neighbour_show() -> None:
    one, other = message(1), message(2)
    assert digest([{**one, "value": b"ab"}, {**other, "value": b"c"}]) != digest(
        [{**one, "value": b"a"}, {**other, "value": b"bc"}]
    )
