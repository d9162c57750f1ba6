"""Logins to a real MySQL, whose accounts have its own login method and whose certificate is its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_assets.errors.sources import DatabaseError
from dts_assets.model.database_places import database_place
from dts_assets.sources.live_database import connected
from dts_emulator.machine.ports import free_port
from dts_emulator.source.private_mysql import private_mysql
from dts_emulator.source.server import Server

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def listening() -> Iterator[tuple[Server, int]]:
    port = free_port()
    with private_mysql(extra=("--skip-networking=0", f"--port={port}", "--bind-address=127.0.0.1")) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 's3cret'")
        yield server, port


def cipher(listening: tuple[Server, int], options: str, *, user: str = "reader") -> str:
    """Log in for the first time since the server forgot all logins, and return the session's cipher."""
    server, port = listening
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH PRIVILEGES")
    with (
        connected(database_place(f"jdbc:mysql://127.0.0.1:{port}/{options}", user=user, password="s3cret")) as found,
        found.cursor() as cursor,
    ):
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(cursor.fetchone()[1])


def authority(listening: tuple[Server, int]) -> Path:
    """The certificate of the authority that a new MySQL makes for itself."""
    socket = listening[0].socket
    assert socket is not None
    return socket.parent / "data" / "ca.pem"


@pytest.mark.parametrize("options", ["", "?sslMode=trust", "?sslMode=verify-ca&serverSslCert={}"])
def test_sessions_are_encrypted_where_the_server_offers_it(listening: tuple[Server, int], options: str) -> None:
    assert cipher(listening, options.format(authority(listening)))


def test_a_password_crosses_an_open_line_by_the_servers_key(listening: tuple[Server, int]) -> None:
    assert not cipher(listening, "?sslMode=disable")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("?sslMode=verify-ca", "its certificate is not trusted"),
        ("?sslMode=verify-full&serverSslCert={}", "its certificate is not trusted"),
        ("?sslMode=verify-ca&serverSslCert=/no/such/file.pem", "names no file with a certificate"),
    ],
)
def test_a_server_that_does_not_prove_itself_gets_no_password(
    listening: tuple[Server, int], options: str, said: str
) -> None:
    with pytest.raises(DatabaseError, match=said) as caught:
        cipher(listening, options.format(authority(listening)))
    assert "s3cret" not in str(caught.value)
