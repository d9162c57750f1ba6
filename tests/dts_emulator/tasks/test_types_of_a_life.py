"""A column of a real MariaDB that becomes every type in turn: its changelog holds values as a column of one type does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.type_gallery import CASES, TypeCase
from tests.dts_emulator.worked_databases import transactions_of, worked_server
from tests.flows.harness import Harness
from tests.tiers import chosen, times

pytestmark = [pytest.mark.database, pytest.mark.more]

_FIRST = 1767571200  # 2026-01-05 00:00:00 UTC
_TYPES_A_LIFE = 5
_WINDOWS = 4


def lives() -> list[list[TypeCase]]:
    """The types of each column, in the order in which it has them."""
    cases = [case for case in CASES if "zerofill" not in case.declared]
    Random(8).shuffle(cases)
    return [cases[start : start + _TYPES_A_LIFE] for start in range(0, len(cases), _TYPES_A_LIFE)][: times(4, 9)]


def statements() -> list[str]:
    """Tables ``life0`` and so on whose column changes, and beside them ``alone0_1`` and so on with one type and the same values.

    Values of the types come in windows of an hour; the rows go before each ALTER, so that no value has to be converted.
    """
    found = ["CREATE DATABASE d", "USE d", "SET sql_mode = 'ALLOW_INVALID_DATES', NAMES utf8mb4, time_zone = '+00:00'"]
    found.append(f"SET TIMESTAMP = {_FIRST}")
    for number, life in enumerate(lives()):
        found.append(f"CREATE TABLE life{number} (id INT PRIMARY KEY, v {life[0].declared})")
        found += [
            f"CREATE TABLE alone{number}_{n} (id INT PRIMARY KEY, v {case.declared})" for n, case in enumerate(life)
        ]
    for place in range(_TYPES_A_LIFE):
        found.append(f"SET TIMESTAMP = {_FIRST + 60 + 3600 * (place * _WINDOWS // _TYPES_A_LIFE) + 300 * place}")
        for number, life in enumerate(lives()):
            if place >= len(life):
                continue
            found += [f"DELETE FROM life{number}"] if place else []
            found += [f"ALTER TABLE life{number} MODIFY v {life[place].declared}"] if place else []
            rows = ", ".join(f"({100 * place + n}, {value})" for n, value in enumerate((*life[place].values, "NULL")))
            found += [f"INSERT INTO {table} VALUES {rows}" for table in (f"life{number}", f"alone{number}_{place}")]
            found.append(f"UPDATE life{number} SET id = id + 50")
    return found


@pytest.fixture(scope="module")
def source() -> Iterator[list[Transaction]]:
    with worked_server(statements()) as server:
        yield transactions_of(server)


def rows_of(harness: Harness, table: str) -> dict[int, tuple[Any, str | None]]:
    """The new value of each change that inserts or updates a row, and its text where it does not fit, by the row's id."""
    found: dict[int, tuple[Any, str | None]] = {}
    for row in harness.rows("changelog", "d", table):
        if row["after"] is not None:
            place = row["after"]["id"] % 50 + 100 * (row["after"]["id"] // 100)
            shown = row["after"].get("v"), dict(row["invalid"] or ()).get("after.v")
            assert found.setdefault(place, shown) == shown, (table, place)
    return found


@pytest.mark.parametrize("name", chosen([*FORMATS], 1))
def test_a_life_of_types_holds_every_value(source: list[Transaction], name: str, tmp_path: Path) -> None:
    """Whatever the order of windows: the values of each type are those of a column of this type alone."""
    made = []
    for order in ("forwards", "shuffled"):
        (tmp_path / order).mkdir()
        harness = recorded(name, source, tmp_path / order)
        numbers = [*range(_WINDOWS)]
        if order == "shuffled":
            Random(5).shuffle(numbers)
        for number in numbers:
            harness.all(number)
        harness.settle()
        assert harness.rows("quarantine") == []
        made.append({f"life{number}": rows_of(harness, f"life{number}") for number in range(len(lives()))})
    assert made[0] == made[1]
    tables = known_tables(harness.pipeline)
    texts = 0
    for number, life in enumerate(lives()):
        kind = tables[TableId("d", "", f"life{number}")][1].type
        found = made[0][f"life{number}"]
        assert len(found) == sum(len(case.values) + 1 for case in life)
        for place, case in enumerate(life):
            alone = rows_of(harness, f"alone{number}_{place}")
            own = arrow_type(tables[TableId("d", "", f"alone{number}_{place}")][1].type)
            for key, (value, text) in alone.items():
                (expected,) = held_as(pa.array([value], own), arrow_type(kind)).to_pylist()
                assert found[key] == (expected, text), (case.declared, kind, value)
                texts += value is not None and kind != case.declared
    assert texts > 50
