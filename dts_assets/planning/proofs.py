"""The proof of every window, from its cells, the windows before them, and CHECKPOINTs.

One pass over all stored windows in their order. What a window's proof rests on beside its own cells is summed up in a digest,
so that a window knows when it has to be judged anew, and only then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.delivery import CellDelivery
from dts_assets.model.gtids import GtidSet
from dts_assets.model.ledger_rows import IngestWindow
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

    The partition is None for a problem of all partitions together. ``rests_on`` is a digest of what was read of earlier
    windows.
    """

    level: Completeness
    problems: tuple[tuple[int | None, Problem], ...]
    rests_on: str


@dataclass(slots=True)
class _Chain:
    """The stored windows of a Kafka partition that meet without a hole, as one."""

    end: int
    epoch: int
    delivery: CellDelivery
    open_fragments: int


def prove_windows(
    rows: Iterable[IngestWindow], *, kafka_partitions: int, synced: Mapping[datetime, str | None], trust_gtids: bool
) -> dict[datetime, WindowProof]:
    """Return the proof of every window that has a stored cell, by window start.

    ``synced`` has the GTID set of each window's cut, None where there is none; ``trust_gtids`` is False where they are made
    up.
    """
    by_window: dict[datetime, list[IngestWindow]] = {}
    for row in rows:
        by_window.setdefault(row.window.start, []).append(row)
    chains: dict[int, _Chain] = {}
    gtids = _Transactions(trust_gtids)
    proofs: dict[datetime, WindowProof] = {}
    for start, mine in sorted(by_window.items()):
        mine.sort(key=lambda one: one.kafka_partition)
        before = {one.kafka_partition: _before(chains, one) for one in mine}
        left = {partition: chain.open_fragments for partition, chain in sorted(chains.items())}
        unbroken = len(mine) == kafka_partitions and all(one is not None for one in before.values())
        found: list[tuple[int | None, Problem]] = []
        seams: list[Problem] = []
        judged: list[tuple[Completeness, CellDelivery]] = []
        for one in mine:
            partition, earlier = one.kafka_partition, before[one.kafka_partition]
            problems, delivery = one.problems, one.delivery
            if earlier is not None:
                problems, delivery = excused(earlier, delivery, problems)
                between = seam(earlier, delivery)
                seams += between
                found += [(partition, problem) for problem in between]
            found += [(partition, problem) for problem in problems]
            level = level_of_cell(problems, delivery, nothing_follows=one.closed_by is ClosedBy.END)
            left_open = 0 if earlier is None else chains[partition].open_fragments
            if _given_up(one, left_open):
                # A producer that began again, or a message damaged so that it looks like the begin of a set: nobody can tell.
                level = min(level, Completeness.OBSERVED, key=lambda level: level.rank)
                detail = f"{left_open} fragments of a set that the window before left open do not go on here"
                found.append((partition, Problem(ProblemCode.UNENDED, None, None, detail)))
            judged.append((level, delivery))
            chains[partition] = _Chain(
                one.offsets.end,
                one.epoch,
                one.delivery if earlier is None else joined(earlier, one.delivery),
                left_open if not (one.delivery.numbered or one.delivery.unnumbered) else one.counts.carried_out,
            )
        rests_on = _digest(before, left, gtids.text if unbroken else "")
        missing = gtids.see(mine, synced.get(start), goes_on=unbroken)
        evidence = WindowEvidence(tuple(seams), missing, gtids.real, kafka_partitions, len(mine))
        level, more = level_of_window(judged, evidence)
        found += [(None, problem) for problem in more if problem not in seams]
        proofs[start] = WindowProof(level, tuple(found), rests_on)
    return proofs


def _given_up(one: IngestWindow, left_open: int) -> bool:
    """Return whether a set that was open at the border does not go on.

    With several shards it may, behind messages of the others.
    """
    came = one.delivery.numbered or one.delivery.unnumbered
    return bool(came) and one.counts.carried_in < left_open and len(one.delivery.sequences) <= 1


def _before(chains: Mapping[int, _Chain], one: IngestWindow) -> CellDelivery | None:
    chain = chains.get(one.kafka_partition)
    meets = chain is not None and chain.end == one.offsets.start and chain.epoch == one.epoch
    return chain.delivery if chain is not None and meets else None


class _Transactions:
    """The transactions of all Kafka partitions together, over windows that follow each other without a hole."""

    def __init__(self, trust: bool) -> None:
        self._trust = trust
        self._seen = GtidSet()
        self._synced: GtidSet | None = None
        self.real = False

    @property
    def text(self) -> str:
        """The memory of earlier windows, as text."""
        return f"{self._seen}|{self._synced}"

    def see(self, cells: Iterable[IngestWindow], synced: str | None, *, goes_on: bool) -> GtidSet | None:
        """Take note of a window; the transactions that are missing from it, None where no CHECKPOINT can tell."""
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
        except ValueError:  # GTIDs of two dialects, or a text that is none
            self._seen, self._synced, self.real = GtidSet(), None, False
            return None
        self._synced = now
        return missing


def _digest(before: Mapping[int, CellDelivery | None], left: Mapping[int, int], gtids: str) -> str:
    """Return a digest of the facts that a proof rests on.

    They are the last numbers, the open sets and transactions, and the GTIDs of the windows before.
    """
    facts: list[object] = [gtids]
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
