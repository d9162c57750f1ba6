"""Collections of documents from DDS: what changelogs, snapshots and histories of them show."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.plain_values import find_plain_values, replace_plain_values
from dts_assets.flows.this_process import this_process
from dts_assets.model.tables import TableId
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process

START, HOUR = datetime(2026, 1, 5, tzinfo=UTC), timedelta(hours=1)
ORDERS = TableId("shop", "", "orders")

Said = tuple[str, str, Mapping[str, str | None]]


def insert(value: str, **more: str) -> Said:
    return "INSERT", "insert", {"value": value, **more}


def update(where: str, value: str) -> Said:
    return "UPDATE", "update", {"value": value, "where": where}


def replace(where: str, value: str) -> Said:
    return "UPDATE", "replace", {"value": value, "where": where}


def delete(value: str) -> Said:
    return "DELETE", "doc", {"value": value}


def command(record: str, value: str | None = None, **more: str | None) -> Said:
    return "DDL", record, {"value": value, **more}


def opened(folder: Path, windows: Sequence[Sequence[Said]], **options: Any) -> Harness:
    """A subscription of a topic with some messages in each window."""
    messages, number = list[Message](), 0
    for window, some in enumerate(windows):
        for operation, record, fields in some:
            number += 1
            at = START + window * HOUR + number * timedelta(seconds=1)
            stamp = int(at.timestamp())
            content = {
                "id": number, "op": operation, "dbType": "MongoDB", "db": "shop", "coll": "orders", "where": None,
                "recordType": record, "extra": record, "es": 1, "ts": stamp * 1000, "clusterTime": f"{stamp}:{number}", **fields,
            }  # fmt: skip
            messages.append(Message(0, number - 1, stamp * 1000, None, json.dumps(content).encode(), ()))
    folder.mkdir(exist_ok=True)
    write_capture(messages, folder / "capture", topic="one")
    return bench_in_process(folder, "dds").open(
        folder / "capture", format="drs-json", partitions=1, tables={"include": ["*"]},
        window={"every": HOUR, "start": START, "end": START + len(windows) * HOUR}, **options,
    )  # fmt: skip


def made(folder: Path, *windows: Sequence[Said], **options: Any) -> Harness:
    harness = opened(folder, windows, **options)
    harness.all(*range(len(windows)))
    return harness


def rows_of(harness: Harness, layer: str, table: TableId = ORDERS) -> list[dict[str, Any]]:
    found = harness.pipeline.lake.scan(harness.pipeline.table_path(layer, table))
    return (
        []
        if found is None
        else sorted(found.to_pylist(), key=lambda row: repr(row.get("_valid_from_position") or row["_id"]))
    )


def documents(harness: Harness, table: TableId = ORDERS) -> dict[str, str]:
    return {row["_id"]: row["document"] for row in rows_of(harness, "snapshot", table)}


EVERY_KIND = [
    insert('{"_id": 1, "a": {"n": NumberLong(5)}, "tags": ["x"]}'),
    insert('{"_id": "1", "at": ISODate("2026-01-05T00:00:00Z")}'),
    replace('{"_id": 1}', '{"_id": 1, "a": [1, 2]}'),
    update('{"_id": 1}', '{"$set": {"a.0": 7.5, "b.c": true}, "$unset": {"a.1": true}}'),
    delete('{"_id": "1"}'),
]


@pytest.mark.more
def test_a_changelog_has_the_document_or_its_update_in_canonical_form(tmp_path: Path) -> None:
    harness = made(tmp_path, EVERY_KIND)
    rows = sorted(rows_of(harness, "changelog"), key=lambda row: row["source_position"]["position"])
    assert [(row["op"], row["_id"], row["_id_type"], row["before"], row["after"], row["update"]) for row in rows] == [
        ("insert", "1", "number", None, '{"_id":{"$numberInt":"1"},"a":{"n":{"$numberLong":"5"}},"tags":["x"]}', None),
        ("insert", "1", "string", None, '{"_id":"1","at":{"$date":{"$numberLong":"1767571200000"}}}', None),
        ("update", "1", "number", None, '{"_id":{"$numberInt":"1"},"a":[{"$numberInt":"1"},{"$numberInt":"2"}]}', None),
        (
            "update",
            "1",
            "number",
            None,
            None,
            '{"$set":{"a.0":{"$numberDouble":"7.5"},"b.c":true},"$unset":{"a.1":true}}',
        ),
        ("delete", "1", "string", None, None, None),
    ]
    assert rows[0]["event_time"] == START + timedelta(seconds=1)  # the time of the cluster, not es


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("form", "document"),
    [
        ("relaxed", '{"_id":1,"a":[7.5,null],"b":{"c":true}}'),
        ("canonical", '{"_id":{"$numberInt":"1"},"a":[{"$numberDouble":"7.5"},null],"b":{"c":true}}'),
    ],
)
def test_a_snapshot_has_documents_in_the_form_that_is_asked_for(form: str, document: str, tmp_path: Path) -> None:
    harness = made(tmp_path, EVERY_KIND, documents=form)
    (row,) = rows_of(harness, "snapshot")
    assert (row["_id"], row["_id_type"], row["document"]) == ("1", "number", document)
    assert set(row) == {
        "_id", "_id_type", "document", "_event_time", "_kafka_partition", "_kafka_offset", "_invalid", "_sum",
    }  # fmt: skip


@pytest.mark.more
def test_updates_go_on_with_the_document_that_stands(tmp_path: Path) -> None:
    patch = update('{"_id": 1}', '{"$set": {"when": ISODate("2026-01-05T00:00:00.5Z")}}')
    later = update('{"_id": 1}', '{"$set": {"a.b.1": NumberDecimal("1.50")}}')
    harness = made(tmp_path, [insert('{"_id": 1, "a": {"b": [NumberLong(7)]}}'), patch], [later])
    wanted = '{"_id":1,"a":{"b":[7,{"$numberDecimal":"1.50"}]},"when":{"$date":"2026-01-05T00:00:00.500Z"}}'
    assert documents(harness) == {"1": wanted}
    harness.all(0)
    harness.settle()
    assert documents(harness) == {"1": wanted}


@pytest.mark.more
def test_an_update_of_a_document_that_nobody_has_seen_makes_none_and_is_counted(tmp_path: Path) -> None:
    harness = opened(tmp_path, [[update('{"_id": 1}', '{"$set": {"a": 1}}')], [insert('{"_id": 1}', op="INIT")]])
    harness.raw(0)
    harness.entries(0)
    report = harness.tables(0)
    counts = report.tables[0].layers["snapshot"].not_removed
    assert counts is not None
    assert counts.unseen == 1
    assert documents(harness) == {}
    assert [row["update"] for row in rows_of(harness, "changelog")] == ['{"$set":{"a":{"$numberInt":"1"}}}']
    harness.all(1)  # a full load that comes later heals it
    assert documents(harness) == {"1": '{"_id":1}'}


@pytest.mark.more
def test_a_path_that_does_not_fit_the_document_is_counted(tmp_path: Path) -> None:
    harness = opened(
        tmp_path, [[insert('{"_id": 1, "a": [1], "b": 1}'), update('{"_id": 1}', '{"$set": {"a.3": 4, "b.c": 1}}')]]
    )
    harness.raw(0)
    harness.entries(0)
    counts = harness.tables(0).tables[0].layers["snapshot"].not_removed
    assert counts is not None
    assert counts.misfits == 1


@pytest.mark.more
def test_a_field_can_be_a_column_of_its_own(tmp_path: Path) -> None:
    flatten = {"shop.orders": {"city": "address.city", "first": "lines.0", "zip": "address.zip"}}
    said = [insert('{"_id": 1, "address": {"city": "Köln", "zip": 50667}, "lines": [{"n": 1}]}'), insert('{"_id": 2}')]
    harness = made(tmp_path, said, [update('{"_id": 1}', '{"$set": {"address.city": "Bonn"}}')], flatten=flatten)
    assert [(row["city"], row["first"], row["zip"]) for row in rows_of(harness, "snapshot")] == [
        ("Bonn", '{"n":1}', "50667"),
        (None, None, None),
    ]


@pytest.mark.more
def test_deleted_documents_stay_softly_with_what_they_were(tmp_path: Path) -> None:
    said = [insert('{"_id": 1, "a": 1}'), update('{"_id": 1}', '{"$set": {"a": 2}}'), delete('{"_id": 1}')]
    harness = made(tmp_path, said, deletes="soft")
    (row,) = rows_of(harness, "snapshot")
    assert row["document"] == '{"_id":1,"a":2}'
    assert row["_deleted_at"] is not None
    apart = made(tmp_path / "apart", said[:2], said[2:], deletes="soft")
    (row,) = rows_of(apart, "snapshot")
    assert row["document"] == '{"_id":1,"a":2}'
    assert row["_deleted_at"] is not None


@pytest.mark.more(after=1)
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_history_has_every_version_of_a_document(cut: int, tmp_path: Path) -> None:
    said = [
        insert('{"_id": 1, "a": 1}'),
        update('{"_id": 1}', '{"$set": {"b": 2}}'),
        replace('{"_id": 1}', '{"_id": 1}'),
        delete('{"_id": 1}'),
    ]
    harness = made(tmp_path, said[:cut], said[cut:], history=["*"])
    rows = rows_of(harness, "history")
    assert [(row["_op"], row["document"]) for row in rows] == [
        ("insert", '{"_id":1,"a":1}'),
        ("update", '{"_id":1,"a":1,"b":2}'),
        ("update", '{"_id":1}'),
    ]
    assert all(row["_valid_to"] is not None for row in rows)


def test_documents_move_with_the_name_of_their_collection(tmp_path: Path) -> None:
    said = [
        insert('{"_id": 1, "a": 1}'),
        command("rename", '{"to": {"db": "old", "coll": "orders"}}'),
        insert('{"_id": 2}'),
    ]
    harness = made(
        tmp_path, said, [("UPDATE", "update", {"value": '{"$set": {"a": 2}}', "where": '{"_id": 1}', "db": "old"})]
    )
    assert documents(harness, TableId("old", "", "orders")) == {"1": '{"_id":1,"a":2}'}
    assert documents(harness) == {"2": '{"_id":2}'}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("gone", [command("drop", '{"drop": "orders"}'), command("dropDatabase", coll=None)])
def test_a_dropped_collection_is_empty_until_the_next_document(gone: Said, tmp_path: Path) -> None:
    harness = made(tmp_path, [insert('{"_id": 1}'), gone, insert('{"_id": 2}')], [gone], [insert('{"_id": 3}')])
    assert documents(harness) == {"3": '{"_id":3}'}


def test_documents_that_cannot_be_read_stop_no_other(tmp_path: Path) -> None:
    harness = made(tmp_path, [insert('{"_id": 1, "secret": Odd("x")}'), insert('{"_id": 2}'), insert('{"a": 1}')])
    assert documents(harness) == {"2": '{"_id":2}'}
    found = harness.rows("quarantine")
    assert [row["reason"] for row in found] == ["undecodable_entry"] * 2
    assert not any("secret" in (row["detail"] or "") for row in found)


def test_collections_have_no_statements(tmp_path: Path) -> None:
    harness = made(tmp_path, [insert('{"_id": 1}')], sql={"tables": ["*"]})
    assert rows_of(harness, "sql") == []
    assert documents(harness) == {"1": '{"_id":1}'}
    assert not any(row.get("paused") for row in harness.rows("cuts"))


KEY = "0123456789abcdef0123"
CARDS = (
    [insert('{"_id": 1, "card": "4111 1111", "n": NumberDecimal("4111.5")}'), insert('{"_id": 2, "card": "no 9222"}')],
    [update('{"_id": 1}', '{"$set": {"card": "7333", "old.card": ["4111 1111"]}}')],
)


def test_what_looks_like_a_card_is_a_token_in_documents_and_updates(tmp_path: Path) -> None:
    rule = {"tokenize": {"pattern": "[0-9]{4} ?[0-9]{4}|7333|9222", "key": KEY}}
    lake = made(tmp_path, *CARDS, columns={"*.document": rule})
    assert not any(
        digits in repr(rows_of(lake, layer)) for layer in ("changelog", "snapshot") for digits in ("1111", "7333")
    )
    first, second = (json.loads(text) for text in documents(lake).values())
    assert first["n"] == {"$numberDecimal": "4111.5"}
    assert first["card"].startswith("tok_")
    assert first["old"]["card"][0].startswith("tok_")
    assert second["card"].startswith("no tok_")


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("column", "rule", "clause"),
    [
        ("document", "drop", "the rule drop is on documents, which can only be tokenized"),
        ("document", {"hash": {"key": KEY}}, "the rule hash is on documents, which can only be tokenized"),
        ("_id", {"hash": {"key": KEY}}, "the rule hash is on _id of a collection, whose documents hold it as well"),
        ("_id_type", {"mask": "x"}, "the rule mask is on _id_type"),
    ],
)
def test_a_rule_that_documents_cannot_have_lets_the_collection_stand_still(
    column: str, rule: Any, clause: str, tmp_path: Path
) -> None:
    assert stands_still(opened(tmp_path, CARDS, columns={f"shop.*.{column}": rule}), clause)


def stands_still(lake: Harness, clause: str) -> bool:
    """Whether the only table of two windows stands still for a reason, and shows no row."""
    lake.raw(0, 1)
    lake.entries(0, 1)
    (window, *_) = lake.tables(0, 1).windows
    return [clause in missing.reason for missing in window.row.paused] == [True] and not rows_of(lake, "snapshot")


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("said", "clause"),
    [
        (insert('{"_id": "4111"}'), "the pattern of its rule matches in an _id, which the column _id shows as well"),
        (update('{"_id": 1}', '{"$set": {"a.4111": 1}}'), "matches a number in the path of an update"),
    ],
)
def test_a_pattern_that_would_make_another_document_lets_the_collection_stand_still(
    said: Said, clause: str, tmp_path: Path
) -> None:
    rule = {"tokenize": {"pattern": "^[0-9]{4}$", "key": KEY}}
    assert stands_still(opened(tmp_path, [[said], []], columns={"*.document": rule}), clause)


def test_a_pattern_matches_a_whole_text_and_a_whole_name_of_documents_and_updates(tmp_path: Path) -> None:
    """``^`` and ``$`` are the ends of a text, quotes and backslashes are escaped again, and updates find their fields."""
    said = [
        insert(
            r'{"_id": 1, "card": "4111222233334444", "4111222233334444": {"n": NumberLong("4111222233334444")}, "q": "\\"}'
        ),
        insert(r'{"_id": 2, "card": "\u0034111222233334444", "text": "no 4111222233334444 \"alone\""}'),
    ]
    later = [update('{"_id": 1}', '{"$set": {"4111222233334444.m": "4111222233334444"}, "$unset": {"q": true}}')]
    rule = {"tokenize": {"pattern": r"^[0-9]{16}$|^\\$", "key": KEY, "keep_last": 2}}
    lake = made(tmp_path, said, later, columns={"*.document": rule}, history=["*"])
    first, second = (json.loads(text) for text in documents(lake).values())
    token = first["card"]
    assert re.fullmatch("tok_[0-9a-f]{32}44", token)
    assert first == {"_id": 1, "card": token, token: {"n": 4111222233334444, "m": token}}
    assert second == {"_id": 2, "card": token, "text": 'no 4111222233334444 "alone"'}
    (old,) = [row for row in rows_of(lake, "history") if row["_id"] == "1" and row["_valid_to"]]
    assert re.fullmatch(r"tok_[0-9a-f]{32}", json.loads(old["document"])["q"])


@pytest.mark.more
def test_plain_documents_of_a_rule_that_comes_later_are_found_and_replaced(tmp_path: Path) -> None:
    """Nothing is decoded for it, so it is the way out where entries have left."""
    rule = {"tokenize": {"pattern": "4111 1111|7333|9222", "key": KEY}}
    made(tmp_path, *CARDS, history=["*"])
    lake = opened(tmp_path, CARDS, columns={"*.document": rule}, history=["*"])
    found = find_plain_values(lake.pipeline)
    assert {(one.layer, one.column, one.values) for one in found} == {
        ("changelog", "document", 3), ("snapshot", "document", 2), ("history", "document", 3),
    }  # fmt: skip
    assert replace_plain_values(lake.pipeline, spark=this_process, progress=lake.lines.append) == {}
    assert find_plain_values(lake.pipeline) == []
    rows = [rows_of(lake, layer) for layer in ("changelog", "snapshot", "history")]
    assert not any(card in repr(rows) for card in ("4111 1111", "7333", "9222"))
    apart = made(tmp_path / "apart", *CARDS, columns={"*.document": rule}, history=["*"])
    assert documents(lake) == documents(apart)
