"""What a server was told and had behind each statement, and a history held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from dts_assets.model.columns import ColumnShape
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement, state_at
from dts_assets.wire.ddl.table_schemas import Catalog
from dts_assets.wire.ddl.told_schemas import ToldColumn, ToldShapes
from tests.wire.random_statements import RandomStatements
from tests.wire.schema_oracle import NOT_FOLLOWED, Beside
from tests.wire.server_catalog import Compared, of_model


def at(position: int) -> SourcePosition:
    return SourcePosition(0, 1, position)


def said(position: int, sql: str, database: str = "shop") -> SourceStatement:
    return SourceStatement(at(position), database, sql)


@dataclass
class Recorded:
    """Statements that a server carried out, and its catalog behind each of them."""

    statements: list[SourceStatement] = field(default_factory=list)
    catalogs: list[tuple[int, Compared]] = field(default_factory=list)

    def shapes(self, random: Random, share: float, *, whole: bool = True) -> Iterator[ToldShapes]:
        """Events of some tables behind some statements; not ``whole`` ones leave out generated columns now and then."""
        for position, catalog in self.catalogs:
            for table, (columns, key, _) in catalog.items():
                if random.random() < share:
                    in_key = frozenset(key)  # type: ignore[call-overload]
                    listed = tuple(
                        ColumnShape(str(one[0]), str(one[1]), one[0] in in_key)
                        for one in columns  # type: ignore[attr-defined]
                        if whole or not (one[4] and random.random() < 0.5)
                    )
                    yield ToldShapes(table, at(position + 5), at(position + 5), (listed,))


def recorded(beside: Beside, seed: int, count: int) -> Recorded:
    """A recording of about so many statements; one that ended early gives way to that of another seed."""
    while len((found := recording(beside, seed, count)).catalogs) < count // 2:
        seed += 1000
    return found


def recording(beside: Beside, seed: int, count: int) -> Recorded:
    beside.begin(strict=seed % 2 == 0)
    found, position = Recorded(), 0
    for database in beside.databases:
        position += 10
        found.statements.append(said(position, f"CREATE DATABASE `{database}` CHARSET utf8mb4", database))
    writer = RandomStatements(Random(seed))
    while len(found.catalogs) < count:
        database, sql = writer.statement(beside.catalog)
        refused = beside.refused(database, sql)
        written = beside.written(database)
        if refused:
            if written or beside.by_model() != beside.on_server():
                beside.begin(strict=seed % 2 == 0)  # half carried out: MariaDB writes what no text tells
                return found
            continue
        for name, text in written:
            position += 10
            found.statements.append(said(position, text, name))
        problems = {one.problem for one in beside.follow(written)} - {None}
        if problems & set(NOT_FOLLOWED):
            return found
        found.catalogs.append((position, beside.on_server()))
    return found


def wrong(
    states: Mapping[TableId, tuple[SchemaState, ...]], position: SourcePosition, catalog: Compared
) -> list[object]:
    """The tables whose columns are said to be known at a position, and are not those of the server."""
    found: list[object] = []
    for table, mine in states.items():
        state = state_at(mine, position)
        if state is None or state.doubt is not None:
            continue
        if state.schema is None or table not in catalog:
            if (state.schema is None) != (table not in catalog):
                found.append((table, state))
            continue
        columns, key, _ = catalog[table]
        ((shown_columns, shown_key, _),) = of_model(Catalog(tables={table: state.schema})).values()
        pairs = list(zip(state.schema.columns, shown_columns, columns, strict=False))  # type: ignore[call-overload]
        if len(shown_columns) != len(columns) or set(shown_key) != set(key):  # type: ignore[arg-type,call-overload]
            found.append((table, state, columns))
        for column, mine_shown, server in pairs:
            known = slice(0, 2) if isinstance(column, ToldColumn) else slice(0, None)
            one, other = list(mine_shown), list(server)
            if (
                one[1] == "json" and other[1] == "longtext"
            ):  # MariaDB's JSON; nothing tells a lake of which family its source is
                other[1:3] = one[1:3]
            if column.charset is None:  # of a database whose character set nothing told: it may even be binary
                one[2] = other[2] = None
                one[1], other[1] = (re.sub(r" +'", "'", str(kind)) for kind in (one[1], other[1]))
                other[1] = _TWINS.get(str(one[1]).partition("(")[0], _NO_TWIN).sub(str(one[1]), str(other[1]))
            if one[known] != other[known]:
                found.append((table, one, other))
    return found


_NO_TWIN = re.compile(r"(?!)")
_TWINS = {
    text: re.compile(rf"{binary}.*")
    for text, binary in {
        "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob", "mediumtext": "mediumblob",
        "longtext": "longblob",
    }.items()
}  # fmt: skip
"""Types that a text column has where the character set is binary."""
