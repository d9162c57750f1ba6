"""A consumer as plain as can be, sharing nothing with the decoder: protobuf objects, a loop and dicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.protocol import subscribe_pb2 as pb

Cell = str | None
Row = tuple[tuple[str, Cell], ...]

_CODECS = {"utf8": "utf-8", "utf8mb4": "utf-8", "ascii": "ascii", "latin1": "cp1252", "gbk": "gbk"}


@dataclass
class Replay:
    """What a topic amounts to: rows by key, bags of rows of tables without a key, and what was seen on the way."""

    keyed: dict[str, dict[Row, Row]] = field(default_factory=dict)
    bags: dict[str, Counter[Row]] = field(default_factory=dict)
    entries: list[tuple[int, pb.Entry]] = field(default_factory=list)
    fragments: int = 0
    changes: int = 0


def join(messages: list[tuple[int, bytes]]) -> Iterator[tuple[pb.Entry, int, int]]:
    """The entries of one partition's messages (sequence, value) with the first and last sequence of their set."""
    buffer, first = b"", 0
    for sequence, value in messages:
        envelope = pb.Envelope.FromString(value)
        assert envelope.version == 1
        if envelope.index == 0:
            buffer, first = b"", sequence
        buffer += envelope.data
        if envelope.index == envelope.total - 1:
            for entry in pb.Entries.FromString(buffer).items:
                yield entry, first, sequence


def replay_capture(folder: Path) -> Replay:
    """Read a capture and apply its changes in the order of the source."""
    table = pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partitions: dict[int, list[tuple[int, bytes]]] = {}
    for message in table.to_pylist():
        headers = {header["key"]: header["value"] for header in message["headers"]}
        messages = partitions.setdefault(message["partition"], [])
        assert int(headers["ps"]) == len(messages) + 1
        messages.append((int(headers["ps"]), message["value"]))
    replay = Replay()
    for number, messages in partitions.items():
        for entry, first, last in join(messages):
            replay.entries.append((number, entry))
            replay.fragments += last - first
    apply(replay)
    return replay


def apply(replay: Replay) -> None:
    """Apply all DML. Pieces of one event lie in several partitions, so within an event all old images go before new come."""
    dml = [entry for _, entry in replay.entries if entry.header.messageType == pb.DML]
    events: dict[tuple[int, int], list[pb.Entry]] = {}
    for entry in dml:
        place = (int(entry.header.fileName.rpartition(".")[2]), entry.header.position)
        events.setdefault(place, []).append(entry)
    for place in sorted(events):
        for old in (True, False):
            for entry in events[place]:
                apply_images(replay, entry, old=old)


def apply_images(replay: Replay, entry: pb.Entry, *, old: bool) -> None:
    name = f"{entry.header.schemaName}.{entry.header.tableName}"
    columns = entry.event.dmlEvent.columns
    keys = [index for index, column in enumerate(columns) if column.isKey]
    for row in entry.event.dmlEvent.rows:
        replay.changes += old
        image = row.oldColumns if old else row.newColumns
        if not image:
            continue
        assert len(image) == len(columns)
        cells = tuple((column.name, text_of(column, data)) for column, data in zip(columns, image, strict=True))
        key = tuple(cells[index] for index in keys)
        if not keys:
            bag = replay.bags.setdefault(name, Counter())
            bag[cells] += -1 if old else 1
            assert bag[cells] >= 0
        elif old:
            del replay.keyed[name][key]
        else:
            rows = replay.keyed.setdefault(name, {})
            assert key not in rows
            rows[key] = cells


def text_of(column: pb.Column, data: pb.Data) -> Cell:
    """A value in the dump's spelling."""
    if data.dataType == pb.NIL:
        return None
    if data.dataType in (pb.FLOAT32, pb.FLOAT64):
        return repr(float(data.sv))
    if data.sv:
        return data.sv
    if (data.dataType == pb.BYTES and column.originalType != "json") or data.charset == "binary":
        return data.bv.hex().upper()
    text = data.bv.decode(_CODECS[data.charset or "utf8"])
    return text.removesuffix(" +00:00") if column.originalType.startswith("timestamp") else text


def dumped_rows(file: Path) -> tuple[str, list[Row]]:
    """A dumped table's name and rows, with numbers in the spelling of :func:`text_of`."""
    table = pq.read_table(file)
    description = json.loads(table.schema.metadata[b"source_table"])
    types: Mapping[str, str] = {column["name"]: column["type"] for column in description["columns"]}

    def spelled(name: str, value: Cell) -> Cell:
        kind = types[name].partition("(")[0]
        if value is None:
            return None
        if kind in ("float", "double") or kind.startswith(("float", "double")):
            return repr(_single(float(value)) if kind.startswith("float") else float(value))
        return str(int(value)) if kind == "year" or "zerofill" in types[name] else value

    rows = [tuple((name, spelled(name, row[name])) for name in table.column_names) for row in table.to_pylist()]
    return f"{description['database']}.{description['table']}", rows


def _single(value: float) -> float:
    """What the fewest digits that name the single read as."""
    import numpy as np

    return float(str(np.float32(value)))


def unequal(replay: Replay, folder: Path) -> list[str]:
    """The dumped tables that the replay does not equal; columns added since a row was last written count as NULL."""
    differing = []
    for file in sorted(folder.glob("*.parquet")):
        name, expected = dumped_rows(file)
        columns = [column for column, _ in expected[0]] if expected else []
        whole = Counter(_filled(dict(row), columns) for row in expected)
        if name in replay.bags:
            found = Counter({_filled(dict(row), columns): count for row, count in replay.bags[name].items() if count})
        else:
            found = Counter(_filled(dict(row), columns) for row in replay.keyed.get(name, {}).values())
        if whole != found:
            differing.append(name)
    return differing


def _filled(row: Mapping[str, Cell], columns: list[str]) -> Row:
    assert set(row) <= set(columns)
    return tuple((column, row.get(column)) for column in columns)


@pytest.fixture(scope="session")
def replayed() -> Callable[[Path], Replay]:
    return replay_capture


@pytest.fixture(scope="session")
def differences() -> Callable[[Replay, Path], list[str]]:
    return unequal
