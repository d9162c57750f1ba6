"""DRS Avro: rows of any form in any frame, each compared with another decoder, and schemas of which nothing is fixed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dts_assets.errors import WireFormatError
from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings, Framing
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.avro import containers, records
from dts_assets.wire.avro.schema import parse_schema
from dts_assets.wire.drs_avro import DrsAvro, framing
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.format import DecodedEntries, TooLargeError, WireFormat
from tests.tiers import examples
from tests.wire.avro_messages import container, encoded
from tests.wire.avro_oracle import change_of, record_of
from tests.wire.scenarios import DATA
from tests.wire.test_dts_avro import SCHEMA as KINDS
from tests.wire.test_dts_avro import lake_types, row, rows_of_a_table

FLAT = (DATA / "drs-avro" / "flat.avsc").read_bytes()
WIRE, TABLE = DrsAvro(FLAT, "+08:00"), TableId("d", "", "t")
TYPES = {"id": ("int", "bigint"), "body": ("text", "string"), "mark": ("varbinary", "binary"), "seen": ("timestamp", "timestamp"),
         "day": ("date", "date"), "sum": ("decimal", "string"), "rate": ("double", "double")}  # fmt: skip
COLUMNS = tuple(Column(name, lake, name == "id") for name, (_, lake) in TYPES.items())

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
odd = st.one_of(texts, st.sampled_from(["0000-00-00", "[1, 2]", "[]", "[300]", "1", "-1", "1e5", "2021-02-30"]))
values: Mapping[str, st.SearchStrategy[str]] = {
    "id": st.one_of(st.integers(-(1 << 64), 1 << 64).map(str), odd), "body": odd,
    "mark": st.one_of(st.binary(max_size=3).map(lambda data: str([byte - 128 for byte in data])), odd),
    "seen": st.one_of(st.integers(0, 1 << 33).map(lambda seconds: f"{seconds}.201"), st.just("2021-06-25 17:51:53"), odd),
    "day": st.one_of(st.dates().map(str), odd), "sum": odd, "rate": st.one_of(st.floats().map(repr), odd),
}  # fmt: skip


@st.composite
def flat_rows(draw: st.DrawFn, count: int) -> list[dict[str, str | None]]:
    names = draw(st.permutations(sorted(TYPES)))
    return [
        {name: draw(st.none() | values[name]) for name in names[: draw(st.integers(0, len(names)))]}
        for _ in range(count)
    ]


@st.composite
def flat_messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages of DRS JSON of one table, with rows that leave any column out."""
    made = []
    for number in range(draw(st.integers(1, 4))):
        kind, count = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "INIT"])), draw(st.integers(1, 3))
        old = draw(flat_rows(count)) if kind in ("UPDATE", "DELETE") and draw(st.booleans()) else None
        data = draw(flat_rows(count)) if kind != "DELETE" or old is None else None
        types = {name: TYPES[name][0] for name in draw(st.permutations(sorted(TYPES)))}
        made.append({
            "mysqlType": types, "id": number, "es": 1624614713000, "ts": 5, "database": "d", "table": "t", "type": kind,
            "isDdl": False, "sql": "", "data": data, "old": old, "pkNames": draw(st.sampled_from([None, ["id"]])),
        })  # fmt: skip
    return made


def changes(wire: WireFormat, found: DecodedEntries, columns: Sequence[Column] = COLUMNS) -> list[dict[str, Any]]:
    """All changes, with the number of their message."""
    found.batch.validate(full=True)
    decoded = wire.changes(found.batch, {TABLE: tuple(columns)})
    made = []
    for one in decoded.tables:
        one.batch.validate(full=True)
        for each in one.batch.to_pylist():
            entry = each.pop("entry_index")
            place = found.batch["set_index"][entry].as_py(), found.batch["entry_number"][entry].as_py()
            made.append({"place": place, **each, "invalid": dict(each["invalid"])})
    return sorted(made, key=lambda one: (one["place"], one["row_number"]))


def in_frame(schema: bytes, frame: str, fields: Mapping[str, Any]) -> bytes:
    if frame == "container":
        return container(schema, [fields], codec="deflate")
    return (b"\0\0\0\x01\x02" if frame == "confluent" else b"") + encoded(schema, fields)


headers = st.sampled_from(["raw", "confluent"])
frames = st.sampled_from([one.value for one in Framing if one is not Framing.AUTO])


