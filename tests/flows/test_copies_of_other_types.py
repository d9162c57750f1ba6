"""A table is copied again after a statement has made bytes of a column's texts, or texts of its bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.flows.unproven import unproven_tables
from dts_assets.model.copied_tables import CopyKind
from tests.flows.copied import Read, copy_rows
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import BLOB, INT, TEXT, Field, Kind, Table


@pytest.mark.parametrize(
    ("kinds", "again"),
    [((TEXT, BLOB, TEXT), False), pytest.param((BLOB, TEXT, BLOB), True, marks=pytest.mark.more)],
    ids=["text", "bytes"],
)
def test_a_column_is_copied_as_text_and_as_bytes(
    kinds: tuple[Kind, ...], again: bool, bench: Bench, tmp_path: Path
) -> None:
    """A table is copied again after a statement has made bytes of texts, and once more when they are texts again."""
    table = Table("items", [Field("id", INT, True), Field("note", kinds[0])])
    source, copies = short_source(table), []
    for window, kind in enumerate(kinds):
        if window:
            source.transaction(border(window) + SECOND, Ddl(f"ALTER TABLE items MODIFY note {kind.original_type}"))
        table.columns[1] = Field("note", kind)
        row = {"id": window, "note": f"x{window}".encode() if kind is BLOB else f"x{window}"}
        place = source.transaction(border(window) + 2 * SECOND, Dml(table, [(None, row)]))
        source.checkpoint(border(window) + 300 * SECOND)
        shown = [{"id": one, "note": f"x{one}".encode() if kind is BLOB else f"x{one}"} for one in range(window + 1)]
        # A row that the topic does not have shows that the copy counts.
        copies.append((replace(table, columns=[*table.columns]), place, [*shown, {**row, "id": 10 + window}]))
    harness = open_short(bench, tmp_path / "capture", source.messages)
    for window, (copied, place, rows) in enumerate(copies):
        copy_rows(harness, copied, [Read(place, place, tuple(rows))], CopyKind.RESYNC if window else CopyKind.BOOTSTRAP)
        harness.all(window)
        found = sorted((row["id"], row["note"]) for row in harness.rows("snapshot", "bank", "items"))
        assert found == sorted((row["id"], row["note"]) for row in rows)
    if again:
        for window in range(3):
            harness.all(window)
        assert sorted((row["id"], row["note"]) for row in harness.rows("snapshot", "bank", "items")) == found
    assert not unproven_tables(harness.pipeline).results
