"""Tables of a real PostgreSQL, followed by its logical decoding and DTS Protobuf, end equal to the database.

The vendor does not say what file name and position are for PostgreSQL. So the same is told in every way that is plausible.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.problems import Completeness, ProblemCode
from dts_assets.model.tables import TableId
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions
from tests.dts_emulator.postgresql.every_type import BORDERS, fill_every_type
from tests.dts_emulator.postgresql.followed_postgresql import (
    Followed,
    faults,
    followed_postgresql,
    followed_server,
    recorded_by_dts,
)
from tests.dts_emulator.postgresql.postgresql_workload import PostgresqlWorkload
from tests.dts_emulator.postgresql.side_by_side import run_side_by_side
from tests.dts_emulator.postgresql.told_by_rows import (
    MADE,
    NOT_TOLD,
    TOLD_BY_ROWS,
    assert_not_proven,
    change_twins,
    make_in_any_order,
    run_apart,
)
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


@pytest.mark.more(after=1)
@pytest.mark.parametrize("json_as", ["json", "text"])
def test_every_type_has_the_values_of_the_database(followed: Followed, tmp_path: Path, json_as: Any) -> None:
    fill_every_type(followed)
    harness = recorded_by_dts(followed, tmp_path, PostgresqlDtsOptions(json_as=json_as, lengths=json_as == "json"))
    harness.settle()
    assert not (wrong := faults(harness, followed, lengths=json_as == "json")), "\n".join(wrong)
    snapshot = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", TableId("", "public", "every")))
    assert snapshot is not None
    assert len(snapshot.column_names) > len(BORDERS)


PLACES: list[dict[str, Any]] = [
    {"files": "segment"}, {"files": "none"}, {"files": "offset"}, {"files": "commit"}, {"positions": "commit"},
    {"positions": "commit", "files": "segment"},
]  # fmt: skip
WAYS: list[dict[str, Any]] = [
    {"partitions": 2, "max_message_bytes": 600, "restart_every": 7},
    {"old_key": "none", "restart_every": 5, "reread": 0},
    {"old_key": "nil", "partitions": 4, "transaction_boundaries": "touched", "linger_ms": 200_000, "partitioning": "table"},
    {"max_message_bytes": 90, "lengths": False, "shard_id": "set-1", "restart_every": 3, "key_change_routing": "new"},
]  # fmt: skip
RUNS = [
    (place, way, seed)
    for seed in range(2)
    for way in range(len(WAYS))
    for place in range(seed + way, len(PLACES) + seed + way, 2)
]


@pytest.mark.more
@pytest.mark.parametrize(("place", "way", "seed"), chosen([(0, 0, 0), (1, 1, 0), *RUNS], 2))
def test_a_busy_database_is_in_the_snapshots_in_any_order_of_windows(
    followed: Followed, tmp_path: Path, place: int, way: int, seed: int
) -> None:
    options = PostgresqlDtsOptions(**PLACES[place % len(PLACES)], **WAYS[way])
    random = Random(100 * seed + 10 * way + place)
    workload = PostgresqlWorkload(followed, random)
    workload.create()
    for _ in range(times(80, 300)):
        workload.transaction()
    followed.read()
    harness = recorded_by_dts(followed, tmp_path, options)
    make_in_any_order(harness, followed, random)
    assert not (wrong := faults(harness, followed, lengths=options.lengths)), "\n".join(wrong)
    assert workload.unchanged > 5, "large values were left as they were"
    assert bool(harness.rows("redeliveries")) == (options.restart_every is not None)
    _levels_are_told(harness, options)


@pytest.mark.more
@pytest.mark.parametrize(
    ("place", "restarts", "seed"), chosen([(place, place % 2 * 4, seed) for seed in range(2) for place in range(6)], 2)
)
def test_transactions_that_run_side_by_side_are_in_the_snapshots(
    followed: Followed, tmp_path: Path, place: int, restarts: int, seed: int
) -> None:
    random = Random(10 * seed + place)
    run_side_by_side(followed, random, statements=times(300, 900))
    followed.read()
    earlier = zip(followed.transactions, followed.transactions[1:], strict=False)
    assert sum(one.end_lsn > two.first_lsn for one, two in earlier) > 10, "some begin before others end"
    options = PostgresqlDtsOptions(**PLACES[place], restart_every=restarts or None, partitions=1 + place % 2)
    harness = recorded_by_dts(followed, tmp_path, options)
    make_in_any_order(harness, followed, random)
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)
    assert len(harness.rows("lineages")) == 1, "one server has one log"
    _levels_are_told(harness, options)


def _levels_are_told(harness: Harness, options: PostgresqlDtsOptions) -> None:
    """Windows are contiguous, but where changes share the places of their COMMITs, which is named."""
    by_arrival = options.positions == "commit" and options.files != "commit"
    for row in harness.rows("cuts"):
        named = {problem["code"] for problem in row["problems"]}
        assert named == ({ProblemCode.LINEAGES} if by_arrival else set()), row["problems"]
        assert row["completeness"] == (Completeness.OBSERVED if by_arrival else Completeness.CONTIGUOUS)
        assert row["cut"] is not None


@pytest.mark.more(after=1)
@pytest.mark.parametrize("what", TOLD_BY_ROWS | NOT_TOLD)
def test_a_change_of_columns_shows_by_its_rows_and_is_not_proven(followed: Followed, tmp_path: Path, what: str) -> None:
    """Logical decoding tells no statements."""
    run_apart(followed, (TOLD_BY_ROWS | NOT_TOLD)[what])
    assert_not_proven(recorded_by_dts(followed, tmp_path), followed, is_told=what in TOLD_BY_ROWS)


def test_names_that_differ_in_case_only_are_several_columns(followed: Followed, tmp_path: Path) -> None:
    change_twins(followed)
    harness = recorded_by_dts(followed, tmp_path)
    harness.settle()
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)


def test_a_later_timeline_is_another_server(followed: Followed, tmp_path: Path) -> None:
    """A standby that took over goes on in the log of the first one, or in another one from some place on."""
    followed.run(*MADE, "UPDATE t SET n = 7 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    followed.read()
    earlier = PostgresqlDtsOptions(files="segment")
    later = PostgresqlDtsOptions(files="segment", timeline=2)
    harness = recorded_by_dts(followed, tmp_path, earlier, then=(2, later))
    harness.settle()
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)
    details = [problem["detail"] for row in harness.rows("cuts") for problem in row["problems"]]
    assert any("without GTIDs: what it tells again cannot be known" in one for one in details), details
