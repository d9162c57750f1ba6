"""Flat messages that are looked at together, and each one alone: entries, rows, refusals and reasons are the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.flat_json import entries, rows
from dts_assets.wire.flat_json.sent_values import NONE, SentCells
from dts_assets.wire.format import DecodedChanges, DecodedEntries, TooLargeError, WireFormat
from tests.tiers import examples

WIRES: dict[str, WireFormat] = {"drs-json": DrsJson(), "drs-json-c": DrsJsonC(), "canal-json": CanalJson()}

_FEW = st.integers(0, 9).map(lambda number: number == 0)
_CELLS = st.one_of(
    st.none(), st.sampled_from(["1", "a", "", 'q"\\\n', "名", "unchanged-toast-datum", "\0"]),
    st.sampled_from([7, 1 << 70, 1.5, True, [1], {"a": "b"}]).filter(lambda value: isinstance(value, (int, float))),
)  # fmt: skip
_TYPES: tuple[dict[str, str], ...] = (
    {"id": "int", "note": "text"},
    {"note": "text", "id": "int"},
    {"id": "int", "note": "text", "more": "text"},
    {},
)
_HEADS: tuple[dict[str, Any], ...] = (
    {"database": ""}, {"table": None}, {"isDdl": True}, {"type": "DDL", "sql": "DROP TABLE t", "data": None}, {"type": "x"},
    {"type": "QUERY", "data": None}, {"dbType": "MySQL"}, {"ts": 1 << 70}, {"ts": "x"}, {"ts": None}, {"id": -1}, {"id": "1"},
    {"es": -1}, {"es": 1.5}, {"pkNames": None}, {"pkNames": ["gone"]}, {"pkNames": "id"}, {"data": None}, {"data": {}},
    {"old": []}, {"old": [{}]}, {"data": [], "old": []}, {"extra": {"data": [{"id": "9", "note": "9"}]}}, {"gtid": "0-1-2"},
    {"schema": None}, {"schema": ""}, {"columnType": ""}, {"mysqlType": {"id": "int", "note": "text"}}, {"sql": "a\tb"},
    {"opType": "UPDATE"},
)  # fmt: skip


@st.composite
def _rows(draw: st.DrawFn, names: list[str]) -> list[dict[str, Any]]:
    made = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3, 0]))):
        row = {name: draw(_CELLS) if draw(_FEW) else "5" for name in names}
        if draw(_FEW):
            row = draw(
                st.sampled_from([{**row, "beyond": "1"}, dict(reversed(row.items())), dict(list(row.items())[1:])])
            )
        made.append(row)
    return made


@st.composite
def _message(draw: st.DrawFn) -> bytes:
    """A message as bytes: of a few tables, kinds and sources, at times odd, and at times damaged."""
    types = draw(st.sampled_from(_TYPES)) if draw(_FEW) else _TYPES[0]
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "UPDATE", "DELETE", "INIT"]))
    data: Any = draw(_rows(list(types)))
    old: Any = [draw(_rows(list(types)))[:1] for _ in data] if kind == "UPDATE" and not draw(_FEW) else None
    old = old and [row for one in old for row in one]
    if kind == "DELETE" and draw(st.booleans()):
        data, old = draw(st.sampled_from([None, []])), data
    message: dict[str, Any] = {
        "id": draw(st.integers(1, 9)), "es": 1624614713000, "ts": 5, "database": "d", "table": draw(st.sampled_from("tu")),
        "type": kind, "data": data, "old": old, "pkNames": ["id"],
    }  # fmt: skip
    other: dict[str, Any] = {"columnType": types, "schema": "s", "dbType": "PostgreSQL"}
    message |= other if draw(st.booleans()) else {"mysqlType": types, "isDdl": False, "sql": ""}
    if draw(_FEW):
        message |= draw(st.sampled_from(_HEADS))
    text = json.dumps(message, separators=(", ", ": ") if draw(_FEW) else (",", ":"), ensure_ascii=draw(st.booleans()))
    if draw(_FEW):
        known = '"id":', '"note":', '"data":', '"type":', "null", "}", "[", '"5"', ""
        text = text.replace(draw(st.sampled_from(known)), draw(st.sampled_from([*known, '"note":"6",'])), 1)
    made = text.encode()
    if draw(_FEW):
        at = draw(st.integers(0, len(made)))
        made = draw(
            st.sampled_from([made[:at], made[:at] + b"\xff" + made[at:], made[:at] + b"\0" + made[at:], b"", b"[]"])
        )
    return made


_ASKED = {
    TableId("d", schema, table): (
        Column("id", "int", True), Column("note", "string", False), Column("more", "string", False),
    )
    for table in "tu" for schema in ("", "s")
}  # fmt: skip


def _numbers(found: npt.NDArray[Any] | None) -> list[Any] | None:
    return None if found is None else found.tolist()


def _entries(decoded: DecodedEntries) -> tuple[Any, ...]:
    decoded.batch.validate(full=True)
    return decoded.batch.to_pylist(), decoded.rejected, decoded.shapes, decoded.unknown, _numbers(decoded.reads)


def _changes(decoded: DecodedChanges) -> tuple[Any, ...]:
    for one in decoded.tables:
        one.batch.validate(full=True)
    tables = [
        (one.table, one.batch.to_pylist(), one.keys.distinct, _numbers(one.keys.numbers)) for one in decoded.tables
    ]
    return tables, decoded.rejected, decoded.unknown


@pytest.mark.parametrize("form", WIRES)
@examples(60)
@given(st.lists(_message(), min_size=1, max_size=40), st.sampled_from([1, 1 << 9, 1 << 18]), st.sampled_from([1, 3]))
def test_messages_that_are_looked_at_together_say_the_same(form: str, made: list[bytes], size: int, few: int) -> None:
    wire, sets = WIRES[form], pa.array(made, pa.binary())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries._Found, "_kind_alone", lambda *_: entries._ODD)
        patch.setattr(rows, "_FEW_MESSAGES", 1 << 20)
        alone = wire.entries(sets)
        changes = wire.changes(alone.batch, _ASKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_FEW_MESSAGES", few)
        patch.setattr(rows, "_TOGETHER", size)
        patch.setattr(entries, "_TOGETHER", few * 4)
        together = wire.entries(sets)
        assert _entries(together) == _entries(alone)
        assert _changes(wire.changes(together.batch, _ASKED)) == _changes(changes)


def test_values_belong_to_the_image_in_whose_rows_they_stand() -> None:
    one = np.ones(3, np.int64)
    cells = SentCells(np.asarray([6, NONE, 0]), np.asarray([2, 2, 4]), one)
    found, owners = cells.among(np.asarray([0, 3, 4, 5, 6, 7, 8]))
    assert (found.tolist(), owners.tolist()) == ([0, 3, 6, 7], [2, 2, 0, 0])


def test_rows_of_few_bytes_before_whole_rows_are_too_many_in_both_ways() -> None:
    types = {f"c{number}": "int" for number in range(50)}
    of_all = {"es": 1, "type": "INSERT", "database": "d", "table": "t", "mysqlType": types, "pkNames": None}
    whole = {**of_all, "data": [dict.fromkeys(types, "1")]}
    made = [whole, whole, {**of_all, "data": [{}] * 200}, whole, whole, whole]
    sets = pa.array([json.dumps({"id": number, **one}).encode() for number, one in enumerate(made)], pa.binary())
    asked = {TableId("d", "", "t"): (Column("c0", "int", False),)}
    said = []
    for few in (1, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "_FEW_MESSAGES", few)
            patch.setattr(rows, "MOST_CELLS", 10_120)
            with pytest.raises(TooLargeError) as error:
                DrsJsonC().changes(DrsJsonC().entries(sets).batch, asked)
            said.append(str(error.value))
    assert said[0] == said[1]
    assert said[0].startswith("its rows and columns make 10150 cells")
