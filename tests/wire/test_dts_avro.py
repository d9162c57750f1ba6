"""DTS Avro: any row, any schema file that has the fields, and damage, each compared with a decoder of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.tables import TableId
from dts_assets.wire.avro import records
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.format import DecodedEntries
from tests.tiers import examples
from tests.wire.avro_messages import encoded
from tests.wire.avro_oracle import OPERATIONS, change_of, record_of
from tests.wire.scenarios import DATA

SCHEMA = (DATA / "dts-avro" / "Record.avsc").read_bytes()
WIRE = DtsAvro(SCHEMA)
TABLE = TableId("d", "", "t")

small, texts = st.integers(0, 999), st.text(st.characters(codec="utf-8"), max_size=5)
clock = st.fixed_dictionaries(
    {
        "year": st.sampled_from([0, 1970, 2021, 9999]),
        "month": st.sampled_from([0, 2, 12]),
        "day": st.sampled_from([0, 28, 31]),
    },
    optional={"hour": st.integers(0, 23), "minute": st.integers(0, 59), "second": st.integers(0, 59), "millis": small},
)
duration = st.tuples(st.sampled_from([-1, 1]), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), small).map(
    lambda one: dict(zip(("hour", "minute", "second", "millis"), (one[0] * part for part in one[1:]), strict=True))
)
character = st.one_of(
    texts.map(lambda text: {"charset": "utf8mb4", "value": {"hex": text.encode().hex()}}),
    st.binary(max_size=4).map(
        lambda data: {"charset": "latin1", "value": {"hex": bytes(b & 0x7F for b in data).hex()}}
    ),
    st.binary(max_size=4).map(lambda data: {"charset": "gbk", "value": {"hex": data.hex()}}),
)
KINDS: Mapping[str, tuple[str, st.SearchStrategy[Any]]] = {
    "int(11)": ("int", st.integers(-(1 << 33), 1 << 33).map(lambda number: {"Integer": {"value": str(number)}})),
    "bigint(20)": ("bigint", st.integers(-(1 << 63), (1 << 63) - 1).map(lambda number: {"Integer": {"value": str(number)}})),
    "decimal(9,2)": (
        "decimal(9,2)", st.decimals(-10_000_000, 10_000_000, places=2).map(lambda one: {"Decimal": {"value": f"{one:f}"}})
    ),
    "double": ("double", st.floats(allow_nan=False, allow_infinity=False).map(lambda one: {"Float": {"value": one}})),
    "varchar(40)": ("string", character.map(lambda one: {"Character": one})),
    "varbinary(4)": ("binary", st.binary(max_size=4).map(lambda one: {"BinaryObject": {"value": {"hex": one.hex()}}})),
    "enum('a')": ("string", texts.map(lambda one: {"TextObject": {"value": one}})),
    "timestamp(3)": (
        "timestamp",
        st.tuples(st.integers(0, (1 << 31) - 1), small).map(lambda one: {"Timestamp": {"timestamp": one[0], "millis": one[1]}}),
    ),
    "datetime": ("timestamp_ntz", clock.map(lambda one: {"DateTime": one})),
    "datetime(6)": ("timestamp_ntz", clock.map(lambda one: {"DateTime": one})),
    "date": ("date", clock.map(lambda one: {"DateTime": one})),
    "time": ("string", duration.map(lambda one: {"DateTime": one})),
    "time(2)": ("string", duration.map(lambda one: {"DateTime": one})),
    "year(4)": ("int", st.integers(1901, 2155).map(lambda year: {"DateTime": {"year": year}})),
    "point": ("binary", texts.map(lambda one: {"TextGeometry": {"value": one}})),
}  # fmt: skip
NULLS = st.sampled_from([{"EmptyObject": "NULL"}, {"EmptyObject": "NULL"}, {"EmptyObject": "NONE"}])


@st.composite
def rows_of_a_table(draw: st.DrawFn) -> tuple[list[str], list[dict[str, Any]]]:
    """The types of a table's columns, and messages with a row of it each."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    values = st.tuples(*(st.one_of(KINDS[kind][1], KINDS[kind][1], NULLS) for kind in kinds)).map(list)
    columns = [{"name": f"c{n}", "isKey": n == 0, "originalType": kind} for n, kind in enumerate(kinds)]
    made = []
    for number in range(draw(st.integers(1, 5))):
        operation = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
        fields: dict[str, Any] = row(id=number, messageType=operation, columns=columns, position=f"{number + 9}@1")
        fields["oldColumns"] = None if operation == "INSERT" else draw(values)
        fields["newColumns"] = None if operation == "DELETE" else draw(values)
        made.append(fields)
    return kinds, made


