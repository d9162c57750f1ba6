"""Made-up DTS Protobuf traffic: transactions over several tables, with values drawn anew each time.

Two views of the same traffic: entry sets (what the decoder gets), and a capture (entry sets in envelopes, cut where they are
larger than a message may be, in several Kafka partitions over several windows, as Parquet files).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columnar_protobuf import (
    Integers,
    chosen,
    constant,
    constant_field,
    constant_number_field,
    field,
    grouped,
    joined,
    lengths,
    number_field,
)
from benchmarks.columns import FAT, NARROW, WIDE, Kind
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.format import MESSAGES
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.entry_encoder import EntryEncoder
from dts_emulator.dts.envelope_cutter import as_item, envelopes
from dts_emulator.source.events import Coordinates

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

_SHARES = (0.3, 0.5, 0.2)  # inserts, updates, deletes
_MOST_EVENTS = 5  # of a transaction
_BLOCK_BYTES = 48 << 20  # made at a time
_PER_SECOND = 1_000_000  # bytes of binlog: how far event times lie apart


@dataclass(frozen=True, slots=True)
class Table:
    """A made-up table; its first column is the key."""

    database: str
    name: str
    kinds: tuple[Kind, ...]

    def columns(self) -> list[pb.Column]:
        """Return the columns as an event describes them."""
        return [
            pb.Column(name=f"{_word(kind.original_type)}_{number}", originalType=kind.original_type, isKey=number == 0)
            for number, kind in enumerate(self.kinds)
        ]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of traffic: rows per event, bytes of an entry set, most bytes of a message."""

    rows: int
    set_bytes: int = 256 << 10
    message_bytes: int = 512 << 10


