"""Documents in the syntax of MongoDB's shell: constructors, numbers, texts that look like constructors, and what is refused."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from bson import json_util
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.wire.documents import shell_syntax
from dts_assets.wire.documents.extended_json import id_of, relaxed, text_of, value_of
from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from tests.tiers import examples

CANONICAL = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL, tz_aware=True, tzinfo=UTC, uuid_representation=4, document_class=dict
)
OID = "64650cf67dc36a464e76e583"

READ: dict[str, Any] = {
    '{"_id": ObjectId("64650cf67dc36a464e76e583"), "c1": "baz", "tags": ["mongodb", "database"]}': {
        "_id": {"$oid": OID}, "c1": "baz", "tags": ["mongodb", "database"],
    },
    '{"v": 5}': {"v": {"$numberInt": "5"}},
    '{"v": -2147483648}': {"v": {"$numberInt": "-2147483648"}},
    '{"v": 4294967296}': {"v": {"$numberDouble": "4294967296.0"}},
    '{"v": 5.0}': {"v": {"$numberDouble": "5.0"}},
    '{"v": 1.0E10}': {"v": {"$numberDouble": "10000000000.0"}},
    '{"v": -Infinity, "w": NaN, "x": Infinity}': {
        "v": {"$numberDouble": "-Infinity"}, "w": {"$numberDouble": "NaN"}, "x": {"$numberDouble": "Infinity"},
    },
    '{"v": NumberLong(5)}': {"v": {"$numberLong": "5"}},
    '{"v": NumberLong("-9223372036854775808")}': {"v": {"$numberLong": "-9223372036854775808"}},
    '{"v": NumberInt(5)}': {"v": {"$numberInt": "5"}},
    '{"v": NumberDecimal("1.50")}': {"v": {"$numberDecimal": "1.50"}},
    '{"v": NumberDecimal("NaN")}': {"v": {"$numberDecimal": "NaN"}},
    '{"v": ISODate("2017-01-02T03:04:05.678Z")}': {"v": {"$date": {"$numberLong": "1483326245678"}}},
    '{"v": ISODate("2017-01-02T03:04:05+08:00")}': {"v": {"$date": {"$numberLong": "1483297445000"}}},
    '{"v": new Date(-62135596800001)}': {"v": {"$date": {"$numberLong": "-62135596800001"}}},
    '{"v": new BinData(0, "AQID")}': {"v": {"$binary": {"base64": "AQID", "subType": "00"}}},
    '{"v": UUID("00112233-4455-6677-8899-aabbccddeeff")}': {
        "v": {"$binary": {"base64": "ABEiM0RVZneImaq7zN3u/w==", "subType": "04"}}
    },
    '{"v": Timestamp(1684344064, 4294967295)}': {"v": {"$timestamp": {"t": 1684344064, "i": 4294967295}}},
    '{"v": Timestamp({t: 5, i: 1})}': {"v": {"$timestamp": {"t": 5, "i": 1}}},
    '{"v": MinKey, "w": MaxKey(), "x": undefined}': {"v": {"$minKey": 1}, "w": {"$maxKey": 1}, "x": {"$undefined": True}},
    '{"v": /a\\/b"c/mi}': {"v": {"$regularExpression": {"pattern": 'a/b"c', "options": "im"}}},
    '{"v": { "$code" : "f()" }, "w": { "$symbol" : "s" }}': {"v": {"$code": "f()"}, "w": {"$symbol": "s"}},
    '{"v": Code("function() { return \\"}\\"; }")}': {"v": {"$code": 'function() { return "}"; }'}},
    '{"v": {"$ref": "c", "$id": ObjectId("64650cf67dc36a464e76e583")}}': {"v": {"$ref": "c", "$id": {"$oid": OID}}},
    '{"a.b": 1, "$x": 2, "": 3, "0": 4}': {
        "a.b": {"$numberInt": "1"}, "$x": {"$numberInt": "2"}, "": {"$numberInt": "3"}, "0": {"$numberInt": "4"},
    },
    '{"$set": {"a.0": NumberLong(1)}, "$unset": {"b": true}}': {
        "$set": {"a.0": {"$numberLong": "1"}}, "$unset": {"b": True},
    },
    "{}": {},
}  # fmt: skip

LOOKING_ALIKE = (
    "NumberLong(5)", 'ObjectId("64650cf67dc36a464e76e583")', "ISODate(", "MinKey", "/a/", "undefined", "5", "\0", "\0$timestamp",
    '", "x": MinKey, "y": "', "Timestamp(1, 2)", "\\", '\\"', "new Date(0)", "null", "{", "}", "\u2028",
)  # fmt: skip

REFUSED: dict[str, str] = {
    '{"v": Foo(1)}': "a constructor or a word is not known",
    '{"v": ObjectId("64650cf67dc36a464e76e58")}': "an ObjectId is none",
    '{"v": NumberLong("9223372036854775808")}': "a whole number does not fit its type",
    '{"v": NumberInt(2147483648)}': "a whole number does not fit its type",
    '{"v": NumberDecimal("12345678901234567890123456789012345")}': "a NumberDecimal does not fit its type",
    '{"_id": NumberDecimal("1E6145")}': "a NumberDecimal does not fit its type",
    '{"_id": NumberDecimal("1E-999999999")}': "a NumberDecimal does not fit its type",
    '{"v": NumberDecimal("0E999999999")}': "a NumberDecimal does not fit its type",
    '{"v": ISODate("2017-02-30T03:04:05Z")}': "a date is none",
    '{"v": ISODate("yesterday")}': "a date is none",
    '{"v": new BinData(0, "?")}': "a BinData is none",
    '{"v": new BinData(256, "AQID")}': "a BinData is none",
    '{"v": Timestamp(4294967296, 1)}': "a Timestamp is none",
    '{"v": 9007199254740993}': "a whole number has too many digits",
    '{"v": {"$oid": "64650cf67dc36a464e76e583"}}': "a field is called like a type of Extended JSON",
    '{"v": {"$numberLong": "5"}}': "a field is called like a type of Extended JSON",
    '{"v": 1': "it is no document in the syntax of the shell",
    '{"v": 1}}': "it is no document in the syntax of the shell",
    "{v: 1}": "a constructor or a word is not known",
    "[1]": "it is no document",
    "5": "it is no document",
    "": "it is no document",
    '{"v": ' * 100_000: "it is nested too deeply",
    '{"v": ' + "1" * 5000 + "}": "it is no document in the syntax of the shell",
}


@pytest.mark.parametrize("text", READ)
def test_a_document_is_canonical_extended_json(text: str) -> None:
    assert document_of(text) == READ[text]
    assert value_of(text_of(document_of(text))) == READ[text]


UNKNOWN_TO_BSON = ("undefined", "$symbol", "new Date(-62")
"""Values that bson reads as others, or not at all."""


@pytest.mark.parametrize("text", [text for text in READ if not any(sign in text for sign in UNKNOWN_TO_BSON)])
def test_another_reader_reads_equal_values(text: str) -> None:
    """What bson makes of our canonical text is what it writes again."""
    ours = text_of(document_of(text))
    again = json_util.dumps(json_util.loads(ours, json_options=CANONICAL), json_options=CANONICAL)
    assert json.loads(again) == json.loads(ours)


@pytest.mark.parametrize("text", LOOKING_ALIKE)
def test_a_text_that_looks_like_a_constructor_is_a_text(text: str) -> None:
    written = '{"a": %s, %s: 5, "l": NumberLong(7), "b": [%s, MinKey]}' % (3 * (json.dumps(text),))
    found = document_of(written)
    assert found == {
        "a": text, text: {"$numberInt": "5"}, "l": {"$numberLong": "7"}, "b": [text, {"$minKey": 1}],
    }  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_document_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(Unreadable, match=f"^{REFUSED[text]}$"):
        document_of(text)


def test_a_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(Unreadable, match="no Unicode"):
        text_of(document_of('{"a": "\\ud800"}'))


def test_two_hundred_levels_and_sixteen_megabytes_are_read() -> None:
    deep = '{"a": ' * 200 + "1" + "}" * 200
    assert text_of(document_of(deep)).count("a") == 200
    large = f'{{"a": "{"x" * 8_000_000}", "b": [{", ".join(["NumberLong(1)"] * 500_000)}]}}'
    assert len(document_of(large)["b"]) == 500_000


def cuts() -> list[str]:
    whole = next(iter(READ)) + next(text for text in READ if "BinData" in text)
    return [whole[:end] for end in range(1, len(whole)) if whole[:end] not in READ]


def test_a_text_that_is_cut_anywhere_is_refused() -> None:
    for text in cuts():
        with pytest.raises(Unreadable):
            document_of(text)


TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(LOOKING_ALIKE))
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), TEXTS, st.integers(-(1 << 31), (1 << 31) - 1), st.floats(),
        st.integers(-(1 << 63), (1 << 63) - 1).map(Int64), st.binary(min_size=12, max_size=12).map(ObjectId),
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(
            lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
        ),
        st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1)).map(lambda pair: Timestamp(*pair)),
        st.binary(max_size=20), st.decimals(-(10**20), 10**20, places=3).map(lambda one: Decimal128(str(one))),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(TEXTS.filter(lambda name: not name.startswith("$")), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip


def shell(value: Any) -> str:
    """A value as the Java driver writes it in its shell mode."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Int64():
            return f"NumberLong({int(value)})" if abs(value) < 1 << 31 else f'NumberLong("{int(value)}")'
        case int():
            return str(value)
        case float():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
        case str():
            return json.dumps(value)
        case ObjectId():
            return f'ObjectId("{value}")'
        case datetime():
            return f'ISODate("{value.isoformat(timespec="milliseconds").replace("+00:00", "Z")}")'
        case Timestamp():
            return f"Timestamp({value.time}, {value.inc})"
        case bytes():
            return f'new BinData(0, "{base64.b64encode(value).decode()}")'
        case Decimal128():
            return f'NumberDecimal("{value}")'
        case list():
            return f"[{', '.join(map(shell, value))}]"
        case _:
            return f"{{{', '.join(f'{json.dumps(name)}: {shell(inner)}' for name, inner in value.items())}}}"


