"""What ``inspect`` shows of a small stream, from its capture and from a lake that holds it; values are hidden by default."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, InvalidColumn, RawWindow, TableShapeRow, WindowTable
from dts_assets.model.message_retention import RemovedRows
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.sources.capture_source import MESSAGE_SCHEMA, CaptureSource
from dts_assets.stages.entry_facts import entry_rows
from dts_assets.stages.raw_rows import with_coordinates
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.schemas import ENTRIES, RAW_ENVELOPES
from dts_assets.wire.formats import wire_format
from tests import dts_messages
from tests.dts_messages import NULL, dml_event, entry_set, fragments, number, raw, text

T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)
WINDOW = Window(T0, T0 + timedelta(hours=1))
GTID = "11111111-2222-3333-4444-555555555555:7"
ORDERS = TableId("shopdb", "", "orders")
SECRET = "4111 1111"

CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {folder}/capture, complete: true}}}}
    partitions: 2
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
    tables: {{include: ["shopdb.*"]}}
"""


def entry(kind: Any, position: int, **header: Any) -> pb.Entry:
    fields: dict[str, Any] = {"timestamp": int(T0.timestamp()) + 5, "serverId": 9, "gtid": GTID}
    return dts_messages.entry(kind, fileName="mysql-bin.000003", position=position, **fields, **header)


def update(position: int) -> pb.Entry:
    columns = [
        ("id", "int(11)", True),
        ("card", "varchar(20)", False),
        ("paid", "datetime", False),
        ("raw", "blob", False),
    ]
    before, after = (
        [number(1234), card, text("0000-00-00 00:00:00"), raw(b"\x01\x02\x03")] for card in (NULL, text(SECRET))
    )
    made = entry(pb.DML, position, schemaName="shopdb", tableName="orders")
    made.event.MergeFrom(dml_event(columns, [(before, after)], pb.UPDATE))
    return made


def ddl(position: int) -> pb.Entry:
    made = entry(pb.DDL, position)
    made.event.ddlEvent.MergeFrom(
        pb.DDLEvent(schemaName="shopdb", sql=f"ALTER TABLE orders COMMENT '{SECRET}'", executionTime=2)
    )
    return made


