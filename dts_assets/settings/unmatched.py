"""Rules, filters and globs that match no known table or column: slips of the pen, most of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dts_assets.model.helper_tables import helped_table
from dts_assets.model.tables import TableId
from dts_assets.settings.rules import matches_column

if TYPE_CHECKING:
    from dts_assets.settings.models import Subscription

_EVERY = "*"


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A glob below a ``key`` of a subscription that matches nothing.

    ``meant`` is a name that it may mean, empty where none is like it.
    """

    key: str
    glob: str
    meant: str = ""

    @property
    def is_rule(self) -> bool:
        """True for a rule on columns or rows, without which more is stored than was meant."""
        return self.key in ("columns", "rows")

    def __str__(self) -> str:
        """Return a clause such as ``rows: shopdb.order matches nothing``."""
        return f"{self.key}: {self.glob} matches nothing" + (f"; did you mean {self.meant}?" if self.meant else "")


Names = Mapping[TableId, Collection[str] | None]
"""The names of all columns that tables have had, by table in the lake.

None stands for a table of which nothing else is known.
"""


def unmatched(settings: Subscription, tables: Names, described: Collection[TableId]) -> tuple[Unmatched, ...]:
    """Return the globs that match nothing; none before any table is known.

    ``tables`` are those of the lake, ``described`` the source tables that messages or statements name, decoded or not. Without
    these their settings are left out.
    """
    if not (tables or described):
        return ()
    routes = settings.routes
    found = [
        Unmatched("columns", glob, _nearest(glob, _columns(tables)))
        for glob in settings.columns
        if not any(matches_column(glob, one, names, routes) for table, names in tables.items() for one in _named(table))
    ]
    found += [
        Unmatched("types", name, _nearest(name, _columns(tables)))
        for name in settings.types
        if not any(_names_column(settings, name, table, names) for table, names in tables.items())
    ]
    for key, globs in _of_the_lake(settings):
        found += [
            Unmatched(key, glob, _nearest(glob, _tables(tables)))
            for glob in globs
            if not any(routes.means(one, glob) for table in tables for one in _named(table))
        ]
    for key, globs in _of_the_source(settings) if described else ():
        found += [
            Unmatched(key, glob, _nearest(glob, _tables(described)))
            for glob in globs
            if not any(table.matches(glob) for table in described)
        ]
    return tuple(one for one in found if one.glob != _EVERY)


def _named(table: TableId) -> tuple[TableId, ...]:
    """Return a table, and the one that it helps to alter, whose rules it has."""
    helped = helped_table(table)
    return (table,) if helped is None else (table, helped)


def _names_column(settings: Subscription, name: str, table: TableId, names: Collection[str] | None) -> bool:
    of_table, _, column = name.rpartition(".")
    return settings.routes.means(table, of_table) and (names is None or column in names)


def _of_the_lake(settings: Subscription) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the settings with globs of tables as the lake has them."""
    for key in ("rows", "history", "deletes", "schema_changes", "layout", "type_mapping", "flatten"):
        yield key, getattr(settings, key)
    yield "sql.tables", settings.sql.tables
    yield "verify.tables", settings.verify.tables
    yield "verify.without_sums", settings.verify.without_sums
    yield "bootstrap.tables", () if settings.bootstrap is None else settings.bootstrap.tables


def _of_the_source(settings: Subscription) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the settings with globs of tables as the source names them."""
    yield "tables.include", settings.tables.include
    yield "tables.exclude", settings.tables.exclude
    yield "rename", settings.rename
    for name, globs in settings.merge.items():
        yield f"merge.{name}", globs


def _tables(tables: Iterable[TableId]) -> Iterator[str]:
    for table in tables:
        yield str(table)
        yield f"{str(table).rpartition('.')[0]}.*"
        yield f"*.{table.table}"


def _columns(tables: Names) -> Iterator[str]:
    for table, names in tables.items():
        for name in names or ():
            column = f"`{name}`" if "." in name else name
            yield from (f"{one}.{column}" for one in (str(table), f"{str(table).rpartition('.')[0]}.*"))
            yield f"*.{column}"


def _nearest(glob: str, names: Iterable[str]) -> str:
    """Return the name that is most like a glob, whatever the case; empty where none is like it."""
    known = {name.lower(): name for name in names if _EVERY in glob or _EVERY not in name}
    found = get_close_matches(glob.lower(), known, n=1, cutoff=0.7)
    return known[found[0]] if found else ""
