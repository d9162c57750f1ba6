"""A real MariaDB as Canal's JSON and back: the snapshots that the flows make of a recording are the database's own content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.formats import FormatSettings
from dts_assets.model.problems import Completeness
from dts_assets.model.tables import TableId
from dts_assets.wire.formats import wire_format
from dts_emulator.__main__ import main
from dts_emulator.canal.canal_options import CanalOptions
from dts_emulator.canal.canal_task import produce_canal
from dts_emulator.judge.comparison import differences
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server
from tests.dts_emulator.tasks.test_drs_recording import assert_equal, content
from tests.dts_emulator.worked_databases import GALLERY, WORK, dump_of, transactions_of, worked_server
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import chosen

pytestmark = pytest.mark.database

HOUR = timedelta(hours=1)
ZONE = timezone(timedelta(hours=8))
WIRE = wire_format("canal-json", FormatSettings("+08:00"))
OPTIONS = CanalOptions(source_time_zone=ZONE)

MORE = (
    "CREATE TABLE emptied (id INT PRIMARY KEY, kind ENUM('a', 'it''s', 'Ü') CHARACTER SET latin1, marks SET('x', 'y z'))",
    "INSERT INTO emptied VALUES (1, 'a', ''), (2, 'it''s', 'x')",
    "TRUNCATE TABLE emptied",
    "INSERT INTO emptied VALUES (2, 'Ü', 'x,y z'), (3, NULL, NULL)",
    "TRUNCATE emptied",
    "INSERT INTO emptied VALUES (3, 'it''s', 'y z'), (4, 'a', NULL)",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1)",
    "DROP TABLE gone",
    "CREATE TABLE gone (id INT PRIMARY KEY, at TIMESTAMP(2) NULL)",
    "INSERT INTO gone VALUES (5, FROM_UNIXTIME(1767571200.25))",
)
"""All within one second of the source."""

DROPPED = {"part"}
"""Columns that an ALTER took away: no difference, whether they are still shown or not."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with worked_server((*WORK, *GALLERY, *MORE)) as running:
        yield running


@pytest.fixture(scope="module")
def transactions(server: Server) -> list[Transaction]:
    return transactions_of(server)


@pytest.fixture(scope="module")
def dump(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dump_of(server, tmp_path_factory.mktemp("dump"), tables=6)


def opened(capture: Path, folder: Path, every: timedelta) -> Harness:
    folder.mkdir()
    times = pq.read_table(capture, columns=["timestamp"])["timestamp"].to_pylist()
    first, last = (
        datetime.fromtimestamp(one.timestamp() // every.total_seconds() * every.total_seconds(), UTC)
        for one in (min(times), max(times))
    )
    return bench_in_process(folder, "canal").open(
        capture, format="canal-json", partitions=1, source_time_zone="+08:00", tables={"include": ["*"]},
        window={"every": every, "start": first, "end": last + every},
    )  # fmt: skip


def snapshots(harness: Harness) -> dict[TableId, pa.Table]:
    pipeline = harness.pipeline
    found = {table: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for table in known_tables(pipeline)}
    return {
        table: rows.drop_columns([name for name in rows.column_names if name in DROPPED])
        for table, rows in found.items()
        if rows is not None
    }


@pytest.mark.more(after=1)
@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, partitions=4, batch=3)])
def test_what_is_decoded_is_the_databases_content(
    transactions: list[Transaction], dump: Path, options: CanalOptions
) -> None:
    end = next(place for place, one in enumerate(transactions) if b"emptied" in repr(one.events).encode())
    messages = sorted(produce_canal(transactions[:end], options), key=lambda one: (one.partition, one.offset))
    found = content([message.value for message in messages], WIRE, number="set_index")
    kept = dump.parent / f"kept {options.partitions}"
    kept.mkdir()
    for name in found:
        (kept / f"{name}.parquet").write_bytes((dump / f"{name}.parquet").read_bytes())
    assert len(found) == 4
    assert_equal(found, kept)


@pytest.mark.more
@pytest.mark.parametrize(
    ("options", "every"),
    chosen(
        [
            pytest.param(replace(OPTIONS, pause_every=7, repeated=19), HOUR, id="started again and again"),
            pytest.param(replace(OPTIONS, bytes_per_second=2_000), timedelta(minutes=1), id="many windows"),
            pytest.param(OPTIONS, HOUR, id="one Kafka partition"),
        ],
        2,
    ),
)
def test_snapshots_of_a_recording_are_the_databases_content(
    transactions: list[Transaction], dump: Path, tmp_path: Path, options: CanalOptions, every: timedelta
) -> None:
    capture = tmp_path / "capture"
    write_capture(produce_canal(transactions, options), capture, topic="canal")
    harness = opened(capture, tmp_path / "lake", every)
    harness.settle()
    assert (len(harness.pipeline.ledger.cuts()) > 5) == (every < HOUR)
    verdicts = list(differences(snapshots(harness), dump))
    if options.repeated:  # rows of a bag come as often as they were sent
        verdicts = [one for one in verdicts if "d.bag" not in str(one)]
    assert [str(one) for one in verdicts] == []
    assert harness.rows("quarantine") == []
    assert harness.rows("redeliveries") == []
    assert {row.completeness for row in harness.pipeline.ledger.windows()} <= {Completeness.OBSERVED}


@pytest.mark.more
def test_a_change_that_is_lost_is_noticed(transactions: list[Transaction], dump: Path, tmp_path: Path) -> None:
    messages = list(produce_canal(transactions, OPTIONS))
    lost = next(place for place in reversed(range(len(messages))) if b'"type":"INSERT"' in messages[place].value)
    write_capture((one for place, one in enumerate(messages) if place != lost), tmp_path / "capture", topic="canal")
    harness = opened(tmp_path / "capture", tmp_path / "lake", HOUR)
    harness.settle()
    assert len(differences(snapshots(harness), dump)) == 1


def test_the_command_records_canal(server: Server, tmp_path: Path) -> None:
    arguments: list[Any] = [
        "--socket", str(server.socket), "--user", server.user, "--out", str(tmp_path / "capture"), "--format", "canal-json",
    ]  # fmt: skip
    wanted = ["--partitions", "4", "--partition-policy", "2", "--pause-every", "50", "--repeat", "5"]
    done = CliRunner().invoke(main, [*arguments, *wanted, "--source-time-zone", "+08:00"])
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "capture")
    assert set(table["partition"].to_pylist()) == {0, 1, 2, 3}
    assert set(table["topic"].to_pylist()) == {"canal-emulator"}
    refused = CliRunner().invoke(main, [*arguments, "--full-load-until", "2026-01-05"])
    assert (
        refused.exit_code,
        "--full-load-until is for --format drs-avro, drs-json-c, drs-json" in refused.output,
    ) == (2, True)
