"""DRS JSON, where it differs from JSON-C: deleted rows in ``old``, and TIMESTAMP values as seconds since the epoch."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json import DrsJson

WIRE = DrsJson("+08:00")
TABLE = TableId("bank", "", "accounts")
TYPES = {"id": "int", "seen": "timestamp", "made": "datetime(3)"}


def message(**fields: Any) -> bytes:
    made = {
        "mysqlType": TYPES, "id": 7, "es": 1624614713000, "ts": 1624614713250, "database": "bank", "table": "accounts",
        "type": "INSERT", "isDdl": False, "sql": "", "sqlType": {}, "data": [{"id": "1", "seen": None, "made": None}],
        "old": None, "pkNames": ["id"],
    } | fields  # fmt: skip
    return json.dumps(made, separators=(",", ":")).encode()


def rows(*messages: bytes, **types: str) -> list[dict[str, Any]]:
    decoded = WIRE.entries(pa.array(messages, pa.binary()))
    assert decoded.rejected == ()
    columns = tuple(
        Column(
            one.name,
            types.get(one.name) or WIRE.column_type(one.original_type, unsigned=False, table=TABLE),
            one.is_key,
        )
        for one in next(iter(decoded.shapes)).columns
    )
    changes = WIRE.changes(decoded.batch, {TABLE: columns})
    assert changes.rejected == ()
    (found,) = changes.tables
    found.batch.validate(full=True)
    assert found.batch.num_rows == sum(filter(None, decoded.batch["rows"].to_pylist()))
    return [row | {"invalid": dict(row["invalid"])} for row in found.batch.to_pylist()]


@pytest.mark.parametrize(
    ("data", "old", "deleted"),
    [
        (None, ["5"], ["5"]),
        ([], ["5", "6"], ["5", "6"]),
        (["9"], ["5"], ["5"]),  # where both stand, the deleted row is in old
        (["5"], None, ["5"]),  # as JSON-C has it
        (["5"], [], ["5"]),
    ],
)
def test_a_deleted_row_stands_in_old(data: list[str] | None, old: list[str] | None, deleted: list[str]) -> None:
    sent = [None if one is None else [{"id": key} for key in one] for one in (data, old)]
    found = rows(message(type="DELETE", data=sent[0], old=sent[1]))
    assert [(row["op"], row["before"]["id"], row["after"]) for row in found] == [
        ("delete", int(key), None) for key in deleted
    ]


def test_an_update_that_moves_the_key_has_both_keys() -> None:
    (row,) = rows(message(type="UPDATE", data=[{"id": "104"}], old=[{"id": "103"}]))
    assert (row["before"]["id"], row["after"]["id"]) == (103, 104)


def _instant(seconds: int, micros: int = 0) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1624614713.201", _instant(1624614713, 201000)),
        ("1624614713", _instant(1624614713)),
        ("1624614713.000001", _instant(1624614713, 1)),
        ("1", _instant(1)),
        ("253402300799.999999", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("253402300800", None),
        ("0", None),  # MySQL's zero timestamp
        ("0.000", None),
        ("0.999999", None),
        ("-1", None),
        ("1624614713.2013456", None),
        ("1624614713201", None),  # milliseconds
        ("1.624614713201E9", None),
        ("", None),
        ("١٦٢٤٦١٤٧١٣", None),  # digits, but none of ASCII
    ],
)
def test_an_instant_is_seconds_since_the_epoch(text: str, expected: datetime | None) -> None:
    sent = [{"id": str(number), "seen": one, "made": None} for number, one in enumerate([None, text, "1624614713.5"])]
    before, row, behind = rows(message(data=sent))
    assert (before["after"]["seen"], behind["after"]["seen"]) == (None, _instant(1624614713, 500000))
    assert (row["after"]["seen"], row["invalid"]) == (expected, {} if expected else {"after.seen": text})
    assert before["invalid"] == behind["invalid"] == {}


def test_a_wall_clock_that_is_declared_to_be_an_instant_is_read_in_the_sources_zone() -> None:
    sent = {"id": "1", "seen": "1624614713", "made": "2021-06-25 17:51:53.250"}
    (row,) = rows(message(data=[sent]), made="timestamp")
    assert row["after"] == {"id": 1, "seen": _instant(1624614713), "made": _instant(1624614713, 250000)}


def test_a_column_that_becomes_an_instant_amid_the_messages_is_read_by_the_form_of_each_value() -> None:
    earlier = message(mysqlType=TYPES | {"seen": "datetime"}, data=[{"id": "1", "seen": "2021-06-25 17:51:53"}])
    later = message(id=8, data=[{"id": "2", "seen": "1624614713"}])
    for messages in ((earlier, later), (later, earlier)):
        assert [row["after"]["seen"] for row in rows(*messages, seen="timestamp")] == [_instant(1624614713)] * 2


def test_a_timestamp_that_is_declared_to_be_text_stays_as_it_was_sent() -> None:
    (row,) = rows(message(data=[{"id": "1", "seen": "0", "made": None}]), seen="string")
    assert row["after"]["seen"] == "0"
