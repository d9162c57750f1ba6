"""The columns of every lake table of a fixed shape, as text.

The module needs only the standard library, so that Dagster definitions may read it. The columns of the ledger follow from its
rows and stand in :mod:`dts_assets.store.ledger_columns`, which definitions do not need; all others are listed here.

A type is written as Spark writes it: the lake types of :mod:`dts_assets.model.columns`, and ``array<...>``, ``map<...>`` and
``struct<name:type,...>`` of them. ``timestamp`` is an instant in UTC, ``timestamp_ntz`` a wall clock. A table's shape is
stated nowhere else; Iceberg, Arrow and Dagster shapes are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from dts_assets.model.added_columns import AUDITED, CANONICAL, DELETED_AT, flattened_paths
from dts_assets.model.collections import is_collection
from dts_assets.model.columns import Column, quoted, same_name
from dts_assets.model.positions import SourcePosition
from dts_assets.model.schema_policies import NEW_COLUMNS

NamedType: TypeAlias = tuple[str, str]
"""A column's name and its lake type."""

_NARROW = frozenset({"kafka_partition", "kafka_partitions", "epoch", "lineage", "open_in"})
"""The numbers of 32 bits; all others have 64."""

_SIMPLE = {bool: "boolean", int: "bigint", str: "string", bytes: "binary", datetime: "timestamp"}


def columns_of(kind: type[Any], spread: Mapping[Any, str] = MappingProxyType({})) -> tuple[NamedType, ...]:
    """Return the columns of a dataclass in the order of its fields: ``(("kafka_partition", "int"), ("epoch", "int"), ...)``.

    ``spread`` has the types that take several columns, with the names of the columns: ``window_{}`` for ``window_start``.
    """
    found: list[NamedType] = []
    hints = get_type_hints(kind)
    for name, hint in ((one.name, hints[one.name]) for one in fields(kind) if one.metadata.get("stored", True)):
        if hint in spread:
            found += [(spread[hint].format(inner), text) for inner, text in columns_of(hint, spread)]
        else:
            found.append((name, _lake_type(name, hint, spread)))
    return tuple(found)


def _lake_type(name: str, hint: Any, spread: Mapping[Any, str] = MappingProxyType({})) -> str:
    if get_origin(hint) is UnionType:  # with None, which every column may hold
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return f"array<{_lake_type(name, get_args(hint)[0], spread)}>"
    if isinstance(hint, type) and is_dataclass(hint):
        return "struct<" + ",".join(f"{field}:{text}" for field, text in columns_of(hint, spread)) + ">"
    return "int" if name in _NARROW else next(text for python, text in _SIMPLE.items() if issubclass(hint, python))


POSITION = _lake_type("", SourcePosition)

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
    ("applied", "string"),
    ("source_type", "string"),
    ("source_set", "string"),
    ("foreign_keys", "bigint"),
)
"""Every DDL statement as it came, with its effect on rows.

``effect`` is null for a statement that was not understood. ``applied`` is ``yes`` where snapshots follow the statement, else the
reason why they do not, and ``source_type`` is as in ``entries``; both are null in rows of earlier versions. ``foreign_keys``
counts those that it declares and that change rows.
"""

STATEMENTS: tuple[NamedType, ...] = (
    ("statement", "string"),
    ("source_position", POSITION),
    ("row_number", "int"),
    ("kafka_partition", "int"),
    ("kafka_offset", "bigint"),
    ("window_start", "timestamp"),
)
"""The changes of a source table as statements of SQL, one row each."""

COPIED: tuple[NamedType, ...] = (
    ("copy", "string"),
    ("chunk", "int"),
    ("source_position", POSITION),
    ("read_at", "timestamp"),
    ("row_number", "int"),
    ("removed", "boolean"),
)
"""The columns of a copied table beside ``row``.

They are the copy, the chunk and its low watermark.

A repair has rows that the source does not have, ``removed``, of which only the key is told."""
ROW_SUM = "_sum"
"""The column of a snapshot with each row's part of the sum of all."""

SNAPSHOT_SYSTEM: tuple[NamedType, ...] = (
    ("_event_time", "timestamp"),
    ("_kafka_partition", "int"),
    ("_kafka_offset", "bigint"),
    ("_invalid", "map<string,string>"),
    (ROW_SUM, "bigint"),
)
"""The columns of a snapshot that are not the source's.

``_invalid`` has the source's text of values that do not fit their column, where the row has any, by the column's name. ``_sum``
has the row's part of the table's sum (``stages/row_sums.py``).
"""

