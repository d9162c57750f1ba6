"""A story of tables for a task, and a model of them that knows no format.

Each action becomes the events of a binlog on one side, and changes the rows of the model on the other. The model is the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from dts_emulator.conformance.expected import ExpectedChange, ExpectedColumn, ExpectedTable, TextRow
from dts_emulator.conformance.texts import text_of_value
from dts_emulator.source.events import (
    ABSENT,
    Absent,
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Image,
    Kind,
    RowChange,
    Rows,
    SourceColumn,
    SourceEvent,
    SourceTable,
    Transaction,
    Value,
)
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.row_image import kind_of
from dts_emulator.source.source_schema import CatalogColumn, codec_of

START = 1_767_571_200
"""Stories begin on 2026-01-05 at 00:00 UTC, in seconds since the epoch."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENT_BYTES = 100

Cell = int | float | str | bytes | Absent | None
Row = Mapping[str, Cell]
"""A row by column; text is str, bytes are bytes, and an instant is its clock in UTC."""

Named = tuple[str, str]
"""A database and a table."""

Made = Callable[[Coordinates], SourceEvent]
"""An event but for its place."""


def column(name: str, source_type: str, *, charset: str = "utf8mb4", key: bool = False) -> SourceColumn:
    """Return a column of a MySQL type: ``bigint(20) unsigned``; ``json`` is a MySQL server's own."""
    is_json = source_type == "json"
    catalog = CatalogColumn(name, "longtext" if is_json else source_type, charset, key, is_json)
    kind = kind_of(catalog)
    has_text = kind in (Kind.TEXT, Kind.JSON)
    return SourceColumn(name, kind, catalog.column_type, charset if has_text else None, catalog.is_unsigned, key)


def key(name: str = "id", source_type: str = "int(11)", *, charset: str = "utf8mb4") -> SourceColumn:
    """Return a column of the primary key."""
    return column(name, source_type, charset=charset, key=True)


def each(numbers: Iterable[int], made: Callable[[int], Row]) -> list[Row]:
    """Return a row for each number."""
    return [made(number) for number in numbers]


