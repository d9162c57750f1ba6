"""DRS Avro: any schema with the roles will do, whatever its names, its order, its nesting and the form of its rows."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings, Framing
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.drs_avro.roles import ROLES
from tests.tiers import examples

TABLE = TableId("d", "", "t")
COLUMNS = (Column("id", "bigint", True), Column("a", "string", False), Column("b", "string", False))
KINDS = {"id": "bigint", "a": "varchar(9)", "b": "text"}
TEXT = {"type": "record", "name": "Character", "namespace": "x", "fields": [
    {"name": "charset", "type": "string"}, {"name": "value", "type": "bytes"},
]}  # fmt: skip
NUMBER = {"type": "record", "name": "Integer", "namespace": "x", "fields": [{"name": "value", "type": "string"}]}
COLUMN = {"type": "record", "name": "Column", "namespace": "x", "fields": [
    {"name": "name", "type": "string"}, {"name": "originalType", "type": "string"},
]}  # fmt: skip

Row = Mapping[str, str | None]
rows = st.fixed_dictionaries({
    "id": st.integers(0, 99).map(str), "a": st.none() | st.text(st.characters(codec="utf-8"), max_size=4), "b": st.just("x"),
})  # fmt: skip


FORMS: dict[str, Any] = {
    "map": {"type": "map", "values": ["null", "string"]},
    "maps": {"type": "array", "items": {"type": "map", "values": ["null", "string", "long"]}},
    "texts in order": {"type": "array", "items": ["null", "string"]},
    "kinds in order": {"type": "array", "items": ["null", "x.Character", "x.Integer"]},
    "pairs": {"type": "array", "items": "x.Pair"},
}
PAIR = {"type": "record", "name": "Pair", "namespace": "x", "fields": [
    {"name": "columnName", "type": "string"}, {"name": "value", "type": ["null", "string", "bytes"]},
]}  # fmt: skip


def _image(form: str, row: Row) -> Any:
    if form == "map":
        return dict(row)
    if form == "maps":
        return [dict(row)]
    if form == "texts in order":
        return [row[name] for name in KINDS]
    if form == "pairs":
        return [{"columnName": name, "value": value} for name, value in reversed(list(row.items()))]
    return [
        None if value is None else ("x.Integer", {"value": value}) if name == "id"
        else ("x.Character", {"charset": "utf8mb4", "value": value.encode()}) for name in KINDS for value in (row[name],)
    ]  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn) -> tuple[bytes, dict[str, str], str, dict[str, list[str]]]:
    """A schema, what is declared of it, the form of its rows, and the place of each role."""
    form = draw(st.sampled_from(sorted(FORMS)))
    described = "columns" if "order" in form or draw(st.booleans()) else "types"
    kinds: dict[str, Any] = {
        "operation": draw(st.sampled_from(["string", {"type": "enum", "name": "x.Op", "symbols": ["insert", "UPDATE", "D"]}])),
        "id": draw(st.sampled_from(["long", "string"])), "database": "string", "table": "string", "before": FORMS[form],
        "after": FORMS[form], "key_names": {"type": "array", "items": "string"},
        described: {"type": "array", "items": "x.Column"} if described == "columns" else {"type": "map", "values": "string"},
    }  # fmt: skip
    top: list[dict[str, Any]] = [{"name": "other", "type": {"type": "array", "items": "double"}}]
    head: list[dict[str, Any]] = [{"name": "inner", "type": "long"}]
    declared, places = {}, {}
    for role, kind in kinds.items():
        kind = ["null", kind] if draw(st.booleans()) else kind
        kind = [*kind[1:], "null"] if isinstance(kind, list) and kind[0] == "null" and draw(st.booleans()) else kind
        if draw(st.integers(0, 3)):
            name = draw(st.sampled_from(ROLES[role]))
            name = name if all(name != one["name"] for one in top) else ROLES[role][0]
            top.append({"name": name, "type": kind})
            places[role] = [name]
        else:
            nested = draw(st.booleans())
            (head if nested else top).append({"name": f"own_{role}", "type": kind})
            places[role] = [*(["head"] if nested else []), f"own_{role}"]
            declared[role] = ".".join(places[role])
    inside = {"type": "record", "name": "Head", "namespace": "x", "fields": draw(st.permutations(head))}
    fields = draw(st.permutations([*top, {"name": "head", "type": draw(st.sampled_from([inside, ["null", inside]]))}]))
    record = {"type": "record", "name": "Record", "namespace": "x", "fields": fields}
    file = draw(st.permutations([record, TEXT, NUMBER, COLUMN, PAIR]))
    return json.dumps(file).encode(), declared, form, places


def written(
    schema: bytes, form: str, places: Mapping[str, list[str]], number: int, before: Row | None, after: Row | None
) -> bytes:
    """A record of a row, by fastavro."""
    known: dict[str, Any] = {}
    declared = json.loads(schema)
    for one in sorted(declared, key=lambda one: one["name"] == "Record"):
        parsed = fastavro.parse_schema(one, known)
    empty: Any = {} if form == "map" else []
    values: dict[str, Any] = {
        "operation": "insert" if before is None else "D" if after is None else "UPDATE", "database": "d", "table": "t",
        "before": empty if before is None else _image(form, before), "after": empty if after is None else _image(form, after),
        "key_names": ["id"], "columns": [{"name": name, "originalType": kind} for name, kind in KINDS.items()], "types": KINDS,
    }  # fmt: skip
    record: dict[str, Any] = {"other": [], "head": {"inner": 5}}
    for role, path in places.items():
        within = record if len(path) == 1 else record["head"]
        value = values.get(role, number)
        within[path[-1]] = str(value) if role == "id" and '"string"' in json.dumps(_kind_of(declared, path)) else value
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, record)
    return out.getvalue()


def _kind_of(declared: list[dict[str, Any]], path: list[str]) -> Any:
    fields = next(one for one in declared if one["name"] == "Record")["fields"]
    for name in path:
        kind = next(one["type"] for one in fields if one["name"] == name)
        inner = kind if isinstance(kind, dict) else next((one for one in kind if isinstance(one, dict)), {})
        fields = inner.get("fields", [])
    return kind


def _shown(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {**row, "id": int(row["id"] or "")}


@examples(150)
@given(schemas(), st.lists(st.tuples(st.none() | rows, st.none() | rows).filter(any), min_size=1, max_size=4))
def test_any_schema_with_the_roles_will_do(
    made: tuple[bytes, dict[str, str], str, dict[str, list[str]]], changes: list[tuple[Row | None, Row | None]]
) -> None:
    schema, declared, form, places = made
    # Bare and behind a header, some records of a schema with unions in front read alike: the frame is declared.
    wire = DrsAvro.of(FormatSettings(schema=schema, framing=Framing.RAW, fields=tuple(declared.items())))
    sent = [written(schema, form, places, number, *one) for number, one in enumerate(changes)]
    found = wire.entries(pa.array(sent, pa.binary()))
    assert found.rejected == ()
    assert found.batch["position"].to_pylist() == list(range(len(changes)))
    assert [one.is_key for one in next(iter(found.shapes)).columns] == [True, False, False]
    decoded = wire.changes(found.batch, {TABLE: COLUMNS})
    assert decoded.rejected == ()
    images = [(one["before"], one["after"]) for one in decoded.tables[0].batch.to_pylist()]
    assert images == [(_shown(one), _shown(other)) for one, other in changes]
    assert {tuple(one["absent"]) for one in decoded.tables[0].batch.to_pylist()} == {()}


def test_values_without_names_need_a_list_that_gives_them_an_order() -> None:
    fields: list[dict[str, Any]] = [{"name": name, "type": "string"} for name in ("type", "database", "table", "id")]
    fields += [{"name": name, "type": {"type": "array", "items": ["null", "string"]}} for name in ("data", "old")]
    fields.append({"name": "mysqlType", "type": {"type": "map", "values": "string"}})
    schema = json.dumps({"type": "record", "name": "Record", "fields": fields}).encode()
    with pytest.raises(WireFormatError, match=r"has no field for columns \(looked for columns, fields\)"):
        DrsAvro.of(FormatSettings(schema=schema))
