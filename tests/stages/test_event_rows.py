"""Each row of an event that comes in a message of its own has its number, whatever cuts the messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.wire.dts_avro import DtsAvro
from tests.tiers import examples
from tests.wire.avro_messages import encoded
from tests.wire.made import messages
from tests.wire.scenarios import DATA

SCHEMA = (DATA / "dts-avro" / "Record.avsc").read_bytes()
START = datetime(2026, 1, 5, tzinfo=UTC)
CELL = Cell(0, Window(START, START + timedelta(hours=1)))


@dataclass
class Topic:
    """Messages of one Kafka partition, each with its number if it is a row.

    A text names what comes: ``B5`` is a BEGIN at position 5, ``r9`` a row of the event that ends at 9, ``K7`` a CHECKPOINT that
    says all up to 7 was sent, ``H`` a HEARTBEAT, ``C`` a COMMIT, ``@3`` the third message once more. ``copies`` are the places of
    such rows: their number is that of any row of their event which had come.
    """

    values: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sent: str, numbers: str = "") -> Topic:
        made, expected = cls(), iter(numbers.split())
        kinds: list[str] = []
        for one in sent.split():
            is_copy = one.startswith("@")
            if not is_copy:
                kinds.append(one)
            number = int(one[1:]) if is_copy else len(kinds)
            is_row = kinds[number - 1].startswith("r")
            if is_copy and is_row:
                made.copies[len(made.values)] = kinds.count(kinds[number - 1])
            made.values.append(message(number, kinds[number - 1]))
            made.numbers.append(int(next(expected)) if is_row and numbers and not is_copy else 0)
        return made

    def agrees(self, found: Sequence[int]) -> bool:
        """Whether all numbers are right."""
        return len(found) == len(self.numbers) and all(
            0 <= number < self.copies[place] if place in self.copies else number == self.numbers[place]
            for place, number in enumerate(found)
        )


@cache
def message(number: int, kind: str) -> bytes:
    names = {"B": "BEGIN", "C": "COMMIT", "K": "CHECKPOINT", "H": "HEARTBEAT", "D": "DDL", "r": "INSERT"}
    fields: dict[str, Any] = {
        "id": number, "version": 1, "messageType": names[kind[0]], "timestamp": 1_700_000_000, "sourceType": "MySQL",
        "serverId": 1,
    }  # fmt: skip
    if kind[0] != "H":
        fields |= {"fileName": "b.000001", "position": f"{kind[1:]}@1"}
    if kind[0] == "r":
        fields |= {
            "schemaName": "d", "tableName": "t", "columns": [{"name": "id", "isKey": True, "originalType": "int"}],
            "newColumns": [{"Integer": {"value": str(number)}}],
        }  # fmt: skip
    return encoded(SCHEMA, fields)


class Kept:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def entries(self, rows: pa.RecordBatch) -> None:
        self.numbers += rows["entry_number"].to_pylist()

    def rejected(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(rows.to_pylist())


def numbered(topic: Topic, cuts: Sequence[int], size: int, parts: Sequence[int] = ()) -> list[int]:
    """The number of every message, if windows are cut before ``cuts`` and read in batches of ``size``.

    A window is read in parts, too, which end before ``parts``, and goes on with the state that it had.
    """
    everything, found = messages(*topic.values), Kept()

    def before(offset: int) -> Iterator[pa.RecordBatch]:
        for end in range(offset, 0, -size):
            yield everything.slice(max(0, end - size), min(size, end))

    count = len(topic.values)
    for start, end in pairwise(sorted({0, count, *cuts})):
        resume = None
        for first, last in pairwise(sorted({start, end, *(one for one in parts if start < one < end)})):
            reading = CellReading(
                CELL,
                OffsetRange(first, last),
                0,
                DtsAvro(SCHEMA),
                before,
                True,
                False,
                is_open=last < end,
                resume=resume,
            )
            decoder = CellDecoder(reading, found)
            decoder.read(everything.slice(at, min(size, last - at)) for at in range(first, last, size))
            assert decoder.end == last
            resume = decoder.resume()
            assert resume is not None or last == end
    return found.numbers


@pytest.mark.more(after=3)
@pytest.mark.parametrize(
    ("sent", "numbers"),
    [
        ("B5 r9 r9 r9 r12 C15 B20 r25", "0 1 2 0 0"),
        ("r9 r9 r12 r12 r9", "0 1 0 1 0"),  # no marks in this Kafka partition
        ("B5 r9 r9 B5 r9 r9 r9 C15", "0 1 0 1 2"),  # torn, and read again
        ("r9 r9 @2 @2 r9", "0 1 2"),  # a producer that sends twice
        ("r9 r9 @1 @2 r9 r12", "0 1 2 0"),
        (
            "B5 r9 r9 r9 C12 B13 r20 @3 @4 r20 @2 r20 @6 C25",
            "0 1 2 0 1 2",
        ),  # what came before, in the middle of an event
        ("r9 r9 r12 @1 @2 r12 @2 K10 r12 @3 r12", "0 1 0 1 2 3"),
        ("r9 H r9 K4 r9", "0 1 2"),  # what comes between and ends nothing
        ("r9 r9 K9 r9 r9", "0 1 0 1"),  # all was sent, so these come again
        ("r9 r9 K30 r9", "0 1 0"),
        ("K4 r9 K4 r9", "0 1"),
        ("r9 D9 r9", "0 0"),
    ],
)
def test_a_row_has_its_place_in_its_event(sent: str, numbers: str) -> None:
    topic = Topic.of(sent, numbers)
    count = len(topic.values)
    for size in (1, 2, 3, 99):
        assert topic.agrees(numbered(topic, [], size))
        assert topic.agrees(numbered(topic, range(count), size)), "each message is a window of its own"
        assert topic.agrees(numbered(topic, [], size, range(count))), "each message is a part of its own"
        for cut in range(count):
            assert topic.agrees(numbered(topic, [cut], size)), cut


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    """Transactions in order, told again from some transaction on, perhaps in the middle of an event, with or without marks.

    Within a telling the producer may send a few messages twice.
    """
    marked = draw(st.booleans())
    events = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    sent: list[str] = []
    numbers: list[str] = []
    tellings = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=2))
    originals = 0
    for first, most in [(0, 99), *tellings]:
        told, telling = 0, list[str]()
        if not marked:
            telling.append(f"K{10 * len(events) + 9}")  # else nobody can tell where a telling begins
        for place, rows in enumerate(events):
            if place < first or told >= most:
                continue
            at = 10 * place + 9
            telling += [f"B{at - 5}"] if marked else []
            for number in range(rows):
                if told < most:
                    telling += draw(st.sampled_from(["", "", "", "H", f"K{at - 6}"])).split()
                    telling.append(f"r{at}")
                    numbers.append(str(number))
                told += 1
            telling += [f"C{at}"] if marked and told < most else []
        count = len(telling)
        sends_twice: bool = draw(st.booleans())
        if telling and sends_twice:
            start = draw(st.integers(0, count - 1))
            some = range(start, draw(st.integers(start, min(start + 4, count))))
            if sum(telling[one][0] in "KH" for one in some) < 2:  # nobody sends as much twice
                behind = draw(st.integers(some.stop, min(count, some.stop + 4)))
                telling[behind:behind] = [f"@{originals + one + 1}" for one in some]
        sent += telling
        originals += count
    return Topic.of(" ".join(sent), " ".join(numbers))


@pytest.mark.more
@examples(600)
@given(topics(), st.data())
def test_numbers_do_not_depend_on_windows_parts_and_batches(topic: Topic, data: st.DataObject) -> None:
    count = len(topic.values)
    cuts = data.draw(st.lists(st.integers(0, count), max_size=4))
    parts = data.draw(st.lists(st.integers(0, count), max_size=4))
    assert topic.agrees(numbered(topic, cuts, data.draw(st.integers(1, 9)), parts))


def test_an_event_that_began_many_batches_ago_is_counted_from_its_begin() -> None:
    topic = Topic.of("B5 " + "r9 " * 2000, " ".join(map(str, range(2000))))
    assert topic.agrees(numbered(topic, [1990], 64))
