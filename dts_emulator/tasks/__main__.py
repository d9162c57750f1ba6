"""``python -m dts_emulator.tasks``: an emulated task that follows a live MariaDB and sends its changes to Kafka.

    python -m dts_emulator.tasks --socket /run/mysqld/mysqld.sock --bootstrap-servers localhost:9092 --topic topic-subs

It begins with the server's oldest binlog, or where the checkpoint file says, and goes on until SIGTERM or Ctrl-C. The server must
write what a recording needs (``python -m dts_emulator --help``). A second, private MariaDB replays DDL here too: the
catalog of the live one may be ahead of the binlog, and a row event does not tell everything that its columns are.

SIGUSR1 pauses the task, SIGUSR2 resumes it. The checkpoint file is written every few seconds, for a moment up to which Kafka has
everything. So a task that was killed and is started again sends once more what came after it: under new offsets and new ``ps``
numbers, which go on from the last message of each partition, with the binlog positions that it had.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.errors import EmulatorError
from dts_emulator.kafka.topic_producer import Topic
from dts_emulator.machine.signals import ended_by_signals
from dts_emulator.source.server import Server
from dts_emulator.source.server_options import server_options
from dts_emulator.tasks.follower import Follower, WallClock, follow, jumping
from dts_emulator.tasks.vendor_tasks import FORMATS, VENDOR_TASKS, options_of


def _config(bootstrap: str, lines: Iterable[str]) -> dict[str, str]:
    """Return the client's settings from lines of ``KEY=VALUE``, without empty lines and comments.

    Raises:
        click.BadParameter: A line has no ``=``.
    """
    config = {"bootstrap.servers": bootstrap}
    for line in filter(None, map(str.strip, lines)):
        key, equals, value = line.partition("=")
        if not equals:
            raise click.BadParameter(
                "write KEY=VALUE", param_hint="--config"
            )  # without the line, which may be a secret
        if not line.startswith("#"):
            config[key.strip()] = value.strip()
    return config


_DTS = DtsOptions()


@click.command(name="python -m dts_emulator.tasks", help=__doc__, context_settings={"show_default": True})
@server_options
@click.option("--bootstrap-servers", required=True)
@click.option("--topic", required=True, help="Must be there, unless --topic-policy names others.")
@click.option("--partitions", default=1, type=click.IntRange(1), help="Of the topic.")
@click.option(
    "--config", multiple=True, metavar="KEY=VALUE", help="A setting of the Kafka client, in librdkafka's names."
)
@click.option(
    "--config-file", type=click.File(), help="A file of such settings, one in a line: the place for a password."
)
@click.option("--checkpoint", type=click.Path(dir_okay=False, path_type=Path), help="The task's own progress.")
@click.option("--format", "chosen", type=click.Choice(FORMATS), default=FORMATS[0])
@click.option(
    "--topic-policy",
    type=click.Choice(["0", "1", "2", "3"]),
    default="0",
    callback=lambda _context, _parameter, text: int(text),
    help="drs-json, drs-json-c: one topic, or one for each table, each database, each database and schema.",
)
@click.option("--topic-template", help="drs-json, drs-json-c: the names of topics, $database$-$tablename$.")
@click.option("--partitioning", type=click.Choice(["table", "table+key"]), default=_DTS.partitioning)
@click.option("--max-message-bytes", default=_DTS.max_message_bytes)
@click.option(
    "--linger-ms", default=_DTS.linger_ms, help="How long entries wait for more; 0: until their transaction ends."
)
@click.option("--latency-ms", default=0, type=click.IntRange(0), help="From reading a transaction to sending it.")
@click.option("--checkpoint-seconds", default=_DTS.checkpoint_seconds, help="Between two CHECKPOINTs in a partition.")
@click.option("--heartbeat-seconds", default=_DTS.heartbeat_seconds)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="At most so many messages per second.")
@click.option("--bytes-per-second", type=click.FloatRange(0, min_open=True), help="At most so many bytes per second.")
@click.option("--clock-jump", default=0.0, help="Message times jump so many seconds ahead, back, behind and back.")
@click.option("--clock-jump-every", default=10.0, help="Seconds between two jumps.")
def main(
    *,
    server: Server,
    bootstrap_servers: str,
    config: tuple[str, ...],
    config_file: Iterable[str] | None,
    checkpoint: Path | None,
    chosen: str,
    rate: float | None,
    bytes_per_second: float | None,
    clock_jump: float,
    clock_jump_every: float,
    **given: Any,
) -> None:
    """Run the command."""
    ended = ended_by_signals()
    clock = WallClock(ended, rate, bytes_per_second)
    settings = _config(bootstrap_servers, (*(config_file or ()), *config))
    skew = jumping(clock_jump, clock_jump_every) if clock_jump else None
    task = VENDOR_TASKS[chosen].following(options_of(chosen, given), clock)
    topic = Topic(given["topic"], given["partitions"], settings, ended, skew, several=bool(given["topic_policy"]))
    follower = Follower(task, topic, clock, checkpoint)
    _listen(follower)
    try:
        follow(server, follower, checkpoint)
    except EmulatorError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    click.echo(
        f"{follower.rows} row changes in {sum(follower.topic.sent)} messages with {time.process_time():.1f} s of processor time"
    )


def _listen(follower: Follower) -> None:
    """Let signals pause and resume the task."""

    def pause(on: bool) -> Callable[[int, object], None]:
        def listener(_number: int, _frame: object) -> None:
            follower.paused = on

        return listener

    signal.signal(signal.SIGUSR1, pause(True))
    signal.signal(signal.SIGUSR2, pause(False))


if __name__ == "__main__":
    main()
