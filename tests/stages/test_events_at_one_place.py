"""Events of a compressed transaction share a place: none is lost, and what is sent again is found entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.stages.redelivered_entries import find_redelivered
from dts_assets.stages.rows_at_places import RowsAtPlaces
from tests.stages.streams import EPOCH
from tests.tiers import examples

Event = tuple[int, str, int]
"""Position, table, number of rows."""

EntrySet = tuple[int | None, Sequence[Event | str]]
"""A set's ``ps``, and its events; a text is another entry."""

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"


def entries(
    sets: Sequence[EntrySet],
    *,
    first: int = 0,
    gtid: str | None = GTID,
    begin: int | None = None,
) -> pa.Table:
    """Entry sets, each with its ``ps`` and its events; a text is another entry. BEGIN is left out unless it has a place."""
    rows = [
        {
            "last_offset": first + offset, "entry_number": number, "message_type": event if isinstance(event, str) else "DML",
            "event_time": EPOCH, "gtid": gtid, "seq_id": None, "file_name": "bin.000001",
            "position": begin if isinstance(event, str) else event[0], "database": "d", "schema": None,
            "table": None if isinstance(event, str) else event[1], "rows": None if isinstance(event, str) else event[2],
            "shard": None, "sequence": sequence,
        }
        for offset, (sequence, events) in enumerate(sets)
        for number, event in enumerate(events)
    ]  # fmt: skip
    kinds = {"event_time": pa.timestamp("us", tz="UTC"), "gtid": pa.string(), "seq_id": pa.int64(), "position": pa.int64(),
             "rows": pa.int32(), "entry_number": pa.int32(), "sequence": pa.int64(), "last_offset": pa.int64()}  # fmt: skip
    names = ("message_type", "file_name", "database", "schema", "table", "shard")
    schema = pa.schema([*kinds.items(), *((name, pa.string()) for name in names)])
    found = pa.Table.from_pylist(rows, schema)
    return found.filter(
        pc.is_in(found["message_type"], value_set=pa.array(["DML"] if begin is None else ["BEGIN", "DML"]))
    )


def copies(own: pa.Table, *earlier: pa.Table, by_gtid: bool = False, trust: bool = True) -> list[tuple[int, int, int]]:
    found = find_redelivered(earlier, own, {}, trust_gtids=trust, by_gtid=by_gtid)
    return [(row["last_offset"], row["entry_number"], row["kept_offset"]) for row in found.to_pylist()]


A, B = (900, "a", 1), (900, "b", 1)


@pytest.mark.parametrize("position", [900, 0])
@pytest.mark.parametrize("gtid", [GTID, None])
def test_nothing_inside_a_set_is_a_copy_and_the_set_is_found_again(position: int, gtid: str | None) -> None:
    events: list[Event] = [
        (position, table, rows) for table, rows in [("a", 1), ("a", 1), ("b", 2), ("a", 1), ("a", 2), ("b", 2)]
    ]
    sets: list[EntrySet] = [(1, ["BEGIN", *events, "COMMIT"])]
    own = entries(sets, gtid=gtid)
    assert copies(own) == []
    again = entries([(2, sets[0][1])], first=1, gtid=gtid)
    expected = [(1, number, 0) for number in range(1, 7)]
    assert copies(again, own) == expected
    assert copies(pa.concat_tables([own, again])) == expected
    shorter = entries([(9, events[:3])], first=1, gtid=gtid)
    assert copies(shorter, own) == [(1, number, 0) for number in range(3)]
    longer = entries([(9, [*events, events[0]])], first=1, gtid=gtid)
    assert copies(longer, own) == [(1, number, 0) for number in range(6)]


def test_pieces_in_several_messages_stay_where_numbers_follow() -> None:
    pieces: list[EntrySet] = [(5, ["BEGIN", A, A, B]), (6, [B, A]), (7, [A]), (8, [A, "COMMIT"])]
    own = entries(pieces)
    assert copies(own) == []
    again = entries([(14 + number, events) for number, (_, events) in enumerate(pieces)], first=4)
    assert [row[:2] for row in copies(again, own)] == [(4, 1), (4, 2), (4, 3), (5, 0), (5, 1), (6, 0), (7, 0)]
    by_transport = entries(pieces[2:], first=4)
    assert [row[:2] for row in copies(by_transport, own)] == [(4, 0), (5, 0)]
    over_a_border = copies(entries(pieces[2:], first=2), entries(pieces[:2]))
    assert over_a_border == []


