"""A scratch server of MySQL or MariaDB, in which statements are run and whose tables are read.

Errors name the server and a code, never what it says: its sentences quote values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from configparser import Error as ConfigParserError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dts_assets.errors.machine import MissingExtraError
from dts_assets.errors.scratch import CHECK_ADDRESS, CHECK_LOGIN, ScratchServerError
from dts_assets.model.columns import quoted
from dts_assets.model.database_options import ServerProof, database_options
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.server_tables import ServerColumn
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
from dts_assets.sources.described_tables import ONE_TABLE, columns_statement, described_tables

_LARGEST = 1 << 30
"""The bytes of the largest statement or row: the most that these servers take."""

_ROWS_AT_ONCE = 5_000
_GONE = frozenset({2006, 2013, 2014, 2055, 1053, 1927})
"""The codes of a connection that is lost; any other code is about one statement."""

_UNANSWERED = frozenset({2002, 2003, 2005, 2006, 2012, 2013, 1040, 1129, 1130, 1203})
"""The codes of a server that is not reached, or takes no further connection. They say nothing about a password."""


@dataclass(frozen=True, slots=True)
class ScratchAddress:
    """The address of a server. The password is not part of it."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    socket: str | None = None
    proof: ServerProof = ServerProof.UNASKED
    authority: str | None = None

    @classmethod
    def of_url(cls, url: str) -> ScratchAddress:
        """Return the address that ``mysql://user@host:3306/`` names, or ``mysql://user@localhost/?socket=/run/mysqld.sock``.

        Its options are those of a source database.

        Raises:
            ValueError: The text is no such address, it has a password, or one of its options is not known.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("mysql", "mariadb") or not parts.hostname:
            raise ValueError("an address is mysql://user@host:port/")
        if parts.password is not None:
            raise ValueError("a password is no part of the address, where other users of the machine can read it")
        if parts.path not in ("", "/"):
            raise ValueError("a database is no part of the address: each table has the database of its source")
        told, user = database_options(parts.query), unquote(parts.username or "root")
        socket = None if told.socket is None else unquote(told.socket)
        return cls(parts.hostname, parts.port or 3306, user, socket, told.proof, told.authority)

    def place(self, password: str) -> DatabasePlace:
        """Return the server with an account."""
        return DatabasePlace(self.host, self.port, self.user, password, self.socket, self.proof, self.authority)

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """The secrets of a connection: a password, or a file of options with the group ``client``."""

    password: str = field(default="", repr=False)
    option_file: Path | None = None


class StatementRefused(Exception):
    """A statement that the server did not run, with the server's number of the error.

    Nobody sees it as it is.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ScratchServer:
    """A connection to a server, in UTC."""

    def __init__(self, address: ScratchAddress, login: Login, connection: Any) -> None:
        self.address = address
        self.login = login
        self._connection = connection

    def run(self, statement: str) -> int:
        """Run a statement, and return how many rows it found.

        Raises:
            StatementRefused: The server did not run it.
            ScratchServerError: The connection is lost.
        """
        with self._asking(), self._connection.cursor() as cursor:
            return int(cursor.execute(statement))

    def all(self, statement: str) -> Sequence[tuple[str, ...]]:
        """Return the rows of a SELECT of few rows, as texts.

        Raises:
            StatementRefused: The server did not run it.
            ScratchServerError: The connection is lost.
        """
        with self._asking(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(map(str, row)) for row in cursor.fetchall()]

    def one(self, statement: str) -> str:
        """Return the only value of a SELECT, as text.

        Raises:
            StatementRefused: The server did not run it.
            ScratchServerError: The connection is lost.
        """
        return self.all(statement)[0][0]

    def commit(self) -> None:
        """Commit what has been done.

        Raises:
            StatementRefused: The server refused it.
            ScratchServerError: The connection is lost.
        """
        with self._asking():
            self._connection.commit()

    def tables_in(self, databases: Collection[str]) -> Mapping[str, int]:
        """Return how many tables and views each of some databases has, those that exist.

        Raises:
            StatementRefused: The server refused it.
            ScratchServerError: The connection is lost.
        """
        asked = (
            "SELECT s.schema_name, COUNT(t.table_name) FROM information_schema.schemata s"
            " LEFT JOIN information_schema.tables t ON t.table_schema = s.schema_name GROUP BY s.schema_name"
        )
        with self._asking(), self._connection.cursor() as cursor:
            cursor.execute(asked)
            return {str(name): int(count) for name, count in cursor.fetchall() if name in databases}

    def columns(self, table: TableId) -> tuple[ServerColumn, ...]:
        """Return the columns of a table in their order; none without a table.

        Raises:
            StatementRefused: The server refused it.
            ScratchServerError: The connection is lost.
        """
        with self._asking(), self._connection.cursor() as cursor:
            cursor.execute(columns_statement(ONE_TABLE), (table.database, table.table))
            found = described_tables(cursor.fetchall()).get(table)
            return () if found is None else found.columns

    def rows(self, table: TableId, expressions: Sequence[str]) -> Iterator[Sequence[Sequence[str | None]]]:
        """Yield the values of expressions for all rows of a table, some thousand rows at a time.

        Raises:
            StatementRefused: The server refused it.
            ScratchServerError: The connection is lost.
        """
        from pymysql.cursors import SSCursor

        asked = f"SELECT {', '.join(expressions)} FROM {quoted(table.database)}.{quoted(table.table)}"
        with self._asking(), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(asked)
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield rows

    @contextmanager
    def _asking(self) -> Iterator[None]:
        import pymysql

        try:
            yield
        except pymysql.err.MySQLError as error:
            code = int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
            if code in _GONE or isinstance(error, pymysql.err.InterfaceError):
                what = f"the connection is lost (error {code})"
                raise ScratchServerError(str(self.address), what, CHECK_ADDRESS) from None
            raise StatementRefused(code) from None


