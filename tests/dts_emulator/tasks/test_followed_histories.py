"""Histories follow statements: the versions that held behind each of them are the rows that the database had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dts_emulator.followed_scripts import MOVES, SCRIPTS, recorded_script
from tests.dts_emulator.judged_histories import faults_of_histories
from tests.dts_emulator.judged_snapshots import Judged
from tests.dts_emulator.random_lives import MOVING, PLAIN, RandomLife
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import Life, LifeRecorder, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, WAYS
from tests.tiers import chosen, times

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def judged(life: Life, folder: Path, seed: int = 3) -> Judged:
    """The histories of a life, made in several ways; in the short tier in one. All of them are equal."""
    found, versions = Judged(), []
    for way in chosen(WAYS, 1):
        (folder / way.__name__).mkdir()
        harness = recorded("dts-protobuf", life.transactions, folder / way.__name__, **EVERYWHERE, history=["*"])
        way(harness, life, seed)
        found = faults_of_histories(harness, life)
        assert not found.faults, f"{found}\n{life.script()}"
        versions.append({name: rows for name, rows in harness.everything().items() if name.startswith("history")})
    for other in versions:
        assert other.keys() == versions[0].keys()
        apart = {name: Counter(rows) - Counter(versions[0][name]) for name, rows in other.items()}
        assert not any(apart.values()), f"{apart}\n{life.script()}"
    return found


@pytest.mark.parametrize("name", [*MOVES, *SCRIPTS])
def test_what_happens(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    found = judged(recorded_script(recorder, {**MOVES, **SCRIPTS}[name]), tmp_path)
    assert bool(found.counts["renames"]) == (name in MOVES)


@pytest.mark.parametrize("seed", range(times(2, 20)))
def test_a_life_of_tables_that_move(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 700 + seed, MOVING).lived(times(25, 60)), tmp_path, seed)


@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_a_life_of_columns(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 800 + seed, PLAIN).lived(times(25, 60)), tmp_path, seed)


@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_minimal_images(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 900 + seed, MOVING, image="MINIMAL").lived(times(25, 60)), tmp_path, seed)
