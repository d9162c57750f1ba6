"""A capture: a folder of Parquet files with recorded Kafka messages, the source that needs no broker.

Any split into files is legal, and so is any order inside them: a capture is indexed by reading three narrow columns (partition,
offset, timestamp) of every file once. That is 20 bytes a message, so ten million messages take about a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.errors.sources import CaptureError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.capture_folder import capture_files, require_recording
from dts_assets.sources.layouts import first_number, located
from dts_assets.sources.milliseconds import ceiling_of, column_of, floor_of, instant_of, milliseconds_of

MESSAGE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

_NUMBERING = {"partition": pa.types.is_integer, "offset": pa.types.is_integer, "timestamp": pa.types.is_timestamp}
"""The columns by which messages are found; other tools may write them narrower or finer."""

_BATCH_BYTES = 8 << 20
_ROW_BYTES = 128
_KEPT_BYTES = 64 << 20
"""The largest row group that a process keeps after reading it."""

_CLOCKS_DIFFER = timedelta(days=1)
"""The time that a message may be ahead of this machine's clock, and still be believed."""

_LAST_BELIEVED = floor_of(datetime(7000, 1, 1, tzinfo=UTC))
"""The latest time that is believed by whatever clock.

The longest durations of the settings can be added to it.
"""

_OFFSETS = (0, (1 << 63) - 2)
"""The least and the greatest offset: the one behind it fits 64 bits."""

_MOST_PARTITIONS = 1 << 20
_Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _PartitionIndex:
    """The messages of one Kafka partition, ascending by offset; ``groups`` are the numbers of their row groups."""

    offsets: _Integers
    milliseconds: _Integers
    groups: _Integers


_EMPTY = _PartitionIndex(*[np.empty(0, dtype=np.int64)] * 3)


@dataclass(frozen=True, slots=True)
class _Index:
    partitions: Mapping[int, _PartitionIndex]
    row_groups: tuple[tuple[str, int], ...]
    latest: int | None
    names: tuple[str, ...] = ()

    def of(self, kafka_partition: int) -> _PartitionIndex:
        return self.partitions.get(kafka_partition, _EMPTY)

    def latest_until(self, limit: int) -> int | None:
        if self.latest is None or self.latest <= limit:
            return self.latest
        times = [one.milliseconds[one.milliseconds <= limit] for one in self.partitions.values()]
        return max((int(some.max()) for some in times if some.size), default=None)


