"""A real MySQL copied while it is written to, and its topic: the lake is the database, judged by its own dump and sums."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dts_assets.errors.sources import DatabaseError
from dts_assets.flows import database_copies
from dts_assets.flows.copying import copy_tables
from dts_assets.flows.verification import verify
from dts_assets.model.copied_tables import CopyKind, CopyState
from dts_assets.model.database_places import DatabasePlace
from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_emulator.source.private_mysql import mysql_program
from tests.e2e.busy_shop import DATABASE, EMPTY, GOODS, LINES, PASSWORD, USER, Shop, busy_shop
from tests.e2e.copied_shops import copy, copying, judge, opened
from tests.flows.harness import Bench
from tests.flows.verified_source import place_of
from tests.mysql.servers import summing_mysql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


@pytest.fixture
def shop() -> Iterator[Shop]:
    with busy_shop(start=summing_mysql) as running:
        yield running


@pytest.fixture
def bench(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path) -> Bench:
    return Bench(spark, spark_lake, tmp_path, f"mysql_{abs(hash(tmp_path)) % 10**9}")


def test_a_database_that_is_written_to_is_copied_and_followed(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness = opened(bench, shop, tmp_path)
    with shop.written():
        report = copy(harness)
        resynced = copy_tables(copying(harness), CopyKind.RESYNC, [GOODS, LINES])
    assert not report.failed
    assert {one.table for one in report.copied} == {GOODS, LINES, EMPTY}
    assert [one.state for one in resynced.copied] == [CopyState.COPIED] * 2
    goods = next(one for one in report.copied if one.table == GOODS)
    assert len(goods.chunks) > 3
    assert PASSWORD not in "".join(harness.lines) + repr(report)
    made = judge(bench, shop, tmp_path)
    found = verify(made.pipeline, place_of(shop.server), timeout=5)
    assert {table: (one.is_equal, one.refused) for table, one in found.verdicts.items()} == dict.fromkeys(
        (GOODS, LINES, EMPTY), (True, "")
    )


def test_both_drivers_ask_for_tls_in_whatever_spelling(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    """The account may not log in without: PyMySQL asks the questions, and Spark's driver reads the rows."""
    with shop.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")  # the shop has a time of its own
        cursor.execute(f"ALTER USER {USER}@'127.0.0.1' REQUIRE SSL")
    jdbc = shop.bootstrap["from"]["jdbc"]  # type: ignore[index]
    with pytest.raises(
        DatabaseError, match="Spark's driver cannot read it"
    ):  # on this machine it asks for no TLS by itself
        copy_tables(copying(opened(bench, shop, tmp_path)), CopyKind.BOOTSTRAP, [EMPTY])
    url = f"{jdbc['url']}?ssl-mode=REQUIRED"
    harness = opened(bench, shop, tmp_path, **{"from": {"jdbc": {**jdbc, "url": url}}})
    (copied,) = copy_tables(copying(harness), CopyKind.BOOTSTRAP, [GOODS]).copied
    assert (copied.state, copied.rows) == (CopyState.COPIED, shop.rows)


def test_a_busy_table_without_a_key_asks_for_a_lock(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    """The account may not lock, and the server is written to all the time: the other tables are copied."""
    with shop.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")  # the shop has a time of its own
        cursor.execute(f"REVOKE RELOAD ON *.* FROM {USER}@'127.0.0.1'")
    harness = opened(bench, shop, tmp_path)
    with shop.written(pause=0.02):
        report = copy(harness)
    assert {one.table for one in report.copied} == {GOODS, EMPTY}
    assert list(report.failed) == [LINES]
    assert "grant RELOAD" in report.failed[LINES]
    (lines,) = copy_tables(copying(harness), CopyKind.BOOTSTRAP, [LINES]).copied
    assert lines.state is CopyState.COPIED
    assert any("without a lock" in line for line in harness.lines)
    judge(bench, shop, tmp_path)


def test_a_table_without_a_key_that_is_altered_at_its_moment_is_copied_again(
    bench: Bench, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def altered(place: DatabasePlace) -> Iterator[SourceMoment]:
        with moment_of(place) as moment:
            with shop.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")  # the shop has a time of its own
                cursor.execute("ALTER TABLE `lines` COMMENT 'altered', FORCE")
            yield moment

    harness = opened(bench, shop, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(database_copies, "moment_of", altered)
        failed = copy_tables(copying(harness), CopyKind.BOOTSTRAP, [LINES]).failed
    assert "its definition changed while it was read" in failed[LINES]
    assert [one.state for one in harness.pipeline.ledger.copied_tables()] == [CopyState.CANCELLED]
    assert not copy(harness).failed
    judge(bench, shop, tmp_path)


def test_a_dump_of_mysqls_own_tool_is_a_copy(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    with shop.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("UPDATE goods SET f = id % 1000")  # a dump has a FLOAT's text, with six digits
    with shop.written():
        time.sleep(0.3)
        command = (
            *mysql_program("mysqldump"), "--no-defaults", f"--socket={shop.server.socket}", "--user=root", "--single-transaction",
            "--source-data=2", "--databases", DATABASE, "--net-buffer-length=16384",
        )  # fmt: skip
        with dump.open("wb") as out:
            subprocess.run(command, stdout=out, check=True)
        time.sleep(0.3)
    report = copy(opened(bench, shop, tmp_path, **{"from": {"mysqldump": str(dump)}}))
    assert not report.failed
    assert {one.table for one in report.copied} == {GOODS, LINES, EMPTY}
    judge(bench, shop, tmp_path)
