"""Cells of a Kafka partition that follow each other: their sum, and the problems between them.

A loss at the border of two windows shows in neither of them alone. Each rule names the vendor's words that it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from dts_assets.model.delivery import MOST_NAMED, CellDelivery, ShardSequence, ShardTransactions, Transaction
from dts_assets.model.gtids import GtidSet, parse_gtid
from dts_assets.model.problems import Problem, ProblemCode

Part = TypeVar("Part", ShardSequence, ShardTransactions)

_MOST_INTERVALS = 100
"""The intervals of GTIDs that are remembered of earlier windows.

Of a set with more, only the first and the last GTID of each source are kept.
"""


def joined(before: CellDelivery, after: CellDelivery) -> CellDelivery:
    """Return two cells of a Kafka partition that follow each other as one cell.

    The next cell is compared with the joined one. Counts add up. Holes that either cell names stay named, up to a limit; GTIDs
    are united, and of a scattered set only the bounds of each source are kept: a year of windows must not become a set of
    millions.
    """
    return CellDelivery(
        first_message=after.first_message if before.first_message is None else before.first_message,
        last_message=before.last_message if after.last_message is None else after.last_message,
        numbered=before.numbered + after.numbered,
        unnumbered=before.unnumbered + after.unnumbered,
        skipped_offsets=before.skipped_offsets + after.skipped_offsets,
        offset_holes=(*before.offset_holes, *after.offset_holes)[:MOST_NAMED],
        sequences=_by_shard(before.sequences, after.sequences, _joined_sequence),
        transactions=_by_shard(before.transactions, after.transactions, _joined_transactions),
        more_shards=before.more_shards + after.more_shards,
        seq_ids=after.seq_ids or before.seq_ids,
    )


def seam(before: CellDelivery, after: CellDelivery) -> tuple[Problem, ...]:
    """Return the problems between two cells of a Kafka partition whose offsets meet.

    ``before`` may be several cells, :func:`joined`. A shard that only one of the two cells has is not judged.

    Numbers: the next ``ps`` is at most one more than the last (not more than it: a repeat), one more than the greatest, or 1
    (the vendor's consumer demo reads 1 as a numbering begun anew).

    Transactions: a transaction that was open goes on or is read again, for a restarted task reads again all that it had not
    finished (Tencent Cloud, document 571/53454: the data between two checkpoints is sent again as a whole). A transaction that
    goes on in the later cell was begun in the earlier one, or is read again.
    """
    found: list[Problem] = []
    sequences = {one.shard: one for one in before.sequences}
    of_shards = {one.shard: one for one in before.transactions}
    for sequence in after.sequences:
        found += _missing_numbers(sequences.get(sequence.shard), sequence)
    for transactions in after.transactions:
        earlier = of_shards.get(transactions.shard)
        if earlier is not None:
            found += _torn(earlier, transactions)
    return tuple(found)


def excused(
    before: CellDelivery, after: CellDelivery, problems: Iterable[Problem]
) -> tuple[tuple[Problem, ...], CellDelivery]:
    """Return the problems and facts of a cell, less the holes in ``ps`` that earlier cells fill.

    All numbers of such a hole had come in the cells before. Producers may send a message again long after (Apache Kafka,
    producer setting ``retries``), and the vendor's demo drops what is not greater than the last number.
    """
    known: set[int] = set()
    sequences, before_of = [], {one.shard: one for one in before.sequences}
    for sequence in after.sequences:
        earlier = before_of.get(sequence.shard)
        limit = -1 if earlier is None or sequence.restarts else earlier.greatest
        known |= {hole.offset for hole in sequence.named if hole.last <= limit}
        named = tuple(hole for hole in sequence.named if hole.last > limit)
        holes = sequence.holes - len(sequence.named) + len(named)
        sequences.append(replace(sequence, holes=holes, named=named))
    left = tuple(
        problem for problem in problems if problem.code is not ProblemCode.GAP or problem.first_offset not in known
    )
    return left, replace(after, sequences=tuple(sequences))


def _by_shard(before: Iterable[Part], after: Iterable[Part], join: Callable[[Part, Part], Part]) -> tuple[Part, ...]:
    found = {one.shard: one for one in before}
    for one in after:
        found[one.shard] = join(found[one.shard], one) if one.shard in found else one
    return tuple(found[shard] for shard in sorted(found))


def _joined_sequence(before: ShardSequence, after: ShardSequence) -> ShardSequence:
    restarted = after.restarts or (after.first == 1 and before.last > 0)
    goes_on = after.last > before.last or restarted
    return replace(
        after,
        first=before.first,
        first_offset=before.first_offset,
        last=after.last if goes_on else before.last,
        last_offset=after.last_offset if goes_on else before.last_offset,
        greatest=max(before.greatest, after.greatest),
        restarts=before.restarts + after.restarts,
        repeats=before.repeats + after.repeats,
        holes=before.holes + after.holes,
        named=(*before.named, *after.named)[:MOST_NAMED],
    )


def _joined_transactions(before: ShardTransactions, after: ShardTransactions) -> ShardTransactions:
    begun = {one.gtid for one in after.open if one.gtid}
    unended = (one for one in before.open if one.gtid not in begun and not _ends(after, one))
    still = [one for one in unended if not _passes(before, after, one)]
    scattered = before.gtids is None or after.gtids is None
    try:
        gtids = None if scattered else str(_bounded(before.gtid_set | after.gtid_set))
    except ValueError:
        gtids = None
    return ShardTransactions(
        after.shard,
        before.begun + after.begun,
        before.ended + after.ended,
        before.changes + after.changes,
        before.first or after.first,
        (*still, *after.open)[-MOST_NAMED:],
        before.more_open + after.more_open + max(0, len(still) + len(after.open) - MOST_NAMED),
        max(filter(None, (before.last_position, after.last_position)), default=None),
        before.last_offset if after.last_offset is None else after.last_offset,
        gtids,
        before.unreadable_gtids + after.unreadable_gtids,
        before.fake_gtids or after.fake_gtids,
    )


def _bounded(gtids: GtidSet) -> GtidSet:
    if sum(len(intervals) for _, intervals in gtids.sources) <= _MOST_INTERVALS:
        return gtids
    return GtidSet.of((source, intervals[0][0], intervals[-1][1]) for source, intervals in gtids.sources)


def _missing_numbers(before: ShardSequence | None, after: ShardSequence) -> list[Problem]:
    """Return the problems that ``ps`` shows between two cells."""
    if before is None or after.first in (1, before.greatest + 1) or after.first <= before.last + 1:
        return []
    missing = after.first - before.last - 1
    of = f" of shard {after.shard}" if after.shard else ""
    which = f"{before.last + 1}" if missing == 1 else f"{before.last + 1} to {after.first - 1}"
    detail = f"{missing} messages{of} are missing between two windows by ps: {which}"
    return [Problem(ProblemCode.GAP, after.first_offset, after.first_offset, detail)]


def _torn(before: ShardTransactions, after: ShardTransactions) -> list[Problem]:
    """Return the problems of transactions of one shard that are torn between two cells."""
    first = after.first
    marks_come = before.marked or (after.marked and not before.changes)
    if first is None or before.first is None or not marks_come:
        return []
    of = f" of shard {after.shard}" if after.shard else ""
    found = [
        Problem(
            ProblemCode.TRANSACTION,
            one.offset,
            first.offset,
            f"{_named(one)}{of} has no COMMIT, and a later one begins",
        )
        for one in before.open
        if not _ends(after, one) and _passes(before, after, one)
    ]
    if not first.begun and not _goes_on(before, first):
        detail = f"what goes on of {_named(first)}{of} in this window has no BEGIN in those before it"
        found.append(Problem(ProblemCode.TRANSACTION, before.last_offset, first.offset, detail))
    return found


def _ends(after: ShardTransactions, one: Transaction) -> bool:
    """Return whether a transaction that was open ends in a later cell.

    Where GTIDs cannot tell, positions decide: a cell that goes back to the transaction and then beyond it read it again.
    """
    if after.first is not None and not after.first.begun and _agree(after.first, one):
        return after.open[:1] != (after.first,)
    source, number = _parsed(one)
    if source is not None and after.gtids is not None and not after.fake_gtids:
        return after.gtid_set.holds(source, number)
    went_back = after.first is not None and after.first.position <= one.position
    return went_back and after.last_position is not None and after.last_position > one.position


def _passes(before: ShardTransactions, after: ShardTransactions, one: Transaction) -> bool:
    """Return whether a later cell has gone on beyond a transaction that it did not end."""
    first = after.first
    if first is None or (not first.begun and _agree(first, one)):
        return False
    source, number = _parsed(one)
    if source is None or after.fake_gtids:
        return first.position > one.position and first.server_id == one.server_id
    ended = after.gtid_set
    theirs = ended.of_source(source)
    if theirs and theirs[-1][1] > number:
        return True
    later = [seen for seen in (first, *after.open) if seen is not one]
    if any(_parsed(seen)[0] == source and _parsed(seen)[1] > number for seen in later):
        return True
    new = ended - before.gtid_set
    return not theirs and bool(new) and first.position > one.position


def _goes_on(before: ShardTransactions, first: Transaction) -> bool:
    """Return whether entries without a BEGIN are explained by the cell before.

    They belong to a transaction that was open there, or are read again from the middle of an earlier one.
    """
    if any(_agree(one, first) for one in before.open) or before.more_open:
        return True
    source, number = _parsed(first)
    intervals = before.gtid_set.of_source(source) if source is not None and not before.fake_gtids else ()
    if intervals:
        return number <= intervals[-1][1]
    return before.last_position is not None and first.position <= before.last_position


def _agree(one: Transaction, other: Transaction) -> bool:
    return one.gtid is None or other.gtid is None or one.gtid == other.gtid


def _parsed(one: Transaction) -> tuple[str | None, int]:
    try:
        return parse_gtid(one.gtid) if one.gtid is not None else (None, 0)
    except ValueError:
        return None, 0


def _named(one: Transaction) -> str:
    return "a transaction" if one.gtid is None else f"transaction {one.gtid}"
