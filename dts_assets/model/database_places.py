"""Places of source databases: the address of a server, and the account for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address

from dts_assets.model.database_options import DatabaseOptions, OptionMistake, ServerProof, database_options

__all__ = ["SESSION", "DatabasePlace", "OptionMistake", "ServerProof", "database_place", "is_loopback"]

_URL = re.compile(
    r"(?:jdbc:)?(?:mysql|mariadb)://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?\s]+)(?::(?P<port>\d{1,5}))?(?:/[^?\s]*)?"
    r"(?:\?(?P<options>\S*))?",
    re.ASCII,
)
_DEFAULT_PORT = 3306
_MOST_PORT = 65535

SESSION = ("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "SET SESSION time_zone = '+00:00'", "SET NAMES utf8mb4")
"""The settings of a session in which a server writes values as the lake has them."""


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """The address of a server and the account of a reader.

    ``socket`` is a server's on this machine, in the place of host and port. ``proof`` is what the server has to prove, by a
    certificate that the file ``authority`` has signed; None stands for the machine's own authorities. ``passed`` are options for
    Spark's driver.
    """

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    socket: str | None = None
    proof: ServerProof = ServerProof.UNASKED
    authority: str | None = None
    passed: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"

    @property
    def asked(self) -> ServerProof:
        """The proof of each connection: over a network TLS at least, unless it was turned off.

        Nobody listens on the way to a socket, or to this machine itself.
        """
        if self.proof is not ServerProof.UNASKED or self.socket is not None or is_loopback(self.host):
            return self.proof
        return ServerProof.NONE

    @property
    def needs_tls(self) -> bool:
        """True if a password may cross the line over TLS alone."""
        return self.asked not in (ServerProof.UNASKED, ServerProof.OFF)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """The options for Spark's driver, in its own spelling."""
        ours = (("sslMode", self.asked.value), ("serverSslCert", self.authority), ("localSocket", self.socket))
        return *((name, value) for name, value in ours if value), *self.passed


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its own name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def database_place(url: str, *, user: str, password: str) -> DatabasePlace:
    """Return the server that a JDBC URL names, with its options.

    Raises:
        OptionMistake: One of its options is none that is known.
        ValueError: It is no URL of MySQL or MariaDB.
    """
    found = _URL.fullmatch(url)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _MOST_PORT:
        raise ValueError("no URL of MySQL or MariaDB")
    told: DatabaseOptions = database_options(found["options"] or "")
    host = found["host"].strip("[]")
    return DatabasePlace(host, port, user, password, told.socket, told.proof, told.authority, told.passed)
