"""Tasks of DRS by seed that are made anew while their messages move to other Kafka partitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from tests.stages.task_messages import Change, Sent, snapshot

_KEYS = range(12)


@dataclass
class MovedTasks:
    """One table with a key. ``events`` are the messages of each event once, in order; ``rows`` is the table at the end.

    ``unseen`` says that ids of a new task fall in no Kafka partition, so that nobody can know of it.
    """

    sent: list[Sent] = field(default_factory=list)
    events: list[Sent] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    borders: list[int] = field(default_factory=list)
    unseen: bool = False

    @classmethod
    def by_seed(cls, seed: int) -> MovedTasks:
        return _Source(seed).run()

    def differs(self, changes: list[Change]) -> bool:
        """Whether rows are others than the table's, or a change is missing or stands twice."""
        kept = Counter((one.at[1], one.key, one.note, one.op == "delete") for one in changes if one.op != "truncate")
        wanted = Counter((one.number, one.key, one.said, one.kind == "DELETE") for one in self.events)
        return snapshot(changes) != self.rows or kept != wanted


class _Source:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._partitions = self._random.choice([2, 2, 3])
        self._found = MovedTasks()
        self._moves = self._random.random() < 0.85
        self._shift, self._clock, self._version = 0, 1000, 0
        self._mine: list[Sent] = []
        """The messages of the present task."""

    def run(self) -> MovedTasks:
        random = self._random
        for number in range(random.choice([1, 2, 2, 2, 3, 4])):
            self._mine = []
            self._id = random.choice([0, 0, 1, 3] if number else [0, 5])
            self._clock += random.choice([0, 1, 5])
            before = len(self._found.sent)
            if number and random.random() < 0.4:
                for key, note in sorted(self._found.rows.items()):
                    self._id += 1
                    self._event("INIT", key, note)
            for _ in range(random.randint(1, 14)):
                self._change()
                self._trouble()
            self._found.unseen |= number > 0 and not self._falls(before)
        last = len(self._found.sent)
        self._found.borders = sorted(random.sample(range(1, last + 1), k=min(last, random.randint(0, 5))))
        return self._found

    def _falls(self, begin: int) -> bool:
        """Whether the first message behind a place has a lesser id than the one before, in some Kafka partition."""
        old, new = self._found.sent[:begin], self._found.sent[begin:]
        last, first = {one.partition: one.number for one in old}, {one.partition: one.number for one in reversed(new)}
        return any(number < last.get(partition, 0) for partition, number in first.items())

    def _change(self) -> None:
        random, rows = self._random, self._found.rows
        self._clock += random.choice([0, 1, 1, 3])
        self._id += random.choice([1, 1, 1, 2])
        count = random.choice([1, 1, 1, 2])
        kind = random.choice(["INSERT", "INSERT", "UPDATE", "DELETE"]) if rows else "INSERT"
        keys = [key for key in _KEYS if (key in rows) is (kind != "INSERT")]
        for key in random.sample(keys, k=min(count, len(keys))):
            self._version += 1
            note = rows.get(key, "") if kind == "DELETE" else random.choice([f"v{self._version}"] * 3 + ["a"])
            rows[key] = note
            if kind == "DELETE":
                del rows[key]
            self._event(kind, key, note)

    def _trouble(self) -> None:
        """Move messages to other Kafka partitions, or send some of the last ones again."""
        random = self._random
        what = random.random()
        if what < 0.12 and self._moves:
            self._shift += 1
        if what < 0.08 or 0.2 < what < 0.28:
            late = random.choice([0, 0, 0, 0, 7])
            for one in self._mine[-random.randint(1, 8) :]:
                self._send(replace(one, es=one.es + late, partition=self._partition(one.key)))

    def _event(self, kind: str, key: int, note: str) -> None:
        one = self._send(Sent(self._id, note, self._clock, 0, self._partition(key), kind, "orders", key))
        self._mine.append(one)
        self._found.events.append(one)

    def _send(self, one: Sent) -> Sent:
        sent = replace(one, tick=len(self._found.sent) + 1)
        self._found.sent.append(sent)
        return sent

    def _partition(self, key: int | None) -> int:
        return ((key or 0) + self._shift) % self._partitions
