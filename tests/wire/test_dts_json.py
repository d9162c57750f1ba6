"""DTS JSON: any row in any form, any cut of a batch, and damage, each compared with a decoder of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.settings.formats import traits_of
from dts_assets.wire.dts_json import DtsJson, messages
from dts_assets.wire.dts_json.values import bytes_of_digits
from dts_assets.wire.format import DecodedEntries
from dts_assets.wire.formats import wire_format
from tests.tiers import examples
from tests.wire.dts_json_oracle import Unclear, Unusable, change_of

WIRE = DtsJson()
TABLE = TableId("d", "", "t")
SECRET = "hunter2-hunter2"

small, texts = st.integers(0, 999), st.text(st.characters(codec="utf-8"), max_size=5)
clocks = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23))
durations = st.tuples(st.sampled_from(["", "-"]), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), small)
KINDS: Mapping[str, st.SearchStrategy[str]] = {
    "int(11)": st.integers(-(1 << 33), 1 << 33).map(str),
    "bigint(20)": st.integers(-(1 << 63), (1 << 63) - 1).map(str),
    "decimal(9,2)": st.decimals(-10_000_000, 10_000_000, places=2).map(lambda one: f"{one:f}"),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "varchar(40)": texts,
    "varbinary(4)": st.binary(max_size=4).map(lambda one: f"0x{one.hex()}") | st.sampled_from(["0xfff", "0XaB", "", "ff"]),
    "enum('a')": texts,
    "timestamp(3)": st.integers(0, (1 << 41) - 1).map(str),
    "timestamp": st.integers(0, (1 << 31) - 1).map(lambda one: f"{one}000") | st.sampled_from(["0", "999999999999999"]),
    "datetime": clocks.map(lambda one: one.isoformat(" ", "milliseconds")) | st.just("0000-00-00 00:00:00.000"),
    "datetime(3)": clocks.map(lambda one: one.isoformat(" ", "milliseconds")),
    "datetime(6)": clocks.map(lambda one: one.isoformat(" ", "microseconds")),
    "date": st.dates().map(date.isoformat) | st.dates().map(lambda one: f"{one} 00:00:00.000") | st.just("2021-02-30"),
    "time": durations.map(lambda one: f"{one[0]}{one[1]:02}:{one[2]:02}:{one[3]:02}.{one[4]:03}"),
    "time(2)": durations.map(lambda one: f"{one[0]}{one[1]:02}:{one[2]:02}:{one[3]:02}.{one[4]:03}"),
    "year(4)": st.integers(1901, 2155).map(str),
    "point": st.binary(max_size=4).map(lambda one: f"0x{one.hex()}"),
}  # fmt: skip
FORMS = ("texts", "names", "objects")


def row(**fields: Any) -> dict[str, Any]:
    return {
        "id": 1, "version": 1, "messageType": "INSERT", "fileName": "b.000001", "position": "9@1", "timestamp": 1_700_000_000,
        "sourceType": "MySQL", "schemaName": "d", "tableName": "t", "pkNames": ["c0"], "readerTimestamp": 5,
        "columns": [{"name": "c0", "isKey": True, "originalType": "int(11)"}], "newColumns": ["7"],
    } | fields  # fmt: skip


def encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


@st.composite
def images(draw: st.DrawFn, kinds: Sequence[str], form: str) -> Any:
    """A row in one of the forms: the key has a value, any other column may have none."""
    values: list[str | None] = [draw(KINDS[kind]) for kind in kinds]
    values[1:] = [None if draw(st.integers(0, 4)) == 0 else value for value in values[1:]]
    if form == "texts":
        return values
    sent = [number == 0 or draw(st.integers(0, 4)) > 0 for number in range(len(values))]
    if form == "objects":
        return [
            (None if value is None else {"charset": "utf8mb4", "value": value}) if is_sent else {"EmptyObject": "NONE"}
            for value, is_sent in zip(values, sent, strict=True)
        ]
    named = [(f"c{number}", value) for number, value in enumerate(values) if sent[number]]
    return dict(draw(st.permutations(named)))


@st.composite
def rows_of_a_table(draw: st.DrawFn) -> tuple[list[str], list[dict[str, Any]]]:
    """The types of a table's columns, and messages with a row of it each, their fields in any order."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    columns = [{"name": f"c{n}", "isKey": n == 0, "originalType": kind} for n, kind in enumerate(kinds)]
    made = []
    for number in range(draw(st.integers(1, 5))):
        operation, image = (
            draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"])),
            images(kinds, draw(st.sampled_from(FORMS))),
        )
        fields = row(id=number, messageType=operation, columns=columns, position=f"{number + 9}@1")
        fields["oldColumns"] = None if operation == "INSERT" else draw(image)
        fields["newColumns"] = None if operation == "DELETE" else draw(image)
        made.append(dict(draw(st.permutations(list(fields.items())))))
    return kinds, made


