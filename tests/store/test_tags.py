"""Tags of closed cuts in the commits of rows, and alone: those of other people stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.table import Table

from dts_assets.errors import StaleGenerationError
from dts_assets.model.cut_tags import TagChange
from dts_assets.store.commit import replace, stands_at
from dts_assets.store.tags import change_tags, cut_tags

if TYPE_CHECKING:
    from tests.store.conftest import Cells

ONE, TWO, THREE = (f"cut-2026-01-05-0{hour}:00" for hour in (1, 2, 3))


def commit(cells: Cells, change: TagChange | None, *, same_rows: bool = False) -> int:
    files = cells.write([(0, 0)], "more")
    done = replace(cells.catalog, cells.identifier, {}, files, tags=change, same_rows=same_rows)
    assert done.snapshot_id is not None
    return done.snapshot_id


def table(cells: Cells) -> Table:
    return cells.catalog.load_table(cells.identifier)


def test_a_commit_names_the_version_of_before_and_its_own(cells: Cells) -> None:
    first = commit(cells, TagChange(after=(ONE,)))
    second = commit(cells, TagChange(frozenset({ONE}), (ONE, TWO), (THREE,)))
    assert cut_tags(table(cells)) == {ONE: first, TWO: first, THREE: second}
    third = commit(cells, None)
    assert cut_tags(table(cells)) == {ONE: first, TWO: first, THREE: second}
    commit(cells, TagChange(frozenset({ONE}), (THREE,)))
    assert cut_tags(table(cells)) == {ONE: first, THREE: third}, "a tag that may not stay is set anew"


def test_a_tag_that_stays_is_not_set_anew(cells: Cells) -> None:
    first = commit(cells, TagChange(after=(ONE,)))
    commit(cells, None)
    commit(cells, TagChange(frozenset({ONE}), (ONE,)))
    assert cut_tags(table(cells)) == {ONE: first}


def test_tags_of_a_version_move_with_its_rows_and_no_others(cells: Cells) -> None:
    first = commit(cells, TagChange(after=(ONE,)))
    commit(cells, TagChange(frozenset({ONE}), (), (TWO, THREE)))
    new = commit(cells, TagChange(moves=True), same_rows=True)
    assert cut_tags(table(cells)) == {ONE: first, TWO: new, THREE: new}


def test_references_of_other_people_stay(cells: Cells) -> None:
    first = commit(cells, None)
    table(cells).manage_snapshots().create_tag(first, "mine").create_branch(first, ONE).commit()
    commit(cells, TagChange(after=(ONE, TWO)))
    refs = table(cells).metadata.refs
    assert refs[ONE].snapshot_id == refs["mine"].snapshot_id == first
    assert cut_tags(table(cells)).keys() == {TWO}


def test_tags_alone_are_changed_at_the_version_that_was_looked_at(cells: Cells) -> None:
    first = commit(cells, None)
    assert change_tags(cells.catalog, cells.identifier, first, TagChange(before=(ONE,)))
    assert not change_tags(cells.catalog, cells.identifier, first, TagChange(frozenset({ONE}), (ONE,))), "nothing to do"
    commit(cells, TagChange(frozenset({ONE})))
    assert not change_tags(cells.catalog, cells.identifier, first, TagChange(before=(TWO,)))
    assert cut_tags(table(cells)) == {ONE: first}
    assert not change_tags(cells.catalog, ("nobody", "there"), first, TagChange(before=(TWO,)))


def test_a_commit_that_is_refused_brings_no_tag(cells: Cells) -> None:
    first = commit(cells, TagChange(after=(ONE,)))
    commit(cells, None)
    with pytest.raises(StaleGenerationError):
        replace(
            cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "late"),
            assertion=stands_at(first), tags=TagChange(after=(TWO,)),
        )  # fmt: skip
    assert cut_tags(table(cells)) == {ONE: first}