@contextmanager
def scratch_server(address: ScratchAddress, login: Login) -> Iterator[ScratchServer]:
    """Connect to a server for the block. What it did is committed by whoever asks for it.

    Raises:
        MissingExtraError: The driver is not installed.
        ScratchServerError: The server does not answer, or does not let the user in.
    """
    try:
        import pymysql
    except ImportError as missing:
        raise MissingExtraError("A connection to MySQL or MariaDB", "mysql", str(missing.name)) from None
    place, own = _place(address, login)
    try:
        connection = open_line(
            place, own=own, autocommit=False, max_allowed_packet=_LARGEST,
            init_command="SET time_zone = '+00:00'", client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
        )  # fmt: skip
    except AuthorityError:
        raise ScratchServerError(str(address), AUTHORITY_WORDS, "") from None
    except pymysql.err.MySQLError as error:
        code = error.args[0] if error.args else 0
        what, advice = f"it does not let {address.user} in (error {code})", CHECK_LOGIN
        if is_untrusted(error):
            what, advice = CERTIFICATE_WORDS, ""
        elif code == NO_TLS:
            what, advice = NO_TLS_WORDS, ""
        elif code in _UNANSWERED:
            what, advice = f"it does not answer (error {code})", CHECK_ADDRESS
        raise ScratchServerError(str(address), what, advice) from None
    try:
        yield ScratchServer(address, login, connection)
    finally:
        with suppress(pymysql.err.MySQLError):
            connection.close()


_OF_FILES = ("ssl-ca", "ssl-cert", "ssl-key")


def _place(address: ScratchAddress, login: Login) -> tuple[DatabasePlace, tuple[str, str | None] | None]:
    """Return the server with its account, and the files of a client's own certificate and key.

    Of a file of options count the password and certificates of the group ``client``; the address says which server it is.

    Raises:
        ScratchServerError: The file cannot be read, or asks for TLS in a way that is not followed.
    """
    if login.option_file is None:
        return address.place(login.password), None
    from pymysql.optionfile import Parser

    parser = Parser()
    try:
        parser.read(login.option_file)
        names = parser.options("client")
        told = {name: parser.get("client", name) for name in ("password", *_OF_FILES) if name in names}
    except (OSError, ConfigParserError, UnicodeDecodeError) as error:
        what = f"its file of options cannot be read ({type(error).__name__})"
        raise ScratchServerError(str(address), what, "") from None
    for name in names:
        if name.startswith(("ssl", "tls")) and name not in _OF_FILES:
            what = f"{name} in its file of options is not followed; write sslMode= in the address"
            raise ScratchServerError(str(address), what, "")
    place = address.place(login.password or told.get("password") or "")
    if told.get("ssl-ca") and place.authority is None:
        proof = ServerProof.NAME if place.proof is ServerProof.UNASKED else place.proof
        place = replace(place, authority=told["ssl-ca"], proof=proof)
    certificate = told.get("ssl-cert")
    return place, (certificate, told.get("ssl-key")) if certificate else None
