"""DRS messages of one table, one behind the other: whole rows are read as records, and each other message by its own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dts_assets.model.columns import Column
from tests.wire.test_drs_json_c import TABLE, WIRE, entries, message, rows


def _many(*changed: Mapping[str, Any], every: int = 20) -> list[list[dict[str, Any]]]:
    """The rows of messages that differ from many usual ones between which they stand, each message's own."""
    made = [message(id=number, data=[{"id": str(number), "note": "a"}]) for number in range(every * (len(changed) + 1))]
    for number, one in enumerate(changed, 1):
        made[number * every] |= one
    decoded = entries(*made)
    assert decoded.rejected == ()
    asked = {TABLE: (Column("id", "bigint", True), Column("note", "string", False))}
    changes = WIRE.changes(decoded.batch, asked)
    assert changes.rejected == ()
    (found,) = changes.tables
    by_entry: list[list[dict[str, Any]]] = [[] for _ in made]
    for row in found.batch.to_pylist():
        by_entry[row["entry_index"]].append(row)
    for number, own in enumerate(by_entry):
        if number % every or not number:
            assert [row["after"] for row in own] == [{"id": number, "note": "a"}]
    return by_entry[every::every][: len(changed)]


def test_a_message_among_many_usual_ones_is_read_by_its_own_form() -> None:
    found = _many(
        {"data": [{"id": "1"}]},
        {"data": [{"note": "b", "id": "2"}]},
        {"data": [{"id": 3, "note": None}]},
        {"mysqlType": {"note": "text", "id": "int"}, "data": [{"note": "c", "id": "4"}]},
        {"pkNames": None, "data": [{"id": "5", "note": "d"}, {"id": "6", "note": "e"}]},
        {"type": "UPDATE", "data": [{"id": "7", "note": "f"}], "old": [{"note": "g"}]},
        {"type": "DELETE", "data": [], "old": [{"id": "8", "note": "h"}]},
        {"data": []},
    )
    afters = [[row["after"] for row in own] for own in found]
    assert afters == [
        [{"id": 1, "note": None}], [{"id": 2, "note": "b"}], [{"id": 3, "note": None}], [{"id": 4, "note": "c"}],
        [{"id": 5, "note": "d"}, {"id": 6, "note": "e"}], [{"id": 7, "note": "f"}], [None], [],
    ]  # fmt: skip
    assert [row["absent"] for own in found for row in own] == [["after.note"], [], [], [], [], [], ["before.id"], []]
    assert [found[5][0]["before"], found[6][0]["before"]] == [{"id": None, "note": "g"}, {"id": 8, "note": "h"}]


def test_a_table_whose_messages_all_lack_columns_is_read_all_the_same() -> None:
    found = _many(*[{"data": [{"id": str(number)}]} for number in range(100)], every=2)
    assert [row["after"] for own in found for row in own] == [{"id": number, "note": None} for number in range(100)]


@pytest.mark.parametrize("count", [1, 40])
def test_of_two_equal_names_the_last_one_counts(count: int) -> None:
    twice = json.dumps(message()).replace('"note": "a"', '"note": "a", "note": "b"').encode()
    found = rows(*[message() for _ in range(count)], twice)
    assert found[-1]["after"] == {"id": 1, "note": "b"}


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "a\tb", "", "名", "c0"])
def test_columns_of_any_name_are_read_in_many_messages(name: str) -> None:
    made = [message(mysqlType={"c0 ": "int", name: "text"}, data=[{"c0 ": "1", name: "x"}], pkNames=None)] * 40
    assert [row["after"] for row in rows(*made)] == [{"c0 ": 1, name: "x"}] * 40


@pytest.mark.parametrize("damaged", ["blpb", ""])
def test_a_type_that_nobody_knows_harms_no_other_message(damaged: str) -> None:
    good = message(mysqlType={"id": "int", "v": "blob"}, data=[{"id": "1", "v": "[1, -1]"}])
    bad = message(mysqlType={"id": "int", "v": damaged}, data=[{"id": "2", "v": "[2]"}], id=8)
    for order in ((good, bad), (bad, good)):
        decoded = entries(*order)
        asked = {TABLE: (Column("id", "bigint", True), Column("v", "binary", False))}
        (found,) = WIRE.changes(decoded.batch, asked).tables
        assert sorted((row["id"], row["v"]) for row in found.batch["after"].to_pylist()) == [
            (1, b"\x01\xff"),
            (2, b"\x02"),
        ]
