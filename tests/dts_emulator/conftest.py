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
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server
from tests.dts_emulator.worked_databases import GALLERY, WORK, dump_of, transactions_of, worked_server

Cell = str | None
Row = tuple[tuple[str, Cell], ...]

_CODECS = {"utf8": "utf-8", "utf8mb4": "utf-8", "ascii": "ascii", "latin1": "cp1252", "gbk": "gbk"}


@dataclass(frozen=True)
class Change:
    """One row change; a missing image is None."""

    table: str
    keys: frozenset[str]
    old: Row | None
    new: Row | None

    def key(self, image: Row | None) -> Row | None:
        return None if image is None else tuple(cell for cell in image if cell[0] in self.keys)


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
    """Apply all DML in the order of the source."""
    events: dict[tuple[int, int], list[list[Change]]] = {}
    for _, entry in replay.entries:
        if entry.header.messageType == pb.DML:
            place = (int(entry.header.fileName.rpartition(".")[2]), entry.header.position)
            events.setdefault(place, []).append(list(changes_of(entry)))
    for place in sorted(events):
        apply_event(replay, events[place])


def changes_of(entry: pb.Entry) -> Iterator[Change]:
    columns = entry.event.dmlEvent.columns
    for row in entry.event.dmlEvent.rows:
        images = []
        for image in (row.oldColumns, row.newColumns):
            assert len(image) in (0, len(columns))
            cells = tuple((column.name, text_of(column, data)) for column, data in zip(columns, image, strict=False))
            images.append(cells or None)
        keys = frozenset(column.name for column in columns if column.isKey)
        yield Change(f"{entry.header.schemaName}.{entry.header.tableName}", keys, *images)


def apply_event(replay: Replay, pieces: list[list[Change]]) -> None:
    """Apply the pieces of one event. Each has its own order; between them, a change waits until it is possible."""
    while any(pieces):
        possible = [piece for piece in pieces if piece and is_possible(replay, piece[0])]
        assert possible, "no change of the event can come next"
        apply_change(replay, possible[0].pop(0))


def is_possible(replay: Replay, change: Change) -> bool:
    if not change.keys:
        return change.old is None or replay.bags.get(change.table, Counter())[change.old] > 0
    rows = replay.keyed.setdefault(change.table, {})
    old, new = change.key(change.old), change.key(change.new)
    return (old is None or old in rows) and (new is None or new == old or new not in rows)


def apply_change(replay: Replay, change: Change) -> None:
    replay.changes += 1
    if not change.keys:
        bag = replay.bags.setdefault(change.table, Counter())
        bag.subtract([change.old] if change.old else [])
        bag.update([change.new] if change.new else [])
        return
    rows = replay.keyed[change.table]
    old, new = change.key(change.old), change.key(change.new)
    if old is not None:
        stored, sent = dict(rows.pop(old)), dict(change.old or ())
        assert {name: stored[name] for name in stored.keys() & sent} == {
            name: sent[name] for name in stored.keys() & sent
        }
    if new is not None and change.new is not None:
        rows[new] = change.new


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
    """The dumped tables that the replay does not equal. Of columns added since a row was last written, it has NULL."""
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
    return tuple((column, row.get(column)) for column in columns)


@pytest.fixture(scope="session")
def replayed() -> Callable[[Path], Replay]:
    return replay_capture


@pytest.fixture(scope="session")
def differences() -> Callable[[Replay, Path], list[str]]:
    return unequal


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A database that has done some work. Modules share it and leave it as it is."""
    with worked_server((*WORK, *GALLERY)) as running:
        yield running


@pytest.fixture(scope="session")
def transactions(server: Server) -> list[Transaction]:
    return transactions_of(server)


@pytest.fixture(scope="session")
def dump(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dump_of(server, tmp_path_factory.mktemp("dump"), tables=4)