@examples(200)
@given(flat_messages(), st.data())
def test_rows_by_name_are_what_the_vendors_json_says(fields: list[dict[str, Any]], data: st.DataObject) -> None:
    sent = [in_frame(FLAT, data.draw(frames), one) for one in fields]
    found = WIRE.entries(pa.array(sent, pa.binary()))
    sister = DrsJson("+08:00")
    told = sister.entries(pa.array([json.dumps(one).encode() for one in fields], pa.binary()))
    assert found.rejected == told.rejected == ()
    assert repr(changes(WIRE, found)) == repr(changes(sister, told))
    for name in ("set_index", "position", "event_time", "database", "table", "rows", "message_type"):
        assert found.batch[name].to_pylist() == told.batch[name].to_pylist(), name
    assert WIRE.has_key(found.batch["payload"]).tolist() == sister.has_key(told.batch["payload"]).tolist()
    assert found.reads is not None
    assert told.reads is not None
    assert found.reads.tolist() == told.reads.tolist()


@examples(150)
@given(rows_of_a_table(), st.data())
def test_rows_of_kinds_are_what_another_decoder_makes_of_them(
    made: tuple[list[str], list[dict[str, Any]]], data: st.DataObject
) -> None:
    kinds, fields = made
    types, wire = lake_types(kinds), DrsAvro(KINDS)
    found = wire.entries(pa.array([in_frame(KINDS, data.draw(headers), one) for one in fields], pa.binary()))
    assert found.rejected == ()
    expected = []
    for number, one in enumerate(fields):
        record = record_of(KINDS, encoded(KINDS, one))
        assert record is not None
        expected.append({"place": (number, 0), "row_number": 0, **(change_of(record, types) or {})})
    columns = [Column(name, kind, name == "c0") for name, kind in types.items()]
    assert changes(wire, found, columns) == expected


@examples(300)
@given(flat_messages(), frames, st.sampled_from(list(Framing)), st.data())
def test_damage_harms_no_other_message_and_makes_rows_of_records_alone(
    fields: list[dict[str, Any]], frame: str, declared: Framing, data: st.DataObject
) -> None:
    assume(declared in (Framing.AUTO, frame))
    wire, sent = DrsAvro(FLAT, "+08:00", declared), [in_frame(FLAT, frame, one) for one in fields]
    clean = changes(wire, wire.entries(pa.array(sent, pa.binary())))
    place = data.draw(st.integers(0, len(sent) - 1))
    good = sent[place]
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 9)))
    sent[place] = good[:start] + data.draw(st.binary(max_size=9)) + good[end:]
    assume(sent[place])
    found = wire.entries(pa.array(sent, pa.binary()))
    after = changes(wire, found)
    others = [one for one in after if one["place"][0] != place]
    assert repr(others) == repr([one for one in clean if one["place"][0] != place])
    mine = [one for one in after if one["place"][0] == place]
    if frame != "container" and mine and not any(one["invalid"] for one in mine):
        bare = [
            record_of(FLAT, sent[place][skipped:]) for skipped in (0, 5) if skipped == 0 or sent[place][:1] == b"\0"
        ]
        assert any(one is not None for one in bare), "only a record becomes rows"
    assert {one.index for one in found.rejected} <= {place}


AMBIGUOUS = json.dumps({"type": "record", "name": "Record", "namespace": "test", "fields": [
    {"name": "op", "type": {"type": "enum", "name": "Op", "symbols": ["INSERT", "UPDATE"]}}, {"name": "id", "type": "long"},
    {"name": "db", "type": "string"}, {"name": "table", "type": "string"}, {"name": "note", "type": "bytes"},
    {"name": "after", "type": {"type": "map", "values": "string"}},
    {"name": "before", "type": {"type": "map", "values": "string"}},
]}).encode()  # fmt: skip


def test_a_message_that_is_a_record_with_and_without_its_first_five_bytes_is_refused() -> None:
    one = {"op": "INSERT", "id": 1, "db": "d", "table": "t", "note": "x", "after": {"id": "1"}}
    bare = encoded(AMBIGUOUS, one)
    both = (
        b"\0\0\0\0" + bytes([2 * bare.index(b"\x02\x04id")]) + bare
    )  # the note of a bare record would end before the rows
    assert record_of(AMBIGUOUS, both) is not None
    messages = pa.array([bare, both], pa.binary())
    found = DrsAvro(AMBIGUOUS).entries(messages)
    assert [(one.index, one.reason) for one in found.rejected] == [(1, Reason.UNDECODABLE_ENTRIES)]
    assert "declare framing" in found.rejected[0].detail
    declared = DrsAvro(AMBIGUOUS, framing=Framing.CONFLUENT).entries(messages)
    assert [one.index for one in declared.rejected] == [0]
    assert declared.batch["payload"].to_pylist() == [bare]


