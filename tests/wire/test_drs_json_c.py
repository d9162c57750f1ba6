"""DRS JSON-C, case by case: the vendor's own samples, every type, every form that rows come in, everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.formats import FormatSettings
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.format import ENTRIES, MESSAGES, DecodedEntries, TableShape
from dts_assets.wire.formats import wire_format

WIRE = DrsJsonC("+08:00")
TABLE = TableId("shopdb", "", "orders")
TYPES = {"id": "int", "note": "varchar"}


def message(**fields: Any) -> dict[str, Any]:
    """An INSERT of one row, changed by ``fields``; a field that is ``...`` is left out."""
    made = {
        "mysqlType": TYPES, "id": 7, "es": 1624614713000, "ts": 1625058726990, "database": "shopdb", "table": "orders",
        "type": "INSERT", "isDdl": False, "sql": "", "sqlType": {"id": 4, "note": 12}, "data": [{"id": "1", "note": "a"}],
        "old": None, "pkNames": ["id"],
    } | fields  # fmt: skip
    return {name: value for name, value in made.items() if value is not ...}


def entries(*messages: Mapping[str, Any] | bytes) -> DecodedEntries:
    values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
    decoded = WIRE.entries(pa.array(values, pa.binary()))
    decoded.batch.validate(full=True)
    assert decoded.batch.schema.equals(ENTRIES)
    return decoded


def columns(decoded: DecodedEntries) -> dict[TableId, tuple[Column, ...]]:
    return {
        shape.table: tuple(
            Column(one.name, WIRE.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
            for one in shape.columns
        )
        for shape in decoded.shapes
    }


def rows(*messages: Mapping[str, Any] | bytes, wire: DrsJsonC = WIRE, **types: str) -> list[dict[str, Any]]:
    """The changes of the one table that the messages are about; ``types`` are declared."""
    decoded = entries(*messages)
    assert decoded.rejected == ()
    ((table, found),) = columns(decoded).items()
    asked = tuple(Column(one.name, types.get(one.name, one.type), one.is_key) for one in found)
    changes = wire.changes(decoded.batch, {table: asked})
    assert changes.rejected == ()
    (only,) = changes.tables
    only.batch.validate(full=True)
    made: list[dict[str, Any]] = only.batch.to_pylist()
    for row in made:
        row["invalid"] = dict(row["invalid"])
    return made


# The vendor's sample of an UPDATE (Kafka Message Format, table 2), shortened texts, with the TIMESTAMP as JSON-C has it.
BYTES = "[106, 103, 111, 33, 64, -1, 255]"
SAMPLE_TYPES = {
    "c11": "binary", "c10": "varchar", "c13": "text", "c12": "varbinary", "c14": "blob", "c1": "varchar", "c2": "varbinary",
    "c3": "int", "c4": "datetime", "c5": "timestamp", "c6": "char", "c7": "float", "c8": "double", "c9": "decimal", "id": "int",
}  # fmt: skip
NEW = {
    "c11": "[]", "c10": "Huawei Cloud huaweicloud", "c13": "asfiajhfiaf939-0239", "c12": BYTES, "c14": BYTES,
    "c1": "cf3f70a7-7565-44b0-ae3c-83bec549ea8e:104", "c2": "[]", "c3": "103", "c4": "2021-06-25 17:51:53",
    "c5": "2021-06-25 17:51:53", "c6": "!@#$%90weurtg103", "c7": "10357.0", "c8": "1.2510357E7", "c9": "9874510357",
    "id": "104",
}  # fmt: skip
SAMPLE = message(
    mysqlType=SAMPLE_TYPES,
    id=27677,
    database="test01",
    table="test ",
    type="UPDATE",
    data=[NEW],
    old=[NEW | {"id": "103"}],
)


def test_the_vendors_update() -> None:
    decoded = entries(SAMPLE)
    (entry,) = decoded.batch.to_pylist()
    assert entry == dict.fromkeys(ENTRIES.names) | {
        "set_index": 0, "entry_number": 0, "message_type": "DML", "source_type": "MYSQL",
        "event_time": datetime(2021, 6, 25, 9, 51, 53, tzinfo=UTC), "position": 27677, "database": "test01", "table": "test ",
        "rows": 1, "payload": json.dumps(SAMPLE).encode(), "properties": [("type", "UPDATE"), ("ts", "1625058726990")],
    }  # fmt: skip
    shape = tuple(ColumnShape(name, kind, name == "id") for name, kind in SAMPLE_TYPES.items())
    assert list(decoded.shapes) == [TableShape(TableId("test01", "", "test "), shape)]
    assert (decoded.rejected, decoded.checkpoints, decoded.unknown) == ((), (), {})
    (row,) = rows(SAMPLE)
    made = b"jgo!@\xff\xff"
    after = {
        "c11": b"", "c10": "Huawei Cloud huaweicloud", "c13": "asfiajhfiaf939-0239", "c12": made, "c14": made,
        "c1": "cf3f70a7-7565-44b0-ae3c-83bec549ea8e:104", "c2": b"", "c3": 103, "c4": datetime(2021, 6, 25, 17, 51, 53),
        "c5": datetime(2021, 6, 25, 9, 51, 53, tzinfo=UTC), "c6": "!@#$%90weurtg103", "c7": 10357.0, "c8": 12510357.0,
        "c9": "9874510357", "id": 104,
    }  # fmt: skip
    assert row == {
        "entry_index": 0, "row_number": 0, "op": "update", "before": after | {"id": 103}, "after": after,
        "absent": [], "invalid": {},
    }  # fmt: skip


def test_the_escapes_of_the_vendors_table_are_undone_once() -> None:
    raw = json.dumps(message()).replace('"a"', r'"\u003ca\u003d\u0027\\u0026\u0027\u003e\u0026"').encode()
    assert rows(raw)[0]["after"]["note"] == r"<a='\u0026'>&"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"type": "INSERT"}, [("insert", None, "a"), ("insert", None, "b")]),
        ({"type": "INIT"}, [("read", None, "a"), ("read", None, "b")]),
        ({"type": "DELETE"}, [("delete", "a", None), ("delete", "b", None)]),
        ({"type": "UPDATE"}, [("update", None, "a"), ("update", None, "b")]),
        ({"type": "UPDATE", "old": []}, [("update", None, "a"), ("update", None, "b")]),
        ({"type": "DELETE", "data": None, "old": [{"id": "1", "note": "x"}]}, [("delete", "x", None)]),
        ({"type": "DELETE", "data": [], "old": [{"id": "1", "note": "x"}]}, [("delete", "x", None)]),
        ({"type": "DELETE", "old": [{"id": "1", "note": "x"}]}, [("delete", "a", None), ("delete", "b", None)]),
    ],
)
def test_which_row_is_which_image(fields: dict[str, Any], expected: list[tuple[str, str | None, str | None]]) -> None:
    data = [{"id": "1", "note": "a"}, {"id": "2", "note": "b"}]
    made = message(**{"data": data, "old": None} | fields)
    assert entries(made).batch["rows"].to_pylist() == [len(expected)]
    found = rows(made)
    notes = [(row["op"], *(image and image["note"] for image in (row["before"], row["after"]))) for row in found]
    assert notes == expected
    assert [row["row_number"] for row in found] == list(range(len(expected)))


def test_a_column_that_was_not_sent_is_absent_and_not_null() -> None:
    made = message(
        type="UPDATE", data=[{"note": "b", "id": "1"}, {"id": "2"}], old=[{"note": None}, {"id": "2", "note": "c"}]
    )
    one, two = rows(made)
    assert (one["before"], one["after"], one["absent"]) == (
        {"id": None, "note": None},
        {"id": 1, "note": "b"},
        ["before.id"],
    )
    assert (two["before"], two["after"], two["absent"]) == (
        {"id": 2, "note": "c"},
        {"id": 2, "note": None},
        ["after.note"],
    )


def test_a_column_that_the_message_does_not_have_is_null_and_not_absent() -> None:
    older = message(mysqlType={"id": "int"}, data=[{"id": "1"}], id=1)
    turned = message(mysqlType={"note": "varchar", "id": "int"}, data=[{"note": "c", "id": "3"}], id=3)
    decoded = entries(older, message(id=2), turned)
    asked = {TABLE: (Column("id", "bigint", True), Column("note", "string", False), Column("later", "int", False))}
    (found,) = WIRE.changes(decoded.batch, asked).tables
    assert found.batch["after"].to_pylist() == [
        {"id": 1, "note": None, "later": None}, {"id": 1, "note": "a", "later": None}, {"id": 3, "note": "c", "later": None},
    ]  # fmt: skip
    assert found.batch["absent"].to_pylist() == [[], [], []]
    assert len(decoded.shapes) == 3


def test_entries_of_several_tables_keep_their_own_numbers() -> None:
    other = message(table="bag", mysqlType={"n": "int"}, data=[{"n": "5"}, {"n": None}], pkNames=None)
    decoded = entries(message(), other, message(data=[]), message(type="DDL", isDdl=True), other)
    asked = columns(decoded)
    dml = decoded.batch.filter(pa.array([True, True, True, False, True]))
    changes = {one.table: one.batch for one in WIRE.changes(dml, asked).tables}
    assert changes[TABLE].select(["entry_index", "row_number"]).to_pylist() == [{"entry_index": 0, "row_number": 0}]
    bag = changes[TableId("shopdb", "", "bag")]
    assert list(zip(bag["entry_index"].to_pylist(), bag["row_number"].to_pylist(), strict=True)) == [
        (1, 0), (1, 1), (3, 0), (3, 1),
    ]  # fmt: skip
    assert bag["after"].to_pylist() == [{"n": 5}, {"n": None}] * 2
    (only,) = WIRE.changes(dml, {TABLE: asked[TABLE]}).tables
    assert only.table == TABLE
    assert WIRE.changes(dml, {TableId("x", "", "y"): asked[TABLE]}).tables == ()


def _value(text: Any, original: str, *, kind: str | None = None, wire: DrsJsonC = WIRE) -> tuple[Any, dict[str, str]]:
    """What a value becomes between good rows, and the ``invalid`` map of its row."""
    made = message(mysqlType={"id": "int", "v": original}, data=[{"id": "1", "v": None}, {"id": "2", "v": text}])
    found = rows(made, wire=wire, **({} if kind is None else {"v": kind}))
    assert (found[0]["after"], found[0]["invalid"]) == ({"id": 1, "v": None}, {})
    return found[1]["after"]["v"], found[1]["invalid"]


FITTING: Sequence[tuple[Any, str, Any]] = [
    ("-128", "tinyint", -128),
    ("4294967295", "int", 4294967295),
    ("9223372036854775807", "bigint", 9223372036854775807),
    ("2021", "year", 2021),
    ("-0.10", "decimal", "-0.10"),
    ("1" * 60 + ".5", "numeric", "1" * 60 + ".5"),
    ("101", "bit", "101"),
    ("1.0E-5", "double", 1e-05),
    ("3.4028235E38", "float", pytest.approx(3.4028235e38)),
    ("1.0E10", "float", 1e10),
    ("2021-06-25", "date", date(2021, 6, 25)),
    ("2021-06-25 17:51:53.123456", "datetime", datetime(2021, 6, 25, 17, 51, 53, 123456)),
    ("2021-06-25 17:51:53.5", "timestamp", datetime(2021, 6, 25, 9, 51, 53, 500000, tzinfo=UTC)),
    ("2021-06-25 17:51:53 +00:00", "timestamp", datetime(2021, 6, 25, 17, 51, 53, tzinfo=UTC)),
    ("-838:59:59", "time", "-838:59:59"),
    ("", "varchar", ""),
    ("漢字𠀀", "text", "漢字𠀀"),
    ('{"a": 1}', "json", '{"a": 1}'),
    ("[1]", "varchar", "[1]"),
    ("[]", "varbinary", b""),
    ("[0]", "binary", b"\x00"),
    ("[-128, -1, 0, 127, 255]", "blob", b"\x80\xff\x00\x7f\xff"),
    ("[1,2,30]", "mediumblob", b"\x01\x02\x1e"),
    ("what", "hyperint", "what"),
    (5, "int", 5),
    (1.50, "decimal", "1.5"),
    (True, "varchar", "true"),
]


@pytest.mark.parametrize(("text", "original", "expected"), FITTING)
def test_values_of_every_type(text: Any, original: str, expected: Any) -> None:
    assert _value(text, original) == (expected, {})


def test_a_json_number_keeps_every_digit() -> None:
    raw = (
        json.dumps(message(mysqlType={"id": "int", "note": "decimal"}))
        .replace('"a"', "12345678901234567890.120E2")
        .encode()
    )
    assert rows(raw)[0]["after"]["note"] == "12345678901234567890.120E2"


@pytest.mark.parametrize(
    ("text", "original"),
    [
        ("18446744073709551615", "bigint"), ("1e3", "int"), ("0x1F", "int"), ("3.4028235E39", "float"), ("x", "double"),
        ("0000-00-00", "date"), ("2021-02-30 00:00:00", "datetime"), ("0000-00-00 00:00:00", "timestamp"),
        ("1624614713.201", "timestamp"), ("", "date"), ("[256]", "blob"), ("[-129]", "blob"), ("[1, 2", "blob"),
        ("[1, ]", "blob"),
        ("jgo", "binary"), ("[1000]", "binary"), ("[ 1]", "binary"), ("", "binary"), ("[--1]", "blob"), ("[]]", "blob"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_becomes_null_with_its_original_text(text: str, original: str) -> None:
    assert _value(text, original) == (None, {"after.v": text})


def test_bytes_between_others_that_do_not_fit_are_their_own() -> None:
    texts = ["[1, 2]", "no", None, "[]", "[999, 3]", "[-1]", "[7, 8, 9]"]
    made = message(mysqlType={"v": "blob"}, data=[{"v": text} for text in texts], pkNames=None)
    found = rows(made)
    assert [row["after"]["v"] for row in found] == [b"\x01\x02", None, None, b"", None, b"\xff", b"\x07\x08\x09"]
    assert [row["invalid"] for row in found] == [{}, {"after.v": "no"}, {}, {}, {"after.v": "[999, 3]"}, {}, {}]


@pytest.mark.parametrize(
    ("text", "original", "kind", "expected"),
    [
        ("12.30", "decimal", "decimal(10,2)", "12.30"),
        ("[1]", "blob", "string", "[1]"),
        ("[1]", "varchar", "binary", b"[1]"),
        ("18446744073709551615", "bigint", "decimal(20,0)", "18446744073709551615"),
        ("1", "tinyint", "boolean", True),
    ],
)
def test_declared_types(text: str, original: str, kind: str, expected: Any) -> None:
    value, invalid = _value(text, original, kind=kind)
    assert (str(value) if kind.startswith("decimal") else value, invalid) == (expected, {})


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("-03:30", "2021-06-25 12:00:00", datetime(2021, 6, 25, 15, 30, tzinfo=UTC)),
        ("Asia/Shanghai", "2021-06-25 17:51:53", datetime(2021, 6, 25, 9, 51, 53, tzinfo=UTC)),
        ("Europe/Berlin", "2021-07-01 12:00:00", datetime(2021, 7, 1, 10, tzinfo=UTC)),
        ("Europe/Berlin", "2021-01-01 12:00:00", datetime(2021, 1, 1, 11, tzinfo=UTC)),
        ("+08:00", "0001-01-01 00:00:00", None),
        ("Europe/Berlin", "2021-03-28 02:30:00", None),
        ("Europe/Berlin", "2021-10-31 02:30:00", None),
    ],
)
def test_timestamps_are_clocks_of_the_sources_zone(zone: str, text: str, expected: datetime | None) -> None:
    wire = wire_format("drs-json-c", FormatSettings(zone))
    assert isinstance(wire, DrsJsonC)
    assert _value(text, "timestamp", wire=wire) == (expected, {} if expected else {"after.v": text})
    assert _value(text, "datetime", wire=wire)[1] == {}


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("int", "bigint"), ("INT", "bigint"), ("integer", "bigint"), ("bigint", "bigint"), ("smallint", "int"),
        ("tinyint", "int"),
        ("mediumint", "int"), ("decimal", "string"), ("numeric", "string"), ("decimal unsigned", "string"), ("bit", "string"),
        ("bit(8)", "string"), ("decimal(10,2)", "decimal(10,2)"), ("bigint unsigned", "decimal(20,0)"), ("float", "float"),
        ("double", "double"), ("datetime", "timestamp_ntz"), ("timestamp", "timestamp"), ("date", "date"), ("time", "string"),
        ("json", "string"), ("enum", "string"), ("varbinary", "binary"), ("year", "int"), ("hyperint", "string"), ("", "string"),
    ],
)  # fmt: skip
def test_types_are_wide_enough_without_precision_and_sign(original: str, expected: str) -> None:
    assert WIRE.column_type(original, unsigned=False, table=TABLE) == expected


def test_a_statement_is_an_entry_of_its_own_type() -> None:
    statement = message(
        type="DDL", isDdl=True, sql="DROP TABLE t", table="", data=None, mysqlType=None, pkNames=None, sqlType=None
    )
    decoded = entries(statement, statement | {"type": "INIT_DDL", "database": "", "isDdl": None, "ts": None})
    found = decoded.batch.select(["message_type", "database", "table", "rows", "properties"]).to_pylist()
    common = {"message_type": "DDL", "table": None, "rows": None}
    assert found == [
        common | {
            "database": "shopdb", "properties": [("type", "DDL"), ("ts", "1625058726990"), ("sql", "DROP TABLE t")],
        },
        common | {"database": None, "properties": [("type", "INIT_DDL"), ("sql", "DROP TABLE t")]},
    ]  # fmt: skip
    assert (decoded.rejected, decoded.shapes) == ((), {})


def test_what_is_not_in_the_vendors_table_is_kept_and_counted() -> None:
    decoded = entries(message(gtid="u:1", extra={"a": [1.50, None]}, none=None, ts="soon"), message(old=[{"id": "1"}]))
    kept = [dict(one) for one in decoded.batch["properties"].to_pylist()]
    assert kept[0] == {"type": "INSERT", "ts": "soon", "gtid": "u:1", "extra": '{"a": [1.5, null]}'}
    assert decoded.unknown == {"field gtid": 1, "field extra": 1, "old rows of INSERT": 1}
    assert decoded.rejected == ()


def _each(name: str, reason: Reason, *wrong: Any) -> list[tuple[dict[str, Any], Reason]]:
    """Messages with one field wrong in several ways."""
    return [(message(**{name: value}), reason) for value in wrong]


BAD: Sequence[tuple[dict[str, Any] | bytes, Reason]] = [
    (b"\xff\xfe", Reason.UNDECODABLE_ENTRIES),
    (b"[]", Reason.UNDECODABLE_ENTRIES),
    (b"{", Reason.UNDECODABLE_ENTRIES),
    (b"null", Reason.UNDECODABLE_ENTRIES),
    (b'{"id":' + b"[" * 100_000, Reason.UNDECODABLE_ENTRIES),
    (json.dumps(message()).encode() + b"{}", Reason.UNDECODABLE_ENTRIES),
    (json.dumps(message()).replace('"a"', '"?"').encode().replace(b"?", b"\xe9"), Reason.UNDECODABLE_ENTRIES),
    *_each("id", Reason.UNDECODABLE_ENTRY, ..., None, -1, 1.5, "7", True, 1 << 63, []),
    *_each("es", Reason.UNDECODABLE_ENTRY, ..., None, "1624614713000", -1, 1 << 62, {}, True),
    *_each("type", Reason.UNKNOWN_OPERATION, ..., None, "", "insert", "TRUNCATE"),
    (message(type=1), Reason.UNDECODABLE_ENTRY),
    (message(isDdl=True), Reason.UNKNOWN_OPERATION),
    (message(type="DDL"), Reason.UNKNOWN_OPERATION),
    (message(isDdl="false"), Reason.UNDECODABLE_ENTRY),
    *_each("table", Reason.UNDECODABLE_ENTRY, ..., None, "", 5),
    *_each("database", Reason.UNDECODABLE_ENTRY, ..., None, "", 5),
    *_each("data", Reason.UNDECODABLE_ENTRY, {}, "x", [1], [None], [[]]),
    *_each("data", Reason.RAGGED_ROW, ..., None),
    (message(type="UPDATE", old=[1]), Reason.UNDECODABLE_ENTRY),
    (message(type="UPDATE", old=[{}, {}]), Reason.RAGGED_ROW),
    (message(type="UPDATE", data=None, old=[{"id": "1"}]), Reason.RAGGED_ROW),
    (message(type="DELETE", data=None), Reason.RAGGED_ROW),
    *_each("mysqlType", Reason.UNDECODABLE_ENTRY, ..., None, {}, [], {"id": 4}),
    *_each("pkNames", Reason.UNDECODABLE_ENTRY, "id", ["ID"], [1], {}),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_what_cannot_be_used_is_rejected_alone(bad: dict[str, Any] | bytes, reason: Reason) -> None:
    payload = bad if isinstance(bad, bytes) else json.dumps(bad).encode()
    decoded = entries(message(id=1), payload, message(id=2))
    (rejected,) = decoded.rejected
    whole = reason is Reason.UNDECODABLE_ENTRIES
    assert (rejected.index, rejected.entry_number, rejected.reason) == (1, None if whole else 0, reason)
    assert rejected.payload == payload
    assert "a" not in rejected.detail.split()  # no value of the row
    assert decoded.batch["position"].to_pylist() == [1, 2]
    assert decoded.batch["set_index"].to_pylist() == [0, 2]


BAD_ROWS: Sequence[tuple[dict[str, Any] | bytes, Reason]] = [
    (message(data=[{"id": "1", "note": "a"}, {"id": "2", "other": "b"}]), Reason.RAGGED_ROW),
    (message(data=[{"id": "1", "note": "a", "other": "b"}]), Reason.RAGGED_ROW),
    (message(data=[{"id": "1", "note": ["a"]}]), Reason.UNDECODABLE_ENTRY),
    (message(data=[{"id": "1", "note": {}}]), Reason.UNDECODABLE_ENTRY),
    (message(type="UPDATE", old=[{"nope": "1"}]), Reason.RAGGED_ROW),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_an_entry_whose_rows_cannot_be_used_leaves_the_others_alone(bad: dict[str, Any], reason: Reason) -> None:
    decoded = entries(message(data=[{"id": "5", "note": "x"}]), bad, message(type="DELETE"))
    assert decoded.rejected == ()
    changes = WIRE.changes(decoded.batch, columns(decoded))
    (rejected,) = changes.rejected
    assert (rejected.index, rejected.entry_number, rejected.reason) == (1, None, reason)
    assert rejected.payload == json.dumps(bad).encode()
    (found,) = changes.tables
    assert found.batch.select(["entry_index", "op", "before", "after"]).to_pylist() == [
        {"entry_index": 0, "op": "insert", "before": None, "after": {"id": 5, "note": "x"}},
        {"entry_index": 2, "op": "delete", "before": {"id": 1, "note": "a"}, "after": None},
    ]


@pytest.mark.parametrize("bad", [bad for bad, _ in BAD])
def test_rows_of_bytes_that_no_one_looked_at_before_raise_nothing(bad: dict[str, Any] | bytes) -> None:
    payload = bad if isinstance(bad, bytes) else json.dumps(bad).encode()
    given = pa.record_batch({
        "payload": pa.array([payload], pa.binary()), "database": ["shopdb"], "schema": pa.nulls(1, pa.string()),
        "table": ["orders"],
    })  # fmt: skip
    changes = WIRE.changes(given, {TABLE: (Column("id", "bigint", True),)})
    assert len(changes.rejected) <= 1
    assert sum(one.batch.num_rows for one in changes.tables) <= 1


def test_every_message_is_whole() -> None:
    values = [b"{}", None, b"", b"\xff"]
    made = pa.RecordBatch.from_pylist(
        [{"topic": "t", "partition": 0, "offset": n, "value": value, "headers": []} for n, value in enumerate(values)],
        schema=MESSAGES,
    )
    whole = {"shard": "", "sequence": None, "total": 1, "index": 0, "is_null": False, "reason": None}
    nothing = whole | {"total": None, "index": None, "data": None, "is_null": True}
    assert WIRE.fragments(made).to_pylist() == [whole | {"data": b"{}"}, nothing, nothing, whole | {"data": b"\xff"}]
    assert WIRE.fragments(made.slice(0, 1)).to_pylist() == [whole | {"data": b"{}"}]
    assert WIRE.fragments(made.slice(1, 2)).to_pylist() == [nothing, nothing]


def test_nothing_gives_nothing() -> None:
    decoded = entries()
    assert (decoded.batch.num_rows, decoded.rejected, decoded.shapes) == (0, (), {})
    assert WIRE.changes(decoded.batch, {TABLE: (Column("id", "bigint", True),)}).tables == ()
    assert WIRE.decoder.startswith("msgspec ")


def test_formats_are_known_by_name() -> None:
    assert wire_format("drs-json-c", FormatSettings("+08:00")) == WIRE
    with pytest.raises(
        WireFormatError,
        match="this version decodes canal-json, drs-avro, drs-json, drs-json-c, dts-avro, dts-json, dts-protobuf",
    ):
        wire_format("drs-xml")