def row(**fields: Any) -> dict[str, Any]:
    return {
        "id": 1, "version": 1, "messageType": "INSERT", "fileName": "b.000001", "position": "9@1", "timestamp": 1_700_000_000,
        "sourceType": "MySQL", "schemaName": "d", "tableName": "t", "pkNames": ["c0"], "readerTimestamp": 5,
        "columns": [{"name": "c0", "isKey": True, "originalType": "int(11)"}], "newColumns": [{"Integer": {"value": "7"}}],
    } | fields  # fmt: skip


def lake_types(kinds: Sequence[str]) -> dict[str, str]:
    return {f"c{number}": KINDS[kind][0] for number, kind in enumerate(kinds)}


def changes(found: DecodedEntries, types: Mapping[str, str], wire: DtsAvro = WIRE) -> dict[int, dict[str, Any]]:
    """The change of each message that became one, by its number."""
    found.batch.validate(full=True)
    columns = tuple(Column(name, kind, name == "c0") for name, kind in types.items())
    decoded = wire.changes(found.batch, {TABLE: columns})
    made = {}
    for one in decoded.tables:
        one.batch.validate(full=True)
        for each in one.batch.to_pylist():
            assert each.pop("row_number") == 0
            number = found.batch["set_index"][each.pop("entry_index")].as_py()
            made[number] = each | {"invalid": dict(each["invalid"])}
    return made


@examples(200)
@given(rows_of_a_table())
def test_rows_are_what_another_decoder_makes_of_them(made: tuple[list[str], list[dict[str, Any]]]) -> None:
    kinds, fields = made
    types, sent = lake_types(kinds), [encoded(SCHEMA, one) for one in fields]
    found = WIRE.entries(pa.array(sent, pa.binary()))
    assert found.rejected == ()
    expected = {}
    for number, message in enumerate(sent):
        record = record_of(SCHEMA, message)
        assert record is not None
        expected[number] = change_of(record, types)
    assert changes(found, types) == expected


@examples(200)
@given(rows_of_a_table(), st.data())
def test_damage_is_read_as_another_decoder_reads_it_or_rejected_and_harms_no_other(
    made: tuple[list[str], list[dict[str, Any]]], data: st.DataObject
) -> None:
    kinds, fields = made
    types, sent = lake_types(kinds), [encoded(SCHEMA, one) for one in fields]
    place = data.draw(st.integers(0, len(sent) - 1))
    good = sent[place]
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 9)))
    sent[place] = good[:start] + data.draw(st.binary(max_size=9)) + good[end:]
    assume(sent[place])
    clean = changes(WIRE.entries(pa.array([encoded(SCHEMA, one) for one in fields], pa.binary())), types)
    found = WIRE.entries(pa.array(sent, pa.binary()))
    after = changes(found, types)
    assert {number: one for number, one in after.items() if number != place} == {
        number: one for number, one in clean.items() if number != place
    }
    record = record_of(SCHEMA, sent[place])
    if place in after:
        assert record is not None, "only what is a record becomes a row"
        assert record["messageType"] in OPERATIONS
        same_columns = [one["name"] for one in record["columns"]] == [f"c{n}" for n in range(len(kinds))]
        if same_columns and [one["originalType"] for one in record["columns"]] == kinds:
            assert _shown(after[place]) == _shown(change_of(record, types))


def _shown(change: Any) -> str:
    """A change as text, so that no NaN differs from itself."""
    return repr(change).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_blocks_change_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [encoded(SCHEMA, row(id=number, newColumns=[{"Integer": {"value": str(number)}}])) for number in range(20)]
    sent[7] = sent[7][:-1]
    sent[11] = encoded(SCHEMA, row(version=9))
    monkeypatch.setattr(records, "BLOCK_BYTES", size)
    found = WIRE.entries(pa.array([b"before", *sent], pa.binary()).slice(1))
    assert [one.index for one in found.rejected] == [7, 11]
    assert {number: one["after"]["c0"] for number, one in changes(found, {"c0": "int"}).items()} == {
        number: number for number in range(20) if number not in (7, 11)
    }


def _other_schema(change: str) -> bytes:
    """The schema of the tests, written otherwise."""
    read = json.loads(SCHEMA)
    record = read[-1]
    if change == "the other way round":
        read.reverse()
        record["fields"].reverse()
    elif change == "all may be null":
        for field in record["fields"]:
            field["type"] = field["type"] if isinstance(field["type"], list) else ["null", field["type"]]
    elif change == "null stands last":
        for field in record["fields"]:
            if isinstance(field["type"], list):
                field["type"] = [one for one in field["type"] if one != "null"] + ["null"]
    elif change == "one schema in another":
        names = {one["name"]: one for one in read[:-1]}
        text = json.dumps(record)
        for name in sorted(names):
            text = text.replace(f'"{name}"', json.dumps(names[name]), 1) if f'"{name}"' in text else text
        read = json.loads(text)
        zoned = next(one for one in _named(read) if one["name"] == "TimestampWithTimeZone")
        zoned["fields"][0]["type"] = "DateTime"
    elif change == "more fields":
        record["fields"][3:3] = [
            {"name": "shard", "type": "string"},
            {"name": "extra", "type": {"type": "array", "items": "int"}},
        ]
    elif change == "the former name":
        record["fields"][2]["name"] = "operation"
        del record["fields"][2]["aliases"]
    return json.dumps(read).encode()


