"""A recording: a server's binlogs read from end to end by one emulated task."""

from __future__ import annotations

from collections.abc import Iterator

from dts_assets.emulator.binlog import read_transactions
from dts_assets.emulator.drs_options import DrsOptions
from dts_assets.emulator.drs_producer import produce_drs
from dts_assets.emulator.options import EmulatorOptions
from dts_assets.emulator.producer import Message, produce
from dts_assets.emulator.schema import ReplayedCatalog
from dts_assets.emulator.server import Server, private_server

_HISTORY_ID = 4_000_000_002


def record(server: Server, options: EmulatorOptions | DrsOptions, *, until: int | None = None) -> Iterator[Message]:
    """The messages that a task with these options sends for everything in the server's binlogs.

    The options say which vendor's task it is. ``until``: seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on,
    where the vendor sends them. Raises EmulatorError.
    """
    server.connect().close()  # before the second server is started, which takes a second or two
    with private_server(server_id=_HISTORY_ID) as history, history.connect() as connection:
        transactions = read_transactions(server, ReplayedCatalog(connection))
        if isinstance(options, DrsOptions):
            yield from produce_drs(transactions, options)
        else:
            yield from produce(transactions, options, until=until)
