"""A private MySQL with its own data folder, for one block: what :mod:`dts_emulator.source.server` is for MariaDB.

Its programs lie in a folder of the environment (``make mysql``). The dynamic linker that came with them starts them, because
they are built for a younger system than this one may be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dts_emulator.errors import ServerUnavailable
from dts_emulator.source.server import (
    Server,
    account,
    durability_for_speed,
    is_mariadb,
    private_server,
    row_binlog,
    run_private,
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
    mysqld = mysql_program("mysqld")

    def common(folder: Path) -> Sequence[str]:
        return (*mysqld, *_OPTIONS, *account(), f"--datadir={folder / 'data'}", f"--tmpdir={folder}")

    def serve(folder: Path) -> Sequence[str]:
        return (
            *common(folder), f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", f"--server-id={server_id}",
            "--skip-networking", *row_binlog(), *durability_for_speed(), "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
            *extra,
        )  # fmt: skip

    with run_private("MySQL", install=lambda folder: (*common(folder), "--initialize-insecure"), serve=serve) as server:
        yield server


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
