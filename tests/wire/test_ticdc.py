"""Canal's JSON as TiCDC writes it: timestamps are places, watermarks are CHECKPOINTs, and columns come in any order."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.format import Checkpoint, DecodedEntries

WIRE = CanalJson()
TABLE = TableId("shopdb", "", "orders")
TYPES = {"id": "int", "note": "varchar", "price": "decimal"}
ROW = {"id": "1", "note": "x", "price": "2.50"}
COMMIT = 429918007904436226


def message(**fields: Any) -> dict[str, Any]:
    """An INSERT of one row, changed by ``fields``; a field that is ``...`` is left out."""
    made = {
        "id": 0, "database": "shopdb", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
        "es": 1640007049196, "ts": 1640007050284, "sql": "", "old": None, "data": [ROW],
        "sqlType": dict.fromkeys(TYPES, 4), "mysqlType": TYPES,
        "_tidb": {"commitTs": COMMIT},
    } | fields  # fmt: skip
    return {name: value for name, value in made.items() if value is not ...}


WATERMARK = message(
    database="", table="", pkNames=None, type="TIDB_WATERMARK", sqlType=None, mysqlType=None, data=None,
    _tidb={"watermarkTs": COMMIT + 5},
)  # fmt: skip


def entries(*messages: dict[str, Any] | bytes) -> DecodedEntries:
    values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
    return WIRE.entries(pa.array(values, pa.binary()))


@pytest.mark.parametrize("beyond", [{}, {"later": 1}])
def test_the_timestamp_of_a_transaction_is_a_place_and_a_watermark_a_checkpoint(beyond: dict[str, Any]) -> None:
    """A field that nobody knows lets a message be read part by part."""
    statement = message(
        type="ALTER", isDdl=True, sql="ALTER TABLE t ADD c int", sqlType=None, mysqlType=None, data=None,
        _tidb={"commitTs": COMMIT + 9},
    )  # fmt: skip
    given = [message(), WATERMARK, statement, message(_tidb=...), message(_tidb=None), message(_tidb={})]
    decoded = entries(*(one | beyond for one in given))
    assert decoded.rejected == ()
    found = [(row["message_type"], row["position"], row["file_name"]) for row in decoded.batch.to_pylist()]
    assert found == [
        ("DML", COMMIT, None), ("CHECKPOINT", COMMIT + 5, None), ("DDL", COMMIT + 9, None), *[("DML", None, None)] * 3,
    ]  # fmt: skip
    assert decoded.checkpoints == (Checkpoint(1, "", COMMIT + 5, None),)
    assert decoded.unknown == ({"field later": len(given)} if beyond else {})


@pytest.mark.parametrize("told", [..., None, {}, {"commitTs": 5}])
def test_a_watermark_without_its_timestamp_marks_nothing(told: Any) -> None:
    decoded = entries(
        WATERMARK, WATERMARK | {"_tidb": told} if told is not ... else message(**{**WATERMARK, "_tidb": ...})
    )
    assert decoded.batch["message_type"].to_pylist() == ["CHECKPOINT"] * 2
    assert [one.index for one in decoded.checkpoints] == [0]


@pytest.mark.parametrize("sign", [{"onlyHandleKey": True}, {"claimCheckLocation": "s3:/claim-check/1.json"}])
@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE"])
def test_a_message_that_has_the_key_alone_is_refused_unless_it_deletes(sign: dict[str, Any], kind: str) -> None:
    alone = message(
        type=kind, data=[{"id": "1"}], old=[{"id": "1"}] if kind == "UPDATE" else None, mysqlType={"id": "int"},
        sqlType={"id": 4}, _tidb={"commitTs": COMMIT, **sign},
    )  # fmt: skip
    for given in ([alone], [message(type=kind, old=[ROW]), alone, message(type=kind, old=[ROW])]):
        decoded = entries(*given)
        wanted = [] if kind == "DELETE" else [(len(given) // 2, Reason.RAGGED_ROW)]
        assert [(one.index, one.reason) for one in decoded.rejected] == wanted
        assert all("max-message-bytes" in one.detail for one in decoded.rejected)
        assert set(decoded.batch["position"].to_pylist()) <= {COMMIT}


@pytest.mark.parametrize(
    "wrong", [5, "x", [1], {"commitTs": "5"}, {"commitTs": -1}, {"commitTs": 1 << 63}, {"commitTs": 1.5}]
)
def test_timestamps_that_are_none_are_refused(wrong: Any) -> None:
    decoded = entries(message(), message(_tidb=wrong), message())
    assert [(one.index, one.reason) for one in decoded.rejected] == [(1, Reason.UNDECODABLE_ENTRY)]


def test_what_nobody_knows_of_the_timestamps_is_kept_and_counted() -> None:
    decoded = entries(message(_tidb={"commitTs": COMMIT, "later": [1]}))
    assert decoded.batch["position"].to_pylist() == [COMMIT]
    assert decoded.unknown == {"field _tidb": 1}
    assert json.loads(dict(decoded.batch["properties"][0].as_py())["_tidb"]) == {"commitTs": COMMIT, "later": [1]}


def test_columns_have_the_order_of_sql_types_whatever_that_of_their_types() -> None:
    """Go walks through a map in any order, so that each message has another one."""
    given = [message(mysqlType=dict(some)) for some in permutations(TYPES.items())] * 9
    decoded = entries(*given)
    assert [[one.name for one in shape.columns] for shape in decoded.shapes] == [[*TYPES]]
    asked = {TABLE: tuple(Column(name, "string", name == "id") for name in TYPES)}
    (changes,) = WIRE.changes(decoded.batch, asked).tables
    assert changes.batch["after"].to_pylist() == [ROW] * len(given)
    assert len(changes.carried.distinct) == 1
    (other,) = entries(message(mysqlType=dict(reversed(TYPES.items())), sqlType={"id": 4})).shapes
    assert [one.name for one in other.columns] == [*reversed(TYPES)]


def test_half_a_surrogate_pair_beside_timestamps() -> None:
    raw = json.dumps(message(data=[ROW | {"note": "@"}])).replace('"@"', r'"\ud800"').encode()
    decoded = entries(raw, raw.replace(b"commitTs", b"commitTs\\ud800"))
    assert decoded.batch["position"].to_pylist() == [COMMIT]
    assert [one.index for one in decoded.rejected] == [1]


def test_copies_say_the_same_and_other_changes_do_not() -> None:
    keyed = [
        message(), message(ts=1, mysqlType=dict(reversed(TYPES.items())), data=[ROW | {"note": "y"}]), message(type="DELETE"),
        message(data=[ROW | {"id": "2"}]), message(type="UPDATE", old=[ROW]),
    ]  # fmt: skip
    bag = [one | {"pkNames": None} for one in keyed] + [message(pkNames=None, data=[dict(reversed(ROW.items()))])]
    payloads = pa.array(
        [json.dumps(one).encode() for one in (*keyed, *bag, message(_tidb={"commitTs": 7}))], pa.binary()
    )
    digests = WIRE.contents(payloads).tolist()
    assert WIRE.has_key(payloads).tolist() == [True] * 5 + [False] * 6 + [True]
    assert digests[0] == digests[1] == digests[11]
    assert digests[5] == digests[10]
    assert len(set(digests)) == 9
    assert len(set(WIRE.contents(pa.array([b"{", b"[]", b'{"type":5}'], pa.binary())).tolist())) == 3
