"""Completeness levels of cells and windows, from the evidence that their messages give.

The vendor promises delivery at least once, in order within a Kafka partition (Tencent Cloud, documents 571/55396 and
571/92710). So repeats and re-reads are no fault, and whatever is missing left a mark: a number, a transaction that is not
whole, a GTID that a CHECKPOINT counts. Each rule names the vendor's words that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.delivery import (
    MOST_NAMED,
    CellDelivery,
    ShardSequence,
    ShardTransactions,
    Transaction,
)
from dts_assets.model.gtids import GtidSet, parse_gtid
from dts_assets.model.problems import Completeness, Problem, ProblemCode

_LOSSES = frozenset(
    {
        ProblemCode.WAITING,
        ProblemCode.QUARANTINED,
        ProblemCode.GAP,
        ProblemCode.UNENDED,
        ProblemCode.TRANSACTION,
        ProblemCode.GTIDS,
    }
)
_DOUBTS = frozenset({ProblemCode.ROLLBACK})
_MOST_INTERVALS = 100
"""Intervals of GTIDs remembered of earlier windows; of more, what counts is how far each source came."""


def completeness_of_cell(problems: Iterable[Problem]) -> Completeness:
    """Return ``incomplete`` if any problem means that messages are missing, else ``observed``.

    Problems alone can tell no more.
    """
    lost = any(problem.code in _LOSSES for problem in problems)
    return Completeness.INCOMPLETE if lost else Completeness.OBSERVED


def completeness_of_window(cells: Iterable[Completeness]) -> Completeness:
    """Return the weakest of a window's cells."""
    return min(cells, key=lambda level: level.rank)


def level_of_cell(
    problems: Sequence[Problem], delivery: CellDelivery, *, nothing_follows: bool = False
) -> Completeness:
    """Return the level of one Kafka partition and window, by itself: never ``proven``.

    ``contiguous``: nothing is missing between the messages, every entry set is whole, and changes stand between the BEGIN and
    COMMIT of their transactions. Nothing missing: by the header ``ps`` if every message carries it, which the vendor's
    consumer demo expects to grow by one with each message and to begin again at 1 alone; by offsets if none does. Kafka
    itself leaves out offsets (Apache Kafka, "Message Format": control batches; "Log Compaction"), so without ``ps`` a hole is
    no loss, but no contiguity either. Transactions: a BEGIN and a COMMIT entry around the changes (Tencent Cloud, the page on
    the Protobuf demo, document 571/55396). ROLLBACK is not in use there, so one leaves doubts. Huawei Cloud's messages have
    neither ("Kafka Message Format", drs_03_0052): ``observed``. So is what ends inside a transaction where nothing can
    follow, and a cell without messages, for which nothing speaks.
    """
    level = completeness_of_cell(problems)
    if level is Completeness.INCOMPLETE or any(problem.code in _DOUBTS for problem in problems):
        return level
    judged = _numbered(delivery) and _in_transactions(delivery)
    ended = not (nothing_follows and any(one.open or one.more_open for one in delivery.transactions))
    return Completeness.CONTIGUOUS if judged and ended else level


def _numbered(delivery: CellDelivery) -> bool:
    """Return whether numbers or offsets show that nothing is missing between a cell's messages."""
    if delivery.more_shards:
        return False
    if delivery.numbered == 0:
        return delivery.skipped_offsets == 0
    holes = any(one.holes for one in delivery.sequences)
    began_again = any(one.restarts for one in delivery.sequences)
    marked = all(one.marked for one in delivery.transactions)
    return delivery.unnumbered == 0 and not holes and (marked or not began_again)


def _in_transactions(delivery: CellDelivery) -> bool:
    """Return whether marks of transactions vouch for all changes.

    Of a shard without changes there is nothing to vouch for. Where no message has a number, a cell must show that it comes
    from a task which sends marks, or CHECKPOINTs at least.
    """
    if delivery.numbered:
        return all(one.marked or not one.changes for one in delivery.transactions)
    return bool(delivery.transactions) and all(one.marked or one.first is None for one in delivery.transactions)


def joined(before: CellDelivery, after: CellDelivery) -> CellDelivery:
    """Return two cells of a Kafka partition that follow each other as one cell.

    The next cell is compared with it. Counts add up. What one of them names stays named; GTIDs are united, and of a scattered
    set only the bounds of each source are kept: a year of windows must not become a set of millions.
    """
    shards = sorted({one.shard for one in (*before.sequences, *after.sequences)})
    transactions = sorted({one.shard for one in (*before.transactions, *after.transactions)})
    return CellDelivery(
        first_message=after.first_message if before.first_message is None else before.first_message,
        last_message=before.last_message if after.last_message is None else after.last_message,
        numbered=before.numbered + after.numbered,
        unnumbered=before.unnumbered + after.unnumbered,
        skipped_offsets=before.skipped_offsets + after.skipped_offsets,
        offset_holes=(*before.offset_holes, *after.offset_holes)[:MOST_NAMED],
        sequences=tuple(_joined_sequence(before.sequence(one), after.sequence(one)) for one in shards),
        transactions=tuple(_joined_transactions(before.of_shard(one), after.of_shard(one)) for one in transactions),
        more_shards=before.more_shards + after.more_shards,
        seq_ids=after.seq_ids or before.seq_ids,
    )


