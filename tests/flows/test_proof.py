"""The offline proof on a real database that is busy and altered: equal as it is, and every fault that is put in is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pymysql.cursors import Cursor

from dts_assets.errors.scratch import FullDatabasesError
from dts_assets.flows import proof_comparison, snapshot_merges
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import Layer
from dts_assets.flows.pauses import paused_by_person
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.proof import Proof, prove
from dts_assets.flows.proof_comparison import TableProof, compare_table, standing_table
from dts_assets.flows.proof_replay import Existing
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.chosen_statements import LeftOut
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from tests.e2e.market import DATABASE, Market
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process

pytestmark = pytest.mark.database

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
EVERY = timedelta(seconds=60)
WINDOWS = 3
OPTIONS = DtsOptions(partitions=3)

DOUBTED = TableId(DATABASE, "", "doubted")
"""The table that has values which each server makes for itself."""

ALTERED = (
    "ALTER TABLE orders MODIFY shop VARCHAR(9) NOT NULL, ADD COLUMN late DATETIME(3) DEFAULT '2026-01-01 00:00:00.500' FIRST",
    "ALTER TABLE goods MODIFY left_over BIGINT NULL, ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'süß' FIRST",
    "ALTER TABLE goods CHANGE note remark VARCHAR(30) CHARACTER SET latin1 NOT NULL DEFAULT 'é'",
    "CREATE TABLE bag (a VARCHAR(20), f FLOAT, g DOUBLE, d DATE, t TIME(6), n DECIMAL(20,5), b BINARY(4), y YEAR, x BIT(64))",
    "INSERT INTO bag VALUES ('tea', 0.1, 0.1, '2026-01-01', '-101:00:00.5', -0.00001, x'01', 2020, 18446744073709551615),"
    " ('Tea', 3.5, 1e300, NULL, '01:00:00', 7, x'', 0, 0), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " ('zero', 0, 0, '0000-00-00', '00:00:00', 0, x'00', 1999, 1)",
    "INSERT INTO bag SELECT * FROM bag",
    "DELETE FROM bag WHERE a = BINARY 'Tea' LIMIT 1",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1), (2)",
    "RENAME TABLE gone TO away",
    "CREATE TABLE emptied (id INT PRIMARY KEY, j JSON)",
    'INSERT INTO emptied VALUES (1, \'{"b": 1, "a": 2}\'), (2, NULL)',
    "TRUNCATE TABLE emptied",
    "INSERT INTO emptied VALUES (3, '[1, 2]')",
    "CREATE VIEW seen AS SELECT id FROM emptied",
    "CREATE TRIGGER tr AFTER INSERT ON emptied FOR EACH ROW BEGIN INSERT INTO away VALUES (NEW.id); END",
    "INSERT INTO emptied VALUES (4, NULL)",
    "CREATE TABLE doubted (id INT PRIMARY KEY)",
    "INSERT INTO doubted VALUES (1), (2)",
    "ALTER TABLE doubted ADD u VARCHAR(40) DEFAULT UUID()",
    "INSERT INTO doubted (id) VALUES (3)",
)


def work(cursor: Cursor) -> None:
    """Transactions over all windows, with statements amid them; the last ones are behind the last cut."""
    market, now = Market(cursor, 5), START.timestamp() + 1
    cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
    market.open(now)
    altered = iter(ALTERED)
    while now < START.timestamp() + WINDOWS * EVERY.total_seconds() + 5:
        now += 1.7
        market.transaction(now)
        if now > START.timestamp() + 30 and (sql := next(altered, None)) is not None:
            cursor.execute(sql)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    folder = tmp_path_factory.mktemp("proof")
    with private_server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            work(cursor)
        until = int((START + WINDOWS * EVERY).timestamp()) + 20
        write_capture(record(server, OPTIONS, until=until), folder / "capture", topic=OPTIONS.topic)
    made = bench_in_process(folder, "proof").open(
        folder / "capture", partitions=3, window={"every": EVERY, "start": START, "end": None}
    )
    for number in range(WINDOWS):
        made.all(number)
    return made


@pytest.fixture(scope="module")
def scratch() -> Iterator[Server]:
    with private_server(extra=("--skip-log-bin",)) as server:
        yield server


def opened_again(harness: Harness, tmp_path: Path, windows: int = WINDOWS, **settings: Any) -> Harness:
    """A lake of its own over the recording of another one."""
    capture = harness.pipeline.settings.source.capture
    assert capture is not None
    made = bench_in_process(tmp_path, "again").open(
        capture.path if capture.path.is_absolute() else Path(capture.path), partitions=3,
        window={"every": EVERY, "start": START, "end": None}, **settings,
    )  # fmt: skip
    for number in range(windows):
        made.all(number)
    return made


def proven(harness: Harness, scratch: Server, *tables: str, existing: Existing = Existing.DROP) -> Proof:
    address = ScratchAddress(socket=str(scratch.socket))
    with scratch_server(address, Login()) as server:
        return prove(harness.pipeline, server, tables=tables, existing=existing)


@pytest.mark.more
def test_snapshots_are_what_the_changelogs_make_in_a_server(harness: Harness, scratch: Server) -> None:
    proof = proven(harness, scratch)
    assert {table: one.differences for table, one in proof.tables.items() if not one.equal} == {}
    assert proof.equal
    assert {table.table for table in proof.tables} >= {"orders", "wallets", "goods", "bag", "emptied", "away", "gone"}
    assert proof.frontier.cut is not None
    assert proof.replayed.refused == 0
    assert proof.replayed.missed == 0
    assert proof.exported.left_out == {LeftOut.NOT_TABLES: 2}
    assert sum(one.rows_server for one in proof.tables.values()) > 150
    assert all(one.rows_server == one.rows_lake for one in proof.tables.values())
    keys = {table.table: one.keys for table, one in proof.tables.items()}
    assert (keys["orders"], keys["bag"]) == (("shop", "number"), ())
    doubted = proof.tables.pop(DOUBTED)  # type: ignore[attr-defined]
    assert doubted.differences.unknown == {"u": 2}
    assert not doubted.whole
    assert proof.whole


@contextmanager
def spoiled(harness: Harness, layer: str, table: str, spoil: Callable[[pa.Table], pa.Table]) -> Iterator[None]:
    """The largest file of the first window of a table with other rows, for the block."""
    files = harness.pipeline.lake.data_files(harness.pipeline.table_path(layer, TableId(DATABASE, "", table)))
    first = min(files, key=lambda one: (one.partition.get("window_start", START), -one.rows))
    path = Path(first.path.removeprefix("file://"))
    before = path.read_bytes()
    rows = pq.read_table(path)
    made = spoil(rows)
    assert made.schema.equals(rows.schema)
    assert not made.equals(rows)
    pq.write_table(made, path)
    try:
        yield
    finally:
        path.write_bytes(before)


COLUMN = {"orders": "note", "goods": "price", "bag": "g", "emptied": "j"}

NOTHING: dict[str, Any] = {
    "string": "", "binary": b"", "int": 0, "date": date(1970, 1, 1), "timestamp": datetime(1970, 1, 1), "decimal": Decimal(0),
    "float": 0.0, "double": 0.0,
}  # fmt: skip
"""The values that are most like NULL, by type."""


def other(value: Any, kind: pa.DataType) -> Any:
    """Another value of a type, as near as there is one."""
    if value is None:
        return NOTHING[next(one for one in NOTHING if one in str(kind))]
    if isinstance(value, str):
        return value + " " if Random(len(value)).random() < 0.5 else value.swapcase() + "́"
    if isinstance(value, bytes):
        return value + b"\0"
    if isinstance(value, float):
        return float(pa.scalar(value * (1 + 2**-20) or 1e-30, kind).as_py())
    if isinstance(value, Decimal):
        return value + Decimal(1).scaleb(-kind.scale)
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1000)
    return value + (timedelta(days=1) if not isinstance(value, int) else 1)


def with_cell(rows: pa.Table, name: str, random: Random) -> pa.Table:
    number = random.randrange(len(rows))
    at, field = rows.schema.get_field_index(name), rows.schema.field(name)
    values = rows[name].to_pylist()
    values[number] = other(values[number], field.type)
    return rows.set_column(at, field, pa.array(values, field.type))


def compared(harness: Harness, scratch: Server, name: str) -> TableProof:
    """The verdict on one table, with the server as it is."""
    table = TableId(DATABASE, "", name)
    one = standing_table(harness.pipeline, table, table, known_tables(harness.pipeline)[table])
    assert one is not None
    with scratch_server(ScratchAddress(socket=str(scratch.socket)), Login()) as server:
        return compare_table(harness.pipeline, server, one)


@pytest.mark.more
def test_every_cell_that_is_changed_in_a_snapshot_is_found_and_named(harness: Harness, scratch: Server) -> None:
    proven(harness, scratch)
    random, tried = Random(1), 0
    for table in ("orders", "wallets", "safes", "goods", "bag", "emptied", "away"):
        there = harness.rows("snapshot", DATABASE, table)
        for name in [one for one in there[0] if not one.startswith("_")]:
            clean = compared(harness, scratch, table)
            assert clean.equal
            keys = clean.keys
            with spoiled(harness, "snapshot", table, partial(with_cell, name=name, random=random)):
                found = compared(harness, scratch, table).differences
            tried += 1
            if name in keys or not keys:  # another row may have the new key
                assert (found.only_lake + found.repeated, found.only_server) == (1, 1), (table, name)
            else:
                assert (found.changed, found.columns) == (1, {name: 1}), (table, name)
                assert found.rows[0].columns == (name,)
    assert tried > 30


@pytest.mark.more
@pytest.mark.parametrize("table", ["orders", "bag"])
def test_rows_that_are_lost_or_stand_twice_in_a_snapshot_are_found(
    harness: Harness, scratch: Server, table: str
) -> None:
    proven(harness, scratch)
    with spoiled(harness, "snapshot", table, lambda rows: rows.slice(1)):
        found = compared(harness, scratch, table)
    assert (found.differences.total, found.differences.only_server) == (1, 1)
    assert [(row.lake is None, row.server is None) for row in found.differences.rows] == [(True, False)]
    with spoiled(harness, "snapshot", table, lambda rows: pa.concat_tables([rows, rows.slice(2, 1)])):
        found = compared(harness, scratch, table)
    assert found.differences.total == 1
    assert found.differences.repeated + found.differences.only_lake == 1
    assert not found.equal


@pytest.mark.more
def test_tables_that_are_compared_in_shares_are_equal_and_a_spoiled_cell_is_found(
    harness: Harness, scratch: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven(harness, scratch)
    monkeypatch.setattr(proof_comparison, "_ROWS_OF_SHARE", 5)
    for table in ("orders", "goods", "bag", "emptied"):
        whole = compared(harness, scratch, table)
        assert whole.equal, table
        assert whole.rows_lake == whole.rows_server > 0
        with spoiled(harness, "snapshot", table, partial(with_cell, name=COLUMN[table], random=Random(2))):
            assert compared(harness, scratch, table).differences.total in (1, 2)


def without_an_insert(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 3), rows.slice(4)])


def with_other_images(rows: pa.Table) -> pa.Table:
    """Rows of which one insert has another balance, to which later updates set it no more."""
    images = rows["after"].to_pylist()
    images[3] = {**images[3], "id": images[3]["id"] + 1000}
    at = rows.schema.get_field_index("after")
    return rows.set_column(at, rows.schema.field("after"), pa.array(images, rows.schema.field("after").type))


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("spoil", "only_server"), [(without_an_insert, 0), (with_other_images, 1)], ids=["lost", "another"]
)
def test_a_changelog_that_is_spoiled_behind_the_snapshots_is_found(
    harness: Harness, scratch: Server, spoil: Callable[[pa.Table], pa.Table], only_server: int
) -> None:
    with spoiled(harness, "changelog", "safes", spoil):
        proof = proven(harness, scratch)
    assert [str(table) for table, one in proof.tables.items() if not one.equal] == [f"{DATABASE}.safes"]
    found = proof.tables[TableId(DATABASE, "", "safes")].differences
    assert (found.only_lake, found.only_server) == (1, only_server)
    assert proof.replayed.missed > 0, "later changes of that row find none"


def test_databases_with_tables_are_refused_and_used_where_that_is_asked(harness: Harness, scratch: Server) -> None:
    with scratch.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {DATABASE}.mine (id INT)")
        cursor.execute("CREATE DATABASE IF NOT EXISTS other")
        cursor.execute("CREATE TABLE IF NOT EXISTS other.mine (id INT)")
        with pytest.raises(FullDatabasesError, match="has tables already in market"):
            proven(harness, scratch, existing=Existing.REFUSE)
        cursor.execute(f"SELECT COUNT(*) FROM {DATABASE}.mine")
        proven(harness, scratch, "market.wallets", existing=Existing.DROP)
        cursor.execute(f"SHOW TABLES IN {DATABASE}")
        assert [name for (name,) in cursor.fetchall()] == ["wallets"]
        cursor.execute(f"TRUNCATE TABLE {DATABASE}.wallets")
        used = proven(harness, scratch, "market.wallets", existing=Existing.USE)
        assert used.equal
        assert not used.whole, "its CREATE DATABASE and CREATE TABLE were refused"
        assert used.replayed.refused == 2
        cursor.execute("SELECT COUNT(*) FROM other.mine")
        cursor.execute("DROP DATABASE other")


@pytest.mark.more
def test_rules_filters_and_deleted_rows_that_stay_are_no_differences(
    harness: Harness, scratch: Server, tmp_path: Path
) -> None:
    ruled = opened_again(
        harness, tmp_path, deletes={"market.goods": "soft"}, rows={"market.orders": "shop = 'ost'"},
        columns={"market.wallets.owner": {"hash": {"key": "a key of some length"}}, "market.safes.touched": "drop"},
        tables={"exclude": ["market.emptied"]},
    )  # fmt: skip
    proof = proven(ruled, scratch)
    assert {table: one.differences for table, one in proof.tables.items() if not one.equal} == {}
    left_out = {table.table: dict(one.columns.left_out) for table, one in proof.tables.items() if one.columns.left_out}
    assert left_out == {
        "wallets": {"owner": "a rule changes its values (hash)"}, "safes": {"touched": "a rule drops it"},
    }  # fmt: skip
    assert not proof.whole
    stored = ruled.rows("snapshot", DATABASE, "goods")
    assert len(stored) > proof.tables[TableId(DATABASE, "", "goods")].rows_lake > 0
    assert "emptied" not in {table.table for table in proof.tables}


@pytest.mark.more
def test_a_table_that_stands_still_is_named_and_not_compared(harness: Harness, scratch: Server, tmp_path: Path) -> None:
    paused = opened_again(harness, tmp_path)
    paused_by_person(paused.pipeline, {TableId(DATABASE, "", "safes")}, reason="words")
    proof = proven(paused, scratch)
    assert proof.equal
    assert not proof.whole
    assert dict(proof.not_compared) == {TableId(DATABASE, "", "safes"): "it stands still: words"}
    assert TableId(DATABASE, "", "safes") not in proof.tables


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.more
def test_snapshots_that_a_run_has_left_apart_are_named(
    harness: Harness, scratch: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped between its snapshots: some are further than the ledger says."""
    left, safes = opened_again(harness, tmp_path, windows=WINDOWS - 1), TableId(DATABASE, "", "safes")
    left.raw(WINDOWS - 1)
    left.entries(WINDOWS - 1)
    whole, committed = snapshot_merges.commit_files, Event()

    def commit(pipeline: Pipeline, layer: Layer, table: TableId, *rest: Any, **more: Any) -> None:
        if table != safes:
            committed.wait(60)  # tables are merged side by side, and an error begins no further one
            raise Killed
        whole(pipeline, layer, table, *rest, **more)
        committed.set()

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_merges, "commit_files", commit)
        with pytest.raises(Killed):
            left.tables(WINDOWS - 1)
    proof = proven(left, scratch)
    assert proof.equal
    assert dict(proof.not_compared) == {safes: "the run that made it has not ended: run the tables"}
    left.tables(WINDOWS - 1)
    again = proven(left, scratch)
    assert again.equal
    assert again.not_compared == {}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://root:secret@host/", "a password is no part"),
        ("mysql://root@host/shopdb", "a database is no part"),
        ("postgresql://host/", "an address is"),
        ("mysql://", "an address is"),
    ],
)
def test_an_address_has_neither_a_password_nor_a_database(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as found:
        ScratchAddress.of_url(url)
    assert "secret" not in str(found.value)
