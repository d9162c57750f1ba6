"""Layouts of all lake tables: schema, partitioning, and table properties.

Columns are declared in :mod:`dts_assets.store.columns`. Raw, entries, changelogs and quarantine are written by workers, one
file per partition tuple, and replaced by whole tuples. Ledgers hold few rows per window, so they are one file per day,
rewritten under compare-and-swap: a year of hourly windows is 365 files, where a file per window would be 8,760.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.store import columns as declared
from dts_assets.store.columns import (
    NamedType,
    changelog_columns,
    copied_columns,
    flat_name,
    history_columns,
    snapshot_columns,
)
from dts_assets.store.ledger_columns import LEDGER_COLUMNS
from dts_assets.store.types import iceberg_schema

DAY = "window_start_day"
"""The partition field of the ledgers: days since 1970-01-01, in UTC."""

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "format-version": "2",
        "write.parquet.compression-codec": "zstd",
        # Without these two, 300 commits left 301 metadata files and 44 MB; with them 11 and 10 MB.
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "10",
        # Spark's default of 4 tries lost 10 of 160 commits of four writers; 50 lost none.
        "commit.retry.num-retries": "50",
        "commit.retry.min-wait-ms": "20",
        "commit.retry.max-wait-ms": "1000",
    }
)
"""The properties of every table.

Version 2: pyiceberg cannot write version 3.
"""

SOURCE_TABLE_PROPERTY = "dts-assets.source-table"
"""The property that holds the exact name of the source table.

It is a JSON list of database, schema and table. The path of a table does not give it back: of a long name it has a prefix and
a digest alone.
"""

_COPY_ON_WRITE = {f"write.{operation}.mode": "copy-on-write" for operation in ("delete", "update", "merge")}


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The facts that a table is created from. Field ids in ``schema`` are provisional: the catalog gives its own."""

    schema: Schema
    spec: PartitionSpec
    properties: Mapping[str, str]


