"""The speed of reading a Kafka topic, compared with a plain consumer loop.

``python -m benchmarks.source`` starts a broker, fills topics of one partition with messages of 1 KB and of 500 KB (two headers
each, as DTS sends them), prints a table and, as its last line, one JSON object. The ways are taken in turns on the same messages,
the least of several turns each:

- ``ratios``: speed of ours by that of two loops, by the clock, since the library's own threads work beside ours. Both ask the
  same client with the same settings for a thousand messages at a time. One (``small``, ``large``) takes the lengths of values
  and nothing else, the other (``small rows``, ``large rows``) what a row of ``raw_envelopes`` has: offset, time, key, value
  and headers, in tuples. Ours makes Arrow batches of all of that.
- ``tasks`` in the figures: the same in Spark tasks without writing, the partition read by one task, or cut into as many ranges
  as there are cores.
- ``raw files`` and ``data source``: messages to Parquet files in Spark, by tasks that read and write (what ``raw_envelopes``
  does), and by a Python data source over the same reader and Spark's own writer.

Times are seconds; ``processor`` is time of this process, all threads, the broker's not included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks.command import Options, finish
from benchmarks.workbench import Workbench, workbench
from dts_assets.flows.ingest_tasks import RawTask, copy_messages
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_source import KafkaSource
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import RAW_ENVELOPES
from dts_emulator.kafka.private_broker import Broker, private_broker

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

START = datetime(2026, 1, 5, tzinfo=UTC)
CORES = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A topic of messages of one size."""

    name: str
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Took:
    """Least seconds of a way."""

    clock: float
    processor: float


