"""The columns of every lake table of a fixed shape, as text.

The module needs only the standard library, so that Dagster definitions may read it.

A type is written as Spark writes it: the lake types of :mod:`dts_assets.model.columns`, and ``array<...>``, ``map<...>`` and
``struct<name:type,...>`` of them. ``timestamp`` is an instant in UTC, ``timestamp_ntz`` a wall clock. A table's shape is
stated nowhere else; Iceberg, Arrow and Dagster shapes are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from dts_assets.model.columns import Column

NamedType: TypeAlias = tuple[str, str]
"""A column's name and its lake type."""

POSITION = "struct<lineage:int,file:bigint,position:bigint>"
PROBLEMS = "array<struct<code:string,first_offset:bigint,last_offset:bigint,detail:string>>"

REFRESHES = "array<struct<end_offset:bigint,generation:string,run:string>>"

RUNS = (
    f"array<struct<shard:string,first_offset:bigint,last_offset:bigint,first:{POSITION},last:{POSITION},"
    "first_time:timestamp,last_time:timestamp,server_id:bigint,gtid:string,begins:boolean,"
    "servers:array<struct<server:string,first:bigint,last:bigint>>,broken:boolean,repeats:bigint>>"
)

_TRANSACTION = f"struct<gtid:string,position:{POSITION},server_id:bigint,offset:bigint,begun:boolean>"
_HOLES = "array<struct<first:bigint,last:bigint,offset:bigint>>"

DELIVERY: tuple[NamedType, ...] = (
    ("first_message", "bigint"),
    ("last_message", "bigint"),
    ("numbered", "bigint"),
    ("unnumbered", "bigint"),
    ("skipped_offsets", "bigint"),
    ("offset_holes", _HOLES),
    (
        "sequences",
        "array<struct<shard:string,first:bigint,first_offset:bigint,last:bigint,last_offset:bigint,greatest:bigint,"
        f"restarts:bigint,repeats:bigint,holes:bigint,named:{_HOLES}>>",
    ),
    (
        "transactions",
        f"array<struct<shard:string,begun:bigint,ended:bigint,changes:bigint,first:{_TRANSACTION},open:array<{_TRANSACTION}>,"
        f"more_open:bigint,last_position:{POSITION},last_offset:bigint,gtids:string,unreadable_gtids:bigint,fake_gtids:boolean>>",
    ),
    ("more_shards", "bigint"),
    ("seq_ids", "struct<smallest:bigint,greatest:bigint,repeats:bigint>"),
)
"""The evidence that the messages of a cell give of their own completeness."""

RAW_ENVELOPES: tuple[NamedType, ...] = (
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", "array<struct<key:string,value:binary>>"),
    ("kafka_partition", "int"),
    ("epoch", "int"),
    ("window_start", "timestamp"),
)
"""The messages as they came, under the asset's own numbering of Kafka partitions."""

ENTRIES: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("epoch", "int"),
    ("window_start", "timestamp"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    ("entry_number", "int"),
    ("shard", "string"),
    ("sequence", "bigint"),
    ("message_type", "string"),
    ("source_type", "string"),
    ("event_time", "timestamp"),
    ("gtid", "string"),
    ("transaction_id", "string"),
    ("thread_id", "bigint"),
    ("server_id", "bigint"),
    ("seq_id", "bigint"),
    ("file_name", "string"),
    ("position", "bigint"),
    ("database", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("rows", "int"),
    ("payload", "binary"),
    ("properties", "map<string,string>"),
)
"""Every copy of every entry that arrived, with the entry's own bytes."""

QUARANTINE: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("stage", "string"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    ("reason", "string"),
    ("detail", "string"),
    ("payload", "binary"),
)
"""Messages, fragments, entries and changes that could not be used, with their bytes.

``stage`` is ``entries`` or ``tables``.
"""

RAW_WINDOWS: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("window_end", "timestamp"),
    ("epoch", "int"),
    ("start_offset", "bigint"),
    ("end_offset", "bigint"),
    ("closed_by", "string"),
    ("messages", "bigint"),
    ("bytes", "bigint"),
    ("first_time", "timestamp"),
    ("last_time", "timestamp"),
    ("problems", PROBLEMS),
    ("generation", "string"),
    ("code_version", "string"),
    ("refreshes", REFRESHES),
)
"""The mark of raw: a window's half-open offsets in a Kafka partition, and the event that closed it."""

COUNTS = (
    "messages",
    "whole",
    "fragments",
    "null_messages",
    "quarantined_messages",
    "carried_in",
    "joined",
    "superseded",
    "waiting",
    "quarantined_fragments",
    "carried_out",
    "entries",
    "data",
    "control",
    "quarantined_entries",
)
"""The terms of the equations that hold for every Kafka partition and window."""

WINDOWS: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("window_end", "timestamp"),
    ("epoch", "int"),
    ("start_offset", "bigint"),
    ("end_offset", "bigint"),
    *((name, "bigint") for name in COUNTS),
    ("checkpoint", POSITION),
    ("checkpoint_gtid_set", "string"),
    ("positions", f"array<struct<server_id:bigint,first:{POSITION},last:{POSITION}>>"),
    ("runs", RUNS),
    ("checkpoints", f"array<struct<shard:string,offset:bigint,position:{POSITION},gtid_set:string,fake_gtid:boolean>>"),
    ("statements", f"array<struct<shard:string,offset:bigint,position:{POSITION},gtid:string,time:timestamp>>"),
    *DELIVERY,
    ("closed_by", "string"),
    ("completeness", "string"),
    ("problems", PROBLEMS),
    ("code_version", "string"),
    ("generation", "string"),
    ("inputs", "array<string>"),
    ("refreshes", REFRESHES),
    ("resume", "binary"),
    ("emptying", "bigint"),
)
"""The mark of the ingest of a Kafka partition and window."""

