"""Lakes in which the base commit lost events of compressed transactions: a run of the present code brings them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.test_events_at_one_place import RIGHT, messages
from tests.versions.base import BASE
from tests.versions.captures import Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, settle

pytestmark = pytest.mark.more


def place_of(folder: Path) -> Place:
    case = Case((tuple(messages(at_zero=False)),), {"format": "dts-protobuf", "partitions": 1, "history": ["*"]})
    return placed(case, folder / "lake", written(case, folder / "pieces"))


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def test_a_lake_of_the_base_has_all_events_behind_a_run(codes: Codes, tmp_path: Path) -> None:
    older, newer = place_of(tmp_path / "older"), place_of(tmp_path / "newer")
    make_lake(codes.of(BASE), older.config, *older.whole())
    make_lake(codes.present, newer.config, *newer.whole())
    right = typed(newer)
    assert [len(right[name]) for name in ("snapshot.d.t", "snapshot.d.bag")] == [len(rows) for rows in RIGHT]
    assert len(typed(older)["changelog.d.t"]) < len(right["changelog.d.t"])
    made = make_lake(codes.present, older.config, ask(), settle(), ask())
    stale, after = made.lakes[0].answers
    assert stale.entries
    assert after == NOTHING
    assert typed(older) == right
