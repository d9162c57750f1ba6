"""Routes as they are written, and their mistakes: renames of tables, and shards that become one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from dts_assets.model.routes import STAR, Merge, Rename, Routes, table_of
from dts_assets.model.tables import TableId
from dts_assets.settings.values import VALUE, Glob, glob_of, mistake

_CHARACTERS = frozenset("*?[")
_OTHERS = frozenset("?[")
_PLAIN = 'write database and table with a dot between them, "shop.orders" (with a schema: "db.schema.table")'


def _plain_name(text: object) -> str:
    """Return the name of one lake table.

    Raises:
        mistake: the text names no table, or several.
    """
    if isinstance(text, str) and not _CHARACTERS & set(text):
        return glob_of(text)
    raise mistake("the key is not the name of one table", _PLAIN)


def _tables_with_stars(text: object) -> str:
    """Return the name of a table, or a glob in which stars are the only signs.

    Raises:
        mistake: the text is neither.
    """
    if isinstance(text, str) and text != STAR and not _OTHERS & set(text) and "**" not in text:
        return glob_of(text)
    raise mistake(f"{VALUE} is no name that can be renamed", 'write "shopdb.orders", or with stars "shopdb.*"')


def _shard_glob(text: object) -> str:
    """Return a glob of shards.

    Raises:
        mistake: the text names no tables, or all.
    """
    if text == STAR:
        raise mistake(f"{VALUE} would make one table of all", 'name the shards: "shop_*.orders_*"')
    return glob_of(text)


RenameTexts = dict[
    Annotated[str, BeforeValidator(_tables_with_stars), WithJsonSchema({"type": "string"})],
    Annotated[
        str, BeforeValidator(_tables_with_stars), WithJsonSchema({"type": "string", "examples": ["sales.orders"]})
    ],
]
"""Names of lake tables by source tables: ``{"shopdb.orders": "sales.orders", "shopdb.*": "sales.*"}``."""

MergeTexts = dict[
    Annotated[str, BeforeValidator(_plain_name), WithJsonSchema({"type": "string"})],
    Annotated[
        tuple[Annotated[Glob, BeforeValidator(_shard_glob)], ...],
        Field(min_length=1),
    ],
]
"""Globs of shards by the lake table that they become: ``{"shop.orders": ["shop_*.orders_*"]}``."""


@lru_cache(maxsize=256)
def _routes(
    renames: tuple[tuple[str, str], ...],
    merges: tuple[tuple[str, tuple[str, ...]], ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> Routes:
    return Routes(
        tuple(Rename(source, name) for source, name in renames),
        tuple(Merge(table_of(name), globs) for name, globs in merges),
        include,
        exclude,
    )


def routes_of(
    renames: Mapping[str, str],
    merges: Mapping[str, tuple[str, ...]],
    include: tuple[str, ...] = (STAR,),
    exclude: tuple[str, ...] = (),
) -> Routes:
    """Return the routes in words of the model; ``include`` and ``exclude`` are the globs of decoded tables."""
    return _routes(tuple(renames.items()), tuple(merges.items()), include, exclude)


def checked_renames(renames: dict[str, str]) -> dict[str, str]:
    """Return renames as they are.

    Raises:
        mistake: two source tables would have one name, or a name would mean two tables.
    """
    names = Counter(renames.values())
    for source, name in renames.items():
        if source.count(STAR) != name.count(STAR):
            raise mistake(
                "the name has not as many stars as its tables",
                "write as many: each star stands for what it matches; several tables become one by merge",
                at=(source,),
            )
        if names[name] > 1:
            raise mistake(
                f"several tables would be called {name}", "give each its own name, or use merge", at=(source,)
            )
        if name != source and name in renames:
            raise mistake(
                f"{name} would mean two tables, since that table is renamed, too", "choose another name", at=(source,)
            )
    return renames


def checked_merges(merges: dict[str, tuple[str, ...]], renames: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return merges as they are.

    Raises:
        mistake: globs of a table differ in their parts, or a rename concerns a merged table or a shard.
    """
    for name, globs in merges.items():
        if len({glob.count(".") for glob in globs}) > 1:
            raise mistake("its globs have not equally many parts", "write all with or all without a schema", at=(name,))
        merge = Merge(table_of(name), globs)
        for source, renamed in renames.items():
            if renamed == name:
                raise mistake(f"{source} is renamed to the same name", f"add {source} to its globs instead", at=(name,))
            if STAR not in source and merge.takes(table_of(source)):
                raise mistake(
                    f"{source} is one of its shards and is renamed, too", "take it out of rename, or out of the globs",
                    at=(name,),
                )  # fmt: skip
    return merges


