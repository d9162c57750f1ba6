"""The laws of a year, as checks of a world: each returns a sentence for everything that breaks it.

- The frontier never stands still for ever: a while after the last trouble nothing is left to do.
- Every offset is in the raw messages of exactly one cell, or named as lost, and what is named as lost was gone.
- Nothing is made twice for one cause, and no settled window is asked for while nothing happens.
- No window between the first and the last is without a mark, and no mark lacks a table that goes on.
- The group stands behind nothing that is not stored; one run at a time holds a part (checked by the world at every step).
- A look that begins behind settled days finds what a look over all windows finds.
- A look reads a few days, however old the lake is.
- Nobody loses messages without a warning that came in time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from dts_assets.errors import DtsAssetsError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.looks import looks
from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.message_retention import RAW, Removed
from dts_assets.model.problems import ProblemCode
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.loss import LossState
from tests.year.topic import Log
from tests.year.world import DAY, GRACE, HOUR, Life, World

_FEW_DAYS = 15
_MOST_LONG_LOOKS = 7
_WARNING = LossState.WARNING.rank


def at_a_look(world: World) -> Iterator[str]:
    """The laws that hold at every look while all is calm."""
    life = world.life
    if not world.calm:
        return
    if life.refused:
        yield f"nobody can look although all is calm: {life.refused}"
        return
    expected = life.grid.number(_closed_long_ago(world)) - 1
    first = life.memory.properties.get("dts-assets.first-window")
    if first is None or expected < life.grid.number(datetime.fromisoformat(first)):
        return
    reached = life.memory.reached.window
    if reached is None or life.grid.number(reached) < expected:
        yield f"the frontier stands at {reached} although all is calm and {life.grid.at(expected)} has closed"


def of_settled_days(world: World) -> Iterator[str]:
    """A look that begins behind settled days finds what a look over all windows finds."""
    life, memory = world.life, world.life.memory
    if life.refused or not memory.settled or life.compared == memory.version:
        return
    life.compared, kept = memory.version, memory.settled
    try:
        behind = find_work(world.pipeline())
        memory.settled = []
        whole = find_work(world.pipeline())
    except DtsAssetsError:  # the source or the lake is away
        return
    finally:
        memory.settled = kept
    world.counts["looks compared with all windows"] += 1
    for name in ("ingest", "stale_entries", "tables", "waiting", "live", "ends", "entries_inputs", "tables_inputs"):
        if getattr(behind, name) != getattr(whole, name):
            yield f"settled days change {name}: {getattr(behind, name)} and without them {getattr(whole, name)}"


def _closed_long_ago(world: World) -> datetime:
    """The end of a window that closed so long ago that its tables must be there."""
    at = world.now - GRACE - world.shape.pace - 2 * HOUR
    return world.life.grid.at(world.life.grid.number(at)).start


def asked_for_nothing(world: World) -> Iterator[str]:
    """The requests for settled windows while nothing happens."""
    life, since = world.life, world.stirred_until
    begun = since + world.shape.settles
    for at, part in life.asked[-200:]:
        window = part if isinstance(part, Window) else part.window
        if at >= begun and window.end < min(begun, at - 2 * world.shape.every) - 3 * HOUR:
            yield f"{part} was asked for at {at} although nothing had happened since {since}"


def in_the_end(world: World) -> Iterator[str]:
    """The laws that hold when all troubles have ended long ago."""
    work = find_work(world.pipeline()).within(until=_closed_long_ago(world))
    waiting = [window for window in work.waiting if window.start < _closed_long_ago(world)]
    if not work.nothing or waiting:
        yield (
            f"there is always something left to do: {len(work.ingest)} cells to ingest, {len(work.stale_entries)} stale, "
            f"{len(work.tables)} windows to make, {len(waiting)} waiting; first "
            f"{next(iter((*work.ingest, *work.stale_entries, *work.tables, *waiting)), None)}"
        )
    life = world.life
    for cell, entry in life.memory.entries.items():
        if f"format={world.decoding}" not in entry.inputs:
            yield f"{cell} was not decoded as the settings say"
    for start, mark in life.memory.marks.items():
        if f"settings={world.shaping}" not in mark.inputs:
            yield f"{start} was not made with the settings of now"
    paused = {row.table for row in life.memory.paused}
    for start, mark in sorted(life.memory.marks.items()):
        yield from (f"{start} lacks {one.id}, which goes on" for one in mark.paused if one.id not in paused)
    for one in world.lives:
        yield from of_a_life(world, one)


def of_a_life(world: World, life: Life) -> Iterator[str]:
    """The laws of what a subscription has stored, whether it went on or not."""
    for (part, cause), times in life.served.items():
        if times > 1:
            yield f"{part} was made {times} times for one cause: {cause}"
    for partition in range(life.settings.partitions):
        rows = sorted((row for row in life.memory.raw.values() if row.kafka_partition == partition), key=_start)
        yield from _joined(world, life, rows, ends=life is world.life)
        gone = Removed(tuple(life.memory.removed)).among(RAW, [row.cell for row in rows])
        for row in rows:
            if row.cell not in gone:
                yield from _stored(world, life, row)


def _start(row: RawWindow) -> datetime:
    return row.window.start


def _joined(world: World, life: Life, rows: Sequence[RawWindow], *, ends: bool) -> Iterator[str]:
    """Windows follow each other without a hole, in time and in offsets."""
    for before, row in pairwise(rows):
        meets = before.offsets.end == row.offsets.start
        if before.window.end == row.window.start and not meets:
            yield f"{before.cell} with {before.offsets} and {row.cell} with {row.offsets} do not meet"
        elif before.offsets.end > row.offsets.start:
            yield f"{before.cell} and {row.cell} share offsets: {before.offsets} and {row.offsets}"
        if ends and before.window.end != row.window.start:
            yield f"there is no window between {before.cell} and {row.cell}"
    if ends:
        for row in rows:
            if row.window.start >= _closed_long_ago(world):
                continue
            if row.cell not in life.memory.entries:
                yield f"{row.cell} has raw messages and no entries"
            if row.closed_by is not ClosedBy.OPEN and row.window.start not in life.memory.marks:
                yield f"{row.window} has no mark"


def _stored(world: World, life: Life, row: RawWindow) -> Iterator[str]:
    """Each offset of a cell is stored, or lost and named; and in calm times it lies where its time says."""
    log, stored = life.topic.logs[row.kafka_partition], life.memory.messages.get(row.cell, [])
    there = {message.offset for message in stored}
    if len(there) != row.messages or not all(row.offsets.start <= offset < row.offsets.end for offset in there):
        yield f"{row.cell} has {len(there)} messages, and its mark says {row.messages} of {row.offsets}"
    named = [
        one for one in row.problems if one.code is ProblemCode.GAP and one.detail.startswith("the source no longer")
    ]
    gaps = {offset for one in named for offset in range(one.first_offset or 0, (one.last_offset or 0) + 1)}
    missing = sorted(set(range(row.offsets.start, row.offsets.end)) - there - log.markers)
    if unnamed := [offset for offset in missing if offset not in gaps]:
        yield f"{row.cell} lacks offsets {unnamed[:5]}, and does not say so"
    if wrong := sorted(gaps & there):
        yield f"{row.cell} says that it lost offsets {wrong[:5]}, which it has"
    for offset in missing[:1]:
        yield from _lost(life, log, row, offset)
    at, every = row.window.start, world.shape.every
    if not any(begin - DAY - every <= at <= end + DAY + every for begin, end in world.disturbed):
        astray = [one for one in stored if not row.window.start <= one.time < row.window.end]
        if astray and row.window.start > life.grid.start:
            yield f"{row.cell} has offset {astray[0].offset} of {astray[0].time} although no clock was wrong"


def _lost(life: Life, log: Log, row: RawWindow, offset: int) -> Iterator[str]:
    """What is lost was gone before it was read, and somebody was warned of it."""
    place = bisect_right([one.low for one in log.deleted], offset)
    gone = log.deleted[place] if place < len(log.deleted) else None
    if gone is None or gone.at > life.stored_at[row.cell]:
        yield f"{row.cell} lost offset {offset} that the topic had when it was read"
        return
    if gone.keeps is None:
        return
    young = [one.at for one in log.deleted[:place] if one.keeps is None]
    since = max([gone.at - gone.keeps / 4, *young])
    ranks = [found[row.kafka_partition] for at, found in life.watches if since < at < gone.at]
    if ranks and max(ranks) < _WARNING:
        yield f"{row.cell} lost offset {offset} at {gone.at} without a warning at {len(ranks)} looks before"


def of_few_days(world: World) -> Iterator[str]:
    """A look reads a few days, however old the lake is; after a failover it may be all of them for a while."""
    life = world.life
    if world.under_way or life.refused:
        return
    pipeline = world.pipeline()
    look = next(looks(pipeline, known_tables(pipeline)))
    world.read.append(len(look.entries) / life.settings.partitions / (DAY / world.shape.every))
    if min(world.read[-_MOST_LONG_LOOKS:]) > _FEW_DAYS:
        yield f"looks read {world.read[-1]:.0f} days again and again, and {len(life.memory.settled)} days are settled"