HISTORY_SYSTEM: tuple[NamedType, ...] = (
    ("_valid_from", "timestamp"),
    ("_valid_to", "timestamp"),
    ("_valid_from_position", POSITION),
    ("_valid_to_position", POSITION),
    ("_op", "string"),
    ("_invalid", "map<string,string>"),
)
"""The columns of a history that are not the source's.

A row is a version: the row was so from ``_valid_from`` on and before ``_valid_to``, which is null while it is so. The positions
are those of the changes that began and ended it, ``_op`` is the operation that began it.
"""

ICEBERG_NAMES = (
    "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
    "_change_type", "_change_ordinal", "_commit_snapshot_id",
)  # fmt: skip
"""The names of Iceberg's metadata columns: Spark refuses to write to a table that has such a column."""

RESERVED = frozenset(
    {DELETED_AT, NEW_COLUMNS, *AUDITED, *ICEBERG_NAMES} | {name for name, _ in (*SNAPSHOT_SYSTEM, *HISTORY_SYSTEM)}
)
"""The names that a column cannot keep in the flat tables, in whatever case: it is called ``_source_<name>``."""

OWN_COLUMNS = frozenset({*dict(SNAPSHOT_SYSTEM), *AUDITED, DELETED_AT, NEW_COLUMNS})
"""The columns of a snapshot that are not the source's, those on request among them."""

_RENAMED = "_source_"


@lru_cache(maxsize=1 << 14)
def flat_name(name: str) -> str:
    """Return the name of a column in the flat tables (snapshot, history).

    Two columns never have equal names there. A column that is called like a renamed one is renamed, too:
    ``_source__source__op`` for ``_source__op``.
    """
    bare = same_name(name)
    while bare.startswith(_RENAMED):
        bare = bare.removeprefix(_RENAMED)
    return f"{_RENAMED}{name}" if bare in RESERVED else name


def flat_names(column: Column) -> tuple[str, ...]:
    """Return the names that stored rows of flat tables may have for a column, the present one first."""
    return tuple(map(flat_name, column.lake_names))


def struct_type(columns: Iterable[Column]) -> str:
    """Return the struct type of a row image: one field per source column, exact names in backticks."""
    return "struct<" + ",".join([_struct_field(column.name, column.type) for column in columns]) + ">"


@lru_cache(maxsize=1 << 14)
def _struct_field(name: str, kind: str) -> str:
    """Return a field of a struct; thousands of tables repeat such fields."""
    return f"{quoted(name)}:{kind}"


def changelog_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of a changelog of a source table.

    They are the operation, both images, and the source coordinates. A collection has the key of each document, and the document
    or its update in the place of images.
    """
    image = struct_type(columns)
    images: tuple[NamedType, ...] = (("before", image), ("after", image))
    if is_collection(columns):
        names = ("_id", "_id_type", "before", "after", "update")
        images = tuple((name, "string") for name in names)
    return (
        ("op", "string"),
        *images,
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


def copied_columns(columns: Iterable[tuple[str, str]]) -> tuple[NamedType, ...]:
    """Return the columns of a copied table whose columns are ``string`` or ``binary``: ``[("id", "string")]``.

    Values are texts as the source gives them, so that the types of the lake may become others later.
    """
    row = "struct<" + ",".join(_struct_field(name, kind) for name, kind in columns) + ">"
    return (*COPIED, ("row", row))


def snapshot_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of a snapshot of a source table.

    They are its own, flat and typed, then the origin of the row's last change and its values that do not fit.
    """
    return (*_flat_columns(columns), *SNAPSHOT_SYSTEM)


def added_columns(names: Sequence[str]) -> tuple[NamedType, ...]:
    """Return the columns that a snapshot has on request, by their names: ``("_deleted_at", "_op")``."""
    if not names:
        return ()
    stored = dict(changelog_columns(()))
    own = {DELETED_AT: "timestamp", NEW_COLUMNS: "map<string,string>"}
    fields = dict.fromkeys(flattened_paths(names), "string")
    asked = [name for name in names if name != CANONICAL and "=" not in name]
    return (*((name, own.get(name) or stored[AUDITED[name]]) for name in asked), *fields.items())


def history_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of a history of a source table.

    They are its own, flat and typed, then begin and end of the version and its values that do not fit.
    """
    return (*_flat_columns(columns), *HISTORY_SYSTEM)


def statement_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    """Return the columns of the statements of a source table, which are the same for every table."""
    return STATEMENTS


def _flat_columns(columns: Sequence[Column]) -> tuple[NamedType, ...]:
    return tuple([(flat_name(column.name), column.type) for column in columns])
