"""The values that a snapshot counts as not known are those that nobody could know of a real server's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.tables import TableId
from tests.dts_emulator.judged_snapshots import rows_of
from tests.dts_emulator.random_lives import MANY, PLAIN, RandomLife
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import Held, Life, LifeRecorder, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, windows_of
from tests.flows.harness import Harness
from tests.tiers import times

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def counted_at_once(harness: Harness, life: Life) -> dict[TableId, dict[str, int]]:
    """What the only run of all tables counts, by table."""
    windows = windows_of(life)
    harness.raw(*windows)
    harness.entries(*windows)
    found = harness.tables(*windows).tables
    return {one.table: dict(one.layers["snapshot"].unknown_values) for one in found}


@pytest.mark.more
@pytest.mark.parametrize("words", [PLAIN, MANY], ids=["plain", "many"])
@pytest.mark.parametrize("seed", range(times(1, 25)))
def test_a_life_counts_what_nobody_knows_at_its_end(
    recorder: LifeRecorder, words: Any, seed: int, tmp_path: Path
) -> None:
    life = until_something_is_not_known(RandomLife(recorder, 700 + seed, words).lived(times(30, 60)))
    harness = recorded("dts-protobuf", life.transactions, tmp_path, **EVERYWHERE)
    counted = counted_at_once(harness, life)
    for table, held in judged(life):
        assert counted[table] == not_known(held), f"{table}\n{life.script()}"
        assert_no_fewer_than_nulls(harness, table, held, counted[table])


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 25)))
def test_a_life_of_minimal_images_counts_no_more_and_no_fewer(
    recorder: LifeRecorder, seed: int, tmp_path: Path
) -> None:
    """The judge takes each column of a changed row for unknown that any row has unknown."""
    whole = RandomLife(recorder, 800 + seed, [PLAIN, MANY][seed % 2], image="MINIMAL").lived(times(30, 60))
    life = until_something_is_not_known(whole)
    harness = recorded("dts-protobuf", life.transactions, tmp_path, **EVERYWHERE)
    counted = counted_at_once(harness, life)
    for table, held in judged(life):
        most = not_known(held)
        assert all(count <= most.get(name, 0) for name, count in counted[table].items()), f"{table}\n{life.script()}"
        assert_no_fewer_than_nulls(harness, table, held, counted[table])


def until_something_is_not_known(life: Life) -> Life:
    """A life up to the last statement behind which some value is not known."""
    places = [place for place in range(2, len(life.moments)) if any(map(not_known, dict(judged(life, place)).values()))]
    return life.until(places[-1]) if places else life


def judged(life: Life, place: int = -1) -> list[tuple[TableId, Held]]:
    return [(table, held) for table, held in life.moments[place].tables.items() if not held.doubt and held.rows]


def not_known(held: Held) -> dict[str, int]:
    return dict(Counter(name for columns in held.unknown for name in columns))


def assert_no_fewer_than_nulls(harness: Harness, table: TableId, held: Held, counted: Mapping[str, int]) -> None:
    """A NULL that the server does not have is a value that is not known."""
    snapshot = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", table))
    assert snapshot is not None
    for place, rows in enumerate(zip(*rows_of(snapshot, held.schema.names), strict=True)):
        more = rows.count(None) - [row[place] for row in held.rows].count(None)
        assert more <= counted.get(held.schema.names[place], 0), f"{table}.{held.schema.names[place]}"
