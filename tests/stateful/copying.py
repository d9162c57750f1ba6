"""Copies of the table of persons at random moments: whole ones, cancelled ones, and ones that are not finished."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Final
from unittest import mock

from dts_assets.flows import copies, jdbc_rows
from dts_assets.flows.copies import cancel_copies
from dts_assets.model.copied_tables import CopyKind, CopyState
from dts_assets.protocol import subscribe_pb2 as pb
from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Harness, table_id
from tests.flows.source_tables import Table
from tests.stateful.action import Operator
from tests.stateful.marked import PERSONS
from tests.stateful.stream import Stream
from tests.stateful.world import MadeCopy, World

ENDS: Final = (CopyState.COPIED, CopyState.COPIED, CopyState.CANCELLED, CopyState.READING)
"""What may become of a copy: half of them are whole, some are given up, some are never finished."""


class CopyTable(Operator):
    """The table of persons is copied as it is now; some copies are cancelled, some are never finished."""

    def can(self, world: World) -> bool:
        """Positions of a copy are those of the one server that the topic tells of."""
        stream = world.stream
        there = any(table.name == PERSONS for table in stream.living) and world.takes(PERSONS)
        return super().can(world) and there and stream.servers == 1 and not world.set_back

    def do(self, world: World) -> str:
        random, harness = self.random, world.open()
        if PERSONS in world.removed(harness):
            return "nothing: the table is removed"
        state = random.choice(ENDS)
        table = world.stream.tables[PERSONS]
        world.stream.later(1.0)  # each copy has a time of its own
        made = MadeCopy(
            world.stream.now,
            Table(PERSONS, list(table.columns)),
            tuple(_reads(world.stream, random)),
            random.choice((CopyKind.BOOTSTRAP, CopyKind.RESYNC)),
            state,
        )
        name = f"{len(world.copies):012x}"
        world.copies[name] = made
        made_again(harness, name, made)
        return f"{made.kind}, {sum(len(one.rows) for one in made.reads)} rows, {made.state}"


def made_again(harness: Harness, name: str, made: MadeCopy) -> None:
    """Make a copy in a lake, under the name and at the time that it has in every lake."""
    clock = SimpleNamespace(now=lambda zone: made.at)
    names = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=name))
    with (
        mock.patch.multiple(copies, datetime=clock, uuid=names),
        mock.patch.object(jdbc_rows, "datetime", clock),
    ):
        copy_rows(harness, made.table, made.reads, made.kind, finished=made.state is CopyState.COPIED)
        if made.state is CopyState.CANCELLED:
            cancel_copies(harness.pipeline, [table_id(made.table.name)])


def copy_afresh(world: World, fresh: Harness) -> None:
    """Make the copies of a world in another lake, but for those that its lake has dropped meanwhile."""
    there = {one.copy: one.state for one in world.open().pipeline.ledger.copied_tables()}
    for name, made in world.copies.items():
        if there[name] is not CopyState.DROPPED:
            made_again(fresh, name, made)


def _reads(stream: Stream, random: Random) -> list[Read]:
    """The rows as they are now, in some chunks, each begun after the last statement."""
    last = len(stream.transactions) - 1
    statements = [one.number for one in stream.transactions if any(event.kind == pb.DDL for event in one.events)]
    first = max(statements, default=0)
    high, chunks = stream.end_of(last), random.randint(1, 3)
    rows = stream.rows[PERSONS]
    parts: list[list[dict[str, object]]] = [[] for _ in range(chunks)]
    for key in sorted(rows):
        parts[random.randrange(chunks)].append(dict(rows[key]))
    return [Read(stream.end_of(max(first, last - random.choice((0, 0, 1, 4)))), high, tuple(part)) for part in parts]
