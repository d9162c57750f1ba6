"""The verdict: what the lake holds is what the database held, or the ledger names what is missing. Nothing else is in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dts_assets.errors import SetBackTableError
from dts_assets.errors.windows import IncompleteWindowError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger, unusable_tables
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import LAYERS
from dts_assets.flows.reached_rules import passed_by
from dts_assets.model.added_columns import AUDITED, DELETED_AT
from dts_assets.model.frontier import Frontier
from dts_assets.model.problems import ProblemCode
from dts_assets.model.tables import TableId
from dts_assets.planning.cuts import frontier, window_cut
from tests.flows.expected_history import assert_histories_hold
from tests.flows.expected_soft import assert_soft_snapshots_hold
from tests.flows.harness import Harness, table_id
from tests.flows.history import EVERY, START
from tests.stateful.copying import copy_afresh
from tests.stateful.marked import MOVED_MARKS, PERSONS, forms, plain_places
from tests.stateful.on_orphans import no_orphans
from tests.stateful.stream import Copy, Effect
from tests.stateful.world import World

NOT_CONTENT = {"made_by", "chain", "refreshes", "resume", "run", "closed_by"}
"""Columns that tell when and by which runs a row was written: a window is closed by silence only for a run that hears it."""

ADDED = {DELETED_AT, *AUDITED}
"""Columns that are null in all rows while nobody asks for them."""

EMPTIED = "passport: None, "
"""The column of persons that is dropped, as rows show it that have it no more."""


@dataclass
class Finding(Exception):
    """Something is wrong: ``kind`` says what in a few words, ``detail`` how it looks."""

    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def check(world: World) -> str:
    """Do all that is left, then judge; one line that says how it stands. Raises Finding."""
    harness = world.open()
    told = ""
    if world.set_back:
        told = _set_forward(world, harness)
    try:
        harness.settle()
    except IncompleteWindowError:
        if world.settings.get("on_incomplete") != "block":
            raise
        _named_at_all(world, harness)
        return "blocked by an incomplete window, as the settings ask"
    except AssertionError as error:
        raise Finding("never done", str(error)) from error
    words = [told, _ledger(world, harness)] if told else [_ledger(world, harness)]
    words.append(_changes(world, harness))
    words.append(_rows(world, harness))
    words.append(_as_changelogs_give(world, harness, assert_histories_hold, "versions"))
    if world.is_soft:
        words.append(_as_changelogs_give(world, harness, assert_soft_snapshots_hold, "deleted rows"))
    return "; ".join(words)


def _set_forward(world: World, harness: Harness) -> str:
    """A table that was set back is refused by its name; then the operator does what the sentence says."""
    lake, still = harness.pipeline.lake, world.paused(harness)
    tables = {path: world.table_of(path) for path in world.set_back if len(path) > 1}
    wanted = {
        path
        for path in world.set_back
        if path not in tables or (world.takes(tables[path]) and tables[path] not in still)
    }
    if wanted:
        try:
            harness.settle()
            unusable = [failure.sentence for failure in unusable_tables(harness.pipeline)]
            if not any(f"{'.'.join(path)} was set back" in one for path in wanted for one in unusable):
                raise Finding("a table that was set back is not refused", ", ".join(map(".".join, wanted)))
        except SetBackTableError as error:
            if tuple(error.table.split(".")[1:]) not in world.set_back:
                raise
        except IncompleteWindowError:
            pass
    for path, version in world.set_back.items():
        table = lake.catalog.load_table(lake.identifier(harness.pipeline.path(*path)))
        table.manage_snapshots().set_current_snapshot(version).commit()
    told = f"{', '.join(map('.'.join, world.set_back))} refused and set forward"
    world.set_back.clear()
    return told


def check_fresh(world: World) -> str:
    """Compute the same topic in one go in a lake of its own: all tables are equal."""
    harness, fresh = world.open(), world.open(name=f"{world.name}_fresh")
    copy_afresh(world, fresh)
    fresh.settle()
    passed = {table for table in known_tables(harness.pipeline) if passed_by(harness.pipeline, table)}
    mine, other = (everything(one, passed, is_soft=world.is_soft) for one in (harness, fresh))
    if mine.keys() != other.keys():
        raise Finding("other tables than a fresh lake", f"{sorted(mine.keys() ^ other.keys())}")
    for name in sorted(mine):
        if mine[name] != other[name]:
            more, less = mine[name] - other[name], other[name] - mine[name]
            raise Finding(
                f"{name.split('.')[0]} is not as in a fresh lake",
                f"{name}: only here {_few(more)}; only fresh {_few(less)}",
            )
    return f"equal to a fresh lake in {len(mine)} tables"


def check_marks(world: World) -> str:
    """No value under a rule stands plain in a place that is not named; the places as they were sent show that it is found."""
    warehouse = Path(world.open().pipeline.lake.location.warehouse)
    lakes = [folder for folder in warehouse.iterdir() if folder.name in (world.name, f"{world.name}_fresh")]
    registry = [folder for folder in (world.bench.folder / world.name).iterdir() if folder.name != "capture"]
    if found := plain_places([*lakes, *registry], world.lines):
        raise Finding("a plain value", "; ".join(found[:5]))
    catalog = [
        path for path in warehouse.iterdir() if path.is_file() and any(one in path.read_bytes() for one in forms())
    ]
    if catalog:
        raise Finding("a plain value", ", ".join(path.name for path in catalog))
    if moved := _moved_marks(world, [*lakes, *registry]):
        raise Finding("a plain value that a statement moved", "; ".join(moved[:5]))
    sent = any(one.table == PERSONS and one.operation != "truncate" and one.intact for one in world.stream.effects)
    if sent and not plain_places(lakes, (), beside=frozenset()):
        raise Finding("the search finds nothing, not even what was sent")
    return "no plain value" if sent else "no person"


def _moved_marks(world: World, folders: list[Path]) -> list[str]:
    """The places of values that statements brought under a rule; nothing is known of them if a message was lost.

    Files that no version names are removed before: when they were written nobody knew of the rule that their values reach.
    """
    if not world.stream.moved or world.stream.damages or not world.takes(PERSONS):
        return []
    for name in (world.name, f"{world.name}_fresh"):
        no_orphans(world.open(name=name))
    return plain_places(folders, world.lines, marks=MOVED_MARKS)


def everything(harness: Harness, passed: Collection[TableId], *, is_soft: bool) -> dict[str, Counter[str]]:
    """All rows of a lake by table.

    The fresh lake knew of all rules when it decoded rows. In tables whose rows ``passed`` the rules of others later, a column
    that is dropped stays, empty, and a window keeps the hash of its rows as they were decoded. Neither is compared.
    """
    found = harness.everything(without=NOT_CONTENT if is_soft else NOT_CONTENT | ADDED)
    ruled = {".".join(table.path) for table in passed}
    for name in (one for one in found if one.partition(".")[2] in ruled):
        found[name] = [row.replace(EMPTIED, "") for row in found[name]]
    counts = harness.pipeline.ledger.window_tables()
    unruled = (row if row.table not in passed else replace(row, row_hash=0) for row in counts)
    found["window_tables"] = [repr(replace(row, run="")) for row in unruled]
    return {name: Counter(rows) for name, rows in found.items() if rows}


def _ledger(world: World, harness: Harness) -> str:
    """The ledger's own equations, and its levels: it raises no alarm without a fire."""
    if not find_work(harness.pipeline).nothing:
        raise Finding("work is left after run")
    judged = judge_ledger(harness.pipeline)
    for one in judged:
        if not one.balanced:
            raise Finding("out of balance", one.sentence)
    stream = world.stream
    wrong = [one for one in judged if not one.complete]
    if wrong and not (stream.damages or stream.torn or stream.breaks):
        raise Finding("false alarm", "; ".join(f"{one.partition} {one.sentence}" for one in wrong[:4]))
    _named_at_all(world, harness)
    levels = Counter(one.level.value for one in judged if "|" not in one.partition)
    return ", ".join(f"{count} {level}" for level, count in levels.items())


