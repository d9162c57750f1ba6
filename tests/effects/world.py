"""A small subscription whose run is disturbed: one Kafka partition, two tables, a lake that is put back before each run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from dts_assets.flows import apart, compaction, lease_keeper, spark_tasks
from dts_assets.flows.pauses import pause_tables, resume_tables
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.store import data_files, expiry
from tests.effects.effects import Effects, caught
from tests.effects.grounds import NAME, Ground
from tests.effects.verdict import content, verdict
from tests.flows.harness import Bench, Harness, settle_open, table_id
from tests.flows.history import border
from tests.flows.short import SECOND, delete, insert, items, move, update
from tests.flows.source import Message, Source, write_capture
from tests.flows.source_tables import TEXT

ONE_BY_ONE = (
    (apart, "SIDE_BY_SIDE"), (compaction, "_SIDE_BY_SIDE"),
    (data_files, "_THREADS"), (spark_tasks, "_JOBS_AT_ONCE"),
)  # fmt: skip
"""What works side by side, one by one here: effect number 17 is the same in every run."""

NAMES = ("one", "Two/二.%`*\n")
"""The tables; the second one has a name that no path likes."""

PAUSE = PausedTable(table_id("one"), "", "asked for", PausedBy.PERSON, border(0))


@dataclass
class World:
    """A subscription at a moment, with more to do: the ground keeps its lake as it stands then."""

    folder: Path
    ground: Ground
    live: bool
    reference: dict[str, list[str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """All effects of an undisturbed run, in their order."""

    def put_back(self) -> None:
        """Bring lake and registry back to where the disturbed run begins."""
        self.ground.put_back()
        shutil.rmtree(self.folder / NAME, ignore_errors=True)
        if (self.folder / "registry").exists():
            shutil.copytree(self.folder / "registry", self.folder / NAME)

    def keep(self) -> None:
        """Have disturbed runs begin at lake and registry as they are."""
        self.ground.keep()
        if (self.folder / NAME).exists():
            shutil.copytree(self.folder / NAME, self.folder / "registry")

    def opened(self, effects: Effects) -> Harness:
        """The subscription as a new process opens it."""
        lease_keeper._REGISTRY.keepers.clear()
        bench = Bench(self.ground.session(effects), self.ground.location, self.folder, NAME)
        window = {"live": self.live, "end": None if self.live else border(3)}
        history = [f"bank.{NAMES[0]}"]
        return bench.open(self.capture, name=NAME, partitions=1, complete=not self.live, window=window, history=history)

    @property
    def capture(self) -> Path:
        return self.folder / "capture"

    def content(self, effects: Effects) -> dict[str, list[str]]:
        """Every row of every table, but for the names of runs."""
        return content(self.opened(effects))


def resume_all(harness: Harness) -> None:
    """Let the tables go on that an effect of no known kind has paused."""
    paused = harness.pipeline.ledger.paused_tables()
    if paused:
        resume_tables(harness.pipeline, [row.table for row in paused])


@contextmanager
def conditions(ground: Ground) -> Iterator[None]:
    """Nothing side by side, and old versions expire soon."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ONE_BY_ONE:
            patch.setattr(module, name, 1)
        ground.prepare(patch)
        patch.setattr(lease_keeper, "elapsed", lambda: 0.0)  # leases are looked at by the same effects in every run
        patch.setattr(lease_keeper._Registry, "start", lambda _: None)
        patch.setattr(lease_keeper.LeaseKeeper, "tick", lambda _: None)  # the thread of tests before would be counted
        patch.setattr(
            lease_keeper, "is_gone", lambda *_, **__: True
        )  # each opening is a process, the ones before are dead
        patch.setattr(expiry, "KEEP_SNAPSHOTS", 2)
        patch.setattr(expiry, "AT_ONCE", 2)
        patch.setattr(expiry, "KEEP_FOR", timedelta(0))
        patch.setattr(expiry, "KEEP_FOR_LIVE", timedelta(0))
        yield


