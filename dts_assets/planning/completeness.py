"""Completeness levels of cells and windows, from the evidence that their messages give.

The vendor promises delivery at least once, in order within a Kafka partition (Tencent Cloud, documents 571/55396 and
571/92710). So repeats and re-reads are no fault, and whatever is missing left a mark: a number, a transaction that is not
whole, a GTID that a CHECKPOINT counts. Each rule names the vendor's words that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dts_assets.model.delivery import MOST_NAMED, CellDelivery
from dts_assets.model.gtids import GtidSet
from dts_assets.model.problems import Completeness, Problem, ProblemCode

_LOSSES = frozenset(
    {
        ProblemCode.WAITING,
        ProblemCode.QUARANTINED,
        ProblemCode.GAP,
        ProblemCode.UNENDED,
        ProblemCode.TRANSACTION,
        ProblemCode.GTIDS,
        ProblemCode.ID,
    }
)
_DOUBTS = frozenset({ProblemCode.ROLLBACK, ProblemCode.INTERRUPTED, ProblemCode.LINEAGES, ProblemCode.RELOAD})


def completeness_of_cell(problems: Iterable[Problem]) -> Completeness:
    """Return ``incomplete`` if any problem means that messages are missing, else ``observed``.

    No higher level can be told from problems alone.
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
    COMMIT of their transactions.

    Nothing missing: shown by the header ``ps`` if every message carries it, which the vendor's consumer demo expects to grow by
    one with each message and to begin again at 1 alone; shown by offsets if no message carries it. Kafka itself leaves out
    offsets (Apache Kafka, "Message Format": control batches; "Log Compaction"), so without ``ps`` a hole in the offsets is no
    loss, but no contiguity either.

    Transactions: a BEGIN and a COMMIT entry around the changes (Tencent Cloud, the page on the Protobuf demo, document
    571/55396). ROLLBACK is not in use there, so a ROLLBACK entry leaves doubts. Huawei Cloud's messages have neither BEGIN nor
    COMMIT ("Kafka Message Format", drs_03_0052): such cells are ``observed``. So is a cell that ends inside a transaction where
    nothing can follow, and a cell without messages, because there is no evidence for it.
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

    A shard without changes needs no marks. Where no message has a number, a cell must show that it comes from a task which
    sends BEGIN and COMMIT, or CHECKPOINTs at least.
    """
    if delivery.numbered:
        return all(one.marked or not one.changes for one in delivery.transactions)
    return bool(delivery.transactions) and all(one.marked or one.first is None for one in delivery.transactions)


def gtid_holes(seen_before: GtidSet, seen_now: GtidSet, synced_before: GtidSet | None, synced_now: GtidSet) -> GtidSet:
    """Return the transactions that were sent by the vendor's own account and came in no Kafka partition.

    ``syncedGtid`` of a CHECKPOINT is "the collection of GTIDs parsed by DTS" (Tencent Cloud, the page on the Avro demo).
    Without ``synced_before`` (the topic begins here) each source begins with the first of its transactions that came; a source
    of which no transaction came is not awaited.

    Args:
        seen_before: The transactions that came up to the end of the last window known to be complete.
        seen_now: The transactions that have come since, in all Kafka partitions.
        synced_before: The ``syncedGtid`` of that window's CHECKPOINT; None where there was none.
        synced_now: The ``syncedGtid`` of this window's CHECKPOINT.

    Raises:
        ValueError: The sets are of two GTID dialects.
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
    ends); None while no CHECKPOINT tells: the CHECKPOINT of a later window can still count this window's transactions.
    ``real_gtids`` says that no CHECKPOINT calls the GTIDs fake, and that all of them could be read and kept.
    ``kafka_partitions`` is the number of the topic's Kafka partitions, ``given`` the number that have a stored cell in the
    window.
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
    and forged GTIDs are contiguous whatever was lost. GTIDs count only with BEGIN and COMMIT: in topics of one partition,
    transactions on tables that are not subscribed are sent too, empty, so that GTIDs stay contiguous (documents 571/55403
    and 571/57018); for topics of several partitions the documents do not say so. Missing GTIDs therefore make a window
    ``incomplete`` if the topic has one partition, and with several partitions unless ``ps`` vouches for every message.
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
    """Return the transactions that ended in some cells, by shard: ``{"": GtidSet.parse("3e11fa47-...:1-5")}``.

    Each shard is a server of its own. None stands for GTIDs that prove nothing: fake, unreadable, of two dialects, or too
    scattered to have been kept.
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


def _missing_text(missing: GtidSet) -> str:
    """Return the number of missing transactions and the first intervals of them, as text."""
    intervals = list(missing.intervals())
    named = str(GtidSet.of(intervals[:MOST_NAMED]))
    more = f" and {len(intervals) - MOST_NAMED} more intervals" if len(intervals) > MOST_NAMED else ""
    return f"{missing.count} transactions that a CHECKPOINT counts came in no Kafka partition: {named}{more}"
