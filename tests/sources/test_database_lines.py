"""Lines to databases: a server that offers no TLS over a network gets no byte of a login, whoever asks it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from dts_assets.errors.scratch import ScratchServerError
from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.model import database_places
from dts_assets.model.database_places import database_place
from dts_assets.sources.live_database import connected

GREETING = (
    b"\x0a10.11.1-MariaDB\x00" + struct.pack("<I", 7) + b"abcdefgh\x00"
    + struct.pack("<HBHHB", 0xF7FF & ~0x0800, 45, 2, 0x0008, 21)
    + bytes(10) + b"ijklmnopqrst\x00" + b"mysql_native_password\x00"
)  # fmt: skip
"""The greeting of a server that offers no TLS."""


class OpenServer:
    """A server without TLS, and all bytes that it got."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening, self.got = listening, b""
        self.port = listening.getsockname()[1]

    def serve(self) -> None:
        try:
            while True:
                line, _ = self.listening.accept()
                with line:
                    line.settimeout(5)
                    line.sendall(struct.pack("<I", len(GREETING))[:3] + b"\0" + GREETING)
                    self.got += line.recv(4096)
        except OSError:
            return


@pytest.fixture
def server() -> Iterator[OpenServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = OpenServer(listening)
        thread = Thread(target=found.serve)
        thread.start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def ask_source(server: OpenServer, options: str) -> None:
    place = database_place(f"jdbc:mariadb://127.0.0.1:{server.port}/{options}", user="u", password="s3cret")
    with connected(place):
        pass


def ask_scratch(server: OpenServer, options: str, file: Path | None = None) -> None:
    address = ScratchAddress.of_url(f"mysql://u@127.0.0.1:{server.port}/{options}")
    with scratch_server(address, Login("s3cret", file)):
        pass


@contextmanager
def far_away() -> Iterator[None]:
    """No address is that of this machine, as that of a server in a network is not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_places, "is_loopback", lambda _: False)
        yield


@pytest.mark.parametrize("ask", [ask_source, ask_scratch])
@pytest.mark.parametrize("options", ["", "?sslMode=trust", "?ssl-mode=VERIFY_IDENTITY", "?requireSSL=true"])
def test_a_server_of_a_network_without_tls_gets_nothing(
    server: OpenServer, ask: Callable[[OpenServer, str], None], options: str
) -> None:
    with far_away(), pytest.raises((DatabaseError, ScratchServerError), match="it offers no TLS") as caught:
        ask(server, options)
    assert "sslMode=disable" in str(caught.value)
    assert server.got == b""


@pytest.mark.parametrize("ask", [ask_source, ask_scratch])
def test_a_login_goes_out_where_tls_is_turned_off_or_the_server_is_here(
    server: OpenServer, ask: Callable[[OpenServer, str], None]
) -> None:
    with pytest.raises((DatabaseError, ScratchServerError)):
        ask(server, "")
    with far_away(), pytest.raises((DatabaseError, ScratchServerError)):
        ask(server, "?sslMode=disable")
    assert server.got.count(b"u\x00") >= 2


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[client]\nssl-mode=VERIFY_IDENTITY\n", "ssl-mode in its file of options is not followed"),
        ("[client]\nssl_verify_server_cert\n", "ssl-verify-server-cert in its file"),
        ("[client]\ntls-version=TLSv1.3\n", "tls-version in its file"),
        ("password=x\n", "its file of options cannot be read"),
        ("[client]\nssl-ca=/no/such/ca.pem\n", "names no file with a certificate"),
    ],
)
def test_a_file_of_options_asks_for_tls_in_known_words_alone(
    server: OpenServer, written: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.cnf"
    file.write_text(written)
    with pytest.raises(ScratchServerError, match=said):
        ask_scratch(server, "", file)
    assert server.got == b""


def test_a_file_of_options_names_no_other_server(server: OpenServer, tmp_path: Path) -> None:
    """The address says where statements are run."""
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nsocket=/no/such/socket\nhost=db.example.org\npassword=s3cret\n")
    with pytest.raises(ScratchServerError, match=r"does not answer \(error 2013\)"):
        ask_scratch(server, "", file)
    assert server.got
