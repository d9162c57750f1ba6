"""Entries of messages about documents, made at once, are those that are made message by message."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.flat_json.collection_entries import collection_entries
from dts_assets.wire.flat_json.entries import entries_of
from tests.tiers import examples

USUAL: dict[str, Any] = {
    "id": 7, "op": "INSERT", "recordType": "insert", "dbType": "MongoDB", "db": "shop", "coll": "orders", "value": "{}",
    "es": 5000, "ts": 6000, "clusterTime": "5:1",
}  # fmt: skip


def encoded(*messages: dict[str, Any]) -> pa.Array:
    return pa.array([json.dumps(one).encode() for one in messages], pa.binary())


def compare(sets: pa.Array) -> bool:
    """Compare the entries of messages with those that the general way makes; tell whether they were made at once."""
    wire = DrsJson()
    found, expected = wire.entries(sets), entries_of(sets, wire.dialect)
    assert found.batch.equals(expected.batch)
    assert (found.rejected, found.shapes, found.checkpoints) == (
        expected.rejected,
        expected.shapes,
        expected.checkpoints,
    )
    assert found.unknown == expected.unknown
    assert found.reads is not None
    assert expected.reads is not None
    assert found.reads.tolist() == expected.reads.tolist()
    return collection_entries(sets) is not None


ALTERED: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "replaced": ({"op": "UPDATE", "recordType": "replace", "where": "{}"}, True),
    "updated": ({"op": "UPDATE", "recordType": "update", "extra": "update"}, True),
    "deleted": ({"op": "DELETE", "recordType": "doc", "extra": "more"}, True),
    "of the full load": ({"op": "INIT", "recordType": None, "extra": "more"}, True),
    "of the full load, with another word": ({"op": "INIT", "recordType": "snapshot"}, True),
    "inserted without a word": ({"recordType": None}, True),
    "inserted with an empty word": ({"recordType": ""}, False),
    "an unknown word": ({"recordType": "view"}, False),
    "an unknown operation": ({"op": "UPSERT"}, False),
    "a statement": ({"op": "DDL", "recordType": "drop"}, False),
    "no operation": ({"op": None}, False),
    "another source": ({"dbType": "PostgreSQL"}, True),
    "no source": ({"dbType": None}, True),
    "an empty source": ({"dbType": ""}, True),
    "no database": ({"db": None}, False),
    "an empty database": ({"db": ""}, False),
    "no collection": ({"coll": None}, False),
    "an empty collection": ({"coll": ""}, False),
    "other names": ({"db": "Lager", "coll": "Köln \U0001f600"}, True),
    "no times": ({"es": None, "ts": None}, True),
    "times before the epoch": ({"es": -1, "ts": -(1 << 63)}, True),
    "times of more than 64 bits": ({"es": 1 << 70, "ts": 1 << 63}, False),
    "no clusterTime": ({"clusterTime": None}, False),
    "the last clusterTime": ({"clusterTime": "9999999999:9999999999"}, True),
    "a clusterTime with a line behind it": ({"clusterTime": "5:1\n"}, False),
    "a clusterTime in digits of other scripts": ({"clusterTime": "٥:1"}, False),
    "a clusterTime of one part": ({"clusterTime": "5"}, False),
    "the greatest id": ({"id": (1 << 63) - 1}, True),
    "an id that is none": ({"id": 1 << 63}, False),
    "an id as a text": ({"id": "7"}, False),
    "a value that is no text": ({"value": {}}, False),
    "an unknown field": ({"more": "x"}, False),
    "fields of another message": ({"type": "INSERT", "table": "orders"}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_a_message_has_the_entry_that_it_has_among_others(name: str) -> None:
    fields, at_once = ALTERED[name]
    assert compare(encoded({**USUAL, **fields})) is at_once
    assert compare(encoded(USUAL, {**USUAL, **fields}, USUAL)) is at_once


def test_messages_that_are_none_go_the_general_way() -> None:
    whole = json.dumps(USUAL).encode()
    for damaged in (b"", b"{}", b"[]", b"\xff", whole[:-1], whole.replace(b"shop", b"s\xff")):
        assert not compare(pa.array([whole, damaged], pa.binary()))
    assert not compare(pa.array([], pa.binary()))


NAMES = st.one_of(
    st.sampled_from([*ALTERED]), st.sampled_from([name for name, (_, at_once) in ALTERED.items() if at_once])
)


@examples(200)
@given(st.lists(st.lists(NAMES, max_size=2), min_size=1, max_size=8))
def test_random_messages_have_the_entries_of_the_general_way(chosen: list[list[str]]) -> None:
    messages = [{key: value for name in names for key, value in ALTERED[name][0].items()} for names in chosen]
    compare(encoded(*({**USUAL, "id": number, **fields} for number, fields in enumerate(messages))))


@examples(50)
@given(
    st.lists(
        st.lists(st.sampled_from([name for name, (_, at_once) in ALTERED.items() if at_once]), max_size=3), min_size=1
    )
)
def test_usual_messages_have_the_entries_of_the_general_way(chosen: list[list[str]]) -> None:
    messages = [{key: value for name in names for key, value in ALTERED[name][0].items()} for names in chosen]
    compare(encoded(*({"id": number, **USUAL, **fields} for number, fields in enumerate(messages))))
