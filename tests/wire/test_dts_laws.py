"""Laws: both engines and a naive loop agree on anything, and no bytes can break a call."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import traffic
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, walk
from dts_assets.wire.format import DecodedChanges
from tests.dts_messages import ABSENT, NULL, delimited, dml, number, raw, text
from tests.tiers import examples
from tests.wire import dts_oracle as oracle
from tests.wire.made import batch, messages

FAST, PLAIN = DtsProtobuf("ptars"), DtsProtobuf("protobuf")


def _parsed(entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
    """The changes where every value goes through protobuf's own parser."""
    with patch("dts_assets.wire.dts_protobuf.row_changes.plain_image", return_value=None):
        return PLAIN.changes(entries, tables)


def _walked(entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
    """The changes where calls of a single entry are walked in step, too."""
    with patch.object(walk, "PER_STEP", 1):
        return FAST.changes(entries, tables)


_INTEGERS = st.integers(-(1 << 65), 1 << 65).map(str)
_MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda moment: moment.isoformat(sep=" "))
_WRONG = st.sampled_from(["0000-00-00", "0000-00-00 00:00:00", "2021-02-30", "x", "", "99", "2021-05-17 25:00:00"])
_ZONES = st.sampled_from([" +00:00", " +00:00", " +08:00", " -03:30", ""])
_WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
_CHARSETS = st.sampled_from(["utf8mb4", "utf8mb4", "utf8", "latin1", "gbk", "big5", "gb18030", "koi8r", "klingon", ""])
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12).map(str)
_REALS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:g}")
_INTS = st.sampled_from([pb.INT8, pb.INT32, pb.INT64, pb.UINT32, pb.UINT64])


def _number(texts: st.SearchStrategy[str], types: st.SearchStrategy[Any]) -> st.SearchStrategy[pb.Data]:
    return st.builds(number, texts, types)


_STRINGS = st.builds(text, _WORDS, st.just("utf8mb4")) | st.builds(text, st.binary(max_size=8), _CHARSETS)
_DATES = st.dates(date(1, 1, 1)).map(str)

KINDS: Mapping[str, tuple[str, st.SearchStrategy[pb.Data]]] = {
    "int(11)": ("int", _number(_INTEGERS | st.integers(-9, 9).map(str), _INTS)),
    "bigint(20)": ("bigint", _number(_INTEGERS, _INTS)),
    "bigint(20) unsigned": ("decimal(20,0)", _number(_INTEGERS, st.just(pb.UINT64))),
    "bit(64)": ("decimal(20,0)", _number(st.integers(-(1 << 63), (1 << 64) - 1).map(str), st.just(pb.INT64))),
    "decimal(10,2)": ("decimal(10,2)", _number(_DECIMALS | st.just("1.10"), st.just(pb.DECIMAL))),
    "decimal(60,3)": ("string", _number(_DECIMALS, st.just(pb.DECIMAL))),
    "double": ("double", _number(_REALS | _WRONG, st.just(pb.FLOAT64))),
    "float": ("float", _number(_REALS, st.just(pb.FLOAT32))),
    "date": ("date", st.builds(text, _DATES | _WRONG)),
    "datetime(6)": ("timestamp_ntz", st.builds(text, _MOMENTS | _WRONG)),
    "timestamp(6)": ("timestamp", st.builds(lambda moment, zone: text(moment + zone), _MOMENTS | _WRONG, _ZONES)),
    "varchar(20)": ("string", _STRINGS),
    "varchar(21)": ("int", _STRINGS | _number(_INTEGERS, _INTS)),
    "json": ("string", st.builds(raw, _WORDS.map(str.encode) | st.binary(max_size=4))),
    "blob": ("binary", st.builds(raw, st.binary(max_size=8)) | _STRINGS),
    "hyper": ("string", st.builds(pb.Data, dataType=st.just(77), sv=_WORDS)),
}