def tables(count: int, columns: int, *, seed: int) -> list[Table]:
    """``count`` tables. Five columns are the narrow kind, six the fat one, others a draw from the wide one.

    More than two tables have ``columns`` columns on the average, from half to half as many again.
    """
    draw = np.random.default_rng(seed)
    made = []
    for number in range(count):
        width = columns if count <= 2 else int(draw.integers(max(2, columns // 2), columns * 3 // 2, endpoint=True))
        wide = draw.choice(len(WIDE) - 1, min(width, len(WIDE)) - 1, replace=False) + 1
        kinds = {len(NARROW): NARROW, len(FAT): FAT}.get(columns, (WIDE[0], *(WIDE[one] for one in wide)))
        made.append(Table("shopdb", f"table_{number:04}", kinds))
    return made


def entry_sets(of: Sequence[Table], *, rows: int, size: int, seed: int, set_bytes: int = 256 << 10) -> pa.BinaryArray:
    """Return serialized entry sets of about ``size`` bytes in all.

    They hold transactions of up to five events with ``rows`` rows each.
    """
    made = list(_Maker(of, Shape(rows, set_bytes), seed).blocks(size))
    return pa.concat_arrays(made)


def write_capture(
    folder: Path,
    of: Sequence[Table],
    shape: Shape,
    *,
    size: int,
    seed: int,
    partitions: int,
    windows: int,
    every: timedelta = HOUR,
    later: int | Sequence[int] | None = None,
) -> int:
    """Write a capture of about ``size`` bytes of payload, and return the bytes of all message values.

    Behind the first window only the first ``later`` tables change, if that is given: a number for all windows, or one for each.

    Entry sets go to the Kafka partitions in turn, and windows are of about the same size.

    Every partition has a CHECKPOINT in the last second of every window, so that cuts exist. One file per partition.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kafka = [PartitionFile(folder, number) for number in range(partitions)]
    written, window, turn = 0, 0, 0
    begin, length = int(START.timestamp() * 1000), int(every.total_seconds() * 1000)
    last = b""
    blocks = _blocks(_Maker(of, shape, seed), size, windows, later)
    for of_window, data in ((of_window, one) for of_window, block in blocks for one in block.to_pylist()):
        reached = min(windows - 1, written * windows // size) if of_window is None else of_window
        while window < reached:
            window += 1
            for one in kafka:
                one.add([_checkpoint(last)], begin + window * length - 1000)
        filled = min(0.99, max(0.0, written * windows / size - window))
        group = envelopes(data, limit=shape.message_bytes)
        kafka[turn].add(group, begin + window * length + int(filled * length))
        written += sum(map(len, group))
        turn = (turn + 1) % partitions
        last = data
    for one in kafka:
        one.add([_checkpoint(last)], begin + windows * length - 1000)
        one.close()
    return written


def _blocks(
    maker: _Maker, size: int, windows: int, later: int | Sequence[int] | None
) -> Iterator[tuple[int | None, pa.BinaryArray]]:
    """Yield blocks of entry sets, with their windows where fewer tables change behind the first one.

    Elsewhere the bytes of messages, which are longer than the sets in them, tell where a window ends.
    """
    if later is None:
        yield from ((None, block) for block in maker.blocks(size))
        return
    changing = [maker.changing, *([later] * windows if isinstance(later, int) else later)]
    for number in range(windows):
        maker.changing = changing[number]
        yield from ((number, block) for block in maker.blocks(size // windows))


class PartitionFile:
    """The messages of one Kafka partition, written in row groups of some megabytes."""

    def __init__(self, folder: Path, number: int) -> None:
        self._number = number
        self._writer = pq.ParquetWriter(folder / f"part-{number:02}.parquet", MESSAGES, compression="zstd")
        self._offset = 0
        self._values: list[bytes] = []
        self._times: list[int] = []
        self._bytes = 0

    def add(self, values: Sequence[bytes], milliseconds: int) -> None:
        """Add messages of one time, in milliseconds since the epoch."""
        self._values += values
        self._times += [milliseconds] * len(values)
        self._bytes += sum(map(len, values))
        if self._bytes >= 16 << 20:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        count = len(self._values)
        if not count:
            return
        offsets = range(self._offset, self._offset + count)
        columns = {
            "topic": ["traffic"] * count,
            "partition": [self._number] * count,
            "offset": offsets,
            "timestamp": self._times,
            "key": [None] * count,
            "value": self._values,
            "headers": [[{"key": "ps", "value": str(offset + 1).encode()}] for offset in offsets],
        }
        self._writer.write_batch(pa.RecordBatch.from_pydict(columns, schema=MESSAGES))
        self._offset += count
        self._values, self._times, self._bytes = [], [], 0


class _Maker:
    """Entry sets of some tables, block by block; positions and times go on from block to block.

    ``changing`` is the number of tables that change in the blocks to come, the first of all.
    """

    def __init__(self, of: Sequence[Table], shape: Shape, seed: int) -> None:
        self._tables = of
        self.changing = len(of)
        self._shape = shape
        self._draw = np.random.default_rng(seed)
        self._columns = [
            b"".join(constant_field(2, column.SerializeToString()) for column in table.columns()) for table in of
        ]
        self._position = 4
        self._transactions = 0

    def blocks(self, size: int) -> Iterator[pa.BinaryArray]:
        """Entry sets of about ``size`` bytes; the first block shows how large an event is."""
        made = events = 0
        while made < size:
            wanted = min(size - made, _BLOCK_BYTES)
            count = max(1, round(wanted * events / made)) if made else 1
            sets = self._block(count)
            events += count
            made += int(lengths(sets).sum())
            yield sets

    def _block(self, events: int) -> pa.BinaryArray:
        draw = self._draw
        table = draw.integers(0, self.changing, events)
        operation = draw.choice(3, events, p=_SHARES)
        bodies, order = self._bodies(table, operation)
        sizes = draw.integers(1, _MOST_EVENTS, events, endpoint=True)
        firsts = np.concatenate(([0], np.cumsum(sizes)))
        firsts = firsts[firsts < events]  # the events that begin a transaction
        transaction = np.searchsorted(firsts, np.arange(events), side="right") - 1
        # BEGIN before the first event of a transaction, COMMIT after its last: places in the list of all entries.
        place = np.arange(events) + 2 * transaction + 1
        begins = firsts + 2 * np.arange(len(firsts))
        commits = np.append(begins[1:], events + 2 * len(firsts)) - 1
        number = self._transactions + 1 + np.arange(len(firsts))
        self._transactions += len(firsts)
        everything = np.empty(events + 2 * len(firsts), np.int64)
        everything[place] = order
        everything[begins] = events + np.arange(len(firsts))
        everything[commits] = events + len(firsts) + np.arange(len(firsts))
        event = chosen([*bodies, *_borders(number)], everything)
        kind = np.full(len(everything), int(pb.DML))
        kind[begins], kind[commits] = pb.BEGIN, pb.COMMIT
        names = np.full(len(everything), len(self._tables))
        names[place] = table
        which = np.empty(len(everything), np.int64)
        which[place], which[begins], which[commits] = number[transaction], number, number
        entries = joined(field(1, self._headers(event, kind, names, which)), field(2, event))
        return self._sets(field(1, entries), begins)

    def _bodies(self, table: Integers, operation: Integers) -> tuple[list[pa.BinaryArray], Integers]:
        """Event messages table by table, and for each event of the block which of them is its own."""
        bodies, order, made = [], np.empty(len(table), np.int64), 0
        for number in np.unique(table):
            mine = np.flatnonzero(table == number)
            bodies.append(self._events(int(number), operation[mine]))
            order[mine] = made + np.arange(len(mine))
            made += len(mine)
        return bodies, order

    def _events(self, number: int, operation: Integers) -> pa.BinaryArray:
        rows, kinds = self._shape.rows, self._tables[number].kinds
        row_operation = np.repeat(operation, rows)
        images = []
        for side, without in ((1, pb.INSERT), (2, pb.DELETE)):
            has = row_operation != without
            filled = joined(*(field(side, kind.cells(self._draw, int(has.sum()))) for kind in kinds))
            where = pa.array(np.cumsum(has) - 1, mask=~has)
            images.append(filled.take(where))
        changes = grouped(field(3, joined(*images)), np.arange(len(operation)) * rows)
        return field(2, joined(number_field(1, operation), constant(self._columns[number]), changes))

    def _headers(self, event: pa.BinaryArray, kind: Integers, names: Integers, number: Integers) -> pa.BinaryArray:
        position = self._position + np.cumsum(lengths(event))
        self._position = int(position[-1])
        spelled = [
            *(constant_field(9, one.database.encode()) + constant_field(10, one.name.encode()) for one in self._tables),
            b"",
        ]
        gtid = joined(constant(f"{SERVER}:".encode()), pa.array(number).cast(pa.string()).cast(pa.binary()))
        seconds = int(START.timestamp()) + position // _PER_SECOND
        return joined(
            constant(constant_number_field(1, 1) + constant_number_field(2, pb.MYSQL)),
            number_field(3, kind),
            number_field(4, seconds),
            constant(constant_number_field(5, 1) + constant_field(6, b"mysql-bin.000005")),
            number_field(7, position),
            field(8, gtid),
            pa.array(spelled, pa.binary()).take(pa.array(names)),
            number_field(11, position),
            constant(constant_number_field(13, 1)),
        )

    def _sets(self, items: pa.BinaryArray, begins: Integers) -> pa.BinaryArray:
        """Items joined to entry sets of the wanted size, cut between transactions."""
        ends = np.cumsum(lengths(items))
        before = np.concatenate(([0], ends[begins[1:] - 1]))
        _, first = np.unique(before // self._shape.set_bytes, return_index=True)
        return grouped(items, begins[first])


def _borders(number: Integers) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """BEGIN and COMMIT events of transactions."""
    text = field(1, pa.array(number).cast(pa.string()).cast(pa.binary()))
    return field(1, joined(text, constant(constant_number_field(2, 17)))), field(3, text)


def _checkpoint(after: bytes) -> bytes:
    """Return a CHECKPOINT message with the position and the GTIDs up to the end of an entry set."""
    at = pb.Entries.FromString(after).items[-1].header
    place = Coordinates(at.fileName, at.position, at.position, at.timestamp, 1, None)
    synced = f"{SERVER}:1-{at.gtid.rpartition(':')[2]}"
    checkpoint = EntryEncoder(DtsOptions(), at.seqId).checkpoint(place, timestamp=at.timestamp, synced=synced)
    (message,) = envelopes(as_item(checkpoint), limit=1 << 20)
    return message


def _word(original_type: str) -> str:
    return "".join(letter for letter in original_type.split("(")[0] if letter.isalnum())
