"""Tables of a real PostgreSQL, followed by its logical decoding and DRS JSON, end equal to the database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.tables import TableId
from dts_emulator.drs.postgresql_task import PostgresqlOptions
from tests.dts_emulator.postgresql.every_type import BORDERS, fill_every_type
from tests.dts_emulator.postgresql.followed_postgresql import (
    Followed,
    faults,
    followed_postgresql,
    followed_server,
    recorded,
)
from tests.dts_emulator.postgresql.postgresql_workload import PostgresqlWorkload
from tests.dts_emulator.postgresql.told_by_rows import (
    MADE,
    NOT_TOLD,
    TOLD_BY_ROWS,
    assert_not_proven,
    change_twins,
    make_in_any_order,
    run_apart,
)
from tests.dts_emulator.type_page import PAGE, lake_type, shown
from tests.flows.harness import Harness
from tests.tiers import chosen, times

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with followed_server() as url:
        yield url


@pytest.fixture
def followed(server: str) -> Iterator[Followed]:
    with followed_postgresql(server) as found:
        yield found


EVERY = TableId("shop", "public", "every")


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, Followed]]:
    """A table with all types, whose rows have the first, the second, ... of the values of each, and NULL behind the last."""
    with followed_server() as url, followed_postgresql(url) as followed:
        fill_every_type(followed)
        harness = recorded(followed, tmp_path_factory.mktemp("every"))
        harness.settle()
        yield harness, followed


@pytest.mark.more
def test_every_type_has_the_values_of_the_database(every_type: tuple[Harness, Followed]) -> None:
    assert not (wrong := faults(*every_type)), "\n".join(wrong)


@pytest.mark.more
def test_the_page_shows_what_was_found(every_type: tuple[Harness, Followed]) -> None:
    harness, _ = every_type
    snapshot = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", EVERY))
    assert snapshot is not None
    unfit = {row["id"] % 100: dict(row["_invalid"] or ()) for row in snapshot.to_pylist()}
    lines = []
    for number, (kind, texts) in enumerate(BORDERS.items()):
        name = f"c{number}"
        fitting = [text for place, text in enumerate(texts) if name not in unfit[place]]
        others = [text for text in texts if text not in fitting]
        cells = (f"`{kind}`", f"`{lake_type(snapshot, name)}`", shown(fitting), shown(others))
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    missing = [line for line in lines if line not in PAGE.read_text().splitlines()]
    assert not missing, "\n".join(missing)


WAYS: list[dict[str, Any]] = [
    {},
    {"unchanged": "missing", "beside_key": "missing", "partitions": 4, "partition_policy": 2},
    {"unchanged": "untold", "partitions": 2, "pause_every": 7, "repeated": 3},
]
"""Ways in which a task may write, of which the vendor is silent about some. A table without a key has copies that look like other
rows where a task is resumed (decision 0028)."""


@pytest.mark.more
@pytest.mark.parametrize(
    ("way", "seed"), chosen([(1, 0), *((way, seed) for seed in range(1, 9) for way in range(3))], 1)
)
def test_a_busy_database_is_in_the_snapshots_in_any_order_of_windows(
    followed: Followed, tmp_path: Path, way: int, seed: int
) -> None:
    random = Random(10 * seed + way)
    workload = PostgresqlWorkload(followed, random, has_bags=not WAYS[way].get("repeated"))
    workload.create()
    for _ in range(times(80, 300)):
        workload.transaction()
    followed.read()
    harness = recorded(followed, tmp_path, PostgresqlOptions(**WAYS[way]))
    make_in_any_order(harness, followed, random)
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)
    assert workload.unchanged > 5, "large values were left as they were"


CHANGES: dict[str, tuple[str, ...]] = {
    **TOLD_BY_ROWS,
    **NOT_TOLD,
    "a column becomes a text": ("ALTER TABLE t ALTER n TYPE text", "INSERT INTO t VALUES (3, 'x')"),
}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_columns_shows_by_its_rows_and_is_not_proven(followed: Followed, tmp_path: Path, what: str) -> None:
    """DRS sends no statements from PostgreSQL."""
    run_apart(followed, CHANGES[what])
    assert_not_proven(recorded(followed, tmp_path), followed, is_told=what not in NOT_TOLD)


@pytest.mark.more
def test_another_primary_key_is_followed_by_the_events_that_tell_it(followed: Followed, tmp_path: Path) -> None:
    followed.run(*MADE)
    followed.read()
    followed.run("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n)", "INSERT INTO t VALUES (2, 3)")
    followed.run("UPDATE t SET id = 7 WHERE n = 1", "DELETE FROM t WHERE n = 2")
    followed.read()
    harness = recorded(followed, tmp_path)
    harness.settle()
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)


@pytest.mark.more
def test_names_that_differ_in_case_only_are_several_columns(followed: Followed, tmp_path: Path) -> None:
    change_twins(followed)
    harness = recorded(followed, tmp_path)
    harness.settle()
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)
