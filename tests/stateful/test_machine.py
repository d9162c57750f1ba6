"""The machine itself: a seed repeats, truth is known, lists get short, and a fault that is planted is found and made small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workbench import NO_SPARK
from dts_assets.flows import merged_table, reached_rules, ruled_changelogs, tables, tables_tasks
from dts_assets.model.copied_tables import CopyState
from dts_assets.planning import completeness
from dts_assets.stages import column_rules, key_operations
from dts_assets.stages.copied_rules import CopyRules
from dts_assets.store.catalog import open_catalog
from tests.flows.harness import Bench
from tests.flows.in_process import bench_in_process
from tests.stateful.action import Action, tried
from tests.stateful.actions import (
    WEIGHTS,
    Damage,
    FailOver,
    Repeat,
    Restart,
    Run,
    Statement,
    Write,
    plan,
)
from tests.stateful.copying import ENDS, CopyTable
from tests.stateful.machine import Numbered, actions_of, make_small, play, report
from tests.stateful.moves import MOVES, Move, from_elsewhere
from tests.stateful.on_tables import Pause
from tests.stateful.shrinking import shortest
from tests.stateful.verdict import Finding
from tests.stateful.world import Work, World, tasks_here
from tests.tiers import ALL, times

if TYPE_CHECKING:
    from dts_assets.store.catalog import LakeLocation

_SENT = (Write, Statement, Restart, FailOver, Repeat, Damage)


@pytest.fixture
def no_spark(lake_location: LakeLocation, tmp_path: Path) -> Bench:
    """A bench for worlds whose snapshots need no merge."""
    open_catalog(lake_location)
    return Bench(NO_SPARK, lake_location, tmp_path, "world")


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


def without_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.not_equal(rows["op"], "delete"))


def changelogs_lack_deletes(patch: pytest.MonkeyPatch) -> None:
    whole = tables_tasks._Files.rows
    patch.setattr(
        tables_tasks._Files, "rows", lambda files, table, rows: whole(files, table, without_deletes(rows))
    )  # fmt: skip


def snapshots_lack_deletes(patch: pytest.MonkeyPatch) -> None:
    whole = key_operations.operations_of

    def without(changes: pa.RecordBatch, *rest: Any, **more: Any) -> Any:
        return whole(without_deletes(changes), *rest, **more)

    patch.setattr(merged_table, "operations_of", without)


def losses_are_no_problems(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(completeness, "_LOSSES", frozenset())


def marks_name_no_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tables, "with_missing", lambda mark, paused: mark)


def hashes_are_the_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(column_rules, "hashed", lambda values, key: values.cast(pa.string()))


FAULTS = [
    pytest.param(changelogs_lack_deletes, "changes lost or doubled", Write, id="changes"),
    pytest.param(snapshots_lack_deletes, "rows differ", Write, id="rows", marks=pytest.mark.long),
    pytest.param(losses_are_no_problems, "a loss that nobody names", Damage, id="losses", marks=pytest.mark.long),
    pytest.param(hashes_are_the_values, "a plain value", Write, id="marks"),
    pytest.param(marks_name_no_pause, "changes lost or doubled", Pause, id="pauses", marks=pytest.mark.long),
]


@pytest.mark.more
@pytest.mark.parametrize(("plant", "kind", "needed"), FAULTS)
def test_a_planted_fault_is_found_and_made_small(
    plant: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    needed: type[Action],
    no_spark: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Spark: bursts of whole row images in order need no merge."""
    more = [Damage(7), Write(5)] if ALL else []
    pauses = [Run(0), Pause(1), Write(6)] if needed is Pause else []  # a table must be known before it is paused
    listed: list[Numbered] = list(enumerate([Write(1), *more, *pauses, Run(0), Write(9)]))
    lines: list[str] = []
    with tasks_here():
        if ALL:
            assert play(no_spark, 3, listed, say=lines.append).finding is None, lines
        plant(monkeypatch)
        played = play(no_spark, 3, listed, say=lines.append)
        assert played.finding is not None
        assert played.finding.kind == kind
        small, again = make_small(no_spark, 3, played.done, kind=kind, say=lines.append)
    assert again is not None
    assert len(small) < len(listed)
    assert needed in {type(action) for _, action in small}
    told = report(3, small, again)
    assert told[0] == f"FOUND with seed 3: {kind}"
    assert (
        told[-1]
        == f"again: python -m tests.stateful --seed 3 --actions {','.join(str(one) for one, _ in small)} --as-found"
    )
    assert any("FOUND" in line for line in lines)


class Wrong(Action):
    """An action that finds something."""

    def can(self, world: World) -> bool:
        """Always."""
        return True

    def do(self, world: World) -> str:
        """Find it."""
        raise Finding("wrong", "\n".join(map(str, range(9))))


def test_a_finding_is_said_before_its_list_gets_short(no_spark: Bench) -> None:
    lines: list[str] = []
    play(no_spark, 3, [(0, Wrong(0))], say=lines.append)
    assert lines[1:] == ["    0 Wrong: FOUND wrong", *(f"    {line}" for line in range(3, 9))]


SEEDS = [594, *([2, 93, 208] if ALL else [])]


@pytest.mark.spark
@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_world_of_all_kinds(seed: int, spark: object, spark_lake: LakeLocation, tmp_path: Path) -> None:
    bench = Bench(spark, spark_lake, tmp_path, f"stateful_{seed}")  # type: ignore[arg-type]
    lines: list[str] = []
    with tasks_here():
        played = play(bench, seed, actions_of(seed, range(times(6, 30))), say=lines.append)
    assert played.finding is None, "\n".join([*lines, str(played.finding)])
    assert played.verdicts >= 2


def rules_of_others_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    for module in (reached_rules, ruled_changelogs):
        patch.setattr(module, "reached_from", lambda pipeline: {})


SEED_OF_MOVE = 52  # its rows come into a window before that of its last statement


class OneByOne(Action):
    """Each window is made by itself, before later ones are known."""

    def do(self, world: World) -> str:
        """Make all windows that have closed."""
        lanes = tuple(range(world.shape.partitions))
        return "".join(f"{window}{tried(world, Work('all', (window,), lanes).do)} " for window in world.windows()[:-1])


@pytest.mark.more
def test_values_that_a_statement_brings_past_a_rule_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows have a window before that of the statement: a column that is dropped stays there, empty."""
    assert Random(SEED_OF_MOVE).choice(MOVES) is from_elsewhere
    listed: list[Numbered] = list(enumerate([Write(1), Move(SEED_OF_MOVE), Write(9), OneByOne(0)]))
    bench = bench_in_process(tmp_path, "moved")
    with tasks_here():
        assert play(bench, 3, listed).finding is None
        rules_of_others_are_forgotten(monkeypatch)
        finding = play(bench, 3, listed).finding
    assert finding is not None
    assert finding.kind == "a plain value that a statement moved"


@pytest.mark.more
def test_a_plain_value_that_stands_in_a_copy_alone_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No window takes a copy that is never finished."""
    monkeypatch.setattr(CopyRules, "applied", lambda rules, batch, columns: batch)
    seed = next(seed for seed in range(99) if Random(seed).choice(ENDS) is CopyState.READING)
    lines: list[str] = []
    with tasks_here():
        actions: list[Numbered] = list(enumerate([Write(1), Write(5), CopyTable(seed)]))
        finding = play(bench_in_process(tmp_path, "copied"), 3, actions, say=lines.append).finding
    assert finding is not None, lines
    assert finding.kind == "a plain value", finding
    assert all(place.startswith("copies/") for place in finding.detail.split("; ")), finding
