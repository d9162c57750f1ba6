"""The facts of a cell's entries, as its decoding finds them: the product's own trackers see the entries of each message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dts_assets.model.ledger_rows import Counts
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.ingest_marks import Decoded
from dts_assets.stages.delivery_tracker import Delivery
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.run_tracker import RunTracker
from tests.stages.streams import batches
from tests.year.topic import Message


@dataclass(frozen=True)
class Earlier:
    """The stored cells before a cell, nearest first, and whether nothing before them can ever be stored."""

    cells: Sequence[Cell]
    messages: Mapping[Cell, Sequence[Message]]
    reaches_start: bool

    def head_of(self, tail: Message) -> tuple[list[int], list[Cell]]:
        """The offsets before a part that comes first in its cell, and the cells that were asked for them.

        Fewer offsets than the part's number: the head is not there.
        """
        found: list[int] = []
        asked: list[Cell] = []
        for cell in self.cells:
            asked.append(cell)
            for message in reversed(self.messages[cell]):
                if len(found) == tail.part or message.part != tail.part - len(found) - 1:
                    return found[::-1], asked
                found.append(message.offset)
            if len(found) == tail.part:
                break
        return found[::-1], asked


@dataclass
class _Facts:
    """What is found on the way through the messages of a cell."""

    counts: Counts
    current: list[int]
    total: int = 0
    found: tuple[OpenSet, ...] = ()
    heads_from: tuple[Cell, ...] = ()
    problems: tuple[Problem, ...] = ()
    looked_beyond: bool = False
    foreign: int = 0
    """The parts of the present set whose fate an earlier cell counts."""

    def count(self, **more: int) -> None:
        self.counts += Counts(**more)

    def give_up(self) -> None:
        """Something else came than the next part of the set: the rest of it is lost."""
        self.count(quarantined_fragments=len(self.current) - self.foreign, broken_sets=1)
        problem = Problem(ProblemCode.QUARANTINED, self.current[0], self.current[-1], "parts are missing")
        self.problems, self.current, self.foreign = (*self.problems, problem), [], 0


def decode(
    offsets: OffsetRange,
    messages: Sequence[Message],
    earlier: Earlier,
    *,
    known: tuple[OpenSet, ...] | None,
    still_open: bool,
) -> Decoded:
    """The facts of a cell; ``known`` are the sets that the cell before leaves open, None where that is not known."""
    whole = _up_to_the_last_whole_set(messages) if still_open else messages
    end = messages[len(whole)].offset if len(whole) < len(messages) else offsets.end
    messages = whole
    facts = _Facts(Counts(messages=len(messages)), [])
    for one in known or ():
        facts.current, facts.total = list(one.offsets), one.total
        facts.count(carried_in=len(one.offsets))
        facts.heads_from = tuple(_holding(earlier, one.offsets))
    decoded: list[Message] = []
    for message in messages:
        if facts.current and message.part != len(facts.current):
            facts.give_up()
        if message.parts == 1:
            facts.count(whole=1, decoded_sets=1)
            decoded.append(message)
        elif _joins(message, facts, earlier, known):
            decoded.append(message)
    left = (OpenSet("", facts.total, tuple(facts.current)),) if facts.current else ()
    if facts.current:
        facts.count(carried_out=len(facts.current))
    entries = sum(len(message.entries) for message in decoded)
    data = sum(one.event.kind == "DML" for message in decoded for one in message.entries)
    facts.count(entries=entries, data=data, control=entries - data)
    found = _tracked(OffsetRange(offsets.start, end), messages, decoded, facts)
    return replace(found, left_open=left, taken_over=facts.found if known is None else known)


def _up_to_the_last_whole_set(messages: Sequence[Message]) -> Sequence[Message]:
    """Leave out the parts at the end whose set goes on behind them."""
    last = messages[-1] if messages else None
    if last is None or last.part == last.parts - 1 or last.part >= len(messages):
        return messages
    return messages[: len(messages) - last.part - 1]


def _joins(message: Message, facts: _Facts, earlier: Earlier, known: tuple[OpenSet, ...] | None) -> bool:
    """Take note of a part of a set; whether it makes the set whole."""
    facts.count(fragments=1)
    if message.part == 0:
        facts.current, facts.total = [message.offset], message.parts
        return False
    if not facts.current:
        head, asked = earlier.head_of(message)
        facts.heads_from = (*facts.heads_from, *asked)
        if len(head) < message.part:
            facts.looked_beyond = True
            _miss(message, facts, earlier)
            return False
        if known is None:
            facts.found = (OpenSet("", message.parts, tuple(head)),)
            facts.count(carried_in=len(head))
        else:
            facts.foreign = len(head)
        facts.current, facts.total = head, message.parts
    facts.current.append(message.offset)
    if len(facts.current) < message.parts:
        return False
    facts.count(joined=len(facts.current) - facts.foreign, joined_sets=1, decoded_sets=1)
    facts.current, facts.foreign = [], 0
    return True


def _miss(message: Message, facts: _Facts, earlier: Earlier) -> None:
    """A part without a head: it waits while earlier messages may still be stored."""
    code = ProblemCode.QUARANTINED if earlier.reaches_start else ProblemCode.WAITING
    facts.problems = (*facts.problems, Problem(code, message.offset, message.offset, "its head is not there"))
    if earlier.reaches_start:
        facts.count(quarantined_fragments=1, broken_sets=1)
    else:
        facts.count(waiting=1)


def _holding(earlier: Earlier, offsets: Iterable[int]) -> list[Cell]:
    """The cells that are asked for some offsets, nearest first."""
    missing, asked = set(offsets), []
    for cell in earlier.cells:
        if not missing:
            break
        asked.append(cell)
        missing -= {message.offset for message in earlier.messages[cell]}
    return asked


def _tracked(offsets: OffsetRange, messages: Sequence[Message], decoded: Sequence[Message], facts: _Facts) -> Decoded:
    """Let the trackers see the messages and the entries of the sets that became whole."""
    runs, delivery = RunTracker(), Delivery(offsets)
    if messages:
        nothing = pa.RecordBatch.from_pydict(
            {
                "sequence": pa.array([None] * len(messages), pa.int64()),
                "shard": pa.array([None] * len(messages), pa.string()),
            }
        )
        delivery.see_messages(pa.array([one.offset for one in messages], pa.int64()), nothing)
    entries = [one for message in decoded for one in message.entries]
    if entries:
        rows = {one.offset: place for place, one in enumerate(entries)}
        checkpoints = tuple(
            replace(message.checkpoint, index=rows[message.offset]) for message in decoded if message.checkpoint
        )
        columns = EntryColumns.of(*batches(entries), checkpoints)
        runs.see(columns)
        delivery.see_entries(columns)
    return Decoded(
        offsets.end, facts.counts, delivery.result(), (*facts.problems, *delivery.problems()), runs=runs.runs(),
        checkpoints=runs.checkpoints(), statements=runs.statements(),
        heads_from=tuple(dict.fromkeys(facts.heads_from)), looked_beyond=facts.looked_beyond,
    )  # fmt: skip
