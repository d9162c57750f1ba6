"""Lakes in which the base commit gave shapes the wrong places: made again they have the right keys, columns and rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.short import LANES
from tests.flows.source import Source
from tests.flows.test_merged_tables import MERGE
from tests.flows.test_places_of_columns import Keyed, failover
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import NOTHING, Codes, add, ask, make_lake, settle, windows

pytestmark = pytest.mark.more

LIVES: dict[str, Callable[[], Source]] = {
    "keyed": lambda: Keyed(takes_over=False).source,
    "failover": lambda: failover(window=1),
}


def place_of(name: str, folder: Path) -> Place:
    settings = {"merge": MERGE} if name == "failover" else {}
    case = Case(
        (tuple(LIVES[name]().messages),), {"format": "dts-protobuf", "partitions": LANES, "history": ["*"], **settings}
    )
    return placed(case, folder / "lake", written(case, folder / "pieces"))


def made_by(name: str, codes: Codes, commit: str | None, folder: Path) -> Place:
    place = place_of(name, folder)
    make_lake(codes.of(commit) if commit else codes.present, place.config, *place.whole(), variables=ENVIRONMENT)
    return place


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def registered(place: Place) -> set[tuple[str, str, bool]]:
    """The columns in the registry, without their order."""
    (file,) = (place.folder / "registry").rglob("*.json")
    (table,) = json.loads(file.read_text(encoding="utf-8"))["tables"].values()
    return {(one["name"], one["type"], one["is_key"]) for one in table["columns"]}


def test_a_registry_with_a_former_key_is_right_once_its_window_is_made_again(codes: Codes, tmp_path: Path) -> None:
    older, newer = made_by("keyed", codes, BASE, tmp_path / "older"), made_by("keyed", codes, None, tmp_path / "newer")
    assert registered(older) != registered(newer)
    made = make_lake(codes.present, older.config, *older.again(), variables=ENVIRONMENT)
    assert made.lakes[0].answers[-1] == NOTHING
    assert registered(older) == registered(newer)
    assert typed(older) == typed(newer)


def test_shards_behind_a_failover_are_right_behind_a_run(codes: Codes, tmp_path: Path) -> None:
    """The window before the failover came last, and untouched rows have lost the default of their new column."""
    newer, older = made_by("failover", codes, None, tmp_path / "newer"), place_of("failover", tmp_path / "older")
    pieces = [add(piece, older.capture) for piece in older.pieces]
    make_lake(codes.of(BASE), older.config, *pieces, windows(1, 1), windows(0, 0), variables=ENVIRONMENT)
    assert typed(older)["snapshot.shop.orders"] != typed(newer)["snapshot.shop.orders"]
    made = make_lake(codes.present, older.config, ask(), settle(), ask(), variables=ENVIRONMENT)
    stale, after = made.lakes[0].answers
    assert stale.tables
    assert after == NOTHING
    assert typed(older) == typed(newer)
    assert registered(older) == registered(newer)
