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
from tests.versions.made_by import NOTHING, Codes, make_lake

pytestmark = pytest.mark.more

LIVES: dict[str, Callable[[], Source]] = {
    "keyed": lambda: Keyed(takes_over=False).source,
    "failover": lambda: failover(window=1),
}


def made_by(name: str, codes: Codes, commit: str | None, folder: Path) -> Place:
    settings = {"merge": MERGE} if name == "failover" else {}
    case = Case(
        (tuple(LIVES[name]().messages),), {"format": "dts-protobuf", "partitions": LANES, "history": ["*"], **settings}
    )
    place = placed(case, folder / "lake", written(case, folder / "pieces"))
    make_lake(codes.of(commit) if commit else codes.present, place.config, *place.whole(), variables=ENVIRONMENT)
    return place


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def registered(place: Place) -> set[tuple[str, str, bool]]:
    """The columns in the registry, without their order."""
    (file,) = (one for one in place.folder.rglob("*.json") if "registry" in str(one))
    (table,) = json.loads(file.read_text(encoding="utf-8"))["tables"].values()
    return {(one["name"], one["type"], one["is_key"]) for one in table["columns"]}


@pytest.mark.parametrize("name", [*LIVES])
def test_a_lake_with_shapes_in_the_wrong_places_is_right_when_it_is_made_again(
    name: str, codes: Codes, tmp_path: Path
) -> None:
    older = made_by(name, codes, BASE, tmp_path / "older")
    newer = made_by(name, codes, None, tmp_path / "newer")
    assert name == "failover" or registered(older) != registered(newer)
    made = make_lake(codes.present, older.config, *older.again(), variables=ENVIRONMENT)
    assert made.lakes[0].answers[-1] == NOTHING
    assert typed(older) == typed(newer)
    assert registered(older) == registered(newer)
