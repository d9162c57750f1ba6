"""The address of a Spark in ``spark.master`` or ``spark.remote``: where its tasks run, and who answers."""

from __future__ import annotations

import re

_HERE = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_STANDALONE, _KUBERNETES, _CONNECT = "spark://", "k8s://", "sc://"
_HTTPS, _OF_SERVERS = 443, 15002


def runs_here(master: str) -> bool:
    """Return whether the tasks of a master run in processes of the driver itself.

    They do for ``local[2]``. For ``local-cluster[2,1,1024]`` they do not: its executors are processes of their own.
    """
    return _HERE.fullmatch(master) is not None


def is_connect(master: str) -> bool:
    """Return whether an address is that of a Spark Connect server: ``sc://host:15002``."""
    return master.startswith(_CONNECT)


def without_parameters(master: str) -> str:
    """Return an address as it may be shown; a Spark Connect server's may end in a token."""
    return master.partition("/;")[0] if is_connect(master) else master


def is_on_this_machine(master: str) -> bool:
    """Return whether all processes of a master run on this machine, as those of ``local-cluster[2,1,1024]`` do."""
    return runs_here(master) or master.startswith("local-cluster[")


def local_cores(master: str, *, here: int) -> int | None:
    """Return the number of tasks that a local master runs at once; None for all others.

    ``here`` is the number of cores of this machine.
    """
    found = _HERE.fullmatch(master)
    if found is None:
        return None
    return here if found.group(1) == "*" else int(found.group(1) or 1)


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports at which a cluster is asked for executors: ``(("host", 7077),)``.

    Those of a Spark Connect server are among them. There are several for a standalone cluster with masters in reserve. There is
    none where the address names none, as ``yarn``.
    """
    if master.startswith(_STANDALONE):
        found = [_host_and_port(one) for one in master.removeprefix(_STANDALONE).split(",")]
    elif is_connect(master):
        found = [_host_and_port(master.removeprefix(_CONNECT).partition("/")[0], _OF_SERVERS)]
    elif master.startswith(_KUBERNETES):
        server = master.removeprefix(_KUBERNETES)
        default = 80 if server.startswith("http://") else _HTTPS
        found = [_host_and_port(re.sub(r"^https?://", "", server).partition("/")[0], default)]
    else:
        found = []
    return tuple(one for one in found if one is not None)


def _host_and_port(text: str, default: int | None = None) -> tuple[str, int] | None:
    """Return the parts of ``host:port``; None if they are no address."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:\s]+)(?::(\d{1,5}))?", text.strip())
    if found is None or (port := int(found.group(2) or default or 0)) not in range(1, 65536):
        return None
    return found.group(1).strip("[]"), port