def envelopes(entries: list[pb.Entry], pieces: int = 1) -> list[bytes]:
    return fragments(entry_set(entries), pieces)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A capture: a split set over offsets 40 and 41 of partition 0 and a null message; a statement in partition 1."""
    begin, commit = entry(pb.BEGIN, 100), entry(pb.COMMIT, 300)
    begin.event.beginEvent.MergeFrom(pb.BeginEvent(transactionId="77", threadId=5))
    commit.event.commitEvent.SetInParent()
    values = {
        (0, 40): envelopes([begin, update(200), commit], 2)[0],
        (0, 41): envelopes([begin, update(200), commit], 2)[1],
        (0, 42): None,
        (1, 7): envelopes([ddl(90)])[0],
    }
    rows = [
        {
            "topic": "shop-topic", "partition": partition, "offset": offset, "timestamp": T0 + timedelta(seconds=offset),
            "key": b"k", "value": value, "headers": [{"key": "ps", "value": str(offset).encode()},
            {"key": "ShardId", "value": b"shard-1"}],
        }
        for (partition, offset), value in values.items()
    ]  # fmt: skip
    (tmp_path / "capture").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, MESSAGE_SCHEMA), tmp_path / "capture" / "part-0.parquet")
    file = tmp_path / "pipeline.yaml"
    file.write_text(CONFIG.format(folder=tmp_path))
    return file


@pytest.fixture
def lake(config: Path) -> Lake:
    """The lake that a run of the window would leave, made without one."""
    folder = config.parent
    lake = Lake(LakeLocation(str(folder / "lake")))
    ledger = Ledger(lake.catalog, "shop")
    wire = wire_format("dts-protobuf")
    source = CaptureSource(str(folder / "capture"), 2)
    for path, layout in (("raw_envelopes", RAW_ENVELOPES), ("entries", ENTRIES)):
        lake.ensure(("shop", path), layout)
    for partition, offsets in ((0, OffsetRange(40, 45)), (1, OffsetRange(7, 8))):
        cell = Cell(partition, WINDOW)
        (messages,) = source.read(partition, offsets)
        write(lake, "raw_envelopes", with_coordinates(messages, cell=cell, epoch=0), cell)
        fragments = wire.fragments(messages)
        data = b"".join(value for value in fragments["data"].to_pylist() if value)
        decoded = wire.entries(pa.array([data], pa.binary()))
        bounds = {"first_offset": [offsets.start], "last_offset": [41 if partition == 0 else 7]}
        sets = pa.RecordBatch.from_pydict(bounds | {"shard": ["shard-1"], "sequence": [1]})
        write(lake, "entries", entry_rows(decoded.batch, sets, cell=cell, epoch=0), cell)
        ledger.replace_raw_windows(
            [cell], [RawWindow(partition, WINDOW, 0, offsets, ClosedBy.END, 3, 9, None, None, (), "g", "1")]
        )
        shapes = [(shape.table, shape.columns) for shape in decoded.shapes]
        ledger.replace_table_shapes(
            [cell], [TableShapeRow(partition, WINDOW.start, *shape, None, "1") for shape in shapes]
        )
        ledger.replace_windows([cell], [ingested(partition, offsets)])
    made = WindowTable(0, WINDOW.start, ORDERS, 3, 1, 1, 1, 5, 0, 0, None, None)
    ledger.replace_window_tables([WINDOW], [made])
    return lake


def ingested(partition: int, offsets: OffsetRange) -> IngestWindow:
    counts = (
        Counts(
            messages=3,
            fragments=2,
            null_messages=1,
            carried_in=1,
            joined=3,
            joined_sets=1,
            decoded_sets=1,
            entries=3,
            data=1,
            control=2,
        )
        if partition == 0
        else Counts(messages=2, whole=1, entries=1, control=1)
    )
    gap = Problem(ProblemCode.GAP, 3, 6, "the source no longer has them")
    return IngestWindow(
        partition, WINDOW, 0, offsets, counts, SourcePosition(0, 3, 300) if partition == 0 else None, None, (),
        ClosedBy.MESSAGE if partition == 0 else ClosedBy.END,
        Completeness.CONTIGUOUS if partition == 0 else Completeness.INCOMPLETE,
        () if partition == 0 else (gap,), "1", f"generation-{partition}", (),
    )  # fmt: skip


def write(lake: Lake, name: str, rows: pa.RecordBatch, cell: Cell) -> None:
    with TableWriter(lake.target(("shop", name), "run")) as writer:
        writer.write(rows)
        files = writer.close()
    lake.replace(
        ("shop", name), {"kafka_partition": {cell.kafka_partition}, "window_start": {cell.window.start}}, files
    )


Inspect = Callable[..., Result]


@pytest.fixture
def inspect(config: Path) -> Inspect:
    def invoke(*arguments: str, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["inspect", *arguments, "--config", str(config)])
        assert result.exit_code == exit_code, result.output
        return result

    return invoke


def lines(result: Result) -> str:
    return "\n".join(line.rstrip() for line in result.stdout.splitlines())


MESSAGE = """\
message p00 41 of shop
  topic     shop-topic, partition 0
  time      2026-01-05 10:00:41{window}
  key       <binary, 1 bytes>
  value     <binary, 247 bytes>
  headers   ps <binary, 2 bytes>
            ShardId <binary, 7 bytes>
  envelope  fragment 1 of 2 (counted from 0)
  shard     shard-1
  sequence  41
""" + (
    "entry  offsets       type    time                 table          rows  position              gtid\n"
    f"0      p00 40 to 41  BEGIN   2026-01-05 10:00:05                       mysql-bin.000003:100  {GTID}\n"
    f"1      p00 40 to 41  DML     2026-01-05 10:00:05  shopdb.orders  1     mysql-bin.000003:200  {GTID}\n"
    f"2      p00 40 to 41  COMMIT  2026-01-05 10:00:05                       mysql-bin.000003:300  {GTID}"
)

ENTRY = f"""\
entry 1 of the set at p00 40 to 41
  message_type  DML
  source_type   MYSQL
  event_time    2026-01-05 10:00:05
  gtid          {GTID}
  server_id     9
  seq_id        0
  position      mysql-bin.000003:200
  table         shopdb.orders
  rows          1
  payload       <binary, 305 bytes>