@dataclass
class Story:
    """The actions so far: transactions for a task, and tables with the rows that they leave.

    ``pause`` is the time in seconds between two transactions.
    """

    transactions: list[Transaction] = field(default_factory=list)
    now: int = START
    pause: int = 20
    marks: dict[str, int] = field(default_factory=dict)
    """The number of transactions that were there when something happened, by a name for it."""
    _tables: dict[tuple[str, str], _Held] = field(default_factory=dict)
    _open: list[Made] | None = None
    _server: int = 1
    _file: str = "mysql-bin.000004"
    _position: int = 4
    _sequence: int = 0

    def table(self, name: str, *columns: SourceColumn, database: str = "d") -> Named:
        """Return a table that has been there before the story begins, and is empty."""
        self._tables[database, name] = _Held(columns)
        return database, name

    def insert(self, table: Named, *rows: Row) -> None:
        """Insert rows, all in one event. Columns that are left out are NULL."""
        held = self._tables[table]
        whole = [{one.name: row.get(one.name) for one in held.columns} for row in rows]
        held.rows += whole
        self._say(table, [(None, row) for row in whole])

    def update(self, table: Named, found: Row, changed: Row, *, minimal: bool = False) -> None:
        """Update the rows that have some values. With ``minimal`` images have the key and the changed columns alone."""
        self.update_each(table, [(found, changed)], minimal=minimal)

    def update_each(self, table: Named, changes: Sequence[tuple[Row, Row]], *, minimal: bool = False) -> None:
        """Update several rows in one event, one after the other."""
        held, told = self._tables[table], []
        for found, changed in changes:
            for place, old in enumerate(held.rows):
                if _is(old, found):
                    new = held.rows[place] = {**old, **changed}
                    told.append(held.minimal(old, new) if minimal else (old, new))
        self._say(table, told)

    def update_that_is_lost(self, table: Named, found: Row, changed: Row) -> None:
        """Update with minimal images where the message does not tell the row then: no consumer can apply it."""
        held = self._tables[table]
        rows, changes = list(held.rows), list(held.changes)
        self.update(table, found, changed, minimal=True)
        held.rows, held.changes = rows, changes

    def delete(self, table: Named, found: Row, *, minimal: bool = False, most: int | None = None) -> None:
        """Delete the rows that have some values, ``most`` of them at most."""
        held = self._tables[table]
        gone = [place for place, row in enumerate(held.rows) if _is(row, found)][:most]
        told = [held.rows[place] for place in gone]
        held.rows = [row for place, row in enumerate(held.rows) if place not in gone]
        self._say(table, [(held.key_of(row) if minimal else row, None) for row in told])

    def statement(self, sql: str, then: Callable[[Story], None] | None = None, *, database: str = "d") -> None:
        """Run a statement, and do to the model as the server does."""
        self._event(lambda at: Ddl(at, database, sql, 0), alone=True)
        if then is not None:
            then(self)

    def create(self, name: str, declared: str, *columns: SourceColumn, database: str = "d") -> Named:
        """Create a table by a statement, of which ``declared`` is the part in parentheses."""
        self.statement(f"CREATE TABLE `{name}` ({declared})", database=database)
        return self.table(name, *columns, database=database)

    def truncate(self, table: Named) -> None:
        """Empty a table by a statement."""
        self.statement(
            f"TRUNCATE TABLE `{table[1]}`", lambda story: story._tables[table].rows.clear(), database=table[0]
        )

    def alter(self, table: Named, action: str, columns: Sequence[SourceColumn], *, filled: Row | None = None) -> None:
        """Change the columns of a table. ``filled`` are the values that rows which stand have in new columns."""
        self.statement(f"ALTER TABLE `{table[1]}` {action}", database=table[0])
        held = self._tables[table]
        names = [one.name for one in columns]
        held.columns = tuple(columns)
        held.rows = [{name: (dict(filled or {}) | dict(row)).get(name) for name in names} for row in held.rows]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Put the actions of the block into one transaction."""
        pending = self._open = []
        yield
        self._open = None
        self._tell(pending)

    def mark(self, name: str) -> None:
        """Keep the number of transactions so far under a name."""
        self.marks[name] = len(self.transactions)

    def switch_server(self, *, retold: int = 0) -> None:
        """Go on with another server, which has a binlog of its own, lower positions and own GTIDs.

        It is read from ``retold`` transactions back: the log of a replica has them with the GTIDs that they had.
        """
        self._server, self._file, self._position = self._server + 1, "mysql-bin.000002", 4
        for one in self.transactions[len(self.transactions) - retold :]:
            self.transactions.append(Transaction(tuple(self._replicated(event) for event in one.events)))
        self._sequence = 0

    def _replicated(self, event: SourceEvent) -> SourceEvent:
        here = self._next()
        return replace(event, at=replace(event.at, file_name=here.file_name, start=here.start, end=here.end))

    def tables(self, *, with_changes: bool) -> tuple[ExpectedTable, ...]:
        """Return the tables as they are now, and all changes of each on request."""
        return tuple(held.expected(*name, with_changes=with_changes) for name, held in self._tables.items())

    def _say(self, table: Named, changes: Sequence[tuple[Row | None, Row | None]]) -> None:
        if not changes:
            raise ValueError(f"no row of {table[1]} is as the story says")
        held = self._tables[table]
        described = SourceTable(*table, held.columns)
        rows = tuple(RowChange(held.image(before), held.image(after)) for before, after in changes)
        held.changes += [held.change(before, after) for before, after in changes]
        self._event(lambda at: Rows(at, described, rows))

    def _event(self, made: Made, *, alone: bool = False) -> None:
        if self._open is not None:
            self._open.append(made)
        else:
            self._tell([made], alone=alone)

    def _tell(self, made: Sequence[Made], *, alone: bool = False) -> None:
        """Put events at the next places: a statement ``alone``, others between BEGIN and COMMIT."""
        self.now += self.pause
        self._sequence += 1
        number = str(self._server * 1000 + self._sequence)
        whole: Sequence[Made] = made if alone else [Begin, *made, lambda at: Commit(at, number)]
        self.transactions.append(Transaction(tuple(one(self._next()) for one in whole)))

    def _next(self) -> Coordinates:
        start, self._position = self._position, self._position + _EVENT_BYTES
        gtid = Gtid(0, self._server, self._sequence)
        return Coordinates(self._file, start, self._position, self.now, self._server, gtid)


@dataclass
class _Held:
    """The columns of a table now, its rows, and the changes that were told of it."""

    columns: tuple[SourceColumn, ...]
    rows: list[Row] = field(default_factory=list)
    changes: list[ExpectedChange] = field(default_factory=list)

    def key_of(self, row: Row) -> Row:
        """Return the minimal image of an old row: its key, or the whole row without one."""
        keys = [one.name for one in self.columns if one.is_key]
        return {one.name: row[one.name] if one.name in keys or not keys else ABSENT for one in self.columns}

    def minimal(self, old: Row, new: Row) -> tuple[Row, Row]:
        """Return the images that a server with ``binlog_row_image=MINIMAL`` writes for an UPDATE."""
        return self.key_of(old), {name: value if old[name] != value else ABSENT for name, value in new.items()}

    def image(self, row: Row | None) -> Image | None:
        """Return an image as the binlog has it."""
        return None if row is None else tuple(_value(one, row[one.name]) for one in self.columns)

    def change(self, before: Row | None, after: Row | None) -> ExpectedChange:
        """Return a change as the suite writes it."""
        op = "insert" if before is None else "delete" if after is None else "update"
        absent = [
            f"{side}.{name}"
            for side, image in (("before", before), ("after", after))
            for name, value in (image or {}).items()
            if value is ABSENT
        ]
        return ExpectedChange(op, _texts(before), _texts(after), tuple(sorted(absent)))

    def expected(self, database: str, name: str, *, with_changes: bool) -> ExpectedTable:
        """Return the table as the suite writes it."""
        columns = tuple(
            ExpectedColumn(one.name, "json" if one.kind is Kind.JSON else one.column_type) for one in self.columns
        )
        keys = tuple(one.name for one in self.columns if one.is_key)
        rows = tuple(texts for row in self.rows if (texts := _texts(row)) is not None)
        return ExpectedTable(database, "", name, columns, keys, rows, tuple(self.changes) if with_changes else None)


def _is(row: Row, found: Row) -> bool:
    return all(row[name] == value for name, value in found.items())


def _texts(row: Row | None) -> TextRow | None:
    if row is None:
        return None
    return {
        name: None if value is None else text_of_value(value)
        for name, value in row.items()
        if not isinstance(value, Absent)
    }


def _value(described: SourceColumn, cell: Cell) -> Value:
    """Return a cell as the binlog has it: text in its character set, an instant as seconds."""
    if not isinstance(cell, str):
        return cell
    if described.kind in (Kind.TEXT, Kind.JSON):
        return cell.encode(codec_of(described.charset))
    return _seconds(cell) if described.kind is Kind.INSTANT else cell


def _seconds(clock: str) -> str:
    whole, dot, fraction = clock.partition(".")
    if whole.startswith("0000"):
        return f"0{dot}{fraction}"
    return f"{(datetime.fromisoformat(whole).replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)}{dot}{fraction}"