def seam(before: CellDelivery, after: CellDelivery) -> tuple[Problem, ...]:
    """Return the problems between two cells of a Kafka partition whose offsets meet.

    Of a shard that one lacks nothing is said. ``before`` may be several cells, :func:`joined`. Numbers: the next ``ps`` is
    one more than the last, not more than the greatest (a repeat), or 1 (the vendor's consumer demo reads 1 as a numbering
    begun anew). Transactions: one that was open goes on or is read again, for a task that is restarted reads again what it
    had not finished (Tencent Cloud, document 571/53454: the data between two checkpoints is sent again as a whole); one that
    goes on was begun or is a re-read.
    """
    found: list[Problem] = []
    for sequence in after.sequences:
        found += _missing_numbers(before.sequence(sequence.shard), sequence)
    for transactions in after.transactions:
        earlier = before.of_shard(transactions.shard)
        if earlier is not None:
            found += _torn(earlier, transactions)
    return tuple(found)


def excused(
    before: CellDelivery, after: CellDelivery, problems: Iterable[Problem]
) -> tuple[tuple[Problem, ...], CellDelivery]:
    """Return the problems and facts of a cell without holes in ``ps`` that earlier cells fill.

    All numbers of such a hole had come in the cells before. Producers may send a message again long after (Apache Kafka,
    producer setting ``retries``), and the vendor's demo drops what is not greater than the last number.
    """
    known: set[int] = set()
    sequences = []
    for sequence in after.sequences:
        earlier = before.sequence(sequence.shard)
        limit = -1 if earlier is None or sequence.restarts else earlier.greatest
        known |= {hole.offset for hole in sequence.named if hole.last <= limit}
        named = tuple(hole for hole in sequence.named if hole.last > limit)
        holes = sequence.holes - len(sequence.named) + len(named)
        sequences.append(replace(sequence, holes=holes, named=named))
    left = tuple(
        problem for problem in problems if problem.code is not ProblemCode.GAP or problem.first_offset not in known
    )
    return left, replace(after, sequences=tuple(sequences))


def gtid_holes(seen_before: GtidSet, seen_now: GtidSet, synced_before: GtidSet | None, synced_now: GtidSet) -> GtidSet:
    """Return the transactions that were sent by the vendor's own account and came in no Kafka partition.

    ``syncedGtid`` of a CHECKPOINT is "the collection of GTIDs parsed by DTS" (Tencent Cloud, the page on the Avro demo).
    ``synced_before`` is that of the last window known to be complete, ``seen_before`` what came up to its end, ``seen_now``
    what has come since, of all partitions. Without ``synced_before`` (the topic begins here) each source begins with the
    first transaction of it that came, and one of which nothing came was there before. Raises ValueError if the dialects mix.
    """
    seen = seen_before | seen_now
    awaited = synced_now
    if synced_before is not None:
        awaited = awaited - synced_before
    else:
        starts = {source: intervals[0][0] for source, intervals in seen.sources}
        awaited = GtidSet.of(
            (source, max(first, starts[source]), last)
            for source, first, last in awaited.intervals()
            if source in starts and last >= starts[source]
        )
    return awaited - seen


def holes_behind(seen: GtidSet, synced: GtidSet) -> GtidSet:
    """Return the transactions missing between the last CHECKPOINT and the last transaction, where nothing can follow.

    The numbers of one source grow by one with each transaction (MySQL Reference Manual, "GTID Format and Storage").
    """
    return (seen | synced).holes - synced.holes


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """The evidence for a window beside its cells.

    ``gtids_missing`` is :func:`gtid_holes` up to the cut's CHECKPOINT (and :func:`holes_behind` where a complete capture
    ends); None while no CHECKPOINT tells: the next window that has one can still prove this one. ``real_gtids``: no
    CHECKPOINT calls them fake, all could be read and kept. ``kafka_partitions`` is how many the topic has, ``given`` how many
    of them are here.
    """

    seams: tuple[Problem, ...] = ()
    gtids_missing: GtidSet | None = None
    real_gtids: bool = False
    kafka_partitions: int = 1
    given: int = 1


