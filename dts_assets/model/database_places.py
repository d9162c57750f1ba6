"""Places of source databases: the address of a server, and the account for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_URL = re.compile(
    r"(?:jdbc:)?(?:mysql|mariadb)://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?\s]+)(?::(?P<port>\d{1,5}))?(?:/[^?\s]*)?"
    r"(?:\?(?P<options>\S*))?",
    re.ASCII,
)
_SOCKET = re.compile(r"(?:^|&)localSocket=([^&]+)")
_DEFAULT_PORT = 3306
_MOST_PORT = 65535

SESSION = ("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "SET SESSION time_zone = '+00:00'", "SET NAMES utf8mb4")
"""The settings of a session in which a server writes values as the lake has them."""


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """The address of a server and the account of a reader.

    ``socket`` is a server's on this machine, in the place of host and port.
    """

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    socket: str | None = None

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


def database_place(url: str, *, user: str, password: str) -> DatabasePlace:
    """Return the server that a JDBC URL names.

    Raises:
        ValueError: It is no URL of MySQL or MariaDB.
    """
    found = _URL.fullmatch(url)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _MOST_PORT:
        raise ValueError("no URL of MySQL or MariaDB")
    socket = _SOCKET.search(found["options"] or "")
    return DatabasePlace(found["host"].strip("[]"), port, user, password, socket[1] if socket else None)