def lake_types(kinds: Sequence[str]) -> dict[str, str]:
    return {f"c{n}": WIRE.column_type(kind, unsigned=False, table=TABLE) for n, kind in enumerate(kinds)}


def changes(found: DecodedEntries, types: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    """The change of each message that became one, by its number."""
    found.batch.validate(full=True)
    columns = tuple(Column(name, kind, name == "c0") for name, kind in types.items())
    made = {}
    for one in WIRE.changes(found.batch, {TABLE: columns}).tables:
        one.batch.validate(full=True)
        for each in one.batch.to_pylist():
            assert each.pop("row_number") == 0
            number = found.batch["set_index"][each.pop("entry_index")].as_py()
            made[number] = each | {"invalid": dict(each["invalid"])}
    return made


def decoded(sent: Sequence[bytes], types: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    return changes(WIRE.entries(pa.array(sent, pa.binary())), types)


def _shown(change: Any) -> str:
    return repr(change).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


@examples(200)
@given(rows_of_a_table())
def test_rows_are_what_another_decoder_makes_of_them(made: tuple[list[str], list[dict[str, Any]]]) -> None:
    kinds, fields = made
    types, sent = lake_types(kinds), [encoded(one) for one in fields]
    found = WIRE.entries(pa.array(sent, pa.binary()))
    assert (found.rejected, found.unknown) == ((), {})
    expected = {number: change_of(message, types) for number, message in enumerate(sent)}
    assert {n: _shown(one) for n, one in changes(found, types).items()} == {
        n: _shown(one) for n, one in expected.items()
    }


@examples(100)
@given(rows_of_a_table(), st.integers(0, 5), st.sampled_from([1, 700, 4 << 20]))
def test_any_cut_of_a_batch_gives_the_same_rows(
    made: tuple[list[str], list[dict[str, Any]]], cut: int, size: int
) -> None:
    kinds, fields = made
    types, sent = lake_types(kinds), [encoded(one) for one in fields]
    whole, cut = decoded(sent, types), min(cut, len(sent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "BLOCK_BYTES", size)
        first = decoded(sent[:cut], types)
        second = decoded(sent[cut:], types)
        assert _shown(first | {number + cut: one for number, one in second.items()}) == _shown(whole)
        sliced = pa.array([b"before", *sent, b"behind"], pa.binary()).slice(1, len(sent))
        assert _shown(changes(WIRE.entries(sliced), types)) == _shown(whole)


@examples(300)
@given(rows_of_a_table(), st.data())
def test_damage_is_read_as_another_decoder_reads_it_or_rejected_and_harms_no_other(
    made: tuple[list[str], list[dict[str, Any]]], data: st.DataObject
) -> None:
    kinds, fields = made
    types, sent = lake_types(kinds), [encoded(one) for one in fields]
    clean, place = decoded(sent, types), data.draw(st.integers(0, len(sent) - 1))
    good = sent[place]
    start = data.draw(st.integers(0, len(good) - 1) | st.integers(good.index(b'Columns":'), len(good) - 1))
    end = data.draw(st.integers(start, min(len(good), start + 9)))
    noise = st.binary(max_size=9) | st.sampled_from([b'"', b"null", b",", b'","', b"[]", b"{}", b"0"])
    sent[place] = good[:start] + data.draw(noise) + good[end:] or b"x"
    found = WIRE.entries(pa.array(sent, pa.binary()))
    after = changes(found, types)
    assert {n: _shown(one) for n, one in after.items() if n != place} == {
        n: _shown(one) for n, one in clean.items() if n != place
    }
    if place not in after:
        return
    columns = json.loads(sent[place])["columns"]
    if [(one.get("name"), one.get("originalType")) for one in columns] == [
        (f"c{n}", kind) for n, kind in enumerate(kinds)
    ]:
        try:
            expected = change_of(sent[place], types)
        except (Unusable, Unclear, KeyError):  # such as a number for a text
            return
        assert _shown(after[place]) == _shown(expected)


def test_a_message_with_another_type_of_a_column_changes_no_other_row() -> None:
    columns = [{"name": "c0", "isKey": True, "originalType": "int(11)"}, {"name": "c1", "originalType": "varbinary(9)"}]
    other = [columns[0], {"name": "c1", "originalType": "varchar(9)"}]
    sent = [row(columns=one, newColumns=["7", "0x61"], id=n) for n, one in enumerate((columns, other, columns))]
    asked = (Column("c0", "int", True), Column("c1", "binary", False))
    for order in (sent, sent[::-1]):
        found = WIRE.entries(pa.array([encoded(one) for one in order], pa.binary()))
        (made,) = WIRE.changes(found.batch, {TABLE: asked}).tables
        assert [one["c1"] for one in made.batch["after"].to_pylist()] == [b"a", b"0x61", b"a"]


def test_nothing_of_a_message_is_in_a_sentence() -> None:
    wrong: list[dict[str, Any]] = [
        {"messageType": SECRET}, {"timestamp": [SECRET]}, {"position": SECRET}, {"newColumns": [[SECRET]]},
        {"newColumns": {SECRET: SECRET}}, {"newColumns": [SECRET, SECRET]}, {"newColumns": [None]}, {"columns": SECRET},
        {"pkNames": [SECRET]}, {"version": SECRET}, {"tableName": None}, {"sourceType": f"MongoDB {SECRET}"},
        {"newColumns": [{"EmptyObject": SECRET}]}, {"id": SECRET}, {"messageType": None, "fullDocument": SECRET},
    ]  # fmt: skip
    sent = [encoded(row(**one)) for one in wrong] + [SECRET.encode(), b'{"id": "' + SECRET.encode()]
    found = WIRE.entries(pa.array(sent, pa.binary()))
    more = WIRE.changes(found.batch, {TABLE: (Column("c0", "int", True),)})
    refused = [*found.rejected, *more.rejected]
    assert len(refused) == len(sent)
    assert all(one.detail and SECRET not in one.detail for one in refused)
    assert not any(SECRET in name for name in (*found.unknown, *more.unknown))


def test_a_message_of_mongodb_is_refused_by_name() -> None:
    sent = [{"operationType": "insert", "fullDocument": {"_id": 1}}, row(sourceType="MongoDB")]
    found = WIRE.entries(pa.array([encoded(one) for one in sent], pa.binary()))
    assert [(one.reason, one.detail) for one in found.rejected] == [
        (Reason.UNDECODABLE_ENTRY, "it is of MongoDB, whose messages no document describes")
    ] * 2


def test_fields_that_nobody_knows_are_kept_and_counted() -> None:
    sent = [row(shard=3, more={"a": [1]}), row(), row(shard=None), row(shard="x")]
    found = WIRE.entries(pa.array([encoded(one) for one in sent], pa.binary()))
    assert dict(found.unknown) == {"field shard": 2, "field more": 1}
    kept = [dict(one) for one in found.batch["properties"].to_pylist()]
    assert [one.get("shard") for one in kept] == ["3", None, None, "x"]
    assert kept[0]["more"] == '{"a":[1]}'
    assert len(decoded([encoded(one) for one in sent], {"c0": "int"})) == 4


def test_wall_clocks_that_are_declared_to_be_instants_are_those_of_the_source() -> None:
    wire = wire_format("dts-json", FormatSettings("+08:00"))
    columns = [{"name": "c0", "originalType": "datetime(3)"}, {"name": "c1", "originalType": "timestamp(3)"}]
    sent = row(columns=columns, pkNames=None, newColumns=["2021-05-17 15:22:42.500", "1621236162500"])
    found = wire.entries(pa.array([encoded(sent)], pa.binary()))
    asked = (Column("c0", "timestamp", False), Column("c1", "timestamp", False))
    (made,) = wire.changes(found.batch, {TABLE: asked}).tables
    moment = datetime(2021, 5, 17, 7, 22, 42, 500_000, UTC)
    assert made.batch["after"].to_pylist() == [{"c0": moment, "c1": moment}]
    assert not traits_of("dts-json").needs_schema


def test_copies_have_one_content_and_other_rows_another() -> None:
    sent = [row(), row(id=9, readerTimestamp=7), row(newColumns=["8"]), row(oldColumns=[]), row(tableName="u")]
    digests = WIRE.contents(pa.array([encoded(one) for one in sent] + [b"no json"], pa.binary())).tolist()
    assert digests[0] == digests[1] == digests[3]
    assert len(set(digests)) == 4
    assert WIRE.has_key(pa.array([encoded(row())], pa.binary())).tolist() == [False]


@examples(200)
@given(
    st.lists(st.none() | st.binary(max_size=5).map(lambda one: b"0x" + one.hex().encode()) | st.binary(max_size=6)),
    st.integers(0, 3),
)
def test_digits_are_the_bytes_that_they_name(values: list[bytes | None], skipped: int) -> None:
    array = pa.array([b"0xff"] * skipped + values, pa.binary()).slice(skipped)
    found, bad = bytes_of_digits(array)
    found.validate(full=True)
    assert len(found) == len(values)
    for number, value in enumerate(values):
        text = None if value is None else value.decode("latin-1")
        try:
            expected = (
                None if text is None else bytes.fromhex(text[2:]) if text[:2].lower() == "0x" or not text else None
            )
            expected = None if text is not None and " " in text else expected
        except ValueError:
            expected = None
        assert found[number].as_py() == expected
        assert (bad is not None and bool(bad[number])) == (value is not None and expected is None)


def test_a_time_zone_of_instants_is_utc() -> None:
    (made,) = decoded(
        [encoded(row(columns=[{"name": "c0", "originalType": "timestamp"}], pkNames=[], newColumns=["1000"]))],
        {"c0": "timestamp"},
    ).values()
    assert made["after"]["c0"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1)
