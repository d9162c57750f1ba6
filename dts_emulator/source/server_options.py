"""The command-line options that name a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dts_emulator.source.server import Server


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the options that name a server; it gets them as ``server``."""

    @click.option("--socket", type=click.Path(path_type=Path), help="The server's socket; without one, host and port.")
    @click.option("--host", default="127.0.0.1", show_default=True)
    @click.option("--port", default=3306, show_default=True)
    @click.option("--user", default="root", show_default=True)
    @click.option("--password-file", type=click.File(), help="A file whose first line is the password.")
    @wraps(command)
    def with_server(
        *, socket: Path | None, host: str, port: int, user: str, password_file: Iterable[str] | None, **given: Any
    ) -> None:
        password = "" if password_file is None else next(iter(password_file), "").rstrip("\n")
        command(server=Server(socket=socket, host=host, port=port, user=user, password=password), **given)

    return with_server
