"""A private PostgreSQL for one block, on a port of this machine and without a password.

Its data stand in a folder that goes away. It refuses to run as root, so root starts it as another account of the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dts_emulator.errors import ServerUnavailable
from dts_emulator.machine.ports import HOST, free_port
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

_ACCOUNTS = ("postgres", "nobody")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


@contextmanager
def private_postgres(*settings: str) -> Iterator[str]:
    """Yield the URL of an empty database, ``postgresql://dagster@127.0.0.1:<port>/postgres``.

    ``settings`` are further ones of the server, such as ``wal_level=logical``.

    Raises:
        ServerUnavailable: PostgreSQL is not installed, or does not come up.
    """
    folder = Path(tempfile.mkdtemp(prefix="dts-assets-"))
    port, data, account = free_port(), folder / "data", _account()
    process: subprocess.Popen[bytes] | None = None
    try:
        if account:
            shutil.chown(folder, account)
        initdb = [program("initdb"), "-D", str(data), "-U", "dagster", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        done = subprocess.run([*_as(account), *initdb], capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise ServerUnavailable(f"a private PostgreSQL could not be set up: {done.stderr.strip()}")
        wanted = (f"listen_addresses={HOST}", f"unix_socket_directories={folder}", "fsync=off", *settings)
        options = [word for one in wanted for word in ("-c", one)]
        server = [program("postgres"), "-D", str(data), "-p", str(port), *options]
        process = start_server([*_as(account, dies=True), *server], folder / "server.log")
        ready = [program("pg_isready"), "-q", "-h", HOST, "-p", str(port)]
        is_up = wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, seconds=_START_SECONDS)
        if not is_up:
            raise ServerUnavailable(f"PostgreSQL did not come up: {(folder / 'server.log').read_text().strip()}")
        yield f"postgresql://dagster@{HOST}:{port}/postgres"
    finally:
        if process is not None:
            stop_server(process, seconds=_STOP_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL.

    Debian keeps them out of the PATH, in a folder of each version.

    Raises:
        ServerUnavailable: It is not installed.
    """
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    found = shutil.which(name) or (str(newest[-1]) if newest else None)
    if found is None:
        raise ServerUnavailable(f"{name} is not installed: `make setup` installs PostgreSQL on Debian and Ubuntu")
    return found


def _account() -> str | None:
    """Return the account that the server runs as; None for that of this process."""
    if os.geteuid() != 0:
        return None
    there = {one.pw_name for one in pwd.getpwall()}
    return next(one for one in _ACCOUNTS if one in there)


def _as(account: str | None, *, dies: bool = False) -> list[str]:
    """Return the words before a command that run it as an account. ``dies`` ends it with this process, too."""
    if account is None:
        return []
    entry = pwd.getpwnam(account)
    changed = ["setpriv", "--reuid", str(entry.pw_uid), "--regid", str(entry.pw_gid), "--clear-groups"]
    return [*changed, *(["--pdeathsig", "TERM"] if dies else [])]
