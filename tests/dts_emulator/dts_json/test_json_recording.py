"""A real MariaDB as DTS JSON and back: what the decoder reads, in the order of ids, is the database's own content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.wire.dts_json import DtsJson
from dts_emulator.__main__ import main
from dts_emulator.dts_json.json_task import JsonOptions, produce_json
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server
from tests.dts_emulator.dts_avro.test_avro_recording import MILLIS
from tests.dts_emulator.tasks.test_drs_recording import assert_equal, content
from tests.dts_emulator.worked_databases import WORK, dump_of, transactions_of, worked_server

pytestmark = pytest.mark.database

WIRE = DtsJson()
OPTIONS = JsonOptions()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with worked_server((*WORK, *MILLIS)) as running:
        yield running


@pytest.fixture(scope="module")
def transactions(server: Server) -> list[Transaction]:
    return transactions_of(server)


@pytest.fixture(scope="module")
def dump(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dump_of(server, tmp_path_factory.mktemp("dump"), tables=4)


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        replace(OPTIONS, partitions=4, whole_dates=True),
        replace(OPTIONS, images="names"),
        replace(OPTIONS, partitions=4, images="objects"),
    ],
    ids=["texts", "whole dates", "names", "objects"],
)
def test_what_is_decoded_is_the_databases_content(
    transactions: list[Transaction], dump: Path, options: JsonOptions
) -> None:
    values = [message.value for message in produce_json(transactions, options)]
    assert_equal(content(values, WIRE, number="seq_id"), dump)


def test_the_command_records_a_topic_in_json(server: Server, tmp_path: Path, dump: Path) -> None:
    place = ["--socket", str(server.socket), "--user", server.user, "--out", str(tmp_path / "capture")]
    done = CliRunner().invoke(main, [*place, "--partitions", "4", "--format", "dts-json"])
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "capture").sort_by([("timestamp", "ascending")])
    assert set(table["partition"].to_pylist()) == {0, 1, 2, 3}
    assert_equal(content(table["value"].to_pylist(), WIRE, number="seq_id"), dump)
