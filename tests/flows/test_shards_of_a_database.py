"""Shards of a real MariaDB as one table: behind each window the union of all shards, as the server shows them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from tests.flows.in_process import bench_in_process
from tests.tiers import times

pytestmark = [pytest.mark.database, pytest.mark.more]

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
EVERY = timedelta(seconds=60)
WINDOWS = 4
OPTIONS = DtsOptions(partitions=2)
SHARDS = [f"shop_{database:02}.orders_{number:04}" for database in range(3) for number in range(1, 4)]
COLUMNS = ("id", "amount", "note", "late")
CREATE = """CREATE TABLE {} (id INT PRIMARY KEY AUTO_INCREMENT, amount DECIMAL(9,2), note VARCHAR(20) CHARACTER SET gbk,
    late INT) CHARACTER SET utf8mb4"""


def statements(random: Random) -> Iterator[str]:
    """One step of work: rows, and now and then a shard that is emptied, made anew, or taken away with its database."""
    shard, pick = random.choice(SHARDS), random.random()
    database = shard.partition(".")[0]
    if pick < 0.45:
        rows = ", ".join(f"({random.randrange(900) / 7:.2f}, '第{random.randrange(9)}')" for _ in range(3))
        yield f"INSERT INTO {shard} (amount, note) VALUES {rows}"
    elif pick < 0.65:
        yield f"UPDATE {shard} SET amount = amount + 1, note = NULL WHERE id % 3 = {random.randrange(3)}"
    elif pick < 0.75:
        yield f"UPDATE {shard} SET id = id + 1000 WHERE id = (SELECT m FROM (SELECT MAX(id) AS m FROM {shard}) AS x)"
    elif pick < 0.88:
        yield f"DELETE FROM {shard} WHERE id % 5 = {random.randrange(5)}"
    elif pick < 0.94:
        yield f"TRUNCATE TABLE {shard}"
    elif pick < 0.98:
        yield f"DROP TABLE {shard}"
        yield CREATE.format(shard)
    else:
        yield f"DROP DATABASE {database}"
        yield f"CREATE DATABASE {database}"
        for one in SHARDS:
            if one.startswith(database):
                yield CREATE.format(one)


def content(cursor: Any) -> list[str]:
    found = []
    for shard in SHARDS:
        cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM {shard}")
        found += [repr((*shard.split("."), *row)) for row in cursor.fetchall()]
    return sorted(found)


def work(server: Server, random: Random) -> list[list[str]]:
    """The content behind each window."""
    after = []
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in (
            *(f"CREATE DATABASE shop_{number:02}" for number in range(3)), *map(CREATE.format, SHARDS),
            "CREATE DATABASE other", "CREATE TABLE other.orders_0001 (id INT PRIMARY KEY)",
        ):  # fmt: skip
            cursor.execute(f"SET TIMESTAMP = {START.timestamp():.0f}")
            cursor.execute(statement)
        for window in range(WINDOWS):
            for step in range(25):
                cursor.execute(f"SET TIMESTAMP = {(START + window * EVERY).timestamp() + 1 + 2 * step:.0f}")
                for statement in statements(random):
                    cursor.execute(statement)
                connection.commit()
            cursor.execute("INSERT INTO other.orders_0001 VALUES (%s)", (window,))
            connection.commit()
            after.append(content(cursor))
    return after


@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_a_merged_table_is_the_union_of_the_shards_of_a_server(seed: int, tmp_path: Path) -> None:
    with private_server() as server:
        after = work(server, Random(8 + seed))
        end = START + (WINDOWS + 1) * EVERY
        write_capture(record(server, OPTIONS, until=int(end.timestamp())), tmp_path / "capture", topic=OPTIONS.topic)
    harness = bench_in_process(tmp_path / "lake", "database").open(
        tmp_path / "capture", partitions=OPTIONS.partitions, window={"every": EVERY, "start": START, "end": None},
        merge={"shop.orders": ["shop_*.orders_*"]},
    )  # fmt: skip

    def shown() -> list[str]:
        names = ("_source_database", "_source_table", *COLUMNS)
        return sorted(repr(tuple(row[name] for name in names)) for row in harness.rows("snapshot", "shop", "orders"))

    for window in range(WINDOWS):
        harness.all(window)
        assert shown() == after[window]
    assert all(len(rows) > 5 for rows in after)
    for window in (1, 3, 0):
        harness.all(window)
    harness.settle()
    assert shown() == after[-1]
    operations = {row["op"] for row in harness.rows("changelog", "shop", "orders")}
    assert operations == {"insert", "update", "delete", "truncate"}
