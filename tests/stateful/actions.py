"""What may happen to a world: each action is a value with a seed of its own, so that any part of a list can be done again.

``can`` is the precondition on the state, ``do`` the effect and the line that tells of it. An action whose precondition does not
hold is passed over, which is what makes lists short.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from dts_assets.errors import SetBackTableError, StaleGenerationError
from dts_assets.errors.windows import IncompleteWindowError
from dts_assets.flows.redrive import Quarantined, redrive
from dts_assets.model.added_columns import AUDIT
from tests.effects.effects import Effects, SqliteAlone, Way, caught
from tests.flows import source_tables
from tests.flows.harness import table_id
from tests.flows.source import Ddl
from tests.flows.source_tables import BIGINT, DOUBLE, INT, MONEY, TEXT, Field
from tests.stateful import hostile
from tests.stateful.action import REFUSALS, Action, Operator, tried, work_of
from tests.stateful.children import in_children
from tests.stateful.copying import CopyTable
from tests.stateful.hostile import glob_of, quoted
from tests.stateful.moves import Move
from tests.stateful.on_tables import Add, BreakTable, Maintain, Pause, Rebuild, Remove, Resume
from tests.stateful.stream import FIRST_FILES
from tests.stateful.verdict import Finding, check
from tests.stateful.workload import transaction
from tests.stateful.world import Work, World, everything_expires

MOST_WINDOWS = 14

LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"bank.items": {"partition": ["bucket(3, n)"], "sort": ["id"]}},
    {"bank.items": {"partition": ["truncate(2, id)", "n"]}},
    {
        "bank.pairs": {"partition": ["bucket(2, w)", "truncate(1, b)"]},
        "bank.journal": {"partition": ["truncate(1, line)"]},
    },
    {"bank.items": {"sort": ["note", "n"]}, "bank.journal": {"partition": ["n"], "sort": ["line"]}},
)
"""Layouts of snapshots; the first three have no column that a hostile world lacks."""


class Write(Action):
    """A burst of transactions over some minutes, with CHECKPOINTs between them."""

    def can(self, world: World) -> bool:
        return len(world.windows()) < MOST_WINDOWS

    def do(self, world: World) -> str:
        random, stream = self.random, world.stream
        before, minimal = len(stream.effects), self.seed % 4 == 0
        stream.later(random.choice((0.0, 60.0, 600.0)))
        for _ in range(random.randint(2, 9)):
            stream.later(random.choice((2.0, 20.0, 60.0, 200.0)))
            events = list(transaction(stream, random, minimal=minimal))
            if events:
                stream.write(events, flush=random.random() < 0.7)
            if random.random() < 0.4:
                lanes = range(world.shape.partitions)
                stream.vouch(None if random.random() < 0.8 else random.sample(lanes, len(lanes) - 1))
            if random.random() < 0.05:
                stream.rotate()
        return f"{len(stream.effects) - before} changes, until {stream.now:%H:%M:%S}"


class Statement(Action):
    """A column more or less, or a table that is emptied, dropped or made."""

    def do(self, world: World) -> str:
        random, stream = self.random, world.stream
        stream.later(1.0)
        kind = random.choice(("add", "add", "drop column", "truncate", "create", "drop"))
        table = random.choice(stream.living)
        emptied: tuple[str, ...] = ()
        if kind == "create":
            gone = sorted(stream.dropped)
            name = gone[0] if gone else _new_name(world, random, f"made{len(stream.tables)}", stream.tables)
            if not gone and len(stream.tables) < 5:
                made = source_tables.Table(name, [Field("id", INT, True), Field("t", TEXT)])
                stream.tables[name], stream.rows[name] = made, {}
            elif not gone:
                return "nothing: there are enough tables"
            stream.dropped.discard(name)
            sql = f"CREATE TABLE {quoted(name)} (id int primary key, t varchar(80))"
        elif kind == "drop" and len(stream.living) > 2:
            sql, emptied = f"DROP TABLE {quoted(table.name)}", (table.name,)
            stream.dropped.add(table.name)
        elif kind == "add":
            kinds = hostile.KINDS if world.shape.hostile else (TEXT, MONEY, BIGINT, DOUBLE)
            known = {*stream.added, *(column.name for column in table.columns)}
            field = Field(_new_name(world, random, f"c{len(stream.added) + 1}", known), random.choice(kinds))
            stream.added.add(field.name)
            table.columns.append(field)
            for rows in (stream.rows.get(table.name, {}),):
                rows.update({key: {**row, field.name: None} for key, row in rows.items()})
            bag = stream.bags.get(table.name)
            if bag:
                bag[:] = [{**row, field.name: None} for row in bag]
            sql = f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(field.name)} {field.kind.original_type}"
        elif kind == "drop column" and table.columns[-1].name in stream.added:
            field = table.columns.pop()
            for row in [*stream.rows.get(table.name, {}).values(), *stream.bags.get(table.name, [])]:
                row.pop(field.name, None)  # type: ignore[attr-defined]
            sql = f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(field.name)}"
        else:
            sql, emptied = f"TRUNCATE TABLE {quoted(table.name)}", (table.name,)
        stream.write([Ddl(sql)], flush=random.random() < 0.7, emptied=emptied)
        return repr(sql) if world.shape.hostile else sql


def _new_name(world: World, random: Random, plain: str, known: Collection[str]) -> str:
    """A name that is not known; in a hostile world one that nobody expects."""
    if not world.shape.hostile:
        return plain
    taken = {hostile.folded(name) for name in known}
    while True:
        (name,) = hostile.names(random, 1)
        if hostile.folded(name) not in taken:
            return name


class Restart(Action):
    """The task stops, perhaps in the middle of an entry set, and reads its binlog again from before."""

    def do(self, world: World) -> str:
        random = self.random
        back, torn = random.choice((0, 1, 3, 8)), random.random() < 0.4
        world.stream.later(2.0)
        world.stream.restart(back=back, torn=torn, renumber=random.random() < 0.15)
        return f"{back} transactions back{', a set torn' if torn else ''}"


class FailOver(Action):
    """Another server becomes the primary, or one from before again, and the task reads its binlog."""

    def do(self, world: World) -> str:
        random = self.random
        server, back = random.randrange(len(FIRST_FILES)), random.choice((0, 0, 1, 4))
        world.stream.later(2.0)
        world.stream.restart(back=back, torn=random.random() < 0.2, server=server)
        return f"to server {server}, {back} transactions back"


class Repeat(Action):
    """Transport delivers the last set of a Kafka partition once more."""

    def do(self, world: World) -> str:
        lane = self.seed % world.shape.partitions
        return f"p{lane:02d}" if world.stream.repeat(lane) else "nothing: no whole set is new"


class Damage(Action):
    """A message is lost or spoilt before anybody has read it."""

    def do(self, world: World) -> str:
        random = self.random
        kind = random.choice(("drop", "drop", "garbage", "half", "null"))
        return world.stream.damage(random.randrange(1 << 20), kind) or "nothing: no message is new"  # type: ignore[arg-type]


class Materialize(Operator):
    """One step of any rectangle."""

    def do(self, world: World) -> str:
        work = work_of(world, self.random, ("raw", "raw", "entries", "entries", "tables", "all"))
        return f"{work}{tried(world, work.do)}"


class Backfill(Operator):
    """A range of windows, everything of it, once more."""

    def do(self, world: World) -> str:
        work = work_of(world, self.random, ("all",))
        return f"{work}{tried(world, work.do)}"


class Stop(Operator):
    """A run is killed, or cancelled, in the middle."""

    def do(self, world: World) -> str:
        random = self.random
        how = signal.SIGINT if random.random() < 0.3 else signal.SIGKILL
        after = random.choice((0.05, 0.2, 0.5, 1.0, 2.0)) * random.uniform(0.5, 1.5)
        work = work_of(world, random, ("raw", "entries", "tables", "all", "run", "run"))
        return f"{work}, {how.name} after {after:.2f} s: {_in_children(world, [work], after, how)}"


class Race(Operator):
    """Two processes work at the same time, on the same rectangle or on two that may overlap."""

    def do(self, world: World) -> str:
        random = self.random
        one = work_of(world, random, ("raw", "entries", "tables", "all", "run"))
        other = one if random.random() < 0.5 else work_of(world, random, ("raw", "entries", "tables", "all", "run"))
        return f"{one} and {other}: {_in_children(world, [one, other], None, signal.SIGKILL)}"


def _in_children(world: World, works: list[Work], after: float | None, how: signal.Signals) -> str:
    world.open()  # what was sent is published by one process alone
    begin = [partial(_alone, world, work) for work in works]
    ended = in_children(world.bench.session, begin, world.capture.parent, stop_after=after, stop_by=how)
    allowed = tuple(kind.__name__ for kind in (*REFUSALS, IncompleteWindowError, StaleGenerationError))
    if world.set_back:
        allowed = (*allowed, SetBackTableError.__name__)
    for one in ended:
        if one.how in ("broken", "stuck") or (one.how == "refused" and not one.said.startswith(allowed)):
            last = one.said.strip().splitlines()[-1] if one.said else ""
            raise Finding(f"a process {one.how}", f"{last}\n{one.said}")
    return ", ".join(one.how if one.how != "refused" else f"refused, {one.said.split(':')[0]}" for one in ended)


def _alone(world: World, work: Work) -> None:
    work.do(world.open())


class Settings(Operator):
    """A setting of the subscription is another one from now on."""

    def do(self, world: World) -> str:
        random, settings = self.random, world.settings
        kind = random.choice(("types", "tables", "on_incomplete"))
        if kind == "types":
            settings["types"] = {} if settings.get("types") else {"bank.items.n": "bigint"}
        elif kind == "tables":
            out = settings.get("tables", {}).get("exclude")
            settings["tables"] = (
                {} if out else {"exclude": [f"bank.{glob_of(random.choice(sorted(world.stream.tables)))}"]}
            )
        else:
            settings["on_incomplete"] = "continue" if settings.get("on_incomplete") == "block" else "block"
        return f"{kind}: {settings[kind] or 'as at first'}"


class Shown(Operator):
    """Snapshots have other columns or other files from now on, or tables have histories or none."""

    def do(self, world: World) -> str:
        random, settings = self.random, world.settings
        kind = random.choice(("deletes", "layout", "history"))
        if kind == "deletes":
            if world.is_soft:
                del settings["deletes"], settings["audit_columns"]
            else:
                settings |= {"deletes": "soft", "audit_columns": list(AUDIT)}
        elif kind == "layout":
            settings["layout"] = random.choice(LAYOUTS[: 3 if world.shape.hostile else None])
        else:
            no_tables: list[str] = []
            if settings.pop("history", None) is None:
                settings["history"] = no_tables
        return f"{kind}: {settings.get(kind, 'as at first')}"


class Redrive(Operator):
    """The quarantine is read again."""

    def can(self, world: World) -> bool:
        return super().can(world) and world.settings.get("on_incomplete") != "block" and not world.set_back

    def do(self, world: World) -> str:
        harness = world.open()
        report = redrive(harness.pipeline, Quarantined(), spark=lambda: harness.session, progress=harness.lines.append)
        return f"{sum(report.found.values())} rows, {report.moved} moved on"


class RollBack(Operator):
    """A table is set back to an earlier Iceberg snapshot, by somebody who does not know better."""

    def can(self, world: World) -> bool:
        return super().can(world) and not world.set_back

    def do(self, world: World) -> str:
        random, harness = self.random, world.open()
        known: list[tuple[str, ...]] = [("raw_envelopes",), ("entries",)]
        known += [
            (layer, *table_id(name).path) for name in sorted(world.stream.tables) for layer in ("changelog", "snapshot")
        ]
        able: list[tuple[tuple[str, ...], Table, list[int]]] = []
        for path in known:
            table = harness.pipeline.lake.table(harness.pipeline.path(*path))
            versions = [] if table is None else list(ancestors_of(table.current_snapshot(), table.metadata))
            if table is not None and len(versions) > 1:
                able.append((path, table, [one.snapshot_id for one in versions]))
        if not able:
            return "nothing: no table has an earlier version"
        path, table, ids = random.choice(able)
        back = min(random.randint(1, 3), len(ids) - 1)
        table.manage_snapshots().rollback_to_snapshot(ids[back]).commit()
        world.set_back[path] = ids[0]
        return f"{'.'.join(path)} by {back} versions"


class Expire(Operator):
    """Old Iceberg snapshots go at the end of a run of tables."""

    def can(self, world: World) -> bool:
        return super().can(world) and not world.set_back

    def do(self, world: World) -> str:
        work = work_of(world, self.random, ("tables",))
        with everything_expires():
            return f"after {work}{tried(world, work.do)}"


class LoseRegistry(Operator):
    """The file with the tables found so far is lost."""

    def do(self, world: World) -> str:
        place = world.open().pipeline.settings.registry_path
        there = place.exists()
        place.unlink(missing_ok=True)
        return "gone" if there else "nothing: there was none"


class Trouble(Operator):
    """An effect of a piece of work fails: a file, the catalog, the source, a job of tasks; perhaps until the work has ended."""

    def do(self, world: World) -> str:
        random = self.random
        work = work_of(world, random, ("raw", "entries", "tables", "all", "run"))
        effects = Effects(random.randint(1, 120), random.choice(list(Way)), lands_after=random.randint(1, 9))
        try:
            with caught(effects, SqliteAlone()):
                told = tried(world, work.do)
        except Exception as error:
            if effects.name == "none":
                raise
            told = f": ended in {type(error).__name__}"
        finally:
            effects.end()
            effects.arrive()
        return f"{work}, {effects.way} {effects.name}{told}"


class Run(Operator):
    """``run`` until nothing is left, and the verdict."""

    def do(self, world: World) -> str:
        return check(world)


WEIGHTS: Final[dict[type[Action], int]] = {
    Write: 20, Statement: 6, Restart: 6, FailOver: 4, Repeat: 4, Damage: 4,
    Materialize: 14, Backfill: 4, Stop: 7, Race: 4, Settings: 5, Redrive: 2, RollBack: 3, Expire: 3, LoseRegistry: 2, Pause: 3,
    Resume: 3, Remove: 3, Add: 3, Rebuild: 3, Shown: 5, BreakTable: 4, Trouble: 6, Run: 9,
    Maintain: 4, Move: 8, CopyTable: 6,
}  # fmt: skip


def plan(seed: int, kinds: Collection[type[Action]] = ()) -> Iterator[Action]:
    """The actions of a seed, without end, of some kinds (none: of all); it begins with something to work on."""
    random, chosen = (
        Random(f"plan {seed}"),
        {kind: share for kind, share in WEIGHTS.items() if not kinds or kind in kinds},
    )
    able, shares = list(chosen), list(chosen.values())
    for number in count():
        kind = Write if number < 2 else random.choices(able, shares)[0]
        yield kind(random.randrange(1 << 30))
