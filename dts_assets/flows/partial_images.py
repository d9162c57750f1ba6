"""The reading of row images that lack columns of their table's key.

Messages tell them where they describe the columns that they send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.columns import ColumnShape, same_name
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.partial_images import NO_PARTIAL_IMAGES, PartialImages, find_partial_images
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, note_several_keys, read_registry_of
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.schema_history import SourceStatement, names_table
from dts_assets.wire.format import TableShape

_BORDERS = frozenset(
    {
        EffectKind.CREATE_TABLE,
        EffectKind.DROP_TABLE,
        EffectKind.RENAME_TABLE,
        EffectKind.DROP_COLUMN,
        EffectKind.RENAME_COLUMN,
        EffectKind.PRIMARY_KEY,
        EffectKind.DROP_DATABASE,
    }
)
"""The effects behind which a table may have another key, or fewer columns."""


def partial_images(pipeline: Pipeline) -> PartialImages:
    """Return the row images that lack columns of the key which their table has at that place.

    Nothing is read but the registry, unless events of a table told several keys.
    """
    if pipeline.settings.traits.order is not ChangeOrder.ARRIVAL:
        return NO_PARTIAL_IMAGES
    lake = pipeline.lake.identity(pipeline.name)
    registered = None if lake is None else read_registry_of(pipeline.settings.registry_path, lake)
    doubtful = [one for one in (registered or {}).values() if one.several_keys]
    sources = {source for one in doubtful for source in (one.sources or (one.table,))}
    return _among(pipeline, pipeline.ledger.of_tables(sources)[0]) if sources else NO_PARTIAL_IMAGES


def judging_settings(pipeline: Pipeline) -> str:
    """Return a digest of everything beside the marks that decides whether a window is stale."""
    own, lists = pipeline.judging_settings(), partial_images(pipeline).digest
    return f"{own} {lists}" if lists else own


def whole_shapes(pipeline: Pipeline, shapes: list[TableShapeRow]) -> list[TableShapeRow]:
    """Return all of some shapes but those of images that lack columns of a key."""
    if pipeline.settings.traits.order is not ChangeOrder.ARRIVAL:
        return shapes
    found = _among(pipeline, shapes)
    return [row for row in shapes if not found.takes(row)]


def note_keys(pipeline: Pipeline, shapes: Iterable[TableShape], before: Mapping[TableId, RegisteredTable]) -> None:
    """Note in the registry the tables of which events told several keys; ``shapes`` are those of lake tables."""
    if pipeline.settings.traits.order is not ChangeOrder.ARRIVAL:
        return
    keys = {table: {_key(entry.columns)} for table, entry in before.items()}
    for shape in shapes:
        keys.setdefault(shape.table, set()).add(_key(shape.columns))
    several = {table for table, some in keys.items() if len(some) > 1}
    if several:
        note_several_keys(pipeline.settings.registry_path, several, lake=pipeline.lake.identity(pipeline.name))


def _among(pipeline: Pipeline, shapes: Iterable[TableShapeRow]) -> PartialImages:
    """Return the partial images among some shapes.

    Statements are read only if there are any.
    """
    rows = list(shapes)
    tables = {table for lists in find_partial_images(rows, {}).by_cell.values() for table, _ in lists}
    if not tables:
        return NO_PARTIAL_IMAGES
    borders: dict[TableId, set[SourcePosition]] = {}
    for statement in stored_statements(pipeline, None):
        for table in tables:
            if _is_border(statement, table):
                borders.setdefault(table, set()).add(statement.position)
    return find_partial_images(rows, {table: sorted(some) for table, some in borders.items()})


def _is_border(statement: SourceStatement, table: TableId) -> bool:
    """Tell whether a table may have another key, or fewer columns, behind a statement."""
    parsed = statement.parsed
    if not parsed.parsed:
        return names_table(statement.naming_text, table)
    return any(
        effect.kind in _BORDERS and (table in effect.tables or effect.database == table.database)
        for effect in parsed.effects
    )


def _key(columns: Iterable[RegisteredColumn | ColumnShape]) -> frozenset[str]:
    return frozenset(same_name(one.name) for one in columns if one.is_key)
