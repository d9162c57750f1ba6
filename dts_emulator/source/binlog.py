"""The row binlog of a running server as transactions, oldest first.

They are read up to where the binlog ends now, or without end. The protocol and the framing of events are the work of
``mysql-replication``; row images are read by :mod:`dts_emulator.source.row_image` from the event's bytes. MariaDB opens a
transaction with its GTID event and has no BEGIN query; that event is BEGIN here. A GTID marked standalone belongs to one DDL
statement. MySQL has the query; a statement in no transaction is one by itself. Its GTIDs are left aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import randrange
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import MariadbGtidEvent, QueryEvent, RotateEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from dts_emulator.errors import ServerUnavailable, UnsupportedSource
from dts_emulator.source.events import (
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Image,
    Rollback,
    RowChange,
    Rows,
    SourceColumn,
    SourceEvent,
    SourceTable,
    Transaction,
)
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.row_image import ImageReader, kind_of, reader_of
from dts_emulator.source.server import Server
from dts_emulator.source.source_schema import Catalog, CatalogColumn

_EVENTS = (
    MariadbGtidEvent, QueryEvent, XidEvent, RotateEvent, TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent,
)  # fmt: skip

_SETTINGS = ["ROW", "FULL", "FULL"]
"""binlog_format, binlog_row_image, binlog_row_metadata."""

_STANDALONE = 1
"""The bit of a GTID event's flags that says that no COMMIT will follow."""

_REPLICA_ID = 4_000_000_001
"""The number under which the reader registers; it only has to differ from the server's own.

The server ends an older reader of that number, so each reader that follows has a number of its own, from those above.
"""

_SAVEPOINT_WORDS = ("SAVEPOINT", "ROLLBACK TO")


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a binlog at which no transaction is open."""

    file_name: str
    position: int


_BEGINNING = 4
"""The position of a binlog file's first event."""


def read_transactions(
    server: Server, catalog: Catalog, *, start: Place | None = None, follow: bool = False
) -> Iterator[Transaction]:
    """Yield the transactions in the server's binlogs, with ``catalog`` replaying their DDL on the way.

    They begin at ``start``, which ``catalog`` must stand at, or with the oldest. ``follow`` waits for more, without end.

    Raises:
        UnsupportedSource: An event cannot be read without loss.
        ServerUnavailable: The server does not answer, or not any more, or does not write the needed details.
    """
    place = start or first_place(server)
    stream = BinLogStreamReader(
        connection_settings=server.address,
        server_id=_REPLICA_ID + (randrange(1_000, 1_000_000) if follow else 0), blocking=follow,
        resume_stream=True, log_file=place.file_name, log_pos=place.position,
        only_events=_EVENTS, enable_logging=False, pymysql_wrapper=_Connector(),
        # An event that describes a table is read once for each of the server's numbers of tables, which it gives anew with each
        # change of a table: to read every one took half of the time. See _Assembler.transactions.
        freeze_schema=True,
    )  # fmt: skip
    try:
        yield from _Assembler(catalog, place.file_name).transactions(stream)
    except pymysql.err.OperationalError as error:
        raise ServerUnavailable(f"the connection to MariaDB was lost: {error.args[-1]}") from error
    finally:
        stream.close()


def first_place(server: Server) -> Place:
    """Return the beginning of the oldest binlog.

    Raises:
        ServerUnavailable: The server writes no binlog that can be read.
    """
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata")
        (log_bin, *settings) = cursor.fetchone() or (0,)
        if not log_bin or settings != _SETTINGS:
            raise ServerUnavailable(
                "the server does not write what the emulator reads: start it with --log-bin --binlog-format=ROW "
                "--binlog-row-image=FULL --binlog-row-metadata=FULL, before the first table is created"
            )
        cursor.execute("SHOW BINARY LOGS")
        return Place(str(cursor.fetchall()[0][0]), _BEGINNING)


@dataclass(slots=True)
class _Connector:
    """Makes the library's two connections. It would connect again by itself, but in the middle of a transaction."""

    made: int = 0

    def __call__(self, *, db: str | None = None, **settings: Any) -> Connection:
        self.made += 1
        if self.made > _CONNECTIONS:
            raise ServerUnavailable("the connection to MariaDB was lost")
        # The library still passes a name that its driver has deprecated.
        return pymysql.connect(database=db, **settings)


_CONNECTIONS = 2
"""One for the binlog, one for questions."""


_Known = tuple[SourceTable, ImageReader]