_DIGITS = st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{0,12})?([eE]-?[0-9]{1,3})?", fullmatch=True)
_ARGUMENTS = st.one_of(
    st.from_regex(r'ObjectId\("[0-9a-fA-F]{23,25}"\)', fullmatch=True),
    _DIGITS.map("NumberLong({})".format),
    _DIGITS.map('NumberDecimal("{}")'.format),
    st.from_regex(r"NumberLong\((-?0|-?[1-9][0-9]{15,19})\)", fullmatch=True),
    st.datetimes().map(lambda at: f'ISODate("{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z")'),
    st.datetimes().map(lambda at: f'ISODate("{at.isoformat(timespec="seconds")}Z")'),
    st.from_regex(
        r'ISODate\("[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{3})?Z"\)', fullmatch=True
    ),
    st.sampled_from(["-0", "0", "5", "-999999999", "9999999999", "2147483648", "0.0", "-0.0"]),
)


@examples(400)
@given(st.lists(_ARGUMENTS, min_size=1, max_size=4))
def test_constructors_as_the_driver_writes_them_are_what_they_are_in_any_spelling(values: list[str]) -> None:
    text = f'{{"a": [{", ".join(values)}]}}'

    def read() -> object:
        try:
            return document_of(text)
        except Unreadable as error:
            return str(error)

    usual = read()
    with patch.object(shell_syntax, "_USUAL", re.compile("(?!)")):
        assert read() == usual


