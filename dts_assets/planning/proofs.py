"""The proof of every window, from its cells, the windows before them, and CHECKPOINTs.

All stored windows are judged in one pass, in their order. A proof keeps a digest of the facts of earlier windows that it rests
on: a window is judged anew if this digest changes, and only then.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.delivery import CellDelivery
from dts_assets.model.gtids import GtidSet
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.adjoining_cells import excused, joined, seam
from dts_assets.planning.completeness import (
    WindowEvidence,
    gtid_holes,
    gtids_by_shard,
    holes_behind,
    level_of_cell,
    level_of_window,
)


@dataclass(frozen=True, slots=True)
class WindowProof:
    """The proof of a window: its level, and every problem with its Kafka partition.

    The partition is None for a problem of all partitions together. ``rests_on`` is a digest of the facts of earlier windows.
    """

    level: Completeness
    problems: tuple[tuple[int | None, Problem], ...]
    rests_on: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The stored cells of a Kafka partition that follow each other without a hole, joined as one cell.

    ``open_fragments`` is the number of fragments that the last of them carries out.
    """

    kafka_partition: int
    end: int
    epoch: int
    delivery: CellDelivery
    open_fragments: int


@dataclass(frozen=True, slots=True)
class ProofState:
    """The memory of windows that were judged, with which later windows are judged.

    ``chains`` are by Kafka partition. ``seen`` are the transactions of all Kafka partitions since the last hole, ``synced`` those
    that the last CHECKPOINT counts, both as the text of a GTID set.
    """

    chains: tuple[Chain, ...] = ()
    seen: str = ""
    synced: str | None = None


NOTHING_PROVEN = ProofState()
"""The memory before the first window."""


def prove_windows(
    rows: Iterable[IngestWindow],
    *,
    kafka_partitions: int,
    synced: Mapping[datetime, str | None],
    trust_gtids: bool,
    doubts: Sequence[Doubt] = (),
) -> dict[datetime, WindowProof]:
    """Return the proof of every window that has a stored cell, by window start.

    ``synced`` has the GTID set of each window's cut by window start, None where the cut has none. ``trust_gtids`` is False where
    GTIDs are made up. ``doubts`` are the breaks of lineages that are not proven.
    """
    proofs, _ = prove_behind(
        NOTHING_PROVEN, rows, kafka_partitions=kafka_partitions, synced=synced, trust_gtids=trust_gtids, doubts=doubts
    )
    return proofs


def prove_behind(
    state: ProofState,
    rows: Iterable[IngestWindow],
    *,
    kafka_partitions: int,
    synced: Mapping[datetime, str | None],
    trust_gtids: bool,
    doubts: Sequence[Doubt] = (),
) -> tuple[dict[datetime, WindowProof], ProofState]:
    """Return the proofs of windows behind others that were judged, and the memory behind the last one.

    ``state`` is the memory of the others; everything else is as for :func:`prove_windows`.
    """
    by_window: dict[datetime, list[IngestWindow]] = {}
    for row in sorted(rows, key=lambda row: row.kafka_partition):
        by_window.setdefault(row.window.start, []).append(row)
    by_partition: dict[int, list[Doubt]] = {}
    for doubt in sorted(doubts, key=lambda doubt: doubt.offset):
        by_partition.setdefault(doubt.kafka_partition, []).append(doubt)
    chains = {chain.kafka_partition: chain for chain in state.chains}
    gtids = _Transactions(trust_gtids, state)
    proofs: dict[datetime, WindowProof] = {}
    for start, cells in sorted(by_window.items()):
        before = {row.kafka_partition: _before(chains, row) for row in cells}
        left = {partition: chain.open_fragments for partition, chain in sorted(chains.items())}
        unbroken = len(cells) == kafka_partitions and all(delivery is not None for delivery in before.values())
        doubted = {row.kafka_partition: _doubted(row, by_partition.get(row.kafka_partition, ())) for row in cells}
        rests_on = _digest(before, left, gtids.text if unbroken else "", doubted, trust_gtids=trust_gtids)
        judged = [
            _judge(row, before[row.kafka_partition], left.get(row.kafka_partition, 0), doubted[row.kafka_partition])
            for row in cells
        ]
        chains |= {cell.row.kafka_partition: cell.chain for cell in judged}
        missing = gtids.see(cells, synced.get(start), goes_on=unbroken)
        seams = tuple(problem for cell in judged for problem in cell.seams)
        evidence = WindowEvidence(seams, missing, gtids.real, kafka_partitions, len(cells))
        level, more = level_of_window([(cell.level, cell.delivery) for cell in judged], evidence)
        found = [(cell.row.kafka_partition, problem) for cell in judged for problem in (*cell.seams, *cell.problems)]
        of_all = [(None, problem) for problem in more if problem not in seams]
        proofs[start] = WindowProof(level, (*found, *of_all), rests_on)
    return proofs, gtids.state(chains)


@dataclass(frozen=True, slots=True)
class _JudgedCell:
    """A cell judged beside the cells before it, and the chain of which it is now the end.

    ``delivery`` and ``problems`` are without holes that the cells before fill; ``seams`` are the problems at its border.
    """

    row: IngestWindow
    level: Completeness
    delivery: CellDelivery
    seams: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    chain: Chain


