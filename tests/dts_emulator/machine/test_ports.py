"""A port is free until something listens on it."""

from __future__ import annotations

import socket

from dts_emulator.machine.ports import HOST, free_port, listens


def test_a_free_port_is_one_on_which_nothing_listens() -> None:
    port = free_port()
    assert not listens(port)
    with socket.socket() as server:
        server.bind((HOST, port))
        server.listen()
        assert listens(port)
