"""One effect of a run fails, in one of four ways: the next run leaves the lake as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table.snapshots import Snapshot

from dts_assets.store.commit import _Attempt
from dts_assets.store.new_version import NewVersion
from tests.effects.effects import Effects, Way
from tests.effects.every import WORLDS, cases_of, tried
from tests.effects.grounds import OnDisk
from tests.effects.verdict import verdict
from tests.effects.world import World, conditions, disturbed, made

pytestmark = pytest.mark.more

SEED = 1
CHANGES = ("write ", "commit_table", "create_table", "delete")


@pytest.fixture(scope="module", params=["live", pytest.param("backlog", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("effects")
    ground = OnDisk(folder)
    with conditions(ground):
        yield made(folder, ground, live=WORLDS[request.param])


@pytest.fixture(scope="module")
def names(world: World) -> list[str]:
    return world.names


@pytest.mark.more
def test_some_effects_fail(world: World, names: list[str]) -> None:
    """Three of them, each in another way; ``make effects`` takes all."""
    assert len(names) > 250
    random = Random(SEED)
    changing = [case for case in cases_of(names) if names[case[0] - 1].startswith(CHANGES)]
    chosen = [random.choice([case for case in changing if case[1] is way]) for way in random.sample(list(Way), 3)]
    assert [wrong for case in chosen if (wrong := tried(world, case))] == []


@pytest.mark.long
def test_many_effects_fail(world: World, names: list[str]) -> None:
    """Every twentieth case, in a few minutes."""
    cases = cases_of(names)[SEED::20]
    assert len(cases) > 30
    assert [wrong for case in cases if (wrong := tried(world, case))] == []


def test_the_machine_finds_the_fault_that_it_was_made_for(
    world: World, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files belong to all tries, and nobody looks for what has landed: a request that lands late loses its manifests."""

    tries: list[NewVersion] = []
    write, remove = NewVersion.write, NewVersion.remove

    def noted(version: NewVersion, *asked: Any, **more: Any) -> Snapshot:
        tries.append(version)
        return write(version, *asked, **more)

    def of_all_tries(version: NewVersion) -> None:
        for one in tries:
            if one.snapshot_id == version.snapshot_id:
                remove(one)

    number = names.index("commit_table effects.raw_envelopes") + 1
    late = {"lands_after": 3}  # after two questions, when the second try commits
    assert disturbed(world, Effects(number, Way.CUT, **late)) == ""
    monkeypatch.setattr(NewVersion, "write", noted)
    monkeypatch.setattr(NewVersion, "remove", of_all_tries)
    monkeypatch.setattr(_Attempt, "_landed", lambda attempt, table: None)
    assert "commit_table effects.raw_envelopes cut" in disturbed(world, Effects(number, Way.CUT, **late))


@pytest.mark.more
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
