"""The command ``dts-assets spark-server``, a Spark Connect server in the foreground that runs share."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from dts_assets.cli.main import config_option, settings_of
from dts_assets.flows.pipeline import lake_location
from dts_assets.store.connect import serve


@click.command("spark-server")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=15002, show_default=True, help="0: any port that is free."
)
@click.option("--master", help="The Spark master. Default: the master of the configuration, else local[2].")
@click.option("--end-with-input", is_flag=True, hidden=True, help="End when standard input does.")
@config_option
def spark_server(port: int, master: str | None, end_with_input: bool, config: Path | None) -> None:
    """Keep a Spark server running for the runs of this lake, until Ctrl-C.

    Put its address, which is printed, into `spark: {remote: ...}` of the configuration.
    """
    settings = settings_of(config)
    ended = threading.Event()

    def end(*_: Any) -> None:
        ended.set()

    with serve(
        lake_location(settings),
        dict(settings.spark.conf),
        master=master or settings.spark.master or "local[2]",
        port=port,
    ) as address:
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, end)
        click.echo(address)
        sys.stdout.flush()
        if end_with_input:
            threading.Thread(target=lambda: end(sys.stdin.read()), daemon=True).start()
        ended.wait()
