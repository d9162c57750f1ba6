"""A real MariaDB, from its binlog to messages and back to its own content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.__main__ import main
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import produce
from dts_emulator.errors import ServerUnavailable, UnsupportedSource
from dts_emulator.judge.dump import dump_database
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.binlog import read_transactions
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server, private_server
from dts_emulator.source.source_schema import CatalogColumn
from tests.dts_emulator.worked_databases import WORK, transactions_of, worked_server

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with worked_server(WORK) as running:
        yield running


def run(cursor: Cursor, statements: tuple[str, ...]) -> None:
    for statement in statements:
        cursor.execute(statement)


@pytest.fixture(scope="module")
def transactions(server: Server) -> list[Transaction]:
    return transactions_of(server)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("partitions", [1, 4, 8])
@pytest.mark.parametrize("partitioning", ["table", "table+key"])
def test_a_plain_consumer_ends_up_with_the_databases_content(
    server: Server, transactions: list[Transaction], tmp_path: Path, partitions: int, partitioning: str,
    replayed: Callable[[Path], Any], differences: Callable[[Any, Path], list[str]],
) -> None:  # fmt: skip
    options = DtsOptions(
        partitions=partitions,
        partitioning="table" if partitioning == "table" else "table+key",
        max_message_bytes=20_000,
    )
    write_capture(produce(transactions, options), tmp_path / "capture", topic=options.topic)
    dump_database(server, "d", tmp_path / "dump")
    replay = replayed(tmp_path / "capture")
    assert replay.fragments > 10
    assert differences(replay, tmp_path / "dump") == []


@pytest.fixture(scope="module")
def entries(transactions: list[Transaction]) -> list[pb.Entry]:
    messages = list(produce(transactions, DtsOptions(heartbeat_seconds=0)))
    envelopes = [pb.Envelope.FromString(message.value) for message in messages]
    assert {envelope.total for envelope in envelopes} == {1}
    return [entry for envelope in envelopes for entry in pb.Entries.FromString(envelope.data).items]


def test_columns_are_described_as_they_were_at_the_time(entries: list[pb.Entry]) -> None:
    shapes: list[dict[str, str]] = []
    for entry in entries:
        if entry.header.tableName == "t":
            shape = {column.name: column.originalType for column in entry.event.dmlEvent.columns}
            if not shapes or shapes[-1] != shape:
                shapes.append(shape)
    before, after = shapes
    assert before == {
        "id": "int(11)", "note": "varchar(40)", "doc": "json", "kind": "enum('a','it''s')", "raw": "binary(4)",
        "amount": "decimal(12,3) unsigned", "seen": "timestamp(3)", "part": "float", "flags": "set('x','y')",
        "wide": "bigint(20) unsigned",
    }  # fmt: skip
    assert list(after) == ["id", "late", "note", "doc", "kind", "raw", "amount", "seen", "flags", "wide"]
    assert after["late"] == "int(5) unsigned zerofill"


def test_values_are_as_the_vendor_writes_them(entries: list[pb.Entry]) -> None:
    update = next(e for e in entries if e.event.dmlEvent.dmlEventType == pb.UPDATE)
    row = next(row for row in update.event.dmlEvent.rows if row.newColumns[0].sv == "7")
    found = dict(zip((column.name for column in update.event.dmlEvent.columns), row.newColumns, strict=True))
    assert found == {
        "id": pb.Data(dataType=pb.INT32, sv="7"),
        "note": pb.Data(dataType=pb.STRING, charset="gbk", bv="第7".encode("gbk")),
        "doc": pb.Data(dataType=pb.BYTES, bv=b'{"k": [1, 2]}'),
        "kind": pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"a"),
        "raw": pb.Data(dataType=pb.STRING, charset="binary", bv=b"a\0\0\0"),
        "amount": pb.Data(dataType=pb.DECIMAL, sv="1.000"),
        "seen": pb.Data(dataType=pb.STRING, charset="utf8", bv=b"2026-01-05 00:00:00.000 +00:00"),
        "part": pb.Data(dataType=pb.FLOAT32, sv="2.3333333"),
        "flags": pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"x,y"),
        "wide": pb.Data(dataType=pb.UINT64, sv="18446744073709551615"),
    }
    assert row.oldColumns[2].SerializeToString() == b""


def test_transactions_are_whole_and_in_order(entries: list[pb.Entry]) -> None:
    kinds = [pb.MessageType.Name(entry.header.messageType) for entry in entries]
    inside = False
    for kind in kinds:
        if kind in ("BEGIN", "DDL"):
            assert not inside
        elif kind in ("DML", "COMMIT"):
            assert inside
        inside = kind in ("BEGIN", "DML")
    assert kinds.count("BEGIN") == kinds.count("COMMIT") == 9
    assert kinds.count("DDL") == 5
    places = [(entry.header.fileName, entry.header.position) for entry in entries if entry.header.gtid]
    assert places == sorted(places)
    assert {name for name, _ in places} == {"mysql-bin.000001", "mysql-bin.000002"}
    gtids = [int(entry.header.gtid.rpartition(":")[2]) for entry in entries if entry.header.gtid]
    assert gtids == sorted(gtids)
    assert set(gtids) == set(range(1, 15))


class ForeignCatalog:
    """A catalog that calls every column a vector."""

    def columns(self, database: str, table: str) -> Mapping[str, CatalogColumn]:
        return {name: CatalogColumn(name, "vector(3)", None, False, False) for name in ("id", "note")}

    def apply(self, database: str, sql: str) -> None:
        pass


def test_a_type_without_a_word_in_the_wire_format_is_refused_by_name(server: Server) -> None:
    with pytest.raises(UnsupportedSource, match=r"d\.t: column id is of type vector.*mysql-bin\.000001, position \d+"):
        list(read_transactions(server, ForeignCatalog()))


def test_a_server_that_writes_too_little_is_refused_with_what_it_needs(server: Server) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
        try:
            with pytest.raises(ServerUnavailable, match=r"start it with .* --binlog-row-metadata=FULL"):
                list(read_transactions(server, ForeignCatalog()))
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_the_command_records_a_running_server(server: Server, tmp_path: Path) -> None:
    arguments = ["--socket", str(server.socket), "--out", str(tmp_path / "capture"), "--partitions", "4"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"\d+ messages, \d+\.\d MB of values, in 1 files in {tmp_path}/capture\n", result.output)
    assert (tmp_path / "capture" / "part-00000.parquet").exists()


def test_the_command_says_in_one_sentence_that_nobody_answers(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--port", "1", "--user", "reader", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.startswith("Error: no connection to MariaDB at 127.0.0.1:1 as reader: ")
    assert result.output.count("\n") == 1


def test_without_mariadb_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dts_emulator.source.server._FOLDERS", ())
    monkeypatch.setenv("PATH", os.devnull)
    with (
        pytest.raises(ServerUnavailable, match=r"^mariadbd is not installed.*apt-get install mariadb-server\)$"),
        private_server(),
    ):
        pass


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(ServerUnavailable, match=r"did not start: .*no-such-option"),
        private_server(extra=("--no-such-option",)),
    ):
        pass
