"""A real database, recorded while it is busy and altered: tables as of random transactions are its content behind each.

The content comes from a second server, which replays the binlog up to each transaction with the database's own tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.planning.source_moments import AtGtid
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.moments import content_at, moment_of_gtids
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from tests.e2e.market import DATABASE
from tests.e2e.test_at_gtid import END, EVERY, OPTIONS, START, WINDOWS, last_gtid, work
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import times

pytestmark = [pytest.mark.database, pytest.mark.long]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        work(running)
        yield running


@pytest.fixture(scope="module")
def harness(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    folder = tmp_path_factory.mktemp("moments")
    write_capture(record(server, OPTIONS, until=int(END.timestamp()) + 20), folder / "capture", topic=OPTIONS.topic)
    made = bench_in_process(folder, "moments").open(
        folder / "capture", partitions=OPTIONS.partitions, window={"every": EVERY, "start": START, "end": None}
    )
    for number in range(WINDOWS):
        made.all(number)
    return made


def test_tables_as_of_random_transactions_are_the_database_behind_each(
    server: Server, harness: Harness, tmp_path: Path
) -> None:
    (cut,) = [row for row in harness.pipeline.ledger.cuts() if row.window == harness.windows(WINDOWS - 1)[0]]
    uuid, last = last_gtid(server, cut).split(":")
    shown = set[frozenset[str]]()
    for number in Random(3).sample(range(2, int(last) + 1), times(10, 100)):
        folder = tmp_path / str(number)
        found = tables_at(harness.pipeline, AtGtid(f"{uuid}:{number}"), folder / "moment")
        assert not found.failed
        with content_at(server, moment_of_gtids(server, f"{uuid}:1-{number}")) as past:
            dump_database(past, DATABASE, folder / "content")
        tables = {table: one.scan().to_arrow() for table, one in found.tables.items()}
        assert differences(tables, folder / "content") == (), number
        shown |= {frozenset(one.schema.names) for one in tables.values()}
    assert len(shown) > len(found.tables), "some table had other columns at other moments"
