"""Rows that differ from a real MariaDB are taken from it: both are equal then, and the changelog tells what was repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.flows.verification import verify
from dts_assets.model.tables import TableId
from dts_emulator.source.server import Server, private_server
from tests.flows.harness import Harness
from tests.flows.verified_source import fill, lake_of, place_of, run

pytestmark = pytest.mark.database

ORDERS, PAIRS, BAG = (TableId("d", "", name) for name in ("orders", "pairs", "bag"))
UNTOLD = (
    "UPDATE d.orders SET amount = amount + 1, long_note = CONCAT(long_note, 'é'), span = '-01:02:03.5' WHERE id % 7 = 3",
    "UPDATE d.orders SET raw = X'00FF27', marks = 'x,y', bits = 5, price = 1e-7, doc = '{\"n\": [1]}' WHERE id = 20",
    "UPDATE d.orders SET day = '2026-01-06' WHERE id = 100001",  # it did not fit before
    "UPDATE d.orders SET placed = '0000-00-00' WHERE id = 21",
    "DELETE FROM d.orders WHERE id BETWEEN 40 AND 44",
    "INSERT INTO d.orders (id, note, day) VALUES (5000, 'it''s \\\\', '0000-00-00')",
    "UPDATE d.pairs SET c = NULL WHERE a = 2",
    "UPDATE d.pairs SET b = CONCAT(b, '~') WHERE a = 3",
    "INSERT INTO d.bag VALUES ('untold', 1)",
)
"""Changes that are in no binlog, as where messages were lost."""


@pytest.fixture
def server() -> Iterator[Server]:
    with private_server() as running:
        fill(running, 120)
        yield running


@pytest.fixture
def harness(server: Server, tmp_path: Path) -> Harness:
    made = lake_of(server, tmp_path)
    run(server, ["SET SESSION sql_log_bin = 0", *UNTOLD])
    return made


def repaired_rows(harness: Harness, table: TableId) -> list[dict[str, object]]:
    return [row for row in harness.rows("changelog", *table.path) if row["op"] == "repair"]


@pytest.mark.more
def test_rows_that_differ_are_taken_from_the_source(server: Server, harness: Harness) -> None:
    before = [(row.window, row.completeness) for row in harness.pipeline.ledger.cuts()]
    found = verify(harness.pipeline, place_of(server), timeout=5)
    assert set(found.unequal) == {ORDERS, PAIRS, BAG}
    assert (found.repaired, harness.pipeline.ledger.copied_tables()) == ({}, [])

    found = verify(harness.pipeline, place_of(server), timeout=5, repair=True)
    assert found.repaired.keys() == {ORDERS, PAIRS}
    assert "no primary key" in found.not_repaired[BAG] or "apart" in found.not_repaired[BAG]
    assert harness.settle()
    again = verify(harness.pipeline, place_of(server), timeout=5)
    assert again.unequal == (BAG,)
    for table in (ORDERS, PAIRS):
        rows = repaired_rows(harness, table)
        assert len(rows) == found.repaired[table].rows == len(found.verdicts[table].differences.rows)  # type: ignore[union-attr]
        assert {row["kafka_partition"] for row in rows} == {None}
        assert any(row["after"] is None for row in rows)
    assert [(row.window, row.completeness) for row in harness.pipeline.ledger.cuts()] == before
    assert all(row.balanced for row in harness.pipeline.ledger.window_tables())


@pytest.mark.more
def test_repaired_rows_come_again_when_their_window_is_made_again(server: Server, harness: Harness) -> None:
    verify(harness.pipeline, place_of(server), timeout=5, repair=True)
    harness.settle()
    rows = harness.everything(without=("_kafka_offset",))
    harness.tables_of([row.window for row in harness.pipeline.ledger.cuts()])
    assert harness.everything(without=("_kafka_offset",)) == rows


@pytest.mark.more
def test_rows_that_a_repair_removes_keep_their_values_where_deleted_rows_stay(server: Server, tmp_path: Path) -> None:
    harness = lake_of(server, tmp_path, deletes={"*": "soft"})
    was = {row["id"]: row for row in harness.rows("snapshot", *ORDERS.path)}
    run(server, ["SET SESSION sql_log_bin = 0", "DELETE FROM d.orders WHERE id BETWEEN 40 AND 44"])
    assert verify(harness.pipeline, place_of(server), timeout=5, repair=True).repaired[ORDERS].rows == 5
    assert harness.settle()
    deleted = [row for row in harness.rows("snapshot", *ORDERS.path) if row["_deleted_at"] is not None]
    assert sorted(row["id"] for row in deleted) == [*range(40, 45)]
    for row in deleted:
        assert {name: row[name] for name in row if name[0] != "_"} == {
            name: was[row["id"]][name] for name in row if name[0] != "_"
        }


@pytest.mark.more
def test_a_key_that_was_damaged_to_another_rows_is_repaired_for_both(server: Server, tmp_path: Path) -> None:
    harness = lake_of(server, tmp_path)
    (file,) = harness.pipeline.lake.data_files(harness.pipeline.table_path("snapshot", ORDERS))
    path = Path(file.path.removeprefix("file://"))
    rows = pq.read_table(path)
    keys = [8 if one == 7 else one for one in rows["id"].to_pylist()]
    at = rows.schema.get_field_index("id")
    pq.write_table(rows.set_column(at, rows.schema.field("id"), pa.array(keys, rows["id"].type)), path)
    found = verify(harness.pipeline, place_of(server), timeout=5, repair=True)
    differences = found.verdicts[ORDERS].differences
    assert differences is not None
    assert [(dict(row.key), row.is_repeated) for row in differences.rows] == [({"id": "8"}, True), ({"id": "7"}, False)]
    assert found.repaired[ORDERS].rows == 2
    assert harness.settle()
    assert verify(harness.pipeline, place_of(server), timeout=5).unequal == ()