def check_routes(
    routes: Routes, exact: Iterable[TableId], named: Mapping[str, Iterable[str]], statements: Iterable[str]
) -> None:
    """Refuse routes that other settings contradict.

    ``exact`` are the tables that ``include`` names without a glob, ``named`` the globs of tables by setting, ``statements`` those
    of the layer ``sql``.

    Raises:
        mistake: two tables would be one without a merge, or a setting means some shards of a merged table.
    """
    _check_exact(routes, exact)
    statements = tuple(statements)
    for key, globs in {**named, "sql": statements}.items():
        _check_globs(routes, key, globs)
    for merge in routes.merges:
        if any(routes.means(merge.into, glob) for glob in statements):
            raise mistake(
                f"statements of the merged table {merge.into} cannot be written out",
                "name other tables below sql.tables",
                at=("sql", "tables"),
            )


def _check_exact(routes: Routes, exact: Iterable[TableId]) -> None:
    seen: dict[TableId, TableId] = {}
    for source in exact:
        table = routes.lake_table(source)
        other = seen.setdefault(table, source)
        both_shards = routes.takes_shard(table, source) and routes.takes_shard(table, other)
        if other != source and not both_shards:
            raise mistake(
                f"{other} and {source} would both be the table {table}",
                "rename one of them, or use merge",
                at=("tables",),
            )


def _check_globs(routes: Routes, key: str, globs: Iterable[str]) -> None:
    for glob in globs:
        for merge in routes.merges:
            if routes.means(merge.into, glob) or not any(may_share(glob, one) for one in merge.globs):
                continue
            raise mistake(
                f"{glob} means some shards of the merged table {merge.into}",
                f'one setting is for all shards: write "{merge.into}", or a glob that names all of them',
                at=(key,),
            )


def may_share(one: str, other: str) -> bool:
    """Return whether two globs may name one table; a set of characters counts as any character."""
    if STAR in (one, other):
        return True
    first, second = one.split("."), other.split(".")
    return len(first) == len(second) and all(
        _may_share(_signs(part), _signs(its)) for part, its in zip(first, second, strict=True)
    )


@lru_cache(maxsize=65536)
def _may_share(one: str, other: str) -> bool:
    """Return whether two patterns match one text: star for any text, question mark for any character."""
    reached = [[False] * (len(other) + 1) for _ in range(len(one) + 1)]
    reached[0][0] = True
    for here in range(len(one) + 1):
        for there in range(len(other) + 1):
            if not reached[here][there]:
                continue
            mine, its = one[here : here + 1], other[there : there + 1]
            if mine == STAR:
                reached[here + 1][there] = True
            if its == STAR:
                reached[here][there + 1] = True
            if mine and its and (mine == its or {mine, its} & {"?", STAR}):
                reached[here + (mine != STAR)][there + (its != STAR)] = True
    return reached[-1][-1]


def _signs(part: str) -> str:
    """Return a part of a glob in which each set of characters is a question mark."""
    found, rest = "", part
    while rest:
        end = rest.find("]", 2) if rest.startswith("[") else -1
        found, rest = (found + "?", rest[end + 1 :]) if end > 0 else (found + rest[0], rest[1:])
    return found
