"""Single cells of a snapshot, damaged: in a data file as it lies there, or as a row of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table


@dataclass(frozen=True)
class Damage:
    """A cell that is another one now: its column, and the number of its row in the rows of the file or table."""

    column: str
    row: int
    before: Any
    now: Any


def other_value(value: Any, kind: pa.DataType, random: Random) -> Any:
    """Another value of a type, often one that is nearly the same; or NULL for a value, and a value for NULL."""
    if value is not None and random.random() < 0.15:
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return random.choice([(value or "") + " ", "x" + (value or ""), (value or "b").swapcase() + "'"])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return (value or b"") + b"\0"
    if pa.types.is_decimal(kind):
        return (value or Decimal(0)) + Decimal(1).scaleb(-kind.scale)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        step = timedelta(days=1) if pa.types.is_date(kind) else timedelta(microseconds=1)
        return None if value is None else value + step
    return -1 if value is None else value + (0.5 if pa.types.is_floating(kind) else 1)


def damaged(rows: pa.Table, names: Sequence[str], random: Random) -> tuple[pa.Table, Damage]:
    """Rows of which one cell in one of some columns is another one."""
    while True:
        name, at = random.choice(names), random.randrange(rows.num_rows)
        field, values = rows.schema.field(name), rows[name].to_pylist()
        before, now = values[at], other_value(values[at], rows.schema.field(name).type, random)
        if before != now:
            values[at] = now
            column = pa.array(values, field.type)
            return rows.set_column(rows.schema.get_field_index(name), field, column), Damage(name, at, before, now)


@contextmanager
def damaged_file(table: Table, names: Sequence[str], random: Random) -> Iterator[tuple[pa.Table, Damage]]:
    """One cell of one data file damaged for the length of the block: the rows as they were in the file, and the cell."""
    tasks = [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]
    path = random.choice(sorted(tasks))
    held, rows = path.read_bytes(), pq.read_table(path)
    try:
        changed, damage = damaged(rows, [name for name in names if name in rows.schema.names], random)
        pq.write_table(changed, path, store_schema=False)
        yield rows, damage
    finally:
        path.write_bytes(held)


def damaged_rows(table: Table, names: Sequence[str], random: Random) -> tuple[pa.Table, Damage]:
    """One cell of the table's rows damaged by a commit; the rows as they were, and the cell."""
    rows = table.scan().to_arrow()
    changed, damage = damaged(rows, names, random)
    table.overwrite(changed)
    return rows, damage