@dataclass(frozen=True, slots=True)
class CaptureSource:
    """The messages of a capture folder.

    It may grow while it is read, and one that does not exist yet is empty. One that is ``complete`` has to be there. ``topics``
    are its topics with their numbers of partitions, ``(("shop", 4), ("shop-ddl", 1))``, in the order in which Kafka partitions
    are numbered; a capture of one topic needs no name.
    """

    path: str
    partitions: int
    complete: bool = False
    topics: tuple[tuple[str, int], ...] = ()

    def named_topics(self) -> tuple[tuple[str, int], ...]:
        """Return the topics with their numbers of partitions.

        There are none where a single topic has no name and no message yet.
        """
        return self.topics or tuple((name, self.partitions) for name in self._index().names)

    def watermarks(self) -> Mapping[int, Watermark]:
        """Return the offsets recorded so far and their times, by Kafka partition."""
        index = self._index()
        return {partition: _watermark(index.of(partition)) for partition in range(self.partitions)}

    def now(self) -> datetime | None:
        """Return the greatest message time in the capture that can be believed; None if there is none.

        A recording is made after its messages. So a message dated in the future is not believed beside others that are not:
        windows up to its time would never end. If all of them are, the clock of this machine is wrong.
        """
        index = self._index()
        for limit in (floor_of(datetime.now(UTC) + _CLOCKS_DIFFER), _LAST_BELIEVED):
            latest = index.latest_until(limit)
            if latest is not None:
                return instant_of(latest)
        return None

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        """Return the first offset dated in ``[instant, not_after]``, as a broker would; None if there is none."""
        index = self._index().of(kafka_partition)
        dated = (index.milliseconds >= ceiling_of(instant)) & (index.milliseconds <= floor_of(not_after))
        return int(index.offsets[dated.argmax()]) if dated.any() else None

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> Mapping[tuple[int, datetime], int | None]:
        """Return :meth:`offset_for_time` of many (Kafka partition, instant) pairs."""
        return {
            (kafka_partition, instant): self.offset_for_time(kafka_partition, instant, not_after=not_after)
            for kafka_partition, instant in questions
        }

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        """Return the offsets in the range whose messages are dated after ``instant``."""
        index = self._index().of(kafka_partition)
        inside = (index.offsets >= offsets.start) & (index.offsets < offsets.end)
        return tuple(int(offset) for offset in index.offsets[inside & (index.milliseconds > floor_of(instant))])

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a range in offset order. A message recorded twice under one offset is given once."""
        index = self._index()
        partition = index.of(kafka_partition)
        first, last = np.searchsorted(partition.offsets, [offsets.start, offsets.end])
        for numbers, low, high in _runs(partition, int(first), int(last)):
            tables = [self._read_group(*index.row_groups[number], kafka_partition) for number in numbers]
            table = pa.concat_tables(tables)
            inside = pc.and_(pc.greater_equal(table["offset"], low), pc.less_equal(table["offset"], high))
            yield from _batches(_ordered(_only(table, inside)))

    def _read_group(self, file: str, group: int, kafka_partition: int) -> pa.Table:
        stat = Path(file).stat()
        table = _row_group(file, stat.st_size, stat.st_mtime_ns, group)
        if table.nbytes > _KEPT_BYTES:
            _row_group.cache_clear()
        if not self.topics:
            return _only(table, pc.equal(table["partition"], kafka_partition))
        topic, partition = located(self.topics, kafka_partition)
        return _only(table, pc.and_(pc.equal(table["topic"], topic), pc.equal(table["partition"], partition)))

    def _index(self) -> _Index:
        folder = Path(self.path)
        if self.complete:
            require_recording(folder)
        stats = [(str(file), file.stat()) for file in capture_files(folder)]
        state = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        return _build_index(self.path, self.partitions, self.topics, state)


@lru_cache(maxsize=1)
def _row_group(file: str, size: int, modified: int, group: int) -> pa.Table:
    """Return a row group of a file as it stood; the last one is kept.

    A process reads windows that follow each other, and many small windows lie in one group, which 1,000 windows of 64 KB would
    have read 250 times over.
    """
    with pq.ParquetFile(file) as parquet:
        table = parquet.read_row_group(group, columns=MESSAGE_SCHEMA.names)
    times = column_of(milliseconds_of(table["timestamp"]))
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times)
    return table.select(MESSAGE_SCHEMA.names).cast(MESSAGE_SCHEMA)


@lru_cache(maxsize=16)
def _build_index(
    path: str, partitions: int, topics: tuple[tuple[str, int], ...], state: tuple[tuple[str, int, int], ...]
) -> _Index:
    """Return the index of a capture as it stood at ``state``: name, size and modification time of files.

    Raises:
        CaptureError: The folder is not a capture of the subscription.
    """
    columns: list[tuple[_Integers, ...]] = []
    row_groups: list[tuple[str, int]] = []
    names: set[str] = set()
    for file, _, _ in state:
        with _open(path, file) as parquet:
            for group in range(parquet.metadata.num_row_groups):
                table = parquet.read_row_group(group, columns=["topic", "partition", "offset", "timestamp"])
                if unnumbered := [name for name in _NUMBERING if table[name].null_count]:
                    raise CaptureError(
                        path, f"{Path(file).name} has rows without {', '.join(unnumbered)}; record it anew"
                    )
                names.update(str(topic) for topic in pc.unique(table["topic"]).to_pylist())
                columns.append(
                    (
                        _numbered(table, topics, path)
                        if topics
                        else _numbers(
                            table["partition"], (0, partitions - 1), path, _OTHER_PARTITION.format(partitions)
                        ),
                        _numbers(table["offset"], _OFFSETS, path, f"{Path(file).name} {_NO_OFFSET}"),
                        milliseconds_of(table["timestamp"]),
                        np.full(table.num_rows, len(row_groups), dtype=np.int64),
                    )
                )
                row_groups.append((file, group))
    if len(names) > 1 and not topics:
        raise CaptureError(
            path,
            f"it holds {len(names)} topics ({', '.join(sorted(names))}); write below capture how many Kafka partitions each has, "
            f"in the order in which they are to be numbered, topics: {{{': ..., '.join(sorted(names))}: ...}}",
        )
    if not columns:
        return _Index({}, (), None)
    partition, offset, stamp, group_number = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    index: dict[int, _PartitionIndex] = {}
    for number in np.unique(partition):
        mine = partition == number
        offsets, first = np.unique(offset[mine], return_index=True)
        index[int(number)] = _PartitionIndex(offsets, stamp[mine][first], group_number[mine][first])
    return _Index(index, tuple(row_groups), int(stamp.max()) if stamp.size else None, tuple(sorted(names)))


_OTHER_PARTITION = (
    "it holds Kafka partition {{}}, the subscription says partitions: {}; set partitions to what the topic has"
)
_NO_OFFSET = "has a message with offset {}, which no broker gives; record it anew"


def _numbers(column: pa.ChunkedArray, bounds: tuple[int, int], path: str, problem: str) -> _Integers:
    """Return whole numbers of any width.

    Raises:
        CaptureError: A number is out of bounds; it stands in the place of ``{}`` in ``problem``.
    """
    found = pc.min_max(column).as_py()
    for number in (found["min"], found["max"]) if len(column) else ():
        if not bounds[0] <= number <= bounds[1]:
            raise CaptureError(path, problem.replace("{}", str(number)))  # names of files may have braces
    numbers: _Integers = column.to_numpy().astype(np.int64)
    return numbers


def _numbered(table: pa.Table, topics: tuple[tuple[str, int], ...], path: str) -> _Integers:
    """Return the number of the Kafka partition of each message, counted over all topics.

    Raises:
        CaptureError: A message is of another topic, or of a partition that its topic does not have.
    """
    partition = _numbers(table["partition"], (0, _MOST_PARTITIONS), path, "it holds Kafka partition {}; record it anew")
    found = np.full(table.num_rows, -1, dtype=np.int64)
    for topic in pc.unique(table["topic"]).to_pylist():
        count = dict(topics).get(topic)
        if count is None:
            there = ", ".join(name for name, _ in topics)
            raise CaptureError(
                path, f"it holds topic {topic}, and topics names {there}; add it at the end, with its partitions"
            )
        mine = np.asarray(pc.equal(table["topic"], topic).combine_chunks())
        greatest = int(partition[mine].max())
        if greatest >= count:
            what = f"it holds Kafka partition {greatest} of topic {topic}, and topics says {count}"
            raise CaptureError(path, f"{what}; set it to what the topic has")
        found[mine] = partition[mine] + first_number(topics, topic)
    return found


def _open(path: str, file: str) -> pq.ParquetFile:
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise CaptureError(
            path, f"{Path(file).name} is not a readable Parquet file ({error}); remove or replace it"
        ) from error
    missing = [name for name in MESSAGE_SCHEMA.names if name not in parquet.schema_arrow.names]
    if missing:
        raise CaptureError(
            path,
            f"{Path(file).name} has no column {', '.join(missing)}; a capture has {', '.join(MESSAGE_SCHEMA.names)}",
        )
    for name, is_right in _NUMBERING.items():
        if not is_right(parquet.schema_arrow.field(name).type):
            found, wanted = parquet.schema_arrow.field(name).type, MESSAGE_SCHEMA.field(name).type
            raise CaptureError(path, f"column {name} of {Path(file).name} is {found}; write it as {wanted}")
    return parquet


def _runs(index: _PartitionIndex, first: int, last: int) -> Iterator[tuple[list[int], int, int]]:
    """Yield row groups to read together, with the offsets (inclusive) that they give: ``([3], 0, 99)``.

    Groups that follow each other in offset order are read one by one, several only where their offsets interleave.
    """
    groups = index.groups[first:last]
    if not groups.size:
        return
    final = {int(number): position for position, number in enumerate(groups)}
    start, reach = 0, -1
    for position, number in enumerate(groups):
        reach = max(reach, final[int(number)])
        if position == reach:
            members = [int(member) for member in dict.fromkeys(groups[start : position + 1].tolist())]
            yield members, int(index.offsets[first + start]), int(index.offsets[first + position])
            start = position + 1


def _only(table: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """Return the wanted rows; mostly all of them, and then nothing is copied."""
    return table if pc.all(wanted).as_py() else table.filter(wanted)


def _ordered(table: pa.Table) -> pa.Table:
    """Return the rows by offset, each offset once."""
    offsets = table["offset"].to_numpy()
    if offsets.size > 1 and not bool((np.diff(offsets) > 0).all()):
        _, first = np.unique(offsets, return_index=True)
        table = table.take(pa.array(first))
    return table


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about ``_BATCH_BYTES``; messages differ in size by a factor of a million."""
    lengths = pc.fill_null(pc.binary_length(table["value"]), 0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths + _ROW_BYTES)
    first, before = 0, 0
    while first < table.num_rows:
        last = max(first + 1, int(np.searchsorted(ends, before + _BATCH_BYTES, side="right")))
        yield from table.slice(first, last - first).combine_chunks().to_batches()
        first, before = last, int(ends[last - 1])


def _watermark(index: _PartitionIndex) -> Watermark:
    if not index.offsets.size:
        return Watermark(0, 0, None, None)
    first, greatest = int(index.milliseconds[0]), int(index.milliseconds.max())
    return Watermark(int(index.offsets[0]), int(index.offsets[-1]) + 1, instant_of(first), instant_of(greatest))
