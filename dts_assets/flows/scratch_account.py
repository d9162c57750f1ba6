"""An account of a scratch server for one proof, with rights on the proof's own databases alone.

It has a random name and a random password, and goes with the proof. A proof that was killed leaves its account, which the next
one drops: the lock of that name, held by the connection that made the account, is free then.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from dts_assets.errors.scratch import ScratchServerError
from dts_assets.flows.scratch_server import ScratchAddress, ScratchServer, StatementRefused, scratch_server
from dts_assets.model.columns import quoted
from dts_assets.wire.ddl.literals import text_literal

_NAME = "dts_assets_prove_"
_BYTES_OF_NAME = 6
"""MySQL takes 32 characters; a name of ours has 12 digits behind its first words."""

_RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX"
_ALL_MAY_SEE = frozenset({"information_schema", "performance_schema"})
_LONGEST_WAIT = 31_536_000
"""The seconds that the connection which made the account may be silent: the most that servers take."""


@contextmanager
def scratch_account(server: ScratchServer, databases: Collection[str]) -> Iterator[ScratchServer]:
    """Connect for the block with an account that has rights on some databases alone.

    ``server`` is a connection with an account that may make others; it stays open for the block.

    Raises:
        ScratchServerError: No such account can be made, or it could do more than it should, or the connection is lost.
    """
    try:
        server.run(f"SET SESSION wait_timeout = {_LONGEST_WAIT}")
        host = server.one("SELECT USER()").rpartition("@")[2]
        _drop_left_behind(server)
        name, password = _NAME + secrets.token_hex(_BYTES_OF_NAME), f"Aa1-{secrets.token_urlsafe(24)}"
        account = f"{text_literal(name)}@{text_literal(host)}"
        server.one(f"SELECT GET_LOCK({text_literal(name)}, 0)")
        server.run(f"CREATE USER {account} IDENTIFIED BY {text_literal(password)}")
    except StatementRefused as error:
        raise ScratchServerError(str(server.address), *_refused(server.address, error.code)) from None
    try:
        try:
            for database in databases:
                server.run(f"GRANT {_RIGHTS} ON {_pattern(database)}.* TO {account}")
        except StatementRefused as error:
            raise ScratchServerError(str(server.address), *_refused(server.address, error.code)) from None
        with scratch_server(replace(server.address, user=name), replace(server.login, password=password)) as own:
            _check(own, databases)
            yield own
    finally:
        _drop(server, account)


def _pattern(database: str) -> str:
    """Return a database in the words of GRANT, in which ``_`` and ``%`` stand for others."""
    return quoted(database.replace("_", r"\_").replace("%", r"\%"))


def _refused(address: ScratchAddress, code: int) -> tuple[str, str]:
    """Return the clause and the advice of an error about an account that may not make others."""
    what = f"{address.user} may not make an account with rights on the databases of the tables alone (error {code})"
    needs = "it needs CREATE USER, SELECT on mysql.user, and with GRANT OPTION"
    return what, f"Log in as an account that may: {needs} {_RIGHTS}."


def _drop_left_behind(server: ScratchServer) -> None:
    """Drop the accounts of proofs that have ended without dropping them.

    Raises:
        StatementRefused: The connection's account may not see or drop accounts.
        ScratchServerError: The connection is lost.
    """
    for user, host in server.all("SELECT user, host FROM mysql.user"):
        digits = user.removeprefix(_NAME)
        ours = digits != user and len(digits) == 2 * _BYTES_OF_NAME and not set(digits) - set("0123456789abcdef")
        if ours and server.one(f"SELECT IS_FREE_LOCK({text_literal(user)})") == "1":
            server.run(f"DROP USER IF EXISTS {text_literal(user)}@{text_literal(host)}")


def _check(own: ScratchServer, databases: Collection[str]) -> None:
    """Look whether an account sees other databases, or has more rights than it was given.

    Raises:
        ScratchServerError: It does: what every account of the server may do counts for this one, too.
    """
    chosen = {one.lower() for one in databases} | _ALL_MAY_SEE
    beyond = [
        name for (name,) in own.all("SELECT schema_name FROM information_schema.schemata") if name.lower() not in chosen
    ]
    more = len(own.all("SHOW GRANTS")) - 1 - len(databases)
    if beyond or more > 0:
        found = ", ".join(f"the database {name}" for name in sorted(beyond)) or "see SHOW GRANTS of a new account"
        what = f"every account of it has rights beyond the databases of the tables: {found}"
        raise ScratchServerError(
            str(own.address), what, "Take these rights away from all accounts, or start another server."
        )


def _drop(server: ScratchServer, account: str) -> None:
    """Drop an account, over another connection if the first is lost. What cannot be dropped now, the next proof drops."""
    statement = f"DROP USER IF EXISTS {account}"
    try:
        server.run(statement)
    except ScratchServerError:
        with suppress(ScratchServerError, StatementRefused), scratch_server(server.address, server.login) as again:
            again.run(statement)
    except StatementRefused:
        pass