def layout(
    schema: Schema,
    *,
    partition_by: Sequence[str] = (),
    by_day: str | None = None,
    metrics: Iterable[str] | None = None,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> TableLayout:
    """Return a layout partitioned by the values of columns, or by the UTC day of a column.

    ``extra`` are properties of the table beside those of every table.

    Bounds are kept for the columns ``metrics`` only: bounds of payloads and of before and after images prune nothing, while every
    commit pays for them, 4.8 ms a file with two 30-column images. None keeps Iceberg's default, bounds of the first hundred
    columns.
    """
    properties = {**PROPERTIES, **extra}
    if metrics is not None:
        properties["write.metadata.metrics.default"] = "none"
        properties |= {f"write.metadata.metrics.column.{name}": "full" for name in metrics}
    fields: list[tuple[str, str, Transform[Any, Any]]] = [(name, name, IdentityTransform()) for name in partition_by]
    if by_day is not None:
        fields.append((f"{by_day}_day", by_day, DayTransform()))
    spec = PartitionSpec(
        *(
            PartitionField(schema.find_field(column).field_id, 1000 + number, transform, name)
            for number, (name, column, transform) in enumerate(fields)
        )
    )
    return TableLayout(schema, spec, MappingProxyType(properties))


POSITION_COLUMNS = tuple(f"source_position.{name}" for name in ("lineage", "file", "position"))
"""The columns of changelogs and ``ddl`` that make up the position of a row."""


def changelog_layout(table: TableId, columns: Sequence[Column]) -> TableLayout:
    """Return the layout of a changelog, which is replaced window by window."""
    return layout(
        iceberg_schema(changelog_columns(columns)),
        partition_by=("window_start",),
        metrics=("window_start", "event_time", "kafka_partition", "kafka_offset", *POSITION_COLUMNS),
        extra=_source_name(table),
    )


def copied_layout(table: TableId, columns: Iterable[tuple[str, str]]) -> TableLayout:
    """Return the layout of a copied table, which is replaced chunk by chunk."""
    return layout(
        iceberg_schema(copied_columns(columns)),
        partition_by=("copy", "chunk"),
        metrics=("copy", "chunk"),
        extra=_source_name(table),
    )


def statement_layout(table: TableId) -> TableLayout:
    """Return the layout of the statements of a table, which are replaced window by window."""
    return layout(
        iceberg_schema(declared.STATEMENTS),
        partition_by=("window_start",),
        metrics=("window_start", "kafka_partition", "kafka_offset", *POSITION_COLUMNS),
        extra=_source_name(table),
    )


def snapshot_layout(table: TableId, columns: Sequence[Column]) -> TableLayout:
    """Return the layout of a snapshot, which is unpartitioned."""
    return _flat_layout(table, columns, snapshot_columns(columns))


def history_layout(table: TableId, columns: Sequence[Column]) -> TableLayout:
    """Return the layout of a history, which is unpartitioned."""
    # Bounds of a table's first hundred columns are kept unless a column is named.
    return _flat_layout(table, columns, history_columns(columns), {"write.metadata.metrics.column._valid_to": "full"})


def _flat_layout(
    table: TableId,
    columns: Sequence[Column],
    declared_columns: Iterable[NamedType],
    extra: Mapping[str, str] = MappingProxyType({}),
) -> TableLayout:
    """Return the layout of a table with the source's columns.

    A source column with a reserved name is ``_source_<name>``, and its comment says so. Files have 128 MB rather than 512,
    because one that many rows have left is written anew.
    """
    renamed = {flat_name(column.name): column.name for column in columns if flat_name(column.name) != column.name}
    docs = {
        flat: f"The source column {source}, renamed because the name is taken here." for flat, source in renamed.items()
    }
    return layout(
        iceberg_schema(declared_columns, docs=docs),
        extra={**_COPY_ON_WRITE, **_source_name(table), "write.target-file-size-bytes": str(128 << 20), **extra},
    )


def _source_name(table: TableId) -> dict[str, str]:
    return {SOURCE_TABLE_PROPERTY: json.dumps(table.names)}


def _system(columns: Iterable[NamedType], partition_by: Sequence[str], metrics: Iterable[str] = ()) -> TableLayout:
    return layout(iceberg_schema(columns), partition_by=partition_by, metrics=(*partition_by, *metrics))


def _ledger(name: str, extra: Mapping[str, str] = MappingProxyType({})) -> TableLayout:
    schema = iceberg_schema(LEDGER_COLUMNS[name])
    return layout(schema, by_day="window_start", metrics=("window_start",), extra=extra)


CELL = ("kafka_partition", "window_start")
"""The partition fields of raw, entries and quarantine: one file holds rows of one Kafka partition and window."""

RAW_ENVELOPES = _system(declared.RAW_ENVELOPES, CELL, ("offset", "timestamp"))
ENTRIES = _system(declared.ENTRIES, CELL, ("first_offset", "last_offset", "event_time"))
QUARANTINE = _system(LEDGER_COLUMNS["quarantine"], (*CELL, "stage"), ("first_offset", "last_offset"))
"""The layout of quarantine.

It is also partitioned by ``stage``, so that a stage replaces its own rows by whole files.
"""

REDELIVERIES = _system(declared.REDELIVERIES, (*CELL, "stage"), ("kafka_offset",))
DDL = _system(declared.DDL, (*CELL, "stage"), ("kafka_offset", "foreign_keys", *POSITION_COLUMNS))

LAKE_FORMAT = "2"
"""The version of the layouts of a subscription's tables and of the meaning of their columns.

It is raised when an older reader would go wrong.
"""

FORMAT_TABLE = "raw_windows"
FORMAT_PROPERTY = "dts-assets.lake-format"
"""The property that holds the format.

The table that every subscription gets first has it from its creation on, so that no subscription is ever seen with tables and
without a format.
"""

RAW_WINDOWS = _ledger("raw_windows", {FORMAT_PROPERTY: LAKE_FORMAT})

SYSTEM_TABLES: Mapping[str, TableLayout] = MappingProxyType(
    {
        "raw_envelopes": RAW_ENVELOPES,
        "entries": ENTRIES,
        "quarantine": QUARANTINE,
        "redeliveries": REDELIVERIES,
        "ddl": DDL,
        "lineages": _system(LEDGER_COLUMNS["lineages"], ()),
        "leases": _system(LEDGER_COLUMNS["leases"], ()),
        "paused_tables": _system(LEDGER_COLUMNS["paused_tables"], ()),
        "settled_days": _system(LEDGER_COLUMNS["settled_days"], ()),
        "backlog": _system(LEDGER_COLUMNS["backlog"], ()),
        "removed_rows": _system(LEDGER_COLUMNS["removed_rows"], ()),
        "copied_tables": _system(LEDGER_COLUMNS["copied_tables"], ()),
        "raw_windows": RAW_WINDOWS,
        **{name: _ledger(name) for name in ("windows", "window_tables", "cuts", "table_shapes", "comparisons")},
    }
)
"""The layouts of the tables whose shape is fixed, by their name: ``{"entries": ENTRIES}``."""
