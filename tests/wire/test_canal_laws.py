"""Whatever Canal's messages hold, the decoder and a second, plain one read the same, or the decoder refuses."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.flat_json import rows
from tests.tiers import examples
from tests.wire import canal_oracle

HOURS = 8
WIRE = CanalJson("+08:00")

NAMES = st.sampled_from(["id", "a", "b", "名", "x y"])
NUMBERS = st.one_of(st.integers(-(1 << 65), 1 << 65).map(str), st.integers(-300, 300).map(str), st.just("x"))
DECIMALS = st.one_of(
    st.decimals(-100, 100, places=2).map(str), NUMBERS, st.sampled_from(["1.234", "9999.99", "1.50000"])
)
CLOCKS = st.one_of(
    st.datetimes().map(lambda found: f"{found.year:04d}{found:-%m-%d %H:%M:%S}"),
    st.datetimes().map(lambda found: f"{found.year:04d}{found:-%m-%d %H:%M:%S.%f}"),
    st.sampled_from(
        ["0000-00-00 00:00:00", "2021-02-29 00:00:00", "2021-06-25 24:00:00", "2021-06-25 17:51:53 +00:00", ""]
    ),
)
DATES = st.one_of(st.dates().map(lambda found: found.isoformat()), st.sampled_from(["0000-00-00", "2021-02-29"]))
BYTES = st.one_of(
    st.binary(max_size=9).map(lambda found: found.decode("iso-8859-1")),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LABELLED = st.one_of(st.integers(0, 9).map(str), st.sampled_from(["", "x", "-1", "01", "1" * 21]))
VALUES = {
    "int(11)": NUMBERS, "int(10) unsigned": NUMBERS, "bigint(20) unsigned": NUMBERS, "decimal(5,2)": DECIMALS,
    "decimal": DECIMALS, "double": st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9).map(
        lambda found: f"{found:.3f}"
    ),
    "date": DATES, "datetime(6)": CLOCKS, "timestamp(6)": CLOCKS, "blob": BYTES, "binary(4)": BYTES, "varchar(20)": TEXTS,
    "json": TEXTS, "hyperint": TEXTS, "enum('a','b c','it')": LABELLED, "set('a','b','c')": LABELLED,
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> dict[str, str]:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    return {name: draw(st.sampled_from(sorted(VALUES))) for name in names}


@st.composite
def images(draw: st.DrawFn, types: dict[str, str]) -> dict[str, Any]:
    """A row, at times with columns missing, in another order, or a value that is no text."""
    row: dict[str, Any] = {name: draw(st.one_of(st.none(), VALUES[kind])) for name, kind in types.items()}
    if draw(st.integers(0, 4)) == 0:
        row = {name: row[name] for name in draw(st.lists(st.sampled_from(sorted(row)), unique=True))}
    if row and draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(sorted(row)))
        if types[name] != "double":
            row[name] = draw(st.one_of(st.booleans(), st.integers(-9, 9)))
    return row


@st.composite
def changed(draw: st.DrawFn, types: dict[str, str]) -> dict[str, Any]:
    """The changed columns of a row, at times none and at times all."""
    names = draw(st.lists(st.sampled_from(sorted(types)), unique=True))
    return {name: draw(st.one_of(st.none(), VALUES[types[name]])) for name in names}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    types = draw(tables())
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "UPDATE", "DELETE", "INIT"]))
    data: list[Any] = draw(st.lists(images(types), max_size=3))
    old = [draw(changed(types)) for _ in data] if kind == "UPDATE" and draw(st.integers(0, 9)) else None
    # An UPDATE that tells neither a key nor an old value would be refused.
    free = kind != "UPDATE" or (old is not None and any(old))
    keys = draw(st.sampled_from([None, [*types][:1]])) if free else [*types][:1]
    return {
        "data": data, "database": "d", "es": 1624614713000, "gtid": draw(st.sampled_from(["", None, "0-1-7"])),
        "id": draw(st.none() | st.integers(-1, 1 << 62)), "isDdl": draw(st.sampled_from([False, None])), "mysqlType": types,
        "old": old, "pkNames": keys, "sql": "", "sqlType": {}, "table": draw(st.sampled_from(["t", "u "])), "ts": 1,
        "type": kind,
    }  # fmt: skip


@examples(100)
@given(st.lists(messages(), max_size=6), st.booleans(), st.sampled_from([1, 2, 16]))
def test_the_decoder_and_a_plain_one_agree(made: list[dict[str, Any]], spaced: bool, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Behind so many messages of a table whole rows are read in another way.
        patch.setattr(rows, "_FEW_MESSAGES", few)
        _agree(made, spaced=spaced)


@examples(40)
@given(messages(), st.data(), st.integers(2, 5))
def test_messages_of_one_table_agree_however_they_are_read(
    made: dict[str, Any], data: st.DataObject, count: int
) -> None:
    """With equal types the decoder of whole rows takes all but the first message."""
    types = made["mysqlType"]
    whole = st.fixed_dictionaries({name: st.one_of(st.none(), VALUES[kind]) for name, kind in types.items()})
    several = []
    for _ in range(count):
        rows_of_one = data.draw(st.lists(whole, min_size=1, max_size=3))
        old = [data.draw(changed(types)) for _ in rows_of_one]
        several.append(made | {"type": "UPDATE", "data": rows_of_one, "old": old, "pkNames": [*types][:1]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_FEW_MESSAGES", 1)
        _agree(several, spaced=False)


def _agree(made: list[dict[str, Any]], *, spaced: bool) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    payloads = [json.dumps(one, ensure_ascii=spaced, separators=separators).encode() for one in made]
    decoded = WIRE.entries(pa.array(payloads, pa.binary()))
    assert decoded.rejected == ()
    assert decoded.batch["rows"].to_pylist() == [len(one["data"]) for one in made]
    assert decoded.batch["position"].null_count == len(made)
    types: dict[TableId, dict[str, str]] = {}
    originals: dict[tuple[str, str], set[str]] = {}
    for shape in decoded.shapes:
        for one in shape.columns:
            kind = WIRE.column_type(one.original_type, unsigned=False, table=shape.table)
            originals.setdefault((shape.table.table, one.name), set()).add(one.original_type)
            types.setdefault(shape.table, {}).setdefault(one.name, kind)
    types = {  # of a column with two types nobody asks here
        table: {name: kind for name, kind in found.items() if len(originals[table.table, name]) == 1}
        for table, found in types.items()
    }
    asked = {table: tuple(Column(name, kind, False) for name, kind in found.items()) for table, found in types.items()}
    changes = WIRE.changes(decoded.batch, asked)
    refused = {number for number, one in enumerate(made) if lacks_its_key(one)}
    assert {one.index for one in changes.rejected} == refused
    found: dict[TableId, list[dict[str, Any]]] = {}
    for made_of in changes.tables:
        made_of.batch.validate(full=True)
        rows_found = made_of.batch.to_pylist()
        found[made_of.table] = [_sorted(row | {"invalid": dict(row["invalid"])}) for row in rows_found]
    expected: dict[TableId, list[dict[str, Any]]] = {}
    for number, payload in enumerate(payloads):
        table = TableId("d", "", made[number]["table"])
        if number in refused:
            continue
        for row in canal_oracle.changes(payload, types[table], hours=HOURS):
            expected.setdefault(table, []).append(_sorted({"entry_index": number} | row))
    assert found == expected


def lacks_its_key(made: dict[str, Any]) -> bool:
    """Tell whether a row that is updated or deleted tells no value for a column of its key."""
    keys = made["pkNames"] or []
    pairs = zip(made["data"], made["old"] or [{}] * len(made["data"]), strict=True)
    return made["type"] in ("UPDATE", "DELETE") and any(not {*keys} <= {*row, *old} for row, old in pairs)


def _sorted(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"absent": sorted(row["absent"])}


@examples(60)
@given(messages(), st.data())
def test_a_damaged_message_raises_nothing_and_harms_no_other(made: dict[str, Any], data: st.DataObject) -> None:
    good = json.dumps(made).encode()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 4)))
    bad = good[:start] + data.draw(st.binary(max_size=4)) + good[end:]
    alone = WIRE.entries(pa.array([good], pa.binary()))
    both = WIRE.entries(pa.array([good, bad, good], pa.binary()))
    assert both.batch.num_rows + len(both.rejected) == 3
    assert {one.index for one in both.rejected} <= {1}
    table = TableId("d", "", made["table"])
    asked = {table: tuple(Column(name, "string", False) for name in made["mysqlType"])}
    one, three = WIRE.changes(alone.batch, asked), WIRE.changes(both.batch, asked)
    assert len(three.rejected) <= 1
    last = both.batch.num_rows - 1
    wanted = [row for found in one.tables for row in found.batch.to_pylist()]
    kept = [row for found in three.tables for row in found.batch.to_pylist() if row["entry_index"] in (0, last)]
    assert [row | {"entry_index": 0} for row in kept] == [row | {"entry_index": 0} for row in wanted] * 2
