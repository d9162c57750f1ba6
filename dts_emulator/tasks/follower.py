"""A process between a live server and a topic, which reads ahead, sends, and keeps its progress."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dts_assets.model.gtids import GtidSet
from dts_emulator.errors import EmulatorError
from dts_emulator.kafka.topic_producer import Topic
from dts_emulator.messages.clocks import SECOND
from dts_emulator.messages.message import Message
from dts_emulator.messages.task import Task
from dts_emulator.source.binlog import Place, first_place, read_transactions
from dts_emulator.source.events import Coordinates, Ddl, Rows, Transaction
from dts_emulator.source.private_mysql import private_twin
from dts_emulator.source.server import Server
from dts_emulator.source.source_schema import ReplayedCatalog
from dts_emulator.tasks.task_progress import Progress, read_progress

_HISTORY_ID = 4_000_000_004
_SAVE_SECONDS = 2.0
"""Between two moments that the checkpoint file is written for."""
_IDLE_SECONDS = 0.2
"""The longest time that a signal waits for its effect."""
_LAST_SECONDS = 10.0
"""The longest time that the end waits for the broker."""
_READ_AHEAD = 500
"""Transactions that are read and not yet sent, at most."""


@dataclass(slots=True)
class WallClock:
    """The time as it is. Sending takes as long as the rate says; None: as long as it takes."""

    ended: threading.Event
    messages_per_second: float | None = None
    bytes_per_second: float | None = None
    _free_at: float = 0.0

    @property
    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000

    def reach(self, instant: int) -> None:
        """Time passes by itself."""

    def sent(self, size: int) -> None:
        """Wait until the rate lets the next message be sent."""
        cost = 1 / self.messages_per_second if self.messages_per_second else 0.0
        if self.bytes_per_second:
            cost = max(cost, size / self.bytes_per_second)
        if cost:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + cost
            self.ended.wait(self._free_at - now)


@dataclass(slots=True)
class Feed:
    """Reads transactions ahead in a thread of its own, each with the time at which it was read."""

    transactions: Iterator[Transaction]
    _queue: queue.Queue[tuple[float, Transaction | Exception]] = field(default_factory=lambda: queue.Queue(_READ_AHEAD))

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="binlog", daemon=True).start()

    def next(self, seconds: float) -> tuple[float, Transaction] | None:
        """Return the next transaction with its time; None if there is none within ``seconds``.

        Raises:
            Exception: Whatever reading has raised.
        """
        try:
            read_at, found = self._queue.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return read_at, found

    def _read(self) -> None:
        try:
            for transaction in self.transactions:
                self._queue.put((time.monotonic(), transaction))
            self._queue.put((0.0, EmulatorError("the server has ended its binlog")))
        except Exception as error:  # of whatever kind: it is raised where somebody waits for the next one
            self._queue.put((0.0, error))


class Follower:
    """A task of one of the two formats between a feed and a topic."""

    def __init__(self, task: Task, topic: Topic, clock: WallClock, checkpoint: Path | None) -> None:
        self.task = task
        self.topic = topic
        self.rows = 0
        """Row changes sent so far."""
        self.paused = False
        self._clock = clock
        self._checkpoint = checkpoint
        self._at: Coordinates | None = None
        self._statements: list[tuple[str, str]] = []
        self._waiting: tuple[Progress, list[int]] | None = None
        self._saved = time.monotonic()

    def begin(self, at: Coordinates, progress: Progress | None) -> None:
        """Stand at the end of ``at``; go on with the numbers of ``progress``.

        Raises:
            BrokerUnavailable: Kafka does not answer.
        """
        self._at = at
        known = progress or Progress(at, "", 0, (0,) * self.topic.partitions, ())
        self._statements = list(known.statements)
        numbers = self.topic.last_numbers(known.sent)
        self.task.resume(at, synced=GtidSet.parse(known.synced), number=known.number, sent=numbers)

    def run(self, feed: Feed) -> None:
        """Send until the clock's ``ended`` is set, then wait for the broker and save.

        Raises:
            EmulatorError: The server or the broker has gone for good.
        """
        ended = self._clock.ended
        while not ended.is_set():
            if self.paused:
                ended.wait(_IDLE_SECONDS)
            else:
                found = feed.next(min(self._seconds_until_due(), _IDLE_SECONDS))
                if found is not None:
                    self._wait_until(found[0] + self.task.latency_ms / 1000)
                    self._advance()
                    self._send(found[1])
                else:
                    self._advance()
            self.topic.poll()
            self._save()
        self._put(self.task.flush())
        progress = self._progress()
        if self.topic.flush(_LAST_SECONDS) and self._checkpoint is not None:
            progress.write(self._checkpoint)

    def _seconds_until_due(self) -> float:
        due = self.task.due
        return _IDLE_SECONDS if due is None else (due - self._clock.now) / SECOND

    def _wait_until(self, moment: float) -> None:
        """Wait for the time of a transaction, and send the messages that fall due before."""
        while (left := moment - time.monotonic()) > 0 and not self._clock.ended.is_set():
            self._advance()
            self._clock.ended.wait(min(left, max(self._seconds_until_due(), 0.001), _IDLE_SECONDS))

    def _advance(self) -> None:
        self._put(self.task.advance(self._clock.now))

    def _send(self, transaction: Transaction) -> None:
        self._put(self.task.send(transaction))
        self._at = transaction.end
        for event in transaction.events:
            if isinstance(event, Rows):
                self.rows += len(event.rows)
            elif isinstance(event, Ddl):
                self._statements.append((event.database, event.sql))

    def _put(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.topic.send(message)

    def _save(self) -> None:
        """Write the checkpoint file when Kafka has everything before its moment; then choose the next moment."""
        if self._checkpoint is None:
            return
        if self._waiting is not None:
            progress, sent = self._waiting
            if all(done >= wanted for done, wanted in zip(self.topic.acknowledged, sent, strict=True)):
                progress.write(self._checkpoint)
                self._waiting = None
        elif time.monotonic() - self._saved >= _SAVE_SECONDS:
            self._saved = time.monotonic()
            self._put(self.task.flush())
            self._waiting = (self._progress(), list(self.topic.sent))

    def _progress(self) -> Progress:
        assert self._at is not None, "begin() comes first"
        task = self.task
        return Progress(self._at, str(task.synced), task.number, tuple(task.sent), tuple(self._statements))


def follow(server: Server, follower: Follower, checkpoint: Path | None) -> None:
    """Send the server's transactions until the follower's clock has ended.

    Raises:
        EmulatorError: The server or the broker has gone for good.
    """
    progress = read_progress(checkpoint) if checkpoint is not None else None
    follower.topic.check()
    with _history(server, checkpoint) as history, history.connect() as connection:
        catalog = ReplayedCatalog(connection)
        for database, sql in () if progress is None else progress.statements:
            catalog.apply(database, sql)
        place = first_place(server) if progress is None else Place(progress.at.file_name, progress.at.end)
        at = progress.at if progress else Coordinates(place.file_name, 0, place.position, int(time.time()), 0, None)
        follower.begin(at, progress)
        feed = Feed(read_transactions(server, catalog, start=place, follow=True))
        feed.start()
        follower.run(feed)


@contextmanager
def _history(server: Server, checkpoint: Path | None) -> Iterator[Server]:
    """Run the server that replays DDL for the length of the block.

    A task that was killed leaves a folder of a hundred megabytes: its name is kept beside the checkpoint, and
    the next start removes it.
    """
    note = None if checkpoint is None else checkpoint.with_suffix(".history")
    if note is not None and note.exists():
        shutil.rmtree(note.read_text(), ignore_errors=True)
    with private_twin(server, server_id=_HISTORY_ID) as history:
        assert history.socket is not None, "a private server has a socket"
        if note is not None:
            note.write_text(str(history.socket.parent))
        yield history
    if note is not None:
        note.unlink(missing_ok=True)


def jumping(seconds: float, every: float) -> Callable[[int], int]:
    """Return a function that shifts message times in milliseconds.

    It shifts them by nothing, ahead, by nothing, back, each for ``every`` seconds.
    """
    shifts = (0, int(seconds * 1000), 0, -int(seconds * 1000))
    return lambda timestamp: timestamp + shifts[int(timestamp / 1000 // every) % len(shifts)]
