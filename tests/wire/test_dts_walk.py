"""Entries that are walked in step: what is found in them, what is left to the parser, and when a walk is not worth it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import traffic
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, walk, walked_rows
from dts_assets.wire.dts_protobuf.protobuf_parser import decode
from dts_assets.wire.dts_protobuf.walk import Described, described_columns, find_events
from dts_assets.wire.format import DecodedChanges
from tests.dts_messages import NULL, Row, delimited, dml, number, text
from tests.tiers import times
from tests.wire.made import batch

FAST, PLAIN = DtsProtobuf("ptars"), DtsProtobuf("protobuf")
COLUMNS = [("id", "int(11)"), ("note", "text")]
ASKED = {TableId("shopdb", "", "orders"): (Column("id", "int", True), Column("note", "string", False))}


@pytest.fixture(params=["values are parsed", "values are walked"])
def _any_call(request: pytest.FixtureRequest) -> Iterator[None]:
    """Walk calls of a single entry, too, and the smallest values or none."""
    large = 0 if request.param == "values are walked" else 1 << 40
    with (
        patch.object(walk, "PER_STEP", 1),
        patch.object(walked_rows, "PER_STEP", 1),
        patch.object(walked_rows, "LARGE", large),
    ):
        yield


def _payloads(*entries: bytes) -> pa.BinaryArray:
    return pa.array(entries, pa.binary())


def _update(rows: int = 1, note: str = "a") -> pb.Entry:
    images = [([number(str(row)), text(note)], [number(str(row)), NULL]) for row in range(rows)]
    return dml(COLUMNS, images, operation=pb.UPDATE)


def _walked(payloads: pa.BinaryArray, tables: npt.NDArray[np.int64] | None = None) -> Described | None:
    events = find_events(payloads)
    return None if events is None else described_columns(events, tables)


def _same(one: DecodedChanges, other: DecodedChanges) -> bool:
    tables = [[(table.table, table.batch) for table in found.tables] for found in (one, other)]
    facts = [(found.rejected, found.unsigned, found.unknown) for found in (one, other)]
    return tables[0] == tables[1] and facts[0] == facts[1]


@pytest.mark.usefixtures("_any_call")
def test_columns_are_told_apart_by_their_bytes() -> None:
    """The first of all lists, one that few entries have, and the entries of other events."""
    begin = pb.Entry(
        header=pb.Header(messageType=pb.BEGIN), event=pb.Event(beginEvent=pb.BeginEvent(transactionId="7"))
    )
    rare = [
        dml([("id", "int(11)"), (f"note_{place}", "text")], [([], [number(str(place)), NULL])]) for place in range(12)
    ]
    entries = [begin, _update(2, "x" * 300), dml(COLUMNS, []), *rare, _update(), dml([], []), rare[3], begin]
    payloads = _payloads(b"not of the array", *(one.SerializeToString() for one in entries)).slice(1)
    found = _walked(payloads)
    assert found is not None
    described = [
        b"".join(delimited(2, one.SerializeToString()) for one in entry.event.dmlEvent.columns) for entry in entries
    ]
    assert [found.columns[code] for code in found.codes.tolist()] == described
    assert found.sizes.tolist() == list(map(len, described))
    assert found.are_dml.tolist() == [entry.event.HasField("dmlEvent") for entry in entries]
    assert found.rows.tolist() == [len(entry.event.dmlEvent.rows) for entry in entries]
    some = np.asarray([1, 5])
    assert found.take(some).rows.tolist() == found.rows[some].tolist()
    assert [found.columns[code] for code in found.take(some).codes.tolist()] == [described[1], described[5]]


@pytest.mark.usefixtures("_any_call")
@pytest.mark.parametrize("in_step", [1, 1000])
@pytest.mark.parametrize("told", [[1, 0, 2] * 8, [0] * 24, list(range(24)), [7, 3] * 12])
def test_tables_say_where_equal_columns_are_looked_for_and_no_more(in_step: int, told: list[int]) -> None:
    """Three tables in turn, one of which has a column more in the second half; some numbers of tables are wrong."""
    own = [[*COLUMNS, (f"of_{table}", "text")] for table in range(3)]
    later = [own[0], [*own[1], ("more", "text")], own[2]]
    entries = [dml(columns, []) for turn in range(8) for columns in (own if turn < 4 else later)]
    payloads = _payloads(*(one.SerializeToString() for one in entries))
    with patch.object(walk, "_LEAST_IN_STEP", in_step):
        found = _walked(payloads, np.asarray(told))
    assert found is not None
    assert [found.columns[code] for code in found.codes.tolist()] == [
        b"".join(delimited(2, one.SerializeToString()) for one in entry.event.dmlEvent.columns) for entry in entries
    ]
    assert len(set(found.columns)) == len(found.columns) == 5  # one of them is that of events without columns


HEADER = delimited(1, pb.Header(messageType=pb.DML, schemaName="shopdb", tableName="orders").SerializeToString())
DESCRIBED = b"".join(delimited(2, one.SerializeToString()) for one in dml(COLUMNS, []).event.dmlEvent.columns)
VALUES = [number("1").SerializeToString(), text("a").SerializeToString()]
OLD_VALUES = [number("2").SerializeToString(), text("bc").SerializeToString()]
OLD, NEW = (b"".join(delimited(side, one) for one in values) for side, values in ((1, OLD_VALUES), (2, VALUES)))
UNKNOWN = delimited(9, b"?")


def _event(inside: bytes) -> bytes:
    return delimited(2, inside)


@pytest.mark.usefixtures("_any_call")
@pytest.mark.parametrize(
    "payload",
    [
        HEADER + _event(delimited(2, b"\x12\x85")),
        HEADER + _event(delimited(2, b"\x12\x85\x80")),
        HEADER + _event(delimited(2, b"\x12\xff\xff\xff\xff\xff\xff\x01" + DESCRIBED)),
        _event(delimited(2, b"\x08\x01" + DESCRIBED + delimited(3, OLD + NEW))) + HEADER,
        HEADER + _event(delimited(2, DESCRIBED + delimited(3, NEW))) + UNKNOWN,
        HEADER + _event(delimited(2, DESCRIBED + delimited(3, NEW)) + UNKNOWN),
        HEADER + _event(delimited(2, DESCRIBED + delimited(3, NEW) + UNKNOWN)),
        HEADER + _event(delimited(2, DESCRIBED + delimited(3, NEW)) + delimited(15, b"")),
        HEADER + _event(delimited(2, DESCRIBED) + delimited(2, delimited(3, NEW))),  # parsers join the two
        HEADER + _event(delimited(2, DESCRIBED)) + _event(delimited(2, delimited(3, NEW))),
        HEADER + _event(delimited(2, delimited(3, NEW) + DESCRIBED)),
        HEADER + _event(delimited(2, DESCRIBED + delimited(3, NEW) + b"\x08\x01")),
        HEADER + _event(delimited(2, b"\x08\x80\x01" + DESCRIBED + delimited(3, NEW))),  # an operation of two bytes
        HEADER + _event(delimited(2, b"\x08\x00\x08\x01" + DESCRIBED + delimited(3, OLD + NEW))),
        HEADER + _event(delimited(2, b"\x08")),
        HEADER + _event(delimited(2, DESCRIBED + b"\x1a\x05\x12")),  # a row that ends beyond the entry
        HEADER + _event(delimited(2, DESCRIBED + b"\x1a\xff\xff\xff\xff\xff\x01")),
        HEADER + _event(delimited(2, DESCRIBED + b"\x1a")),
        HEADER,
        delimited(1, b""),
        b"",
        b"\x0a",
        b"\xff" * 40,
    ],
)
def test_any_other_layout_is_left_to_the_parser(payload: bytes) -> None:
    usual = _update().SerializeToString()
    assert _walked(_payloads(usual, usual)) is not None
    for payloads in (_payloads(payload), _payloads(usual, payload, usual)):
        assert _walked(payloads) is None
        _compare(payloads)


@pytest.mark.usefixtures("_any_call")
@pytest.mark.parametrize(
    "row",
    [
        NEW + UNKNOWN,
        NEW + OLD,
        OLD + NEW + OLD,
        OLD + OLD + NEW,
        NEW + delimited(15, b""),
        b"\x12\x03\x08",
        b"\x13",
        delimited(2, UNKNOWN) + delimited(2, VALUES[1]),
        delimited(2, b"\x1a\x01\x31") + delimited(2, VALUES[1]),  # no data type
        delimited(1, b"\x08\x99\x01") + delimited(2, VALUES[1]),
    ],
)
@pytest.mark.parametrize("operation", [b"", b"\x08\x01", b"\x08\x02", b"\x08\x07"])
def test_rows_are_read_alike_however_columns_are_read(row: bytes, operation: bytes) -> None:
    usual = _update().SerializeToString()
    payload = HEADER + _event(delimited(2, operation + DESCRIBED + delimited(3, row)))
    for payloads in (_payloads(payload), _payloads(usual, payload, usual)):
        assert _walked(payloads) is not None
        _compare(payloads)


@pytest.mark.usefixtures("_any_call")
@pytest.mark.parametrize(
    "payload",
    [HEADER + _event(delimited(1, b"") + delimited(2, DESCRIBED + delimited(3, NEW))), HEADER + _event(b"")],
)
def test_an_entry_of_two_events_or_none_is_not_taken_for_one_without_columns(payload: bytes) -> None:
    usual = _update().SerializeToString()
    for payloads in (_payloads(payload), _payloads(usual, payload, usual)):
        _compare(payloads)


def _compare(payloads: pa.BinaryArray) -> None:
    """Entries and their sets are decoded as protobuf's own parser does it."""
    entries = _batch(payloads)
    assert _same(FAST.changes(entries, ASKED), PLAIN.changes(entries, ASKED))
    fast, plain = (
        wire.entries(_payloads(b"".join(delimited(1, one) for one in payloads.to_pylist()))) for wire in (FAST, PLAIN)
    )
    assert fast.batch.equals(plain.batch)
    assert (fast.rejected, fast.shapes, fast.unknown) == (plain.rejected, plain.shapes, plain.unknown)


