"""Many documents at once are what they are one by one: usual ones, hostile ones, and ones that are none, side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.collections import COLLECTION, lake_column
from dts_assets.model.tables import TableId
from dts_assets.wire.documents import many_documents
from dts_assets.wire.documents.extended_json import text_of
from dts_assets.wire.documents.many_documents import documents_of
from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.flat_json import collection_rows
from tests.tiers import examples
from tests.wire.test_shell_syntax import LOOKING_ALIKE, OID, READ, REFUSED, TEXTS, VALUES, cuts, shell

TABLE = TableId("d", "", "t")
COLUMNS = tuple(lake_column(one, "string") for one in COLLECTION)

USUAL = (
    f'{{"_id": ObjectId("{OID}"), "c": "ö\U0001f600", "n": 5, "m": -2, "l": NumberLong(-5), "b": NumberLong("{8 * 10**18}")}}',
    '{"_id": 1, "at": ISODate("2017-01-02T03:04:05.678Z"), "before": ISODate("0001-01-01T00:00:00Z"), "z": 0, "i": 1999999999}',
    '{"_id": "a", "d": NumberDecimal("-12.50"), "f": 5.5, "g": -1.0E-7, "e": {}, "a": [[], [1, [2]], {"b": null}], "t": true}',
    r'{"_id": {"a": 1}, "q": "say \"NumberLong(5)\" \\", "u": "\u00e9\n\/", "p": "$5.00", "x": "ObjectId(", "y": "), 5"}',
    '{"$set": {"a.0": NumberLong(1), "b": 5}, "$unset": {"c": true}}',
    '{"_id": new BinData(3, "AQID"), "u": UUID("00112233-4455-6677-8899-aabbccddeeff"), "c": Code("f(\\")"), "n": 5}',
    '{"a":1,"a":{"b":2,"b":3},"c" : [1 ,2 ] }',
    f'{{"_id": 7, "r": {{"$ref": "c", "$id": ObjectId("{OID}"), "$db": "d"}}, "m": "MinKey", "t": "Timestamp(1, 2)"}}',
)  # fmt: skip
"""Documents that are known without a look at each."""


@pytest.fixture(autouse=True)
def columns_for_few_texts() -> Iterator[None]:
    with patch.object(many_documents, "_FEW", 0):
        yield


def alone(text: str) -> str:
    """What a text is by itself: the text of its document, or the reason why it is none."""
    try:
        return text_of(document_of(text))
    except Unreadable as error:
        return f"refused: {error}"


def compare(texts: list[str]) -> None:
    found = [*documents_of(texts)]
    assert len(found) == len(texts)
    for text, document in zip(texts, found, strict=True):
        if document is not None:
            assert text_of(document) == alone(text), text


def test_usual_documents_are_known() -> None:
    found = [*documents_of(USUAL * 3)]
    assert [text_of(one) for one in found if one is not None] == [alone(text) for text in USUAL * 3]


def test_documents_and_texts_that_are_none_stand_side_by_side() -> None:
    texts = [*READ, *REFUSED, *cuts()]
    compare([one for text in texts for one in (text, USUAL[0])])
    assert None not in [*documents_of([one for text in texts for one in (text, USUAL[0])])][1::2]


SEAMS = (
    '{"a": ISODate("1970-01-01T00:00:00Z")} ', '{"a": ISODate("1970-01-01T00:00:00.001Z")}  ', f'{{"a": ObjectId("{OID}")}}  ',
    '{"a": NumberLong(5)}', '{"a": NumberLong("5")}', '{"a": NumberDecimal("5.5")}', '{"a": -5}', '{"a": 5.5}',
    '{"a": Code(                                        "")}    ', '{"a": new BinData(               0,            "")}   ',
)  # fmt: skip


@pytest.mark.parametrize("text", SEAMS)
def test_no_value_reaches_from_a_text_into_the_next_one(text: str) -> None:
    for at in range(len(text)):
        compare([USUAL[0], text[:at], text[at:], " " + text, USUAL[1], text])


def test_few_texts_are_left_to_the_reader_of_one() -> None:
    with patch.object(many_documents, "_FEW", 1 << 13):
        assert [*documents_of(USUAL)] == [None] * len(USUAL)


VALUES_OUTSIDE = (
    "0", "-0", "00", "01", "-", "--1", "-01", "999999999", "-999999999", "1000000000", "1999999999", "-1999999999", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9007199254740993", "9" * 19, "1" * 400, "1.", ".5", "1.5", "-1.5", "1e5", "1E+5",
    "1e", "1e400", "-1e400", "5e-324", "1e-400", "1_000", "0x10", "+1", "1.5.5", "-0.0", "1a", "a1", "١", "NaN", "Infinity",
    "-Infinity", "true", "false", "null", "tru", "truee", "True", "nul", "undefined", "'a'", "/a/", "/a/i", "\\", '\\"', "$", "_",
    "NumberLong", "NumberLong(", "NumberLong()", "NumberLong(0)", "NumberLong(-0)", "NumberLong(-1)", "NumberLong(01)",
    "NumberLong(5 )", "NumberLong( 5)", "NumberLong (5)", "NumberLong(5)5", "5NumberLong(5)", "xNumberLong(5)", "NumberLongs(5)",
    "NumberLong(5.0)", "NumberLong(1e5)", "NumberLong(true)", "NumberLong(NumberLong(5))", "NumberLong(5, 6)", "NumberLong, (5)",
    "NumberLong: (5)", "NumberLong(5]", "NumberLong(5}", "NumberLock(5)", 'NumberDecimax("5")', 'NumberLong("-")',
    f'NumberLong("-{"1" * 20}")', 'ISODate("2017+01-02T03:04:05Z")', 'ISODate("2017-01+02T03:04:05Z")',
    'ISODate("2017-01-02T03-04:05Z")', 'ISODate("2017-01-02T03:04-05Z")', "numberLong(5)", f"NumberLong({(1 << 63) - 1})",
    f"NumberLong({1 << 63})", f"NumberLong(-{1 << 63})", "NumberLong(8999999999999999999)", 'NumberLong("")', 'NumberLong("5")',
    'NumberLong("-0")', 'NumberLong("05")', 'NumberLong("--5")', 'NumberLong("5-")', f'NumberLong("{(1 << 63) - 1}")',
    f'NumberLong("{1 << 63}")', f'NumberLong("-{1 << 63}")', f'NumberLong("-{(1 << 63) + 1}")',
    'NumberLong("8999999999999999999")', 'NumberLong("5)', 'NumberLong("5"', 'NumberLong("5",)', "NumberLong('5')", "(5)", "-(5)",
    "-NumberLong(5)", "true(5)", "ObjectId(5)", "ObjectId", "ObjectId()", 'ObjectId("")', f'ObjectId("{OID}")',
    f'ObjectId("{OID[:-1]}")', f'ObjectId("{OID.upper()}")', f'ObjectId("{OID}a")', f'ObjectId("{OID[:-1]}g")',
    f'ObjectId("{OID}"', f'ObjectId("{OID}', f'ObjectId({OID})', f'ObjectId "{OID}"', f'ObjectId( "{OID}")',
    f'ObjectId("{OID}" )', f'ObjectIds("{OID}")', f'objectId("{OID}")', f'new ObjectId("{OID}")', f'ObjectId("{OID[:-2]}\\"a")',
    'NumberDecimal("0")', 'NumberDecimal("-0")', 'NumberDecimal("00")', 'NumberDecimal("0.0")', 'NumberDecimal("-0.000000")',
    'NumberDecimal("0.0000000")', 'NumberDecimal("1.1234567")', 'NumberDecimal(".5")', 'NumberDecimal("5.")',
    'NumberDecimal("5.5.5")', 'NumberDecimal("1-1")', 'NumberDecimal("-")', 'NumberDecimal("-.5")', 'NumberDecimal("1E5")',
    'NumberDecimal("NaN")', 'NumberDecimal("Infinity")', 'NumberDecimal("")', 'NumberDecimal(" 5")', 'NumberDecimal("5 ")',
    'NumberDecimal(5)', 'NumberDecimal("5"', f'NumberDecimal("{"1" * 34}")', f'NumberDecimal("{"1" * 35}")',
    f'NumberDecimal("{"1" * 33}.5")', f'NumberDecimal("-{"1" * 34}")', 'NumberDecimal("٥")', 'ISODate("2017-01-02T03:04:05Z")',
    'ISODate("2017-01-02T03:04:05.6Z")', 'ISODate("2017-01-02T03:04:05.678Z")', 'ISODate("2017-01-02T03:04:05.6789Z")',
    'ISODate("2017-01-02T03:04:05+08:00")', 'ISODate("2017-01-02 03:04:05Z")', 'ISODate("2017-01-02T03:04Z")',
    'ISODate("2017-01-02T03:04:05")', 'ISODate("2017-01-02T03:04:05z")', 'ISODate("0000-01-01T00:00:00Z")',
    'ISODate("0001-01-01T00:00:00Z")', 'ISODate("9999-12-31T23:59:59.999Z")', 'ISODate("10000-01-01T00:00:00Z")', 'ISODate()',
    'ISODate("2016-02-29T00:00:00Z")', 'ISODate("2017-02-29T00:00:00Z")', 'ISODate("1900-02-29T00:00:00Z")',
    'ISODate("2017-00-01T00:00:00Z")', 'ISODate("2017-13-01T00:00:00Z")', 'ISODate("2017-01-00T00:00:00Z")',
    'ISODate("2017-01-32T00:00:00Z")', 'ISODate("2017-04-31T00:00:00Z")', 'ISODate("2017-01-02T24:00:00Z")',
    'ISODate("2017-01-02T23:60:00Z")', 'ISODate("2017-01-02T23:59:60Z")', 'ISODate("2017-01-02T03:04:05.67aZ")',
    'ISODate("2017-01-02T03:04:05,678Z")', 'ISODate("2017-1-02T003:04:05Z")', 'ISODate("2017-01-02T03:04:0٥Z")',
    'ISODate("2017+01+02T03:04:05Z")', 'ISODate("2017-01-02T03-04-05Z")', 'ISODate("-001-01-02T03:04:05Z")',
    'ISODate("2017-01-02T03:04:05Z"', 'ISODate("2017-01-02T03:04:05Z', 'ISODate("2017-01-02T03:04:05"Z)',
    'ISODate("2017-01-02T03:04:05.678"Z)', 'BinData(0, "AQID")', 'Timestamp(1, 2)', "MinKey", "{", "}", "[", "]", "{}", "[]",
    "[[", '"', '""', '"a', '"a" "b"', '"$oid"', '"$set"', '"$unset"', '"$unsets"', '"$numberInt"', '"$"', '"$5"', '"\\u0024oid"',
    '{"$oid": "a"}', '{"$numberInt": 5}', '{"$unset": 1}', '{"$date": 5}', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"\t"',
    '"\x00"', '"\x7f"', '"\\\\"', '"\\\\\\""', '"\\', "\\\\", "\ufeff", "é", "1 2", "1,2", ":", ",", "//", "/* */",
    'new BinData(0, "AQID")', 'BinData( 0 , "AQID" )', 'BinData(0, "AQI=")', 'BinData(0, "AQJ=")', 'BinData(0, "?")',
    'BinData(5)', 'BinData(-5, "AQID")', 'BinData(5.5, "AQID")', 'UUID("00112233-4455-6677-8899-aabbccddeeff")',
    'UUID("00112233445566778899aabbccddeeff")', 'UUID("0011")', "UUID()", '-UUID("00112233-4455-6677-8899-aabbccddeeff")',
    r'Code("a\"b)(")', r'Code("\x")', r'Code("\ud800")', r'Code("\u00e9\n")', 'Code("a\tb")', 'Code("MinKey")', 'Code("/a/")',
    "Code('a')", 'DBRef("c", "5")', 'DBRef("c", 5)', 'Symbol("s")', 'Symbol("s", "t")', "NumberInt(5)", "NumberInt(-2147483649)",
    'NumberInt("5")', "NumberInt( 5 )", "NumberInt(5.0)", "new Date(5)", "new Date(-62135596800001)",
    'new Date("2017-01-02T03:04:05+08:00")', 'new  ISODate("2017-01-02T03:04:05Z")', "new NumberLong(5)", "new", "new 5",
    "new UUID", "Foo(5)", "Foo(Foo(5))", "BinData(UUID(5), 5)", 'Timestamp({"t": 5, "i": 1})', "Timestamp(1, 2), NumberInt(5)",
    "MaxKey()", "undefined()", "undefined(5)", "Code(5.5)", "Symbol(-1e5)",
    'DBRef("a", 5.5)', "Code(-5)", "MinKey(5)",
)  # fmt: skip
"""What may stand in the place of a value: right, wrong, and nearly right."""


@pytest.mark.parametrize("before", ["", " ", "[", "[1, ", "-", "a", '"', "("])
@pytest.mark.parametrize("behind", ["", " ", "]", ", 2]", "5", "a", '"', ")", "\\"])
def test_a_value_is_what_it_is_alone_wherever_it_stands(before: str, behind: str) -> None:
    texts = [f'{{"v": {before}{value}{behind}}}' for value in VALUES_OUTSIDE]
    compare(texts)
    # The text behind each text is read as if it stood alone.
    assert None not in [*documents_of([one for text in texts for one in (text, USUAL[3])])][1::2]


FIELDS = st.dictionaries(TEXTS, VALUES, max_size=6)
TEXT = st.one_of(
    FIELDS.map(shell),
    st.sampled_from([*USUAL, *READ, *REFUSED]).filter(lambda text: len(text) < 1000),
    st.lists(st.sampled_from(VALUES_OUTSIDE), max_size=4).map(lambda some: f'{{"v": [{", ".join(some)}]}}'),
    st.datetimes().map(lambda at: f'{{"v": ISODate("{at.isoformat(timespec="milliseconds")}Z")}}'),
    st.text('{}[]",:\\ ()-.09eNObjectIdumberLong$', max_size=30).map(lambda text: f"{{{text}}}"),
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A text of which a piece was cut, or put to another place."""
    text = draw(TEXT)
    start, end, at = sorted(draw(st.integers(0, len(text))) for _ in range(3))
    piece = draw(st.sampled_from(["", text[start:end], '"', "\\", "(", " ", "5", *LOOKING_ALIKE]))
    return draw(st.sampled_from([text[:start] + text[end:], text[:at] + piece + text[at:], text[:at]]))


