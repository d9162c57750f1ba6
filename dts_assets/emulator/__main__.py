"""``python -m dts_assets.emulator``: record the binlog of a running MariaDB as a capture.

    python -m dts_assets.emulator --socket /run/mysqld/mysqld.sock --out ./capture --partitions 4

The server must write ``binlog_format=ROW`` with ``binlog_row_image=FULL`` and ``binlog_row_metadata=FULL``, and its binlogs
must reach back to the CREATE statement of every table in them. A second, private MariaDB is started for as long as the
recording takes, to replay that DDL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dts_assets.emulator.capture import write_capture
from dts_assets.emulator.errors import EmulatorError
from dts_assets.emulator.options import EmulatorOptions
from dts_assets.emulator.producer import Message
from dts_assets.emulator.recording import record
from dts_assets.emulator.server import Server


def counted(messages: Iterable[Message], counts: list[int]) -> Iterator[Message]:
    """The messages as they come, adding to ``counts`` (messages, bytes) on the way."""
    for message in messages:
        counts[0] += 1
        counts[1] += len(message.value)
        yield message


@click.command(help="Record the binlog of a running MariaDB as a capture.")
@click.option("--socket", type=click.Path(path_type=Path), help="The server's socket; else --host and --port.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=3306, show_default=True)
@click.option("--user", default="root", show_default=True)
@click.option("--password-file", type=click.File(), help="A file whose first line is the password.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The capture's folder.")
@click.option("--topic", default=EmulatorOptions().topic, show_default=True)
@click.option("--partitions", type=click.Choice(["1", "4", "8"]), default="1", show_default=True)
@click.option("--partitioning", type=click.Choice(["table", "table+key"]), default="table+key", show_default=True)
@click.option("--max-message-bytes", default=EmulatorOptions().max_message_bytes, show_default=True)
def main(
    *,
    socket: Path | None,
    host: str,
    port: int,
    user: str,
    password_file: Iterable[str] | None,
    out: Path,
    topic: str,
    partitions: str,
    partitioning: str,
    max_message_bytes: int,
) -> None:
    """Record, then say what was recorded."""
    password = "" if password_file is None else next(iter(password_file), "").rstrip("\n")
    server = Server(socket=socket, host=host, port=port, user=user, password=password)
    options = EmulatorOptions(
        topic=topic,
        partitions=int(partitions),
        partitioning="table" if partitioning == "table" else "table+key",
        max_message_bytes=max_message_bytes,
    )
    counts = [0, 0]
    try:
        files = write_capture(counted(record(server, options), counts), out, topic=topic)
    except EmulatorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{counts[0]} messages, {counts[1] / 1e6:.1f} MB of values, in {len(files)} files in {out}")


if __name__ == "__main__":
    main()
