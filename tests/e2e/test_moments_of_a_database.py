"""A real database, recorded while it is busy and altered: tables as of random transactions are its content behind each.

The content comes from a second server, which replays the binlog from transaction to transaction with the database's own tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dts_assets.flows.moments import tables_at
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtGtid
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.moments import forward_replay, moment_of_gtids
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from tests.e2e.market import DATABASE, EACH, OWNERS
from tests.e2e.test_at_gtid import END, EVERY, OPTIONS, START, WINDOWS, last_gtid, work
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import times

MOMENTS = int(os.environ.get("DTS_ASSETS_MOMENTS", times(10, 100)))
"""The number of moments: ``make moments`` takes a thousand."""

AFRESH = 10
"""Of so many moments one begins as a stored version, or from nothing, as a moment that is asked for alone does."""

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
    server: Server, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the log, so that one replay goes on from each to the next; so do the tables, but for every tenth moment.

    At every tenth moment tables go back from the version behind it, too.
    """
    (cut,) = [row for row in harness.pipeline.ledger.cuts() if row.window == harness.windows(WINDOWS - 1)[0]]
    uuid, last = last_gtid(server, cut).split(":")
    shown, totals, went_on, went_back = set[frozenset[str]](), 0, 0, 0
    chosen = sorted(Random(3).choices(range(2, int(last) + 1), k=MOMENTS))
    with forward_replay(server) as replay:
        for place, number in enumerate(chosen):
            folder = tmp_path / str(place // AFRESH)
            found = tables_at(harness.pipeline, AtGtid(f"{uuid}:{number}"), folder)
            assert not found.failed
            went_on += not found.begun and place % AFRESH > 0
            if place == 0 or number != chosen[place - 1]:
                past = replay.go_on_to(moment_of_gtids(server, f"{uuid}:1-{number}"))
                dump_database(past, DATABASE, tmp_path / "content")
            tables = {table: one.scan().to_arrow() for table, one in found.tables.items()}
            assert differences(tables, tmp_path / "content") == (), number
            if place % AFRESH == 1:
                with monkeypatch.context() as patch:
                    patch.setattr("dts_assets.flows.moments.version_to_begin_from", lambda *_, **__: None)
                    patch.setattr("dts_assets.planning.moment_frontiers._CHANGES_OF_ONE_TAKEN_BACK", 0)
                    back = tables_at(harness.pipeline, AtGtid(f"{uuid}:{number}"), tmp_path / f"back_{place}")
                went_back += bool(back.begun)
                again = {table: one.scan().to_arrow() for table, one in back.tables.items()}
                assert differences(again, tmp_path / "content") == (), number
            shown |= {frozenset(one.schema.names) for one in tables.values()}
            totals += require_total(tables)
    assert len(shown) > len(found.tables), "some table had other columns at other moments"
    assert totals > MOMENTS / 2
    assert went_back > MOMENTS / AFRESH / 3, "tables went back from a later version"
    assert went_on > MOMENTS / 3, "but where a stored version was nearer, tables went on from the moment before"


def require_total(tables: Mapping[TableId, pa.Table]) -> bool:
    """Compare the money in wallets and safes with all there ever is, once they are filled."""
    balances = {
        table.table: rows["balance"].to_pylist()
        for table, rows in tables.items()
        if table.table in ("wallets", "safes")
    }
    filled = len(balances) == 2 and all(balances.values())
    if filled:
        assert sum(map(sum, balances.values())) == 2 * OWNERS * EACH, "money is under way"
    return filled
