"""Lakes in which the base commit left plain values in documents and in JSON: a run of the present code makes them right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flows.history import border
from tests.flows.short import LANES, SECOND, short_source
from tests.flows.source import Dml, Message
from tests.flows.source_tables import INT, JSON, TEXT, Field, Table
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, NAME, Case
from tests.versions.lakes import Place, placed, rows_alone, rows_of, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, run_command, settle

pytestmark = pytest.mark.more

CARD = "4111222233334444"
KEY = "${TESTS_ROW_KEY}"


def documents() -> Case:
    """Documents and an update of one with a card in a text, in a name and in a path."""
    said = [
        ("INSERT", "insert", {"value": f'{{"_id": 1, "card": "{CARD}", "{CARD}": {{"n": NumberLong("{CARD}")}}}}'}),
        ("INSERT", "insert", {"value": f'{{"_id": 2, "note": "C:\\\\", "text": "not {CARD} alone"}}'}),
        ("UPDATE", "update", {"value": f'{{"$set": {{"{CARD}.m": ["{CARD}"]}}}}', "where": '{"_id": 1}'}),
    ]
    messages = []
    for number, (operation, record, fields) in enumerate(said, 1):
        at = border(0) + number * 300 * SECOND
        stamp = int(at.timestamp())
        body = {
            "id": number, "op": operation, "dbType": "MongoDB", "db": "shop", "coll": "orders", "where": None, "es": 1,
            "recordType": record, "extra": record, "ts": stamp * 1000, "clusterTime": f"{stamp}:{number}", **fields,
        }  # fmt: skip
        messages.append(Message(0, number - 1, at, json.dumps(body).encode(), number))
    rule = {"tokenize": {"key": KEY, "pattern": rf"^{CARD}$|\\$", "keep_last": 4}}
    return Case(
        (tuple(messages),), {"format": "drs-json", "partitions": 1, "history": ["*"], "columns": {"*.document": rule}}
    )


def columns_of_json() -> Case:
    """A column of JSON, and one that is text in the first window and JSON in the second."""
    table = Table("items", [Field("id", INT, True), Field("j", JSON), Field("t", TEXT)])
    source = short_source(table)

    def insert(window: int, number: int, value: str, text: str | None = None) -> None:
        row = {"id": number, "j": value, "t": text or value}
        source.transaction(border(window) + number * SECOND, Dml(table, [(None, row)]))

    insert(0, 1, f'{{"card": "{CARD}"}}', CARD)
    insert(0, 2, f'["{CARD}"]', CARD)
    source.checkpoint(border(0) + 500 * SECOND)
    table.columns[2] = Field("t", JSON)
    insert(1, 3, f'{{"{CARD}": 1.50, "n": {CARD}}}')
    insert(1, 4, f'{{"card": "{CARD}", broken')
    source.checkpoint(border(1) + 500 * SECOND)
    rule = {"tokenize": {"key": KEY, "pattern": f"^{CARD}$", "keep_last": 4}}
    columns = {"*.items.j": rule, "*.items.t": rule}
    return Case(
        (tuple(source.messages),),
        {"format": "dts-protobuf", "partitions": LANES, "history": ["*"], "columns": columns},
    )


CASES = {"documents": documents, "json": columns_of_json}


def plain_tables(place: Place) -> set[str]:
    """The typed tables that show the card, without those that show it as a number alone, or as a part of a text."""
    allowed = (f'"$numberLong":"{CARD}"', f'"n":{CARD}', f'"n": {CARD}', f"not {CARD} alone")
    found = set()
    for name, stored in rows_alone(place).items():
        if name.partition(".")[0] in ("changelog", "snapshot", "history"):
            for row in stored.rows:
                text = row.replace("\\", "")
                for one in allowed:
                    text = text.replace(one, "")
                if CARD in text:
                    found.add(name)
    return found


def made_by_the_base(name: str, codes: Codes, folder: Path) -> Place:
    case = CASES[name]()
    place = placed(case, folder / "older", written(case, folder / "pieces"))
    make_lake(codes.of(BASE), place.config, *place.whole(), variables=ENVIRONMENT)
    return place


def right(name: str, codes: Codes, folder: Path) -> dict[str, tuple[str, ...]]:
    """The rows of typed tables in a lake that the present code makes."""
    case = CASES[name]()
    place = placed(case, folder / "newer", written(case, folder / "more"))
    make_lake(codes.present, place.config, *place.whole(), variables=ENVIRONMENT)
    assert not plain_tables(place)
    return typed(place)


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    found = {name: one.rows for name, one in rows_alone(place).items()}
    return {name: rows for name, rows in found.items() if name.startswith(("changelog.", "snapshot.", "history."))}


@pytest.mark.parametrize("name", CASES)
def test_a_lake_with_plain_values_in_documents_is_right_behind_a_run(name: str, codes: Codes, tmp_path: Path) -> None:
    older = made_by_the_base(name, codes, tmp_path)
    assert {one.partition(".")[0] for one in plain_tables(older)} == {"changelog", "snapshot", "history"}
    made = make_lake(codes.present, older.config, ask(), settle(), ask(), variables=ENVIRONMENT)
    stale, after = made.lakes[0].answers
    assert stale.tables
    assert after == NOTHING
    assert typed(older) == right(name, codes, tmp_path)
    assert {row["code_version"] for row in rows_of(older, "cuts", subscription=NAME)} == {made.code_version}


@pytest.mark.long
@pytest.mark.spark
def test_the_command_run_makes_such_a_lake_right(codes: Codes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    older = made_by_the_base("documents", codes, tmp_path)
    run_command(codes.present, "run", "--config", str(older.config))
    assert typed(older) == right("documents", codes, tmp_path)
