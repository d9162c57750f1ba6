"""A stream from a PostgreSQL in memory: transactions side by side, rows that share a place, restarts, and what comes twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from hypothesis import strategies as st

from tests.stages.streams import EPOCH, Delivered, Event


@dataclass
class Log:
    """A stream of one Kafka partition. The truth are the changes in the order of their commits."""

    shares_commits: bool
    delivered: list[Delivered] = field(default_factory=list)
    truth: list[tuple[int, int]] = field(default_factory=list)
    sent: int = 0

    def send(self, told: tuple[Event, int], time: int) -> None:
        """Deliver an entry, given with its place."""
        self.sent += 1
        event, place = told
        moment = EPOCH + timedelta(seconds=time)
        self.delivered.append(
            Delivered(0, self.sent - 1, self.sent, event, 0, None, 0, place, moment, self.sent)
        )  # fmt: skip

    def send_again(self) -> None:
        """Deliver the last entry once more, as a producer does that got no answer: with its numbers."""
        last = self.delivered[-1]
        self.delivered.append(
            Delivered(0, self.sent, self.sent, last.event, 0, None, 0, last.position, last.time, last.sequence)
        )
        self.sent += 1


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Some transactions that run side by side, told with restarts in their middle."""
    found = Log(shares_commits=draw(st.booleans()))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    steps = draw(st.permutations([number for number, size in enumerate(sizes) for _ in range(size + 1)]))
    places: dict[int, list[int]] = {}
    commits: list[int] = []
    place, before = 0, -1
    for number in steps:
        mine = places.setdefault(number, [])
        is_commit = len(mine) == sizes[number]
        if not (number == before and not is_commit and draw(st.booleans())):  # else they are rows of one COPY
            place += 8
        mine.append(place)
        before = number
        if is_commit:
            commits.append(number)
    told: list[tuple[list[tuple[Event, int]], int]] = []
    for order, number in enumerate(commits):
        mine = [places[number][-1]] * len(places[number]) if found.shares_commits else places[number]
        changes = [(Event((number, at + 1), "DML", 0, 1), one) for at, one in enumerate(mine[:-1])]
        ends = (Event((number, len(mine)), "COMMIT", None, 0), mine[-1])
        told.append(([(Event((number, 0), "BEGIN", None, 0), mine[0]), *changes, ends], order // 2))
    for order, (entries, time) in enumerate(told):
        if draw(st.integers(0, 3)) == 0:
            for entry in entries[: draw(st.integers(0, len(entries)))]:
                found.send(entry, time)
            for again, earlier in told[draw(st.integers(0, order)) : order]:
                for entry in again:
                    found.send(entry, earlier)
        for entry in entries:
            found.send(entry, time)
            if draw(st.integers(0, 9)) == 0:
                found.send_again()
        found.truth += [event.identity for event, _ in entries if event.kind == "DML"]
    return found


def table_of(event: Event) -> str | None:
    """The table of a change; neighbours are of different ones."""
    return "tu"[sum(event.identity) % 2] if event.kind == "DML" else None


def log_entries(delivered: Sequence[Delivered]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Entries (the columns that identity and order need) and their sets, one row each, in offset order."""
    rows = sorted(delivered, key=lambda one: one.place)
    count = len(rows)
    are_changes = [one.event.kind == "DML" for one in rows]
    entries = pa.RecordBatch.from_pydict(
        {
            "set_index": pa.array(range(count), pa.int32()),
            "entry_number": pa.array([0] * count, pa.int32()),
            "message_type": pa.array([one.event.kind for one in rows], pa.string()),
            "source_type": pa.array(["PGSQL"] * count, pa.string()),
            "event_time": pa.array([one.time for one in rows], pa.timestamp("us", tz="UTC")),
            "gtid": pa.nulls(count, pa.string()),
            "server_id": pa.array([one.server for one in rows], pa.int64()),
            "seq_id": pa.array([one.sequence for one in rows], pa.int64()),
            "file_name": pa.nulls(count, pa.string()),
            "position": pa.array([one.position for one in rows], pa.int64()),
            "database": pa.array(["" if one else None for one in are_changes], pa.string()),
            "schema": pa.array(["public" if one else None for one in are_changes], pa.string()),
            "table": pa.array([table_of(one.event) for one in rows], pa.string()),
            "rows": pa.array([1 if one else None for one in are_changes], pa.int32()),
            "sequence": pa.array([one.sequence for one in rows], pa.int64()),
            "shard": pa.nulls(count, pa.string()),
            "last_offset": pa.array([one.offset for one in rows], pa.int64()),
        }
    )
    return entries, entries.select(["last_offset", "shard"])
