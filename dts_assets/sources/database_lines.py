"""Connections of the driver PyMySQL, over TLS wherever a password crosses a network."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from dts_assets.model.database_places import DatabasePlace, ServerProof

if TYPE_CHECKING:
    from pymysql.connections import Connection

NO_TLS = 2026
"""The number of the driver's error where a server offers no TLS."""

NO_TLS_WORDS = (
    "it offers no TLS, and no password is sent over a network without it; let it offer TLS, "
    "or write sslMode=disable in the URL"
)
CERTIFICATE_WORDS = (
    "its certificate is not trusted; name the one that signed it as serverSslCert in the URL, and the server by a name that it "
    "has"
)
AUTHORITY_WORDS = "serverSslCert of its URL names no file with a certificate"


class AuthorityError(Exception):
    """A file of a certificate that cannot be read."""


def open_line(place: DatabasePlace, *, own: tuple[str, str | None] | None = None, **settings: Any) -> Connection:
    """Return a connection to a server, with further settings of the driver, which is installed.

    A server that proves less than it has to, or offers no TLS where it is needed, gets no password. ``own`` are files with a
    certificate of the client and its key.

    Raises:
        AuthorityError: The certificate of the authority cannot be read.
        MySQLError: The driver's own; :data:`NO_TLS` is the number of a line that stays open.
    """
    import pymysql
    from pymysql.constants import CLIENT

    class Line(pymysql.connections.Connection):  # type: ignore[misc]
        def _request_authentication(self) -> None:
            # Some versions of the driver log in over an open line where TLS was asked for and is not offered.
            if place.needs_tls and not self.server_capabilities & CLIENT.SSL:
                raise pymysql.err.OperationalError(NO_TLS, "the server offers no TLS")
            super()._request_authentication()

    address: dict[str, Any] = (
        {"unix_socket": place.socket} if place.socket else {"host": place.host, "port": place.port}
    )
    return Line(
        **address, **_proof_of(place, own), user=place.user, password=place.password, charset="utf8mb4", **settings
    )


def is_untrusted(error: Exception) -> bool:
    """Return whether an error of the driver is about the server's certificate."""
    return isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError)


def _proof_of(place: DatabasePlace, own: tuple[str, str | None] | None) -> dict[str, Any]:
    """Return the driver's settings for the proof that a server has to give.

    Raises:
        AuthorityError: A certificate cannot be read.
    """
    match place.asked:
        case ServerProof.UNASKED:
            return {}
        case ServerProof.OFF:
            return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=place.authority)
        if own is not None:
            context.load_cert_chain(*own)
    except (OSError, ssl.SSLError):
        raise AuthorityError from None
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # the certificates that MySQL makes for itself lack what is wanted since 2008
    context.check_hostname = place.asked is ServerProof.NAME
    if place.asked is ServerProof.NONE:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}