@st.composite
def _entries(draw: st.DrawFn) -> tuple[list[pb.Entry], dict[TableId, tuple[Column, ...]]]:
    """DML entries of up to three tables that each saw up to two column lists, some columns asked for and some not."""
    tables: dict[TableId, tuple[Column, ...]] = {}
    lists = []
    for name in draw(st.lists(st.sampled_from(["a", "b", "漢字"]), min_size=1, max_size=3, unique=True)):
        kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
        columns = [(f"c{place}", kind) for place, kind in enumerate(kinds)]
        lists += [(name, columns), (name, [*draw(st.permutations(columns)), ("extra", "varchar(20)")])]
        asked = [*columns[: draw(st.integers(1, len(columns)))], ("never", "varchar(20)")]
        tables[TableId("db", "", name)] = tuple(Column(column, KINDS[kind][0], False) for column, kind in asked)
    made = []
    for _ in range(draw(st.integers(1, 6))):
        name, columns = draw(st.sampled_from(lists))
        operation = draw(st.sampled_from([pb.INSERT, pb.UPDATE, pb.DELETE]))
        rows = [_row(draw, columns, operation) for _ in range(draw(st.integers(0, 4)))]
        made.append(dml(columns, rows, operation=operation, database="db", table=name))
    return made, tables


def _row(draw: st.DrawFn, columns: list[tuple[str, str]], operation: Any) -> tuple[list[pb.Data], list[pb.Data]]:
    def image() -> list[pb.Data]:
        values = [draw(st.just(NULL) | st.just(ABSENT) | KINDS[kind][1] | KINDS[kind][1]) for _, kind in columns]
        ragged = draw(st.integers(0, 40)) == 0
        return values[:-1] if ragged else values

    return ([] if operation == pb.INSERT else image()), ([] if operation == pb.DELETE else image())


def _rows(decoded: DecodedChanges) -> dict[TableId, list[dict[str, Any]]]:
    found = {}
    for one in decoded.tables:
        one.batch.validate(full=True)
        rows = one.batch.to_pylist()
        for row in rows:
            row["invalid"] = dict(row["invalid"])
        found[one.table] = rows
    return found