row 0: update
column  before                                        after
id      <int, 4 characters>                           <int, 4 characters>
card    NULL                                          <string, 9 characters>
paid    does not fit: <timestamp_ntz, 19 characters>  does not fit: <timestamp_ntz, 19 characters>
raw     <binary, 3 bytes>                             <binary, 3 bytes>"""

TRANSACTION = f"""\
transaction {GTID}: 4 entries in p00, p01
entry  offsets       type    time                 table          rows  position              gtid
0      p01 7         DDL     2026-01-05 10:00:05  shopdb               mysql-bin.000003:90   {GTID}
0      p00 40 to 41  BEGIN   2026-01-05 10:00:05                       mysql-bin.000003:100  {GTID}
1      p00 40 to 41  DML     2026-01-05 10:00:05  shopdb.orders  1     mysql-bin.000003:200  {GTID}
2      p00 40 to 41  COMMIT  2026-01-05 10:00:05                       mysql-bin.000003:300  {GTID}"""

PROOF = """\
p00|2026-01-05-10:00: contiguous
  offsets     [40, 45)
  closed by   message
  checkpoint  0:3:300
  messages    3 = 0 whole + 2 fragments + 1 null_messages + 0 quarantined_messages
  fragments   1 carried_in + 2 fragments = 3 joined + 0 superseded + 0 waiting + 0 quarantined_fragments + 0 carried_out
  entry sets  0 whole + 1 joined_sets = 1 decoded_sets + 0 quarantined_sets
  entries     3 = 1 data + 2 control + 0 quarantined_entries
  changes     3 = 1 kept + 1 redelivered + 1 quarantined
  problems    none
  generation  generation-0
p01|2026-01-05-10:00: incomplete
  offsets     [7, 8)
  closed by   end
  messages    2 = 1 whole + 0 fragments + 0 null_messages + 0 quarantined_messages   DOES NOT HOLD, by 1
  fragments   0 carried_in + 0 fragments = 0 joined + 0 superseded + 0 waiting + 0 quarantined_fragments + 0 carried_out
  entry sets  1 whole + 0 joined_sets = 0 decoded_sets + 0 quarantined_sets   DOES NOT HOLD, by 1
  entries     1 = 0 data + 1 control + 0 quarantined_entries
  problems    gap 3 to 6: the source no longer has them
  generation  generation-1
"""

NO_CUT = PROOF + "cut: none, the tables of this window were not computed yet"
WITH_CUT = (
    PROOF
    + """\
