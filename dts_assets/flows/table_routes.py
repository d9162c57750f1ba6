"""Tables that their routes refuse.

Two source tables would become one although nobody asked for it, or shards are not alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dts_assets.errors import LakeTableError
from dts_assets.flows.layers import CHANGELOG, SQL
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import same_name
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.message_retention import ENTRIES
from dts_assets.model.routes import Routes
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault


def refused_by_routes(
    routes: Routes, sources: Mapping[TableId, tuple[TableId, ...]], shapes: Iterable[TableShapeRow]
) -> dict[TableId, Fault]:
    """Return the faults of lake tables that no route can make.

    ``sources`` are the source tables of each, ``shapes`` what events of the windows to make described, by source table.
    """
    if not routes:
        return {}
    found = {table: clause for table, some in sources.items() if (clause := _collision(routes, table, some))}
    for table, clause in _unlike_shards(routes, shapes).items():
        found.setdefault(table, clause)
    return {table: _fault(table, clause) for table, clause in found.items()}


def refused_by_sets(pipeline: Pipeline, copied: Iterable[TableId], tables: Iterable[TableId]) -> dict[TableId, Fault]:
    """Return the faults of tables of which every set of a TDSQL has a part.

    They are asked to be what only a whole table can be. ``copied`` are source tables with a copy.
    """
    settings = pipeline.settings
    if not settings.routes.by_set:
        return {}
    with_copies, without_sets = {*map(settings.routes.lake_table, copied)}, _made_without_sets(pipeline)
    found = {}
    for table in tables:
        if table in without_sets:
            clause = "an earlier version made rows of it without the sets of the TDSQL, and their entries have left"
            found[table] = _fault(table, clause, "remove it and add it again: it begins with the entries that are left")
        elif table in with_copies:
            clause = "its rows are those of several sets of a TDSQL, and a copy does not tell the set of a row"
            found[table] = _fault(table, clause, "take the table out of bootstrap, remove it, add it again")
        elif SQL.takes(settings, table):
            clause = "its rows are those of several sets of a TDSQL, and statements cannot say which set they are about"
            found[table] = _fault(table, clause, "leave it out of sql.tables, and resume it")
    return found


def _made_without_sets(pipeline: Pipeline) -> frozenset[TableId]:
    """Return the tables with rows that tell no set and cannot be made again."""
    removed = pipeline.unmakeable().removed
    return frozenset(
        row.table
        for row in (pipeline.ledger.window_tables() if removed.rows else ())
        if row.kept and row.lists and not any(one.columns[1:] for one in row.lists)
        if removed.when(ENTRIES, Cell(row.kafka_partition, pipeline.grid.of_start(row.window_start))) is not None
    )


def _fault(table: TableId, clause: str, advice: str = "mend rename, merge or tables, and resume it") -> Fault:
    sentence = str(LakeTableError(str(table), clause, advice))
    return Fault(CHANGELOG.name, f"routes of {table}", sentence)


def _collision(routes: Routes, table: TableId, sources: tuple[TableId, ...]) -> str:
    """Return a clause about source tables that share a lake table without a merge.

    It is empty if there are none.
    """
    sources = tuple(dict.fromkeys(one.of_all_sets for one in sources))
    others = [source for source in sources if not routes.merges_into(table, source)]
    if len(sources) < 2 or not others:
        return ""
    one, other = others[0], next(source for source in sources if source != others[0])
    return f"two source tables, {one} and {other}, would both be it"


def _unlike_shards(routes: Routes, shapes: Iterable[TableShapeRow]) -> dict[TableId, str]:
    """Return clauses about merged tables whose shards have columns or keys that forbid it."""
    found: dict[TableId, str] = {}
    keys = dict[tuple[TableId, datetime], dict[TableId, set[frozenset[str]]]]()
    for row in sorted(shapes, key=lambda one: (one.table, one.window_start)):
        table = routes.decoded_table(row.table)
        if table is None or not routes.takes_shard(table, row.table):
            continue
        taken = {same_name(name) for name in routes.shard_columns(table)}
        clash = next((column.name for column in row.columns if same_name(column.name) in taken), None)
        if clash is not None:
            found.setdefault(table, f"its shard {row.table} has a column {clash} of its own")
        if not routes.merges_into(table, row.table):  # a statement about the key reaches one set after the other
            continue
        key = frozenset(same_name(column.name) for column in row.columns if column.is_key)
        keys.setdefault((table, row.window_start), {}).setdefault(row.table, set()).add(key)
    for (table, _), told in keys.items():
        (first, mine), *others = told.items()
        # A statement may give all shards another key within a window.
        unlike = next(((other, theirs) for other, theirs in others if mine.isdisjoint(theirs)), None)
        if unlike is not None:
            both = " and ".join(f"({', '.join(sorted(min(some, key=sorted)))})" for some in (mine, unlike[1]))
            found.setdefault(table, f"its shards {first} and {unlike[0]} have different primary keys, {both}")
    return found
