"""The command that makes ``examples/shop`` and ``examples/shop.expected`` again: ``python -m examples.shop_maker``.

A private MariaDB is started for the shop and gone afterwards.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.judge.dump import dump_database
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import private_server
from dts_emulator.tasks.recording import record
from examples.shop_maker.day import END, work
from examples.shop_maker.tables import DATABASE

OPTIONS = DtsOptions(
    topic="topic-subs-shop-cdb",
    partitions=4,
    partitioning="table+key",
    max_message_bytes=256 * 1024,
    bytes_per_second=256 * 1024,
    ddl_execution_seconds=0,
)
"""Small messages on a slow line: a small capture has many fragments, seconds apart, like a large one."""

_FOLDER = Path(__file__).parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workload, write the capture and the dump, and print their sizes."""
    ArgumentParser("python -m examples.shop_maker", description=__doc__).parse_args(arguments)
    with private_server(server_id=11) as source:
        work(source)
        messages = record(source, OPTIONS, until=END)
        capture = write_capture(messages, _FOLDER / "shop", topic=OPTIONS.topic, messages_per_file=10_000)
        dumped = dump_database(source, DATABASE, _FOLDER / "shop.expected")
    size = sum(path.stat().st_size for path in capture)
    sys.stdout.write(f"{len(capture)} files, {size / 1e6:.1f} MB, in examples/shop; {len(dumped)} tables dumped\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
