"""Places of source databases: the address of a server, and the account for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

_URL = re.compile(
    r"(?:jdbc:)?(?:mysql|mariadb)://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?\s]+)(?::(?P<port>\d{1,5}))?(?:/[^?\s]*)?"
    r"(?:\?(?P<options>\S*))?",
    re.ASCII,
)
_DEFAULT_PORT = 3306
_MOST_PORT = 65535

SESSION = ("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "SET SESSION time_zone = '+00:00'", "SET NAMES utf8mb4")
"""The settings of a session in which a server writes values as the lake has them."""


class ServerProof(Enum):
    """The proof that a server has to give of itself: the values of ``sslMode`` in a URL."""

    UNASKED = ""
    """None, and TLS is used where the server offers it."""

    OFF = "disable"
    NONE = "trust"
    AUTHORITY = "verify-ca"
    NAME = "verify-full"


_PROOFS = {one.value: one for one in ServerProof}
SSL_MODES = tuple(filter(None, _PROOFS))
"""The values that ``sslMode`` may have."""

_OTHER_NAMES = {"disabled": "disable", "required": "trust", "verify_ca": "verify-ca", "verify_identity": "verify-full"}
"""The names of MySQL for them, which the driver of Spark knows, too."""


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """The address of a server and the account of a reader.

    ``socket`` is a server's on this machine, in the place of host and port. ``proof`` is what the server has to prove, by a
    certificate that the file ``authority`` has signed; None stands for the machine's own authorities.
    """

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    socket: str | None = None
    proof: ServerProof = ServerProof.UNASKED
    authority: str | None = None

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


def database_place(url: str, *, user: str, password: str) -> DatabasePlace:
    """Return the server that a JDBC URL names, with its options ``localSocket``, ``sslMode`` and ``serverSslCert``.

    Raises:
        ValueError: It is no URL of MySQL or MariaDB.
        LookupError: Its ``sslMode`` is none.
    """
    found = _URL.fullmatch(url)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _MOST_PORT:
        raise ValueError("no URL of MySQL or MariaDB")
    options = dict(one.partition("=")[::2] for one in (found["options"] or "").split("&"))
    mode = options.get("sslMode", "").lower()
    proof = _PROOFS[_OTHER_NAMES.get(mode, mode)]
    host, authority = found["host"].strip("[]"), options.get("serverSslCert") or None
    return DatabasePlace(host, port, user, password, options.get("localSocket"), proof, authority)
