"""One effect of a run fails, in one of four ways: the next run leaves the lake as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dts_assets.store.commit import _Attempt
from tests.effects.effects import Effects, Way
from tests.effects.every import WORLDS, cases_of, tried
from tests.effects.verdict import verdict
from tests.effects.world import World, conditions, count, disturbed, made

SEED = 1
CHANGES = ("write ", "commit_table", "create_table", "delete")


@pytest.fixture(scope="module", params=list(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with conditions():
        yield made(tmp_path_factory.mktemp("effects"), live=WORLDS[request.param])


def test_some_effects_fail(world: World) -> None:
    """One of each way; ``make effects`` takes all."""
    names = count(world)
    assert len(names) > 250
    random = Random(SEED)
    changing = [case for case in cases_of(names) if names[case[0] - 1].startswith(CHANGES)]
    chosen = [random.choice([case for case in changing if case[1] is way]) for way in Way]
    assert [wrong for case in chosen if (wrong := tried(world, case))] == []


@pytest.mark.long
def test_every_effect_fails_once(world: World) -> None:
    assert [wrong for case in cases_of(count(world)) if (wrong := tried(world, case))] == []


def test_the_machine_finds_a_product_that_forgets_what_landed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look for an earlier try a request that lands late loses its files to the next one."""
    if not world.live:
        pytest.skip("one world is enough")
    names = count(world)
    number = max(
        place for place, name in enumerate(names, start=1) if name.startswith("commit_table") and "cuts" in name
    )
    monkeypatch.setattr(_Attempt, "_landed", lambda attempt, table: None)
    assert disturbed(world, Effects(number, Way.UNHEARD))


def test_the_verdict_sees_a_file_that_is_gone_and_rows_that_are_too_many(world: World) -> None:
    effects = Effects()
    world.put_back()
    assert "work left" in verdict(world, effects)
    assert disturbed(world, effects) == ""
    harness = world.opened(effects)
    path = harness.pipeline.path("changelog", "bank", "one")
    one = Path(harness.pipeline.lake.data_files(path)[0].path.removeprefix("file://"))
    kept = one.read_bytes()
    one.unlink()
    assert "files are lost" in verdict(world, effects)
    one.write_bytes(kept)
    world.reference["entries"].pop()
    assert "entries has" in verdict(world, effects)
