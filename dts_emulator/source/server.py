"""A private MariaDB with its own data folder and socket, without network and password, for one block.

The server writes its row binlog with everything in it (full images, full metadata). It is for making captures and for
tests, so durability is traded for speed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from dts_emulator.errors import ServerUnavailable
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

BINLOG_NAME = "mysql-bin"
"""Base name of the binlog files, as a managed MySQL calls them: ``mysql-bin.000001``."""

_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/libexec")
"""Folders in which distributions put mariadbd; a normal user's PATH often leaves them out."""

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server that is up: its socket if it has one, else host and port."""

    socket: Path | None = None
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = field(default="", repr=False)

    @property
    def address(self) -> dict[str, Any]:
        """The driver's settings for a connection to it."""
        place = {"unix_socket": str(self.socket)} if self.socket else {"host": self.host, "port": self.port}
        return {**place, "user": self.user, "password": self.password}

    def connect(self, *, database: str | None = None) -> Connection:
        """Return a new connection in utf8mb4 that commits by itself, with the session's time zone set to UTC.

        Raises:
            ServerUnavailable: The server does not answer, or does not let the user in.
        """
        try:
            return pymysql.connect(
                **self.address,
                database=database,
                charset="utf8mb4",
                autocommit=True,
                max_allowed_packet=1 << 30,
                init_command="SET time_zone = '+00:00'",
            )
        except pymysql.err.OperationalError as error:
            place = self.socket or f"{self.host}:{self.port}"
            raise ServerUnavailable(f"no connection to MariaDB at {place} as {self.user}: {error.args[1]}") from error


@contextmanager
def private_server(*, server_id: int = 1, extra: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a fresh MariaDB for the length of the block, for root and normal users alike.

    It listens on a socket in its own folder and on no network; its user is ``root`` without a password. ``extra`` are further
    server options.

    Raises:
        ServerUnavailable: MariaDB is not installed, or does not come up.
    """
    mariadbd, installer = program("mariadbd", "mysqld"), program("mariadb-install-db", "mysql_install_db")
    with run_private(
        "MariaDB",
        install=lambda folder: _installing(installer, folder),
        serve=lambda folder: _serving(mariadbd, folder, (f"--server-id={server_id}", *extra)),
    ) as server:
        yield server


@contextmanager
def run_private(
    name: str, *, install: Callable[[Path], Sequence[str]], serve: Callable[[Path], Sequence[str]]
) -> Iterator[Server]:
    """Run a server in a folder of its own for the length of the block.

    ``install`` and ``serve`` return commands for a folder: one that fills ``data`` there, and one whose server listens on
    ``socket`` there. ``name`` is the server's name in errors. The folder goes with it.

    Raises:
        ServerUnavailable: It cannot be set up, or does not come up.
    """
    # A short path of its own: a socket's path may not be longer than 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="emulator-db-"))
    log, path = folder / "server.log", folder / "socket"
    process: subprocess.Popen[bytes] | None = None
    try:
        with (folder / "install.log").open("wb") as output:
            code = subprocess.run(install(folder), stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        if code:
            raise ServerUnavailable(_said(f"a private {name} could not be set up", folder / "install.log"))
        started = process = start_server(serve(folder), log)
        wait_until(lambda: started.poll() is not None or _answers(path), seconds=_START_SECONDS)
        if started.poll() is not None or not _answers(path):
            raise ServerUnavailable(_said(f"a private {name} did not start", log))
        yield Server(path)
    finally:
        if process is not None:
            stop_server(process, seconds=_STOP_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def is_mariadb(connection: Connection) -> bool:
    """Tell a MariaDB from a MySQL by the version that it greets with."""
    return "mariadb" in str(connection.get_server_info()).lower()


def program(*names: str) -> str:
    """Return the path of one of MariaDB's programs, by the first of its names that is found.

    Raises:
        ServerUnavailable: None is found.
    """
    for name in names:
        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(_FOLDERS))
        if found:
            return found
    raise ServerUnavailable(
        f"{names[0]} is not installed, and the emulator reads the binlog of a real MariaDB: install MariaDB "
        "(Debian and Ubuntu: apt-get install mariadb-server)"
    )


def account() -> tuple[str, ...]:
    """Return the option that names the account.

    A server refuses to run as root unless told so by name.
    """
    return (f"--user={pwd.getpwuid(os.geteuid()).pw_name}",) if os.geteuid() == 0 else ()


def _installing(installer: str, folder: Path) -> Sequence[str]:
    return (
        installer, "--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder}", *account(),
        "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--skip-log-bin",
    )  # fmt: skip


def _serving(mariadbd: str, folder: Path, extra: tuple[str, ...]) -> Sequence[str]:
    return (
        mariadbd, "--no-defaults", *account(), f"--datadir={folder / 'data'}", f"--tmpdir={folder}",
        f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", "--skip-networking",
        *row_binlog(), *durability_for_speed(), "--innodb-log-file-size=96M", "--collation-server=utf8mb4_general_ci",
        "--skip-slave-start", *extra,
    )  # fmt: skip


def row_binlog() -> tuple[str, ...]:
    """Return the options with which a server writes everything into its binlog that the emulator reads."""
    return (
        f"--log-bin={BINLOG_NAME}", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL",
        "--binlog-checksum=CRC32", "--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--skip-name-resolve",
    )  # fmt: skip


def durability_for_speed() -> tuple[str, ...]:
    """Return the options with which a server forgets what it did when the machine stops, and is fast."""
    return (
        "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=64M",
        "--max-allowed-packet=1G", "--performance-schema=OFF",
    )  # fmt: skip


def _answers(path: Path) -> bool:
    # Not with the driver: it leaves a socket open behind every attempt that fails.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _said(sentence: str, log: Path) -> str:
    """Return the sentence with the server's own error, since the log goes away with the folder."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "ERROR" in line.upper()] or lines[-1:]
    return f"{sentence}: {errors[0].strip()}" if errors else sentence
