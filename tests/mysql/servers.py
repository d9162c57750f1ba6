"""A MySQL as tests ask it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dts_emulator.source.private_mysql import private_mysql
from dts_emulator.source.server import Server

WITH_MD5 = "INSTALL COMPONENT 'file://component_classic_hashing'"
"""Gives a server the function MD5, which MySQL has in a component since 9.6."""


@contextmanager
def summing_mysql(*, extra: tuple[str, ...] = ()) -> Iterator[Server]:
    """A MySQL that can sum rows."""
    with private_mysql(extra=extra) as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute(WITH_MD5)
        yield running
