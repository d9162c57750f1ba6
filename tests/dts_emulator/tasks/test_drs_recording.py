"""A real MariaDB as DRS JSON, JSON-C and Avro and back: what is read, in the order of ids, is the database's own content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.tables import TableId
from dts_assets.wire.format import WireFormat
from dts_assets.wire.formats import wire_format
from dts_emulator.__main__ import main
from dts_emulator.drs.drs_avro_task import DrsAvroOptions
from dts_emulator.drs.drs_options import DrsJsonOptions, DrsOptions
from dts_emulator.judge.comparison import compare
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS, vendor_of

pytestmark = pytest.mark.database

T0 = 1_767_571_200
ZONE = timezone(timedelta(hours=8))
SETTINGS = FormatSettings("+08:00")
NAMES = ("drs-json", "drs-json-c", "drs-avro")
WIRES = {
    task.options: wire_format(name, replace(SETTINGS, schema=task.schema() if task.schema else None))
    for name, task in ((name, VENDOR_TASKS[name]) for name in NAMES)
}
"""The format that each task's options write."""

ALTERED = {"part", "late"}
"""Columns that came or went on the way: not in every message, so an old image may have NULL for what is not there."""
DECLARED = {"d.t.wide": "decimal(20,0)", "d.t.amount": "decimal(12,3)", "d.gallery.b": "bigint"}
"""What the message has no word for: a sign, a precision, the meaning of BIT."""


def content(values: Sequence[bytes], wire: WireFormat, *, number: str = "position") -> dict[str, pa.Table]:
    """The tables that messages amount to: each number once, in the order of numbers, which stand in a column of entries."""
    decoded = wire.entries(pa.array(values, pa.binary()))
    assert decoded.rejected == ()
    columns: dict[TableId, dict[str, Column]] = {}
    for shape in decoded.shapes:
        for one in shape.columns:
            kind = DECLARED.get(f"{shape.table}.{one.name}") or wire.column_type(
                one.original_type, unsigned=False, table=shape.table
            )
            columns.setdefault(shape.table, {})[one.name] = Column(one.name, kind, one.is_key)
    dml = decoded.batch.filter(pc.equal(decoded.batch["message_type"], "DML"))
    changes = wire.changes(dml, {table: tuple(found.values()) for table, found in columns.items()})
    assert changes.rejected == ()
    ids = dml[number].to_pylist()
    tables = {}
    for changed in changes.tables:
        by_number = {(ids[row["entry_index"]], row["row_number"]): row for row in changed.batch.to_pylist()}
        keys = [column.name for column in columns[changed.table].values() if column.is_key]
        rows = applied([by_number[number] for number in sorted(by_number)], keys)
        # Columns that are gone at the end are no difference.
        tables[str(changed.table)] = pa.Table.from_pylist(
            rows, schema=pa.schema(list(changed.batch.schema.field("after").type))
        )
    return tables