def test_pieces_are_copies_where_nothing_shows_that_they_follow() -> None:
    assert copies(entries([(None, [A, A]), (None, [A])])) == [(1, 0, 0)]
    assert copies(entries([(5, [A, A]), (7, [A])])) == [(1, 0, 0)]
    assert copies(entries([(5, [A, A]), (6, ["BEGIN", A, A])])) == [(1, 1, 0), (1, 2, 0)], "told again from its begin"
    assert copies(entries([(5, [A]), (6, [A])])) == [(1, 0, 0)], "an event that was read again begins a message"
    other = (950, "a", 1)
    assert copies(entries([(5, [A, A]), (6, [other]), (7, [other])])) == [(2, 0, 1)]


@examples(200)
@given(
    st.lists(st.sampled_from([A, B, (900, "a", 2)]), min_size=1, max_size=12), st.lists(st.integers(1, 3), max_size=6)
)
def test_a_transaction_of_many_pieces_that_is_told_again_is_stored_once(events: list[Event], cuts: list[int]) -> None:
    pieces: list[list[Event | str]] = [["BEGIN", *events[:2]]]
    rest = events[2:]
    for size in [*cuts, 99]:
        if rest:
            pieces.append([*rest[:size]])
            rest = rest[size:]
    first = entries(list(enumerate(pieces, 1)))
    if len(events) > 1:  # else nothing shows that the place is shared
        assert copies(first) == []
    again = copies(entries(list(enumerate(pieces, 50)), first=len(pieces)), first)
    assert len(again) == len(events)


@pytest.mark.parametrize("begin", [850, 900])
@pytest.mark.parametrize("again", [[900, 900, 900, 900], [310, 320, 330, 340]])
def test_another_server_tells_a_compressed_transaction_its_own_way(begin: int, again: list[int]) -> None:
    """``begin`` is the place of BEGIN, ``again`` those of the changes in the other server's binlog."""
    tables = [("a", 1), ("a", 1), ("b", 1), ("a", 1)]

    def told(places: Sequence[int], begin: int, file: int, offset: int) -> pa.Table:
        events: list[Event] = [(place, *what) for place, what in zip(places, tables, strict=True)]
        found = entries([(offset + 1, ["BEGIN", *events, "COMMIT"])], first=offset, begin=begin)
        name = pa.array([f"bin.{file:06d}"] * len(found))
        return found.set_column(found.schema.get_field_index("file_name"), "file_name", name)

    first, second = told([900] * 4, begin, 1, 0), told(again, min(again) - 5, 2, 1)
    expected = [(1, number, 0) for number in range(1, 5)]
    assert copies(second, first, by_gtid=True) == copies(pa.concat_tables([first, second]), by_gtid=True) == expected
    assert copies(first, told(again, min(again) - 5, 2, -1), by_gtid=True) == [
        (0, number, -1) for number in range(1, 5)
    ]


def test_rows_of_events_at_one_place_have_numbers_of_their_own() -> None:
    def numbers(
        rows: list[int], positions: list[int], fresh: list[bool], times: list[datetime] | None = None
    ) -> list[int]:
        batch = pa.RecordBatch.from_pydict({
            "schema": pa.array([None] * len(rows), pa.string()), "file_name": pa.array(["bin.000001"] * len(rows)),
            "position": pa.array(positions, pa.int64()), "rows": pa.array(rows, pa.int32()),
            "event_time": pa.array(times or [EPOCH] * len(rows), pa.timestamp("us", tz="UTC")),
        })  # fmt: skip
        return [int(one) for one in RowsAtPlaces().before((0, 0), batch, np.array(fresh))]

    assert numbers([2, 1, 3], [5, 5, 5], [True] * 3) == [0, 2, 3]
    assert numbers([2, 1, 3], [5, 6, 7], [True] * 3) == [0, 0, 0]
    assert numbers([2, 2, 3], [5, 5, 5], [True, False, True]) == [0, 0, 2]
    assert numbers([2, 1], [0, 0], [True] * 2, [EPOCH, EPOCH + timedelta(seconds=1)]) == [0, 2]