def level_of_window(
    cells: Sequence[tuple[Completeness, CellDelivery]], evidence: WindowEvidence
) -> tuple[Completeness, tuple[Problem, ...]]:
    """Return the level of a window, and the problems that its cells do not show.

    ``proven``: all cells of all Kafka partitions are contiguous, nothing is missing between them and the cells before, and
    the union of partitions has every transaction that a CHECKPOINT counts. GTIDs count only if they are the server's:
    ``fakeGtid`` says that DTS made them up: "if gtid_mode is not enabled, DTS will forge a GTID" (the page on the Avro demo),
    and forged ones are contiguous whatever was lost. They count only with marks: in topics of one partition, transactions on
    tables that are not subscribed are sent too, empty, so that GTIDs stay contiguous (documents 571/55403 and 571/57018); of
    others it is not said. So missing GTIDs make a window of one partition ``incomplete``, and others too unless ``ps``
    vouches for every message.
    """
    deliveries = [delivery for _, delivery in cells]
    level = completeness_of_window(own for own, _ in _speaking(cells))
    found = list(evidence.seams)
    if any(problem.code in _LOSSES for problem in evidence.seams):
        level = Completeness.INCOMPLETE
    missing = evidence.gtids_missing
    marked = any(one.marked for delivery in deliveries for one in delivery.transactions)
    if missing and evidence.real_gtids and (marked or evidence.kafka_partitions == 1):
        found.append(Problem(ProblemCode.GTIDS, None, None, _missing_text(missing)))
        vouched = all(one.unnumbered == 0 for one in deliveries) and level is Completeness.CONTIGUOUS
        if evidence.kafka_partitions == 1 or not vouched:
            level = Completeness.INCOMPLETE
    changes = sum(one.changes for delivery in deliveries for one in delivery.transactions)
    proven = (
        level is Completeness.CONTIGUOUS
        and evidence.given == evidence.kafka_partitions
        and evidence.real_gtids
        and missing is not None
        and not missing
        and (marked or not changes)
    )
    return (Completeness.PROVEN if proven else level), tuple(found)


def _speaking(cells: Sequence[tuple[Completeness, CellDelivery]]) -> Sequence[tuple[Completeness, CellDelivery]]:
    """Return the cells without those in which nothing arrived and nothing is wrong, unless all are such."""
    speaking = [
        (level, delivery)
        for level, delivery in cells
        if delivery.first_message is not None or delivery.skipped_offsets or level is Completeness.INCOMPLETE
    ]
    return speaking or cells


def gtids_by_shard(deliveries: Iterable[CellDelivery]) -> Mapping[str, GtidSet | None]:
    """Return the transactions that ended in some cells, by shard: each shard is a server of its own.

    None stands for GTIDs that prove nothing: fake, unreadable, of two dialects, or too scattered to have been kept.
    """
    found: dict[str, GtidSet | None] = {}
    for delivery in deliveries:
        for one in delivery.transactions:
            before = found.get(one.shard, GtidSet())
            useless = one.gtids is None or one.fake_gtids or one.unreadable_gtids
            try:
                found[one.shard] = None if useless or before is None else before | one.gtid_set
            except ValueError:
                found[one.shard] = None
    return found


def _joined_sequence(before: ShardSequence | None, after: ShardSequence | None) -> ShardSequence:
    if before is None or after is None:
        known = before or after
        assert known is not None
        return known
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


def _joined_transactions(before: ShardTransactions | None, after: ShardTransactions | None) -> ShardTransactions:
    if before is None or after is None:
        known = before or after
        assert known is not None
        return known
    still = [one for one in before.open if not _ends(after, one) and not _passes(before, after, one)]
    begun = {one.gtid for one in after.open if one.gtid}
    still = [one for one in still if one.gtid not in begun]
    scattered = before.gtids is None or after.gtids is None
    try:
        gtids = None if scattered else str(_bounded(before.gtid_set | after.gtid_set))
    except ValueError:
        gtids = None
    positions = [one for one in (before.last_position, after.last_position) if one is not None]
    return ShardTransactions(
        after.shard,
        before.begun + after.begun,
        before.ended + after.ended,
        before.changes + after.changes,
        before.first or after.first,
        (*still, *after.open)[-MOST_NAMED:],
        before.more_open + after.more_open + max(0, len(still) + len(after.open) - MOST_NAMED),
        max(positions, default=None),
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
    """Return the transactions of one shard that are not whole, though neither cell can see it alone."""
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

    Where GTIDs cannot tell, it may have.
    """
    if after.first is not None and not after.first.begun and _agree(after.first, one):
        return after.open[:1] != (after.first,)
    source, number = _parsed(one)
    if source is not None and after.gtids is not None and not after.fake_gtids:
        return after.gtid_set.holds(source, number)
    went_back = after.first is not None and after.first.position <= one.position
    return went_back and after.last_position is not None and after.last_position > one.position


def _passes(before: ShardTransactions, after: ShardTransactions, one: Transaction) -> bool:
    """Return whether a later cell has gone on beyond a transaction without ending it."""
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
    """Return whether entries without a BEGIN belong to a transaction that was open.

    They may also be read again from the middle of one.
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


def _missing_text(missing: GtidSet) -> str:
    """Return the number of missing transactions and the first intervals of them, as text."""
    intervals = list(missing.intervals())
    named = str(GtidSet.of(intervals[:MOST_NAMED]))
    more = f" and {len(intervals) - MOST_NAMED} more intervals" if len(intervals) > MOST_NAMED else ""
    return f"{missing.count} transactions that a CHECKPOINT counts came in no Kafka partition: {named}{more}"
