"""``python -m dts_emulator``: record the binlog of a running MariaDB as a capture.

    python -m dts_emulator --socket /run/mysqld/mysqld.sock --out ./capture --partitions 4
    python -m dts_emulator --socket /run/mysqld/mysqld.sock --out ./capture --format drs-json-c

The server must write ``binlog_format=ROW`` with ``binlog_row_image=FULL`` and ``binlog_row_metadata=FULL``, and its binlogs
must reach back to the CREATE statement of every table in them. A second, private MariaDB is started for as long as the
recording takes, to replay that DDL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from dts_emulator.canal.canal_options import CanalOptions
from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.errors import EmulatorError
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from dts_emulator.source.server import Server
from dts_emulator.source.server_options import server_options
from dts_emulator.tasks.recording import record
from dts_emulator.tasks.vendor_tasks import FORMATS, options_of


def counted(messages: Iterable[Message], counts: list[int], topics: set[str]) -> Iterator[Message]:
    """Yield the messages as they come, and add to ``counts`` (messages, bytes) and ``topics`` on the way."""
    for message in messages:
        topics.update(filter(None, [message.topic]))
        counts[0] += 1
        counts[1] += len(message.value)
        yield message


def _zone(_context: click.Context, _parameter: click.Parameter, text: str) -> tzinfo:
    """Return the time zone of ``+08:00`` or of an IANA name, ``Asia/Shanghai``.

    Raises:
        click.BadParameter: The text is neither.
    """
    try:
        zone = datetime.strptime(text, "%z").tzinfo if text.startswith(("+", "-")) else ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        zone = None
    if zone is None:
        raise click.BadParameter("write an offset, +08:00, or a name, Asia/Shanghai", param_hint="--source-time-zone")
    return zone


def _seconds(_context: click.Context, _parameter: click.Parameter, until: datetime | None) -> int | None:
    """Return a time of UTC in seconds since the epoch."""
    return None if until is None else int(until.replace(tzinfo=UTC).timestamp())


def _number(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    return int(text)


@click.command(help="Record the binlog of a running MariaDB as a capture.")
@server_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The capture's folder.")
@click.option("--format", "chosen", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option(
    "--topic",
    help=f"Default: {DtsOptions().topic}; {DrsOptions().topic} for the formats of DRS; {CanalOptions().topic} for Canal.",
)
@click.option("--partitions", type=click.Choice(["1", "4", "8"]), default="1", callback=_number, show_default=True)
@click.option("--partitioning", type=click.Choice(["table", "table+key"]), default="table+key", show_default=True)
@click.option("--max-message-bytes", default=DtsOptions().max_message_bytes, show_default=True)
@click.option(
    "--partition-policy",
    type=click.Choice(["0", "1", "2"]),
    default="0",
    callback=_number,
    show_default=True,
    help="The formats of DRS, canal-json: by table, all to partition 0, or by primary key.",
)
@click.option(
    "--topic-policy",
    type=click.Choice(["0", "1", "2", "3"]),
    default="0",
    callback=_number,
    show_default=True,
    help="The formats of DRS: one topic, or one for each table, each database, each database and schema.",
)
@click.option(
    "--topic-template",
    help="The formats of DRS: the names of topics, $database$-$tablename$. A statement's has an empty table name.",
)
@click.option(
    "--source-time-zone",
    default="+00:00",
    callback=_zone,
    show_default=True,
    help="drs-json-c, canal-json: of TIMESTAMP values.",
)
@click.option(
    "--framing",
    type=click.Choice(["raw", "confluent", "container"]),
    help="drs-avro: the frame of each record; raw by default.",
)
@click.option(
    "--full-load-until",
    type=click.DateTime(),
    callback=_seconds,
    help="The formats of DRS: the full load holds what was committed by then (UTC).",
)
@click.option(
    "--pause-every",
    type=click.IntRange(1),
    help="The formats of DRS, canal-json: pause and resume the task after so many messages.",
)
@click.option(
    "--repeat",
    "repeated",
    default=0,
    help="The formats of DRS, canal-json: messages that a resumed task sends again.",
)
def main(
    *,
    server: Server,
    out: Path,
    chosen: str,
    **given: Any,
) -> None:
    """Record, then say how many messages there are.

    Raises:
        click.ClickException: The server cannot be read.
    """
    options = options_of(chosen, given)
    counts, topics = [0, 0], set[str]()
    try:
        files = write_capture(counted(record(server, options), counts, topics), out, topic=options.topic)
    except EmulatorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{counts[0]} messages, {counts[1] / 1e6:.1f} MB of values, in {len(files)} files in {out}")
    if topics:
        written = ", ".join(f"{topic}: {given['partitions']}" for topic in sorted(topics))
        click.echo(f"below capture: topics: {{{written}}}")


if __name__ == "__main__":
    main()