def _batch(payloads: pa.BinaryArray) -> pa.RecordBatch:
    """Entries of ``orders`` with any bytes."""
    like = batch(*[_update()] * len(payloads))
    return like.set_column(like.schema.get_field_index("payload"), "payload", payloads)


@pytest.mark.more
@pytest.mark.usefixtures("_any_call")
def test_what_is_walked_of_broken_entries_is_what_the_parser_finds() -> None:
    draw, walked = random.Random(3), 0
    good = _update(2, "x" * 200).SerializeToString()
    tries = times(200, 800)
    for _ in range(tries):
        broken = bytearray(good)
        for _ in range(draw.randint(1, 2)):
            at = draw.randrange(len(broken))
            what = draw.randrange(3)
            if what == 0:
                broken[at] ^= 1 << draw.randrange(8)
            elif what == 1:
                broken[at] = draw.choice(b"\x00\x01\x02\x08\x0a\x12\x1a\x22\x7f\x80\xff")
            else:
                del broken[at : at + draw.randint(1, 4)]
        payloads = _payloads(good, bytes(broken), good)
        walked += _walked(payloads) is not None
        _compare(payloads)
    assert tries / 8 < walked < tries * 7 / 8


def test_calls_of_few_entries_and_entries_with_very_many_rows_are_left_to_the_parser() -> None:
    usual = _update().SerializeToString()
    assert _walked(_payloads(*[usual] * (walk.PER_STEP - 1))) is None
    assert _walked(_payloads(*[usual] * walk.PER_STEP)) is not None
    steps = 0
    field = walk.fields_at

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return field(*arguments)

    with patch.object(walk, "fields_at", counted):
        assert _walked(_payloads(*[usual] * walk.PER_STEP, _update(5_000).SerializeToString())) is None
    assert steps < 100


