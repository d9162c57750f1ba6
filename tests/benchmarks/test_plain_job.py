"""The plain Spark job that windows are compared with writes the changelogs that we write."""

from __future__ import annotations

from benchmarks.plain_job import _Changes
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.store.columns import changelog_columns


def test_its_rows_have_the_columns_of_a_changelog() -> None:
    columns = (Column("id", "int", True), Column("note", "string", False))
    made = _Changes(TableId("shopdb", "", "orders"), columns).schema()
    assert set(made.fieldNames()) == {name for name, _ in changelog_columns(columns)}
