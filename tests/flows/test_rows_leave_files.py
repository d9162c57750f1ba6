"""Few rows leave files by lists, many by files written anew: every reader sees what the database holds, at every version."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation

from dts_assets.flows import snapshot_jobs, snapshot_tasks
from dts_assets.planning import row_removals
from dts_assets.planning.compactions import FileShape, files_to_compact
from dts_assets.store.delete_files import WrittenDeletes, write_deletes
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Contents, Dml, folded
from tests.flows.source_tables import INT, TEXT, Field, Table
from tests.tiers import chosen, times

WINDOWS = 6


def items() -> Table:
    return Table("items", [Field("id", INT, True), Field("note", TEXT)])


@pytest.mark.parametrize("seed", range(times(1, 12)))
@pytest.mark.parametrize("shared", chosen([True, False], 1))
def test_snapshots_with_deleted_rows_hold_what_the_database_holds(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    """Delete files cost nothing here, so that they come, meet and go with every few changes."""
    monkeypatch.setattr(row_removals, "DELETE_FILE_BYTES", 0)
    monkeypatch.setattr(row_removals, "DELETED_ROW_BYTES", 0)
    most, written = 0, write_deletes

    def counted(*args: Any, **more: Any) -> WrittenDeletes:
        nonlocal most
        made = written(*args, **more)
        most = max(most, made.rows)
        return made

    monkeypatch.setattr(snapshot_tasks, "write_deletes", counted)
    if shared:
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
    chance, source = Random(seed), short_source(items())
    table, rows = source.tables["items"], source.rows["items"]
    for number in range(WINDOWS):
        at = border(number) + SECOND
        new = [{"id": 100 * number + n, "note": "new"} for n in range(40 if number == 0 else 2)]
        some = chance.sample(sorted(rows), min(len(rows), 3))
        pairs = [(None, one) for one in new] + [
            (rows[key], {**rows[key], "note": f"{number}"} if chance.random() < 0.7 else None) for key in some
        ]
        for offset, pair in enumerate(pairs):
            source.transaction(at + offset * SECOND, Dml(table, [pair]))
        source.checkpoint(border(number) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "leave"), tmp_path / "capture", source.messages, windows=WINDOWS)
    harness.raw(*range(WINDOWS))
    harness.entries(*range(WINDOWS))
    path = harness.pipeline.path("snapshot", DATABASE, "items")
    lake, held = harness.pipeline.lake, dict[int, Contents]()
    for number in (0, 1, 2, 2, 4, 3, 5, 1):  # in order, again, late and replaced
        harness.tables(number)
        state = lake.state(path)
        assert state is not None
        held[state.snapshot_id] = harness.snapshots(source.tables)
        size = lake.size(path)
        assert size is not None
        assert size.rows == len(held[state.snapshot_id]["items"])
        files = lake.data_files(path, applies_deletes=True)
        shapes = [FileShape(file.bytes, file.rows, file.deleted_rows) for file in files]
        assert not files_to_compact(shapes), "the window has closed, and files are as the refresh left them"
    assert most > 2, "no row has left a file by a list"
    table_now = lake.table(path)
    assert table_now is not None
    operations = [one.summary.operation for one in table_now.snapshots() if one.summary]
    assert Operation.REPLACE in operations
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)
    for version, contents in held.items():
        expected = {row["id"]: row["note"] for row in contents["items"].values()}
        found = lake.scan(path, snapshot_id=version)
        assert found is not None
        assert {row["id"]: row["note"] for row in found.to_pylist()} == expected, "an old version holds other rows"
        duckdb = table_now.scan(snapshot_id=version).to_duckdb("items")
        assert dict(duckdb.sql("SELECT id, note FROM items").fetchall()) == expected
        duckdb.close()
