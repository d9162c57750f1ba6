"""A private MySQL with its own data folder, for one block: what :mod:`dts_emulator.source.server` is for MariaDB.

Its programs lie in a folder of the environment (``make mysql``). The dynamic linker that came with them starts them, because
they are built for a younger system than this one may be.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dts_emulator.errors import ServerUnavailable
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.source.server import (
    STOP_SECONDS,
    Server,
    account,
    as_said,
    durability_for_speed,
    is_mariadb,
    private_server,
    row_binlog,
    wait_for_server,
)

PROGRAMS = Path(sys.prefix) / "share" / "dts-assets" / "mysql"
"""The folder into which Debian's packages of MySQL are unpacked."""


@contextmanager
def private_mysql(*, server_id: int = 1, extra: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a fresh MySQL for the length of the block.

    It listens on a socket in its own folder, and on no network unless ``extra`` says so; its user is ``root`` without a password.

    Raises:
        ServerUnavailable: MySQL's programs are not there, or it does not come up.
    """
    # A short path of its own: a socket's path may not be longer than 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="emulator-db-"))
    process: subprocess.Popen[bytes] | None = None
    common = (*mysql_program("mysqld"), *_OPTIONS, *account(), f"--datadir={folder / 'data'}", f"--tmpdir={folder}")
    try:
        _install((*common, "--initialize-insecure"), folder)
        command = (
            *common, f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", f"--server-id={server_id}",
            "--skip-networking", *row_binlog(), *durability_for_speed(), "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
            *extra,
        )  # fmt: skip
        process = start_server(command, folder / "server.log")
        wait_for_server(folder / "socket", process, folder / "server.log", of="MySQL")
        yield Server(folder / "socket")
    finally:
        if process is not None:
            stop_server(process, seconds=STOP_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def private_twin(server: Server, *, server_id: int) -> AbstractContextManager[Server]:
    """Run a fresh server of the kind that another one is, such as one that replays its statements.

    Raises:
        ServerUnavailable: The other one does not answer, or no such server can be started.
    """
    with server.connect() as connection:
        start = private_server if is_mariadb(connection) else private_mysql
    return start(server_id=server_id)


def mysql_program(name: str) -> tuple[str, ...]:
    """Return the words of a command that start one of MySQL's programs, such as ``mysqldump``.

    Raises:
        ServerUnavailable: It is not there.
    """
    found = next((path for folder in ("sbin", "bin") if (path := PROGRAMS / "usr" / folder / name).is_file()), None)
    linker = next(PROGRAMS.glob("usr/lib*/ld-linux-*"), None)
    if found is None or linker is None:
        raise ServerUnavailable(
            f"MySQL's {name} is not there; `make mysql` fetches it, where Debian's packages are reached"
        )
    libraries = next(PROGRAMS.glob("usr/lib/*-linux-gnu"))
    return (str(linker), "--library-path", str(libraries), str(found))


_OPTIONS: Sequence[str] = (
    "--no-defaults", f"--basedir={PROGRAMS / 'usr'}", f"--lc-messages-dir={PROGRAMS / 'usr/share/mysql'}",
    f"--character-sets-dir={PROGRAMS / 'usr/share/mysql/charsets'}", f"--plugin-dir={PROGRAMS / 'usr/lib/mysql/plugin'}",
    "--secure-file-priv=", "--mysqlx=OFF",
)  # fmt: skip


def _install(command: Sequence[str], folder: Path) -> None:
    log = folder / "install.log"
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise ServerUnavailable(as_said("a private MySQL could not be set up", log))