@examples(400)
@given(st.dictionaries(TEXTS.filter(lambda name: not name.startswith("$")), VALUES, max_size=5))
def test_random_documents_are_those_of_another_library(document: dict[str, Any]) -> None:
    ours = document_of(shell(document))
    theirs = json.loads(json_util.dumps(document, json_options=CANONICAL))
    assert _compared(ours) == _compared(theirs)
    relaxed(ours)


def _compared(value: Any) -> Any:
    """A value with its decimals and doubles as numbers: libraries write some in other digits."""
    if isinstance(value, list):
        return [_compared(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$numberDecimal"}:
        return Decimal128(value["$numberDecimal"]).to_decimal()
    if set(value) == {"$numberDouble"}:
        return repr(float(value["$numberDouble"]))
    return {name: _compared(inner) for name, inner in value.items()}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"$oid": OID}, (OID, "objectId")), ("a", ("a", "string")), ({"$numberInt": "5"}, ("5", "number")),
        ({"$numberDouble": "5.0"}, ("5", "number")), ({"$numberLong": "5"}, ("5", "number")),
        ({"$numberDecimal": "5.00"}, ("5", "number")), ({"$numberDecimal": "5E+2"}, ("500", "number")),
        ({"$numberDouble": "-0.0"}, ("0", "number")), ({"$numberDouble": "0.5"}, ("0.5", "number")),
        ({"$numberDecimal": "0.1"}, ("0.1", "number")), ({"$numberDouble": "NaN"}, ("NaN", "number")), (None, ("null", "null")),
        (True, ("true", "bool")), ({"a": {"$numberInt": "1"}}, ('{"a":{"$numberInt":"1"}}', "object")),
        ({"$date": {"$numberLong": "0"}}, ('{"$date":{"$numberLong":"0"}}', "date")),
    ],
)  # fmt: skip
def test_ids_are_texts_and_types(value: Any, expected: tuple[str, str]) -> None:
    assert id_of({"_id": value}) == expected


def test_a_double_is_another_key_than_the_decimal_of_its_digits() -> None:
    assert id_of({"_id": {"$numberDouble": "0.1"}}) != id_of({"_id": {"$numberDecimal": "0.1"}})


@pytest.mark.parametrize("document", [{}, {"_id": [1]}])
def test_a_document_without_an_id_that_can_be_one_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        id_of(document)


def test_the_relaxed_form_writes_numbers_and_dates_as_people_do() -> None:
    found = document_of(
        '{"i": 5, "l": NumberLong(6), "d": 1.5, "n": NaN, "m": NumberDecimal("1.0"), "t": ISODate("2017-01-02T03:04:05.678Z"), '
        '"u": ISODate("2017-01-02T03:04:05Z"), "old": new Date(-1), "o": ObjectId("64650cf67dc36a464e76e583"), "a": [1]}'
    )
    assert relaxed(found) == {
        "i": 5, "l": 6, "d": 1.5, "n": {"$numberDouble": "NaN"}, "m": {"$numberDecimal": "1.0"},
        "t": {"$date": "2017-01-02T03:04:05.678Z"}, "u": {"$date": "2017-01-02T03:04:05Z"},
        "old": {"$date": {"$numberLong": "-1"}}, "o": {"$oid": OID}, "a": [1],
    }  # fmt: skip