@examples(400)
@given(st.lists(st.one_of(TEXT, damaged()), max_size=8))
def test_random_texts_are_read_together_as_they_are_alone(texts: list[str]) -> None:
    compare(texts)


@examples(200)
@given(st.lists(st.datetimes(), min_size=1, max_size=20))
def test_times_of_all_years_are_milliseconds(times: list[datetime]) -> None:
    texts = [f'{{"_id": 1, "at": ISODate("{at.isoformat(timespec="seconds")}Z")}}' for at in times]
    milliseconds = [
        (at.replace(microsecond=0, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        for at in times
    ]
    assert [one and one["at"] for one in documents_of(texts)] == [
        {"$date": {"$numberLong": str(one)}} for one in milliseconds
    ]


def messages(texts: list[str]) -> pa.Array:
    """Messages of all operations about some texts, and some that are damaged."""
    made = []
    for number, text in enumerate(texts):
        fields: dict[str, Any] = {"id": number, "db": "d", "coll": "t", "dbType": "MongoDB", "clusterTime": "5:1"}
        kinds = (("INSERT", "insert"), ("UPDATE", "replace"), ("UPDATE", "update"), ("DELETE", "doc"), ("INIT", None))
        op, kind = kinds[number % len(kinds)]
        fields |= {"op": op, "recordType": kind, "value": text}
        if op == "UPDATE":
            fields["where"] = texts[number * 7 % len(texts)]
        made.append(json.dumps(fields).encode())
    return pa.array(made, pa.binary())


@examples(100)
@given(st.lists(st.one_of(TEXT, damaged(), st.sampled_from(USUAL)), min_size=1, max_size=12))
def test_changes_are_those_of_messages_read_one_by_one(texts: list[str]) -> None:
    wire = DrsJson()
    entries = wire.entries(messages([text.encode(errors="replace").decode() for text in texts])).batch
    found = wire.changes(entries, {TABLE: COLUMNS})
    with patch.object(collection_rows, "documents_of", lambda texts: iter([None] * len(texts))):
        expected = wire.changes(entries, {TABLE: COLUMNS})
    assert found.rejected == expected.rejected
    assert [(one.table, one.batch) for one in found.tables] == [(one.table, one.batch) for one in expected.tables]


@examples(20)
@given(st.lists(st.sampled_from([*USUAL, *READ]), min_size=5, max_size=40), st.integers(1, 3000))
def test_blocks_of_messages_have_any_size(texts: list[str], size: int) -> None:
    wire = DrsJson()
    entries = wire.entries(messages(texts)).batch
    expected = wire.changes(entries, {TABLE: COLUMNS})
    with patch.object(collection_rows, "BLOCK", size):
        found = wire.changes(entries, {TABLE: COLUMNS})
    assert found.rejected == expected.rejected
    assert [one.batch for one in found.tables] == [one.batch for one in expected.tables]
