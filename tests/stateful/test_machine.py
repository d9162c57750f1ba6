"""The machine itself: a seed repeats, truth is known, lists get short, and a fault that is planted is found and made small."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.flows import tables_tasks
from dts_assets.store.catalog import open_catalog
from tests.flows.harness import Bench
from tests.stateful.actions import WEIGHTS, Action, Damage, FailOver, Repeat, Restart, Run, Statement, Write, plan
from tests.stateful.machine import Numbered, actions_of, make_small, play, report
from tests.stateful.shrinking import shortest
from tests.stateful.world import World, tasks_here
from tests.tiers import ALL, times

if TYPE_CHECKING:
    import pyarrow as pa

    from dts_assets.model.tables import TableId
    from dts_assets.store.catalog import LakeLocation

_SENT = (Write, Statement, Restart, FailOver, Repeat, Damage)


@pytest.fixture
def no_spark(lake_location: LakeLocation, tmp_path: Path) -> Bench:
    """A bench for worlds whose snapshots need no merge."""
    open_catalog(lake_location)
    return Bench(None, lake_location, tmp_path, "world")  # type: ignore[arg-type]


def writes(count: int) -> list[Numbered]:
    """Bursts of whole row images, with a verdict in the middle."""
    listed: list[Action] = [Write(4 * number + 1) for number in range(count)]
    listed.insert(count // 2, Run(0))
    return list(enumerate(listed))


def test_a_seed_is_a_list_of_actions() -> None:
    assert list(islice(plan(7), 40)) == list(islice(plan(7), 40)) != list(islice(plan(8), 40))
    assert {type(action) for action in islice(plan(7), 600)} == WEIGHTS.keys()
    chosen = actions_of(7, [5, 2, 5])
    assert chosen == [(number, list(islice(plan(7), 6))[number]) for number in (2, 5)]
    assert actions_of(7, []) == []


@given(st.sets(st.integers(0, 30), max_size=4), st.integers(1, 31))
def test_lists_get_as_short_as_they_can(needed: set[int], size: int) -> None:
    items = list(range(max(size, max(needed, default=0) + 1)))
    asked: list[tuple[int, ...]] = []

    def fails(part: Sequence[int]) -> bool:
        asked.append(tuple(part))
        return needed <= set(part)

    assert shortest(items, fails) == sorted(needed)
    assert len(asked) == len(set(asked))
    assert shortest(items, fails, go_on=lambda: False) == items


@pytest.mark.parametrize("seed", range(times(15, 100)))
def test_the_stream_knows_what_the_database_holds(seed: int, no_spark: Bench) -> None:
    world = World.make(no_spark, seed)
    for action in islice(plan(seed, _SENT), 40):
        if action.can(world):
            action.do(world)
    stream = world.stream
    assert stream.effects
    stream.vouch()
    assert all(effect.copies for effect in stream.effects)  # nothing was forgotten on the way
    truth = stream.rows_after(lambda effect: True)
    assert {name: truth[name] for name in truth} == {
        name: {key: {one.name: row[one.name] for one in stream.tables[name].columns} for key, row in rows.items()}
        for name, rows in stream.rows.items()
        if stream.tables[name].keys
    }
    offsets = [(one.partition, one.offset) for one in stream.messages]
    assert len(offsets) == len(set(offsets))
    for lane in range(stream.partitions):
        mine = [one for one in stream.messages if one.partition == lane]
        assert [one.offset for one in mine] == sorted(one.offset for one in mine)
        assert [one.time for one in mine] == sorted(one.time for one in mine)


def test_all_is_well_without_a_fault(no_spark: Bench) -> None:
    lines: list[str] = []
    with tasks_here():
        played = play(no_spark, 3, writes(4), say=lines.append)
    assert played.finding is None, lines
    assert played.verdicts == 3
    assert "equal to a fresh lake" in lines[-1]


def test_a_planted_fault_is_found_and_made_small(no_spark: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables_tasks._Files.rows

    def without_deletes(files: tables_tasks._Files, table: TableId, rows: pa.RecordBatch) -> None:
        whole(files, table, rows.filter(pc.not_equal(rows["op"], "delete")))

    monkeypatch.setattr(tables_tasks._Files, "rows", without_deletes)
    lines: list[str] = []
    with tasks_here():
        played = play(no_spark, 3, writes(4), say=lines.append)
        assert played.finding is not None
        assert played.finding.kind == "changes lost or doubled"
        small, finding = make_small(no_spark, 3, played.done, kind=played.finding.kind, say=lines.append)
    assert len(small) < len(played.done)
    assert len(small) <= 2
    assert all(isinstance(action, Write) for _, action in small)
    assert finding is not None
    told = report(3, small, finding)
    assert told[0] == "FOUND with seed 3: changes lost or doubled"
    assert (
        told[-1] == f"again: python -m tests.stateful --seed 3 --actions {','.join(str(number) for number, _ in small)}"
    )
    assert any("FOUND" in line for line in lines)


SEEDS = [2, *([11, 12] if ALL else [])]


@pytest.mark.spark
@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_world_of_all_kinds(seed: int, spark: object, spark_lake: LakeLocation, tmp_path: Path) -> None:
    bench = Bench(spark, spark_lake, tmp_path, f"stateful_{seed}")  # type: ignore[arg-type]
    lines: list[str] = []
    with tasks_here():
        played = play(bench, seed, actions_of(seed, range(times(10, 30))), say=lines.append)
    assert played.finding is None, "\n".join([*lines, str(played.finding)])
    assert played.verdicts >= 2