def test_a_record_that_begins_as_a_container_is_kept_as_what_it_is() -> None:
    odd_first = json.loads(AMBIGUOUS)
    odd_first["fields"].insert(0, {"name": "first", "type": {"type": "fixed", "name": "Four", "size": 4}})
    schema = json.dumps(odd_first).encode()
    fields = {"op": "INSERT", "id": 1, "db": "d", "table": "t", "after": {"id": "1"}}
    bare = containers.MAGIC + encoded(AMBIGUOUS, fields)
    for declared, message in (
        (Framing.RAW, bare),
        (Framing.CONFLUENT, b"\0\0\0\0\x09" + bare),
        (Framing.AUTO, b"\0\0\0\0\x09" + bare),
    ):
        wire = DrsAvro(schema, framing=declared)
        found = wire.entries(pa.array([message], pa.binary()))
        assert found.rejected == ()
        assert [one["after"] for one in changes(wire, found, COLUMNS[:2])] == [{"id": 1, "body": None}]
    assert len(DrsAvro(schema).entries(pa.array([bare], pa.binary())).rejected) == 1, "auto takes it for a container"


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_blocks_change_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"mysqlType": {"id": "int"}, "es": 1, "database": "d", "table": "t", "type": "INSERT", "pkNames": ["id"]}
    fields = [{**one, "id": number, "data": [{"id": str(number)}, {"id": "9"}]} for number in range(20)]
    sent = [in_frame(FLAT, ["raw", "confluent", "container"][number % 3], each) for number, each in enumerate(fields)]
    sent[7] = sent[7][:-1]
    monkeypatch.setattr(records, "BLOCK_BYTES", size)
    found = WIRE.entries(pa.array([b"before", *sent], pa.binary()).slice(1))
    assert [each.index for each in found.rejected] == [7]
    rows = [(each["place"][0], each["row_number"], each["after"]["id"]) for each in changes(WIRE, found, COLUMNS[:1])]
    assert rows == [pair for number in range(20) if number != 7 for pair in ((number, 0, number), (number, 1, 9))]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_containers_of_every_codec(codec: str) -> None:
    fields = {
        "mysqlType": {"id": "int"},
        "es": 1,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "data": [{"id": "7"}],
    }
    if codec in ("snappy", "zstandard"):  # fastavro writes them with packages that nothing else needs
        plain = container(FLAT, [{**fields, "id": 1}, {**fields, "id": 2}])
        message = _folded(plain, codec)
    else:
        message = container(FLAT, [{**fields, "id": 1}, {**fields, "id": 2}], codec=codec)
    found = WIRE.entries(pa.array([message], pa.binary()))
    assert found.rejected == ()
    assert found.batch["position"].to_pylist() == [1, 2]
    assert found.batch["entry_number"].to_pylist() == [0, 1]
    cut = WIRE.entries(pa.array([message[:-20] + message[-16:]], pa.binary()))
    assert [(one.index, one.entry_number, one.reason) for one in cut.rejected] == [
        (0, None, Reason.UNDECODABLE_ENTRIES)
    ]


def _folded(plain: bytes, codec: str) -> bytes:
    """A container without a codec, as one whose only block is folded."""
    read = containers.read_container(plain)
    ((count, data),) = read.blocks
    folded: bytes = pa.compress(data, "zstd" if codec == "zstandard" else codec, asbytes=True)
    if codec == "snappy":
        folded += zlib.crc32(data).to_bytes(4, "big")
    sync = plain[-16:]
    meta = _long(2) + b"".join(
        _long(len(one)) + one for one in (b"avro.schema", read.schema, b"avro.codec", codec.encode())
    )
    return containers.MAGIC + meta + _long(0) + sync + _long(count) + _long(len(folded)) + folded + sync