@pytest.mark.parametrize(("tables", "columns", "rows"), [(1, 30, 1), (1, 6, 5), (12, 15, 3), (40, 8, 1)])
def test_realistic_traffic_is_walked_and_decodes_as_the_parser_does(tables: int, columns: int, rows: int) -> None:
    sets = traffic.entry_sets(traffic.tables(tables, columns, seed=5), rows=rows, size=600_000, seed=6)
    entries = FAST.entries(sets).batch
    with patch.object(walk, "PER_STEP", 1):
        assert _walked(entries["payload"]) is not None
        fast, plain = FAST.entries(sets), PLAIN.entries(sets)
        assert fast.batch.equals(plain.batch)
        assert (fast.shapes, fast.rejected, fast.unknown) == (plain.shapes, plain.rejected, plain.unknown)
        asked = {
            shape.table: tuple(
                Column(one.name, FAST.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
                for one in shape.columns
            )
            for shape in fast.shapes
        }
        changes = entries.filter(pc.equal(entries["message_type"], "DML"))
        one_table = dict([next(iter(asked.items()))])
        for some, tables_of in (
            (entries, asked),
            (changes, asked),
            (entries, one_table),
            (changes.slice(3), one_table),
        ):
            assert _same(FAST.changes(some, tables_of), PLAIN.changes(some, tables_of))


@pytest.mark.usefixtures("_any_call")
def test_large_values_of_some_of_the_tables_are_found_in_any_order() -> None:
    """Tables in turn, of which a call wants one or two in another order than they came."""
    draw, entries = random.Random(7), []
    for place in range(40):
        notes = ["x" * draw.randrange(2_000) for _ in range(draw.randrange(4))]
        operation = draw.choice([pb.INSERT, pb.UPDATE, pb.DELETE])
        images = [
            (
                [] if operation == pb.INSERT else [number(place), text(note)],
                [] if operation == pb.DELETE else [number(place), draw.choice([NULL, text(note[::2], "gbk")])],
            )
            for note in notes
        ]
        entries.append(dml(COLUMNS, images, operation=operation, table=("orders", "bag", "notes")[place % 3]))
    columns = next(iter(ASKED.values()))
    for wanted in (["notes"], ["notes", "orders"], ["bag", "orders", "notes"]):
        asked = {TableId("shopdb", "", name): columns for name in wanted}
        assert _same(FAST.changes(batch(*entries), asked), PLAIN.changes(batch(*entries), asked))


@pytest.mark.usefixtures("_any_call")
def test_a_value_that_ends_in_the_next_row_is_none_of_its_row() -> None:
    described = b"".join(delimited(2, one.SerializeToString()) for one in dml(COLUMNS[:1], []).event.dmlEvent.columns)
    next_row = delimited(2, VALUES[0])
    beyond = b"\x12" + bytes([4 + len(next_row)]) + b"\x08\x03"
    payload = HEADER + _event(delimited(2, described + delimited(3, beyond) + delimited(3, next_row)))
    assert _walked(_payloads(payload)) is not None
    _compare(_payloads(payload))


@pytest.mark.parametrize(("size", "parsed"), [(5_000, 0), (5, 1)])
@pytest.mark.parametrize("tables", [["orders"], ["orders", "bag"]])
def test_large_values_are_not_copied_by_a_parser(size: int, parsed: int, tables: list[str]) -> None:
    images: list[Row] = [([], [number(1), text("x" * size)])] * 3
    entries = batch(*(dml(COLUMNS, images, table=table) for _ in range(walk.PER_STEP) for table in tables))
    asked = {TableId("shopdb", "", table): next(iter(ASKED.values())) for table in tables}
    with patch("dts_assets.wire.dts_protobuf.row_changes.decode", wraps=decode) as parser:
        found = FAST.changes(entries, asked)
    assert parser.call_count == parsed
    assert sum(one.batch.num_rows for one in found.tables) == 3 * len(entries)