@settings(examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(_entries())
def test_both_engines_and_the_naive_loop_agree(
    given_entries: tuple[list[pb.Entry], dict[TableId, tuple[Column, ...]]],
) -> None:
    entries, tables = given_entries
    expected = oracle.changes([one.SerializeToString() for one in entries], tables)
    fast, plain = FAST.changes(batch(*entries), tables), PLAIN.changes(batch(*entries), tables)
    parsed = _parsed(batch(*entries), tables)
    assert _rows(fast) == expected.tables
    assert {one.index for one in fast.rejected} == expected.rejected
    assert fast.unsigned == expected.unsigned
    assert _same(fast, plain)
    assert _same(fast, parsed)
    assert _same(fast, _walked(batch(*entries), tables))


def _same(one: DecodedChanges, other: DecodedChanges) -> bool:
    return [(table.table, table.batch) for table in one.tables] == [
        (table.table, table.batch) for table in other.tables
    ] and (one.rejected, one.unsigned, one.unknown) == (other.rejected, other.unsigned, other.unknown)


@pytest.mark.parametrize(("tables", "columns", "rows"), [(1, 30, 20), (12, 15, 3), (40, 8, 1)])
def test_realistic_traffic_decodes_alike_on_every_way(tables: int, columns: int, rows: int) -> None:
    sets = traffic.entry_sets(traffic.tables(tables, columns, seed=5), rows=rows, size=300_000, seed=6)
    fast, plain = (wire.entries(sets) for wire in (FAST, PLAIN))
    assert fast.batch.equals(plain.batch)
    assert (fast.shapes, fast.checkpoints, fast.rejected) == (plain.shapes, plain.checkpoints, ())
    asked = {
        shape.table: tuple(
            Column(one.name, FAST.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
            for one in shape.columns
        )
        for shape in fast.shapes
    }
    assert _same(FAST.changes(fast.batch, asked), PLAIN.changes(fast.batch, asked))
    assert _same(FAST.changes(fast.batch, asked), _parsed(fast.batch, asked))
    expected = oracle.changes(fast.batch["payload"].to_pylist(), asked)
    assert _rows(FAST.changes(fast.batch, asked)) == expected.tables


def test_many_tables_whose_columns_change_amid_a_call() -> None:
    names = [f"t{place:02}" for place in range(12)]
    first, second = [("id", "int(11)"), ("a", "text")], [("b", "int(11)"), ("a", "text"), ("id", "int(11)")]
    entries = []
    for turn, columns in enumerate((first, second, first)):
        for place, name in enumerate(names):
            values = {"id": number(str(turn)), "a": text(f"{name}-{turn}"), "b": number(str(place))}
            row = [values[column] for column, _ in columns]
            entries.append(dml(columns, [([], row)] * (1 + place % 3), database="db", table=name))
    asked = (Column("id", "int", True), Column("a", "string", False), Column("b", "int", False))
    tables = {TableId("db", "", name): asked for name in names}
    expected = oracle.changes([one.SerializeToString() for one in entries], tables)
    assert _rows(FAST.changes(batch(*entries), tables)) == expected.tables


def _mutated(draw: random.Random, payload: bytes) -> bytes:
    """The payload truncated, with bytes flipped, inserted or repeated."""
    data = bytearray(payload)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(data) + 1)
        what = draw.randrange(4)
        if what == 0:
            del data[place:]
        elif what == 1 and place < len(data):
            data[place] ^= 1 << draw.randrange(8)
        elif what == 2:
            data[place:place] = draw.randbytes(draw.randint(1, 4))
        else:
            data[place:place] = data[place : place + draw.randint(1, 30)]
    return bytes(data)


def test_mutated_entries_never_break_a_call_and_leave_their_neighbours() -> None:
    draw = random.Random(7)
    whole = traffic.entry_sets(traffic.tables(3, 12, seed=8), rows=2, size=20_000, seed=9)[0].as_py()
    good = FAST.entries(pa.array([whole], pa.binary()))
    items = good.batch["payload"].to_pylist()
    asked = {
        shape.table: tuple(
            Column(one.name, FAST.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
            for one in shape.columns
        )
        for shape in good.shapes
    }
    for _ in range(100):
        mutants = [_mutated(draw, draw.choice(items)) for _ in range(24)]
        sets = [pb.Entries.FromString(b"").SerializeToString()] + [
            b"".join(delimited(1, one) for one in (items[0], mutant, items[1])) for mutant in mutants
        ]
        decoded = {wire: wire.entries(pa.array(sets, pa.binary())) for wire in (FAST, PLAIN)}
        fast, plain = decoded[FAST], decoded[PLAIN]
        fast.batch.validate(full=True)
        assert fast.batch.equals(plain.batch)
        assert fast.rejected == plain.rejected
        # Nothing is lost: every entry is either there or rejected, and the two good ones are there.
        assert fast.batch.num_rows + len(fast.rejected) == 3 * len(mutants)
        assert set(fast.batch.filter(pa.compute.equal(fast.batch["entry_number"], 0))["set_index"].to_pylist()) == set(
            range(1, len(sets))
        )
        dml_rows = fast.batch.filter(pa.compute.equal(fast.batch["message_type"], "DML"))
        one, other = FAST.changes(dml_rows, asked), PLAIN.changes(dml_rows, asked)
        assert _same(one, other)
        assert _same(one, _parsed(dml_rows, asked))
        _rows(one)


def test_mutated_messages_never_break_a_call() -> None:
    draw = random.Random(11)
    good = pb.Envelope(version=1, total=2, index=1, data=b"some data").SerializeToString()
    for _ in range(100):
        given_messages = messages(*[_mutated(draw, good) for _ in range(20)], good)
        fast = FAST.fragments(given_messages)
        assert fast.equals(PLAIN.fragments(given_messages))
        assert fast["data"].to_pylist()[-1] == b"some data"
