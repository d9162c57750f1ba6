"""The peer of a whole window: a job made with Spark, the proto file and an afternoon.

Messages are read by Spark, joined and parsed by protobuf in ``mapInArrow``, every value turned by a Python loop, and every table
written by the DataFrame writer into the same Iceberg catalog. It keeps no ledger, finds no holes, and quarantines nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks import plain_loop
from benchmarks.workbench import Recording, Workbench
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.stages.changelog_rows import changelog_rows
from dts_assets.wire.format import ENTRIES as DECODED
from dts_assets.wire.format import TableChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_COORDINATES = pa.schema(
    [
        ("kafka_partition", pa.int32()), ("epoch", pa.int32()), ("window_start", pa.timestamp("us", tz="UTC")),
        ("first_offset", pa.int64()), ("last_offset", pa.int64()),
    ]
)  # fmt: skip
_ENTRIES = pa.schema([*_COORDINATES, *(field for field in DECODED if field.name != "set_index")])
_BATCH_BYTES = 16 << 20


def run(bench: Workbench, name: str, recording: Recording, tables: Mapping[TableId, tuple[Column, ...]]) -> None:
    """Raw, entries and changelogs of a whole recording."""
    bench.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{name}")
    _write(_raw(bench, recording), f"lake.{name}.raw_envelopes", "kafka_partition", "window_start")
    raw = bench.spark.table(f"lake.{name}.raw_envelopes").repartition("kafka_partition")
    entries = raw.sortWithinPartitions("kafka_partition", "offset").mapInArrow(_entries, from_arrow_schema(_ENTRIES))
    _write(entries, f"lake.{name}.entries", "kafka_partition", "window_start")
    for table, columns in tables.items():
        mine = bench.spark.table(f"lake.{name}.entries").where(
            (F.col("table") == table.table) & (F.col("message_type") == "DML")
        )
        made = _Changes(table, columns)
        _write(mine.mapInArrow(made, made.schema()), f"lake.{name}.{table.table}", "window_start")


def _raw(bench: Workbench, recording: Recording) -> DataFrame:
    return (
        bench.spark.read.parquet(str(recording.folder))
        .withColumn("kafka_partition", F.col("partition"))
        .withColumn("epoch", F.lit(0))
        .withColumn("window_start", F.date_trunc("hour", F.col("timestamp")))
    )


def _write(frame: DataFrame, name: str, *partition_by: str) -> None:
    """Write a new table. Rows come in order of their partitions, so that no shuffle is asked for."""
    (
        frame.writeTo(name)
        .tableProperty("write.distribution-mode", "none")
        .tableProperty("write.spark.fanout.enabled", "true")
        .tableProperty("write.parquet.compression-codec", "zstd")
        .partitionedBy(*(F.col(column) for column in partition_by))
        .create()
    )


def _entries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join fragments of one Kafka partition after the other and parse them."""
    rows: list[tuple[object, ...]] = []
    size, first = 0, 0
    parts: list[bytes] = []
    for batch in batches:
        place = zip(
            batch["kafka_partition"].to_pylist(),
            batch["epoch"].to_pylist(),
            batch["window_start"].to_pylist(),
            strict=True,
        )
        for where, offset, value in zip(place, batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True):
            envelope = pb.Envelope.FromString(value)
            if envelope.index == 0:
                parts, first = [], offset
            parts.append(envelope.data)
            if envelope.index < envelope.total - 1:
                continue
            data = b"".join(parts)
            size += len(data)
            for number, entry in enumerate(pb.Entries.FromString(data).items):
                rows.append((*where, first, offset, *plain_loop.coordinates(entry, 0, number)[1:]))
            if size >= _BATCH_BYTES:
                yield _batch(rows)
                rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), _ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_ENTRIES)


class _Changes:
    """The changelog rows of one table, batch by batch."""

    def __init__(self, table: TableId, columns: tuple[Column, ...]) -> None:
        self._table = table
        self._columns = columns

    def schema(self) -> StructType:
        empty = plain_loop.TableLists(self._columns).batch()
        entries = pa.RecordBatch.from_pylist([], _ENTRIES)
        rows = changelog_rows(TableChanges(self._table, empty), _of_one_lineage(entries))
        return from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = plain_loop.changes(batch["payload"].to_pylist(), {self._table: self._columns})
            yield changelog_rows(TableChanges(self._table, made[self._table]), _of_one_lineage(batch))


def _of_one_lineage(entries: pa.RecordBatch) -> pa.RecordBatch:
    """As the ledger tells them where one server's binlog was never broken."""
    return entries.append_column("lineage", pa.array(np.zeros(entries.num_rows, np.int32)))
