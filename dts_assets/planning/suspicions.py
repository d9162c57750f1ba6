"""Suspicions: the windows that may hold changes delivered before, judged by runs alone. Nearly all windows cannot.

A change has one identity: lineage, position, Kafka partition and row number. Positions grow within a run, so a change can stand
twice only where runs of one Kafka partition overlap, or where another server's binlog tells transactions again that were seen.
Of equal changes the earliest is kept, so a window is compared with itself and with windows before it, never with later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run
from dts_assets.model.spans import Cell
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The windows that a cell has to be compared with.

    They are ``earlier`` windows, nearest last, and the cell itself if ``itself``. ``by_gtid`` says that transactions may have
    come from two servers, each with its own positions.
    """

    cell: Cell
    earlier: tuple[Cell, ...]
    itself: bool
    by_gtid: bool

    @property
    def nothing(self) -> bool:
        """True if no change of the window can have been delivered before."""
        return not (self.earlier or self.itself)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """A run with the lineages that its entries may have.

    ``several`` says that its topic has had more than one lineage by then.
    """

    cell: Cell
    run: Run
    lineages: tuple[int, int]
    several: bool


def find_suspicions(rows: Iterable[IngestWindow], lineages: Lineages) -> dict[Cell, Suspicion]:
    """Return the windows that every cell has to be compared with.

    A cell that is left out holds nothing that was delivered before.
    """
    found: dict[Cell, Suspicion] = {}
    by_partition: dict[int, list[IngestWindow]] = {}
    for one in rows:
        by_partition.setdefault(one.kafka_partition, []).append(one)
    for partition, mine in by_partition.items():
        before = _Before()
        for one in sorted(mine, key=lambda row: (row.epoch, row.window.start)):
            runs = [
                _Bounds(
                    one.cell, run, lineages.of_run(partition, run), lineages.rule(partition, run.shard).may_break(run)
                )
                for run in one.runs
            ]
            suspicion = _suspicion(one.cell, runs, before)
            if not suspicion.nothing:
                found[one.cell] = suspicion
            before.add(runs)
    return found


class _Same(Enum):
    """The overlap of an earlier and a later run.

    A transaction that goes on has its GTID in both.
    """

    NOTHING = auto()
    POSITIONS = auto()
    TRANSACTIONS = auto()
    GOES_ON = auto()


class _Before:
    """The runs of earlier windows of one Kafka partition by shard.

    The greatest position of a shard, with its lineage, and the greatest GTID number of every server settle nearly all
    comparisons.
    """

    def __init__(self) -> None:
        self._runs: dict[str, list[_Bounds]] = {}
        self._last: _Bounds | None = None
        self._highest: dict[str, tuple[int, SourcePosition]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._with_number: dict[tuple[str, str], list[_Bounds]] = {}

    def add(self, runs: Sequence[_Bounds]) -> None:
        for one in runs:
            shard, top = one.run.shard, (one.lineages[1], one.run.last)
            self._runs.setdefault(shard, []).append(one)
            self._last = one
            self._highest[shard] = max(self._highest.get(shard, top), top)
            for of in one.run.servers:
                key = shard, of.server
                if of.last > self._numbers.get(key, -1):
                    self._numbers[key], self._with_number[key] = of.last, []
                if of.last == self._numbers[key]:
                    self._with_number[key].append(one)

    def overlapping(self, one: _Bounds, *, is_first: bool) -> list[tuple[_Bounds, _Same]]:
        """Return the earlier runs that may hold the same changes.

        There is none for a run behind all of them. ``is_first`` says that the run is the first of its window: a transaction
        may go on in it from the very run before.
        """
        shard = one.run.shard
        highest = self._highest.get(shard)
        if highest is None:
            return []
        steps = {of.server: of.first - self._numbers.get((shard, of.server), -1) for of in one.run.servers}
        if (one.lineages[0], one.run.first) > highest and all(step > 0 for step in steps.values()):
            return []
        others = self._runs[shard]
        least = 1 if one.run.begins else 0  # a transaction that goes on has the number of its beginning
        behind = not (one.several or one.run.broken) and one.run.first > highest[1]
        if behind and all(step >= least for step in steps.values()):
            # No other run can have the transaction. It may be told again in this window, by another server.
            going_on = (self._with_number[shard, server] for server, step in steps.items() if step == 0)
            others = [other for some in going_on for other in some]
        compared = ((other, _compare(other, one, adjacent=is_first and other is self._last)) for other in others)
        return [(other, same) for other, same in compared if same is not _Same.NOTHING]


def _suspicion(cell: Cell, runs: Sequence[_Bounds], before: _Before) -> Suspicion:
    earlier: dict[Cell, None] = {}
    goes_on: dict[Cell, None] = {}
    itself = by_gtid = False
    before_here: dict[str, list[_Bounds]] = {}
    for number, one in enumerate(runs):
        repeats = one.run.repeats > 0
        itself |= repeats
        by_gtid |= repeats and bool(one.run.servers)
        in_shard = before_here.setdefault(one.run.shard, [])
        known = itself and (by_gtid or not one.run.servers)
        for other in () if known else in_shard:
            same = _compare(other, one, adjacent=other is runs[number - 1])
            itself |= same in (_Same.POSITIONS, _Same.TRANSACTIONS)
            by_gtid |= same is _Same.TRANSACTIONS
        for other, same in before.overlapping(one, is_first=number == 0):
            (goes_on if same is _Same.GOES_ON else earlier)[other.cell] = None
            by_gtid |= same is _Same.TRANSACTIONS
        in_shard.append(one)
    if by_gtid:  # places in a transaction are counted from its BEGIN, which may stand in the window before
        earlier |= goes_on
    return Suspicion(cell, tuple(sorted(earlier)), itself, by_gtid)


def _compare(earlier: _Bounds, later: _Bounds, *, adjacent: bool) -> _Same:
    """Return the overlap of two runs.

    The later one follows the earlier one directly if ``adjacent``.
    """
    if earlier.run.shard != later.run.shard:
        return _Same.NOTHING
    lineages = earlier.lineages[0] <= later.lineages[1] and later.lineages[0] <= earlier.lineages[1]
    positions = earlier.run.first <= later.run.last and later.run.first <= earlier.run.last
    found = _Same.POSITIONS if lineages and positions else _Same.NOTHING
    numbers = {one.server: one for one in earlier.run.servers}
    shared = [
        (one, same)
        for one in later.run.servers
        if (same := numbers.get(one.server)) is not None and one.first <= same.last and same.first <= one.last
    ]
    if not shared:
        return found
    again = later.run.begins or later.run.broken or later.run.repeats > 0 or earlier.run.repeats > 0
    grows = earlier.run.last < later.run.first and not again
    if adjacent and grows and all(one.first == same.last for one, same in shared):
        return _Same.GOES_ON
    return _Same.TRANSACTIONS
