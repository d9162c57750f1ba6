"""Every type through each format: a lake's sum is the server's own, but for columns that are named and left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_assets.flows.compared_snapshots import rows_that_live, stored_total
from dts_assets.flows.compared_tables import ComparedTable, compared_table, sums_of_files
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_assets.stages.row_sums import row_sums
from dts_assets.stages.sum_sql import SqlColumn, row_hash, sum_statement
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.recorded_lakes import recorded_lake
from tests.dts_emulator.type_gallery import CASES, column, statements
from tests.dts_emulator.worked_databases import transactions_of, worked_server
from tests.tiers import chosen

pytestmark = pytest.mark.database

TABLE = TableId("d", "", "types")
NEVER = {"float", "double", "float(10,2) unsigned", "double(20,4)"} | {
    "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geometry",
}  # fmt: skip
"""Types of which the server's text is not proven to be the lake's."""

IN_MILLIS = {f"{kind}({digits})" for kind in ("datetime", "time") for digits in (4, 5, 6)} | {
    f"timestamp({digits}) null" for digits in (4, 5, 6)
}
DRS = {"bit(1)", "bit(12)", "bit(64)"}
LEFT_OUT = {"dts-avro": IN_MILLIS, "dts-json": IN_MILLIS, **dict.fromkeys(("drs-avro", "drs-json", "drs-json-c"), DRS)}


@pytest.fixture(scope="module")
def source() -> Iterator[tuple[list[Transaction], SourceMoment]]:
    with worked_server(statements()) as server:
        place = DatabasePlace("", 0, server.user, server.password, str(server.socket))
        with moment_of(place) as moment:
            yield transactions_of(server), moment


def apart_in(moment: SourceMoment, table: ComparedTable, one: SqlColumn) -> list[tuple[str, ...]]:
    """Whether a column alone has another sum on both sides: the texts that the server has, if so."""
    theirs = sorted(int(found) for (found,) in moment.rows(f"SELECT {row_hash([one])} FROM d.types"))
    ours = sorted(
        found
        for rows in rows_that_live(table.snapshot, [one.column.name])
        for found in row_sums(rows, [one.column]).tolist()
    )
    return (
        []
        if theirs == ours
        else [tuple(map(str, row)) for row in moment.rows(f"SELECT DISTINCT {one.text} FROM d.types")]
    )


@pytest.mark.parametrize("name", chosen(FORMATS, 2))
def test_the_sum_of_every_type_is_the_servers(
    source: tuple[list[Transaction], SourceMoment], name: str, tmp_path: Path
) -> None:
    transactions, moment = source
    pipeline = recorded_lake(name, transactions, tmp_path).pipeline
    snapshot = pipeline.lake.table(pipeline.table_path("snapshot", TABLE))
    assert snapshot is not None
    compared = compared_table(
        pipeline, TABLE, snapshot, columns=known_tables(pipeline)[TABLE], source=TABLE,
        described=moment.tables()[TABLE], unknown={},
    )  # fmt: skip
    assert compared is not None
    declared = {column(number): case.declared for number, case in enumerate(CASES)}
    assert {declared[one] for one in compared.left_out} == NEVER | LEFT_OUT.get(name, set())
    apart = {
        declared.get(one.column.name, "id"): found
        for one in compared.pairs
        if (found := apart_in(moment, compared, one))
    }
    assert apart == {}
    ((rows, summed, misfit),) = moment.rows(sum_statement("d.types", compared.pairs))
    lake = sums_of_files(compared)
    assert (lake.rows, lake.compared) == (rows, int(summed))
    assert stored_total(snapshot) == lake.whole
    assert misfit > 0
