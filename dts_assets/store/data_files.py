"""Iceberg data files made from Parquet footers, after a check of each file against its writer's report.

Checked: the row count, every column by field id, name and type against the table, and the partition tuple against the least
and greatest value of the partition columns. Iceberg itself accepts a wrong tuple silently, and queries then miss rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.exceptions import ResolveError
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema, promote
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, IcebergType, IntegerType, LongType, PrimitiveType

from dts_assets.errors import LakeChangeError, LakeTableError
from dts_assets.store.damage import damage_named
from dts_assets.store.files import WrittenFile, leaf_column
from dts_assets.store.layouts import LAYOUT_PROPERTY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_THREADS = 8
_METRICS = "write.metadata.metrics."


def instant_of(value: int) -> datetime:
    """Return the instant of a partition tuple's microseconds, in UTC: the inverse of :func:`partition_value`."""
    return _EPOCH + timedelta(microseconds=value)


def partition_value(value: Any) -> Any:
    """Return a Python value as Iceberg keeps it in a partition tuple.

    Instants and wall clocks are microseconds, dates are days since 1970-01-01; other values stay.
    """
    if isinstance(value, datetime):
        value = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return value


def data_files(table: Table, files: Sequence[WrittenFile]) -> list[DataFile]:
    """Return the data files of ``files`` as ``table`` would hold them.

    Raises:
        LakeTableError: A file is not as its writer reported.
    """
    reader = _FooterReader(table)
    if len(files) < 2:
        return [reader.data_file(file) for file in files]
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        return list(pool.map(reader.data_file, files))


