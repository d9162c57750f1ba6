"""Single cases of delivery: what is an alarm, what is none, and how it is put."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dts_assets.model.delivery import MOST_NAMED, CellDelivery, Hole
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages.delivery_tracker import MOST_SHARDS, Delivery
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.gtid_columns import MOST_INTERVALS
from dts_assets.wire.format import Checkpoint

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4350f323-7565-4e59-8763-4b1b83a0ce0e"
Row = tuple[str, str | None, int, int]
"""Kind, GTID, binlog file, position."""


def columns(
    rows: Sequence[Row],
    start: int = 0,
    *,
    shards: Sequence[str] | None = None,
    checkpoints: tuple[Checkpoint, ...] = (),
) -> EntryColumns:
    """Entries of one set each, at offsets from ``start`` on."""
    batch = pa.RecordBatch.from_pydict(
        {
            "set_index": pa.array(range(len(rows)), pa.int32()),
            "message_type": pa.array([kind for kind, *_ in rows], pa.string()),
            "source_type": pa.array(["MYSQL"] * len(rows), pa.string()),
            "event_time": pa.array([None] * len(rows), pa.timestamp("us", tz="UTC")),
            "gtid": pa.array([gtid for _, gtid, *_ in rows], pa.string()),
            "server_id": pa.array([1] * len(rows), pa.int64()),
            "seq_id": pa.array([start + number + 1 for number in range(len(rows))], pa.int64()),
            "file_name": pa.array([f"bin.{file:06d}" for _, _, file, _ in rows], pa.string()),
            "position": pa.array([position for *_, position in rows], pa.int64()),
        }
    )
    sets = pa.RecordBatch.from_pydict(
        {
            "last_offset": pa.array(range(start, start + len(rows)), pa.int64()),
            "shard": pa.array([None] * len(rows) if shards is None else shards, pa.string()),
        }
    )
    return EntryColumns.of(batch, sets, checkpoints)


def told(rows: Sequence[Row], *, fake: bool = False, shards: Sequence[str] | None = None) -> Delivery:
    """One entry per set, at offsets 0, 1, 2, ..., fed one at a time and all at once: both must say the same."""
    steps = []
    for size in (len(rows), 1):
        delivery = Delivery()
        for start in range(0, len(rows), size):
            some, names = rows[start : start + size], None if shards is None else shards[start : start + size]
            made_up = (Checkpoint(0, "bin.000001", 1, None, True),) if fake else ()
            delivery.see_entries(columns(some, start, shards=names, checkpoints=made_up))
        steps.append(delivery)
    assert [one.result() for one in steps[1:]] == [steps[0].result()]
    assert [list(one.problems()) for one in steps[1:]] == [list(steps[0].problems())]
    return steps[0]


def transaction(number: int, *, server: str | None = A, file: int = 3, at: int | None = None) -> list[Row]:
    gtid, place = None if server is None else f"{server}:{number}", number * 100 if at is None else at
    return [("BEGIN", gtid, file, place), ("DML", gtid, file, place + 10), ("COMMIT", gtid, file, place + 20)]


def places(delivery: Delivery) -> list[tuple[int | None, int | None]]:
    found = list(delivery.problems())
    assert {one.code for one in found} <= {ProblemCode.TRANSACTION}
    return [(one.first_offset, one.last_offset) for one in found]


ONE, TWO, THREE = (transaction(number) for number in (1, 2, 3))
BARE = [transaction(number, server=None) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([*ONE, *TWO, *THREE], []),
        ([*ONE, *TWO[:2], *THREE], [(4, 5)]),  # a COMMIT is missing
        ([*ONE, *TWO[1:], *THREE], [(2, 3)]),  # a BEGIN is missing
        ([*ONE, TWO[2], *THREE], [(2, 3)]),
        ([*ONE, *TWO[:2], *THREE[1:]], [(4, 5)]),  # the end of one and the beginning of the next
        ([*ONE[1:], *TWO], []),  # it began before
        ([*ONE, *TWO[:2], *ONE, *TWO, *THREE], []),  # read again, from the middle of a transaction
        ([*ONE, *TWO[:2], *ONE[1:], *TWO, *THREE], []),  # to the middle of one
        ([*ONE, *TWO[:1], *TWO, *THREE], []),
        ([*ONE, *TWO, *TWO[1:], *THREE], []),
        ([*ONE, *TWO[:2], *ONE, *THREE], [(4, 8)]),  # what was read again is lost the second time
        ([row for one in BARE for row in one], []),
        ([*BARE[0], *BARE[1][:2], *BARE[2]], [(4, 5)]),
        ([*BARE[0], *BARE[1][1:], *BARE[2]], [(2, 3)]),
        ([*BARE[0], *BARE[1][:2], *BARE[0], *BARE[1], *BARE[2]], []),
        ([*BARE[0], *BARE[1][:2], *BARE[0][1:], *BARE[1], *BARE[2]], []),
        ([*BARE[0], *BARE[1][:2], *BARE[0][1:], *BARE[1][2:], *BARE[2]], []),  # one late message from before
        ([*ONE, ("DDL", f"{A}:2", 3, 200), *THREE], []),
        ([*ONE[:2], ("DDL", f"{A}:2", 3, 200), *THREE], [(1, 2)]),
        ([("DML", f"{A}:{number}", 3, number * 100) for number in range(1, 9)], []),  # no marks come at all
        ([*TWO[:2], *transaction(1, file=9, at=4), *transaction(2, file=9, at=90), *transaction(1, server=B, file=9)], []),
        ([*TWO[:2], *transaction(1, file=9, at=4), *transaction(3, file=9, at=90)], [(1, 5)]),  # failed over, and lost
        *(([*ONE, *TWO[:2], ("DML", f"{A}:1", 3, place), *TWO[1:], *THREE], [(4, 5)]) for place in (210, 211)),
        ([*ONE, *TWO[:2], *[TWO[1]] * 3, TWO[2], *THREE], []),  # rows of one event, each a message
        ([*ONE, ("BEGIN", f"{A}:2", 3, 200), ("DML", None, 3, 210), ("COMMIT", f"{A}:2", 3, 220)], []),
        ([*ONE, ("BEGIN", f"{A}:2", 3, 200), ("DML", None, 3, 210), ("COMMIT", f"{A}:3", 3, 220), *transaction(4)],
         [(4, 5), (4, 6)]),
    ],
)  # fmt: skip
def test_what_is_missing(rows: list[Row], found: list[tuple[int, int]]) -> None:
    assert places(told(rows)) == found


def test_what_a_cell_says_of_its_transactions() -> None:
    (shard,) = told([*ONE[1:], *TWO, ("DDL", f"{A}:3", 3, 300), *transaction(5)[:2]]).result().transactions
    assert (shard.begun, shard.ended, shard.changes) == (2, 2, 3)
    assert shard.gtids == f"{A}:1-3"
    assert shard.first is not None
    assert (shard.first.gtid, shard.first.begun, shard.first.offset) == (f"{A}:1", False, 0)
    assert [(one.gtid, one.begun, one.offset) for one in shard.open] == [(f"{A}:5", True, 6)]
    assert (shard.last_offset, shard.last_position.position if shard.last_position else None) == (7, 510)


def test_made_up_gtids_are_no_alarm_when_they_change() -> None:
    again = [
        *transaction(1),
        *TWO[:2],
        *transaction(11, at=100)[1:],
        *transaction(12, at=200),
        *transaction(13, at=300),
    ]
    assert places(told(again, fake=True)) == []
    assert told(again, fake=True).result().transactions[0].fake_gtids


def test_shards_are_judged_apart() -> None:
    rows = [row for pair in zip(ONE, transaction(7, server=B), strict=True) for row in pair]
    delivery = told(rows, shards=["x", "y"] * 3)
    assert places(delivery) == []
    assert [(one.shard, one.gtids) for one in delivery.result().transactions] == [("x", f"{A}:1"), ("y", f"{B}:7")]


def test_gtids_of_two_dialects_and_nonsense_are_counted() -> None:
    rows = [*ONE, *[(kind, "0-1-2", 3, at + 100) for kind, _, _, at in ONE], ("COMMIT", "what?", 3, 900)]
    (shard,) = told(rows).result().transactions
    assert (shard.gtids, shard.unreadable_gtids) == (f"{A}:1", 2)


def test_the_number_zero_is_no_transaction() -> None:
    (shard,) = told([*ONE, ("BEGIN", f"{A}:0", 3, 900), ("COMMIT", f"{A}:0", 3, 910)]).result().transactions
    assert (shard.gtids, shard.unreadable_gtids) == (f"{A}:1", 1)


def test_gtids_of_mariadb() -> None:
    rows = [(kind, f"0-{server}-{number}", 3, number * 10) for number, server in ((5, 1), (6, 1), (7, 2)) for kind in ("BEGIN", "COMMIT")]  # fmt: skip # noqa: E501
    assert told(rows).result().transactions[0].gtids == "0:5-7"


def test_what_is_kept_is_bounded() -> None:
    delivery = Delivery()
    count = MOST_INTERVALS + 2
    delivery.see_entries(columns([("COMMIT", f"{A}:{2 * number + 1}", 1, 2 * number) for number in range(count)]))
    (shard,) = delivery.result().transactions
    assert shard.gtids is None
    problems = list(delivery.problems())
    assert len(problems) == MOST_NAMED + 1
    assert problems[-1].detail == f"{count - 1 - MOST_NAMED} more transactions are not whole"
    told_of = told([("BEGIN", None, 1, 1)] * (MOST_SHARDS + 3), shards=[str(one) for one in range(MOST_SHARDS + 3)])
    assert (len(told_of.result().transactions), told_of.result().more_shards) == (MOST_SHARDS, 3)


def messages(numbers: Sequence[int | None], *, offsets: Sequence[int] | None = None, size: int = 99) -> Delivery:
    delivery = Delivery()
    where = list(offsets or range(len(numbers)))
    for start in range(0, len(numbers), size):
        some = numbers[start : start + size]
        fragments = {"shard": pa.array([""] * len(some), pa.string()), "sequence": pa.array(some, pa.int64())}
        delivery.see_messages(pa.array(where[start : start + size], pa.int64()), pa.RecordBatch.from_pydict(fragments))
    return delivery


def sequence(delivery: CellDelivery) -> tuple[int, ...]:
    (one,) = delivery.sequences
    return one.first, one.last, one.greatest, one.restarts, one.repeats, one.holes


@pytest.mark.parametrize("size", [1, 2, 99])
@pytest.mark.parametrize(
    ("numbers", "facts", "holes"),
    [
        ([5, 6, 7], (5, 7, 7, 0, 0, 0), []),
        ([5, 8, 9], (5, 9, 9, 0, 0, 1), [Hole(6, 7, 1)]),
        ([5, 6, 7, 5, 6, 7, 8], (5, 8, 8, 0, 3, 0), []),
        ([5, 6, 7, 6, 8], (5, 8, 8, 0, 1, 0), []),
        ([5, 6, 7, 6, 9], (5, 9, 9, 0, 1, 1), [Hole(8, 8, 4)]),
        ([8, 9, 1, 2, 4], (8, 4, 9, 1, 0, 1), [Hole(3, 3, 4)]),
        ([1, 2, 3, 1, 2, 4], (1, 4, 4, 1, 0, 0), []),  # a repeat that began with 1
        ([None, 5, None, 7], (5, 7, 7, 0, 0, 1), [Hole(6, 6, 3)]),
    ],
)
def test_the_numbers_of_messages(
    numbers: list[int | None], facts: tuple[int, ...], holes: list[Hole], size: int
) -> None:
    delivery = messages(numbers, size=size)
    assert sequence(delivery.result()) == facts
    assert list(delivery.result().sequences[0].named) == holes
    found: list[Problem] = [one for one in delivery.problems() if one.code is ProblemCode.GAP]
    assert [one.first_offset for one in found] == [hole.offset for hole in holes]
    assert (delivery.result().unnumbered, delivery.result().numbered) == (
        numbers.count(None), len(numbers) - numbers.count(None),
    )  # fmt: skip


def test_a_numbering_that_began_again_is_noted() -> None:
    (one,) = messages([8, 9, 1, 2]).problems()
    assert (one.code, one.detail) == (ProblemCode.SEQUENCE, "the numbers in ps began again 1 times")


def test_many_holes_are_counted() -> None:
    *named, rest = messages(list(range(2, 100, 2))).problems()
    assert (len(named), rest.detail) == (MOST_NAMED, f"{48 - MOST_NAMED} more holes by ps")


@pytest.mark.parametrize("size", [1, 99])
def test_holes_in_offsets_are_facts(size: int) -> None:
    delivery = messages([None] * 4, offsets=[3, 4, 7, 9], size=size)
    assert list(delivery.problems()) == []
    found = delivery.result()
    assert (found.first_message, found.last_message, found.skipped_offsets) == (3, 9, 3)
    assert found.offset_holes == (Hole(5, 6, 7), Hole(8, 8, 9))


def test_holes_at_the_ends_of_a_cell_count() -> None:
    assert Delivery(OffsetRange(3, 9)).result().skipped_offsets == 6
    assert Delivery(OffsetRange(3, 3)).result().skipped_offsets == 0


def test_the_vendors_numbers() -> None:
    ids = told([*ONE, *TWO]).result().seq_ids
    assert ids is not None
    assert (ids.smallest, ids.greatest, ids.repeats) == (1, 6, 0)


def test_a_commit_that_names_another_transaction_than_its_begin_is_an_alarm_even_if_its_number_is_lower() -> None:
    rows = [*transaction(1), ("BEGIN", f"{A}:5", 3, 200), ("COMMIT", f"{A}:2", 3, 220), *transaction(3)]
    assert (3, 4) in places(told(rows))
