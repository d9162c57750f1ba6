"""Values that are not what their columns say, and values that were not sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Kind, Row, Table

pytestmark = [pytest.mark.spark, pytest.mark.more]


UNTOLD = Kind("int(11)", lambda value: dts_messages.number(value, pb.UINT32), INT.make)
"""An unsigned column of a server whose type text leaves the sign out."""


@pytest.mark.more
@pytest.mark.parametrize("order", [(0, 1), pytest.param((1, 0), marks=pytest.mark.long)])
def test_unsigned_values_widen_a_column_whose_type_says_nothing(
    order: tuple[int, int], bench: Bench, tmp_path: Path
) -> None:
    table = Table("counts", [Field("id", INT, True), Field("hits", UNTOLD)])
    source = short_source(table)
    source.transaction(
        border(0) + SECOND, Dml(table, [(None, {"id": 1, "hits": None}), (None, {"id": 2, "hits": None})])
    )
    rows = source.rows["counts"]
    source.transaction(
        border(1) + SECOND,
        Dml(table, [(rows[1,], {"id": 1, "hits": 4_294_967_295})]),
        Dml(table, [(None, {"id": 3, "hits": 7})]),
    )
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2)
    harness.raw()
    harness.entries()
    for number in order:
        harness.tables(number)
    assert harness.snapshots(source.tables) == source.rows
    assert all(row["invalid"] == [] for row in harness.rows("changelog", DATABASE, "counts"))
    assert sum(row.invalid_values for row in harness.pipeline.ledger.window_tables()) == 0


@pytest.mark.more
def test_a_value_that_does_not_fit_is_null_and_kept_as_text(bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    table = source.tables["items"]
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, "n": 99_999_999_999, "note": "big"})]))
    source.transaction(
        border(0) + 2 * SECOND,
        Dml(table, [({"id": 1, "n": 99_999_999_999, "note": "big"}, {"id": 1, "n": 5, "note": "small"})]),
    )
    source.transaction(border(0) + 3 * SECOND, Dml(table, [(None, {"id": 2, "n": "seven", "note": None})]))
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=1)
    harness.all()
    rows = {row["source_position"]["position"]: row for row in harness.rows("changelog", DATABASE, "items")}
    first, second, third = (rows[position] for position in sorted(rows))
    assert (first["after"]["n"], first["after"]["note"], first["invalid"]) == (
        None,
        "big",
        [("after.n", "99999999999")],
    )
    assert (second["before"]["n"], second["invalid"]) == (None, [("before.n", "99999999999")])
    assert (third["after"]["n"], third["invalid"]) == (None, [("after.n", "seven")])
    assert harness.snapshots(source.tables)["items"] == {
        (1,): {"id": 1, "n": 5, "note": "small"},
        (2,): {"id": 2, "n": None, "note": None},
    }
    shown = {row["id"]: row["_invalid"] for row in harness.rows("snapshot", DATABASE, "items")}
    assert shown == {1: None, 2: [("n", "seven")]}
    counted = harness.pipeline.ledger.window_tables()
    assert sum(row.invalid_values for row in counted) == 3
    assert sum((Counter({one.column: one.values for one in row.invalid_columns}) for row in counted), Counter()) == {
        "n": 3
    }


def only(**sent: object) -> Row:
    """An image of a server with minimal row images: what is not named is absent."""
    return {"id": ABSENT, "n": ABSENT, "note": ABSENT, **sent}


def minimal_updates(source: Source) -> None:
    table = source.tables["items"]

    def update(at: float, number: int, **changed: object) -> None:
        source.transaction(border(0) + at * SECOND, Dml(table, [(only(id=number), only(**changed))]))

    source.transaction(
        border(0) + SECOND,
        Dml(table, [(None, {"id": number, "n": number, "note": f"row {number}"}) for number in range(8)]),
    )
    update(10, 1, n=100)
    update(20, 1, note=None)
    source.checkpoint(border(0) + 300 * SECOND)
    update(610, 1, n=101)
    update(620, 2, note="second")
    source.transaction(border(1) + 30 * SECOND, Dml(table, [(only(id=3), None)]))
    source.transaction(border(1) + 40 * SECOND, Dml(table, [(None, {"id": 3, "n": None, "note": "again"})]))
    update(650, 3, n=33)
    source.checkpoint(border(1) + 300 * SECOND)
    update(1210, 1, note="third")
    update(1220, 3, note=None)
    update(1230, 7, n=None)
    source.checkpoint(border(2) + 300 * SECOND)


@pytest.mark.long
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_absent_columns_keep_their_values(order: tuple[int, ...], bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    minimal_updates(source)
    harness = open_short(bench, tmp_path / "capture", source.messages)
    harness.raw()
    harness.entries()
    for number in order:
        harness.tables(number)
    assert harness.snapshots(source.tables) == source.rows
    harness.tables(1)  # replaced: computed again from the whole changelog
    assert harness.snapshots(source.tables) == source.rows
    absent = [row["absent"] for row in harness.rows("changelog", DATABASE, "items") if row["op"] == "update"]
    assert {len(names) for names in absent} == {4}


@pytest.mark.more
def test_absent_columns_keep_their_values_when_a_column_comes(bench: Bench, tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True), Field("n", INT), Field("a.b", TEXT)])
    source = short_source(table)
    source.transaction(
        border(0) + SECOND, Dml(table, [(None, {"id": number, "n": number, "a.b": "here"}) for number in range(4)])
    )
    source.checkpoint(border(0) + 5 * SECOND)
    table.columns.append(Field("later", TEXT))
    source.rows["items"] = {key: {**row, "later": None} for key, row in source.rows["items"].items()}
    nothing = dict.fromkeys(("id", "n", "a.b", "later"), ABSENT)
    for number, changed in ((1, {"later": "now"}), (2, {"n": 22}), (2, {"a.b": None})):
        change = Dml(table, [({**nothing, "id": number}, {**nothing, **changed})])
        source.transaction(border(1) + number * SECOND, change)
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    harness.all(1)
    assert harness.snapshots(source.tables) == source.rows


def test_a_row_never_seen_before_shows_what_was_sent_of_it(bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    source.rows["items"] = {(5,): {"id": 5, "n": 1, "note": "from before the subscription"}}
    source.transaction(border(0) + SECOND, Dml(source.tables["items"], [(only(id=5), only(n=2))]))
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=1)
    harness.all()
    assert harness.snapshots(source.tables)["items"] == {(5,): {"id": 5, "n": 2, "note": None}}


@pytest.mark.more
def test_a_column_that_is_there_from_the_start_for_some_rows_only(bench: Bench, tmp_path: Path) -> None:
    table = Table("items", [Field("id", INT, True), Field("n", INT)])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, "n": 1}), (None, {"id": 2, "n": 2})]))
    source.checkpoint(border(0) + 5 * SECOND)
    table.columns.append(Field("later", TEXT))
    source.rows["items"] = {key: {**row, "later": None} for key, row in source.rows["items"].items()}
    source.transaction(border(1) + SECOND, Dml(table, [(source.rows["items"][1,], {"id": 1, "n": 1, "later": "now"})]))
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    assert all("later" not in row for row in harness.rows("snapshot", DATABASE, "items"))
    harness.all(1)
    assert harness.snapshots(source.tables) == source.rows
