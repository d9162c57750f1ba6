"""The sums of a table of every type: the lake's own, from files and as it is carried, and the server's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from dts_assets.flows.compared_snapshots import rows_that_live, stored_total
from dts_assets.flows.compared_tables import ComparedTable, compared_table, sums_of_files
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import SourceMoment
from dts_assets.stages.row_sums import row_sums
from dts_assets.stages.sum_sql import SqlColumn, row_hash, sum_statement
from dts_emulator.source.events import Transaction
from tests.dts_emulator.recorded_lakes import recorded_lake
from tests.dts_emulator.type_gallery import TypeCase, column

TABLE = TableId("d", "", "types")
_NEVER = {"float", "double", "float(10,2) unsigned", "double(20,4)"} | {
    "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geometry",
}  # fmt: skip
"""Types of which the server's text is not proven to be the lake's."""

_IN_MILLIS = {f"{kind}({digits})" for kind in ("datetime", "time") for digits in (4, 5, 6)} | {
    f"timestamp({digits}) null" for digits in (4, 5, 6)
}
_DRS = {"bit(1)", "bit(12)", "bit(64)"}
_LEFT_OUT = {
    "dts-avro": _IN_MILLIS,
    "dts-json": _IN_MILLIS,
    **dict.fromkeys(("drs-avro", "drs-json", "drs-json-c"), _DRS),
}


def _apart_in(moment: SourceMoment, table: ComparedTable, one: SqlColumn) -> list[tuple[str, ...]]:
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


def check_sums(
    name: str,
    transactions: list[Transaction],
    moment: SourceMoment,
    folder: Path,
    *,
    cases: Sequence[TypeCase],
    never: Collection[str] = (),
) -> None:
    """Make the table by a format, and compare each column's and the whole table's sum.

    ``never`` are further types of which the server's text is not proven to be the lake's.
    """
    pipeline = recorded_lake(name, transactions, folder).pipeline
    snapshot = pipeline.lake.table(pipeline.table_path("snapshot", TABLE))
    assert snapshot is not None
    compared = compared_table(
        pipeline, TABLE, snapshot, columns=known_tables(pipeline)[TABLE], source=TABLE,
        described=moment.tables()[TABLE], unknown={},
    )  # fmt: skip
    assert compared is not None
    declared = {column(number): case.declared for number, case in enumerate(cases)}
    left_out = {*_NEVER, *never} | _LEFT_OUT.get(name, set())
    assert sorted({declared[one] for one in compared.left_out} ^ (left_out & set(declared.values()))) == []
    apart = {
        declared.get(one.column.name, "id"): found
        for one in compared.pairs
        if (found := _apart_in(moment, compared, one))
    }
    assert apart == {}, apart
    ((rows, summed, misfit),) = moment.rows(sum_statement("d.types", compared.pairs))
    lake = sums_of_files(compared)
    assert (lake.rows, lake.compared) == (rows, int(summed))
    assert stored_total(snapshot) == lake.whole
    assert misfit > 0
