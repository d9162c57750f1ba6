"""Canal's JSON, case by case: which messages are what, how each value is written, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.flat_json.canal_values import latin_bytes, restorer_of
from dts_assets.wire.format import DecodedEntries, TooLargeError
from tests.tiers import times

WIRE = CanalJson("+08:00")
TABLE = TableId("shopdb", "", "orders")
TYPES = {"id": "int(11)", "note": "varchar(20)"}


def message(**fields: Any) -> dict[str, Any]:
    """An INSERT of one row, changed by ``fields``; a field that is ``...`` is left out."""
    made = {
        "data": [{"id": "1", "note": "x"}], "database": "shopdb", "es": 1624614713000, "gtid": "", "id": 7, "isDdl": False,
        "mysqlType": TYPES, "old": None, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4, "note": 12}, "table": "orders",
        "ts": 1625058726990, "type": "INSERT",
    } | fields  # fmt: skip
    return {name: value for name, value in made.items() if value is not ...}


def entries(*messages: Mapping[str, Any] | bytes) -> DecodedEntries:
    values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
    decoded = WIRE.entries(pa.array(values, pa.binary()))
    decoded.batch.validate(full=True)
    return decoded


def rows(*messages: Mapping[str, Any], **types: str) -> list[dict[str, Any]]:
    """The changes of the table that the messages are about; ``types`` are declared."""
    decoded = entries(*messages)
    assert decoded.rejected == ()
    asked = {}
    for shape in decoded.shapes:
        asked[shape.table] = tuple(
            Column(
                one.name,
                types.get(one.name) or WIRE.column_type(one.original_type, unsigned=False, table=shape.table),
                one.is_key,
            )
            for one in shape.columns
        )
    changes = WIRE.changes(decoded.batch, asked)
    assert changes.rejected == ()
    return [row for one in changes.tables for row in one.batch.to_pylist()]


STATEMENT: dict[str, Any] = {"data": None, "mysqlType": None, "pkNames": None, "sqlType": None, "sql": "..."}


@pytest.mark.parametrize(
    ("kind", "is_ddl", "expected"),
    [
        ("INSERT", False, "DML"), ("INSERT", None, "DML"), ("INIT", False, "DML"), ("DELETE", ..., "DML"),
        ("CREATE", True, "DDL"), ("ERASE", None, "DDL"), ("QUERY", True, "DDL"), ("INIT_DDL", None, "DDL"),
        ("SOMETHING_NEW", True, "DDL"), ("QUERY", False, "QUERY"), ("QUERY", None, "QUERY"), ("GTID", False, "GTID"),
        ("XACOMMIT", False, "XACOMMIT"), ("XAROLLBACK", False, "ROLLBACK"), ("MHEARTBEAT", False, "HEARTBEAT"),
        ("INSERT", True, None), ("TRUNCATE", False, None), ("UPSERT", False, None), ("insert", None, None), ("", None, None),
    ],
)  # fmt: skip
def test_what_a_message_is(kind: str, is_ddl: Any, expected: str | None) -> None:
    body = {} if expected in ("DML", None) else STATEMENT
    decoded = entries(message(type=kind, isDdl=is_ddl, **body))
    if expected is None:
        assert [one.reason for one in decoded.rejected] == [Reason.UNKNOWN_OPERATION]
        return
    (entry,) = decoded.batch.to_pylist()
    assert (entry["message_type"], entry["rows"] is None) == (expected, expected != "DML")
    assert decoded.rejected == ()


def test_a_batch_number_is_no_place_and_a_set_of_gtids_no_transaction() -> None:
    one, several = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"
    decoded = entries(message(gtid=one), message(gtid=several), message(gtid=..., id=...), message(gtid="0-1-5", id=-1))
    found = decoded.batch.select(["position", "gtid", "transaction_id"]).to_pylist()
    assert [row["transaction_id"] for row in found] == [one, None, None, "0-1-5"]
    assert {(row["position"], row["gtid"]) for row in found} == {(None, None)}
    told = [dict(row) for row in decoded.batch["properties"].to_pylist()]
    assert [(row.get("id"), row.get("gtid")) for row in told] == [
        ("7", one), ("7", several), (None, None), ("-1", "0-1-5"),
    ]  # fmt: skip
    assert decoded.unknown == {}


def test_a_deleted_row_stands_in_data_alone() -> None:
    assert rows(message(type="DELETE", old=[{"id": "2"}]))[0]["before"] == {"id": 1, "note": "x"}
    decoded = entries(message(type="DELETE", data=None, old=[{"id": "1", "note": "x"}]))
    assert [one.reason for one in decoded.rejected] == [Reason.RAGGED_ROW]


@pytest.mark.parametrize("count", [1, 40])
def test_what_a_row_was_before_is_what_it_is_but_for_what_changed(count: int) -> None:
    """Behind the first messages of a table rows are read in another way."""
    made = message(
        type="UPDATE",
        data=[{"id": "2", "note": "new"}, {"id": "5", "note": None}, {"id": "6", "note": "same"}],
        old=[{"id": "1"}, {"note": ""}, {}],
    )
    for row in range(0, 3 * count, 3):
        one, two, three = rows(*[made] * count)[row : row + 3]
        assert (one["before"], one["after"]) == ({"id": 1, "note": "new"}, {"id": 2, "note": "new"})
        assert (two["before"], two["after"]) == ({"id": 5, "note": ""}, {"id": 5, "note": None})
        assert three["before"] == three["after"] == {"id": 6, "note": "same"}


@pytest.mark.parametrize("old", [None, [], ...])
@pytest.mark.parametrize("keys", [None, [], ...])
def test_an_update_with_neither_old_rows_nor_a_key_is_refused(old: Any, keys: Any) -> None:
    """alibaba/canal#1834: of minimal images an older Canal leaves the changed columns alone."""
    bad = message(type="UPDATE", data=[{"note": "c"}], old=old, mysqlType={"note": "varchar(20)"}, pkNames=keys)
    for given in ([bad], [message(), bad, message()]):
        decoded = entries(*given)
        assert [(one.index, one.reason) for one in decoded.rejected] == [(len(given) // 2, Reason.RAGGED_ROW)]
        assert "FULL" in decoded.rejected[0].detail
        assert {tuple(column.name for column in one.columns) for one in decoded.shapes} <= {("id", "note")}


def test_an_update_without_old_rows_has_no_image_before() -> None:
    assert [row["before"] for row in rows(message(type="UPDATE"), message(type="UPDATE", old=[]))] == [None, None]


def test_a_row_that_lacks_columns_lacks_them_before_too_unless_they_changed() -> None:
    (row,) = rows(message(type="UPDATE", data=[{"id": "1"}], old=[{"note": "b"}]))
    assert (row["before"], row["after"]) == ({"id": 1, "note": "b"}, {"id": 1, "note": None})
    assert row["absent"] == ["after.note"]


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("bad", [
    message(type="UPDATE", data=[{"note": "c"}], old=[{"note": "b"}]), message(type="DELETE", data=[{"note": "c"}]),
    message(type="UPDATE", data=[{"id": "1", "note": "c"}, {"note": "d"}], old=[{"note": "b"}, {"note": "b"}]),
    message(type="UPDATE", data=[{"note": "c"}], old=None),
])  # fmt: skip
def test_a_row_that_lacks_a_column_of_the_key_that_it_names_is_rejected(bad: dict[str, Any], count: int) -> None:
    good = message(type="UPDATE", data=[{"id": "2", "note": "b"}], old=[{"note": "a"}])
    decoded = entries(*[good] * count, bad, good)
    asked = {TABLE: (Column("id", "int", True), Column("note", "string", False))}
    changes = WIRE.changes(decoded.batch, asked)
    assert [(one.index, one.reason) for one in changes.rejected] == [(count, Reason.RAGGED_ROW)]
    assert "FULL" in changes.rejected[0].detail
    assert changes.tables[0].batch["before"].to_pylist() == [{"id": 2, "note": "a"}] * (count + 1)


def test_an_image_may_leave_the_key_to_the_other_one() -> None:
    (row,) = rows(message(type="UPDATE", data=[{"note": "c"}], old=[{"id": "1"}]))
    assert (row["before"]["id"], row["absent"]) == (1, ["after.id"])
    (row,) = rows(message(data=[{"note": "c"}]))
    assert row["absent"] == ["after.id"]


def test_an_update_that_tells_neither_its_key_nor_what_changed_is_refused() -> None:
    """Canal sends it of a server with minimal images: the key is in the old image alone, of which it tells changed columns."""
    told = {"type": "UPDATE", "mysqlType": {"note": "varchar(20)"}, "sqlType": {"note": 12}}
    without: tuple[Any, ...] = (None, [], ...)
    bad = [message(**told, data=[{"note": "c"}] * 2, old=[{}, {}], pkNames=keys) for keys in without]
    good = [
        message(**told, data=[{"note": "c"}] * 2, old=[{}, {"note": "b"}], pkNames=None),
        message(type="UPDATE", old=[{}]),
        message(type="INSERT", old=[{}], pkNames=None),
    ]
    decoded = entries(*bad, *good)
    assert [(one.index, one.reason) for one in decoded.rejected] == [(n, Reason.RAGGED_ROW) for n in range(3)]
    assert {"FULL" in one.detail for one in decoded.rejected} == {True}
    assert [one["rows"] for one in decoded.batch.to_pylist()] == [2, 1, 1]
    (alone,) = entries(bad[0]).rejected
    assert entries(bad[0]).shapes == {}  # else its columns would be those of a table without a key
    assert alone.payload == json.dumps(bad[0]).encode()


@pytest.mark.parametrize("count", [1, 40])
def test_an_unknown_changed_column_harms_no_neighbour(count: int) -> None:
    good = message(type="UPDATE", data=[{"id": "1", "note": "b"}], old=[{"note": "a"}])
    bad = message(type="UPDATE", data=[{"id": "1", "note": "b"}] * 2, old=[{"note": "a"}, {"note": "b", "nope": "a"}])
    decoded = entries(*[good] * count, bad, good)
    asked = {TABLE: (Column("id", "int", True), Column("note", "string", False))}
    changes = WIRE.changes(decoded.batch, asked)
    assert [(one.index, one.reason) for one in changes.rejected] == [(count, Reason.RAGGED_ROW)]
    assert changes.tables[0].batch["before"].to_pylist() == [{"id": 1, "note": "a"}] * (count + 1)


@pytest.mark.parametrize(
    ("original", "text", "expected"),
    [
        ("enum('a','b')", "1", "a"), ("enum('a','b')", "2", "b"), ("enum('a','b')", "0", ""), ("enum('1','0')", "1", "1"),
        ("ENUM('it''s', 'a,b')", "2", "a,b"), ("ENUM('it''s', 'a,b')", "1", "it's"), ("enum('a  ','b')", "1", "a"),
        ("enum('(',')')", "2", ")"), ("enum('')", "1", ""), ("enum", "1", "1"), ("enum('','a')", "2", "a"),
        ("enum('a','b')", "a", "a"), ("enum('a','b')", "", ""), ("enum('a','b')", "-1", "-1"), ("enum('a')", "²", "²"),
        ("enum('a') charset x", "1", "a"), ("set('a','b','c')", "0", ""), ("set('a','b','c')", "6", "b,c"),
        ("varchar(5)", "1", "1"), ("text", "1", "1"), ("enum('a', '7')", "7", "7"), ("enum('a\nb','c')", "2", "c"),
        (r"enum('it\'s','b')", "1", "it's"), (r"enum('it\'s','b')", "2", "b"), (r"enum('b','\'')", "2", "'"),
        (r"enum('\'','b')", "1", "'"), (r"enum('a\','b')", "1", "a\\"), (r"enum('a\','b')", "2", "b"),
        (r"enum('\')", "1", "\\"), (r"enum('a\''b','b')", "1", "a\\'b"), (r"enum('a\\\'b','b')", "1", "a\\'b"),
        (r"set('a\'b','say \"x\"','c\td\%')", "7", 'a\'b,say "x",c\td%'),
    ],
)  # fmt: skip
def test_numbers_of_labels_become_labels_where_the_type_lists_them(original: str, text: str, expected: str) -> None:
    (row,) = rows(message(mysqlType={"id": original}, data=[{"id": text}], pkNames=None))
    assert (row["after"], row["invalid"]) == ({"id": expected}, [])


@pytest.mark.parametrize(
    ("original", "text"),
    [
        ("enum('a','b')", "3"), ("enum(a)", "1"), ("enum('a'", "1"), ("set('a','b','c')", "8"), ("set('a')", "9" * 30),
        (f"enum('{'x' * 256}')", "1"), (r"enum('a\\\'b)", "1"), ("enum()", "1"), ("enum('a' 'b')", "2"), ("set(1)", "0"),
    ],
)  # fmt: skip
def test_a_number_of_no_label_is_invalid_and_never_a_text(original: str, text: str) -> None:
    given = [{"id": text, "v": "x"}, {"id": "a", "v": "x"}, {"id": None, "v": "x"}]
    found = rows(message(mysqlType={"id": original, "v": "varchar(9)"}, data=given, pkNames=None))
    assert [row["after"] for row in found] == [{"id": None, "v": "x"}, {"id": "a", "v": "x"}, {"id": None, "v": "x"}]
    assert [dict(row["invalid"]) for row in found] == [{"after.id": text}, {}, {}]


def test_a_number_of_no_label_is_invalid_in_the_image_before_alone() -> None:
    types = {"id": "int(11)", "kind": "enum('a','b')"}
    (row,) = rows(message(type="UPDATE", mysqlType=types, data=[{"id": "1", "kind": "2"}], old=[{"kind": "7"}]))
    assert (row["before"]["kind"], row["after"]["kind"]) == (None, "b")
    assert dict(row["invalid"]) == {"before.kind": "7"}


def test_each_message_is_read_by_its_own_labels() -> None:
    older = message(mysqlType={"id": "enum('a','b')"}, data=[{"id": "2"}, {"id": None}], pkNames=None)
    newer = message(mysqlType={"id": "enum('b','c','d')"}, data=[{"id": "2"}], type="DELETE", pkNames=None)
    images = [row["before"] or row["after"] for row in rows(older, newer, older)]
    assert [one["id"] for one in images] == ["b", None, "c", "b", None]


def test_set_of_sixty_four_labels() -> None:
    labels = [f"l{number}" for number in range(64)]
    kind = "set(" + ",".join(f"'{one}'" for one in labels) + ")"
    (row,) = rows(message(mysqlType={"id": kind}, data=[{"id": str((1 << 64) - 1)}], pkNames=None))
    assert row["after"]["id"] == ",".join(labels)


@pytest.mark.parametrize(
    ("original", "text", "expected"),
    [
        ("blob", "", b""), ("varbinary(9)", "\x00\xff", b"\x00\xff"), ("binary(3)", "a", b"a\x00\x00"),
        ("binary(3)", "\xe9", b"\xe9\x00\x00"), ("binary(3)", "abc", b"abc"), ("binary", "a", b"a"),
        ("BINARY(2)", "", b"\x00\x00"), ("geometry", "\x00", b"\x00"), ("blob", "0x61", b"0x61"),
        ("blob", "".join(map(chr, range(256))), bytes(range(256))),
    ],
)  # fmt: skip
def test_bytes_are_characters_of_latin_1(original: str, text: str, expected: bytes) -> None:
    types = {"id": "int(11)", "v": original}
    found = rows(message(mysqlType=types, data=[{"id": "1", "v": "é"}, {"id": "2", "v": text}, {"id": "3", "v": None}]))
    assert [row["after"]["v"] for row in found][1:] == [expected, None]
    assert {tuple(row["invalid"]) for row in found} == {()}


def test_a_character_that_is_no_byte_is_invalid_with_its_text() -> None:
    found = rows(
        message(mysqlType={"v": "blob"}, data=[{"v": "a"}, {"v": "Āb"}, {"v": "é"}, {"v": "𠀀"}], pkNames=None)
    )
    assert [row["after"]["v"] for row in found] == [b"a", None, b"\xe9", None]
    assert [dict(row["invalid"]) for row in found] == [{}, {"after.v": "Āb"}, {}, {"after.v": "𠀀"}]


def test_slices_of_texts_are_read_where_they_lie() -> None:
    values = pa.array(["Ā".encode(), "é".encode(), None, b"a", "ÿ".encode()], pa.binary())
    made, bad = latin_bytes(values.slice(1, 3))
    assert (made.to_pylist(), bad) == ([b"\xe9", None, b"a"], None)
    made, bad = latin_bytes(values)
    assert made.to_pylist() == [None, b"\xe9", None, b"a", b"\xff"]
    assert bad is not None
    assert bad.tolist() == [True, False, False, False, False]


SUMMER = {
    "1986-05-03 12:00:00": "1986-05-03T04:00:00", "1986-05-04 02:30:00": None, "1986-07-01 12:00:00": "1986-07-01T03:00:00",
    "1986-09-14 01:30:00.5": None, "1991-08-31 23:59:59.999999": "1991-08-31T14:59:59.999999",
    "1992-07-01 12:00:00": "1992-07-01T04:00:00", "1986-07-01 12:00:00 +08:00": "1986-07-01T04:00:00",
    "2026-01-05 12:00:00": "2026-01-05T04:00:00", "1970-01-01 08:00:01": "1970-01-01T00:00:01",
}  # fmt: skip


def test_java_knows_the_summers_of_shanghai_and_a_clock_of_no_or_two_instants_is_invalid() -> None:
    wire = CanalJson(CanalJson.traits.clock_zone)
    given = message(mysqlType={"v": "timestamp(6)"}, data=[{"v": text} for text in SUMMER], pkNames=None)
    asked = {TABLE: (Column("v", "timestamp", False),)}
    (found,) = wire.changes(entries(given).batch, asked).tables
    shown = [row["after"]["v"] for row in found.batch.to_pylist()]
    assert [one and one.replace(tzinfo=None).isoformat() for one in shown] == [*SUMMER.values()]
    invalid = [dict(row["invalid"]) for row in found.batch.to_pylist()]
    assert invalid == [{} if instant else {"after.v": text} for text, instant in SUMMER.items()]


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("int(11)", "int"), ("int", "int"), ("INTEGER", "int"), ("int(10) unsigned", "bigint"), ("bigint(20)", "bigint"),
        ("bigint(20) unsigned zerofill", "decimal(20,0)"), ("smallint(5) unsigned", "int"), ("decimal(10,2)", "decimal(10,2)"),
        ("DECIMAL", "string"), ("decimal(65,30)", "string"), ("bit(1)", "bigint"), ("bit(64)", "decimal(20,0)"),
        ("float(7,3)", "float"), ("double", "double"), ("datetime(6)", "timestamp_ntz"), ("timestamp(3)", "timestamp"),
        ("time(2)", "string"), ("enum('int')", "string"), ("set('a')", "string"), ("json", "string"), ("year(4)", "int"),
        ("tinyint(1)", "int"), ("geomcollection", "binary"), ("hyperint", "string"), ("", "string"),
    ],
)  # fmt: skip
def test_types_are_those_of_definitions(original: str, expected: str) -> None:
    assert WIRE.column_type(original, unsigned=False, table=TABLE) == expected


