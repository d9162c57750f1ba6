"""Kafka messages to rows of ``raw_envelopes``: every message kept as it came, with the partition and window it belongs to."""

from __future__ import annotations

import pyarrow as pa

from dts_assets.model.spans import Cell

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


def raw_rows(messages: pa.RecordBatch, *, cell: Cell, epoch: int) -> pa.RecordBatch:
    """The messages with ``kafka_partition`` int32, ``epoch`` int32 and ``window_start`` (instant) behind their columns."""
    return with_coordinates(messages, cell=cell, epoch=epoch)


def with_coordinates(batch: pa.RecordBatch, *, cell: Cell, epoch: int) -> pa.RecordBatch:
    """A batch whose rows all belong to one cell, with the columns that say so."""
    rows = batch.num_rows
    columns = {
        "kafka_partition": pa.repeat(pa.scalar(cell.kafka_partition, pa.int32()), rows),
        "epoch": pa.repeat(pa.scalar(epoch, pa.int32()), rows),
        "window_start": pa.repeat(pa.scalar(cell.window.start, UTC_MICROSECONDS), rows),
    }
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])
