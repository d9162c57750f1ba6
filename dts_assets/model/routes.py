"""Routes from source tables to lake tables: renamed tables, and shards that are merged into one table.

A route follows from settings alone. A source table without one has its own name in the lake. Where the source is a TDSQL of
several sets, each set has a part of every table, as a shard has of a merged table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from dts_assets.model.columns import ColumnShape, same_name
from dts_assets.model.tables import EMPTY, TableId

STAR = "*"

ANY_PART = ""
"""The part of a shard's name that stands for every part. No shard has an empty one."""

_OF_TWO = ("_source_database", "_source_table")
_OF_THREE = ("_source_database", "_source_schema", "_source_table")

SET_COLUMN = "_source_set"
"""The column that tells the set of a TDSQL from which a row comes."""

SHARD_TYPE = "varchar(255)"
"""The source type of shard columns, which no source sends."""


def table_of(name: str) -> TableId:
    """Return the table that a name of two or three parts means, ``%`` for an empty part: ``shopdb.orders``."""
    return _table_of_parts(tuple(name.split(".")))


def _table_of_parts(named: tuple[str, ...]) -> TableId:
    parts = ["" if part == EMPTY else part for part in named]
    return TableId(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


@dataclass(frozen=True, slots=True)
class Merge:
    """The shards that become one lake table: ``into`` it, by globs such as ``shop_*.orders_*``.

    All globs have equally many parts.
    """

    into: TableId
    globs: tuple[str, ...]

    def takes(self, source: TableId) -> bool:
        """Tell whether a source table is a shard."""
        return any(source.matches(glob) for glob in self.globs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell the shard of a row, one for each part of its name."""
        return _OF_THREE if self.globs[0].count(".") == 2 else _OF_TWO


@dataclass(frozen=True, slots=True)
class Rename:
    """A source table, or tables by stars, with the name in the lake: ``shopdb.*`` and ``sales.*``.

    Each star of the name stands for what the star in its place among those of ``source`` matched.
    """

    source: str
    name: str

    def lake_table(self, source: TableId) -> TableId | None:
        """Return the lake table of a source table; None for a table that is not renamed."""
        return _carried(self.source, self.name, source.parts)

    def source_table(self, table: TableId) -> TableId | None:
        """Return the source table that has this name in the lake; None if there is none."""
        return _carried(self.name, self.source, table.parts)


@lru_cache(maxsize=65536)
def _carried(pattern: str, other: str, parts: tuple[str, ...]) -> TableId | None:
    """Return ``other`` with its stars replaced by what those of ``pattern`` match in ``parts``; None without a match."""
    found = _matcher(pattern).fullmatch("\0".join(parts))
    if found is None:
        return None
    matched = iter(found.groups())
    # A text that a star matches may have dots.
    named = (
        "".join(next(matched) if one == STAR else one for one in re.split(r"(\*)", part)) for part in other.split(".")
    )
    return _table_of_parts(tuple(named))


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    parts = ("([^\0]*)".join(map(re.escape, part.split(STAR))) for part in pattern.split("."))
    return re.compile("\0".join(parts), re.S)


@dataclass(frozen=True)  # without slots, for the cached properties
class Routes:
    """All routes of a subscription. Of merges and of renames the first that matches counts, merges before renames.

    ``include`` and ``exclude`` are the globs of the source tables that are decoded. ``by_set`` says that the source has sets:
    then every table has the column that tells them.
    """

    renames: tuple[Rename, ...] = ()
    merges: tuple[Merge, ...] = ()
    include: tuple[str, ...] = (STAR,)
    exclude: tuple[str, ...] = ()
    by_set: bool = False

    def __bool__(self) -> bool:
        return bool(self.renames or self.merges or self.by_set)

    @cached_property
    def with_sets(self) -> Routes:
        """The same routes from a source that has sets."""
        return replace(self, by_set=True)

    @property
    def has_shards(self) -> bool:
        """True if a table may have shards."""
        return bool(self.merges) or self.by_set

    def lake_table(self, source: TableId) -> TableId:
        """Return the lake table that changes of a source table go to."""
        source = source.of_all_sets
        if not self:
            return source
        merge = self._merge_of(source)
        if merge is not None:
            return merge.into
        exact = self._exact.get(source)
        if exact is not None and exact[0] < self._first_star:
            return exact[1]
        stars = ((place, found) for place, one in self._stars if (found := one.lake_table(source)) is not None)
        starred = next(stars, None)
        if exact is not None and (starred is None or exact[0] < starred[0]):
            return exact[1]
        return source if starred is None else starred[1]

    def decoded_table(self, source: TableId) -> TableId | None:
        """Return the lake table of a source table; None if it is not decoded."""
        if not any(map(source.matches, self.include)) or any(map(source.matches, self.exclude)):
            return None
        return self.lake_table(source)

    def shard_columns(self, table: TableId) -> tuple[str, ...]:
        """Return the columns that tell the shards of a lake table; none where it is not merged."""
        merged = next((one.columns for one in self.merges if one.into == table), ())
        return (*merged, SET_COLUMN) if self.by_set else merged

    def shard(self, source: TableId) -> tuple[str, ...]:
        """Return what the shard columns hold in the rows of a source table.

        There is nothing where it is no shard.
        """
        merged = source.parts if self._merge_of(source) is not None else ()
        return (*merged, source.source_set) if self.by_set else merged

    def named(self, source: TableId) -> tuple[TableId, tuple[str, ...]]:
        """Return the lake table of a source table, and what tells its rows from those of other shards."""
        table = self.lake_table(source)
        return table, self.shard(source) if self.shard_columns(table) else ()

    def takes_shard(self, table: TableId, source: TableId) -> bool:
        """Tell whether a source table is a shard of a lake table.

        Where there are sets, every source table of a lake table is.
        """
        merge = self._merge_of(source)
        if self.by_set and not self._is_merged(table):
            return merge is None and self.lake_table(source) == table
        return merge is not None and merge.into == table

    def merges_into(self, table: TableId, source: TableId) -> bool:
        """Tell whether a source table is a shard that ``merge`` names for a lake table."""
        merge = self._merge_of(source)
        return merge is not None and merge.into == table

    def dropped_shards(
        self, table: TableId, database: str, source_set: str = "", sources: Iterable[TableId] = ()
    ) -> tuple[str, ...]:
        """Return what the shard columns hold for all shards of a lake table in a database.

        With ``source_set`` they are those in this set. There is nothing where no shard can be in it. ``sources`` are the
        known ones of the table.
        """
        of_set = (source_set,) if self.by_set else ()
        merge = next((one for one in self.merges if one.into == table), None)
        if merge is None:
            return of_set if any(one.database == database for one in sources) else ()
        if not any(TableId(database, "", "").matches(f"{_first(glob)}.*") for glob in merge.globs):
            return ()
        return (database, *(ANY_PART for _ in merge.columns[1:]), *of_set)

    def means(self, table: TableId, pattern: str, *, ignores_case: bool = False) -> bool:
        """Tell whether a setting's glob means a lake table, by its name there or at the source.

        A merged table is meant by a glob that names all shards of one of its globs.
        """
        if table.matches(pattern, ignores_case=ignores_case) or not self:
            return table.matches(pattern, ignores_case=ignores_case)
        if any(one.matches(pattern, ignores_case=ignores_case) for one in self.renamed_from(table)):
            return True
        return any(
            glob == pattern or table_of(glob).matches(pattern, ignores_case=ignores_case)
            for one in self.merges
            if one.into == table
            for glob in one.globs
        )

    def renamed_from(self, table: TableId) -> tuple[TableId, ...]:
        """Return the source tables that settings name for a renamed lake table."""
        exact = self._exact_names.get(table, ())
        starred = (one.source_table(table) for _, one in self._stars)
        found = (*exact, *(source for source in starred if source is not None))
        return tuple(source for source in found if self.lake_table(source) == table)

    @cached_property
    def _exact(self) -> dict[TableId, tuple[int, TableId]]:
        """The lake tables of source tables that are renamed by whole names, and the renames' places."""
        found: dict[TableId, tuple[int, TableId]] = {}
        for place, one in enumerate(self.renames):
            if STAR not in one.source:
                found.setdefault(table_of(one.source), (place, table_of(one.name)))
        return found

    @cached_property
    def _exact_names(self) -> dict[TableId, tuple[TableId, ...]]:
        """The source tables of lake tables that are renamed by their whole names."""
        found: dict[TableId, tuple[TableId, ...]] = {}
        for source, (_, table) in self._exact.items():
            found[table] = (*found.get(table, ()), source)
        return found

    @cached_property
    def _stars(self) -> tuple[tuple[int, Rename], ...]:
        """The renames with stars, with their places among all."""
        return tuple((place, one) for place, one in enumerate(self.renames) if STAR in one.source)

    @property
    def _first_star(self) -> int:
        return self._stars[0][0] if self._stars else len(self.renames)

    def _is_merged(self, table: TableId) -> bool:
        return any(one.into == table for one in self.merges)

    def _merge_of(self, source: TableId) -> Merge | None:
        return next((one for one in self.merges if one.takes(source)), None)


NO_ROUTES = Routes()


def _first(glob: str) -> str:
    return glob.split(".")[0]


def routed_columns(routes: Routes, source: TableId, columns: tuple[ColumnShape, ...]) -> tuple[ColumnShape, ...]:
    """Return the columns of a source table's event as the lake table has them.

    Those that tell the shard stand behind the event's own, and are part of the key where the shard has one. A column of the shard
    that is called like one of them is left out.
    """
    names = routes.shard_columns(routes.lake_table(source)) if routes.has_shards else ()
    if not names or not routes.shard(source):
        return columns
    keyed = any(column.is_key for column in columns)
    return (*without_names(columns, names), *(ColumnShape(name, SHARD_TYPE, keyed) for name in names))


def without_names(columns: Iterable[ColumnShape], names: Collection[str]) -> tuple[ColumnShape, ...]:
    """Return the columns that have none of some names, whatever the case."""
    taken = {same_name(name) for name in names}
    return tuple(column for column in columns if same_name(column.name) not in taken)
