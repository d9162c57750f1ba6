"""The past of a topic whose messages carry ids: what settled days tell to later ones.

The lives of each Kafka partition go on from where settled days have left them (:class:`LivesBehind`). The windows of a life are
left out, so a look that has to compare with one of them has to begin earlier, which :func:`ids_reach_back` tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.ledger_rows import Comparison, IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.lives import Fall, LivesBehind
from dts_assets.model.message_ids import Load, SeenKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.full_loads import TableAt, find_full_loads, tables_of, to_settle
from dts_assets.planning.message_lives import Life, PartitionLives, find_lives
from dts_assets.planning.shared_ids import reaches_left_out
from dts_assets.planning.suspicions import Suspicion
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class IdsBehind:
    """The facts that settled windows tell to later ones where messages carry ids.

    ``lives`` are by Kafka partition, ``lineages`` is the number of lineages that these are. ``tables`` tell where full loads
    begin, ``greatest`` is the greatest position of all. ``crossing`` has, by Kafka partition, the inputs of the fall of ids
    behind which ids were passed again only in later windows.
    """

    lives: tuple[LivesBehind, ...] = ()
    lineages: int = 0
    tables: tuple[TableAt, ...] = ()
    greatest: SourcePosition | None = None
    crossing: tuple[tuple[int, str], ...] = ()


NO_IDS = IdsBehind()
"""The facts before the first window."""


@dataclass(frozen=True, slots=True)
class SeenIds:
    """The facts that a look has found of a topic whose messages carry ids."""

    lives: Mapping[int, PartitionLives]
    lineages: Lineages
    suspicions: Mapping[Cell, Suspicion]
    loads: Mapping[Cell, tuple[Load, ...]]
    shared: Mapping[datetime, tuple[Cell, ...]]


def ids_after(
    read: IdsBehind,
    told: Sequence[IngestWindow],
    *,
    until: datetime,
    seen: SeenIds,
    comparisons: Iterable[Comparison],
) -> IdsBehind | None:
    """Return what all windows before ``until`` tell to later ones.

    ``told`` are those that a look has read, behind what ``read`` stands for, ``seen`` is what the look has found of these and of
    later ones. The result is None if later windows may tell more of a fall of ids before ``until``.
    """
    for one in seen.lives.values():
        if any(fall is not None and _begins_before(fall, until) for fall in (one.undecided, one.unpassed)):
            return None
    if any(_waits_for_more(row, seen.lineages) for row in told):
        return None
    lives = find_lives(told, comparisons, read.lives)
    if any(one.undecided is not None and one.undecided is not one.unpassed for one in lives.values()):
        return None
    runs = (
        SourcePosition(
            seen.lineages.of_run(row.kafka_partition, run, epoch=row.epoch)[1], run.last.file, run.last.position
        )
        for row in told
        for run in row.runs
    )
    begun = (_lineage_of(life, partition, seen.lineages) for partition, one in lives.items() for life in one.lives)
    return IdsBehind(
        tuple(one.behind for one in lives.values()),
        1 + max(begun, default=-1),
        to_settle([*read.tables, *tables_of(told, seen.lineages)]),
        max((*runs, *([read.greatest] if read.greatest else [])), default=None),
        _crossing(seen, until),
    )


def ids_reach_back(
    read: IdsBehind,
    judged: IdsBehind,
    *,
    until: datetime,
    rows: Collection[IngestWindow],
    seen: SeenIds,
) -> bool:
    """Return whether later windows may change what was told before ``until``.

    It is also True if they have to be compared with windows that are left out: a look has to begin earlier. ``read`` stands
    for those, ``judged`` for all windows before ``until``. ``rows`` are the marks that are not left out.
    """
    known, later = ([row for row in rows if (row.window.start < until) is told] for told in (True, False))
    if (
        _begins_elsewhere(judged, seen)
        or _crossing(seen, until) != judged.crossing
        or _changes_loads(read, known, seen)
    ):
        return True
    if not read.lives:
        return False
    there, suspicions = {row.cell for row in rows}, (seen.suspicions.get(row.cell) for row in later)
    shared = (seen.shared.get(start, ()) for start in {row.window.start for row in later})
    return (
        any(one.incomplete for one in seen.lives.values())
        or any(earlier not in there for one in suspicions if one is not None for earlier in one.earlier)
        or any(cell not in there for cells in shared for cell in cells)
        or reaches_left_out(seen.lives, later, seen.lineages)
        or any(_has_several_lineages(row, seen.lineages) for row in later)
        or _tells_statements_again(read, later, seen.lineages)
        or _stands_before_loads(read, later, seen.lineages)
    )


def _begins_elsewhere(judged: IdsBehind, seen: SeenIds) -> bool:
    """Return whether a Kafka partition or a life changes where lineages begin that were told before."""
    known = {one.kafka_partition: len(one.lives) for one in judged.lives if one.lives}
    found = {partition: one for partition, one in seen.lives.items() if one.lives}
    if judged.lineages > 1 and found.keys() != known.keys():
        return True  # it shows none of their begins
    later = ((partition, life) for partition, one in found.items() for life in one.lives[known.get(partition, 1) :])
    return any(_first_begun(life, partition, seen.lineages) < judged.lineages for partition, life in later)


def _first_begun(life: Life, kafka_partition: int, lineages: Lineages) -> int:
    """Return the first lineage that begins with a life.

    It begins several ones where its Kafka partition had no message of those before: that shows their begins, too.
    """
    begin = life.begin
    rule = lineages.rule(kafka_partition, begin.run.shard, epoch=begin.epoch)
    here = [one.lineage for one in rule.breaks if one.offset == begin.start]
    return min([*here, _lineage_of(life, kafka_partition, lineages)])


def _lineage_of(life: Life, kafka_partition: int, lineages: Lineages) -> int:
    begin = life.begin
    rule = lineages.rule(kafka_partition, begin.run.shard, epoch=begin.epoch)
    return rule.lineage(offset=begin.start, server=None, number=-1, time=begin.run.first_time)


def _begins_before(fall: Fall, until: datetime) -> bool:
    return fall.cell.window.start < until


def _crossing(seen: SeenIds, until: datetime) -> tuple[tuple[int, str], ...]:
    """Return the inputs of the falls that stand before an instant and are told by later windows too."""
    return tuple(
        (partition, fall.inputs)
        for partition, one in sorted(seen.lives.items())
        for fall, _ in one.decided
        if _begins_before(fall, until) and fall.parts[-1].cell.window.start >= until
    )


def _has_several_lineages(row: IngestWindow, lineages: Lineages) -> bool:
    """Return whether a rule, and not a number, says of which lineage a cell's entries are.

    The rule names offsets that a look with fewer windows would choose otherwise.
    """
    bounds = {lineages.of_run(row.kafka_partition, run, epoch=row.epoch) for run in row.runs}
    return len({number for pair in bounds for number in pair}) > 1


def _waits_for_more(row: IngestWindow, lineages: Lineages) -> bool:
    """Return whether a later window will tell more of where lineages begin in a cell.

    It tells from which offset on entries surely lie behind the begin.
    """
    if not _has_several_lineages(row, lineages):
        return False
    rules = {run.shard: lineages.rule(row.kafka_partition, run.shard, epoch=row.epoch) for run in row.runs}
    return any(one.offset is None and one.surely is None for rule in rules.values() for one in rule.breaks)


def _tells_statements_again(read: IdsBehind, later: Iterable[IngestWindow], lineages: Lineages) -> bool:
    """Return whether a statement may be a copy of one that is left out, in any Kafka partition."""
    return read.greatest is not None and any(
        lineages.of_statement(row.kafka_partition, one, epoch=row.epoch) <= read.greatest
        for row in later
        for one in row.statements
    )


def _changes_loads(read: IdsBehind, known: Sequence[IngestWindow], seen: SeenIds) -> bool:
    """Return whether full loads of ``known`` windows are others with what later windows tell.

    Kafka partitions share the ids of a table, and a copy has an id again.
    """
    alone = find_full_loads(known, seen.lineages, read.tables)
    ours = {doubt for row in known for doubt in alone.doubts if _is_in(doubt, row)}
    with_later = {
        doubt
        for row in known
        for doubt in seen.lineages.doubts
        if doubt.code is ProblemCode.RELOAD and _is_in(doubt, row)
    }
    return ours != with_later or any(alone.begins.get(row.cell) != seen.loads.get(row.cell) for row in known)


def _is_in(doubt: Doubt, row: IngestWindow) -> bool:
    return doubt.kafka_partition == row.kafka_partition and row.offsets.start <= doubt.offset < row.offsets.end


def _stands_before_loads(read: IdsBehind, later: Iterable[IngestWindow], lineages: Lineages) -> bool:
    """Return whether an entry of a table with full loads stands before one that is left out."""
    greatest: dict[tuple[str, str, str], SourcePosition] = {}
    for one in read.tables:
        greatest[one.table] = max(greatest.get(one.table, one.at), one.at)
    found = list(tables_of(later, lineages))
    loaded = {one.table for one in (*read.tables, *found) if one.seen.kind is not SeenKind.CHANGE}
    return any(one.table in loaded and one.table in greatest and one.at <= greatest[one.table] for one in found)