def _named_at_all(world: World, harness: Harness) -> None:
    """Each change that was lost lies in, or before, something that the ledger says is missing.

    A loss shows by the next message of its Kafka partition, perhaps at the border of two windows, and that window may be missing
    yet.
    """
    marks = {row.window: row for row in harness.pipeline.ledger.cuts()}
    rows = [row for row in harness.pipeline.ledger.windows() if row.window in marks]
    for effect in world.stream.effects:
        if not effect.lost:
            continue
        copy = effect.copies[0]
        after = [row for row in rows if row.kafka_partition == copy.partition and row.window.end > copy.arrived]
        later = (one.offset for one in world.stream.messages if one.partition == copy.partition)
        shows_by = min((offset for offset in later if offset > copy.last_offset), default=None)
        heard = shows_by is not None and any(row.offsets.end > shows_by for row in after)
        named = (
            "incomplete" in (row.completeness.value, marks[row.window].completeness.value) or row.counts.null_messages
            for row in after
        )
        if heard and not any(named):
            raise Finding(
                "a loss that nobody names",
                f"{effect.operation} of {effect.table}, p{copy.partition:02d} offsets {copy.first_offset}-{copy.last_offset}",
            )


def _changes(world: World, harness: Harness) -> str:
    """Every change that arrived stands in its changelog exactly once."""
    marks = harness.pipeline.ledger.cuts()
    doubted = _doubts(harness)
    count = 0
    removed = world.removed(harness)
    lake, path_of = harness.pipeline.lake, harness.pipeline.table_path
    left = [(layer, name) for layer in LAYERS for name in removed if lake.table(path_of(layer.name, table_id(name)))]
    if left:
        raise Finding("a removed table is in the lake", ", ".join(f"{layer.name} of {name!r}" for layer, name in left))
    for name in (one for one in _tables(world) if one not in removed):
        made = {row.window.start for row in marks if table_id(name) not in {one.id for one in row.paused}}
        stored = harness.rows("changelog", *table_id(name).path)
        rows = [row for row in stored if row["window_start"] in made and row["kafka_partition"] is not None]
        found = Counter((row["transaction_id"] or "", row["op"], row["kafka_partition"]) for row in rows)
        found = +Counter({key: number for key, number in found.items() if key[1] != "truncate"})
        wanted = Counter(
            (one.gtid, one.operation, one.partition)
            for one in world.stream.effects
            if one.table == name and one.operation != "truncate" and (copy := one.intact) and _window(copy) in made
        )
        count += sum(found.values())
        if found != wanted and not (doubted and not world.shape.gtids):
            raise Finding(
                "changes lost or doubled",
                f"{name}: too many {_few(found - wanted)}, too few {_few(wanted - found)}",
            )
    return f"{count} changes"


