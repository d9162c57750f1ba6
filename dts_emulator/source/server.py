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
from collections.abc import Iterator
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
STOP_SECONDS = 30.0
"""The time that a server has to end by itself."""


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
    # A short path of its own: a socket's path may not be longer than 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="emulator-db-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        _install(installer, folder)
        process = _start(mariadbd, folder, (f"--server-id={server_id}", *extra))
        wait_for_server(folder / "socket", process, folder / "server.log", of="MariaDB")
        yield Server(folder / "socket")
    finally:
        if process is not None:
            stop_server(process, seconds=STOP_SECONDS)
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


def _install(installer: str, folder: Path) -> None:
    log = folder / "install.log"
    command = (
        installer, "--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder}", *account(),
        "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--skip-log-bin",
    )  # fmt: skip
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise ServerUnavailable(as_said("a private MariaDB could not be set up", log))


def _start(mariadbd: str, folder: Path, extra: tuple[str, ...]) -> subprocess.Popen[bytes]:
    command: tuple[str, ...] = (
        mariadbd, "--no-defaults", *account(), f"--datadir={folder / 'data'}", f"--tmpdir={folder}",
        f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", "--skip-networking",
        *row_binlog(), *durability_for_speed(), "--innodb-log-file-size=96M", "--collation-server=utf8mb4_general_ci",
        "--skip-slave-start", *extra,
    )  # fmt: skip
    return start_server(command, folder / "server.log")


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


def wait_for_server(path: Path, process: subprocess.Popen[bytes], log: Path, *, of: str) -> None:
    """Wait until something listens on a socket.

    Raises:
        ServerUnavailable: The server has ended, or listens on none after a minute.
    """
    wait_until(lambda: process.poll() is not None or _answers(path), seconds=_START_SECONDS)
    if process.poll() is not None or not _answers(path):
        raise ServerUnavailable(as_said(f"a private {of} did not start", log))


def _answers(path: Path) -> bool:
    # Not with the driver: it leaves a socket open behind every attempt that fails.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def as_said(sentence: str, log: Path) -> str:
    """Return the sentence with the server's own error, since the log goes away with the folder."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "ERROR" in line.upper()] or lines[-1:]
    return f"{sentence}: {errors[0].strip()}" if errors else sentence
