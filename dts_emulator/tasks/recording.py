"""A recording: a server's binlogs read from end to end by one emulated task."""

from __future__ import annotations

from collections.abc import Iterator

from dts_emulator.messages.message import Message
from dts_emulator.source.binlog import read_transactions
from dts_emulator.source.private_mysql import private_twin
from dts_emulator.source.server import Server
from dts_emulator.source.source_schema import ReplayedCatalog
from dts_emulator.tasks.vendor_tasks import TaskOptions, vendor_of

_HISTORY_ID = 4_000_000_002


def record(server: Server, options: TaskOptions, *, until: int | None = None) -> Iterator[Message]:
    """Yield the messages that a task with these options sends for everything in the server's binlogs.

    The options say which vendor's task it is. ``until`` is the time in seconds since the epoch up to which CHECKPOINTs and
    HEARTBEATs go on, where the vendor sends them.

    Raises:
        EmulatorError: The server cannot be read, or the second one does not start.
    """
    server.connect().close()  # before the second server is started, which takes a second or two
    with private_twin(server, server_id=_HISTORY_ID) as history, history.connect() as connection:
        transactions = read_transactions(server, ReplayedCatalog(connection))
        yield from vendor_of(options).recording(transactions, options, until)
