"""Tables of a real PostgreSQL without a primary key whose replica identity is an index: old rows tell its columns alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.problems import Completeness, Reason
from dts_assets.model.tables import TableId
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions
from tests.dts_emulator.postgresql.followed_postgresql import (
    Followed,
    faults,
    followed_postgresql,
    followed_server,
    recorded,
    recorded_by_dts,
    snapshot_rows,
)
from tests.dts_emulator.postgresql.told_by_rows import make_in_any_order
from tests.flows.harness import Harness
from tests.tiers import times

pytestmark = [pytest.mark.database, pytest.mark.more]

CREATE = (
    "CREATE TABLE t (note text, k int NOT NULL, part text NOT NULL, n int)", "CREATE UNIQUE INDEX t_k ON t (k, part)",
    "ALTER TABLE t REPLICA IDENTITY USING INDEX t_k",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with followed_server() as url:
        yield url


@pytest.fixture
def followed(server: str) -> Iterator[Followed]:
    with followed_postgresql(server) as found:
        yield found


def statement(random: Random) -> str:
    """What an application does next."""
    note, n, part = random.choice(["'a'", "'b'", "NULL"]), random.choice(["1", "2", "NULL"]), random.choice("xy")
    one, other = random.randrange(9), random.randrange(9, 40)
    return random.choice(
        [
            f"INSERT INTO t VALUES ({note}, {one}, '{part}', {n}) ON CONFLICT DO NOTHING",
            f"INSERT INTO t VALUES ({note}, {one}, '{part}', {n}) ON CONFLICT (k, part) DO UPDATE SET n = {n}",
            f"UPDATE t SET n = {n} WHERE k = {one}",
            f"UPDATE t SET k = {other}, note = {note} WHERE k = {one} AND NOT EXISTS (SELECT FROM t WHERE k = {other})",
            f"DELETE FROM t WHERE k = {one} OR k > 30",
        ]
    )


def lived(followed: Followed, seed: int, *altered: str) -> None:
    random = Random(seed)
    followed.run(*CREATE, *altered, *(statement(random) for _ in range(times(150, 400))))
    followed.read()


@pytest.mark.parametrize("backwards", [False, True])
def test_the_columns_of_the_index_find_the_row(followed: Followed, tmp_path: Path, *, backwards: bool) -> None:
    lived(followed, 1)
    harness = recorded_by_dts(followed, tmp_path, PostgresqlDtsOptions())
    harness.raw()
    harness.entries()
    windows = sorted({row.window for row in harness.pipeline.ledger.windows()}, reverse=backwards)
    assert len(windows) > 1
    for window in windows:
        harness.tables_of([window])
    harness.settle()
    assert not (wrong := faults(harness, followed)), "\n".join(wrong)
    assert not harness.pipeline.ledger.quarantine()


def assert_named(harness: Harness) -> None:
    """Each change that tells too little has a row in quarantine, and its window is incomplete."""
    harness.settle()
    rows = harness.pipeline.ledger.quarantine()
    assert {(row.stage, row.reason) for row in rows} == {("snapshot", Reason.AMBIGUOUS)}
    concerned = {row.window_start for row in rows}
    cuts = harness.pipeline.ledger.cuts()
    assert {row.window.start for row in cuts if row.completeness is Completeness.INCOMPLETE} == concerned


@pytest.mark.parametrize("old_key", ["nil", "none"])
def test_old_rows_that_may_tell_less_than_they_seem_to_are_named(
    followed: Followed, tmp_path: Path, old_key: str
) -> None:
    lived(followed, 2)
    assert_named(recorded_by_dts(followed, tmp_path, PostgresqlDtsOptions(old_key=old_key)))  # type: ignore[arg-type]


def test_an_update_of_drs_that_keeps_the_index_tells_no_old_row(followed: Followed, tmp_path: Path) -> None:
    lived(followed, 3)
    assert_named(recorded(followed, tmp_path))


BESIDE = (
    "INSERT INTO t VALUES ('a', 1, 'x', 1), ('a', 2, 'x', 2), ('a', 3, 'x', 1), ('a', 4, 'x', 1), ('a', 5, 'x', NULL)",
    "UPDATE t SET k = 12, n = 1 WHERE k = 2",  # comes into the filter
    "UPDATE t SET k = 15 WHERE k = 5", "DELETE FROM t WHERE k = 15",  # outside of it
    "DELETE FROM t WHERE k = 1", "UPDATE t SET k = 13, n = 2 WHERE k = 3", "UPDATE t SET k = 14 WHERE k = 4",
)  # fmt: skip


@pytest.mark.parametrize("by", ["dts", "drs"])
def test_a_row_filter_beside_the_index_leaves_no_row_without_a_name(
    followed: Followed, tmp_path: Path, by: str
) -> None:
    """NULL in an old row does not say that the row was outside of the filter."""
    followed.run(*CREATE, *BESIDE)
    followed.read()
    rows = {"*": "n = 1"}
    if by == "dts":
        harness = recorded_by_dts(followed, tmp_path, PostgresqlDtsOptions(old_key="nil"), rows=rows)
    else:
        harness = recorded(followed, tmp_path, rows=rows)
    assert_named(harness)
    details = [row.detail.split(" at ")[0].split()[-1] for row in harness.pipeline.ledger.quarantine()]
    assert sorted(details) == ["DELETE", "DELETE", "UPDATE"]
    found = snapshot_rows(harness, TableId("" if by == "dts" else "shop", "public", "t"), ["k"])
    assert found == Counter([(1,), (3,), (4,), (12,)]), "three that are named, and the one that came in"


def test_a_row_filter_of_whole_old_rows_takes_null_for_null(followed: Followed, tmp_path: Path) -> None:
    lived(followed, 4, "ALTER TABLE t REPLICA IDENTITY FULL")
    harness = recorded_by_dts(followed, tmp_path, PostgresqlDtsOptions(), rows={"*": "n = 1"})
    harness.settle()
    assert not harness.pipeline.ledger.quarantine()
    names = ["note", "k", "part", "n"]
    expected = Counter({row: count for row, count in followed.rows("public", "t").items() if row[3] == 1})
    assert snapshot_rows(harness, TableId("", "public", "t"), names) == expected


@pytest.mark.parametrize("old_key", ["na", "nil"])
def test_a_row_filter_beside_the_primary_key(followed: Followed, tmp_path: Path, old_key: str) -> None:
    lived(followed, 5, "ALTER TABLE t REPLICA IDENTITY DEFAULT", "ALTER TABLE t ADD PRIMARY KEY USING INDEX t_k")
    options = PostgresqlDtsOptions(old_key=old_key)  # type: ignore[arg-type]
    harness = recorded_by_dts(followed, tmp_path, options, rows={"*": "n = 1"}, deletes="soft")
    harness.settle()
    names = ["note", "k", "part", "n"]
    expected = Counter({row: count for row, count in followed.rows("public", "t").items() if row[3] == 1})
    found = snapshot_rows(harness, TableId("", "public", "t"), [*names, "_deleted_at"])
    assert Counter(row[:4] for row in found if row[4] is None) == expected
    assert {row[3] for row in found} == {1}, "no row that never passed stays as a deleted one"


WAYS = ["na", "nil", "none", "full"]


@pytest.mark.parametrize("old_key", WAYS)
def test_deleted_rows_beside_the_primary_key_keep_their_values(
    followed: Followed, tmp_path: Path, old_key: str
) -> None:
    """Whatever an old row has beside the key; a whole one has NULL that was stored."""
    followed.run(*CREATE, "ALTER TABLE t ADD PRIMARY KEY USING INDEX t_k")
    followed.run(f"ALTER TABLE t REPLICA IDENTITY {'FULL' if old_key == 'full' else 'DEFAULT'}")
    large = "md5(g::text)"
    followed.run(
        "INSERT INTO t VALUES ('a', 1, 'x', 1), (NULL, 2, 'x', 2), ('c', 3, 'x', NULL), (NULL, 4, 'x', NULL)",
        f"INSERT INTO t SELECT string_agg({large}, ''), 5, 'x', 5 FROM generate_series(1, 300) g",
        "UPDATE t SET n = 7 WHERE k = 1", "UPDATE t SET note = NULL WHERE k = 1", "DELETE FROM t WHERE k IN (1, 2)",
        "UPDATE t SET k = 13 WHERE k = 3", "DELETE FROM t WHERE k = 13", "DELETE FROM t WHERE k = 4",
        "UPDATE t SET n = 6 WHERE k = 5", "UPDATE t SET k = 15 WHERE k = 5", "DELETE FROM t WHERE k = 15",
    )  # fmt: skip
    followed.read()
    options = PostgresqlDtsOptions() if old_key == "full" else PostgresqlDtsOptions(old_key=old_key)  # type: ignore[arg-type]
    harness = recorded_by_dts(followed, tmp_path, options, deletes="soft", history=["*"])
    harness.settle()
    note = "".join(md5(str(number).encode()).hexdigest() for number in range(1, 301))
    expected = {
        (None, 1, 7), (None, 2, 2), ("c", 3, None), ("c", 13, None), (None, 4, None), (note, 5, 6), (note, 15, 6),
    }  # fmt: skip
    found = snapshot_rows(harness, TableId("", "public", "t"), ["note", "k", "n", "_deleted_at"])
    assert {row[:3] for row in found} == expected
    assert None not in {row[3] for row in found}
    versions = harness.rows("history", *TableId("", "public", "t").path)
    assert expected <= {(row["note"], row["k"], row["n"]) for row in versions}
    assert {row["k"]: row["note"] for row in versions if row["k"] > 4 and row["k"] != 13} == {5: note, 15: note}


LAYERS: dict[str, dict[str, Any]] = {
    "all": {"deletes": "soft", "history": ["*"], "sql": {"tables": ["*"], "dialect": "postgresql"}},
    "filtered": {"deletes": "soft", "history": ["*"], "rows": {"*": "n = 1 OR note IS NULL"}},
    "dropped": {"deletes": "soft", "columns": {"*.note": "drop"}, "sql": {"tables": ["*"], "dialect": "postgresql"}},
}
FACTS = ("changelog", "snapshot", "history", "sql")


@pytest.mark.parametrize("layers", LAYERS)
def test_null_beside_the_primary_key_says_as_much_as_no_value(followed: Followed, tmp_path: Path, layers: str) -> None:
    lived(followed, 6, "ALTER TABLE t REPLICA IDENTITY DEFAULT", "ALTER TABLE t ADD PRIMARY KEY USING INDEX t_k")
    found = []
    for old_key in ("na", "nil"):
        options = PostgresqlDtsOptions(old_key=old_key)
        harness = recorded_by_dts(followed, tmp_path / old_key, options, **LAYERS[layers])
        make_in_any_order(harness, followed, Random(old_key))
        assert not harness.pipeline.ledger.quarantine()
        everything = harness.everything(without=("_made_by",))
        found.append({path: rows for path, rows in everything.items() if path.startswith(FACTS)})
    assert found[0] == found[1]
    assert all(found[0].values())


@pytest.mark.parametrize("old_key", ["na", "nil"])
def test_an_index_beside_the_primary_key_finds_no_row(followed: Followed, tmp_path: Path, old_key: str) -> None:
    followed.run(
        *CREATE, "ALTER TABLE t ADD COLUMN id int PRIMARY KEY",
        "INSERT INTO t VALUES ('a', 1, 'x', 1, 1), ('b', 2, 'x', NULL, 2), ('c', 3, 'x', 3, 3)",
        "UPDATE t SET k = 12, note = 'd' WHERE id = 2", "UPDATE t SET n = 4 WHERE id = 3", "DELETE FROM t WHERE id = 1",
    )  # fmt: skip
    followed.read()
    options = PostgresqlDtsOptions(old_key=old_key, partitioning="table")  # type: ignore[arg-type]
    harness = recorded_by_dts(followed, tmp_path, options, deletes="soft")
    harness.settle()
    changes = harness.rows("changelog", *TableId("", "public", "t").path)
    (absent,) = (row["absent"] for row in changes if row["op"] == "delete")
    assert absent == ["before.note", "before.n", "before.id"], "it is counted as a change of nobody knows which row"
    found = snapshot_rows(harness, TableId("", "public", "t"), ["note", "k", "n", "id", "_deleted_at"])
    assert found == Counter([("a", 1, 1, 1, None), ("d", 12, None, 2, None), ("c", 3, 4, 3, None)])
