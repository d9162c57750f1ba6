"""An error that nobody expected stops at the message that raises it, wherever it stands and however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.changelog_decoder import ChangelogDecoder
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.isolation import decoded_apart, fault_of
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.format import DecodedChanges, DecodedEntries
from tests.stages.task_messages import Sent
from tests.wire.made import messages

START = datetime(2026, 1, 5, tzinfo=UTC)
CELL = Cell(0, Window(START, START + timedelta(hours=1)))
ORDERS = TableId("shop", "", "orders")
TABLES = {ORDERS: (Column("id", "bigint", is_key=True), Column("note", "string", is_key=False))}
COUNT = 12
PLACES = st.sets(st.integers(0, COUNT - 1))


class Faulty(DrsJsonC):
    """A format with two faults: it raises an error where some message is among those that it is given."""

    def entries(self, sets: pa.Array) -> DecodedEntries:
        _raise_at(sets, b"no entry", KeyError)
        return super().entries(sets)

    def changes(self, entries: pa.RecordBatch, tables: Any) -> DecodedChanges:
        _raise_at(entries["payload"], b"no change", pa.ArrowInvalid)
        return super().changes(entries, tables)


def _raise_at(payloads: pa.Array, text: bytes, kind: type[Exception]) -> None:
    for payload in payloads.to_pylist():
        if text in payload:
            raise kind(f"a value of the customer: {payload!r}")


class Kept:
    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.quarantined: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []

    def entries(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.quarantined += rows.to_pylist()

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        self.found += rows.to_pylist()

    def statements(self, rows: pa.RecordBatch) -> None:
        raise AssertionError("there are none")


def read(notes: list[str]) -> tuple[CellDecoder, ChangelogDecoder, Kept]:
    """Decode one message per note, by a format that has faults."""
    wire, kept = Faulty(), Kept()
    reading = CellReading(
        CELL, OffsetRange(0, COUNT), 0, wire, before=lambda _: iter(()), reaches_start=True, nothing_follows=True
    )
    cell = CellDecoder(reading, kept)
    cell.read([messages(*(Sent(number, note, number, number).body() for number, note in enumerate(notes)))])
    changelogs = ChangelogDecoder(wire, TABLES, EntriesWanted(), kept)
    changelogs.read(kept.batches)
    return cell, changelogs, kept


@given(PLACES, PLACES)
def test_everything_else_is_decoded(no_entry: set[int], no_change: set[int]) -> None:
    no_change -= no_entry
    notes = ["no entry" if n in no_entry else "no change" if n in no_change else f"note {n}" for n in range(COUNT)]
    cell, changelogs, kept = read(notes)
    good = [number for number in range(COUNT) if number not in no_entry | no_change]
    assert [row["kafka_offset"] for row in kept.found] == good
    assert [row["after"] for row in kept.found] == [{"id": number, "note": notes[number]} for number in good]
    where = {(row["stage"], row["first_offset"], row["reason"]) for row in kept.quarantined}
    expected = [("entries", one, Reason.UNEXPECTED) for one in no_entry]
    assert where == {*expected, *(("tables", one, Reason.UNEXPECTED) for one in no_change)}
    assert len(kept.quarantined) == len(where)
    counts = cell.counts()
    assert counts.quarantined_sets == len(no_entry)
    assert counts.unbalanced == ()
    tally = sum(one.quarantined for one in changelogs.tallies.values())
    assert (tally, sum(one.changes for one in changelogs.tallies.values())) == (len(no_change), len(good))


def test_the_place_of_the_fault_is_named_and_no_value() -> None:
    _, _, kept = read(["no entry", "no change", *("fine" for _ in range(COUNT - 2))])
    first, second = sorted(kept.quarantined, key=lambda row: row["first_offset"])
    assert first["detail"].startswith("KeyError at stages/cell_decoder.py:")
    assert second["detail"].startswith("shop.orders: ArrowInvalid at stages/changelog_decoder.py:")
    assert all("customer" not in row["detail"] for row in kept.quarantined)


def test_an_error_from_elsewhere_is_named_by_its_kind() -> None:
    assert fault_of(ZeroDivisionError("1/0")) == "ZeroDivisionError"


@pytest.mark.parametrize("error", [WireFormatError("x", "y"), MemoryError(), pa.ArrowMemoryError("malloc")])
def test_what_is_no_fault_of_a_message_stops_the_task(error: Exception) -> None:
    def decode(_: pa.RecordBatch) -> None:
        raise error

    with pytest.raises(type(error)):
        list(decoded_apart(decode, pa.RecordBatch.from_pydict({"a": [1, 2, 3]})))


def test_a_few_faults_cost_a_few_batches() -> None:
    calls: list[int] = []

    def decode(rows: pa.RecordBatch) -> Any:
        calls.append(rows.num_rows)
        if 777 in rows["a"].to_pylist():
            raise ValueError
        return rows.num_rows

    found = list(_sizes(decode, pa.RecordBatch.from_pydict({"a": list(range(4096))})))
    assert sum(found) == 4096
    assert len(calls) == 2 * 12 + 1
    assert sum(calls) < 3 * 4096 + 100


def _sizes(decode: Any, rows: pa.RecordBatch) -> Iterator[int]:
    for some, result in decoded_apart(decode, rows):
        assert isinstance(result, ValueError) or result == some.num_rows
        yield some.num_rows
