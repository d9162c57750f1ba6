"""Compares a snapshot of the lake with the database's own dump, row by row.

The dump holds the server's texts; the snapshot holds typed values. Both are brought to one form per source type by rules of
this module's own: numbers as numbers (singles and doubles exactly), instants in UTC, binary as hex. NULL and an empty text
stay apart. A verdict names keys of differing rows and never a value of any other column.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.model.tables import TableId
from dts_emulator.judge.dump_format import BINARY_TYPES, METADATA_KEY

COORDINATES = ("_event_time", "_kafka_partition", "_kafka_offset", "_invalid", "_sum")
"""Columns that a snapshot has beside the source's."""

_TAKEN = re.compile(
    r"(_source_)*_(event_time|kafka_partition|kafka_offset|invalid|valid_from|valid_to|valid_from_position"
    r"|valid_to_position|op|file|pos|deleted|spec_id|partition|row_id|last_updated_sequence_number|change_type"
    r"|change_ordinal|commit_snapshot_id)",
    re.I,
)
"""The names that no source column keeps in a snapshot, and those that renamed columns have."""

_NAMED_KEYS = 5

Canonical = int | float | str | Decimal | None
Rule = Callable[[object], Canonical]
Row = tuple[Canonical, ...]

_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison. ``keys`` are the first few differing keys as ``column=text``; empty for bags."""

    table: TableId
    rows_expected: int
    rows_found: int
    differing_rows: int
    keys: tuple[str, ...]
    missing_columns: tuple[str, ...]
    extra_columns: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """True if the snapshot is the table, no more and no less."""
        return not (self.differing_rows or self.missing_columns or self.extra_columns)

    def __str__(self) -> str:
        if self.equal:
            return f"{self.table}: {self.rows_found} rows, equal"
        columns = "".join(
            f"; {word} columns {', '.join(names)}"
            for word, names in (("missing", self.missing_columns), ("extra", self.extra_columns))
            if names
        )
        keys = f" (first: {'; '.join(self.keys)})" if self.keys else ""
        return (
            f"{self.table}: {self.differing_rows} rows differ, {self.rows_found} found, "
            f"{self.rows_expected} expected{keys}{columns}"
        )


@dataclass(frozen=True, slots=True)
class _SourceColumn:
    name: str
    type: str
    is_key: bool

    @property
    def lake_name(self) -> str:
        """The column's name in the lake: names of the lake's own columns and of Iceberg's are prefixed."""
        return f"_source_{self.name}" if _TAKEN.fullmatch(self.name) else self.name


def differences(snapshots: Mapping[TableId, pa.Table], content: Path) -> tuple[Verdict, ...]:
    """Return the verdicts on all snapshots that differ from the dumps of one moment in a folder.

    A table that one side alone has is empty on the other: a subscription speaks of a table with its first row, and the lake
    may know one that the database makes after that moment. So it is with columns that hold nothing but NULL. Of dumped tables
    without a primary key only those are compared that ``snapshots`` has.
    """
    verdicts = []
    left = dict(snapshots)
    for file in sorted(content.glob("*.parquet")):
        table, columns = _described(file, pq.read_schema(file))
        found = left.pop(table, None)
        if found is not None:
            verdicts.append(compare(found, file, columns_ahead=True))
        elif any(column.is_key for column in columns):
            verdicts.append(_one_sided(table, expected=pq.read_metadata(file).num_rows, found=0))
    verdicts += [_one_sided(table, expected=0, found=rows.num_rows) for table, rows in left.items()]
    return tuple(verdict for verdict in verdicts if not verdict.equal)


def _one_sided(table: TableId, *, expected: int, found: int) -> Verdict:
    return Verdict(table, expected, found, max(expected, found), (), (), ())


def _described(file: Path, schema: pa.Schema) -> tuple[TableId, list[_SourceColumn]]:
    """Return the table that a dump is of, and its columns.

    Raises:
        ValueError: The file is no dump.
    """
    metadata = schema.metadata or {}
    if METADATA_KEY not in metadata:
        raise ValueError(f"{file.name} is no dump of a table: it does not say which table, with what columns, it is of")
    description = json.loads(metadata[METADATA_KEY])
    columns = [_SourceColumn(item["name"], item["type"], item["key"]) for item in description["columns"]]
    return TableId(description["database"], "", description["table"]), columns


def compare(snapshot: pa.Table, expected_file: Path, *, columns_ahead: bool = False) -> Verdict:
    """Return the verdict on a snapshot, given the file with the database's dump of its table.

    Rows of a table with a primary key are matched by it, others as a bag. The order of rows and columns does not matter.
    ``columns_ahead`` allows the snapshot columns that the database does not have yet, as long as they hold nothing but NULL.

    Raises:
        ValueError: The file is no such dump.
    """
    expected = pq.read_table(expected_file)
    table, columns = _described(expected_file, expected.schema)
    found_names = [
        name
        for name in snapshot.column_names
        if name not in COORDINATES and not (columns_ahead and _is_ahead(snapshot, name, columns))
    ]
    missing = tuple(column.name for column in columns if column.lake_name not in found_names)
    extra = tuple(sorted(set(found_names) - {column.lake_name for column in columns}))
    present = [column for column in columns if column.name not in missing]
    wanted = _rows(expected.select([column.name for column in present]), [_expected_rule(column) for column in present])
    found_table = snapshot.select([column.lake_name for column in present])
    found = _rows(
        found_table, [_found_rule(column, found_table.schema.field(column.lake_name).type) for column in present]
    )
    keys = tuple(index for index, column in enumerate(present) if column.is_key)
    differing, named = _difference(wanted, found, keys, [column.name for column in present])
    return Verdict(table, len(wanted), len(found), differing, named, missing, extra)


