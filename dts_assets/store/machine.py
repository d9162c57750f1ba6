"""The demands of Spark and servers: a Java, a free port, a way to the cluster.

Nothing is started that stays.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

from dts_assets.errors.machine import MissingJavaError, PortInUseError
from dts_assets.errors.sources import DatabaseError
from dts_assets.errors.spark import UnreachableMasterError
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.spark_masters import addresses, is_connect, is_on_this_machine, without_parameters
from dts_assets.settings.environment import java_home

NEEDED_JAVA = 17
_ANSWER_SECONDS = 20
_CONNECT_SECONDS = 4.0


def require_java() -> None:
    """Raise an error unless the Java that Spark would start is there and new enough.

    Raises:
        MissingJavaError: There is no Java, it does not start, or it is too old.
    """
    home = java_home()
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise MissingJavaError(needed=NEEDED_JAVA)
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise MissingJavaError(needed=NEEDED_JAVA, home=home) from None
    found = java_version(shown.stderr + shown.stdout)
    if found is None or found < NEEDED_JAVA:
        raise MissingJavaError(needed=NEEDED_JAVA, found=f"Java {found}" if found else None, home=home)


def java_version(shown: str) -> int | None:
    """Return the major version in the output of ``java -version``; None if it names no version.

    The version is 17 for ``"17.0.15"`` and 8 for ``"1.8.0_402"``.
    """
    version = re.search(r'version "(\d+)(?:\.(\d+))?', shown)
    if version is None:
        return None
    first, second = version.groups()
    return int(second) if first == "1" and second else int(first)


def require_free_port(port: int, *, host: str = "127.0.0.1", what: str = "the server") -> None:
    """Raise an error unless a server can listen on a port of this machine. Port 0 stands for any that is free.

    Raises:
        PortInUseError: Another program listens there, or this user may not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port just left is free
        try:
            probe.bind((host, port))
        except PermissionError:
            raise PortInUseError(port, what=what, reserved=True) from None
        except OSError:
            raise PortInUseError(port, what=what) from None


def require_master(master: str) -> None:
    """Refuse a cluster, or a Spark Connect server, to which no connection can be made.

    Spark would try for a minute, and for ten where it is a server.

    Raises:
        UnreachableMasterError: Nobody listens at the addresses.
    """
    reasons = []
    for address in addresses(master):
        try:
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append((error.strerror or str(error) or type(error).__name__).lower())
        else:
            return
    if reasons:
        raise UnreachableMasterError(without_parameters(master), reasons[-1])


def require_near(place: DatabasePlace, master: str) -> None:
    """Refuse a database's socket on this machine where tasks of Spark run on others.

    A Spark Connect server may be on this one.

    Raises:
        DatabaseError: The master's executors are on other machines.
    """
    if place.socket is not None and not (is_on_this_machine(master) or is_connect(master)):
        what = "its socket is on this machine, and Spark's executors are not; name host and port in the URL"
        raise DatabaseError(str(place), what)
