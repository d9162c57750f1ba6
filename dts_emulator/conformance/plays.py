"""Ways to tell a story: from end to end, with restarts, other pieces, other servers, a full load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dts_assets.model.gtids import GtidSet
from dts_emulator.conformance.formats import ABILITIES
from dts_emulator.conformance.story import Story
from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.messages.clocks import SECOND, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.messages.task import Task
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS, TaskOptions

AFTERWARDS = 60
"""The seconds that a task goes on behind the last transaction, so that a CHECKPOINT follows it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A format and the options of its task."""

    format: str
    options: TaskOptions

    @property
    def copies(self) -> str:
        """The fact that tells a message which was sent again."""
        return ABILITIES[self.format].copies


Play = Callable[[Stage, Story], list[Message]]


def stage_of(name: str, given: Mapping[str, Any]) -> Stage:
    """Return a stage with the options that the format's task knows; others are for other formats."""
    vendor = VENDOR_TASKS[name]
    return Stage(name, vendor.options(**{key: one for key, one in given.items() if key in vendor.parameters}))


def from_end_to_end(stage: Stage, story: Story) -> list[Message]:
    """Tell everything once."""
    until = story.now + AFTERWARDS
    return list(VENDOR_TASKS[stage.format].recording(story.transactions, stage.options, until))


def restarted(stage: Stage, story: Story) -> list[Message]:
    """Stop behind the mark ``stopped`` and go on from ``kept``: the part between them comes twice."""
    return _restarted(stage, story)


def restarted_within_pieces(stage: Stage, story: Story) -> list[Message]:
    """Stop before the last piece of a large set, and go on with pieces of another size.

    Only formats with pieces have this.
    """
    return _restarted(stage, story, lost=1, other={"max_message_bytes": 170})


def made_anew(stage: Stage, story: Story) -> list[Message]:
    """Make another task behind the mark ``stopped``, which reads on and numbers its messages from one."""
    stopped = story.marks["stopped"]
    first = _Told(stage, stage.options)
    first.tell(story.transactions[:stopped])
    second = _Told(stage, stage.options, now=first.clock.now)
    number = 0 if stage.copies == "id" else first.task.number
    end = story.transactions[stopped - 1].end
    second.task.resume(end, synced=first.task.synced, number=number, sent=first.task.sent)
    second.tell(story.transactions[stopped:], until=story.now + AFTERWARDS)
    return [*first.messages, *second.messages]


def with_full_load(stage: Stage, story: Story) -> list[Message]:
    """Tell what was there at the mark ``loaded`` as a full load."""
    count = story.marks["loaded"]
    if stage.copies == "nothing":
        messages = from_end_to_end(stage, story)
        return [
            replace(one, value=one.value.replace(b'"type":"INSERT"', b'"type":"INIT"')) if number < count else one
            for number, one in enumerate(messages)
        ]
    assert isinstance(stage.options, DrsOptions)
    options = replace(stage.options, full_load_until=story.transactions[count - 1].end.timestamp)
    return from_end_to_end(replace(stage, options=options), story)


def with_escapes(stage: Stage, story: Story) -> list[Message]:
    """Write every character beyond ASCII as an escape, and slashes, too: JSON has equal texts then."""
    return [replace(one, value=_escaped(one.value.decode()).encode("ascii")) for one in from_end_to_end(stage, story)]


def with_broken_messages(stage: Stage, story: Story) -> list[Message]:
    """Put a message that is none behind the first one of each Kafka partition."""
    found: list[Message] = []
    later: dict[int, int] = {}
    for one in from_end_to_end(stage, story):
        shift = later.setdefault(one.partition, 0)
        found.append(replace(one, offset=one.offset + shift))
        if not shift:
            later[one.partition] = 1
            found.append(replace(one, offset=one.offset + 1, value=b"\xff\xfe no message", headers=()))
    return found


def with_repeated_messages(stage: Stage, story: Story) -> list[Message]:
    """Send every third message of a Kafka partition twice, as a producer does that got no answer."""
    found: list[Message] = []
    offsets: Counter[int] = Counter()
    for one in from_end_to_end(stage, story):
        for _ in range(2 if one.offset % 3 == 1 else 1):
            found.append(replace(one, offset=offsets[one.partition]))
            offsets[one.partition] += 1
    return found


class _Told:
    """A task with its clock, and the messages that it has sent."""

    def __init__(self, stage: Stage, options: TaskOptions, *, now: int = 0) -> None:
        self.clock = SourceClock(options.bytes_per_second, now)
        self.task: Task = VENDOR_TASKS[stage.format].following(options, self.clock)
        self.messages: list[Message] = []
        self.behind: list[tuple[int, GtidSet]] = []
        """The last number of the task behind each transaction, and what it had sent then."""

    def tell(self, transactions: Sequence[Transaction], *, until: int | None = None) -> None:
        """Send the messages of transactions, and of the time between them and until a second of the source."""
        for one in transactions:
            self.messages += self._passing(one.end.timestamp)
            self.messages += self.task.send(one)
            self.behind.append((self.task.number, self.task.synced))
        self.messages += self.task.flush()
        if until is not None:
            self.messages += self._passing(until)

    def _passing(self, seconds: int) -> Iterator[Message]:
        return self.task.advance(seconds * SECOND + self.task.latency_ms * 1000)


def _restarted(stage: Stage, story: Story, *, lost: int = 0, other: Mapping[str, Any] | None = None) -> list[Message]:
    kept, stopped = story.marks["kept"], story.marks["stopped"]
    first = _Told(stage, stage.options)
    first.tell(story.transactions[:stopped])
    sent = list(first.task.sent)
    for _ in range(lost):
        sent[first.messages.pop().partition] -= 1
    options = replace(stage.options, **(other or {}))
    second = _Told(stage, options, now=first.clock.now)
    number, synced = first.behind[kept - 1]
    second.task.resume(story.transactions[kept - 1].end, synced=synced, number=number, sent=sent)
    second.tell(story.transactions[kept:], until=story.now + AFTERWARDS)
    return [*first.messages, *second.messages]


def _escaped(text: str) -> str:
    """Return a text of JSON with UTF-16 escapes for what is beyond ASCII."""
    units = "".join(one if one < "\x7f" else "".join(f"\\u{unit:04X}" for unit in _utf16(one)) for one in text)
    return units.replace("/", "\\/")


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]
