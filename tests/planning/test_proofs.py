"""The proof of windows, one after the other: seams, sets left open, and the facts that a proof rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.delivery import NOTHING_DELIVERED, CellDelivery, ShardSequence
from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.proofs import WindowProof, prove_windows
from tests.ledger_rows import ingest_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))


def delivery(first: int, last: int) -> CellDelivery:
    sequence = ShardSequence("", first, 0, last, last - first, last, 0, 0, 0)
    return CellDelivery(0, 9, last - first + 1, 0, 0, (), (sequence,), (), 0, None)


def row(number: int, found: CellDelivery, *, start: int | None = None, epoch: int = 0, **counts: int) -> IngestWindow:
    offsets = OffsetRange(number * 10 if start is None else start, number * 10 + 10)
    return ingest_row(Cell(0, GRID.at(number)), offsets, epoch=epoch, delivery=found, counts=Counts(**counts))


def proofs(*rows: IngestWindow, partitions: int = 1) -> list[WindowProof]:
    return list(prove_windows(rows, kafka_partitions=partitions, synced={}, trust_gtids=True).values())


def codes(found: Iterable[WindowProof]) -> list[list[tuple[int | None, ProblemCode]]]:
    return [[(partition, problem.code) for partition, problem in proof.problems] for proof in found]


def test_numbers_missing_between_two_windows_make_the_later_one_incomplete() -> None:
    found = proofs(row(1, delivery(13, 20)), row(0, delivery(1, 10)))
    assert codes(found) == [[], [(0, ProblemCode.GAP)]]
    assert [one.level for one in found] == [Completeness.CONTIGUOUS, Completeness.INCOMPLETE]


def test_windows_that_do_not_meet_are_not_compared() -> None:
    for later in (row(1, delivery(13, 20), start=11), row(1, delivery(13, 20), epoch=1)):
        assert codes(proofs(row(0, delivery(1, 10)), later)) == [[], []]


@pytest.mark.parametrize("carried_in", [0, 1, 3])
def test_what_one_window_carries_out_the_next_one_carries_in(carried_in: int) -> None:
    before, idle = row(0, delivery(1, 10), carried_out=2), row(1, NOTHING_DELIVERED, carried_in=2, carried_out=2)
    for between in ((), (idle,)):
        number = 1 + len(between)
        wrong = proofs(before, *between, row(number, delivery(11, 20), carried_in=carried_in))[-1]
        assert codes([wrong]) == [[(0, ProblemCode.UNENDED)]]
        assert wrong.level is Completeness.INCOMPLETE
        assert codes(proofs(before, *between, row(number, delivery(11, 20), carried_in=2)))[-1] == []


def test_a_set_is_not_forgotten_behind_windows_without_messages() -> None:
    before, ended = row(0, delivery(1, 10), carried_out=2), row(1, NOTHING_DELIVERED)
    assert codes(proofs(before, ended)) == [[], [(0, ProblemCode.UNENDED)]]


def test_a_set_of_one_of_several_shards_is_not_forgotten() -> None:
    two = CellDelivery(0, 9, 20, 0, 0, (), tuple(replace(delivery(1, 10).sequences[0], shard=one) for one in "ab"))
    on = CellDelivery(0, 9, 20, 0, 0, (), tuple(replace(delivery(11, 20).sequences[0], shard=one) for one in "ab"))
    assert codes(proofs(row(0, two, carried_out=2), row(1, on))) == [[], [(0, ProblemCode.UNENDED)]]


def test_a_break_of_lineages_that_is_not_proven_lowers_its_own_window_alone() -> None:
    rows = [row(number, delivery(number * 10 + 1, number * 10 + 10)) for number in range(3)]
    certain = proofs(*rows)
    doubts = (Doubt(0, 13, "another server"), Doubt(1, 23, "another Kafka partition"))
    found = list(prove_windows(rows, kafka_partitions=1, synced={}, trust_gtids=True, doubts=doubts).values())
    assert codes(found) == [[], [(0, ProblemCode.LINEAGES)], []]
    assert [one.level for one in found] == [Completeness.CONTIGUOUS, Completeness.OBSERVED, Completeness.CONTIGUOUS]
    assert [one.rests_on == other.rests_on for one, other in zip(found, certain, strict=True)] == [True, False, True]


def test_a_proof_rests_on_the_windows_before_and_not_on_its_own() -> None:
    first, second = row(0, delivery(1, 10)), row(1, delivery(11, 20))
    rests_on = [one.rests_on for one in proofs(first, second)]
    assert [one.rests_on for one in proofs(first, row(1, delivery(11, 19)))] == rests_on
    other = [one.rests_on for one in proofs(row(0, delivery(1, 9)), second)]
    assert (other[0], other[1] != rests_on[1]) == (rests_on[0], True)


def test_a_proof_rests_on_gtids_that_a_later_window_may_show_to_be_made_up() -> None:
    rows = row(0, delivery(1, 10)), row(1, delivery(11, 20))
    made_up = prove_windows(rows, kafka_partitions=1, synced={}, trust_gtids=False).values()
    assert all(one.rests_on != other.rests_on for one, other in zip(proofs(*rows), made_up, strict=True))


def test_problems_and_windows_come_in_the_order_of_kafka_partitions_and_time() -> None:
    rows = [
        ingest_row(Cell(partition, GRID.at(number)), OffsetRange(number * 10, number * 10 + 10), delivery=found)
        for partition in (1, 0)
        for number, found in ((1, delivery(13, 20)), (0, delivery(1, 10)))
    ]
    found = prove_windows(rows, kafka_partitions=2, synced={}, trust_gtids=True)
    assert list(found) == [GRID.at(0).start, GRID.at(1).start]
    assert codes(found.values()) == [[], [(0, ProblemCode.GAP), (1, ProblemCode.GAP)]]
