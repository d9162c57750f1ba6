"""The rules of tables before a run decodes them. Tables whose rules cannot be kept stand still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dts_assets.errors import LakeTableError
from dts_assets.flows.layers import CHANGELOG
from dts_assets.model.column_rules import TableRules, unusable
from dts_assets.model.key_periods import list_digest
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.routes import Routes
from dts_assets.model.row_filters import columns_of
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault

WAY_OUT = "mend its rules below columns and rows, and resume it"
"""The way out for a table that cannot go on under its rules."""


def refused_by_rules(table: TableId, clause: str) -> Fault:
    """Return the fault of a table whose rules cannot be kept; ``clause`` says why.

    Tables that are refused are never the fault of the run, so no two share a place.
    """
    sentence = str(LakeTableError(str(table), clause, WAY_OUT))
    return Fault(CHANGELOG.name, f"rules of {table}", sentence)


def tables_to_refuse(rules: Mapping[TableId, TableRules], shapes: Iterable[TableShapeRow]) -> dict[TableId, Fault]:
    """Return the faults of tables whose rules do not fit their columns or their events.

    ``shapes`` are what events of the windows to make described, by lake table.

    An event without the filter's column was sent before the column was added, or after it was dropped. Nobody knows then what its
    rows have there, and NULL would leave them out without a word.
    """
    found = {table: clause for table, one in rules.items() if (clause := unusable(one)) is not None}
    looked_at = {
        table: one.filter_columns
        for table, one in rules.items()
        if one.rows is not None and not one.eras and table not in found  # of eras each change is looked at
    }
    for row in shapes if looked_at else ():
        names = {column.name for column in row.columns}
        for column in looked_at.get(row.table, ()):
            if names.isdisjoint(column.source_names):
                when = f"{row.window_start:%Y-%m-%d %H:%M} UTC"
                found[row.table] = f"events of the window {when} lack {column.name}, which its row filter needs"
    return {table: refused_by_rules(table, clause) for table, clause in found.items()}


def with_lists(
    rules: Mapping[TableId, TableRules], shapes: Sequence[TableShapeRow], routes: Routes
) -> dict[TableId, TableRules]:
    """Return rules whose eras say which lists of columns lack one of the filter.

    ``shapes`` have the lists that events told, and of shards the columns that tell them, too.
    """
    found = dict(rules)
    for table, one in rules.items():
        if not one.eras:
            continue
        stored = {column.name: column.source_names for column in one.decoded}
        lists = [[column.name for column in row.columns] for row in shapes if row.table == table]
        shard = routes.shard_columns(table) if routes else ()
        digests = [list_digest(name for name in names if name not in shard) for names in lists]
        eras = []
        for era in one.eras:
            wanted = [stored.get(name, (name,)) for name in columns_of(era.rows)]
            lacking = (
                digest for digest, names in zip(digests, lists, strict=True) if any(map({*names}.isdisjoint, wanted))
            )
            eras.append(replace(era, lacking=frozenset(lacking)))
        found[table] = replace(one, eras=tuple(eras))
    return found
