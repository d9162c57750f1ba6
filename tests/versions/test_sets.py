"""Lakes of a TDSQL that the base commit made: rows of all sets went by the statements of each; a run mends them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.short import LANES
from tests.flows.tdsql import NAMES
from tests.flows.test_sets import rolling
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, Case
from tests.versions.lakes import Place, placed, rows_alone, rows_of, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, settle

pytestmark = pytest.mark.more


def place_of(folder: Path) -> Place:
    case = Case((tuple(rolling().messages),), {"format": "dts-protobuf", "partitions": LANES, "history": ["*"]})
    return placed(case, folder / "lake", written(case, folder / "pieces"))


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def test_tables_of_sets_are_right_behind_a_run(codes: Codes, tmp_path: Path) -> None:
    older, newer = place_of(tmp_path / "older"), place_of(tmp_path / "newer")
    make_lake(codes.of(BASE), older.config, *older.whole(), variables=ENVIRONMENT)
    make_lake(codes.present, newer.config, *newer.whole(), variables=ENVIRONMENT)
    assert len(typed(older)["snapshot.bank.items"]) < len(typed(newer)["snapshot.bank.items"])
    made = make_lake(codes.present, older.config, ask(), settle(), ask(), variables=ENVIRONMENT)
    stale, after = made.lakes[0].answers
    assert stale.entries
    assert after == NOTHING
    assert typed(older) == typed(newer)
    assert {row["source_set"] for row in rows_of(older, "table_shapes")} == {*NAMES}