WINDOW_TABLES: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("database", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("changes", "bigint"),
    ("kept", "bigint"),
    ("redelivered", "bigint"),
    ("quarantined", "bigint"),
    ("truncations", "bigint"),
    ("row_hash", "bigint"),
    ("absent_rows", "bigint"),
    ("invalid_values", "bigint"),
    ("first_position", POSITION),
    ("last_position", POSITION),
    ("run", "string"),
)
"""The result of a tables run for one table in one Kafka partition and window.

The positions bound its changes, so that the run of a snapshot knows without reading the changes whether any of them repeats
changes that the snapshot holds.
"""

CUTS: tuple[NamedType, ...] = (
    ("window_start", "timestamp"),
    ("window_end", "timestamp"),
    ("cut", POSITION),
    ("gtid_set", "string"),
    ("consistency", "string"),
    ("completeness", "string"),
    ("problems", PROBLEMS),
    ("generation", "string"),
    ("inputs", "array<string>"),
    ("code_version", "string"),
    ("ends", "array<bigint>"),
    ("made_by", "array<string>"),
    ("chain", "string"),
    ("open_in", "array<int>"),
)
"""The mark of the tables run of a window."""

LINEAGES: tuple[NamedType, ...] = (
    ("lineage", "int"),
    ("shard", "string"),
    ("server", "string"),
    ("first_event_time", "timestamp"),
    ("first_position", POSITION),
)
"""Every unbroken run of one server's binlog in the topic, in the order of first events."""

REDELIVERIES: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("stage", "string"),
    ("kafka_offset", "bigint"),
    ("kept_partition", "int"),
    ("kept_offset", "bigint"),
    ("source_position", POSITION),
    ("row_number", "int"),
    ("database", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("reason", "string"),
)
"""Changes that arrived again, one row each, with a pointer to the copy that was kept."""

DDL: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("stage", "string"),
    ("kafka_offset", "bigint"),
    ("source_position", POSITION),
    ("gtid", "string"),
    ("event_time", "timestamp"),
    ("execution_seconds", "bigint"),
    ("database", "string"),
    ("sql", "string"),
    ("parsed", "boolean"),
    ("effect", "string"),
)
"""Every DDL statement as it came, with its effect on rows.

``effect`` is null for a statement that was not understood.
"""

TABLE_SHAPES: tuple[NamedType, ...] = (
    ("kafka_partition", "int"),
    ("window_start", "timestamp"),
    ("database", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("columns", "array<struct<name:string,original_type:string,is_key:boolean>>"),
    ("first_position", POSITION),
    ("code_version", "string"),
)
"""The columns that a window's events described, one row per distinct shape of a table."""

LEDGER_COLUMNS: Mapping[str, tuple[NamedType, ...]] = MappingProxyType(
    {
        "raw_windows": RAW_WINDOWS,
        "windows": WINDOWS,
        "window_tables": WINDOW_TABLES,
        "cuts": CUTS,
    }
)
"""The ledger tables that got more columns after their first version.

Older tables are widened when they are opened.
"""

SNAPSHOT_SYSTEM: tuple[NamedType, ...] = (
    ("_event_time", "timestamp"),
    ("_kafka_partition", "int"),
    ("_kafka_offset", "bigint"),
)
"""The columns of a snapshot that are not the source's."""

HISTORY_SYSTEM_NAMES = ("_valid_from", "_valid_to", "_valid_from_position", "_op")

RESERVED = frozenset({name for name, _ in SNAPSHOT_SYSTEM} | set(HISTORY_SYSTEM_NAMES))
"""The names that a source column cannot keep in the flat tables: it is called ``_source_<name>``."""


def flat_name(source_name: str) -> str:
    """Return the name of a source column in the flat tables (snapshot, history)."""
    return f"_source_{source_name}" if source_name in RESERVED else source_name


def struct_type(columns: Iterable[Column]) -> str:
    """Return the struct type of a row image: one field per source column, exact names in backticks."""
    return "struct<" + ",".join(f"{quoted(column.name)}:{column.type}" for column in columns) + ">"


def changelog_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of a changelog of a source table.

    They are the operation, both images, and the source coordinates.
    """
    image = struct_type(columns)
    return (
        ("op", "string"),
        ("before", image),
        ("after", image),
        ("absent", "array<string>"),
        ("invalid", "map<string,string>"),
        ("event_time", "timestamp"),
        ("transaction_id", "string"),
        ("source_position", POSITION),
        ("row_number", "int"),
        ("kafka_partition", "int"),
        ("kafka_offset", "bigint"),
        ("epoch", "int"),
        ("window_start", "timestamp"),
    )


def snapshot_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of a snapshot of a source table.

    They are its own, flat and typed, then the origin of the row's last change.
    """
    return (*((flat_name(column.name), column.type) for column in columns), *SNAPSHOT_SYSTEM)


def quoted(name: str) -> str:
    """Return a name in backticks, as Spark reads it."""
    return "`" + name.replace("`", "``") + "`"
