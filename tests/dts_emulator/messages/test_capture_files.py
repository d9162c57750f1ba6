"""A capture's files: layout, order and row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dts_emulator.messages.capture_files import CAPTURE_SCHEMA, write_capture
from dts_emulator.messages.message import Message


def message(partition: int, offset: int, value: bytes = b"v") -> Message:
    return Message(partition, offset, 1000 + offset, None, value, (("ps", b"%d" % (offset + 1)),))


def test_messages_are_kept_whole(tmp_path: Path) -> None:
    (file,) = write_capture([message(0, 0), message(1, 0)], tmp_path / "capture", topic="t")
    table = pq.read_table(file)
    assert table.schema.equals(CAPTURE_SCHEMA)
    assert table.slice(0, 1).to_pylist()[0]["headers"] == [{"key": "ps", "value": b"1"}]
    assert table["topic"].to_pylist() == ["t", "t"]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1000, 1000]
    assert pq.ParquetFile(file).metadata.row_group(0).column(5).compression == "ZSTD"


def test_files_follow_each_other_and_are_sorted_inside(tmp_path: Path) -> None:
    messages = [message(number % 3, number // 3) for number in range(30)]
    files = write_capture(messages, tmp_path, topic="t", messages_per_file=12)
    assert [file.name for file in files] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    for file in files:
        table = pq.read_table(file)
        keys = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
        assert keys == sorted(keys)
        assert pq.ParquetFile(file).num_row_groups == 3


def test_large_messages_make_small_row_groups(tmp_path: Path) -> None:
    (file,) = write_capture([message(0, number, bytes(3_000_000)) for number in range(6)], tmp_path, topic="t")
    assert pq.ParquetFile(file).num_row_groups == 2


def test_an_earlier_capture_is_replaced(tmp_path: Path) -> None:
    write_capture([message(0, number) for number in range(4)], tmp_path, topic="t", messages_per_file=1)
    write_capture([message(0, 0)], tmp_path, topic="t")
    assert [file.name for file in tmp_path.iterdir()] == ["part-00000.parquet"]
