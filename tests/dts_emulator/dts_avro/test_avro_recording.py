"""A real MariaDB as DTS Avro and back: what the decoder reads, in the order of ids, is the database's own content."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.wire.dts_avro import DtsAvro
from dts_emulator.__main__ import main
from dts_emulator.dts_avro.avro_task import AvroOptions, AvroTask, produce_avro
from dts_emulator.dts_avro.records import schema_file
from dts_emulator.messages.clocks import SourceClock
from dts_emulator.source.events import Rows, Transaction
from dts_emulator.source.server import Server
from tests.dts_emulator.tasks.test_drs_recording import assert_equal, content
from tests.dts_emulator.worked_databases import GALLERY, WORK, dump_of, transactions_of, worked_server
from tests.wire.avro_messages import parsed
from tests.wire.scenarios import DATA

pytestmark = pytest.mark.database

WIRE = DtsAvro(schema_file())
OPTIONS = AvroOptions()
MILLIS = tuple(one.replace("(6)", "(3)").replace("INTERVAL seq MICROSECOND", "INTERVAL seq SECOND") for one in GALLERY)
"""The gallery with fractions of three digits: records hold no more."""


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


def read(value: bytes) -> dict[str, Any]:
    found = fastavro.schemaless_reader(io.BytesIO(value), parsed(schema_file())[0], None)
    assert isinstance(found, dict)
    return found


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    "options", [OPTIONS, replace(OPTIONS, partitions=4), replace(OPTIONS, partitions=4, text_as="binary")]
)
def test_what_is_decoded_is_the_databases_content(
    transactions: list[Transaction], dump: Path, options: AvroOptions
) -> None:
    values = [message.value for message in produce_avro(transactions, options)]
    assert_equal(content(values, WIRE, number="seq_id"), dump)


def test_each_row_is_a_record_and_rows_of_one_event_have_one_position(transactions: list[Transaction]) -> None:
    messages = list(produce_avro(transactions, replace(OPTIONS, partitions=3)))
    records = [read(message.value) for message in messages]
    rows = [one for one in records if one["messageType"] in ("INSERT", "UPDATE", "DELETE")]
    events = [event for one in transactions for event in one.events if isinstance(event, Rows)]
    assert len(rows) == sum(len(event.rows) for event in events) > len(events)
    counts = {place: len(list(some)) for place, some in groupby(sorted(one["position"] for one in rows))}
    assert counts == {f"{event.at.end}@{int(event.at.file_name[-6:])}": len(event.rows) for event in events}
    assert [one["id"] for one in rows] == sorted({one["id"] for one in rows})
    begins = [one for one in records if one["messageType"] == "BEGIN"]
    assert len(begins) == 3 * len({one["id"] for one in begins}), "copies of a broadcast share their id"
    starts = {f"{one.events[0].at.start}@{int(one.end.file_name[-6:])}" for one in transactions}
    assert {one["safePosition"] for one in rows} <= starts
    for partition in range(3):
        lane = [message for message in messages if message.partition == partition]
        assert [dict(message.headers)["ps"] for message in lane] == [str(one + 1).encode() for one in range(len(lane))]


def test_a_task_that_is_resumed_goes_on_with_its_ids(transactions: list[Transaction]) -> None:
    first, second = (AvroTask(OPTIONS, SourceClock(OPTIONS.bytes_per_second)) for _ in range(2))
    sent = [read(message.value)["id"] for one in transactions[:5] for message in first.send(one)]
    assert first.committed is not None
    second.resume(first.committed, synced=first.synced, number=first.number, sent=first.sent)
    more = [read(message.value)["id"] for one in transactions[5:9] for message in second.send(one)]
    assert (sent[-1], more[0]) == (first.number, first.number + 1)
    assert [*sent, *more] == list(range(1, len(sent) + len(more) + 1))


@pytest.mark.more
def test_the_command_records_a_topic_in_avro(server: Server, tmp_path: Path, dump: Path) -> None:
    place = ["--socket", str(server.socket), "--user", server.user, "--out", str(tmp_path / "capture")]
    done = CliRunner().invoke(main, [*place, "--partitions", "4", "--format", "dts-avro"])
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "capture").sort_by([("timestamp", "ascending")])
    assert set(table["partition"].to_pylist()) == {0, 1, 2, 3}
    assert_equal(content(table["value"].to_pylist(), WIRE, number="seq_id"), dump)


def test_the_schema_is_that_of_the_fixtures() -> None:
    *kinds, record = json.loads(schema_file())
    assert (len(kinds), record["name"]) == (13, "Record")
    assert json.loads((DATA / "dts-avro" / "Record.avsc").read_text()) == [*kinds, record]
