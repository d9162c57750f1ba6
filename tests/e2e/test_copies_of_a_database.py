"""A real database copied while it is written to, and its topic: the lake is the database, judged by its own dump."""

from __future__ import annotations

import csv
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.copies import cancel_copies
from dts_assets.flows.copying import copy_tables
from dts_assets.flows.moments import tables_at
from dts_assets.flows.moments_export import export_table
from dts_assets.flows.proof import prove
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.flows.verification import verify
from dts_assets.model.copied_tables import CopyKind, CopyState
from dts_assets.planning.source_moments import AtPosition
from dts_emulator.judge.comparison import Verdict, differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.machine.waiting import wait_until
from dts_emulator.source.server import private_server, program
from tests.e2e.busy_shop import DATABASE, EMPTY, EVERY, GOODS, LINES, PASSWORD, START, Shop, busy_shop
from tests.e2e.copied_shops import copy, copying, judge, opened
from tests.flows.harness import Bench
from tests.flows.killing import in_a_process
from tests.flows.verified_source import place_of
from tests.tiers import times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

pytestmark = [pytest.mark.spark, pytest.mark.database]


@pytest.fixture
def shop() -> Iterator[Shop]:
    with busy_shop() as running:
        yield running


@pytest.fixture
def bench(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path) -> Bench:
    return Bench(spark, spark_lake, tmp_path, f"copies_{abs(hash(tmp_path)) % 10**9}")


