"""Children of foreign keys are not proven from the first change of a parent on that the server may pass on without events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.unproven import unseen_now
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, delete, insert, items, move, open_short, short_source, update
from tests.flows.source import Ddl, Source
from tests.flows.source_tables import Table
from tests.flows.test_window_facts import made, told, verdicts

PARENT = "CREATE TABLE parents (id INT PRIMARY KEY, n INT, note TEXT)"
CHILD = "CREATE TABLE {} (id INT PRIMARY KEY, n INT, note TEXT, CONSTRAINT fk_{} FOREIGN KEY (n) REFERENCES {} (id) {})"
CASCADE = "ON DELETE CASCADE ON UPDATE CASCADE"


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "keys")


def family(rules: str = CASCADE, *more: str) -> Source:
    """Parents with children, and whoever else has statements of their own; each table has rows in the first window."""
    source = short_source(items("parents"), items("children"), *(items(one.split()[2]) for one in more))
    for sql in (PARENT, CHILD.format("children", "children", "parents", rules), *more):
        source.transaction(border(0) + SECOND, Ddl(sql))
    for name in source.tables:
        insert(source, border(0) + 2 * SECOND, range(6), table=name, n=1)
    source.checkpoint(border(0) + 300 * SECOND)
    return source


def close(source: Source, *windows: int) -> None:
    for window in windows:
        source.checkpoint(border(window) + 300 * SECOND)


def reasons(harness: Harness) -> dict[str, str]:
    return {table.table: said for table, said in unseen_now(harness.pipeline).reasons.items()}


def position_of(source: Source, table: str, operation: str, window: int = 1) -> str:
    """The place of the first such change from a window on."""
    file, at = min(
        one.position
        for one in source.changes
        if (one.table, one.operation) == (table, operation) and one.event_time >= border(window)
    )
    return f"0:{file}:{at}: "


@pytest.mark.more
def test_children_and_theirs_are_not_proven_from_the_delete_of_a_parent_on(bench_of: Bench, tmp_path: Path) -> None:
    grand = CHILD.format("grandchildren", "grandchildren", "children", "ON DELETE SET NULL")
    other = CHILD.format("others", "others", "parents", "ON DELETE RESTRICT")
    source = family(CASCADE, grand, other)
    delete(source, border(1) + SECOND, (1, 2), table="parents")
    close(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    assert reasons(harness) == {}
    harness.all(1)
    found, at = reasons(harness), position_of(source, "parents", "delete")
    assert found.keys() == {"children", "grandchildren"}
    assert all(said.startswith(at) for said in found.values())
    assert "the foreign key fk_children (ON DELETE CASCADE ON UPDATE CASCADE)" in found["children"]
    assert "the foreign key fk_grandchildren (ON DELETE SET NULL)" in found["grandchildren"]


def _drop_key(source: Source, at: datetime) -> None:
    source.transaction(at, Ddl("ALTER TABLE children DROP FOREIGN KEY fk_children"))


def _rename(source: Source, at: datetime) -> None:
    """The parent and the child get other names; the rows that the model has go with them."""
    source.transaction(at, Ddl("RENAME TABLE parents TO elders, children TO heirs"))
    for old, new in (("parents", "elders"), ("children", "heirs")):
        source.tables[new] = Table(new, source.tables[old].columns)
        source.rows[new] = source.rows.pop(old)
        del source.tables[old]


def _truncate(source: Source, at: datetime) -> None:
    delete(source, at, (1,), table="parents")
    source.transaction(at + SECOND, Ddl("TRUNCATE TABLE children"))
    source.rows["children"].clear()


SCENES: Mapping[str, tuple[str, Sequence[Callable[[Source, datetime], None]], set[str]]] = {
    "a key moves, and the rule is for deletes": (
        "ON DELETE CASCADE", [lambda source, at: move(source, at, {1: 101}, table="parents")], set(),
    ),
    "a key moves": ("ON UPDATE SET NULL", [lambda source, at: move(source, at, {1: 101}, table="parents")], {"children"}),
    "another column changes": (CASCADE, [lambda source, at: update(source, at, {1: 5}, table="parents")], set()),
    "a delete, and the rule is for updates": (
        "ON UPDATE CASCADE", [lambda source, at: delete(source, at, (1,), table="parents")], set(),
    ),
    "the key was dropped before": (CASCADE, [_drop_key, lambda source, at: delete(source, at, (1,), table="parents")], set()),
    "both have other names": (CASCADE, [_rename, lambda source, at: delete(source, at, (1,), table="elders")], {"heirs"}),
    "names change behind the delete": (
        CASCADE, [lambda source, at: delete(source, at, (1,), table="parents"), _rename], {"heirs"},
    ),
    "the child loses all rows behind the delete": (CASCADE, [_truncate], set()),
    "a name in another case, as lower_case_table_names allows": (
        "ON DELETE RESTRICT, FOREIGN KEY (note) REFERENCES Parents (ID) ON DELETE CASCADE",
        [lambda source, at: delete(source, at, (1,), table="parents")], {"children"},
    ),
    "a table refers to itself": (
        "ON DELETE CASCADE, FOREIGN KEY (id) REFERENCES children (n) ON DELETE CASCADE",
        [lambda source, at: delete(source, at, (1,), table="children")], {"children"},
    ),
}  # fmt: skip


@pytest.mark.more(after=2)
@pytest.mark.parametrize("scene", SCENES)
def test_only_changes_that_a_rule_passes_on_count(scene: str, bench_of: Bench, tmp_path: Path) -> None:
    rules, steps, expected = SCENES[scene]
    source = family(rules)
    for number, step in enumerate(steps):
        step(source, border(1) + (10 * number + 1) * SECOND)
    insert(source, border(1) + 100 * SECOND, (50,), table=[*source.tables][-1])
    close(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2)
    harness.all(0, 1)
    assert reasons(harness).keys() == expected


@pytest.mark.more
def test_the_verdict_of_each_window_is_the_same_in_all_pieces_and_orders(tmp_path: Path) -> None:
    source = family()
    insert(source, border(1) + SECOND, (60,), table="children")
    close(source, 1)
    delete(source, border(2) + SECOND, (1,), table="parents")
    close(source, 2)
    insert(source, border(3) + SECOND, (61,), table="children")
    close(source, 3)
    expected = [(0, True, "WARN"), (1, True, "WARN"), (2, False, "ERROR"), (3, False, "ERROR")]
    pieces: Sequence[Sequence[Iterable[int]]] = ([range(4)], [[0], [1], [2], [3]], [[0, 1], [2, 3]])
    bench = bench_in_process(tmp_path, "pieces")
    for number, some in enumerate(pieces):
        harness = open_short(bench, tmp_path / f"capture_{number}", source.messages, windows=4)
        found: dict[Any, tuple[bool, str]] = {}
        for piece in some:
            found |= verdicts(made(harness, *piece))
        assert told(found, table="children") == expected, "a change that nobody sees is one of its table"
        assert all(passed for _, passed, _ in told(found, table="parents"))
        assert reasons(harness)["children"].startswith(position_of(source, "parents", "delete", 2))
    late = open_short(bench, tmp_path / "late", source.messages, windows=4)
    for window in (3, 2, 0, 1):
        late.all(window)
    late.settle()
    assert reasons(late) == reasons(harness)


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    "settings",
    [
        {"rows": {"bank.parents": "id > 3"}},
        {"columns": {"bank.parents.id": {"hash": {"key": "0123456789abcdef"}}}},
        {"rename": {"bank.parents": "shop.parents"}},
        {"merge": {"bank.all": ["bank.parents", "bank.children"]}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_rules_and_routes_do_with_a_parent_changes_nothing(
    settings: dict[str, Any], bench_of: Bench, tmp_path: Path
) -> None:
    """A delete that a row filter leaves out is passed on all the same."""
    source = family()
    delete(source, border(1) + SECOND, (1,), table="parents")
    close(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2, **settings)
    harness.all(0, 1)
    (said,) = reasons(harness).values()
    assert said.startswith(position_of(source, "parents", "delete"))


@pytest.mark.more
def test_columns_beside_the_primary_key_count_where_a_foreign_key_refers_to_them(
    bench_of: Bench, tmp_path: Path
) -> None:
    source = short_source(items("parents"), items("children"), items("others"))
    key = "CREATE TABLE {} (id INT PRIMARY KEY, n INT, note TEXT, FOREIGN KEY (n) REFERENCES parents ({}) ON UPDATE CASCADE)"
    for sql in (PARENT, key.format("children", "n"), key.format("others", "note")):
        source.transaction(border(0) + SECOND, Ddl(sql))
    for name in source.tables:
        insert(source, border(0) + 2 * SECOND, range(6), table=name, n=1)
    close(source, 0)
    update(source, border(1) + SECOND, {3: 1, 4: 9}, table="parents")
    close(source, 1)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=2)
    harness.all(0, 1)
    assert list(reasons(harness)) == ["children"]
    assert "the foreign key children_ibfk_1 (ON UPDATE CASCADE)" in reasons(harness)["children"]


@pytest.mark.more
def test_children_of_a_parent_that_is_not_taken_are_not_proven_from_the_start(bench_of: Bench, tmp_path: Path) -> None:
    grand = CHILD.format("grandchildren", "grandchildren", "children", "ON DELETE CASCADE")
    source = family(CASCADE, grand)
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, tables={"exclude": ["*.parents"]})
    harness.all(0)
    found = reasons(harness)
    assert found.keys() == {"children", "grandchildren"}
    assert all("changes its rows without events" in said for said in found.values())
    assert "by changes of bank.parents, of which the lake has none" in found["children"]


@pytest.mark.more
def test_what_the_server_logs_is_proven_and_what_people_accept_fails_no_check(bench_of: Bench, tmp_path: Path) -> None:
    source = family()
    delete(source, border(1) + SECOND, (1,), table="parents")
    close(source, 1)
    for number, (setting, names) in enumerate({"logged": set[str](), "accepted": {"children"}}.items()):
        harness = open_short(
            bench_of, tmp_path / f"capture_{number}", source.messages, windows=2, source={"foreign_keys": setting}
        )
        found = verdicts(made(harness, 0, 1))
        assert reasons(harness).keys() == names
        assert all(passed for passed, _ in found.values())