def _rows(world: World, harness: Harness) -> str:
    """Snapshots show what the database held at the cut, less what the ledger names."""
    reached = _frontier(harness)
    if reached.window is None:
        return "no frontier yet"
    stream = world.stream
    until = -1 if reached.cut is None else stream.transaction_at((reached.cut.file, reached.cut.position))

    def holds(effect: Effect) -> bool:
        copy = effect.intact
        if copy is None or reached.window is None or _window(copy) > reached.window:
            return False
        whole = reached.whole_until is not None and _window(copy) <= reached.whole_until
        return whole or effect.transaction <= until

    still = _standing(world, harness)
    tables = {name: stream.tables[name] for name in _tables(world) if name not in still | {PERSONS}}
    wanted = {name: rows for name, rows in stream.rows_after(holds).items() if name in tables}
    try:
        shown = harness.snapshots(tables)
    except AssertionError as error:
        raise Finding("a key twice", str(error)) from error
    different = {name: text for name in wanted if (text := _difference(shown[name], wanted[name]))}
    count = sum(map(len, shown.values()))
    if different and not _doubts(harness):
        raise Finding("rows differ", "; ".join(f"{name}: {text}" for name, text in different.items()))
    lost = sum(effect.lost for effect in stream.effects)
    said = f"{count} rows as at {reached.window:%H:%M}"
    said += f", {lost} changes lost and named" if lost else ""
    said += f", {len(still)} tables stand still" if still else ""
    return f"{said}; {', '.join(different)} differ where lineages are doubted" if different else said


def _as_changelogs_give(world: World, harness: Harness, judge: Callable[..., int], rows: str) -> str:
    """All tables that do not stand still have the ``rows`` that their changelogs give."""
    still = {table_id(name) for name in _standing(world, harness)}
    if world.stream.moved:  # rows of persons come from several changelogs
        still |= {one for one in known_tables(harness.pipeline) if one.table not in world.stream.tables} | {
            table_id(PERSONS)
        }
    try:
        return f"{judge(harness.pipeline, without=still)} {rows}"
    except AssertionError as error:
        raise Finding(f"{rows} differ", str(error)[:2000]) from error


def _standing(world: World, harness: Harness) -> set[str]:
    """The tables that stand still; a window lacks no other one."""
    still = set(world.paused(harness))
    lacking = {one.id.table for row in harness.pipeline.ledger.cuts() for one in row.paused}
    gone_on = sorted(name for name in lacking - still if world.takes(name))
    if gone_on:
        raise Finding("a window lacks a table that does not stand still", repr(gone_on))
    return still


def _doubts(harness: Harness) -> bool:
    """Whether some window says that messages do not prove which changes are the same or come first."""
    return any(
        one.code is ProblemCode.LINEAGES for row in harness.pipeline.ledger.cuts() for one in row.problems
    ) or any(one.code is ProblemCode.LINEAGES for row in harness.pipeline.ledger.windows() for one in row.problems)


def _frontier(harness: Harness) -> Frontier:
    pipeline = harness.pipeline
    cuts = {row.window.start: window_cut(row) for row in pipeline.ledger.cuts()}
    return frontier(cuts, pipeline.grid, first=pipeline.first_window())


def _tables(world: World) -> list[str]:
    return [name for name in sorted(world.stream.tables) if world.takes(name)]


def _window(copy: Copy) -> datetime:
    return START + (copy.arrived - START) // EVERY * EVERY


def _difference(found: dict[tuple[Any, ...], Any], wanted: dict[tuple[Any, ...], Any]) -> str:
    more = sorted(found.keys() - wanted.keys())
    less = sorted(wanted.keys() - found.keys())
    other = [key for key in sorted(found.keys() & wanted.keys()) if dict(found[key]) != dict(wanted[key])]
    told = [f"too many {more[:4]}"] if more else []
    told += [f"missing {less[:4]}"] if less else []
    told += [f"{key} is {found[key]}, not {wanted[key]}" for key in other[:2]]
    return ", ".join(told)


def _few(counted: Iterable[Any]) -> str:
    some = sorted(map(str, counted))
    return f"{some[:3]}{f' and {len(some) - 3} more' if len(some) > 3 else ''}"