def applied(changes: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that changes leave, of a table with a key or of a bag."""
    keyed: dict[tuple[Any, ...], dict[str, Any]] = {}
    bag: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for change in changes:
        assert change["invalid"] == []
        absent = set(change["absent"])
        old, new = change["before"], change["after"]
        if not keys:
            bag.subtract([tuple(old.items())] if old else [])
            bag.update([tuple(new.items())] if new else [])
            continue
        kept: dict[str, Any] = {}
        if old is not None:
            # A key column that Canal's way of writing leaves out is as it was.
            place = tuple(new[key] if new and f"before.{key}" in absent else old[key] for key in keys)
            kept = keyed.pop(place)
            sent = {name: old[name] for name in old if f"before.{name}" not in absent and name not in ALTERED}
            assert {name: kept.get(name) for name in sent} == sent
        if new is not None:
            place = tuple(new[key] for key in keys)
            assert place not in keyed
            keyed[place] = new
    assert min(bag.values(), default=0) >= 0
    return [dict(row) for row in bag.elements()] if bag else list(keyed.values())


def assert_equal(found: dict[str, pa.Table], dump: Path) -> None:
    files = sorted(dump.glob("*.parquet"))
    assert {file.stem for file in files} == found.keys()
    for file in files:
        names = pq.read_schema(file).names
        verdict = compare(found[file.stem].select(names), file)
        assert verdict.equal, str(verdict)
        assert verdict.rows_found > 0


OPTIONS = DrsOptions(source_time_zone=ZONE)
JSON_OPTIONS = DrsJsonOptions()
AVRO_OPTIONS = DrsAvroOptions()


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        replace(OPTIONS, partitions=4, partition_policy=2, pause_every=37, repeated=20),
        replace(OPTIONS, partitions=4, partition_policy=0, rows_per_message=50, old="changed"),
        replace(OPTIONS, partitions=8, partition_policy=1, rows_per_message=7, pause_every=5, repeated=9),
        JSON_OPTIONS,
        replace(JSON_OPTIONS, partitions=4, partition_policy=2, rows_per_message=20, pause_every=37, repeated=20),
        replace(AVRO_OPTIONS, partitions=4, partition_policy=2, rows_per_message=20, pause_every=37, repeated=20),
        replace(AVRO_OPTIONS, partitions=2, old="changed", framing="confluent"),
        replace(AVRO_OPTIONS, rows_per_message=3, framing="container"),
    ],
)
def test_what_is_decoded_is_the_databases_content(
    transactions: list[Transaction], dump: Path, options: DrsOptions
) -> None:
    messages = recorded(transactions, options)
    by_partition = sorted(messages, key=lambda message: (message.partition, message.offset))
    assert_equal(content([message.value for message in by_partition], WIRES[type(options)]), dump)


def test_a_change_that_is_lost_is_noticed(transactions: list[Transaction], dump: Path) -> None:
    messages, wire = recorded(transactions, OPTIONS), WIRES[DrsOptions]
    lost = next(place for place in reversed(range(len(messages))) if b'"type":"INSERT"' in messages[place].value)
    with pytest.raises(AssertionError):
        assert_equal(content([message.value for place, message in enumerate(messages) if place != lost], wire), dump)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("options", [OPTIONS, JSON_OPTIONS, AVRO_OPTIONS])
def test_a_full_load_and_what_came_after_it_are_the_same(
    transactions: list[Transaction], dump: Path, options: DrsOptions
) -> None:
    first_rows = next(place for place, one in enumerate(transactions) if len(one.events) > 1)
    timed = [_at(one, T0 + (place > first_rows + 1) * 100) for place, one in enumerate(transactions)]
    messages = recorded(timed, replace(options, full_load_until=T0 + 50))
    entries = WIRES[type(options)].entries(pa.array([message.value for message in messages], pa.binary())).batch
    kinds = {dict(properties)["type"] for properties in entries["properties"].to_pylist()}
    assert kinds >= {"INIT_DDL", "INIT", "UPDATE"}
    assert_equal(content([message.value for message in messages], WIRES[type(options)]), dump)


def recorded(transactions: Sequence[Transaction], options: DrsOptions) -> list[Message]:
    return list(vendor_of(options).recording(transactions, options, None))


def _at(transaction: Transaction, seconds: int) -> Transaction:
    events = (replace(one, at=replace(one.at, timestamp=seconds)) for one in transaction.events)
    return Transaction(tuple(events))


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", NAMES)
def test_the_command_writes_every_format(server: Server, tmp_path: Path, dump: Path, name: str) -> None:
    arguments = [
        "--socket",
        str(server.socket),
        "--user",
        server.user,
        "--out",
        str(tmp_path / "capture"),
        "--partitions",
        "4",
    ]
    ours = [*arguments, "--format", name, "--source-time-zone", "+08:00", "--partition-policy", "2"]
    done = CliRunner().invoke(main, [*ours, "--pause-every", "100", "--repeat", "10"])
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "capture")
    assert set(table["partition"].to_pylist()) == {0, 1, 2, 3}
    assert set(table["topic"].to_pylist()) == {"drs-emulator"}
    assert_equal(content(table["value"].to_pylist(), WIRES[VENDOR_TASKS[name].options]), dump)
    for wrong, said in (
        (
            ["--repeat", "5"],
            "--repeat is for --format drs-avro, drs-json-c, drs-json, canal-json, not for dts-protobuf",
        ),
        (["--format", "drs-json-c", "--partitioning", "table"], "--partitioning is for --format dts-protobuf"),
        (["--format", "drs-json-c", "--source-time-zone", "+8"], "write an offset"),
        (["--format", "drs-json-c", "--framing", "raw"], "--framing is for --format drs-avro, not for drs-json-c"),
        (["--format", "drs-json-c", "--repeat", "-5"], "must not be negative"),
    ):
        refused = CliRunner().invoke(main, [*arguments, *wrong])
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output
