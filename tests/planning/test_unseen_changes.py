"""Changes that foreign keys pass on from table to table, and the first of them behind a position."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dts_assets.model.foreign_keys import ForeignKey, KeyHistory, KeyPeriod, PositionSpan, joined_spans
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.unseen_changes import TableChange, first_unseen, unseen_changes

WINDOW = datetime(2026, 3, 1, tzinfo=UTC)
PARENT, CHILD, GRANDCHILD = range(3)


def at(number: int) -> SourcePosition:
    return SourcePosition(0, 4, number)


def change(first: int, last: int, *columns: str, window: datetime | None = WINDOW) -> TableChange:
    """Deletes, or changes of columns if any are named."""
    return TableChange(
        PositionSpan(at(first), at(last)), at(0), at(1000), frozenset(columns) if columns else None, window
    )


def key(child: int, parent: int, rules: str, *, since: int = 0, until: int | None = None) -> KeyPeriod:
    """A foreign key on the column ``p`` that refers to ``id`` by rules such as ``CASCADE / SET NULL``."""
    on_delete, on_update = (one.strip() for one in rules.split("/"))
    held = ForeignKey("k", ("p",), "d", "t", ("ID",), on_delete, on_update)
    return KeyPeriod(held, child, parent, at(since), None if until is None else at(until))


def found(keys: list[KeyPeriod], *changes: TableChange, since: int | None = None) -> dict[int, int]:
    """The position of the first change without an event by table."""
    unseen = unseen_changes(KeyHistory(keys=tuple(keys)), {PARENT: changes})
    behind = None if since is None else at(since)
    firsts = {number: first_unseen(some, since=behind) for number, some in unseen.items()}
    return {number: first[0].position for number, first in firsts.items() if first is not None}


BOTH = [key(CHILD, PARENT, "CASCADE / CASCADE"), key(GRANDCHILD, CHILD, "SET NULL / ")]


@pytest.mark.parametrize(
    ("keys", "what", "expected"),
    [
        (BOTH, change(10, 20), {CHILD: 10, GRANDCHILD: 10}),
        (BOTH, change(10, 20, "id"), {CHILD: 10}),
        (BOTH, change(10, 20, "other"), {}),
        ([key(CHILD, PARENT, "SET NULL / ")], change(10, 20), {CHILD: 10}),
        ([key(CHILD, PARENT, " / SET NULL")], change(10, 20), {}),
        ([key(CHILD, PARENT, "SET NULL / "), key(GRANDCHILD, CHILD, "CASCADE / ")], change(10, 20), {CHILD: 10}),
        ([key(CHILD, PARENT, "CASCADE / ", since=11)], change(10, 20), {CHILD: 20}),
        ([key(CHILD, PARENT, "CASCADE / ", since=21)], change(10, 20), {}),
        ([key(CHILD, PARENT, "CASCADE / ", until=10)], change(10, 20), {}),
        ([key(CHILD, PARENT, "CASCADE / ", since=12, until=18)], change(10, 20), {CHILD: 12}),
        ([key(CHILD, PARENT, "CASCADE / "), key(PARENT, CHILD, "CASCADE / ")], change(10, 20), {CHILD: 10, PARENT: 10}),
        ([key(PARENT, PARENT, "CASCADE / CASCADE")], change(10, 20), {PARENT: 10}),
        (
            [key(CHILD, PARENT, "CASCADE / "), key(GRANDCHILD, CHILD, "CASCADE / ", since=15)],
            change(10, 10),
            {CHILD: 10},
        ),
    ],
)
def test_a_change_goes_on_by_the_rules_that_hold_where_it_stands(
    keys: list[KeyPeriod], what: TableChange, expected: dict[int, int]
) -> None:
    assert found(keys, what) == expected


def test_changes_behind_a_copy_count_alone() -> None:
    """Inside a span nobody knows where changes stand: its ends are changes, and between others there may be one."""
    keys = [key(CHILD, PARENT, "CASCADE / ")]
    assert found(keys, change(10, 20), since=9) == {CHILD: 10}
    assert found(keys, change(10, 20), since=10) == {CHILD: 20}
    assert found(keys, change(10, 20), since=20) == {}
    assert found(keys, change(10, 20), change(30, 30), since=20) == {CHILD: 30}


def test_a_repaired_child_does_not_mend_its_own_children() -> None:
    unseen = unseen_changes(KeyHistory(keys=(*BOTH,)), {PARENT: [change(10, 20)]})
    assert first_unseen(unseen[CHILD], since=at(25)) is None
    assert first_unseen(unseen[GRANDCHILD], since=None) is not None


def test_a_foreign_key_whose_referenced_columns_are_not_known_passes_on_every_key_that_moves() -> None:
    unnamed = KeyPeriod(ForeignKey("k", ("p",), "d", "t", (), "", "CASCADE"), CHILD, PARENT, at(0))
    assert found([unnamed], change(10, 20, "anything")) == {CHILD: 10}


def test_changes_that_the_lake_does_not_get_may_stand_anywhere_behind_a_copy() -> None:
    """At the end of the window that took the copy they do not count yet."""
    keys = (key(CHILD, PARENT, "CASCADE / ", since=7),)
    unseen = unseen_changes(KeyHistory(keys=keys), {PARENT: [change(0, 1000, window=None)]})[CHILD]
    assert [first[0] for first in [first_unseen(unseen, since=None)] if first is not None] == [at(7)]
    assert [first[0] for first in [first_unseen(unseen, since=at(50))] if first is not None] == [at(51)]
    assert first_unseen(unseen, since=at(50), held_at=WINDOW) is None


def test_spans_are_joined_in_any_order() -> None:
    first, second = PositionSpan(at(3), at(9)), PositionSpan(at(5), at(12))
    assert joined_spans(first, None, second) == joined_spans(second, first) == PositionSpan(at(3), at(12))
    assert joined_spans(None, None) is None
