"""What a level needs: of a cell, of the seam between two, and of a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dts_assets.model.delivery import (
    NOTHING_DELIVERED,
    CellDelivery,
    Hole,
    ShardSequence,
    ShardTransactions,
    Transaction,
)
from dts_assets.model.gtids import GtidSet
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.planning.adjoining_cells import excused, joined, seam
from dts_assets.planning.completeness import (
    WindowEvidence,
    gtid_holes,
    gtids_by_shard,
    holes_behind,
    level_of_cell,
    level_of_window,
)

INCOMPLETE, OBSERVED, CONTIGUOUS, PROVEN = Completeness
A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOTHING = GtidSet()


def sequence(first: int, last: int, *, at: int = 0, shard: str = "") -> ShardSequence:
    return ShardSequence(shard, first, at, last, at + last - first, last, 0, 0, 0)


def transaction(number: int, *, begun: bool = True, gtids: bool = True, offset: int = 50) -> Transaction:
    gtid = f"{A}:{number}" if gtids else None
    return Transaction(gtid, SourcePosition(0, 3, number * 100 + (not begun)), 1, offset, begun)


def shard(first: Transaction | None, *open_: Transaction, gtids: str = "", last: int = 900) -> ShardTransactions:
    return ShardTransactions("", 1, 1, 1, first, open_, 0, SourcePosition(0, 3, last), 60, gtids, 0, False)


def cell(*transactions: ShardTransactions, numbers: ShardSequence | None = None) -> CellDelivery:
    numbers = numbers or sequence(1, 10)
    return CellDelivery(0, 9, 10, 0, 0, (), (numbers,), transactions, 0, None)


CLEAN = cell(shard(transaction(1), gtids=f"{A}:1-4"))
BARE = replace(CLEAN, numbered=0, unnumbered=10, sequences=())
UNMARKED = replace(shard(transaction(1)), begun=0, ended=0)
HOLE = ShardSequence("", 1, 0, 10, 9, 10, 0, 0, 1, (Hole(4, 5, 3),))


@pytest.mark.parametrize(
    ("delivery", "level"),
    [
        (CLEAN, CONTIGUOUS),
        (BARE, CONTIGUOUS),
        (NOTHING_DELIVERED, OBSERVED),
        (replace(BARE, skipped_offsets=1), OBSERVED),  # without ps a hole may be anything
        (replace(CLEAN, skipped_offsets=1), CONTIGUOUS),  # with ps it is nothing
        (replace(CLEAN, unnumbered=1), OBSERVED),
        (replace(CLEAN, sequences=(HOLE,)), OBSERVED),
        (replace(CLEAN, more_shards=1), OBSERVED),
        (replace(CLEAN, transactions=(UNMARKED,)), OBSERVED),
        (replace(CLEAN, transactions=(replace(UNMARKED, changes=0),)), CONTIGUOUS),
        (replace(BARE, transactions=(replace(UNMARKED, changes=0),)), OBSERVED),  # DDL alone, as DRS sends it
        (replace(BARE, transactions=(replace(UNMARKED, changes=0, first=None),)), CONTIGUOUS),
        (replace(CLEAN, sequences=(replace(sequence(1, 10), restarts=1),)), CONTIGUOUS),
        (replace(CLEAN, sequences=(replace(sequence(1, 10), restarts=1),), transactions=(UNMARKED,)), OBSERVED),
        (cell(shard(transaction(1), transaction(5))), CONTIGUOUS),
    ],
)
def test_the_level_of_a_cell(delivery: CellDelivery, level: Completeness) -> None:
    assert level_of_cell([], delivery) is level
    assert level_of_cell([Problem(ProblemCode.CLOCK, 1, 1, "")], delivery) is level
    assert level_of_cell([Problem(ProblemCode.ROLLBACK, 1, 1, "")], delivery) is OBSERVED
    assert level_of_cell([Problem(ProblemCode.TRANSACTION, 1, 1, "")], delivery) is INCOMPLETE


def test_a_source_that_ends_inside_a_transaction_is_observed() -> None:
    torn = cell(shard(transaction(1), transaction(5)))
    assert level_of_cell([], torn, nothing_follows=True) is OBSERVED
    assert level_of_cell([], CLEAN, nothing_follows=True) is CONTIGUOUS


@pytest.mark.parametrize(
    ("last", "first", "missing"),
    [(10, 11, None), (10, 8, None), (10, 1, None), (10, 12, "1 messages are missing between two windows by ps: 11"),
     (10, 15, "4 messages are missing between two windows by ps: 11 to 14")],
)  # fmt: skip
def test_numbers_between_two_cells(last: int, first: int, missing: str | None) -> None:
    found = seam(cell(numbers=sequence(1, last)), cell(numbers=sequence(first, first + 5, at=40)))
    assert [(one.code, one.first_offset, one.detail) for one in found] == (
        [] if missing is None else [(ProblemCode.GAP, 40, missing)]
    )


def test_a_restart_goes_on_where_either_numbering_was() -> None:
    before = cell(numbers=replace(sequence(1, 3), greatest=10, restarts=1))
    assert seam(before, cell(numbers=sequence(4, 6))) == seam(before, cell(numbers=sequence(11, 12))) == ()
    assert len(seam(before, cell(numbers=sequence(6, 9)))) == 1


@pytest.mark.parametrize("gtids", [True, False])
@pytest.mark.parametrize(
    ("open_", "first", "ended", "torn"),
    [
        ((), transaction(5), "5", False),
        ((transaction(5),), transaction(5, begun=False), "5", False),
        ((transaction(5),), transaction(5), "5", False),
        ((transaction(5),), transaction(3), "3-6", False),  # read again
        ((transaction(5),), transaction(6), "6", True),  # its COMMIT is missing
        ((), transaction(6, begun=False), "6", True),  # its BEGIN is missing
        ((), transaction(3, begun=False), "3-5", False),  # read again, from the middle
    ],
)
def test_transactions_between_two_cells(
    open_: tuple[Transaction, ...], first: Transaction, ended: str, torn: bool, gtids: bool
) -> None:
    if not gtids:
        open_, first = tuple(replace(one, gtid=None) for one in open_), replace(first, gtid=None)
    before = shard(transaction(1, gtids=gtids), *open_, gtids=f"{A}:1-4" if gtids else "", last=520)
    after = shard(first, gtids=f"{A}:{ended}" if gtids else "", last=690)
    found = seam(cell(before, numbers=sequence(1, 9)), cell(after, numbers=sequence(10, 19)))
    assert [one.code for one in found] == [ProblemCode.TRANSACTION] * torn
    together = joined(cell(before), cell(after)).transactions[0]
    assert together.open == ()
    assert together.gtids == ("" if not gtids else str(before.gtid_set | after.gtid_set))


def test_what_is_still_open_is_carried_over_cells_that_do_not_tell() -> None:
    before = cell(shard(transaction(1), transaction(5), gtids=f"{A}:1-4"))
    idle = cell(replace(shard(None), begun=0, ended=0, changes=0, last_position=None))
    again = cell(shard(transaction(3), gtids=f"{A}:3", last=320))
    for between in (NOTHING_DELIVERED, idle, again):
        assert seam(before, between) == ()
        together = joined(before, between)
        assert [one.gtid for one in together.transactions[0].open] == [f"{A}:5"]
        assert len(seam(together, cell(shard(transaction(7), gtids=f"{A}:7")))) == 1


def test_a_scattered_set_is_remembered_by_its_bounds() -> None:
    odd = ":".join(str(number) for number in range(1, 301, 2))
    together = joined(cell(shard(None, gtids=f"{A}:{odd}")), cell(shard(None, gtids=f"{A}:305")))
    assert together.transactions[0].gtids == f"{A}:1-305"


def test_a_hole_that_was_filled_before_is_none() -> None:
    own = [Problem(ProblemCode.GAP, 3, 3, "2 messages are missing"), Problem(ProblemCode.CLOCK, 3, 3, "")]
    after = replace(CLEAN, sequences=(HOLE,))
    problems, delivery = excused(cell(numbers=sequence(1, 5)), after, own)
    assert (problems, level_of_cell(problems, delivery)) == ((own[1],), CONTIGUOUS)
    assert excused(cell(numbers=sequence(1, 4)), after, own) == (tuple(own), after)
    assert excused(NOTHING_DELIVERED, after, own) == (tuple(own), after)


def known(text: str) -> GtidSet:
    return GtidSet.parse(",".join(f"{A}:{part}" for part in text.split(",") if part))


@pytest.mark.parametrize(
    ("seen_before", "seen_now", "synced_before", "synced_now", "missing"),
    [
        ("1-10", "11-20", "1-10", "1-20", ""),
        ("1-12", "13-20", "1-10", "1-20", ""),  # what came ahead of its CHECKPOINT
        ("1-10", "12-20", "1-10", "1-20", "11"),
        ("1-10", "11-25", "1-10", "1-20", ""),
        ("", "5-9", None, "1-9", ""),  # the topic begins with 5
        ("", "5-6:8-9", None, "1-9", "7"),
        ("", "", None, "1-9", ""),
        ("", "", "1-9", "1-9", ""),
        ("", "", "1-9", "1-10", "10"),
    ],
)
def test_what_a_checkpoint_counts_and_nobody_gave(
    seen_before: str, seen_now: str, synced_before: str | None, synced_now: str, missing: str
) -> None:
    base = None if synced_before is None else known(synced_before)
    assert gtid_holes(known(seen_before), known(seen_now), base, known(synced_now)) == known(missing)


def test_what_is_missing_behind_the_last_checkpoint() -> None:
    assert holes_behind(known("11-20"), known("1-12")) == NOTHING
    assert holes_behind(known("11-13:15-20"), known("1-12")) == known("14")
    assert holes_behind(known("5-9"), known("1-3")) == known("4")


ALL = WindowEvidence((), NOTHING, True, 2, 2)


@pytest.mark.parametrize(
    ("evidence", "level"),
    [
        (ALL, PROVEN),
        (replace(ALL, gtids_missing=None), CONTIGUOUS),  # no CHECKPOINT yet
        (replace(ALL, real_gtids=False), CONTIGUOUS),
        (replace(ALL, given=1), CONTIGUOUS),
        (replace(ALL, seams=(Problem(ProblemCode.GAP, 1, 1, ""),)), INCOMPLETE),
        (replace(ALL, gtids_missing=known("7")), CONTIGUOUS),  # ps vouches: it was never sent
        (replace(ALL, gtids_missing=known("7"), kafka_partitions=1, given=1), INCOMPLETE),
        (replace(ALL, gtids_missing=known("7"), real_gtids=False), CONTIGUOUS),
    ],
)
def test_the_level_of_a_window(evidence: WindowEvidence, level: Completeness) -> None:
    found, problems = level_of_window([(CONTIGUOUS, CLEAN), (CONTIGUOUS, CLEAN)], evidence)
    assert found is level
    named = bool(evidence.gtids_missing) and evidence.real_gtids
    assert len(problems) == len(evidence.seams) + named


def test_missing_gtids_count_where_no_number_vouches() -> None:
    found, (problem,) = level_of_window([(CONTIGUOUS, BARE)] * 2, replace(ALL, gtids_missing=known("7-9:12")))
    assert found is INCOMPLETE
    assert problem.detail == f"4 transactions that a CHECKPOINT counts came in no Kafka partition: {A}:7-9:12"


def test_a_window_is_no_better_than_a_cell_that_says_something() -> None:
    assert level_of_window([(CONTIGUOUS, CLEAN), (OBSERVED, BARE)], ALL)[0] is OBSERVED
    assert level_of_window([(CONTIGUOUS, CLEAN), (OBSERVED, NOTHING_DELIVERED)], ALL)[0] is PROVEN
    assert level_of_window([(OBSERVED, NOTHING_DELIVERED)] * 2, ALL)[0] is OBSERVED
    assert level_of_window([(CONTIGUOUS, CLEAN), (INCOMPLETE, NOTHING_DELIVERED)], ALL)[0] is INCOMPLETE


def test_changes_without_marks_prove_nothing() -> None:
    bare = replace(CLEAN, transactions=(UNMARKED,))
    assert level_of_window([(CONTIGUOUS, bare)] * 2, ALL)[0] is CONTIGUOUS


def test_gtids_of_a_window() -> None:
    other = replace(shard(transaction(9)), shard="x", gtids="0:1-5")
    assert gtids_by_shard([cell(shard(None, gtids=f"{A}:1-2"), other), cell(shard(None, gtids=f"{A}:3"))]) == {
        "": known("1-3"), "x": GtidSet.parse("0-1-5"),
    }  # fmt: skip
    for useless in ({"gtids": None}, {"fake_gtids": True}, {"unreadable_gtids": 1}, {"gtids": "0:1"}):
        spoilt = replace(shard(None), **useless)
        assert gtids_by_shard([CLEAN, cell(spoilt), CLEAN]) == {"": None}
