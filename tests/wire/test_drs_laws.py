"""Whatever DRS messages hold, the decoder and a second, plain one read the same, or the decoder refuses."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.flat_json import rows
from dts_assets.wire.flat_json.drs import DrsMessages
from tests.tiers import examples
from tests.wire import drs_oracle

HOURS = 8
WIRES = {"drs-json": DrsJson("+08:00"), "drs-json-c": DrsJsonC("+08:00")}

NAMES = st.sampled_from(["id", "a", "b", "名", "x y"])
NUMBERS = st.one_of(
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.integers(-300, 300).map(str),
    st.sampled_from(["1.0E10", "10357.0", "-0.0", "x"]),
)
CLOCKS = st.one_of(
    st.datetimes().map(lambda found: f"{found:%Y}".zfill(4) + f"{found:-%m-%d %H:%M:%S}"),
    st.datetimes().map(lambda found: f"{found.year:04d}{found:-%m-%d %H:%M:%S.%f}"),
    st.dates().map(lambda found: found.isoformat()),
    st.sampled_from(["0000-00-00 00:00:00", "0000-00-00", "2021-02-29", "2021-02-29 00:00:00", "2021-06-25 24:00:00"]),
)
SECONDS = st.one_of(
    st.integers(0, 1 << 40).map(str),
    st.decimals("0.1", 10**10, places=3, allow_nan=False).map(str),
    st.sampled_from(
        ["0", "0.000000", "1.5", "1624614713.2013456", "1624614713.", "-1", "+1", "253402300799.999999", "253402300800"]
    ),
)
PRINTS = st.one_of(
    st.lists(st.integers(-140, 270), max_size=6).map(str), st.binary(max_size=40).map(lambda found: str(list(found)))
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INSTANTS = st.one_of(CLOCKS, SECONDS)
VALUES = {
    "int": NUMBERS, "bigint": NUMBERS, "decimal": NUMBERS, "double": st.one_of(st.floats(width=32).map(repr), NUMBERS),
    "float": NUMBERS, "date": CLOCKS, "datetime": CLOCKS, "timestamp": INSTANTS, "blob": PRINTS, "varchar": TEXTS, "json": TEXTS,
    "hyperint": TEXTS,
}  # fmt: skip
# Texts that both must refuse or take alike; what the two grammars of numbers differ in is no question of this format.
_DIGITS = {"double", "float"}


def _fits_both(kind: str, text: str) -> bool:
    return kind not in _DIGITS or ("." in text and "e" not in text) or text == "x"


@st.composite
def tables(draw: st.DrawFn) -> dict[str, str]:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    return {name: draw(st.sampled_from(sorted(VALUES))) for name in names}


@st.composite
def images(draw: st.DrawFn, types: dict[str, str]) -> dict[str, Any]:
    """A row, at times with columns missing, in another order, or a value that is no text."""
    row: dict[str, Any] = {
        name: draw(st.one_of(st.none(), VALUES[kind].filter(partial(_fits_both, kind)))) for name, kind in types.items()
    }
    if draw(st.integers(0, 4)) == 0:
        row = {name: row[name] for name in draw(st.lists(st.sampled_from(sorted(row)), unique=True))}
    if row and draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(sorted(row)))
        if types[name] not in _DIGITS:
            row[name] = draw(st.one_of(st.booleans(), st.integers(-9, 9)))
    return row


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    types = draw(tables())
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "INIT"]))
    data: list[Any] | None = draw(st.lists(images(types), max_size=3))
    old = None
    if kind == "UPDATE" and draw(st.booleans()):
        old = [draw(images(types)) for _ in data or ()]
    elif kind == "DELETE" and draw(st.booleans()):
        data, old = draw(st.none() | st.lists(images(types), max_size=2)), data
    return {
        "mysqlType": types, "id": draw(st.integers(0, 1 << 62)), "es": 1624614713000, "ts": 1, "database": "d",
        "table": draw(st.sampled_from(["t", "u "])), "type": kind, "isDdl": False, "sql": "", "data": data, "old": old,
        "pkNames": None,
    }  # fmt: skip


@pytest.mark.parametrize("form", WIRES)
@examples(60)
@given(st.lists(messages(), max_size=6), st.booleans(), st.sampled_from([1, 2, 16]))
def test_the_decoder_and_a_plain_one_agree(form: str, made: list[dict[str, Any]], spaced: bool, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            rows, "_FEW_MESSAGES", few
        )  # behind so many messages of a table whole rows are read in another way
        _agree(WIRES[form], form, made, spaced=spaced)


def _agree(wire: DrsMessages, form: str, made: list[dict[str, Any]], *, spaced: bool) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    payloads = [json.dumps(one, ensure_ascii=spaced, separators=separators).encode() for one in made]
    decoded = wire.entries(pa.array(payloads, pa.binary()))
    assert decoded.rejected == ()
    assert decoded.batch["position"].to_pylist() == [one["id"] for one in made]
    types: dict[TableId, dict[str, str]] = {}
    for shape in decoded.shapes:  # of a column with two types the first is asked for
        for one in shape.columns:
            types.setdefault(shape.table, {}).setdefault(
                one.name, wire.column_type(one.original_type, unsigned=False, table=shape.table)
            )
    types = {
        table: {name: kind for name, kind in found.items() if _has_one_type(made, table, name)}
        for table, found in types.items()
    }
    asked = {table: tuple(Column(name, kind, False) for name, kind in found.items()) for table, found in types.items()}
    changes = wire.changes(decoded.batch, asked)
    assert changes.rejected == ()
    found: dict[TableId, list[dict[str, Any]]] = {}
    for changed in changes.tables:
        changed.batch.validate(full=True)
        found[changed.table] = [row | {"invalid": dict(row["invalid"])} for row in changed.batch.to_pylist()]
    expected: dict[TableId, list[dict[str, Any]]] = {}
    for number, payload in enumerate(payloads):
        table = TableId("d", "", made[number]["table"])
        rows = drs_oracle.changes(payload, types[table], hours=HOURS, form=form)
        if rows:
            expected.setdefault(table, []).extend({"entry_index": number} | row for row in rows)
    assert repr(_sorted(found)) == repr(_sorted(expected))  # by their text: not-a-number is itself there


def _has_one_type(made: list[dict[str, Any]], table: TableId, name: str) -> bool:
    return (
        len({one["mysqlType"][name] for one in made if one["table"] == table.table and name in one["mysqlType"]}) == 1
    )


def _sorted(found: dict[TableId, list[dict[str, Any]]]) -> list[Any]:
    return [
        (
            table,
            [{key: sorted(row[key]) if key == "absent" else row[key] for key in sorted(row)} for row in found[table]],
        )
        for table in sorted(found)
    ]


@pytest.mark.parametrize("form", WIRES)
@examples(60)
@given(messages(), st.data())
def test_a_damaged_message_raises_nothing_and_harms_no_other(
    form: str, made: dict[str, Any], data: st.DataObject
) -> None:
    wire = WIRES[form]
    good = json.dumps(made).encode()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 4)))
    bad = good[:start] + data.draw(st.binary(max_size=4)) + good[end:]
    alone = wire.entries(pa.array([good], pa.binary()))
    both = wire.entries(pa.array([good, bad, good], pa.binary()))
    assert both.batch.num_rows + len(both.rejected) == 3
    assert {one.index for one in both.rejected} <= {1}
    table = TableId("d", "", made["table"])
    asked = {table: tuple(Column(name, "string", False) for name in made["mysqlType"])}
    one, three = wire.changes(alone.batch, asked), wire.changes(both.batch, asked)
    assert len(three.rejected) <= 1
    rows = [row for found in one.tables for row in found.batch.to_pylist()]
    kept = [
        row
        for found in three.tables
        for row in found.batch.to_pylist()
        if row["entry_index"] in (0, both.batch.num_rows - 1)
    ]
    plain = [{key: value for key, value in row.items() if key != "entry_index"} for row in kept]
    assert plain == [{key: value for key, value in row.items() if key != "entry_index"} for row in rows] * 2
