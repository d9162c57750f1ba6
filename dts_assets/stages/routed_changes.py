"""Changes of source tables become changes of lake tables.

They get the lake's name, and those of shards the columns that tell the shard. A truncation of a shard has these columns in its
old image, so that it empties the shard's rows alone. An empty text there stands for every shard: a database that is dropped takes
all of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.emptied_tables import EmptiedTable, emptied_among
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.layouts import struct_type
from dts_assets.wire.format import TableChanges, ToldKeys

NO_SOURCES: Mapping[TableId, tuple[TableId, ...]] = MappingProxyType({})


class ChangeRoutes:
    """The routes of some lake tables, whose decoded ``columns`` are known; ``sources`` are the known ones of each.

    Source tables become known with their first entry: a shard that nobody has seen needs no list.
    """

    def __init__(
        self,
        columns: Mapping[TableId, tuple[Column, ...]],
        routes: Routes = NO_ROUTES,
        sources: Mapping[TableId, tuple[TableId, ...]] = NO_SOURCES,
    ) -> None:
        self._columns, self._routes, self._sources = columns, routes, sources
        self._tables: dict[TableId, TableId | None] = {}
        self._by_source: dict[TableId, tuple[Column, ...]] = {}

    def table(self, source: TableId) -> TableId | None:
        """Return the lake table of a source table; None of a table that is not decoded."""
        if not self._routes:
            return source
        if source not in self._tables:
            table = self._tables[source] = self._routes.decoded_table(source)
            if table is not None and table in self._columns:
                shard = self._routes.shard_columns(table)
                self._by_source[source] = tuple(one for one in self._columns[table] if one.name not in shard)
        return self._tables[source]

    @property
    def by_source(self) -> Mapping[TableId, tuple[Column, ...]]:
        """The columns to decode by source table.

        With routes they are those of the tables that were asked for so far.
        """
        return self._by_source if self._routes else self._columns

    @property
    def by_set(self) -> bool:
        """True if the rows of each set are told."""
        return self._routes.by_set

    def routed(self, changes: TableChanges, source_set: str = "") -> TableChanges:
        """Return the changes of a source table, or of its part in a set, as its lake table's."""
        source, table = changes.table.of_set(source_set), self.table(changes.table)
        if table is None:
            return changes
        shard = self._shard(table, source)
        if not shard:
            return changes if table == source else replace(changes, table=table)
        batch = changes.batch
        for side in ("before", "after"):
            place = batch.schema.get_field_index(side)
            batch = batch.set_column(place, side, self._image(batch[side], table, shard))
        carried = replace(changes.carried, distinct=tuple((*one, *shard.values()) for one in changes.carried.distinct))
        return replace(changes, table=table, batch=batch, keys=_with_shard(changes.keys, shard), carried=carried)

    def emptied(self, named: Iterable[EmptiedTable], source_set: str = "") -> list[tuple[TableId, tuple[str, ...]]]:
        """Return the lake tables that statements of a set empty, and of merged tables the shards.

        Of other tables the shard is empty.
        """
        named = list(named)
        if not self._routes:
            return [(table, ()) for table in sorted(emptied_among(named, self._columns))]
        found: dict[tuple[TableId, tuple[str, ...]], None] = {}
        for one in sorted(named):
            if one.table:
                if (target := self.emptied_table(one.id)) is not None:
                    found[target, self._routes.shard(one.id.of_set(source_set))] = None
                continue
            for table in self._columns:
                sources = self._sources.get(table, (table,))
                if self._routes.shard_columns(table):
                    if shard := self._routes.dropped_shards(table, one.database, source_set, sources):
                        found[table, shard] = None
                elif emptied_among([one], sources):
                    found[table, ()] = None
        return sorted(found)

    def emptied_table(self, source: TableId) -> TableId | None:
        """Return the lake table that loses the rows of a source table; None if no table has any."""
        table = self.table(source)
        if table is None or table not in self._columns:
            return None
        if self._routes.shard_columns(table):
            return table if self._routes.takes_shard(table, source) else None
        return table if source in self._sources.get(table, (table,)) else None

    @property
    def lake_tables(self) -> dict[TableId, TableId]:
        """The lake tables of the source tables that are known: of merged ones those that ``sources`` name."""
        merged = {table for table in self._columns if self._routes.shard_columns(table)}
        return {
            source.of_all_sets: table
            for table in self._columns
            for source in self._sources.get(table, () if table in merged else (table,))
        }

    def shard_image(self, table: TableId, shards: Sequence[tuple[str, ...]]) -> pa.StructArray:
        """Return the old images of truncations of a table, which are null where no shard is told."""
        columns, names = self._columns[table], self._routes.shard_columns(table)
        count, kind = len(shards), struct_type(columns)
        if not any(shards):
            return pa.nulls(count, kind)
        values = {name: pa.array([one[place] for one in shards], pa.string()) for place, name in enumerate(names)}
        children = [values.get(field.name, pa.nulls(count, field.type)) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind))

    def shard(self, source: TableId) -> tuple[str, ...]:
        """Return the values that tell a shard; none of a source table that is no shard."""
        return self._routes.shard(source)

    def _shard(self, table: TableId, source: TableId) -> dict[str, str]:
        names = self._routes.shard_columns(table) if self._routes.has_shards else ()
        return dict(zip(names, self._routes.shard(source), strict=True)) if names else {}

    def _image(self, image: pa.StructArray, table: TableId, shard: Mapping[str, str]) -> pa.StructArray:
        """Return an image with the columns that tell the shard, in their places."""
        missing, children, fields, place = image.is_null(), [], [], 0
        for column in self._columns[table]:
            if column.name in shard:
                none = pa.scalar(None, pa.string())
                child, field = pc.if_else(missing, none, shard[column.name]), pa.field(column.name, pa.string())
            else:
                child, field = pc.struct_field(image, [place]), image.type.field(place)
                place += 1
            children.append(child)
            fields.append(field)
        return pa.StructArray.from_arrays(children, fields=fields, mask=missing)


def _with_shard(keys: ToldKeys, shard: Iterable[str]) -> ToldKeys:
    """Return told keys with the columns that tell the shard.

    A table without a key stays without one.
    """
    return replace(keys, distinct=tuple(tuple(sorted({*key, *shard})) if key else key for key in keys.distinct))