cut: observed
  cut          0:3:300
  consistency  cut
  problems     none
  generation   c"""
)


def test_a_message_and_the_entries_of_its_set(lake: Lake, inspect: Inspect, tmp_path: Path) -> None:
    stored = inspect("message", "p00", "41")
    recorded = inspect("message", "0", "41", "--capture", str(tmp_path / "capture"))
    assert lines(stored) == MESSAGE.format(window="\n  window    2026-01-05-10:00")
    assert lines(recorded) == MESSAGE.format(window="")


@pytest.mark.more
def test_an_entry_and_its_rows(lake: Lake, inspect: Inspect, tmp_path: Path) -> None:
    stored = lines(inspect("entry", "p00", "40", "1"))
    assert stored == ENTRY
    assert lines(inspect("entry", "p00", "40", "1", "--capture", str(tmp_path / "capture"))) == stored


def test_a_transaction_in_the_order_of_the_source(lake: Lake, inspect: Inspect, tmp_path: Path) -> None:
    assert lines(inspect("transaction", GTID)) == TRANSACTION
    assert lines(inspect("transaction", GTID, "--capture", str(tmp_path / "capture"))) == TRANSACTION


def test_the_proof_of_a_window(lake: Lake, inspect: Inspect) -> None:
    assert lines(inspect("window", "2026-01-05T10:00")) == NO_CUT
    cut = Cut(WINDOW, SourcePosition(0, 3, 300), None, Consistency.CUT, Completeness.OBSERVED, (), "c", (), "1")
    Ledger(lake.catalog, "shop").replace_cuts([WINDOW], [cut])
    assert lines(inspect("window", "2026-01-05-10:00")) == WITH_CUT


def test_the_proof_of_a_window_names_columns_with_values_that_do_not_fit(lake: Lake, inspect: Inspect) -> None:
    columns = (InvalidColumn("day", 2), InvalidColumn("n", 1))
    counted = WindowTable(1, WINDOW.start, ORDERS, 3, 3, 0, 0, 5, 0, 3, None, None, invalid_columns=columns)
    Ledger(lake.catalog, "shop").replace_window_tables([WINDOW], [counted])
    shown = [" ".join(line.split()) for line in lines(inspect("window", "2026-01-05T10:00")).splitlines()]
    at = shown.index(f"invalid values {ORDERS}: 2 of day")
    assert shown[at + 1] == f"{ORDERS}: 1 of n"


@pytest.mark.more
def test_values_are_shown_only_when_asked_for(lake: Lake, inspect: Inspect, tmp_path: Path) -> None:
    capture = ("--capture", str(tmp_path / "capture"))
    for arguments in (("entry", "p00", "41", "1"), ("entry", "p01", "7", "0"), ("message", "p01", "7")):
        for place in ((), capture):
            assert SECRET not in inspect(*arguments, *place).output
            assert SECRET in inspect(*arguments, *place, "--values").output
    assert "<string, 38 characters>" in inspect("entry", "p01", "7", "0").output


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("message", "p00", "99"), "raw_envelopes has no offset 99 of p00; there are 40 to 44."),
        (("message", "p09", "1"), "raw_envelopes has no offset 1 of p09; there are none of this Kafka partition."),
        (("message", "p00", "44"), "p00 has no message at offset 44; the offsets [40, 45) of window"),
        (("entry", "p00", "40", "3"), "The entry set at offset 40 has no entry 3; its entries are 0 to 2."),
        (("entry", "p00", "42", "0"), "has no entry 0; it has none that could be decoded."),
        (("transaction", "it's:1"), "The lake has no entry with the GTID it's:1; check the GTID"),
        (("window", "2026-01-05T10:30"), "no window that starts at 2026-01-05T10:30; its windows start every 1h from"),
        (("window", "2026-01-05T11:00"), "no window 2026-01-05-11:00; there are 2026-01-05-10:00 to 2026-01-05-10:00."),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    lake: Lake, inspect: Inspect, arguments: tuple[str, ...], said: str
) -> None:
    assert said in " ".join(inspect(*arguments, exit_code=1).stderr.split())


def test_a_capture_says_which_offsets_it_has(inspect: Inspect, tmp_path: Path) -> None:
    result = inspect("message", "p00", "99", "--capture", str(tmp_path / "capture"), exit_code=1)
    assert "The capture has no offset 99 of p00; there are 40 to 42." in result.stderr
    result = inspect("transaction", "x", "--capture", str(tmp_path / "capture"), exit_code=1)
    assert "The capture has no entry with the GTID x;" in result.stderr


def test_a_message_without_entries_says_so(lake: Lake, inspect: Inspect) -> None:
    result = inspect("message", "p00", "42")
    assert "envelope  no value" in result.stdout
    assert "No entries: its entry set is not whole here" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("message", "x", "1"), ("message", "p00", "x"), ("window", "yesterday"), ("transaction", "x", "--subscription", "y"),
        ("window", "2026-01-05", "--capture", "."),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(inspect: Inspect, arguments: tuple[str, ...]) -> None:
    inspect(*arguments, exit_code=2)


def test_removed_rows_are_said_to_be_removed(lake: Lake, inspect: Inspect) -> None:
    assert "kept as made" not in inspect("window", "2026-01-05T10:00").stdout
    at = datetime(2026, 1, 20, 3, tzinfo=UTC)
    rows = [RemovedRows(name, T0, WINDOW.end, (0,), 1, 3, 9, at) for name in ("raw_envelopes", "entries")]
    Ledger(lake.catalog, "shop").change_removed_rows(lambda _: rows)
    for name in ("raw_envelopes", "entries"):
        lake.replace(("shop", name), {"kafka_partition": {0}, "window_start": {T0}}, ())
    shown = inspect("window", "2026-01-05T10:00").stdout
    assert shown.count("kept as made") == 1
    assert "raw_envelopes removed by retention on 2026-01-20 03:00 UTC, entries removed" in shown.replace("\n", "")
    sentence = "The raw messages of p00|2026-01-05-10:00 of shop were removed by retention on 2026-01-20"
    for arguments in (("message", "p00", "41"), ("entry", "p00", "41", "0")):
        assert sentence in inspect(*arguments, exit_code=12).stderr
    assert "removed by retention" in inspect("transaction", GTID[:-1] + "8", exit_code=1).stderr
    inspect("message", "p01", "7")


def test_an_empty_lake_is_said_to_be_empty(inspect: Inspect) -> None:
    assert "there are none of this Kafka partition" in inspect("message", "p00", "1", exit_code=1).stderr
    assert "none has been materialized yet" in inspect("window", "2026-01-05", exit_code=1).stderr


def test_shapes_of_a_window_are_put_together(lake: Lake, inspect: Inspect) -> None:
    """A column that only a later event of the window describes is shown too: nothing of it was sent by this one."""
    cell = Cell(1, WINDOW)
    later = TableShapeRow(1, WINDOW.start, ORDERS, (ColumnShape("added", "int(11)", False),), None, "1")
    Ledger(lake.catalog, "shop").replace_table_shapes([cell], [later])
    assert lines(inspect("entry", "p00", "40", "1")).splitlines()[-1].split() == ["added", "NULL", "NULL"]
