"""A merged table follows the statements of its shards: it is the union of the tables that the server has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dts_emulator.followed_scripts import Said
from tests.dts_emulator.judged_snapshots import Judged, compare
from tests.dts_emulator.merged_lives import DATABASES, MERGE, MERGED, RollingLife, compared, union
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import FIRST, HOUR, Life, LifeRecorder, life_recorder
from tests.dts_emulator.ways import WAYS
from tests.flows.harness import Harness
from tests.tiers import chosen, times

pytestmark = pytest.mark.database

OPTIONS: dict[str, Any] = {"merge": MERGE, "tables": {"include": ["shop_*.*"]}}


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def judged(harness: Harness, life: Life) -> Judged:
    """The merged snapshot is the union of the shards that the server has behind the last statement."""
    found, pipeline = Judged(), harness.pipeline
    compare(found, *compared(pipeline.lake.scan(pipeline.table_path("snapshot", MERGED)), union(life)))
    found.faults += [f"quarantine: {row['reason']}" for row in harness.rows("quarantine")]
    found.faults += [f"paused: {one.table} {one.reason}" for one in pipeline.ledger.paused_tables()]
    assert not found.faults, f"{found}\n{life.script()}"
    return found


def recorded_script(recorder: LifeRecorder, script: tuple[Said, ...]) -> Life:
    """A script that has been lived, whose statements name databases."""
    recorder.begin(DATABASES)
    for one in script:
        if isinstance(one, int):
            recorder.go_to(FIRST + one * HOUR)
            continue
        assert isinstance(one, str)
        recorder.wait(1)
        before = recorder.beside.counts["refused"]
        assert recorder.say(one, DATABASES[-1]), one
        assert recorder.beside.counts["refused"] == before, one
    return recorder.end()


def in_ways(life: Life, folder: Path, seed: int, few: int = 1) -> Judged:
    found = Judged()
    for way in chosen(WAYS, few):
        (folder / way.__name__).mkdir()
        harness = recorded("dts-protobuf", life.transactions, folder / way.__name__, **OPTIONS)
        way(harness, life, seed)
        found = judged(harness, life)
    return found


A, B, C = "shop_00.orders_01", "shop_00.orders_02", "shop_01.orders_01"


def both(sql: str) -> tuple[str, str]:
    return sql.format(A), sql.format(B)


_MADE = (
    *both("CREATE TABLE {} (id INT PRIMARY KEY, a INT, b VARCHAR(20))"),
    *both("INSERT INTO {} VALUES (1, 10, 'one'), (2, NULL, 'two')"),
)
SCRIPTS: Mapping[str, tuple[Said, ...]] = {
    "a column with a default comes to one shard after the other": (
        *_MADE, 1, f"ALTER TABLE {A} ADD c INT NOT NULL DEFAULT 7 AFTER id", f"INSERT INTO {B} VALUES (3, 30, 'three')",
        f"INSERT INTO {A} (id) VALUES (4)", 2, f"UPDATE {B} SET a = 11 WHERE id = 1",
        f"ALTER TABLE {B} ADD c INT NOT NULL DEFAULT 8 AFTER id", f"UPDATE {A} SET c = 9 WHERE id = 1",
    ),
    "a column gets another name in one shard after the other": (
        *_MADE, 1, f"ALTER TABLE {A} RENAME COLUMN a TO n", f"UPDATE {B} SET a = 11 WHERE id = 1", 2,
        f"UPDATE {A} SET n = 12 WHERE id = 2", f"ALTER TABLE {B} CHANGE a n INT",
    ),
    "a column becomes text in one shard after the other, and a number again": (
        *_MADE, 1, f"ALTER TABLE {A} MODIFY a VARCHAR(9)", f"UPDATE {A} SET a = 'zehn' WHERE id = 1",
        f"INSERT INTO {B} VALUES (3, 30, 'three')", 2, f"ALTER TABLE {B} MODIFY a VARCHAR(9)", f"UPDATE {A} SET a = '1'", 3,
        f"ALTER TABLE {B} MODIFY a BIGINT", f"INSERT INTO {B} VALUES (5, 1099511627776, 'five')",
        f"ALTER TABLE {A} MODIFY a BIGINT",
    ),
    "a column goes from one shard after the other and comes back": (
        *_MADE, 1, f"ALTER TABLE {A} DROP b", f"INSERT INTO {A} VALUES (3, 30)", f"UPDATE {B} SET b = 'zwei' WHERE id = 2", 2,
        f"ALTER TABLE {B} DROP b", 3, f"ALTER TABLE {B} ADD b DATE FIRST", f"INSERT INTO {B} VALUES ('2026-01-05', 3, 3)",
    ),
    "shards change at once, which costs no file": (
        *_MADE, 1, *both("ALTER TABLE {} CHANGE b word VARCHAR(20), MODIFY a BIGINT FIRST, ADD c INT"), 2,
        *both("ALTER TABLE {} DROP c"),
    ),
    "a shard comes with columns of its own, and goes with them": (
        *_MADE, 1, f"CREATE TABLE {C} (id INT PRIMARY KEY, a VARCHAR(20), z INT)", f"INSERT INTO {C} VALUES (1, 'x', 2)", 2,
        f"DROP TABLE {C}", f"UPDATE {A} SET a = 12 WHERE id = 2",
    ),
    "shards without a key": (
        *both("CREATE TABLE {} (word VARCHAR(10), n INT)"), *both("INSERT INTO {} VALUES ('x', 1), ('x', 1), (NULL, 2)"), 1,
        f"ALTER TABLE {A} ADD c INT NOT NULL DEFAULT 3 FIRST, MODIFY n VARCHAR(9)", f"DELETE FROM {A} LIMIT 1",
        f"DELETE FROM {B} LIMIT 1", 2, f"UPDATE {A} SET n = 'zwei' WHERE n = '2'", f"ALTER TABLE {B} DROP word",
        f"INSERT INTO {B} VALUES (9)",
    ),
    "all shards are dropped": (*_MADE, 1, f"ALTER TABLE {A} ADD c INT DEFAULT 7", 2, *both("DROP TABLE {}")),
}  # fmt: skip

D = "shop_01.orders_02"
_SWAP = f"RENAME TABLE {A} TO shop_00.spare, {B} TO {A}, shop_00.spare TO {B}"
MOVES: Mapping[str, tuple[Said, ...]] = {
    "a shard gets another name": (
        *_MADE, 1, f"RENAME TABLE {A} TO {C}", f"UPDATE {C} SET a = 11 WHERE id = 1", 2, f"DELETE FROM {C} WHERE id = 2",
        f"ALTER TABLE {C} RENAME TO {A}, ADD c INT NOT NULL DEFAULT 7 FIRST", f"INSERT INTO {A} (id) VALUES (5)",
    ),
    "a shard gets another name and has no row since": (*_MADE, 1, f"RENAME TABLE {A} TO {D}", 2, f"DELETE FROM {B} WHERE id = 1"),
    "two shards change places": (
        *_MADE, f"INSERT INTO {B} VALUES (3, 30, 'three')", f"ALTER TABLE {B} ADD c INT NOT NULL DEFAULT 7", 1, _SWAP,
        f"UPDATE {A} SET a = 11 WHERE id = 1", f"DELETE FROM {B} WHERE id = 2", 2, _SWAP, f"UPDATE {B} SET a = 12 WHERE id = 3",
    ),
    "a shard leaves the table and comes back": (
        *_MADE, 1, f"RENAME TABLE {A} TO shop_00.archive", "INSERT INTO shop_00.archive VALUES (3, 30, 'three')", 2,
        f"UPDATE {B} SET a = 11 WHERE id = 1", "DELETE FROM shop_00.archive WHERE id = 1", 3,
        f"ALTER TABLE shop_00.archive RENAME TO {A}, MODIFY a VARCHAR(9)", f"UPDATE {A} SET a = 'x' WHERE id = 2",
    ),
    "gh-ost swaps a shard": (
        *_MADE, 1, f"CREATE TABLE shop_00.gho LIKE {A}", "ALTER TABLE shop_00.gho ADD c INT NOT NULL DEFAULT 7 FIRST",
        f"INSERT INTO shop_00.gho (id, a, b) SELECT id, a, b FROM {A}", f"UPDATE {A} SET a = 11 WHERE id = 1",
        "REPLACE INTO shop_00.gho (id, a, b) VALUES (1, 11, 'one')", 2,
        f"RENAME TABLE {A} TO shop_00.del, shop_00.gho TO {A}", f"INSERT INTO {A} VALUES (8, 4, 40, 'four')",
        "DROP TABLE shop_00.del", f"UPDATE {B} SET a = 12 WHERE id = 1", 3, f"DELETE FROM {A} WHERE id = 2",
    ),
    "shards that moved are emptied under either name": (
        *_MADE, f"TRUNCATE {A}", f"INSERT INTO {A} VALUES (5, 50, 'five')", 1, f"RENAME TABLE {A} TO {C}",
        f"CREATE TABLE {A} LIKE {B}", f"INSERT INTO {A} VALUES (6, 60, 'six')", 2, f"TRUNCATE {A}",
        f"INSERT INTO {A} VALUES (7, 70, 'seven')", f"RENAME TABLE {B} TO {D}", 3, f"TRUNCATE {C}",
        f"INSERT INTO {C} VALUES (8, 80, 'eight')",
    ),
    "a database is dropped that shards have left": (
        *_MADE, 1, f"RENAME TABLE {A} TO {C}", f"INSERT INTO {C} VALUES (3, 30, 'three')", 2, "DROP DATABASE shop_00",
        f"UPDATE {C} SET a = 11 WHERE id = 1",
    ),
    "shards without a key change places": (
        *both("CREATE TABLE {} (word VARCHAR(10), n INT)"), *both("INSERT INTO {} VALUES ('x', 1), ('x', 1), (NULL, 2)"), 1,
        _SWAP, f"DELETE FROM {A} LIMIT 1", 2, _SWAP, f"INSERT INTO {A} VALUES ('z', 1)", f"DELETE FROM {A} WHERE n = 2",
    ),
    "a shard gives its rows away, goes and is made again": (
        *_MADE, 1, f"RENAME TABLE {A} TO shop_00.spare, {B} TO {A}, shop_00.spare TO {B}", 2, f"DROP TABLE {B}",
        f"CREATE TABLE {B} LIKE {A}", f"INSERT INTO {B} VALUES (5, 50, 'five')", f"DELETE FROM {A} WHERE id = 1",
    ),
}  # fmt: skip
"""Shards that get other names, leave the table or come from outside."""


@pytest.mark.more
@pytest.mark.parametrize("name", chosen(list(MOVES), 1))
def test_what_happens_to_shards_that_get_other_names(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    in_ways(recorded_script(recorder, MOVES[name]), tmp_path, 3)


@pytest.mark.more
@pytest.mark.parametrize("name", chosen(list(SCRIPTS), 2))
def test_what_happens_to_shards(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    in_ways(recorded_script(recorder, SCRIPTS[name]), tmp_path, 3)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 60)))
def test_statements_that_roll_over_shards(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    image = "MINIMAL" if seed % 4 == 3 else "FULL"
    life = RollingLife(recorder, seed, image=image, moves=seed % 2 == 1).lived(60)
    found = in_ways(life, tmp_path, seed)
    assert found.counts["not known"] <= 0.3 * found.counts["values"]
