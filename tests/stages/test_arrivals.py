"""Entries without numbers of the source stand where they came: by window, source time so far, Kafka partition, and offset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.completeness import level_of_cell
from dts_assets.stages.arrivals import ArrivalTracker
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.entry_columns import EntryColumns, source_positions
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.format import ENTRIES
from tests.tiers import examples
from tests.wire.made import messages

START = datetime(2026, 1, 5, tzinfo=UTC)
WIRE = CanalJson()
_FIRST = 1 << 24
"""Entries of one second in one window and Kafka partition, before the next second goes on."""


def cell(partition: int, hour: int = 0) -> Cell:
    start = START + timedelta(hours=hour)
    return Cell(partition, Window(start, start + timedelta(hours=1)))


def batch(seconds: Sequence[int]) -> pa.RecordBatch:
    columns = {name: pa.nulls(len(seconds), ENTRIES.field(name).type) for name in ENTRIES.names}
    times = pa.array([second * 1_000_000 for second in seconds], pa.int64())
    columns["event_time"] = times.view(ENTRIES.field("event_time").type)
    return pa.RecordBatch.from_pydict(columns, schema=ENTRIES)


def places(found: pa.RecordBatch) -> list[SourcePosition]:
    given = pa.RecordBatch.from_arrays(
        [pa.array([0] * len(found), pa.int32()), found["file_name"], found["position"]],
        names=["lineage", "file_name", "position"],
    )
    return [SourcePosition(**one) for one in source_positions(given).to_pylist()]


TIMES = st.integers(1_767_571_200, 1_767_571_206)


@examples(400)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(TIMES, max_size=9)), max_size=4, unique_by=lambda one: one[0]),
    st.lists(st.integers(0, 9), max_size=3),
)
def test_positions_order_entries_as_a_plain_sort_does(cells: list[tuple[int, list[int]]], cuts: list[int]) -> None:
    """Whatever batches they come in, and in both of two windows."""
    found: dict[SourcePosition, tuple[int, int, int, int]] = {}
    for hour in (1, 0):
        for partition, times in cells:
            tracker, latest, offset = ArrivalTracker(), 0, 0
            bounds = sorted({0, len(times), *(min(cut, len(times)) for cut in cuts)})
            for start, end in pairwise(bounds):
                for place, second in zip(
                    places(tracker.placed(batch(times[start:end]), cell(partition, hour))),
                    times[start:end],
                    strict=True,
                ):
                    latest = max(latest, second)
                    assert place not in found
                    found[place] = hour, latest, partition, offset
                    offset += 1
    assert [found[place] for place in sorted(found)] == sorted(found.values())


@examples(100)
@given(st.integers(0, 99), st.lists(st.integers(-(1 << 40), 1 << 45), min_size=1, max_size=20))
def test_any_time_gives_a_place_that_fits(partition: int, seconds: list[int]) -> None:
    """Times that no binlog holds too: each place is greater than the one before, and 64 bits hold it."""
    tracker = ArrivalTracker()
    seconds = [min(max(second, -62_000_000_000), 253_402_300_799) for second in seconds]
    found = places(tracker.placed(batch(seconds), cell(partition)))
    assert all(one < other for one, other in pairwise(found))
    assert 0 <= found[0].position <= found[-1].position < 1 << 63


def test_the_place_of_an_entry_can_be_read() -> None:
    found = ArrivalTracker().placed(batch([1_767_571_300, 1_767_571_300, 1_767_571_250, 1_767_571_301]), cell(3))
    assert found["file_name"].to_pylist() == ["window.1767571200"] * 4
    parts = [(one >> 31, one >> 24 & 127, one & (1 << 24) - 1) for one in found["position"].to_pylist()]
    assert parts == [(1_767_571_300, 3, 0), (1_767_571_300, 3, 1), (1_767_571_300, 3, 2), (1_767_571_301, 3, 0)]


@example(_FIRST - 1)
@example(_FIRST)
@given(st.integers(0, 2 * _FIRST))
def test_very_many_entries_of_one_second_go_on_into_the_next(before: int) -> None:
    second = 1_767_571_300
    tracker = ArrivalTracker((second << 24) + before - 1)
    own, later = places(tracker.placed(batch([second, second + 1]), cell(0)))
    assert own.position >> 31 == second + before // _FIRST
    assert own < later
    assert later.position >> 31 == max(second + 1, second + (before + 1) // _FIRST)


def test_nothing_has_no_place() -> None:
    tracker = ArrivalTracker(7)
    assert tracker.placed(batch([]), cell(0)).num_rows == 0
    assert tracker == ArrivalTracker(7)


def test_positions_of_one_window_compare_as_numbers() -> None:
    placed = ArrivalTracker().placed(batch([5, 5, 9]), cell(1))
    sets = pa.RecordBatch.from_pydict({"last_offset": [0], "shard": pa.array([""])})
    columns = {name: placed[name] for name in placed.schema.names} | {"set_index": pa.array([0] * 3, pa.int32())}
    found = EntryColumns.of(pa.RecordBatch.from_pydict(columns, schema=ENTRIES), sets)
    assert found.keys.dtype == found.positions.dtype
    assert found.keys.tolist() == found.positions.tolist() == placed["position"].to_pylist()


class _Kept:
    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] = []
        self.bad: list[pa.RecordBatch] = []

    def entries(self, rows: pa.RecordBatch) -> None:
        self.rows.append(rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.bad.append(rows)


def body(second: int, **fields: object) -> bytes:
    made = {
        "data": [{"id": str(second)}], "database": "d", "es": second * 1000, "id": 1, "isDdl": False,
        "mysqlType": {"id": "int(11)"}, "old": None, "pkNames": ["id"], "sql": "", "table": "t", "ts": 1, "type": "INSERT",
    } | fields  # fmt: skip
    return json.dumps(made).encode()


def read(values: Sequence[bytes], cuts: Sequence[int] = ()) -> tuple[_Kept, CellDecoder]:
    """A cell that is read in parts, each with the state that the one before left."""
    kept, resume = _Kept(), None
    bounds = sorted({0, len(values), *cuts})
    for start, end in pairwise(bounds):
        reading = CellReading(
            cell(2), OffsetRange(start, end), 0, WIRE, before=lambda _: iter(()), reaches_start=True,
            nothing_follows=False, is_open=True, resume=resume,
        )  # fmt: skip
        decoder = CellDecoder(reading, kept)
        given = messages(*values[start:end])
        place = given.schema.get_field_index("offset")
        offsets = pa.array(range(start, end), given.schema.field(place).type)
        decoder.read([given.set_column(place, "offset", offsets)])
        resume = decoder.resume()
        assert resume is not None
    return kept, decoder


STATEMENT = {"isDdl": True, "data": None}
SENT = [
    body(100), body(100, **STATEMENT, type="ALTER", sql="alter table d.t add v int"), body(90), b"{", body(101),
    body(101, type="QUERY", data=None, sql="insert ..."), body(101),
    body(100, **STATEMENT, type="TRUNCATE", sql="truncate d.t"),
]  # fmt: skip


def test_a_window_that_is_read_in_parts_gives_every_entry_the_same_place() -> None:
    whole, decoder = read(SENT)
    rows = pa.Table.from_batches(whole.rows)
    assert rows["last_offset"].to_pylist() == [0, 1, 2, 4, 5, 6, 7]
    expected = [(100, 0), (100, 1), (100, 2), (101, 0), (101, 1), (101, 2), (101, 3)]
    assert [(one >> 31, one & (1 << 24) - 1) for one in rows["position"].to_pylist()] == expected
    assert sum(one.num_rows for one in whole.bad) == 1
    for cuts in ([1], [3, 4], range(1, 8)):
        parts, in_parts = read(SENT, cuts)
        assert pa.Table.from_batches(parts.rows).equals(rows)
        assert in_parts.runs.statements() == decoder.runs.statements()
    assert [one.offset for one in decoder.runs.statements()] == [1, 7]
    assert decoder.runs.runs() == ()


def test_nothing_vouches_for_such_messages() -> None:
    good = [one for one in SENT if one != b"{"]
    _, decoder = read(good)
    found = list(decoder.problems())
    assert found == []
    assert level_of_cell(found, decoder.delivery.result()) is Completeness.OBSERVED
    _, rolled_back = read([*good, body(102, type="XAROLLBACK", data=None, sql="XA ROLLBACK X'31'")])
    codes = {one.code for one in rolled_back.problems()}
    assert ProblemCode.ROLLBACK in codes