def _kept(wanted: StatisticsCollector, properties: Mapping[str, str]) -> StatisticsCollector:
    """Return the collector of a column's statistics.

    It takes nothing of binary columns: writers leave their statistics out, and pyiceberg would warn of it. Where the table asks
    for the bounds of a column inside a struct it takes them; pyiceberg would only count.
    """
    if isinstance(wanted.iceberg_type, BinaryType):
        return replace(wanted, mode=MetricsMode(MetricModeTypes.NONE))
    if (
        properties.get(f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{wanted.column_name}")
        == MetricModeTypes.FULL.value
    ):
        return replace(wanted, mode=MetricsMode(MetricModeTypes.FULL))
    return wanted


def _wrapped(value: Any, kind: IcebergType) -> Any:
    """Return a partition value of a column as its type holds it.

    ``truncate`` of the least whole numbers lies beyond the type, and begins again at its end, as in Iceberg's own Java code.
    """
    bits = 32 if isinstance(kind, IntegerType) else 64
    if not isinstance(kind, IntegerType | LongType) or not isinstance(value, int):
        return value
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@dataclass(frozen=True, slots=True)
class _Form:
    """The statistics that tables with equal schemas take, and the files that were checked for them.

    ``paths`` has field ids by Parquet path, by the schema of files.
    """

    plan: dict[int, StatisticsCollector]
    paths: dict[bytes, Mapping[str, int]] = field(default_factory=dict)


_FORMS: dict[tuple[object, ...], _Form] = {}
"""Forms by schemas and properties.

Nearly all commits of a table have the same, and so have tables of other lakes.
"""

_MOST_FORMS = 2000


def _form_of(metadata: TableMetadata) -> _Form:
    """Return the form of a table; it is made once in a process."""
    properties = tuple(sorted(pair for pair in metadata.properties.items() if pair[0].startswith(_METRICS)))
    key = (metadata.current_schema_id, tuple(one.model_dump_json() for one in metadata.schemas), properties)
    found = _FORMS.get(key)
    if found is None:
        if len(_FORMS) >= _MOST_FORMS:
            _FORMS.clear()
        found = _FORMS.setdefault(key, _Form(_statistics_plan(metadata)))
    return found


def _statistics_plan(metadata: TableMetadata) -> dict[int, StatisticsCollector]:
    plan: dict[int, StatisticsCollector] = {}
    for schema in (metadata.schema(), *reversed(metadata.schemas)):
        if set(schema.field_ids) - plan.keys():
            found = compute_statistics_plan(schema, metadata.properties)
            plan = {**{number: _kept(one, metadata.properties) for number, one in found.items()}, **plan}
    return plan


class _FooterReader:
    """A reader of footers for one table. It checks each schema once: files of one run share a schema."""

    def __init__(self, table: Table) -> None:
        self._name = ".".join(table.name())
        self._io = table.io
        self._metadata = table.metadata
        self._form = _form_of(table.metadata)

    def data_file(self, file: WrittenFile) -> DataFile:
        """Return the data file of a written file.

        Raises:
            LakeChangeError: The file is missing.
            LakeTableError: The file is not as its writer reported.
        """
        source = self._io.new_input(file.path)
        try:
            size = len(source)
            with damage_named(source), source.open() as stream:
                footer = pq.read_metadata(stream)
        except FileNotFoundError:
            raise LakeChangeError(self._name, f"its new file {file.path} is not there") from None
        if footer.num_rows != file.rows or footer.num_rows == 0:
            raise self._misfit(file, f"holds {footer.num_rows} rows and was reported with {file.rows}")
        paths = self._checked_paths(file, footer)
        partition = self._checked_partition(file, footer, paths)
        statistics = data_file_statistics_from_parquet_metadata(footer, self._form.plan, dict(paths))
        made = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*partition),
            file_size_in_bytes=size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        made.spec_id = self._metadata.default_spec_id  # from_args does not take it
        return made

    def _checked_paths(self, file: WrittenFile, footer: pq.FileMetaData) -> Mapping[str, int]:
        """Return field ids by Parquet path, after a check of names and types.

        Every id must name the same column as in the table, with a type that can be read as the table's.

        Raises:
            LakeTableError: A column has no field id, or another name or type.
        """
        arrow = footer.schema.to_arrow_schema()
        key = arrow.remove_metadata().serialize().to_pybytes()
        checked = self._form.paths
        if key not in checked:
            try:
                schema = pyarrow_to_schema(arrow)
            except ValueError:
                raise self._misfit(file, "carries no field ids") from None
            for field_id in schema.field_ids:
                self._check_field(file, schema, field_id)
            checked[key] = parquet_path_to_id_mapping(schema)
        return checked[key]

    def _check_field(self, file: WrittenFile, schema: Schema, field_id: int) -> None:
        name, found = schema.find_column_name(field_id), schema.find_type(field_id)
        if not any(known.find_column_name(field_id) == name for known in self._metadata.schemas):
            raise self._misfit(file, f"has field {field_id} {name}, which the table has not")
        current = self._metadata.schema()
        if current.find_column_name(field_id) is None:
            return  # a column dropped since: readers pass over it
        expected = current.find_type(field_id)
        if expected.is_primitive and found != expected:
            try:
                promote(found, expected)
            except ResolveError:
                raise self._misfit(file, f"has {name} as {found}, the table as {expected}") from None

    def _checked_partition(self, file: WrittenFile, footer: pq.FileMetaData, paths: Mapping[str, int]) -> list[Any]:
        spec, schema = self._metadata.spec(), self._metadata.schema()
        stored = {number: path for path, number in paths.items()}  # the file may be older than a column's name
        if len(file.partition) != len(spec.fields):
            raise self._misfit(
                file, f"was reported with {len(file.partition)} partition values for {len(spec.fields)} fields"
            )
        values = [partition_value(value) for value in file.partition]
        for one, value in zip(spec.fields, values, strict=True):
            kind, position = schema.find_type(one.source_id), leaf_column(footer, stored.get(one.source_id, ""))
            if value is None and LAYOUT_PROPERTY in self._metadata.properties:
                fits = position is None or self._has_nulls_alone(footer, position)
            elif not one.transform.preserves_order:  # the bounds of a bucket's rows are of other buckets, too
                fits = isinstance(value, int) and isinstance(kind, PrimitiveType)
            elif position is None:
                raise self._misfit(file, f"has no column {schema.find_column_name(one.source_id)}")
            else:
                transform = one.transform.transform(kind)
                bounds = self._bounds(file, footer, position, str(schema.find_column_name(one.source_id)))
                fits = all(_wrapped(transform(bound), kind) == value for bound in bounds)
            if not fits:
                raise self._misfit(file, f"was reported with another {one.name} than its rows have")
        return values

    @staticmethod
    def _has_nulls_alone(footer: pq.FileMetaData, position: int) -> bool:
        """Return whether a file shows no value of a leaf column; it tells nothing of a binary one."""
        found = [footer.row_group(group).column(position) for group in range(footer.num_row_groups)]
        return all(one.statistics is None or one.statistics.null_count == one.num_values for one in found)

    def _bounds(self, file: WrittenFile, footer: pq.FileMetaData, position: int, column: str) -> tuple[Any, ...]:
        """Return the least and greatest value of a leaf column without nulls. ``column`` is its name.

        Where a configuration has asked for the partition, a text of more than 4,096 bytes has no bounds, and is not checked.

        Raises:
            LakeTableError: The file lacks the bounds of the column, or has a null in it.
        """
        bounds = [footer.row_group(group).column(position).statistics for group in range(footer.num_row_groups)]
        without = any(bound is not None and not bound.has_min_max and not bound.null_count for bound in bounds)
        if without and LAYOUT_PROPERTY in self._metadata.properties:
            return ()
        if any(bound is None or not bound.has_min_max or bound.null_count for bound in bounds):
            raise self._misfit(file, f"has rows without {column}, or no bounds of it")
        return partition_value(min(bound.min for bound in bounds)), partition_value(max(bound.max for bound in bounds))

    def _misfit(self, file: WrittenFile, what: str) -> LakeTableError:
        return LakeTableError(self._name, f"its new file {file.path} {what}")
