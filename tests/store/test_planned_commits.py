"""Commits of planned columns that are refused, unheard or overtaken."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType

from dts_assets.errors import StaleGenerationError
from dts_assets.store import commit as commit_module
from dts_assets.store.lake import Lake
from dts_assets.store.planned_fields import PlannedField
from tests.store.planned_tables import (
    COLUMNS,
    PATH,
    ROWS,
    SWAPPED,
    SWAPPED_ROWS,
    alter,
    filled_lake,
    shown,
    write,
)
from tests.store.test_unknown_outcomes import OUTCOMES, Deaf

if TYPE_CHECKING:
    from dts_assets.store.catalog import LakeLocation


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    return filled_lake(lake_location)


def _altered_meanwhile(lake: Lake, change: str) -> None:
    if change == "another column":
        lake.evolve(PATH, (*COLUMNS, ("more", "string")))
    elif change == "the same plan":
        alter(lake, *SWAPPED)
    elif change == "another name":  # without a new id
        with lake.catalog.load_table(PATH).update_schema() as update:
            update.rename_column("tags", "labels")
    else:  # the schema is the former one again, and the next id is not
        with lake.catalog.load_table(PATH).update_schema() as update:
            update.add_column("new", StringType())
        with lake.catalog.load_table(PATH).update_schema() as update:
            update.delete_column("new")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer is on another machine: the lock of this one does not keep it from coming in between."""
    monkeypatch.setattr(commit_module, "table_lock", lambda table: nullcontext())


CHANGES = ("another column", "the same plan", "another name", "a column that came and went")


@pytest.mark.more(after=1)
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("when", ["before the first try", "between two tries", "behind a try without an answer"])
@pytest.mark.parametrize("change", CHANGES)
def test_columns_that_were_changed_meanwhile_are_not_taken_for_planned_ones(
    lake: Lake, change: str, when: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, planned = lake.planned(PATH, SWAPPED, "r")
    assert planned is not None
    files = write(target, [{"id": 9, "b": 1, "new": "lost", "a": 1}] * rows)
    commit, tries, deaf = lake.catalog.commit_table, list[int](), Deaf(["never"])

    def late(*asked: Any) -> Any:
        tries.append(1)
        if len(tries) > 1:
            return commit(*asked)
        _altered_meanwhile(lake, change)
        if when == "between two tries":
            raise CommitFailedException("another writer was faster")
        return deaf.around(commit)(*asked)

    if when == "before the first try":
        _altered_meanwhile(lake, change)
    else:
        monkeypatch.setattr(lake.catalog, "commit_table", late)
    with pytest.raises(StaleGenerationError, match="schema") as caught:
        lake.replace(PATH, {}, files, keep=lambda _: True, columns=planned)
    assert caught.value.unsure == (when == "behind a try without an answer")
    assert len(shown(lake)) == 4
    expected = SWAPPED_ROWS if change == "the same plan" else ROWS
    assert [{name: row.get(name, row.get("labels")) for name in expected[0]} for row in shown(lake)] == expected


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("change", CHANGES)
def test_the_catalog_itself_refuses_a_plan_that_was_overtaken(
    lake: Lake, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer comes behind the last look at the table."""
    target, planned = lake.planned(PATH, SWAPPED, "r")
    files = write(target, [{"id": 9, "b": 1, "new": "lost", "a": 1}])
    commit, tries = lake.catalog.commit_table, list[int]()

    def slow(*asked: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            _altered_meanwhile(lake, change)
        return commit(*asked)

    monkeypatch.setattr(lake.catalog, "commit_table", slow)
    with pytest.raises(StaleGenerationError, match="schema"):
        lake.replace(PATH, {}, files, keep=lambda _: True, columns=planned)
    assert len(shown(lake)) == 4


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("outcome", [*OUTCOMES, "twice"])
def test_a_plan_is_made_once(lake: Lake, outcome: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, planned = lake.planned(PATH, SWAPPED, "r")
    new = [{"id": 9, "b": 1, "new": "x", "a": 1}] * rows
    files = write(target, new)
    monkeypatch.setattr(lake.catalog, "commit_table", Deaf([outcome]).around(lake.catalog.commit_table))
    done = lake.replace(PATH, {}, files, keep=lambda _: True, columns=planned)
    table = lake.catalog.load_table(PATH)
    assert done.snapshot_id == table.metadata.current_snapshot_id
    assert (len(table.metadata.snapshots), len(table.metadata.schemas)) == (2, 2)
    assert shown(lake) == SWAPPED_ROWS + new


@pytest.mark.usefixtures("elsewhere")
def test_a_plan_that_landed_under_another_change_is_made_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It got no answer, and another writer has changed the columns again by the time it is asked for once more."""
    _, planned = lake.planned(PATH, SWAPPED, "r")
    commit, tries = lake.catalog.commit_table, list[int]()

    def unheard(*asked: Any) -> Any:
        tries.append(1)
        if len(tries) > 1:
            return commit(*asked)
        commit(*asked)
        alter(lake, PlannedField("id", "bigint", "id"), PlannedField("c", "int", "b"))
        raise Deaf([]).error

    monkeypatch.setattr(lake.catalog, "commit_table", unheard)
    done = lake.replace(PATH, {}, (), keep=lambda _: True, columns=planned)
    snapshots = lake.catalog.load_table(PATH).metadata.snapshots
    assert done.snapshot_id == snapshots[1].snapshot_id
    assert shown(lake) == [{"id": n, "c": n * 10} for n in range(4)]


def test_a_writer_with_the_former_columns_is_welcome(lake: Lake) -> None:
    files = write(lake.target(PATH, "slow"), [{"id": 9, "a": 90, "b": -9, "tags": None}])
    alter(lake, *SWAPPED)
    lake.replace(PATH, {}, files, keep=lambda _: True)
    assert shown(lake) == [*SWAPPED_ROWS, {"id": 9, "b": 90, "new": None, "a": -9}]
