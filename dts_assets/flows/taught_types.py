"""The types that values taught stand beside their changelogs, so that a lost registry gets them back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from pyiceberg.table import Table

from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.store.planned_properties import set_properties

TAUGHT_PROPERTY = "dts-assets.taught-types"
"""The property of a changelog with the texts of types that have unsigned values, by column."""


def remember_taught(pipeline: Pipeline, table: TableId, columns: Sequence[Column], there: Table) -> None:
    """Note types that values taught beside a changelog, which is ``there``, before any file has such a value."""
    found = {
        column.name: texts
        for column in columns
        if (texts := [text for text, kind in column.own_types if kind != pipeline.lake_type(table, text)])
    }
    text = json.dumps(found, sort_keys=True)
    if found and there.properties.get(TAUGHT_PROPERTY) != text:
        set_properties(pipeline.lake, pipeline.table_path(CHANGELOG.name, table), {TAUGHT_PROPERTY: text})


def taught_before(pipeline: Pipeline, tables: Iterable[TableId]) -> Iterator[TaughtType]:
    """Yield the types that values of some tables have taught."""
    for table in tables:
        there = pipeline.lake.table(pipeline.table_path(CHANGELOG.name, table))
        text = None if there is None else there.properties.get(TAUGHT_PROPERTY)
        for name, texts in {} if text is None else json.loads(text).items():
            yield from (TaughtType(table, name, one) for one in texts)
