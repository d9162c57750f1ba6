"""The SQLite catalog keeps the metadata that it has written: it is what its file tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, StringType

from dts_assets.store.commit import replace
from dts_assets.store.tags import cut_tags

if TYPE_CHECKING:
    from tests.store.conftest import Cells


def written(table: Table) -> Any:
    return FromInputFile.table_metadata(table.io.new_input(table.metadata_location))


def test_metadata_is_that_of_its_file_behind_every_kind_of_commit(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = FromInputFile.table_metadata

    def noting(file: InputFile, *rest: Any) -> TableMetadata:
        read.append(file.location)
        return real(file, *rest)

    monkeypatch.setattr(FromInputFile, "table_metadata", noting)
    replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "one"), properties={"dts-assets.n": "1"})
    with cells.catalog.load_table(cells.identifier).update_schema() as change:
        change.add_column("more", StringType())
    with cells.catalog.load_table(cells.identifier).transaction() as transaction:
        transaction.set_properties({"some": "property", "number": 7})
    with cells.catalog.load_table(cells.identifier).manage_snapshots() as managed:
        head = cells.catalog.load_table(cells.identifier).current_snapshot()
        assert head is not None
        managed.create_tag(head.snapshot_id, "cut-one")
    replace(cells.catalog, cells.identifier, {}, cells.write([(1, 1)], "two"))
    table = cells.catalog.load_table(cells.identifier)
    assert table.metadata_location not in read, "it was kept"
    monkeypatch.undo()
    assert table.metadata == written(table)
    assert table.metadata.model_dump() == written(table).model_dump()
    assert cut_tags(table).keys() <= {"cut-one"}


def test_a_commit_that_is_refused_is_not_kept(cells: Cells) -> None:
    first, second = (cells.catalog.load_table(cells.identifier) for _ in range(2))
    with first.update_schema() as change:
        change.add_column("more", LongType())
    with pytest.raises(CommitFailedException), second.update_schema() as change:
        change.add_column("other", LongType())
    table = cells.catalog.load_table(cells.identifier)
    assert table.metadata == written(table)
    assert "more" in table.schema().column_names
    assert "other" not in table.schema().column_names
