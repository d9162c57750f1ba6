"""Files with the rows of tables: Parquet and CSV, by the folders of their tables.

A folder has ``shopdb.orders/*.parquet`` or ``shopdb.orders.parquet`` for each table, with names percent-encoded as
``dts-assets as-of`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from dts_assets.errors.databases import CopyError
from dts_assets.model.tables import TableId

NULL = "\\N"
"""The text that stands for NULL in CSV, where it is not in quotes."""

_ROWS = 1 << 16


def tables_of_folder(folder: Path, ending: str) -> dict[TableId, tuple[Path, ...]]:
    """Return the files of each table in a folder: ``{orders: (Path("shopdb.orders/part-0.parquet"),)}``."""
    found: dict[TableId, tuple[Path, ...]] = {}
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        if place.is_dir():
            files, name = tuple(sorted(place.glob(f"*{ending}"))), place.name
        else:
            files, name = (place,), place.name.removesuffix(ending)
            if name == place.name:
                continue
        table = _table_named(name)
        if table is not None and files:
            found[table] = files
    return found


def _table_named(name: str) -> TableId | None:
    parts = [unquote(part) for part in name.split(".")]
    if len(parts) not in (2, 3) or not all(parts):
        return None
    return TableId(parts[0], "" if len(parts) == 2 else parts[1], parts[-1])


def batches_of(table: TableId, files: Sequence[Path], ending: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table's files; those of CSV are texts.

    Raises:
        CopyError: A file cannot be read, or has other columns than the first one.
    """
    first: pa.Schema | None = None
    for file in files:
        try:
            for batch in _read(file, ending):
                if first is None:
                    first = batch.schema
                if batch.schema.names != first.names:
                    raise CopyError(str(table), f"{file.name} has other columns than the first file", "mend the files")
                yield batch
        except pa.ArrowException as error:
            what = f"{file.name} cannot be read ({type(error).__name__})"
            raise CopyError(str(table), what, "look at the file, and write it anew") from None


def _read(file: Path, ending: str) -> Iterator[pa.RecordBatch]:
    if ending == ".parquet":
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(batch_size=_ROWS)
            if not opened.metadata.num_rows:
                yield pa.RecordBatch.from_pylist([], schema=opened.schema_arrow)
        return
    with csv.open_csv(file) as opened:
        names = opened.schema.names
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[NULL], strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )  # fmt: skip
    with csv.open_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=options) as opened:
        yield from opened
