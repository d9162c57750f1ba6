"""Ports of this machine."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Return whether something on this machine answers on a port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
