"""What an operator does to one table: it is paused, removed, added again or rebuilt, or it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest import mock

from dts_assets.flows import maintenance, snapshot_sorting
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.model.maintenance import Step
from dts_assets.model.tables import TableId
from dts_assets.planning import sorting
from dts_assets.planning.orphans import OrphanRule
from dts_assets.settings.maintenance import Maintenance
from dts_assets.store.lake import Lake
from tests.flows.harness import Harness, table_id
from tests.stateful.action import Operator, tried, work_of
from tests.stateful.verdict import Finding
from tests.stateful.world import World

SECRET = "hunter2"
"""Text in an error that nobody may show."""


class Pause(Operator):
    """A person pauses a table."""

    def do(self, world: World) -> str:
        table = self.random.choice(sorted(world.stream.tables))
        paused = paused_by_person(world.open().pipeline, [table_id(table)], reason="asked for")
        return f"{table!r}" if paused else f"nothing: {table!r} stands still"


class Resume(Operator):
    """A person lets a paused table go on."""

    def do(self, world: World) -> str:
        harness = world.open()
        still = sorted(world.paused(harness).keys() - world.removed(harness))
        if not still:
            return "nothing: no table is paused"
        table = self.random.choice(still)
        resume_tables(harness.pipeline, [table_id(table)])
        return f"{table!r}"


class Remove(Operator):
    """A person takes a table out of the lake."""

    def can(self, world: World) -> bool:
        return super().can(world) and not world.set_back

    def do(self, world: World) -> str:
        harness = world.open()
        table = _known(harness, self.random)
        if table is None:
            return "nothing: no table is known"
        dropped = remove_tables(harness.pipeline, [table], progress=harness.lines.append)
        return f"{table.table!r}, {dropped} lake tables dropped"


class Add(Operator):
    """A person adds a removed table again."""

    def do(self, world: World) -> str:
        harness = world.open()
        removed = sorted(world.removed(harness))
        if not removed:
            return "nothing: no table is removed"
        table = self.random.choice(removed)
        windows = add_tables(harness.pipeline, [table_id(table)], progress=harness.lines.append)
        return f"{table!r}, {windows} windows lack it"


class Rebuild(Operator):
    """All rows of a table are made again."""

    def do(self, world: World) -> str:
        random, harness = self.random, world.open()
        table, source = _known(harness, random), random.choice(list(RebuildFrom))
        if table is None:
            return "nothing: no table is known"

        def rebuild(harness: Harness) -> None:
            rebuild_tables(
                harness.pipeline, [table], source, spark=lambda: harness.session, progress=harness.lines.append
            )

        return f"{table.table!r} from {source}{tried(world, rebuild)}"


def _known(harness: Harness, random: Random) -> TableId | None:
    known = sorted(known_tables(harness.pipeline))
    return random.choice(known) if known else None


class BreakTable(Operator):
    """A step of one table fails as nobody expected, as often as it is tried, while a piece of work is done."""

    def do(self, world: World) -> str:
        random, harness = self.random, world.open()
        name, step = random.choice(sorted(world.stream.tables)), random.choice(("ensure", "evolve", "replace"))
        path = harness.pipeline.path(random.choice(("changelog", "snapshot", "history")), *table_id(name).path)
        work, real, times = work_of(world, random, ("tables", "run", "run", "run")), getattr(Lake, step), []

        def failing(lake: Lake, where: Sequence[str], *rest: Any, **named: Any) -> Any:
            if tuple(where) == tuple(path):
                times.append(where)
                raise KeyError(SECRET)
            return real(lake, where, *rest, **named)

        before = world.paused(harness)
        with mock.patch.object(Lake, step, failing):
            told = tried(world, work.do)
        after = world.paused(harness)
        if after.keys() - before.keys() - {name}:
            raise Finding("another table was paused", f"{sorted(after)}, and {name!r} was broken")
        if times and not told and name not in after:
            raise Finding("a table that failed is not paused", repr(name))
        if any(SECRET in row.reason for row in after.values()):
            raise Finding("a value in the reason of a pause", repr(name))
        return f"{name!r}, {path[1]} {step}, {len(times)} times, {work}{told}"


EAGER = Maintenance.model_validate(
    {"expire_after": "0s", "keep_versions": 1, "steps": [str(one) for one in Step], "tags_after": "0s"}
)


class Maintain(Operator):
    """Everything that maintenance can do is done: all versions go that may, every snapshot is sorted, and no file is young."""

    def can(self, world: World) -> bool:
        return super().can(world) and not world.set_back

    def do(self, world: World) -> str:
        harness = world.open()
        pipeline = replace(
            harness.pipeline, settings=harness.pipeline.settings.model_copy(update={"maintenance": EAGER})
        )
        only = tuple(self.random.sample(list(Step), self.random.randint(1, len(Step))))
        # No run is under way: files of killed ones may go at once, whatever leases they have left.
        eager = OrphanRule(datetime.now(UTC) + timedelta(days=1))
        rule = mock.patch.object(maintenance, "orphan_rule", return_value=eager)
        sizes = mock.patch.multiple(snapshot_sorting, FILE_BYTES=2_000)
        with rule, sizes, mock.patch.object(sorting, "MOST_AT_ONE_KEY", self.random.choice((0.0, 1.0, 2.0))):
            done = list(maintain(pipeline, only=only, spark=lambda: harness.session, progress=harness.lines.append))
        failed = [line for one in done for line in one.failed]
        if failed:
            raise Finding(f"maintenance was not done: {failed}")
        return ", ".join(f"{one.step} of {one.tables}" for one in done)
