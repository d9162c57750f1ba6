"""Half a surrogate pair alone, which JSON can say and UTF-8 cannot: one invalid value, and no text elsewhere."""

from __future__ import annotations

import json

import pytest

from dts_assets.model.columns import Column
from tests.wire.test_canal_json import TABLE, WIRE, entries, message


@pytest.mark.parametrize(
    ("original", "sent", "stored"),
    [
        ("varchar(20)", r"a\ud800b", b"a\xed\xa0\x80b"), ("text", r"\udc00", b"\xed\xb0\x80"),
        ("int(11)", r"\ud83d7", b"\xed\xa0\xbd7"), ("enum('a')", r"\uDBFF", b"\xed\xaf\xbf"),
        ("blob", r"\ud83d", b"\xed\xa0\xbd"), ("binary(3)", r"\ud83d", b"\xed\xa0\xbd"),
        ("datetime(6)", r"\udfff\ud800", b"\xed\xbf\xbf\xed\xa0\x80"), ("timestamp", r"\udfff", b"\xed\xbf\xbf"),
        ("json", r'{\"a\":\"\\\ud800\"}', b'{"a":"\\\xed\xa0\x80"}'), ("decimal(5,2)", r"1\udc00", b"1\xed\xb0\x80"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 40])
def test_half_a_surrogate_pair_in_a_value_is_one_invalid_value(
    original: str, sent: str, stored: bytes, count: int
) -> None:
    types = {"id": "int(11)", "v": original, "w": "varchar(20)"}
    given = message(mysqlType=types, data=[{"id": "1", "v": "@", "w": r"😀 \ud800"}, {"id": "2", "v": None, "w": "x"}])
    raw = json.dumps(given).replace('"@"', f'"{sent}"').encode()
    whole = message(mysqlType=types, data=[{"id": "3", "v": None, "w": "y"}])
    decoded = entries(*[whole] * count, raw, whole)
    assert (decoded.rejected, decoded.batch["rows"].to_pylist()) == ((), [1] * count + [2, 1])
    asked = {
        TABLE: tuple(Column(n, WIRE.column_type(t, unsigned=False, table=TABLE), n == "id") for n, t in types.items())
    }
    changes = WIRE.changes(decoded.batch, asked)
    assert changes.rejected == ()
    found = changes.tables[0].batch.to_pylist()
    assert [row["after"]["v"] for row in found] == [None] * (count + 3)
    assert [row["after"]["w"] for row in found][count:] == [r"😀 \ud800", "x", "y"]
    assert [dict(row["invalid"]) for row in found][count:] == [{"after.v": f"0x{stored.hex().upper()}"}, {}, {}]


@pytest.mark.parametrize("place", ["orders", "note", "shopdb", "INSERT", "int(11)"])
def test_half_a_surrogate_pair_outside_of_values_is_no_text(place: str) -> None:
    raw = json.dumps(message()).replace(f'"{place}"', f'"{place}\\ud800"').encode()
    decoded = entries(message(), raw, message())
    changes = WIRE.changes(decoded.batch, {TABLE: (Column("id", "int", True), Column("note", "string", False))})
    assert [one.index for one in (*decoded.rejected, *changes.rejected)] == [1]
    assert sum(one.batch.num_rows for one in changes.tables) == 2


def test_a_value_that_changed_from_half_a_surrogate_pair() -> None:
    raw = json.dumps(message(type="UPDATE", old=[{"note": "@"}])).replace('"@"', r'"\ud800"').encode()
    changes = WIRE.changes(entries(raw).batch, {TABLE: (Column("id", "int", True), Column("note", "string", False))})
    (row,) = changes.tables[0].batch.to_pylist()
    assert (row["before"], row["after"]) == ({"id": 1, "note": None}, {"id": 1, "note": "x"})
    assert dict(row["invalid"]) == {"before.note": "0xEDA080"}