def fill(broker: Broker, case: Case, *, seed: int) -> KafkaSource:
    """Fill a topic with the messages of a case: text as compressible as row images are.

    Raises:
        SystemExit: The broker did not take all messages.
    """
    broker.create_topic(case.name, 1)
    settings: dict[str, Any] = {
        **broker.client_config(), "message.max.bytes": 8_000_000, "linger.ms": 20, "compression.type": "lz4", "log_level": 0,
    }  # fmt: skip
    producer, chance = Producer(settings), Random(seed)
    words = [chance.randbytes(12) for _ in range(4096)]
    values = [b"".join(chance.choices(words, k=case.size // 12 + 1))[: case.size] for _ in range(16)]
    for number in range(case.count):
        headers: Any = [("ps", b"%d" % (number + 1)), ("ShardId", b"shard-0")]
        while True:
            try:
                producer.produce(
                    case.name, values[number % len(values)], None, 0, timestamp=_stamp(number), headers=headers
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(f"{case.name}: the broker did not take all messages")
    config = broker.client_config()
    return KafkaSource(KafkaPlace(config.pop("bootstrap.servers"), (case.name,), 1, None, tuple(config.items())))


def _stamp(number: int) -> int:
    return int((START + number * timedelta(milliseconds=1)).timestamp() * 1000)


def plain_loop(source: KafkaSource, case: Case) -> int:
    """Bytes of values, as a team would count them with the client library."""
    consumer = Consumer(source.place.reader_settings)
    consumer.assign([TopicPartition(case.name, 0, 0)])
    messages = size = 0
    while messages < case.count:
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                messages += 1
                size += len(message.value() or b"")
    return size


def loop_with_rows(source: KafkaSource, case: Case) -> int:
    """Return the bytes of values, read by a team that keeps ten thousand messages at a time."""
    consumer = Consumer(source.place.reader_settings)
    consumer.assign([TopicPartition(case.name, 0, 0)])
    messages = size = 0
    rows: list[tuple[Any, ...]] = []
    while messages < case.count:
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                messages += 1
                value = message.value() or b""
                size += len(value)
                rows.append((message.offset(), message.timestamp()[1], message.key(), value, message.headers()))
        if len(rows) >= 10_000:
            rows.clear()
    return size


def ours(source: KafkaSource, case: Case) -> int:
    """Bytes of values, read as the product reads them."""
    return sum(map(_bytes, source.read(0, OffsetRange(0, case.count))))


def _bytes(batch: pa.RecordBatch) -> int:
    return int(pc.sum(pc.binary_length(batch["value"])).as_py())


def in_tasks(bench: Workbench, source: KafkaSource, case: Case, tasks: int) -> int:
    """Return the bytes of values, read in Spark tasks."""

    def work(offsets: OffsetRange, attempt: str) -> int:
        return sum(_bytes(batch) for batch in source.read(0, offsets))

    return sum(run_tasks(bench.spark, _cut(case, tasks), work, weight=len))


def _cut(case: Case, parts: int) -> list[OffsetRange]:
    borders = [case.count * number // parts for number in range(parts + 1)]
    return [OffsetRange(start, end) for start, end in pairwise(borders)]


def to_files(bench: Workbench, source: KafkaSource, case: Case, turn: str) -> int:
    """Raw files by tasks that read and write."""
    lake = Lake(bench.lake)
    lake.ensure((case.name, "raw_envelopes"), RAW_ENVELOPES)
    target = lake.target((case.name, "raw_envelopes"), turn)
    window = Window(START, START + timedelta(hours=1))
    tasks = [RawTask(source, Cell(0, window), offsets, (offsets,), 0, target) for offsets in _cut(case, CORES)]
    done = run_tasks(bench.spark, tasks, copy_messages, weight=lambda task: len(task.offsets))
    return sum(result.copied.bytes for result in done)


_OF_SPARK = pa.schema(
    [field.with_type(pa.timestamp("us", tz="UTC")) if field.name == "timestamp" else field for field in MESSAGE_SCHEMA]
)
"""Spark knows no milliseconds."""


class _Range(InputPartition):
    def __init__(self, offsets: OffsetRange) -> None:
        self.start, self.end = offsets.start, offsets.end


class _Reader(DataSourceReader):
    def __init__(self, source: KafkaSource, ranges: list[OffsetRange]) -> None:
        self.source, self.ranges = source, ranges

    def partitions(self) -> list[InputPartition]:
        return [_Range(one) for one in self.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        for batch in self.source.read(0, OffsetRange(partition.start, partition.end)):
            yield batch.cast(_OF_SPARK)


def data_source_of(source: KafkaSource, case: Case) -> type[DataSource]:
    """Return a Python data source of the topic."""

    class Messages(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"messages_{case.name}"

        def schema(self) -> StructType:
            return from_arrow_schema(_OF_SPARK)

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(source, _cut(case, CORES))

    return Messages


def by_data_source(bench: Workbench, case: Case, turn: str) -> int:
    """Files by Spark's own writer; the bytes are not counted, which would be a second pass."""
    folder = bench.folder / f"{case.name}-{turn}"
    bench.spark.read.format(f"messages_{case.name}").load().write.option("compression", "zstd").parquet(str(folder))
    return case.size * case.count


def measure(bench: Workbench, broker: Broker, case: Case, *, turns: int, seed: int) -> dict[str, Took]:
    """Time every way on the messages of a case, in turns.

    Raises:
        SystemExit: A way did not read every byte.
    """
    source = fill(broker, case, seed=seed)
    bench.spark.dataSource.register(data_source_of(source, case))
    ways: dict[str, Callable[[str], int]] = {
        "loop": lambda turn: plain_loop(source, case),
        "loop, rows": lambda turn: loop_with_rows(source, case),
        "ours": lambda turn: ours(source, case),
        "1 task": lambda turn: in_tasks(bench, source, case, 1),
        f"{CORES} tasks": lambda turn: in_tasks(bench, source, case, CORES),
        "raw files": lambda turn: to_files(bench, source, case, turn),
        "data source": lambda turn: by_data_source(bench, case, turn),
    }
    took = dict.fromkeys(ways, Took(float("inf"), float("inf")))
    for number in range(turns + 1):  # the first warms up the broker's cache and Spark's workers
        for name, way in ways.items():
            clock, processor = time.perf_counter(), time.process_time()
            if way(f"turn{number}") != case.size * case.count:
                raise SystemExit(f"{case.name}: {name} did not read every byte")
            last = Took(time.perf_counter() - clock, time.process_time() - processor)
            if number:
                took[name] = min(took[name], last, key=lambda one: one.clock)
    return took


def report(measured: Mapping[Case, Mapping[str, Took]]) -> None:
    """Print the last line."""
    ratios = {
        f"{case.name}{suffix}": round(took[peer].clock / took["ours"].clock, 2)
        for peer, suffix in (("loop", ""), ("loop, rows", " rows"))
        for case, took in measured.items()
    }
    figures = {
        case.name: {
            "messages": case.count,
            "megabytes": round(case.count * case.size / 1e6, 1),
            "seconds": {name: round(one.clock, 3) for name, one in took.items()},
            "processor": {name: round(took[name].processor, 3) for name in ("loop", "ours")},
        }
        for case, took in measured.items()
    }
    finish("source", ratios, figures)


def main() -> int:
    """Run the command."""
    options = Options("source", __doc__)
    options.add_megabytes(200, "of values in each topic")
    options.add_turns(5)
    options.add_seed()
    chosen = options.parse_args()
    cases = [
        Case(name, size, chosen.megabytes * 1_000_000 // size) for name, size in (("small", 1_000), ("large", 500_000))
    ]
    measured: dict[Case, Mapping[str, Took]] = {}
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder, private_broker(Path(folder) / "kafka") as broker, \
            workbench(cores=CORES) as bench:  # fmt: skip
        print(f"source: {chosen.megabytes} MB a topic of one partition, by the clock, least of {chosen.turns} turns")
        for case in cases:
            measured[case] = took = measure(bench, broker, case, turns=chosen.turns, seed=chosen.seed)
            print(f"\n{case.name}: {case.count:,} messages of {case.size:,} bytes")
            for name, one in took.items():
                speed, loop = case.count / one.clock, took["loop"].clock / one.clock
                print(
                    f"{name:>12} {one.clock:7.2f} s {speed:12,.0f} messages/s {speed * case.size / 1e6:7.0f} MB/s "
                    f"{loop:6.2f}x of the loop",
                    flush=True,
                )
    report(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