def _is_ahead(snapshot: pa.Table, name: str, columns: Sequence[_SourceColumn]) -> bool:
    """Return True if a column of the snapshot is not the dump's and holds nothing but NULL."""
    return (
        name not in {column.lake_name for column in columns} and snapshot.column(name).null_count == snapshot.num_rows
    )


def _rows(table: pa.Table, rules: Sequence[Rule]) -> list[Row]:
    columns = [
        [None if value is None else rule(value) for value in _plain(table.column(index)).to_pylist()]
        for index, rule in enumerate(rules)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return timestamps as microseconds since the epoch, and any other column as it is.

    Neither a zone database nor the year limit of Python's objects is in the way then.
    """
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return column


def _difference(
    wanted: Sequence[Row], found: Sequence[Row], keys: tuple[int, ...], names: Sequence[str]
) -> tuple[int, tuple[str, ...]]:
    """Return the number of rows that differ, and the first few of their keys.

    A row on one side only counts once, and so does a changed row.
    """
    if not keys:
        one, other = Counter(map(_exact, wanted)), Counter(map(_exact, found))
        return max((one - other).total(), (other - one).total()), ()
    wanted_by_key, surplus = _by_key(wanted, keys)
    found_by_key, repeated = _by_key(found, keys)
    differing = [
        key
        for key in {**wanted_by_key, **found_by_key}
        if wanted_by_key.get(key) != found_by_key.get(key) or key in repeated or key in surplus
    ]
    labels = [names[index] for index in keys]
    named = tuple(
        ", ".join(f"{name}={value}" for name, value in zip(labels, key, strict=True)) for key in differing[:_NAMED_KEYS]
    )
    return len(differing), named


def _by_key(rows: Sequence[Row], keys: tuple[int, ...]) -> tuple[Mapping[Row, Row], set[Row]]:
    """Rows by key, and the keys that stand on more than one row."""
    found: dict[Row, Row] = {}
    repeated: set[Row] = set()
    for row in rows:
        key = tuple(row[index] for index in keys)
        if key in found:
            repeated.add(key)
        found[key] = _exact(row)
    return found, repeated


def _exact(row: Row) -> Row:
    """Floats by their bits: -0.0 is not 0.0."""
    return tuple(struct.pack(">d", value).hex() if isinstance(value, float) else value for value in row)


def _kind(column: _SourceColumn) -> str:
    return column.type.lower().partition("(")[0].split()[0]


def _expected_rule(column: _SourceColumn) -> Rule:
    """From the server's text to the common form."""
    kind = _kind(column)
    if kind in _WHOLE:
        return lambda value: int(str(value))
    if kind == "decimal":
        return lambda value: Decimal(str(value))
    if kind in ("float", "double"):
        return lambda value: float(str(value))
    if kind == "date":
        return _or_null(lambda text: date.fromisoformat(text).toordinal())
    if kind in ("datetime", "timestamp"):
        return _or_null(lambda text: _microseconds(datetime.fromisoformat(text)))
    if kind == "time":
        return lambda value: _time_microseconds(str(value))
    return str


def _or_null(rule: Callable[[str], int]) -> Rule:
    """Return a rule that makes dates of no calendar NULL, as in the lake: ``0000-00-00``."""

    def of(value: object) -> Canonical:
        try:
            return rule(str(value))
        except ValueError:
            return None

    return of


def _found_rule(column: _SourceColumn, lake_type: pa.DataType) -> Rule:
    """From the lake's value to the common form. A value of a type that does not fit its column's is left as its text."""
    kind = _kind(column)
    if kind in _WHOLE and (pa.types.is_integer(lake_type) or pa.types.is_decimal(lake_type)):
        return lambda value: int(str(value))
    if kind == "decimal" and (pa.types.is_decimal(lake_type) or _is_text(lake_type)):
        return lambda value: Decimal(str(value))
    if kind in ("float", "double") and pa.types.is_floating(lake_type):
        return lambda value: float(str(value))
    if kind == "date" and pa.types.is_date(lake_type):
        return lambda value: value.toordinal() if isinstance(value, date) else str(value)
    if kind in ("datetime", "timestamp") and pa.types.is_timestamp(lake_type):
        # A wall clock must have no zone, an instant must have one.
        zoned = lake_type.tz is not None
        return (
            (lambda value: int(str(value)))
            if zoned == (kind == "timestamp")
            else (lambda value: f"{value} of the wrong kind")
        )
    if kind == "time" and _is_text(lake_type):
        return lambda value: _time_microseconds(str(value))
    if kind in BINARY_TYPES and _is_binary(lake_type):
        return lambda value: value.hex().upper() if isinstance(value, bytes) else str(value)
    return repr if _is_binary(lake_type) else str


def _is_text(lake_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(lake_type) or pa.types.is_large_string(lake_type))


def _is_binary(lake_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(lake_type) or pa.types.is_large_binary(lake_type) or pa.types.is_fixed_size_binary(lake_type)
    )


def _microseconds(instant: datetime) -> int:
    return (instant.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _time_microseconds(text: str) -> int | str:
    """Return a TIME, from -838 to 838 hours, in microseconds; any other text as it is."""
    clock, _, fraction = text.lstrip("-").partition(".")
    parts = clock.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return text
    hours, minutes, seconds = (int(part) for part in parts)
    total = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0")[:6] or 0)
    return -total if text.startswith("-") else total
