"""A small partitioned table, and writers for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from dts_assets.store.catalog import open_catalog
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile
from dts_assets.store.iceberg_tables import ensure_table
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema
from dts_assets.store.write_targets import write_target

if TYPE_CHECKING:
    from dts_assets.store.catalog import LakeLocation

START = datetime(2026, 1, 1, tzinfo=UTC)
IDENTIFIER = ("shop", "cells")


@dataclass(frozen=True)
class Cells:
    """A table partitioned by Kafka partition and window, whose rows carry the generation that wrote them."""

    catalog: Catalog
    identifier: tuple[str, ...] = IDENTIFIER

    @staticmethod
    def window(number: int) -> datetime:
        return START + timedelta(hours=number)

    def target(self, run: str = "run") -> WriteTarget:
        return write_target(self.catalog.load_table(self.identifier), run)

    def batch(self, cells: Iterable[tuple[int, int]], generation: str, rows: int = 3) -> pa.RecordBatch:
        listed = [(p, self.window(w), generation, n) for p, w in cells for n in range(rows)]
        names = ("kafka_partition", "window_start", "generation", "number")
        return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in listed], SCHEMA)

    def write(self, cells: Iterable[tuple[int, int]], generation: str, rows: int = 3) -> tuple[WrittenFile, ...]:
        with TableWriter(self.target(generation)) as writer:
            writer.write(self.batch(cells, generation, rows))
            return writer.close()

    def rectangle(self, kafka_partitions: Iterable[int], windows: Iterable[int]) -> dict[str, set[object]]:
        return {"kafka_partition": set(kafka_partitions), "window_start": {self.window(w) for w in windows}}

    def rows(self) -> list[tuple[int, int, str, int]]:
        """All rows in order, windows by number."""
        found = self.catalog.load_table(self.identifier).scan().to_arrow().to_pylist()
        hour = timedelta(hours=1)
        return sorted(
            (row["kafka_partition"], (row["window_start"] - START) // hour, row["generation"], row["number"])
            for row in found
        )

    def generations(self) -> dict[tuple[int, int], set[str]]:
        """Which generations each cell holds."""
        found: dict[tuple[int, int], set[str]] = {}
        for kafka_partition, window, generation, _ in self.rows():
            found.setdefault((kafka_partition, window), set()).add(generation)
        return found


COLUMNS = (("kafka_partition", "int"), ("window_start", "timestamp"), ("generation", "string"), ("number", "int"))
SCHEMA = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("generation", pa.string()),
        ("number", pa.int32()),
    ]
)


@pytest.fixture
def catalog(lake_location: LakeLocation) -> Catalog:
    return open_catalog(lake_location)


@pytest.fixture
def cells(catalog: Catalog) -> Cells:
    made = layout(iceberg_schema(COLUMNS), partition_by=("kafka_partition", "window_start"), metrics=())
    ensure_table(catalog, IDENTIFIER, made)
    return Cells(catalog)
