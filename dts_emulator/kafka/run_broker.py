"""``python -m dts_emulator.kafka.run_broker``: a Kafka broker in the foreground, for trying things out."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import click

from dts_emulator.errors import EmulatorError
from dts_emulator.kafka.private_broker import USER, private_broker
from dts_emulator.machine.signals import ended_by_signals


@click.command(name="python -m dts_emulator.kafka.run_broker")
@click.option("--topic", default="dts", show_default=True, help="A topic to make, if it is not there.")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1))
@click.option(
    "--user", default=USER, show_default=True, help="Of SCRAM-SHA-512 and PLAIN; its password is made anew each time."
)
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Keeps the messages for the next time."
)
def main(topic: str, partitions: int, user: str, folder: Path | None) -> None:
    """Run a broker with a topic until Ctrl-C, and say how to reach it."""
    ended = ended_by_signals()
    try:
        with private_broker(folder, users={user: secrets.token_urlsafe(12)}) as broker:
            broker.ensure_topic(topic, partitions)
            click.echo(
                f"topic           {topic}, {partitions} partitions\n"
                f"PLAINTEXT       {broker.plain}\n"
                f"SASL_PLAINTEXT  {broker.sasl_plain}\n"
                f"SASL_SSL        {broker.sasl_ssl}\n"
                f"SSL             {broker.ssl}\n"
                f"user            {broker.user}\n"
                f"password        {broker.password}\n"
                f"certificate     {broker.ca_file}\n"
                "Ctrl-C stops it."
            )
            ended.wait()
    except EmulatorError as error:
        click.echo(str(error), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
