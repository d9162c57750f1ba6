"""Lines to databases: a server that offers no TLS over a network gets no byte of a login, whoever asks it."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import pymysql
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dts_assets.errors.scratch import ScratchServerError
from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.model import database_places
from dts_assets.model.database_places import database_place
from dts_assets.sources.live_database import connected


def greeting(capabilities: int) -> bytes:
    """The greeting of a server that offers TLS, or none."""
    return (
        b"\x0a10.11.1-MariaDB\x00" + struct.pack("<I", 7) + b"abcdefgh\x00"
        + struct.pack("<HBHHB", capabilities, 45, 2, 0x0008, 21)
        + bytes(10) + b"ijklmnopqrst\x00" + b"mysql_native_password\x00"
    )  # fmt: skip


TLS = 0x0800
OPEN, OFFERING = greeting(0xF7FF & ~TLS), greeting(0xF7FF | TLS)


class OpenServer:
    """A server without TLS, or with that of ``secure``, and all bytes that it got: those of a login that is encrypted, too."""

    def __init__(self, listening: socket.socket, secure: ssl.SSLContext | None = None) -> None:
        self.listening, self.secure, self.got = listening, secure, b""
        self.port = listening.getsockname()[1]

    def serve(self) -> None:
        try:
            while True:
                line, _ = self.listening.accept()
                with line:
                    line.settimeout(5)
                    hello = OPEN if self.secure is None else OFFERING
                    line.sendall(struct.pack("<I", len(hello))[:3] + b"\0" + hello)
                    self.got += line.recv(4096) if self.secure is None else self._behind_tls(line, self.secure)
        except OSError:
            return

    def _behind_tls(self, line: socket.socket, secure: ssl.SSLContext) -> bytes:
        line.recv(36, socket.MSG_WAITALL)  # the client's wish for TLS, which tells nothing
        try:
            with secure.wrap_socket(line, server_side=True) as wrapped:
                return wrapped.recv(4096)
        except OSError:
            return b""


@contextmanager
def serving(secure: ssl.SSLContext | None = None) -> Iterator[OpenServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = OpenServer(listening, secure)
        thread = Thread(target=found.serve)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def server() -> Iterator[OpenServer]:
    with serving() as found:
        yield found


def certified(folder: Path, address: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate of a server with an address, which signs itself, and the server's own settings with it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "db")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    encoding = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file, both = folder / f"{address}.pem", folder / f"{address}-and-key.pem"
    file.write_bytes(made.public_bytes(encoding))
    both.write_bytes(file.read_bytes() + key.private_bytes(encoding, *private))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return file, context


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


def test_a_driver_that_would_go_on_without_tls_is_stopped(server: OpenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of the driver that we allow do so; the one of the lock file refuses by itself."""
    goes_on = property(lambda _: False, lambda _, value: None)
    monkeypatch.setattr(pymysql.connections.Connection, "_ssl_required", goes_on, raising=False)
    with far_away(), pytest.raises(DatabaseError, match="it offers no TLS"):
        ask_source(server, "?sslMode=trust")
    assert server.got == b""


@pytest.mark.parametrize("ask", [ask_source, ask_scratch])
def test_a_server_proves_its_authority_or_its_name_before_it_gets_a_login(
    ask: Callable[[OpenServer, str], None], tmp_path: Path
) -> None:
    mine, _ = certified(tmp_path, "127.0.0.1")
    elsewhere, context = certified(tmp_path, "10.0.0.7")
    with serving(context) as server:
        for options in (
            "?sslMode=verify-full",
            f"?sslMode=verify-full&serverSslCert={elsewhere}",  # its name is another one
            f"?sslMode=verify-ca&serverSslCert={mine}",
            "?sslMode=verify-ca",
        ):
            with pytest.raises((DatabaseError, ScratchServerError), match="its certificate is not trusted"):
                ask(server, options)
            assert server.got == b"", options
        for options in (f"?sslMode=verify-ca&serverSslCert={elsewhere}", "?sslMode=trust"):
            with pytest.raises((DatabaseError, ScratchServerError)):
                ask(server, options)
            assert b"u\x00" in server.got, options
            server.got = b""


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
