"""``python -m dts_emulator``: record the binlog of a running MariaDB as a capture.

    python -m dts_emulator --socket /run/mysqld/mysqld.sock --out ./capture --partitions 4
    python -m dts_emulator --socket /run/mysqld/mysqld.sock --out ./capture --format drs-json-c

The server must write ``binlog_format=ROW`` with ``binlog_row_image=FULL`` and ``binlog_row_metadata=FULL``, and its binlogs
must reach back to the CREATE statement of every table in them. A second, private MariaDB is started for as long as the
recording takes, to replay that DDL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
from click.core import ParameterSource

from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.errors import EmulatorError
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from dts_emulator.source.server import Server
from dts_emulator.source.server_options import server_options
from dts_emulator.tasks.recording import record


def counted(messages: Iterable[Message], counts: list[int]) -> Iterator[Message]:
    """The messages as they come, adding to ``counts`` (messages, bytes) on the way."""
    for message in messages:
        counts[0] += 1
        counts[1] += len(message.value)
        yield message


def _zone(text: str) -> tzinfo:
    """``+08:00`` or an IANA name, ``Asia/Shanghai``, as a time zone."""
    try:
        zone = datetime.strptime(text, "%z").tzinfo if text.startswith(("+", "-")) else ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        zone = None
    if zone is None:
        raise click.BadParameter("write an offset, +08:00, or a name, Asia/Shanghai", param_hint="--source-time-zone")
    return zone


_OF_FORMAT = {
    "dts-protobuf": ("partitioning", "max_message_bytes"),
    "drs-json-c": ("partition_policy", "source_time_zone", "full_load_until", "pause_every", "repeat"),
}
"""Parameters that one format alone has."""


def _options(chosen: str, given: Mapping[str, Any]) -> DtsOptions | DrsOptions:
    """The options of a format's task. Raises UsageError for a parameter that is another format's."""
    context = click.get_current_context()
    for name, parameters in _OF_FORMAT.items():
        for parameter in parameters:
            if name != chosen and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{parameter.replace('_', '-')} is for --format {name}, not for {chosen}")
    if chosen == "drs-json-c":
        return DrsOptions(
            topic=given["topic"] or DrsOptions().topic,
            partitions=int(given["partitions"]),
            partition_policy=int(given["partition_policy"]),  # type: ignore[arg-type]  # one of the choices
            source_time_zone=_zone(given["source_time_zone"]),
            full_load_until=given["full_load_until"] and int(given["full_load_until"].replace(tzinfo=UTC).timestamp()),
            pause_every=given["pause_every"],
            repeated=given["repeat"],
        )
    return DtsOptions(
        topic=given["topic"] or DtsOptions().topic,
        partitions=int(given["partitions"]),
        partitioning="table" if given["partitioning"] == "table" else "table+key",
        max_message_bytes=given["max_message_bytes"],
    )


@click.command(help="Record the binlog of a running MariaDB as a capture.")
@server_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The capture's folder.")
@click.option("--format", "chosen", type=click.Choice(list(_OF_FORMAT)), default="dts-protobuf", show_default=True)
@click.option("--topic", help=f"Default: {DtsOptions().topic}, {DrsOptions().topic} for drs-json-c.")
@click.option("--partitions", type=click.Choice(["1", "4", "8"]), default="1", show_default=True)
@click.option("--partitioning", type=click.Choice(["table", "table+key"]), default="table+key", show_default=True)
@click.option("--max-message-bytes", default=DtsOptions().max_message_bytes, show_default=True)
@click.option(
    "--partition-policy",
    type=click.Choice(["0", "1", "2"]),
    default="0",
    show_default=True,
    help="drs-json-c: by table, all to partition 0, or by primary key.",
)
@click.option("--source-time-zone", default="+00:00", show_default=True, help="drs-json-c: of TIMESTAMP values.")
@click.option(
    "--full-load-until", type=click.DateTime(), help="drs-json-c: what was committed by then (UTC) is the full load."
)
@click.option(
    "--pause-every", type=click.IntRange(1), help="drs-json-c: pause and resume the task after so many messages."
)
@click.option("--repeat", default=0, help="drs-json-c: messages sent again, with their ids, by a task that is resumed.")
def main(
    *,
    server: Server,
    out: Path,
    chosen: str,
    **given: Any,
) -> None:
    """Record, then say what was recorded."""
    try:
        options = _options(chosen, given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    counts = [0, 0]
    try:
        files = write_capture(counted(record(server, options), counts), out, topic=options.topic)
    except EmulatorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{counts[0]} messages, {counts[1] / 1e6:.1f} MB of values, in {len(files)} files in {out}")


if __name__ == "__main__":
    main()
