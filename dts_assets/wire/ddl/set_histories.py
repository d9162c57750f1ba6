"""The histories of tables' schemas in the sets of a TDSQL.

A statement changes the tables of the set that sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, schema_history
from dts_assets.wire.ddl.table_schemas import ServerRules
from dts_assets.wire.ddl.told_schemas import ToldShapes

Histories = Mapping[TableId, tuple[SchemaState, ...]]

NO_HISTORIES: Histories = MappingProxyType({})


def histories_by_set(
    statements: Iterable[SourceStatement], told: Iterable[ToldShapes], *, rules: ServerRules, by_set: bool
) -> dict[str, Histories]:
    """Return the states of every table by set.

    Without sets all stand under an empty text, as :func:`schema_history` has them. Tables are called there as the source
    calls them. What tells no set stands under an empty text, too, and a statement that tells none counts for every set.
    """
    if not by_set:
        return {"": schema_history(statements, told, rules=rules)}
    said, shapes = dict[str, list[SourceStatement]](), dict[str, list[ToldShapes]]()
    for one in statements:
        said.setdefault(one.source_set, []).append(one)
    for shape in told:
        shapes.setdefault(shape.table.source_set, []).append(replace(shape, table=shape.table.of_all_sets))
    of_all = said.pop("", [])
    return {
        each: schema_history([*of_all, *said.get(each, ())], shapes.get(each, ()), rules=rules)
        for each in sorted({"", *said, *shapes})
    }