def parts(*, small: bool = False) -> list[list[Message]]:
    """Messages as they come: two readings of the first window while it is open, then all the rest.

    The rest closes it and the second window and leaves the third open. A column becomes another type in it. It has rows that are
    new, changed, moved and removed, a message that cannot be read, and a part of the stream that comes again. A ``small`` one is
    for where runs are dear: it has one table, and another that only the rest has, so that there is a table to make.
    """
    names, late = (NAMES[:1], NAMES[1:]) if small else (NAMES, ())
    source = Source([items(name) for name in NAMES], border(0), lags=(0.2,))
    cuts = [0]
    for number in range(2):
        at = border(0) + (10 + 60 * number) * SECOND
        for name in names:
            insert(source, at, range(10 * number, 10 * number + 10), table=name)
        source.checkpoint(at + 5 * SECOND)
        cuts.append(len(source.messages))
    numbers = source.tables[names[0]]
    numbers.columns[1] = replace(
        numbers.columns[1], kind=TEXT
    )  # its stored files are written anew in the disturbed run
    for name in names:
        update(source, border(0) + 500 * SECOND, {1: 7, 11: 7}, table=name)
    source.checkpoint(border(0) + 510 * SECOND)
    repeated = len(source.messages)
    for name in names:
        insert(source, border(1) + 60 * SECOND, range(40, 45), table=name)
        update(source, border(1) + 70 * SECOND, {2: 2, 3: 2, 12: 2}, table=name)
        delete(source, border(1) + 80 * SECOND, (0, 13), table=name)
        move(source, border(1) + 90 * SECOND, {5: 105, 14: 5}, table=name)
    for name in late:
        insert(source, border(1) + 100 * SECOND, range(5), table=name)
    source.checkpoint(border(1) + 500 * SECOND)
    for name in names:
        update(source, border(2) + 30 * SECOND, {2: 3, 105: 3}, table=name)
    source.checkpoint(border(2) + 40 * SECOND)
    messages = list(source.messages)
    last = messages[-1]
    again = [replace(one, time=last.time + SECOND) for one in messages[repeated:-1]]
    garbage = replace(last, value=b"\xff" * 40, time=last.time + 2 * SECOND)
    for one in (*again, garbage):
        last = replace(one, offset=last.offset + 1, sequence=last.sequence + 1)
        messages.append(last)
    return [messages[start:end] for start, end in pairwise([*cuts, len(messages)])]


def made(folder: Path, ground: Ground, *, live: bool, small: bool = False) -> World:
    """Return a world: of a live one the first readings are there, of a backlog nothing is.

    A table of a live one was paused between the readings, and goes on with the run that is disturbed.
    """
    world, some = World(folder, ground, live), parts(small=small)
    if live:
        for number, piece in enumerate(some[:-1]):
            write_capture(world.capture, piece, name=f"piece{number}")
            settle_open(world.opened(Effects()), rounds=12)
            if not small:  # the first table lacks what the second reading brought, and has to catch up
                pause_tables(world.opened(Effects()).pipeline, [PAUSE])
        resume_all(world.opened(Effects()))
    world.keep()
    for piece in some[-1:] if live else some:
        write_capture(world.capture, piece, name=f"rest{piece[0].offset}")
    world.put_back()
    effects = Effects()
    with caught(effects, ground):
        settle_open(world.opened(effects), rounds=12)
    world.names += effects.names
    world.reference.update(world.content(effects))
    return world


def disturbed(world: World, effects: Effects) -> str:
    """Run once with an effect that fails and once without, and return what is wrong then; empty if nothing is."""
    world.put_back()
    with caught(effects, world.ground):
        try:
            settle_open(world.opened(effects), rounds=12)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        else:
            raised = "nothing was raised"
        effects.end()
        try:
            resume_all(world.opened(effects))
            settle_open(world.opened(effects), rounds=12)
        except Exception as error:
            return f"{effects.name} {effects.way}: after {raised} the next run failed: {type(error).__name__}: {error}"
        effects.arrive()
        wrong = verdict(world, effects)
    return f"{effects.name} {effects.way}: after {raised}: {wrong}" if wrong else ""
