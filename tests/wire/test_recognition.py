"""A sample of messages says which format it is of: by the scenarios of every format, by samples of other products, by noise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.formats import FormatSettings
from dts_assets.settings.formats import registered_formats
from dts_assets.wire.flat_json.signs import FlatForm, flat_signs
from dts_assets.wire.recognition.recogniser import Recognition, recognise
from dts_assets.wire.recognition.samples import Sample, messages_of
from tests.tiers import examples
from tests.wire.made import messages
from tests.wire.scenarios import Scenario, scenarios

READABLE = [one for one in scenarios() if one.folder.parent.name in registered_formats()]

ROW = {"id": "7", "name": "bolt", "price": "2.50"}
BARE = {"id": "int", "name": "varchar", "price": "decimal"}
SIZED = {"id": "int(11)", "name": "varchar(40)", "price": "decimal(10,2)"}


def flat(kind: str, types: dict[str, str], data: Any, old: Any, **others: Any) -> bytes:
    fields = {
        "id": 4, "es": 1624614713000, "ts": 1624614713250, "database": "shop", "table": "parts", "type": kind, "isDdl": False,
        "sql": "", "mysqlType": types, "sqlType": {}, "data": data, "old": old, "pkNames": ["id"],
    }  # fmt: skip
    return json.dumps(fields | others).encode()


def of(*values: bytes, schema: bytes | None = None) -> Recognition:
    return recognise(messages_of(values), FormatSettings(schema=schema))


DRS = [
    flat("INSERT", BARE, [ROW], None),
    flat("UPDATE", BARE, [ROW | {"name": "nut"}], [ROW]),
]
CANAL = [
    flat("INSERT", SIZED, [ROW], None),
    flat("UPDATE", SIZED, [ROW | {"name": "nut"}], [{"name": "bolt"}]),
    flat("DELETE", SIZED, [ROW], None),
]

OTHER_PRODUCTS: dict[str, tuple[bytes, ...]] = {
    "Debezium JSON": (
        b'{"payload": {"op": "c", "source": {"db": "shop"}, "before": null, "after": {"id": 1}}, "schema": {}}',
    ),
    "Maxwell JSON": (
        b'{"database":"shop","table":"parts","type":"insert","ts":1449786310,"xid":940752,"data":{"id":1}}',
    ),
    "Avro containers": (b"Obj\x01\x04\x14avro.codec",),
    "Confluent": (b"\0\0\0\0\x07\x02\x10", b"\0\0\0\0\x07\x04\x10"),
    "canal.mq.flatMessage = true": (
        b"\x10\x01\x18\x07\x2a\x07\x08\x01\x12\x03\x0a\x01\x00",
        b"\x18\x07\x2a\x85\x02" + b"\x12\x82\x02" + b"x" * 258,
    ),
}


@pytest.mark.parametrize("scenario", READABLE, ids=str)
def test_messages_of_every_scenario_never_contradict_their_own_format(scenario: Scenario) -> None:
    assert not recognise(scenario.messages(), scenario.settings).contradicts(scenario.folder.parent.name)


@pytest.mark.parametrize("scenario", READABLE, ids=str)
def test_whole_messages_of_a_scenario_are_recognised_as_its_format(scenario: Scenario) -> None:
    if scenario.expected["rejected"] or scenario.expected["fragments"]:
        return  # messages that are wrong on purpose need not look like any format
    assert scenario.folder.parent.name in recognise(scenario.messages(), scenario.settings).formats


def test_scenarios_were_found() -> None:
    clean = [one for one in READABLE if not (one.expected["rejected"] or one.expected["fragments"])]
    assert {one.folder.parent.name for one in clean} == set(registered_formats())


class TestFlatMessages:
    def test_nothing_tells_both_forms_of_drs_apart_without_a_deletion(self) -> None:
        found = of(*DRS)
        assert found.formats == ("drs-json", "drs-json-c")
        assert "no message tells which" in found.sentence
        assert not found.contradicts("drs-json")
        assert not found.contradicts("drs-json-c")
        assert found.contradicts("dts-protobuf")

    @pytest.mark.parametrize(("data", "old", "form"), [([ROW], None, "drs-json-c"), (None, [ROW], "drs-json")])
    def test_one_deletion_among_many_messages_tells(self, data: Any, old: Any, form: str) -> None:
        found = of(*DRS * 20, flat("DELETE", BARE, data, old))
        assert found.formats == (form,)
        other = "drs-json" if form == "drs-json-c" else "drs-json-c"
        assert found.contradicts(other)
        assert f"deleted rows in {'data' if data else 'old'}" in flat_text(flat("DELETE", BARE, data, old))

    @pytest.mark.parametrize(("text", "form"), [("1624614713.201", "drs-json"), ("2021-06-25 17:51:53", "drs-json-c")])
    def test_a_timestamp_tells(self, text: str, form: str) -> None:
        types = BARE | {"seen": "timestamp"}
        found = of(*DRS, flat("INSERT", types, [ROW | {"seen": text}], None))
        assert found.formats == (form,)

    def test_canal_sends_lengths_and_changed_columns(self) -> None:
        assert [one.name for one in of(*CANAL).best] == ["canal-json"]
        assert of(*CANAL).contradicts("drs-json-c")

    @pytest.mark.parametrize("types", [BARE, SIZED])
    def test_ticdc_writes_the_form_of_canal(self, types: dict[str, str]) -> None:
        rows = [
            flat("INSERT", types, [ROW], None, _tidb={"commitTs": 1}),
            flat("UPDATE", types, [ROW | {"name": "nut"}], [ROW], _tidb={"commitTs": 2}),
            flat("TIDB_WATERMARK", {}, None, None, _tidb={"watermarkTs": 3}),
        ]
        found = of(*rows)
        assert found.formats == ("canal-json",)
        assert "_tidb" in found.sentence
        assert found.contradicts("drs-json-c")

    def test_a_packet_of_another_length_is_no_packet(self) -> None:
        assert of(b"\x18\x07\x2a\x08\x08\x01\x12\x03\x0a\x01\x00").best == ()

    @pytest.mark.parametrize("kind", ["ALTER", "CREATE", "ERASE"])
    def test_statements_of_canal_name_their_kind(self, kind: str) -> None:
        assert set(forms(flat(kind, {}, None, None, isDdl=True))) == {FlatForm.CANAL}

    def test_a_type_of_drs_with_part_of_a_row_in_old_stays_drs(self) -> None:
        assert set(forms(flat("UPDATE", BARE, [ROW], [{"name": "nut"}]))) == {FlatForm.JSON, FlatForm.JSON_C}

    def test_types_that_tell_nothing_leave_it_to_the_rows(self) -> None:
        types, row = {"id": "int", "on": "date"}, {"id": "1", "on": "2026-01-05"}
        part = flat("UPDATE", types, [row], [{"on": "2026-01-04"}])
        whole = flat("UPDATE", types, [row], [row | {"on": "2026-01-04"}])
        assert set(forms(part)) == {FlatForm.CANAL}
        assert set(forms(whole)) == {FlatForm.JSON, FlatForm.JSON_C}

    def test_evidence_against_every_form_is_none_for_any(self) -> None:
        assert not forms(flat("DELETE", SIZED, None, [ROW]))


def forms(value: bytes) -> dict[FlatForm, frozenset[str]]:
    return dict(flat_signs(Sample.of(value)))


def flat_text(value: bytes) -> str:
    return ", ".join(sign for signs in forms(value).values() for sign in signs)


@pytest.mark.parametrize("title", OTHER_PRODUCTS)
def test_messages_of_other_products_are_named_and_not_read(title: str) -> None:
    found = of(*OTHER_PRODUCTS[title])
    assert len(found.best) == 1
    assert title in found.best[0].title
    if found.best[0].readable:  # a planned format that a package registers by now
        return
    assert found.formats == ()
    assert found.sentence.endswith(", which this version does not read")
    assert all(found.contradicts(name) for name in registered_formats())


class TestMixtures:
    def test_single_bad_messages_contradict_nothing(self) -> None:
        found = of(*CANAL[:1], *DRS * 10, b"noise", b"\xff\xff", b"{}")
        assert found.formats == ("drs-json", "drs-json-c")
        assert not found.contradicts("drs-json")

    def test_a_minority_is_not_the_format(self) -> None:
        found = of(DRS[0], *[b'{"a": 1}'] * 3)
        assert found.best == ()
        assert found.sentence.startswith("none of 4 messages")
        assert not found.contradicts("drs-json"), "its own messages are there"
        assert found.contradicts("dts-protobuf")

    def test_empty_messages_say_nothing(self) -> None:
        found = recognise(messages(None, b"", None))
        assert (found.messages, found.empty, found.best) == (0, 3, ())
        assert not any(found.contradicts(name) for name in registered_formats())
        assert found.sentence == "there are no messages to look at"

    def test_no_message_at_all(self) -> None:
        assert not recognise(messages()).contradicts("dts-protobuf")

    def test_a_schema_proves_avro(self) -> None:
        (scenario,) = (one for one in READABLE if str(one) == "dts-avro/full_load")
        schema = scenario.format.schema  # type: ignore[attr-defined]
        found = recognise(scenario.messages(), FormatSettings(schema=schema))
        assert "dts-avro" in found.formats
        assert "its decoder reads them" in found.sentence

    def test_a_schema_of_something_else_is_passed_over(self) -> None:
        found = of(*DRS, schema=b'{"type": "record", "name": "Record", "fields": []}')
        assert found.formats == ("drs-json", "drs-json-c")


@given(st.lists(st.binary(max_size=40) | st.just(b'{"type": 1'), max_size=8))
@examples(300)
def test_noise_raises_nothing_and_its_answer_has_no_byte_of_it(values: list[bytes]) -> None:
    found = of(*values)
    assert found.messages + found.empty == len(values)
    assert all(len(one.fits) == found.messages for one in found.likenesses)
    found.sentence.encode("ascii")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "data", "old", "mysqlType", "id", "es", "isDdl", "op", "payload", "a"]), inner),
    max_leaves=12,
))  # fmt: skip
@examples(300)
def test_any_json_in_any_field_raises_nothing(inner: Any) -> None:
    base = json.loads(flat("UPDATE", BARE, [ROW], [ROW]))
    names = ("type", "data", "old", "mysqlType", "payload", "messageType", "columnType", "gtid")
    of(*(json.dumps(base | {name: inner}).encode() for name in names), json.dumps(inner).encode())


def test_a_value_is_never_shown() -> None:
    secret = "hunter2-hunter2"
    shown = [
        of(flat("INSERT", {secret: "int", "n": "varchar"}, [{secret: secret}], None, database=secret, sql=secret)),
        of(json.dumps({secret: secret}).encode()),
        of(secret.encode()),
        of(flat(secret, BARE, [ROW], None)),
    ]
    assert not any(secret in one.sentence for one in shown)


def test_json_that_is_nested_too_deeply_is_no_object() -> None:
    assert of(b'{"a":' * 100_000).best == ()
