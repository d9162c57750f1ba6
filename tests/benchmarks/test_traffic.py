"""Made-up traffic, read back by protobuf's own parser."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import traffic
from benchmarks.columnar_protobuf import constant_number_field, varints
from dts_assets.protocol import subscribe_pb2 as pb


def entries_of(sets: pa.BinaryArray) -> list[pb.Entry]:
    return [entry for data in sets.to_pylist() for entry in pb.Entries.FromString(data).items]


@pytest.mark.parametrize(("count", "columns", "rows"), [(1, 5, 1), (1, 30, 20), (2, 30, 3), (20, 15, 2), (1, 6, 2)])
def test_traffic_is_transactions_of_whole_events(count: int, columns: int, rows: int) -> None:
    tables = traffic.tables(count, columns, seed=1)
    sets = traffic.entry_sets(tables, rows=rows, size=400_000, seed=2, set_bytes=50_000)
    assert 400_000 <= sets.nbytes < 1_000_000
    entries, by_name = entries_of(sets), {table.name: table for table in tables}
    types = [entry.header.messageType for entry in entries]
    assert types[0] == pb.BEGIN
    assert types.count(pb.BEGIN) == types.count(pb.COMMIT)
    positions = [entry.header.position for entry in entries]
    assert positions == sorted(set(positions))
    for data in sets.to_pylist():  # a set is cut between transactions
        items = pb.Entries.FromString(data).items
        assert (items[0].header.messageType, items[-1].header.messageType) == (pb.BEGIN, pb.COMMIT)
    for entry in entries:
        if entry.header.messageType != pb.DML:
            assert not entry.header.tableName
            continue
        event, table = entry.event.dmlEvent, by_name[entry.header.tableName]
        assert list(event.columns) == table.columns()
        assert len(event.rows) == rows
        for row in event.rows:
            assert len(row.oldColumns) == (0 if event.dmlEventType == pb.INSERT else len(table.kinds))
            assert len(row.newColumns) == (0 if event.dmlEventType == pb.DELETE else len(table.kinds))
            for image in (row.oldColumns, row.newColumns):
                for data, kind in zip(image, table.kinds, strict=False):
                    assert data.dataType in (kind.data_type, pb.NIL)
                    assert data.dataType != pb.NIL or kind.nullable


def test_messages_are_written_as_protobuf_writes_them() -> None:
    sets = traffic.entry_sets(traffic.tables(3, 15, seed=3), rows=2, size=200_000, seed=4)
    assert len(sets) > 0
    for data in sets.to_pylist():
        assert pb.Entries.FromString(data).SerializeToString() == data


def test_values_are_drawn_anew() -> None:
    sets = traffic.entry_sets(traffic.tables(1, 5, seed=5), rows=5, size=500_000, seed=6)
    keys = [
        row.newColumns[2].bv for entry in entries_of(sets) for row in entry.event.dmlEvent.rows if row.newColumns
    ]  # fmt: skip
    assert len(keys) > 300
    assert len(set(keys)) == len(keys)


def test_a_recording_is_cut_into_windows_and_messages(tmp_path: Path) -> None:
    shape = traffic.Shape(20, set_bytes=60_000, message_bytes=20_000)
    payload = traffic.write_capture(
        tmp_path, traffic.tables(2, 10, seed=7), shape, size=1_000_000, seed=8, partitions=3, windows=4
    )
    rows = pq.read_table(tmp_path).to_pylist()
    values = [row["value"] for row in rows]
    assert sum(map(len, values)) >= payload >= 1_000_000
    assert max(map(len, values)) < 20_100
    hours = {(row["timestamp"] - traffic.START) // timedelta(hours=1) for row in rows}
    assert hours == {0, 1, 2, 3}
    for partition in range(3):
        mine = [row for row in rows if row["partition"] == partition]
        assert [row["offset"] for row in mine] == list(range(len(mine)))
        assert [row["timestamp"] for row in mine] == sorted(row["timestamp"] for row in mine)
        assert [dict((h["key"], h["value"]) for h in row["headers"])["ps"] for row in mine] == [
            str(number + 1).encode() for number in range(len(mine))
        ]
        envelopes = [pb.Envelope.FromString(row["value"]) for row in mine]
        assert any(one.total > 1 for one in envelopes)
        ends = [pb.Entries.FromString(one.data).items[0] for one in envelopes if one.total == 1]
        assert sum(one.header.messageType == pb.CHECKPOINT for one in ends) == 4


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, (1 << 21) - 1, 1 << 21, (1 << 32) + 5])
def test_numbers_are_varints(number: int) -> None:

    (made,) = varints(np.array([number])).to_pylist()
    assert pb.Header.FromString(b"\x38" + made).position == number
    assert constant_number_field(7, number) == b"\x38" + made