def _long(value: int) -> bytes:
    made, left = [], value << 1
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def test_a_container_whose_ids_fall_is_refused_whole() -> None:
    fields = {
        "mysqlType": {"id": "int"},
        "es": 1,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "data": [{"id": "7"}],
    }
    sent = [
        container(FLAT, [{**fields, "id": number} for number in ids]) for ids in ([1, 2, 2, 3], [4, 3, 5], [5, 5], [1])
    ]
    found = WIRE.entries(pa.array(sent, pa.binary()))
    assert [(one.index, one.entry_number, one.reason) for one in found.rejected] == [
        (1, None, Reason.UNDECODABLE_ENTRIES)
    ]
    assert found.batch["set_index"].to_pylist() == [0, 0, 0, 0, 2, 2, 3]


def test_a_container_that_unfolds_to_too_much_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "mysqlType": {"id": "int"},
        "es": 1,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "data": [{"id": "7" * 5_000}],
    }
    plain = container(FLAT, [{**fields, "id": 1}])
    sent = [_folded(plain, "snappy"), _folded(plain, "zstandard")]
    sent += [container(FLAT, [{**fields, "id": 1}], codec=codec) for codec in ("deflate", "bzip2", "xz")]
    monkeypatch.setattr(containers, "MOST_BYTES", 1_000)
    found = WIRE.entries(pa.array(sent, pa.binary()))
    assert [(one.index, one.reason) for one in found.rejected] == [(number, Reason.TOO_LARGE) for number in range(5)]


def test_containers_that_hold_far_more_than_their_bytes_are_given_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"mysqlType": {"id": "int"}, "id": 1, "es": 1, "database": "d", "table": "t", "type": "INSERT"}
    folded = container(FLAT, [{**fields, "data": [{"id": "7" * 20_000}]}], codec="deflate")
    other = FLAT.replace(b'"name": "ts"', b'"name": "written"')
    many = container(other, [{**fields, "data": [{"id": "7"}]}] * 40)
    monkeypatch.setattr(framing, "_MOST_KEPT", 30_000)
    for message in (folded, many):
        with pytest.raises(TooLargeError, match="its containers hold"):
            WIRE.entries(pa.array([message, message], pa.binary()))
    assert WIRE.entries(pa.array([folded], pa.binary())).rejected == ()
    assert (
        WIRE.entries(pa.array([container(FLAT, [fields | {"data": [{"id": "7"}]}] * 40)], pa.binary())).rejected == ()
    )


def test_rows_of_far_more_cells_than_bytes_are_too_large() -> None:
    types = {f"c{number}": "int" for number in range(4_000)}
    fields = {
        "mysqlType": types,
        "id": 1,
        "es": 1,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "data": [{}] * 9_000,
    }
    found = WIRE.entries(pa.array([encoded(FLAT, fields)], pa.binary()))
    with pytest.raises(TooLargeError, match="36000000 cells"):
        WIRE.changes(found.batch, {TABLE: COLUMNS[:1]})


def test_a_column_that_a_row_names_twice_is_refused() -> None:
    one = {"op": "INSERT", "id": 1, "db": "d", "table": "t", "note": "", "after": {"id": "1", "ix": "2"}}
    twice = encoded(AMBIGUOUS, one).replace(b"\x04ix", b"\x04id")
    wire = DrsAvro(AMBIGUOUS)
    found = wire.entries(pa.array([twice, encoded(AMBIGUOUS, one)], pa.binary()))
    decoded = wire.changes(found.batch, {TABLE: COLUMNS[:1]})
    reasons = [(each.index, each.reason) for each in (*found.rejected, *decoded.rejected)]
    assert reasons == [(0, Reason.RAGGED_ROW)]


def test_copies_say_what_their_originals_said() -> None:
    one = {"mysqlType": {"id": "int"}, "id": 1, "es": 1, "ts": 2, "database": "d", "table": "t", "type": "INSERT",
           "data": [{"id": "7"}], "pkNames": ["id"]}  # fmt: skip
    other = [{**one, "data": [{"id": "8"}]}, {**one, "table": "u"}, {**one, "type": "INIT"}, {**one, "pkNames": None}]
    sent = [*(in_frame(FLAT, frame, one) for frame in ("raw", "confluent", "container")),
            encoded(FLAT, {**one, "id": 3, "es": 9, "ts": None}), *(encoded(FLAT, each) for each in other)]  # fmt: skip
    found = WIRE.entries(pa.array(sent, pa.binary()))
    assert found.rejected == ()
    digests = WIRE.contents(found.batch["payload"]).tolist()
    assert len(set(digests[:4])) == 1
    assert len(set(digests)) == 5
    assert WIRE.has_key(found.batch["payload"]).tolist() == [True] * 7 + [False]


