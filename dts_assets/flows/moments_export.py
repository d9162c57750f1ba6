"""Tables of a moment as Parquet files, a folder for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from dts_assets.model.tables import TableId
from dts_assets.store.table_reader import read_rows

_ROWS_OF_FILE = 5_000_000
"""The rows from which on a file is full."""


def export_table(name: TableId, table: Table, folder: Path) -> int:
    """Write the rows of a table to ``folder/<db>.<table>/*.parquet``, and return their number.

    Characters that a path cannot carry are percent-encoded. A table without rows has a file without rows.
    """
    place, rows = folder / ".".join(name.path), 0
    place.mkdir(parents=True)
    reader = read_rows(table)
    for number, batches in enumerate(_files(reader)):
        with pq.ParquetWriter(place / f"part-{number:05}.parquet", reader.schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


def _files(reader: pa.RecordBatchReader) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the batches of each file; the first file is there without any, too."""
    batches, more = iter(reader), True
    while more:
        more = False

        def of_file() -> Iterator[pa.RecordBatch]:
            nonlocal more
            rows = 0
            for batch in batches:
                yield batch
                rows += batch.num_rows
                if rows >= _ROWS_OF_FILE:
                    more = True
                    return

        yield of_file()