@dataclass(slots=True)
class _Assembler:
    """Turns the stream's events into transactions. Its state is kept from one event to the next."""

    catalog: Catalog
    file_name: str
    gtid: Gtid | None = None
    standalone: bool = False
    pending: list[SourceEvent] = field(default_factory=list)
    tables: dict[int, _Known] = field(default_factory=dict)
    described: dict[tuple[str, str], tuple[Mapping[str, CatalogColumn], _Known]] = field(default_factory=dict)

    def transactions(self, stream: BinLogStreamReader) -> Iterator[Transaction]:
        for event in stream:
            if isinstance(event, RotateEvent):
                # Table ids start again with a new file, if the server was started again.
                self.file_name, self.tables = event.next_binlog, {}
                stream.table_map.clear()
                continue
            self._take(event)
            if isinstance(event, QueryEvent) and self.pending and isinstance(self.pending[-1], Ddl):
                stream.table_map.clear()  # not behind a TABLE_MAP: CREATE TABLE ... SELECT has rows in its own transaction
            if (self.pending and isinstance(self.pending[-1], Commit | Rollback)) or (self.standalone and self.pending):
                yield self._whole()

    def _whole(self) -> Transaction:
        transaction = Transaction(tuple(self.pending))
        self.pending, self.gtid, self.standalone = [], None, False
        return transaction

    def _take(self, event: Any) -> None:
        at = self._coordinates(event)
        if isinstance(event, MariadbGtidEvent):
            self.gtid = Gtid(event.domain_id, event.server_id, event.gtid_seq_no)
            self.standalone = bool(event.flags & _STANDALONE)
            if not self.standalone:
                self.pending.append(Begin(self._coordinates(event)))
        elif isinstance(event, XidEvent):
            self.pending.append(Commit(at, str(event.xid)))
        elif isinstance(event, QueryEvent):
            self._take_query(event, at)
        elif isinstance(event, TableMapEvent):
            self.tables[event.table_id] = self._table(event, at)
        elif isinstance(event, WriteRowsEvent | UpdateRowsEvent | DeleteRowsEvent):
            self.pending.append(self._rows(event, at))

    def _coordinates(self, event: Any) -> Coordinates:
        packet = event.packet
        end, size = int(packet.log_pos), int(packet.event_size)
        return Coordinates(self.file_name, end - size, end, int(event.timestamp), int(packet.server_id), self.gtid)

    def _take_query(self, event: Any, at: Coordinates) -> None:
        sql = str(event.query)
        word = sql.strip().upper()
        if word == "COMMIT":
            self.pending.append(Commit(at, ""))
        elif word == "ROLLBACK":
            self.pending.append(Rollback(at))
        elif word == "BEGIN":
            if not self.pending:
                self.pending.append(Begin(at))
        elif not word.startswith(_SAVEPOINT_WORDS):
            self.standalone = self.standalone or not self.pending
            database = event.schema.decode()
            self.catalog.apply(database, sql)
            self.pending.append(Ddl(at, database, sql, int(event.execution_time)))

    def _table(self, event: Any, at: Coordinates) -> _Known:
        """Return the table of a TABLE_MAP event, which stands before every statement but changes with DDL only.

        Raises:
            UnsupportedSource: A column cannot be read without loss.
        """
        name = f"{event.schema}.{event.table}"
        try:
            catalog = self.catalog.columns(event.schema, event.table)
        except KeyError:
            raise UnsupportedSource(f"no CREATE TABLE of {name} is in the binlog", at.file_name, at.start) from None
        found = self.described.get((event.schema, event.table))
        if found is None or found[0] is not catalog:
            found = self.described[event.schema, event.table] = (catalog, self._describe(event, name, catalog, at))
        return found[1]

    def _describe(self, event: Any, name: str, catalog: Mapping[str, CatalogColumn], at: Coordinates) -> _Known:
        columns: list[SourceColumn] = []
        readers = []
        for column in event.columns:
            known = catalog.get(column.name)
            if known is None:
                raise UnsupportedSource(
                    f"{name} has a column {column.name} that its DDL in the binlog does not", at.file_name, at.start
                )
            try:
                kind = kind_of(known)
                readers.append(reader_of(column, known))
            except ValueError as error:
                raise UnsupportedSource(f"{name}: {error}", at.file_name, at.start) from error
            columns.append(
                SourceColumn(known.name, kind, known.column_type, known.charset, known.is_unsigned, known.is_key)
            )
        return SourceTable(event.schema, event.table, tuple(columns)), ImageReader(tuple(readers))

    def _rows(self, event: Any, at: Coordinates) -> Rows:
        table, reader = self.tables[event.table_id]
        data = bytes(event.packet.read(event.event_size - event.packet.read_bytes))
        before = None if isinstance(event, WriteRowsEvent) else event.columns_present_bitmap
        after = None
        if isinstance(event, WriteRowsEvent):
            after = event.columns_present_bitmap
        elif isinstance(event, UpdateRowsEvent):
            after = event.columns_present_bitmap2
        rows, offset = [], 0
        while offset < len(data):
            old: Image | None = None
            new: Image | None = None
            if before is not None:
                old, offset = reader.read(data, offset, present=before)
            if after is not None:
                new, offset = reader.read(data, offset, present=after)
            rows.append(RowChange(old, new))
        return Rows(at, table, tuple(rows))
