"""Histories follow statements: the versions that held behind each of them are the rows that the database had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dts_emulator.followed_scripts import MOVES, SCRIPTS, Said, recorded_script
from tests.dts_emulator.judged_histories import faults_of_histories
from tests.dts_emulator.judged_snapshots import Judged
from tests.dts_emulator.random_lives import MOVING, PLAIN, RandomLife
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import Life, LifeRecorder, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, WAYS, as_it_grows
from tests.tiers import chosen, times

pytestmark = [pytest.mark.database, pytest.mark.more]


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


@pytest.mark.more
@pytest.mark.parametrize("name", chosen([*MOVES, *SCRIPTS], 1))
def test_what_happens(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    found = judged(recorded_script(recorder, {**MOVES, **SCRIPTS}[name]), tmp_path)
    assert bool(found.counts["renames"]) == (name in MOVES)


_T = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
_ROWS = "INSERT INTO t VALUES (1, 10), (2, 20), (3, NULL)"
RENAMES: dict[str, tuple[Said, ...]] = {
    "away and back in one window": (
        _T, _ROWS, 1, "RENAME TABLE t TO u", "UPDATE u SET a = 11 WHERE id = 1", "DELETE FROM u WHERE id = 2",
        "RENAME TABLE u TO t", "DELETE FROM t WHERE id = 3", 2, "INSERT INTO t VALUES (2, 21)",
    ),
    "a table without a row": (
        _T, 1, "RENAME TABLE t TO u", "INSERT INTO u VALUES (1, 1)", 2, "TRUNCATE u", "RENAME TABLE u TO t",
        "INSERT INTO t VALUES (2, 2)",
    ),
    "a copy takes the place of a table": (
        _T, _ROWS, 1, "CREATE TABLE t_gho (id INT PRIMARY KEY, a INT, c INT NOT NULL DEFAULT 7)",
        "INSERT INTO t_gho VALUES (1, 10, 7), (2, 20, 7)", "UPDATE t SET a = 12 WHERE id = 1",
        "REPLACE INTO t_gho VALUES (1, 12, 7), (3, NULL, 7)", "RENAME TABLE t TO t_del, t_gho TO t",
        "UPDATE t SET a = 13 WHERE id = 1", 2, "DELETE FROM t WHERE id = 2", "DROP TABLE t_del",
    ),
    "deletes of rows that came, and names of columns behind it": (
        _T, _ROWS, "ALTER TABLE t ADD b INT NOT NULL DEFAULT 5", 1, "RENAME TABLE t TO u", "DELETE FROM u WHERE id IN (1, 3)", 2,
        "ALTER TABLE u RENAME COLUMN b TO c", "UPDATE u SET a = 22 WHERE id = 2", "INSERT INTO u VALUES (4, 4, 4)",
    ),
    "another key takes the name": (
        _T, _ROWS, "CREATE TABLE u (x INT, y INT PRIMARY KEY)", "INSERT INTO u VALUES (1, 1), (1, 2)", 1,
        "RENAME TABLE t TO v, u TO t, v TO u", "UPDATE t SET x = 2 WHERE y = 2", "DELETE FROM u WHERE id = 1", 2,
        "INSERT INTO t VALUES (1, 3)",
    ),
}  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", chosen(list(RENAMES), 2))
@pytest.mark.parametrize("image", chosen(["FULL", "MINIMAL"], 1))
def test_renames(recorder: LifeRecorder, name: str, image: str, tmp_path: Path) -> None:
    judged(recorded_script(recorder, RENAMES[name], image=image), tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_windows_that_are_read_while_they_are_open(
    recorder: LifeRecorder, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVERYWHERE, "history", ["*"])
    name = list(RENAMES)[seed % len(RENAMES)]
    life = recorded_script(recorder, RENAMES[name])
    found = faults_of_histories(as_it_grows(life, tmp_path, seed, pieces=times(3, 12)), life)
    assert not found.faults, f"{found}\n{life.script()}"
    assert bool(found.counts["renames"]) == (name != "a table without a row")


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 20)))
def test_a_life_of_tables_that_move(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 700 + seed, MOVING).lived(times(15, 60)), tmp_path, seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_a_life_of_columns(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 800 + seed, PLAIN).lived(times(15, 60)), tmp_path, seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_minimal_images(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    judged(RandomLife(recorder, 900 + seed, MOVING, image="MINIMAL").lived(times(15, 60)), tmp_path, seed)