def _named(kind: Any) -> list[dict[str, Any]]:
    if isinstance(kind, list):
        return [one for part in kind for one in _named(part)]
    if not isinstance(kind, dict):
        return []
    own = [kind] if "name" in kind and kind.get("type") in ("record", "enum") else []
    return own + [one for part in kind.values() for one in _named(part)]


@pytest.mark.parametrize(
    "change",
    [
        "the other way round",
        "all may be null",
        "null stands last",
        "one schema in another",
        "more fields",
        "the former name",
    ],
)
def test_any_schema_file_with_the_fields_will_do(change: str) -> None:
    schema = _other_schema(change)
    wire = DtsAvro.of(FormatSettings(schema=schema))
    fields = row(newColumns=[{"Integer": {"value": "7"}}], gtid="u:1")
    if change == "the former name":
        fields["operation"] = fields.pop("messageType")
    found = wire.entries(pa.array([encoded(schema, fields)], pa.binary()))
    assert found.rejected == ()
    assert changes(found, {"c0": "int"}, wire)[0]["after"] == {"c0": 7}
    assert (found.batch["gtid"][0].as_py(), found.batch["position"][0].as_py()) == ("u:1", 9)
    assert dict(found.unknown) == ({"field shard": 1} if change == "more fields" else {})
    assert wire.entries_fingerprint != WIRE.entries_fingerprint


def _replaced(*pairs: tuple[str, str]) -> bytes:
    text = SCHEMA.decode()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (b"", "it is no JSON"),
        (b'{"type": "record"}', "a record, enum or fixed has no name"),
        (b'"string"', "it has no record called Record"),
        (_replaced(('"newColumns"', '"afterImages"')), "its record Record has no field for after (newColumns)"),
        (_replaced(('"items": "Field"', '"items": "Colum"')), "it names the type Colum, which nothing declares"),
        (_replaced(('"timestamp", "type": "long"}, {"name": "gtid"', '"timestamp", "type": "Timestamp"}, {"name": "gtid"')),
         "its field timestamp is no text or number"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused_by_name(schema: bytes, what: str) -> None:
    with pytest.raises(WireFormatError) as raised:
        DtsAvro.of(FormatSettings(schema=schema))
    assert what in str(raised.value)
    assert "dts-avro" in str(raised.value)


def test_kinds_and_symbols_that_nobody_knows_are_kept_and_counted() -> None:
    read = json.loads(SCHEMA)
    read.insert(0, {"type": "record", "name": "Uuid", "namespace": "com.tencent.subscribe.avro",
                    "fields": [{"name": "value", "type": "string"}]})  # fmt: skip
    read.insert(0, {"type": "record", "name": "Pair", "namespace": "com.tencent.subscribe.avro",
                    "fields": [{"name": "left", "type": "string"}]})  # fmt: skip
    for field in read[-1]["fields"]:
        if field["name"] == "newColumns":
            field["type"][2]["items"] += ["Uuid", "Pair", "long", "string"]
    next(one for one in read if one["name"] == "EmptyObject")["symbols"].append("GONE")
    schema = json.dumps(read).encode()
    wire = DtsAvro(schema)
    columns = [{"name": f"c{number}", "originalType": "uuid"} for number in range(4)]
    values = [{"Uuid": {"value": "u"}}, {"EmptyObject": "GONE"}, {"long": 5}, {"string": "x"}]
    sent = [row(columns=columns, newColumns=values), row(newColumns=[{"Pair": {"left": "x"}}])]
    found = wire.entries(pa.array([encoded(schema, one) for one in sent], pa.binary()))
    decoded = wire.changes(found.batch, {TABLE: tuple(Column(f"c{number}", "string", False) for number in range(4))})
    (made,) = decoded.tables
    assert made.batch["after"].to_pylist() == [{"c0": "u", "c1": None, "c2": "5", "c3": "x"}]
    assert dict(decoded.unknown) == {"EmptyObject GONE": 1, "value kind Uuid": 1}
    assert [(one.index, one.detail) for one in decoded.rejected] == [(1, "a value is of a kind that is not known")]
