"""Tables of a moment for readers: Arrow, pandas, Iceberg and Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dts_assets.flows.moment_costs import TableCost
from dts_assets.flows.moments import MomentPlan, TablesAt
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.tables import TableId
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.spark_tables import spark_frame
from dts_assets.store.table_reader import read_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Plan:
    """A moment that was found, and what its tables cost, by name.

    ``moment`` and ``pipeline`` are of the flow that makes them.
    """

    pipeline: Pipeline
    moment: MomentPlan
    costs: Mapping[TableId, TableCost]

    @property
    def where(self) -> str:
        """The moment in words: ``as of 0:3:700``."""
        return self.moment.where

    @property
    def tables(self) -> Mapping[str, TableCost]:
        """The versions and changes that tables are made from, by their names."""
        return {str(table): one for table, one in self.costs.items()}

    @property
    def changes(self) -> int:
        """The changes that are read for all tables together."""
        return sum(one.changes for one in self.costs.values())

    @property
    def bytes(self) -> int:
        """The bytes of changelogs that are read for all tables together."""
        return sum(one.bytes for one in self.costs.values())


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table of a moment; ``iceberg`` is the Iceberg table, which every reader of pyiceberg's tables takes."""

    name: str
    iceberg: Table
    _folder: Path
    _location: LakeLocation

    def to_arrow(self, columns: Sequence[str] = ("*",), where: str | None = None) -> pa.Table:
        """Return the rows in memory; ``where`` is a filter of Iceberg: ``total >= 100``."""
        return self.to_batches(columns, where).read_all()

    def to_batches(self, columns: Sequence[str] = ("*",), where: str | None = None) -> pa.RecordBatchReader:
        """Return a reader that gives the rows a part at a time.

        Raises:
            LakeTableError: The version of the lake that the table was made from has expired, with its files.
        """
        return read_rows(self.iceberg, columns, where)

    def to_pandas(self, columns: Sequence[str] = ("*",), where: str | None = None) -> pd.DataFrame:
        """Return the rows as a frame of pandas."""
        return self.to_arrow(columns, where).to_pandas()

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return a frame of Spark, whose session has Iceberg's runtime and reaches the folder and the lake's files."""
        return spark_frame(session, self.iceberg, self._folder, self._location)


class LakeTables(Mapping[str, LakeTable]):
    """The tables of a subscription at one moment, by their names at the source.

    ``where`` says the moment in words. ``absent`` are tables that do not exist then. ``paused`` tables stand still now and
    ``failed`` ones could not be made, each with the reason. ``unproven`` tables are there, but their rows or columns may be wrong
    at the moment: each has the position since when, and the reason. Closing removes a temporary folder; so does the end of the
    object.
    """

    def __init__(
        self, made: TablesAt, folder: Path, location: LakeLocation, temporary: TemporaryDirectory[str] | None = None
    ) -> None:
        """Take the tables that were made in a folder."""
        self._made, self._temporary = made, temporary
        self.where, self.folder = made.where, folder
        self.absent = tuple(map(str, made.absent))
        self.paused = {str(table): reason for table, reason in made.paused.items()}
        self.failed = {str(table): fault.reason for table, fault in made.failed.items()}
        self.unproven = {str(table): reason for table, reason in made.unproven.items()}
        self._tables = {
            str(table): LakeTable(str(table), one, folder, location) for table, one in sorted(made.tables.items())
        }

    @property
    def ids(self) -> tuple[TableId, ...]:
        """The tables in the order of their names, as the product names them."""
        return tuple(sorted(self._made.tables))

    def __getitem__(self, name: str) -> LakeTable:
        """Return a table.

        Raises:
            KeyError: There is none; the error says why.
        """
        if name in self._tables:
            return self._tables[name]
        if name in self.absent:
            raise KeyError(f"{name} was not there {self.where}")
        reason = self.paused.get(name) or self.failed.get(name)
        raise KeyError(f"{name} is left out: {reason}" if reason else f"{name} was not asked for")

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tables."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    def __enter__(self) -> LakeTables:
        """Return the tables, whose temporary folder goes at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary folder."""
        self.close()

    def close(self) -> None:
        """Remove the temporary folder; a folder of the caller's stays."""
        if self._temporary is not None:
            self._temporary.cleanup()
