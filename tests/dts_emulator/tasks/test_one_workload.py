"""One binlog of a real MariaDB in every encoding: one changelog, but for the loss table, and the database's own snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.problems import Completeness
from dts_assets.settings.formats import traits_of
from dts_assets.stages.row_hash import row_hashes, summed
from dts_emulator.judge.comparison import differences
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.recorded_lakes import recorded_lake
from tests.dts_emulator.tasks.test_drs_recording import DECLARED
from tests.flows.harness import Harness

pytestmark = pytest.mark.database

COLUMNS = ("op", "before", "after", "absent", "invalid")
IN_MILLIS = ("dts-avro", "dts-json")
"""Formats without microseconds, which the table ``gallery`` has."""
DROPPED = {"part"}
"""Columns that an ALTER took away: no difference, whether they are still shown or not."""


@pytest.fixture(scope="module")
def made(transactions: list[Transaction], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Harness]:
    """The lakes that the flows make of the workload, by format."""
    return {
        name: recorded_lake(name, transactions, tmp_path_factory.mktemp("lake"), types=DECLARED) for name in FORMATS
    }


def hashes(harness: Harness) -> dict[str, tuple[int, int]]:
    """The rows of each changelog and the sum of their hashes, with times in whole milliseconds."""
    found = {}
    for table in known_tables(harness.pipeline):
        rows = harness.pipeline.lake.scan(harness.pipeline.table_path("changelog", table))
        assert rows is not None
        (batch,) = (
            pa.Table.from_arrays([_in_millis(rows[name]) for name in COLUMNS], COLUMNS).combine_chunks().to_batches()
        )
        found[str(table)] = batch.num_rows, summed(row_hashes(batch))
    return found


def _in_millis(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(values.type):
        fields = [_in_millis(one) for one in values.flatten()]
        return pa.StructArray.from_arrays(fields, [one.name for one in values.type], mask=values.is_null())
    if pa.types.is_timestamp(values.type):
        return pc.floor_temporal(values, unit="millisecond")
    return values


@pytest.mark.more
@pytest.mark.parametrize("name", FORMATS)
def test_one_workload_gives_one_changelog(made: Mapping[str, Harness], name: str) -> None:
    assert hashes(made[name]) == hashes(made["dts-protobuf"])
    assert {rows for rows, _ in hashes(made[name]).values()} - {0}


@pytest.mark.parametrize("name", FORMATS)
def test_snapshots_are_the_databases_content(made: Mapping[str, Harness], dump: Path, name: str) -> None:
    pipeline = made[name].pipeline
    found = {table: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for table in known_tables(pipeline)}
    shown = {
        table: rows.drop_columns([one for one in rows.column_names if one in DROPPED])
        for table, rows in found.items()
        if rows is not None
    }
    verdicts = [str(one) for one in differences(shown, dump)]
    assert ["gallery" in one for one in verdicts] == ([True] if name in IN_MILLIS else [])
    assert made[name].rows("quarantine") == []


@pytest.mark.parametrize("name", FORMATS)
def test_windows_reach_the_level_of_their_format(made: Mapping[str, Harness], name: str) -> None:
    levels = {row.completeness for row in made[name].pipeline.ledger.windows()}
    # All happens in the first window, before which nothing is known: no window can prove that it lacks nothing.
    assert levels == {Completeness.CONTIGUOUS if traits_of(name).evidence else Completeness.OBSERVED}
