"""Which Kafka partition an entry goes to: by table, or by table and primary key."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from dts_emulator.source.events import Image, RowChange, SourceTable


@dataclass(frozen=True, slots=True)
class Routing:
    """The choice of a Kafka partition for row changes.

    Without ``by_key`` all rows of a table go to one partition. An UPDATE that changes the primary key goes where its old key
    goes; with ``by_new_key``, where its new one goes.
    """

    partitions: int
    by_key: bool
    by_new_key: bool = False


def partition_of_table(database: str, table: str, *, partitions: int) -> int:
    """Return the partition of a whole table: CRC-32 of its name, modulo the partitions."""
    return _hash(database, table) % partitions


def partition_of_row(table: SourceTable, change: RowChange, routing: Routing) -> int:
    """Return the partition of one row change. Without a primary key the table's rows stay together.

    Raises:
        ValueError: The change has neither image.
    """
    keys = table.key_indexes
    if not routing.by_key or not keys:
        return partition_of_table(table.database, table.table, partitions=routing.partitions)
    preferred, other = change.before, change.after
    if routing.by_new_key:
        preferred, other = other, preferred
    image = preferred if preferred is not None else other
    if image is None:
        raise ValueError(f"a row change of {table.database}.{table.table} has no image")
    return _hash(table.database, table.table, *_key_parts(image, keys)) % routing.partitions


def _key_parts(image: Image, keys: tuple[int, ...]) -> list[bytes | str]:
    values = (image[index] for index in keys)
    return [value if isinstance(value, bytes) else str(value) for value in values]


def _hash(*parts: bytes | str) -> int:
    """CRC-32 over the parts, each behind its length so that ("a", "bc") and ("ab", "c") differ."""
    encoded = (part if isinstance(part, bytes) else part.encode() for part in parts)
    return crc32(b"".join(len(part).to_bytes(4, "big") + part for part in encoded))


def split_by_partition(
    table: SourceTable, rows: tuple[RowChange, ...], routing: Routing
) -> dict[int, tuple[RowChange, ...]]:
    """Return the rows of one event by partition, each piece in the event's order; partitions ascend."""
    pieces: dict[int, list[RowChange]] = {}
    for row in rows:
        pieces.setdefault(partition_of_row(table, row, routing), []).append(row)
    return {partition: tuple(pieces[partition]) for partition in sorted(pieces)}