def test_declared_types_read_the_same_texts() -> None:
    types = {"id": "int(11)", "v": "blob", "w": "decimal"}
    (row,) = rows(message(mysqlType=types, data=[{"id": "1", "v": "é", "w": "1.50"}]), v="string", w="decimal(5,2)")
    assert (row["after"]["v"], str(row["after"]["w"])) == ("é", "1.50")


def _each(name: str, reason: Reason, *wrong: Any) -> list[tuple[dict[str, Any], Reason]]:
    return [(message(**{name: value}), reason) for value in wrong]


BAD: Sequence[tuple[dict[str, Any] | bytes, Reason]] = [
    (b"\xff\xfe", Reason.UNDECODABLE_ENTRIES),
    (b"[]", Reason.UNDECODABLE_ENTRIES),
    (b"{", Reason.UNDECODABLE_ENTRIES),
    (b"7", Reason.UNDECODABLE_ENTRIES),
    (b'{"id":' + b"[" * 100_000, Reason.UNDECODABLE_ENTRIES),
    (b'{"data":' + b'[{"a":' * 50_000 + b"1" + b"}]" * 50_000 + b"}", Reason.UNDECODABLE_ENTRIES),
    (json.dumps(message()).replace('"x"', '"?"').encode().replace(b"?", b"\xe9"), Reason.UNDECODABLE_ENTRIES),
    *_each("id", Reason.UNDECODABLE_ENTRY, "7", 1.5, 1 << 63, 10**400, [], True),
    *_each("es", Reason.UNDECODABLE_ENTRY, ..., None, "1624614713000", -1, 1 << 62, {}),
    *_each("gtid", Reason.UNDECODABLE_ENTRY, 1, ["u:1"]),
    *_each("type", Reason.UNDECODABLE_ENTRY, 1, {}),
    *_each("table", Reason.UNDECODABLE_ENTRY, ..., None, "", 5),
    *_each("database", Reason.UNDECODABLE_ENTRY, ..., None, "", 5),
    *_each("data", Reason.UNDECODABLE_ENTRY, {}, "x", [1], [None], [[]]),
    *_each("data", Reason.RAGGED_ROW, ..., None),
    (message(type="UPDATE", old=[{}, {}]), Reason.RAGGED_ROW),
    *_each("mysqlType", Reason.UNDECODABLE_ENTRY, ..., None, {}, [], {"id": 4}, {"id": None}),
    *_each("pkNames", Reason.UNDECODABLE_ENTRY, "id", ["ID"], [1], {}),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_what_cannot_be_used_is_rejected_alone(bad: dict[str, Any] | bytes, reason: Reason) -> None:
    payload = bad if isinstance(bad, bytes) else json.dumps(bad).encode()
    decoded = entries(message(id=1), payload, message(id=2))
    changes = WIRE.changes(decoded.batch, {TABLE: (Column("id", "int", True), Column("note", "string", False))})
    (rejected,) = [*decoded.rejected, *changes.rejected]
    assert (rejected.index, rejected.reason) == (1, reason)
    assert rejected.payload == payload
    assert "x" not in rejected.detail.split()  # no value of the row
    assert sum(one.batch.num_rows for one in changes.tables) == 2


def test_a_value_of_ten_megabytes_is_a_value() -> None:
    huge = "é" * times(1 << 20, 5 << 20)
    (row, _) = rows(message(mysqlType={"v": "longblob"}, data=[{"v": huge}], pkNames=None), message(
        mysqlType={"v": "longblob"}, data=[{"v": "a"}], pkNames=None
    ))  # fmt: skip
    assert row["after"]["v"] == b"\xe9" * len(huge)


def test_of_duplicate_names_the_last_counts_as_in_every_reader() -> None:
    raw = json.dumps(message()).replace('"note": "x"', '"note": "x", "note": "y"').encode()
    decoded = entries(raw)
    changes = WIRE.changes(decoded.batch, {TABLE: (Column("id", "int", True), Column("note", "string", False))})
    assert changes.tables[0].batch["after"].to_pylist() == [{"id": 1, "note": "y"}]


LONG_SET = "set(" + ",".join(f"'{number:0254}'" for number in range(64)) + ")"


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("enum('" + "x" * 255 + "')", ["1"]),
        (LONG_SET, [str((1 << 64) - 1)]),
        (LONG_SET, [str((1 << 64) - 1 - number) for number in range(40_000)]),
        ("binary(255)", [""]),
    ],
    ids=["one label", "a set", "many sets", "zero bytes"],
)
def test_few_bytes_that_stand_for_very_many_are_refused_until_they_come_alone(kind: str, texts: list[str]) -> None:
    count = 300_000 // len(texts)
    one = message(mysqlType={"v": kind}, pkNames=None, data=[{"v": text} for text in texts] * count)
    decoded = entries(one)
    asked = {TABLE: (Column("v", WIRE.column_type(kind, unsigned=False, table=TABLE), False),)}
    with pytest.raises(TooLargeError, match="labels"):
        WIRE.changes(decoded.batch, asked)
    few = entries(one | {"data": one["data"][:100]})
    assert WIRE.changes(few.batch, asked).tables[0].batch.num_rows == 100


def test_a_width_that_no_server_takes_fills_nothing() -> None:
    assert restorer_of("binary(256)") is None


def test_a_type_of_very_many_labels_is_read_once() -> None:
    kind = "enum(" + ",".join(f"'label {number}'" for number in range(65_535)) + ")"
    restore = restorer_of(kind)
    assert restore is not None
    assert restorer_of(kind) is restore
    made, unfit = restore(pa.array([b"65535", None], pa.binary()))
    assert (made.to_pylist(), unfit) == ([b"label 65534", None], None)
