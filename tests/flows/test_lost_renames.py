"""A registry that was lost gets columns and types back that RENAME TABLE alone brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.store.registry import lacks_renames
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, items, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import INT, Field, Table

GOODS = table_id("goods")
PLAIN = Table("goods", [Field("id", INT, True), Field("n", INT)])
TYPED = Table("goods", [Field("id", INT, True), Field("n", INT), Field("note", INT)])


def made(folder: Path, altered: str, table: Table | None) -> Harness:
    """Rows of a table get another name in the second window, and events of that name come in the third one, if any."""
    source = short_source(items(), items("others"), *(() if table is None else (table,)))
    insert(source, border(0) + SECOND, [1, 2])
    source.transaction(border(1) + SECOND, Ddl("RENAME TABLE items TO goods"))
    insert(source, border(2) + SECOND, [3], table="others")
    if table is not None:
        source.transaction(border(2) + 2 * SECOND, Ddl(f"ALTER TABLE goods {altered}"))
        row = {one.name: 7 for one in table.columns}
        source.transaction(border(2) + 3 * SECOND, Dml(table, [(None, row)]))
    for window in range(3):
        source.checkpoint(border(window) + 500 * SECOND)
    return open_short(bench_in_process(folder, "lost"), folder / "capture", source.messages, windows=3)


@pytest.mark.parametrize(
    ("altered", "table"),
    [
        pytest.param("", None, id="no event has the new name"),
        pytest.param("DROP COLUMN note", PLAIN, id="a column went before an event", marks=pytest.mark.more),
        pytest.param("MODIFY note int", TYPED, id="a column got another type before an event", marks=pytest.mark.more),
    ],
)
def test_a_run_brings_back_columns_of_renamed_tables(altered: str, table: Table | None, tmp_path: Path) -> None:
    whole, lost = made(tmp_path / "whole", altered, table), made(tmp_path / "lost", altered, table)
    for harness in (whole, lost):
        harness.all(0)
        harness.all(1)
    path, lake = lost.pipeline.settings.registry_path, lost.pipeline.lake.identity(lost.pipeline.name)
    path.unlink()
    known_tables(lost.pipeline)  # as every command does
    assert lacks_renames(path, lake)
    for harness in (whole, lost):
        harness.all(2)
        harness.settle()
    assert not lacks_renames(path, lake)
    assert known_tables(lost.pipeline) == known_tables(whole.pipeline)
    assert {"id", "n", "note"} == {column.name for column in known_tables(lost.pipeline)[GOODS]}
    rows = [sorted(map(repr, harness.rows("snapshot", *GOODS.path))) for harness in (whole, lost)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2 + (table is not None)
