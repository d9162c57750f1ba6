"""The layout of a snapshot in the configuration."""

from __future__ import annotations

from pydantic import Field

from dts_assets.model.layouts import Layout, column_name, partition_transform
from dts_assets.settings.places import Part
from dts_assets.settings.values import PartitionField, SortColumn


class SnapshotLayout(Part):
    """The partition fields and the sorting of a snapshot's files."""

    partition: tuple[PartitionField, ...] = Field(
        (), description="Partition fields: months(created_at), bucket(16, id), truncate(4, name), or a column."
    )
    sort: tuple[SortColumn, ...] = Field((), description="Columns that rows are sorted by within files.")

    @property
    def layout(self) -> Layout:
        """The layout in words of the model."""
        return Layout(
            tuple(filter(None, map(partition_transform, self.partition))),
            tuple(filter(None, map(column_name, self.sort))),
        )
