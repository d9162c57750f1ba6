"""The source database itself, read at one moment whose binlog position is known.

A moment is a transaction with a consistent snapshot, in which nothing is written or locked. Between two questions it gives its
locks on definitions back, where the account may, so that ALTER TABLE at the source does not wait for its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dts_assets.errors.machine import MissingExtraError
from dts_assets.errors.sources import DatabaseError, UnreachableDatabaseError
from dts_assets.model.columns import quoted
from dts_assets.model.database_places import SESSION, DatabasePlace
from dts_assets.model.positions import file_number
from dts_assets.model.server_tables import ServerTable
from dts_assets.model.tables import TableId
from dts_assets.sources.database_lines import (
    AUTHORITY_WORDS,
    CERTIFICATE_WORDS,
    NO_TLS,
    NO_TLS_WORDS,
    AuthorityError,
    is_untrusted,
    open_line,
)
from dts_assets.sources.described_tables import TABLES, columns_statement, described_tables

if TYPE_CHECKING:
    from pymysql.connections import Connection

_CONNECT_SECONDS = 20
_QUIET_SECONDS = 0.2
"""The time for which the binlog has to stand still to have the position of a snapshot.

A commit that is under way ends meanwhile.
"""

_TRIES = 50
_LOCK_SECONDS, _LOCK_TIMEOUT = 30, 1205
DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
"""The errors of a server that refuses an account, or a question to it."""

_GONE = frozenset({0, 1049, 2002, 2003, 2005, 2006, 2013, 1040, 1129, 1130, 1205, 3024, 1969})
_NO_FUNCTION = frozenset({1046, 1305})
"""The errors of a server that lacks a function; without a chosen database it misses that first. Statements name theirs."""

ALTERED = frozenset({1412, 1146, 1054, 1051})
"""The errors of a server whose table was altered, dropped or renamed since the moment."""


class TableAlteredError(Exception):
    """A table that was altered since the moment, so that the server shows it no more."""


@dataclass(frozen=True, slots=True)
class SourceMoment:
    """A moment of the source, told by a position of its binlog.

    Everything before byte ``position`` of the file is in it, and nothing behind. ``surely`` is False where a commit
    that was under way could have been taken for one that had not begun.
    """

    connection: Connection
    place: DatabasePlace
    file_name: str
    position: int
    surely: bool

    @property
    def file(self) -> int:
        """The number of the binlog file."""
        return file_number(self.file_name)

    def __str__(self) -> str:
        return f"{self.file_name}:{self.position}"

    def tables(self) -> Mapping[TableId, ServerTable]:
        """Return the tables of the server that the account may see, as they are now."""
        return described_tables(self.rows(columns_statement(TABLES)))

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a SELECT at the moment.

        Raises:
            DatabaseError: The server refuses the statement, or does not answer.
            TableAlteredError: A table was altered since.
        """
        with explained(self.place), self.connection.cursor() as cursor:
            cursor.execute("SAVEPOINT dts_assets")
            try:
                cursor.execute(statement)
                return cast(Sequence[tuple[Any, ...]], cursor.fetchall())
            finally:
                if self.connection.open:
                    cursor.execute("ROLLBACK TO SAVEPOINT dts_assets")

    def check_sums(self) -> None:
        """Look whether the server has the function that rows are summed with.

        MySQL has MD5 in a component since 9.6, which a new server lacks (its release notes).

        Raises:
            DatabaseError: It has no such function.
        """
        self.rows("SELECT MD5('')")

    def batches(self, statement: str, *, rows: int = 10_000) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Yield the rows of a SELECT at the moment, as they come, so many at once.

        Raises:
            DatabaseError: The server refuses the statement, or does not answer.
            TableAlteredError: The table was altered since.
        """
        from pymysql.cursors import SSCursor

        with explained(self.place), self.connection.cursor(SSCursor) as cursor:
            cursor.execute(statement)
            while batch := cursor.fetchmany(rows):
                yield batch


@contextmanager
def moment_of(place: DatabasePlace) -> Iterator[SourceMoment]:
    """Hold the present moment of a source for the length of the block.

    Raises:
        MissingExtraError: The driver is not installed.
        DatabaseError: The server lets nobody in, or its binlog position cannot be told.
    """
    with connected(place) as connection:
        with explained(place), connection.cursor() as cursor:
            for statement in (*SESSION, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"):
                cursor.execute(statement)
            _let_statements_pass(cursor)
            found = _begin(cursor, place)
        yield SourceMoment(connection, place, *found)


@contextmanager
def locked_moment_of(place: DatabasePlace, table: TableId) -> Iterator[SourceMoment]:
    """Hold a moment of one table for the length of the block.

    Nobody writes to the table then. Its writers have written their events before they give the lock back, so that the binlog's
    end is its position.

    Raises:
        MissingExtraError: The driver is not installed.
        DatabaseError: The server lets nobody in, writes no binlog, or does not give the lock.
        TableAlteredError: The table is not there any more.
        MySQLError: Never; :func:`explained` makes sentences of it.
    """
    import pymysql

    with connected(place) as connection:
        with explained(place), connection.cursor() as cursor:
            for statement in (*SESSION, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}"):
                cursor.execute(statement)
            try:
                cursor.execute(f"LOCK TABLES {quoted(table.database)}.{quoted(table.table)} READ")
            except pymysql.err.MySQLError as error:
                number = error.args[0] if error.args else 0
                if number in DENIED:
                    what = "its engine has no transactions, so it has to be locked while it is read; grant LOCK TABLES"
                    raise DatabaseError(str(place), what) from None
                if number == _LOCK_TIMEOUT:
                    what = f"a statement kept table {table} from being locked for {_LOCK_SECONDS} s; run it again"
                    raise DatabaseError(str(place), what) from None
                raise
            file, position, _ = binlog_position(cursor, place)
        yield SourceMoment(connection, place, file, position, True)


@contextmanager
def connected(place: DatabasePlace) -> Iterator[Connection]:
    """Hold a connection for the length of the block.

    Raises:
        MissingExtraError: The driver is not installed.
        DatabaseError: The server lets nobody in, or does not prove who it is.
    """
    try:
        import pymysql  # noqa: F401
    except ModuleNotFoundError as missing:
        raise MissingExtraError("Reading the source database", "mysql", str(missing.name)) from None
    try:
        with explained(place):
            connection = open_line(
                place, autocommit=True, connect_timeout=_CONNECT_SECONDS, max_allowed_packet=1 << 30
            )  # fmt: skip
    except AuthorityError:
        raise DatabaseError(str(place), AUTHORITY_WORDS) from None
    try:
        yield connection
    finally:
        connection.close()


def _let_statements_pass(cursor: Any) -> None:
    """Let the session give locks on definitions back within its transaction, where the account may.

    A server whose binlog is on keeps them to the end of a transaction that could be in the binlog. This one only reads.
    """
    import pymysql

    with suppress(pymysql.err.MySQLError):
        cursor.execute("SET SESSION sql_log_bin = 0")


def _begin(cursor: Any, place: DatabasePlace) -> tuple[str, int, bool]:
    """Begin a transaction with a snapshot, and return its place in the binlog and whether that is sure.

    Raises:
        DatabaseError: The server writes no binlog.
    """
    cursor.execute("SELECT VERSION()")
    if "mariadb" in cursor.fetchone()[0].lower():
        _start(cursor)
        cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
        told = {name.lower(): value for name, value in cursor.fetchall()}
        if not told.get("binlog_snapshot_file"):
            raise DatabaseError(str(place), "it writes no binlog, so nobody knows the position of its rows")
        return told["binlog_snapshot_file"], int(told["binlog_snapshot_position"]), True
    return _under_lock(cursor, place) or _between_positions(cursor, place)


def _start(cursor: Any) -> None:
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def _under_lock(cursor: Any, place: DatabasePlace) -> tuple[str, int, bool] | None:
    """Begin a snapshot while nobody can commit, for some milliseconds; None where the account may not lock."""
    import pymysql

    try:
        cursor.execute("SET SESSION lock_wait_timeout = 5")  # a long query must not hold up all writers behind the lock
        cursor.execute("FLUSH TABLES WITH READ LOCK")
    except pymysql.err.MySQLError:
        return None
    try:
        _start(cursor)
        file, position, _ = binlog_position(cursor, place)
        return file, position, True
    finally:
        cursor.execute("UNLOCK TABLES")


def _between_positions(cursor: Any, place: DatabasePlace) -> tuple[str, int, bool]:
    """Begin a snapshot between two equal positions of the binlog and equal sets of GTIDs.

    Raises:
        DatabaseError: The binlog never stood still for long enough.
    """
    for _ in range(_TRIES):
        before = binlog_position(cursor, place)
        time.sleep(_QUIET_SECONDS)
        if binlog_position(cursor, place) != before:
            continue
        _start(cursor)
        if binlog_position(cursor, place) == before:
            return before[0], before[1], False
        cursor.execute("ROLLBACK")
    raise DatabaseError(
        str(place),
        f"its binlog never stood still for {_QUIET_SECONDS} s, so the position of its rows cannot be told; grant RELOAD "
        f"to the account, which then stops writers for some milliseconds",
    )


def binlog_position(cursor: Any, place: DatabasePlace) -> tuple[str, int, str]:
    """Return the present file and position of the binlog, and the set of GTIDs that are done.

    Raises:
        DatabaseError: The server writes no binlog.
    """
    import pymysql

    try:
        cursor.execute("SHOW BINARY LOG STATUS")  # since MySQL 8.2
    except pymysql.err.ProgrammingError:
        cursor.execute("SHOW MASTER STATUS")
    row = cursor.fetchone()
    if row is None:
        raise DatabaseError(str(place), "it writes no binlog, so nobody knows the position of its rows")
    return row[0], int(row[1]), str(row[4]) if len(row) > 4 else ""


@contextmanager
def explained(place: DatabasePlace) -> Iterator[None]:
    """Turn errors of the driver into sentences.

    Those of a server may quote values, so only their numbers are told.

    Raises:
        DatabaseError: The server refuses something.
        UnreachableDatabaseError: It does not answer.
        TableAlteredError: A table was altered since the moment.
    """
    import pymysql

    try:
        yield
    except pymysql.err.MySQLError as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if number in ALTERED:
            raise TableAlteredError(str(number)) from None
        if is_untrusted(error):
            raise DatabaseError(str(place), CERTIFICATE_WORDS) from None
        if number == NO_TLS:
            raise DatabaseError(str(place), NO_TLS_WORDS) from None
        if number in _GONE:
            what = f"it does not answer (error {number}); check the address, and run it again"
            raise UnreachableDatabaseError(str(place), what) from None
        what = f"it answers with error {number}"
        if number in _NO_FUNCTION:
            what = (
                f"it lacks a function (error {number}): MySQL 9.6 and newer have MD5, which sums rows, in a component; "
                f"let an administrator run INSTALL COMPONENT 'file://component_classic_hashing'"
            )
        if number in DENIED:
            what = f"it refuses user {place.user} (error {number}); grant SELECT and REPLICATION CLIENT"
        raise DatabaseError(str(place), what) from None
