"""Tables that their routes refuse.

Two source tables would become one although nobody asked for it, or shards are not alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dts_assets.errors import LakeTableError
from dts_assets.flows.layers import CHANGELOG
from dts_assets.model.columns import same_name
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.routes import Routes
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


def _fault(table: TableId, clause: str) -> Fault:
    sentence = str(LakeTableError(str(table), clause, "mend rename, merge or tables, and resume it"))
    return Fault(CHANGELOG.name, f"routes of {table}", sentence)


def _collision(routes: Routes, table: TableId, sources: tuple[TableId, ...]) -> str:
    """Return a clause about source tables that share a lake table without a merge.

    It is empty if there are none.
    """
    others = [source for source in sources if not routes.takes_shard(table, source)]
    if len(sources) < 2 or not others:
        return ""
    one, other = others[0], next(source for source in sources if source != others[0])
    return f"two source tables, {one} and {other}, would both be it"


def _unlike_shards(routes: Routes, shapes: Iterable[TableShapeRow]) -> dict[TableId, str]:
    """Return clauses about merged tables whose shards have columns or keys that forbid it."""
    found: dict[TableId, str] = {}
    keys: dict[tuple[TableId, datetime], tuple[TableId, frozenset[str]]] = {}
    for row in sorted(shapes, key=lambda one: (one.table, one.window_start)):
        table = routes.decoded_table(row.table)
        if table is None or not routes.takes_shard(table, row.table):
            continue
        taken = {same_name(name) for name in routes.shard_columns(table)}
        clash = next((column.name for column in row.columns if same_name(column.name) in taken), None)
        if clash is not None:
            found.setdefault(table, f"its shard {row.table} has a column {clash} of its own")
        key = frozenset(same_name(column.name) for column in row.columns if column.is_key)
        other, first = keys.setdefault((table, row.window_start), (row.table, key))
        if first != key and other != row.table:
            both = f"({', '.join(sorted(first))}) and ({', '.join(sorted(key))})"
            found.setdefault(table, f"its shards {other} and {row.table} have different primary keys, {both}")
    return found