def _without(*names: str) -> bytes:
    read = json.loads(FLAT)
    read["fields"] = [one for one in read["fields"] if one["name"] not in names]
    return json.dumps(read).encode()


@pytest.mark.parametrize(
    ("schema", "fields", "what"),
    [
        (b"", {}, "it is no JSON"),
        (_without("type"), {}, "operation (looked for type, opType, messageType, operation, op); name it under avro:"),
        (_without("id", "old"), {}, "id (looked for id); before (looked for old, oldColumns, beforeImages, before)"),
        (_without("data"), {}, "after (looked for data,"), (_without("table"), {}, "table (looked for table,"),
        (FLAT, {"operation": "art"}, "its record Record has no field art, which avro: names for operation"),
        (FLAT, {"operation": "type.art"}, "its record Record has no field type.art, which avro: names for operation"),
        (FLAT, {"operation": "data"}, "its field data cannot be the operation: it is no text or number"),
        (FLAT, {"after": "sql"}, "its field sql cannot be the after: it is no row"),
        (FLAT, {"time": "isDdl"}, "its field isDdl cannot be the time: it is no whole number"),
        (FLAT, {"types": "data"}, "it is no map of types"), (FLAT, {"columns": "data"}, "it is no list of columns"),
        (FLAT, {"key_names": "mysqlType"}, "it is no list of names"),
        (FLAT, {"before": "data", "after": "data"}, "avro: names one field for two roles"),
        (FLAT, {"before": "data"}, "has no field for after"),
    ],
)  # fmt: skip
def test_a_schema_without_a_role_is_refused_by_name(schema: bytes, fields: dict[str, str], what: str) -> None:
    with pytest.raises(WireFormatError) as raised:
        DrsAvro.of(FormatSettings(schema=schema, fields=tuple(fields.items())))
    assert what in str(raised.value)
    assert "drs-avro" in str(raised.value)


def test_a_setting_is_in_the_fingerprints_that_it_changes() -> None:
    made = [DrsAvro(FLAT), DrsAvro(KINDS), DrsAvro(FLAT, framing=Framing.RAW), DrsAvro(FLAT, fields=(("id", "ts"),))]
    assert len({one.entries_fingerprint for one in made}) == len(made)
    assert DrsAvro(FLAT).entries_fingerprint == DrsAvro(FLAT, "+08:00").entries_fingerprint
    assert DrsAvro(FLAT).changes_fingerprint != DrsAvro(FLAT, "+08:00").changes_fingerprint


@pytest.mark.parametrize(
    ("original", "lake"),
    [("int", "bigint"), ("int(11)", "int"), ("int unsigned", "bigint"), ("INT(10) UNSIGNED", "bigint"), ("bigint", "bigint"),
     ("bigint(20) unsigned", "decimal(20,0)"), ("decimal", "string"), ("decimal(9,2)", "decimal(9,2)"), ("bit", "string"),
     ("bit(3)", "bigint"), ("", "string"), ("timestamp", "timestamp"), ("uuid", "string")],
)  # fmt: skip
def test_types_are_as_wide_as_their_texts_leave_open(original: str, lake: str) -> None:
    assert WIRE.column_type(original, unsigned=False, table=TABLE) == lake


@examples(100)
@given(st.lists(flat_messages().map(lambda some: some[0]), max_size=4))
@example([])
def test_the_ends_of_records_in_a_container_are_found(fields: list[dict[str, Any]]) -> None:
    read = containers.read_container(container(FLAT, fields))
    (record,) = parse_schema(FLAT)
    assert list(containers.records_of(read, record)) == [encoded(FLAT, one) for one in fields]
    for count, data in read.blocks:
        for wrong in (containers.Container(FLAT, ((count + 1 if count > 1 else 3, data),)),
                      containers.Container(FLAT, ((max(2, count), data[:-1]),))):  # fmt: skip
            with pytest.raises(containers.ContainerError):
                list(containers.records_of(wrong, record))


def test_a_row_of_the_other_vendors_form_needs_no_declaration() -> None:
    wire = DrsAvro.of(FormatSettings(schema=KINDS))
    found = wire.entries(pa.array([encoded(KINDS, row(newColumns=[{"Integer": {"value": "7"}}]))], pa.binary()))
    assert [one["after"] for one in changes(wire, found, [Column("c0", "int", True)])] == [{"c0": 7}]