def _doubted(row: IngestWindow, doubts: Sequence[Doubt]) -> tuple[Problem, ...]:
    """Return the breaks of lineages in a cell that are not proven.

    ``doubts`` are those of its Kafka partition by offset.
    """
    bounds = (
        bisect_left(doubts, offset, key=lambda one: one.offset) for offset in (row.offsets.start, row.offsets.end)
    )
    inside = doubts[slice(*bounds)]
    return tuple(Problem(one.code, one.offset, one.offset, one.detail) for one in inside)


def _judge(row: IngestWindow, before: CellDelivery | None, left_open: int, doubted: tuple[Problem, ...]) -> _JudgedCell:
    """Return the judgement of a cell.

    ``before`` joins the cells that it follows without a hole, None where there is none. ``left_open`` is the number of fragments
    that the last of them carries out: what is carried in is that, neither less nor more.
    """
    problems, delivery = (*row.problems, *doubted), row.delivery
    seams: tuple[Problem, ...] = ()
    if before is not None:
        problems, delivery = excused(before, delivery, problems)
        seams = seam(before, delivery)
        if row.counts.carried_in != left_open:
            detail = (
                f"{left_open} fragments were carried out of the window before, {row.counts.carried_in} are carried in"
            )
            problems = (*problems, Problem(ProblemCode.UNENDED, None, None, detail))
    level = level_of_cell(problems, delivery, nothing_follows=row.closed_by is ClosedBy.END)
    chain = Chain(
        row.kafka_partition,
        row.offsets.end,
        row.epoch,
        row.delivery if before is None else joined(before, row.delivery),
        row.counts.carried_out,
    )
    return _JudgedCell(row, level, delivery, seams, problems, chain)


def _before(chains: Mapping[int, Chain], row: IngestWindow) -> CellDelivery | None:
    """Return the cells before a cell, joined; None where its offsets or its epoch do not follow theirs."""
    chain = chains.get(row.kafka_partition)
    meets = chain is not None and chain.end == row.offsets.start and chain.epoch == row.epoch
    return chain.delivery if chain is not None and meets else None


class _Transactions:
    """The transactions of all Kafka partitions together, over windows that follow each other without a hole."""

    def __init__(self, trust: bool, before: ProofState) -> None:
        self._trust = trust
        self._seen = GtidSet.parse(before.seen)
        self._synced = None if before.synced is None else GtidSet.parse(before.synced)
        self.real = False

    @property
    def text(self) -> str:
        """The memory of earlier windows, as text."""
        return f"{self._seen}|{self._synced}"

    def state(self, chains: Mapping[int, Chain]) -> ProofState:
        """Return the memory of all windows so far, with the chains of their cells."""
        synced = None if self._synced is None else str(self._synced)
        return ProofState(tuple(chain for _, chain in sorted(chains.items())), str(self._seen), synced)

    def see(self, cells: Iterable[IngestWindow], synced: str | None, *, goes_on: bool) -> GtidSet | None:
        """Take note of a window, and return the transactions missing from it; None where no CHECKPOINT can tell.

        ``goes_on`` says that all Kafka partitions follow the windows before without a hole; else those are forgotten.
        """
        cells = tuple(cells)
        if not goes_on:
            self._seen, self._synced = GtidSet(), None
        found = gtids_by_shard([one.delivery for one in cells])
        own = next(iter(found.values())) if len(found) == 1 else None
        try:
            before, self.real = self._seen, self._trust and own is not None
            if own is None:
                return None
            self._seen = before | own
            if synced is None:
                return None
            now = GtidSet.parse(synced)
            missing = gtid_holes(before, own, self._synced, now)
            if any(one.closed_by is ClosedBy.END for one in cells):
                missing |= holes_behind(self._seen, now)
                if not now.covers(self._seen):
                    # Behind its last CHECKPOINT a Kafka partition may have ended before the others did.
                    self._synced = now
                    return None
        except ValueError:  # GTIDs of two dialects, or a text that is no GTID set
            self._seen, self._synced, self.real = GtidSet(), None, False
            return None
        self._synced = now
        return missing


def _digest(
    before: Mapping[int, CellDelivery | None],
    left: Mapping[int, int],
    gtids: str,
    doubted: Mapping[int, tuple[Problem, ...]],
    *,
    trust_gtids: bool,
) -> str:
    """Return a digest of the facts that a proof rests on.

    They are the last numbers, the open sets and transactions, and the GTIDs of the windows before. A later window may show that
    the GTIDs are made up, and then they prove nothing in this one, either.
    """
    facts: list[object] = [gtids, *(item for item in doubted.items() if item[1]), *([] if trust_gtids else ["made up"])]
    for partition, delivery in sorted(before.items()):
        if delivery is None:
            facts.append((partition, None))
            continue
        sequences = [(one.shard, one.last, one.greatest) for one in delivery.sequences]
        transactions = [
            (one.shard, one.open, one.more_open, one.last_position, one.gtids, one.marked, one.fake_gtids)
            for one in delivery.transactions
        ]
        facts.append((partition, sequences, transactions, left[partition]))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
