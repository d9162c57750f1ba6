"""Lakes of the base commit with a table without a key whose changes send a part of their rows: a run mends its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.model.problems import Completeness, Reason
from dts_assets.settings import load_settings
from tests.flows.harness import Harness
from tests.flows.short import LANES
from tests.flows.test_matched_rows import EXPECTED, LEVELS, journal, levels, quarantine, snapshot
from tests.versions.base import BASE
from tests.versions.captures import NAME, Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, settle

pytestmark = pytest.mark.more


def place_of(folder: Path) -> Place:
    case = Case((tuple(journal().messages),), {"format": "dts-protobuf", "partitions": LANES, "history": ["*"]})
    return placed(case, folder / "lake", written(case, folder / "pieces"))


def opened(place: Place) -> Harness:
    return Harness(open_pipeline(load_settings(place.config), NAME), this_process())


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def test_changes_that_send_a_part_of_their_row_find_it_behind_a_run(codes: Codes, tmp_path: Path) -> None:
    older, newer = place_of(tmp_path / "older"), place_of(tmp_path / "newer")
    make_lake(codes.of(BASE), older.config, *older.whole())
    before = opened(older)
    assert snapshot(before) != EXPECTED
    assert (quarantine(before), set(levels(before)[:3])) == ([], {Completeness.PROVEN})
    make_lake(codes.present, newer.config, *newer.whole())
    made = make_lake(codes.present, older.config, ask(), settle(), ask())
    stale, after = made.lakes[0].answers
    assert stale.entries
    assert after == NOTHING
    assert typed(older) == typed(newer)
    for place in (older, newer):
        harness = opened(place)
        assert snapshot(harness) == EXPECTED
        assert levels(harness)[:3] == LEVELS
        assert [one[:2] for one in quarantine(harness)] == [("snapshot", Reason.AMBIGUOUS)] * 2