@pytest.mark.more
def test_a_socket_of_this_machine_does_for_a_copy(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    jdbc = {"url": f"jdbc:mariadb://localhost/?localSocket={shop.server.socket}", "user": shop.server.user}
    report = copy(opened(bench, shop, tmp_path, **{"from": {"jdbc": jdbc}}))
    assert not report.failed
    assert sum(one.rows for one in report.copied) > 5000
    judge(bench, shop, tmp_path)


@pytest.mark.more
def test_a_database_that_is_written_to_is_copied_and_followed(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    """Most rows are in no binlog. Keys move between chunks while these are read, and a table has no key."""
    harness = opened(bench, shop, tmp_path)
    with shop.written():
        report = copy(harness)
        again = copy(harness)
    assert not report.failed
    assert {one.table for one in report.copied} == {GOODS, LINES, EMPTY}
    assert {one.server.startswith("said to be right: no message") for one in report.copied} == {True}
    assert (again.copied, set(again.there)) == ((), {GOODS, LINES, EMPTY})
    goods = next(one for one in report.copied if one.table == GOODS)
    assert len(goods.chunks) > 3
    assert goods.low is not None
    assert goods.high is not None
    assert goods.low < goods.high
    assert PASSWORD not in "".join(harness.lines) + repr(report) + repr(harness.pipeline.ledger.copied_tables())
    made = judge(bench, shop, tmp_path)
    with shop.written(seed=6):
        resynced = copy_tables(copying(made), CopyKind.RESYNC, [GOODS])
    assert [(one.state, one.server) for one in resynced.copied] == [(CopyState.COPIED, "matches")]


@pytest.mark.long
def test_changelogs_with_copies_make_the_snapshots_in_a_scratch_server(
    bench: Bench, shop: Shop, tmp_path: Path
) -> None:
    harness = opened(bench, shop, tmp_path)
    with shop.written():
        copy(harness)
    made = judge(bench, shop, tmp_path)
    with private_server(extra=("--skip-log-bin",)) as empty:
        address = ScratchAddress(socket=str(empty.socket))
        with scratch_server(address, Login()) as server:
            proof = prove(made.pipeline, server)
    assert proof.equal
    assert proof.whole
    assert {name: one.rows_lake == one.rows_server for name, one in proof.tables.items()} == dict.fromkeys(
        (GOODS, LINES, EMPTY), True
    )


@pytest.mark.long
def test_a_copy_that_is_killed_at_any_moment_goes_on(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness, random, killed = opened(bench, shop, tmp_path, chunk_rows=1000, connections=1), Random(3), 0
    copy_tables(copying(harness), CopyKind.BOOTSTRAP, [EMPTY])  # the driver is there then
    with shop.written():
        while killed < times(10, 50):
            ended = in_a_process(harness.session, lambda: copy(harness), kill_after=random.uniform(0.05, 1.5))
            killed += not ended
            if ended:
                tables = {one.table for one in harness.pipeline.ledger.copied_tables() if one.state is CopyState.COPIED}
                assert tables == {GOODS, LINES, EMPTY}
                copy_tables(copying(harness), CopyKind.RESYNC, [LINES])
                break
    while killed < times(10, 50):
        with shop.written(seed=killed):
            ended = in_a_process(
                harness.session,
                lambda: copy_tables(copying(harness), CopyKind.RESYNC, [GOODS]),
                kill_after=random.uniform(0.05, 1.2),
            )
        killed += not ended
    copy(harness)
    copy_tables(copying(harness), CopyKind.RESYNC, [GOODS])
    judge(bench, shop, tmp_path)


@pytest.mark.long
def test_rows_that_move_between_chunks_with_minimal_images_are_counted_and_repaired(
    bench: Bench, shop: Shop, tmp_path: Path
) -> None:
    """The columns of such a row stand in no chunk and in no message."""

    def verdicts() -> tuple[Verdict, ...]:
        found = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", GOODS))
        assert found is not None
        return differences({GOODS: found.scan().to_arrow()}, tmp_path / "content")

    harness, lacking = opened(bench, shop, tmp_path, connections=1), {}

    def moving(line: str) -> None:
        """Behind the first chunk, move rows of the last one into it, and let the random writer do what it likes."""
        if "1 of " in line:
            shop.move(range(3, 9), beyond=4500, image="MINIMAL")
        harness.lines.append(line)

    with shop.written(pause=0.0005, image="MINIMAL"):
        copy_tables(replace(copying(harness), progress=moving), CopyKind.BOOTSTRAP, [GOODS])
    windows = shop.record(tmp_path / "capture")
    harness = opened(bench, shop, tmp_path)
    for number in range(windows):
        harness.raw(number)
        harness.entries(number)
        (goods,) = (one for one in harness.tables(number).tables if one.table == GOODS)
        lacking[harness.windows(number)[0].start] = goods.layers["snapshot"].not_removed
    harness.settle()
    dump_database(shop.server, DATABASE, tmp_path / "content")
    (copied,) = (row for row in harness.pipeline.ledger.window_tables() if row.truncations and row.table == GOODS)
    counted = lacking[copied.window_start]
    (wrong,) = verdicts()
    assert counted is not None
    assert 0 < wrong.differing_rows <= counted.unseen  # a change behind the copy may take a row away
    found = verify(harness.pipeline, place_of(shop.server), timeout=5, tables=[GOODS], repair=True)
    assert found.repaired[GOODS].rows == wrong.differing_rows
    harness.settle()
    assert verdicts() == ()


@pytest.mark.more
def test_a_copy_is_stopped_and_goes_on_or_is_given_up(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness = opened(bench, shop, tmp_path, connections=1)
    asked = iter([False, False, False, True, *[True] * 10])
    stopped = copy_tables(replace(copying(harness), stops=lambda: next(asked)), CopyKind.BOOTSTRAP, [GOODS])
    (one,) = stopped.copied
    assert one.state is CopyState.READING
    assert 0 < len(one.left) < len(one.chunks)
    (done,) = copy_tables(copying(harness), CopyKind.BOOTSTRAP, [GOODS]).copied
    assert (done.copy, done.state) == (one.copy, CopyState.COPIED)
    assert "chunks are left" in "\n".join(harness.lines)
    rows = harness.rows("copies", *GOODS.path)
    assert len(rows) == done.rows == shop.rows
    asked = iter([False, False, True])
    copy_tables(replace(copying(harness), stops=lambda: next(asked)), CopyKind.RESYNC, [GOODS])
    assert [row.state for row in cancel_copies(harness.pipeline, [GOODS])] == [CopyState.READING]
    assert len(harness.rows("copies", *GOODS.path)) == shop.rows


def test_what_goes_wrong_is_said_and_stops_no_other_table(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness = opened(bench, shop, tmp_path, connections=1)

    asked = iter(range(1000))

    def altered() -> bool:
        if next(asked) == 4:  # before the second chunk of goods
            with shop.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
                cursor.execute("ALTER TABLE goods ADD COLUMN later INT")
        return False

    report = copy_tables(replace(copying(harness), stops=altered), CopyKind.BOOTSTRAP)
    assert list(report.failed) == [GOODS]
    assert "its definition changed while it was read" in report.failed[GOODS]
    assert {one.table for one in report.copied} == {EMPTY, LINES}
    assert harness.rows("copies", *GOODS.path) == []
    wrong = {**shop.bootstrap, "from": {"jdbc": {**shop.bootstrap["from"]["jdbc"], "password": "wrong"}}}  # type: ignore[index]
    refused = opened(bench, shop, tmp_path, **wrong)
    with pytest.raises(DatabaseError, match="it refuses user copier") as caught:
        copy(refused)
    assert "wrong" not in str(caught.value)


@pytest.mark.long
def test_a_dump_with_its_position_is_a_copy(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    """Taken by the database's own tool while it is written to; all tables are of the place that it tells."""
    dump = tmp_path / "dump.sql"
    with shop.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("UPDATE goods SET f = id % 1000")  # a dump has a FLOAT's text, with six digits
    with shop.written():
        time.sleep(0.3)
        with dump.open("wb") as out:
            program_and_options = (
                program("mariadb-dump", "mysqldump"), f"--socket={shop.server.socket}", "--user=root", "--single-transaction",
                "--master-data=2", "--databases", DATABASE, "--net-buffer-length=16384",
            )  # fmt: skip
            subprocess.run(program_and_options, stdout=out, check=True)
        time.sleep(0.3)
    harness = opened(bench, shop, tmp_path, **{"from": {"mysqldump": str(dump)}})
    report = copy(harness)
    assert not report.failed
    assert {one.table for one in report.copied} == {GOODS, LINES, EMPTY}
    assert {one.low for one in report.copied} == {one.high for one in report.copied}
    judge(bench, shop, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "csv", "table"])
def test_files_of_a_declared_position_are_a_copy(kind: str, bench: Bench, shop: Shop, tmp_path: Path) -> None:
    """The first lake writes its table as of a position; a second one, whose topic lacks its rows, begins with it."""
    first = opened(bench, shop, tmp_path)
    with shop.written():
        copy(first)
        # The first window is behind all that is written later, so that a second recording begins with the messages of the first.
        wait_until(lambda: shop.now > (START + 2 * EVERY).timestamp(), seconds=60)
    judged = judge(bench, shop, tmp_path)
    cut = judged.pipeline.ledger.cuts()[-1].cut
    assert cut is not None
    rows = judged.pipeline.lake.table(judged.pipeline.table_path("snapshot", GOODS))
    assert rows is not None
    moment = tables_at(judged.pipeline, AtPosition(cut.lineage, cut.file, cut.position), tmp_path / "moment")
    count = len(moment.tables[GOODS].scan().to_arrow())
    source: dict[str, str] = {}
    if kind == "parquet":
        for table, one in moment.tables.items():
            export_table(table, one, tmp_path / "files")
        source = {"parquet": str(tmp_path / "files")}
    elif kind == "csv":
        write_csv(moment.tables[GOODS].scan().to_arrow(), tmp_path / "files" / "shop.goods.csv")
        source = {"csv": str(tmp_path / "files")}
    else:
        source = {"table": ".".join(rows.name())}
    at = {"at": f"{cut.lineage}:{cut.file}:{cut.position}", "tables": ["shop.goods"], "from": source}
    again = replace_name(bench, "again")
    with shop.written(seed=9):
        time.sleep(0.5)
    other = opened(again, shop, tmp_path, **at)
    other.all(0)  # so that the types of the table are known
    report = copy(other)
    assert [(one.rows, one.state) for one in report.copied] == [(count, CopyState.COPIED)]
    judge(again, shop, tmp_path, tables=(GOODS,))


def write_csv(rows: pa.Table, file: Path) -> None:
    """As a person writes it: texts, \\N for NULL, without columns that the lake has beside the source's."""
    file.parent.mkdir()
    columns = {}
    for name in rows.column_names:
        if name.startswith("_"):
            continue
        texts = [_as_csv(one) for one in rows[name].to_pylist()]
        columns[name] = texts
    with file.open("w", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _as_csv(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return repr(value) if isinstance(value, float) else str(value)


def replace_name(bench: Bench, suffix: str) -> Bench:
    return Bench(bench.session, bench.location, bench.folder, f"{bench.prefix}_{suffix}")
