"""A Tencent DTS task from TDSQL PostgreSQL: decoded row changes in, messages of DTS Protobuf out.

Merging, cutting, numbering, CHECKPOINTs and HEARTBEATs are those of every task of the vendor. Where a task is restarted it reads
some transactions again, as a slot of logical decoding tells them again from the last place that was confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from dts_emulator.dts.dts_task import DtsTask
from dts_emulator.dts.postgresql_entries import PostgresqlEncoder, Tables
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions
from dts_emulator.messages.clocks import SECOND, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.postgresql.changes import Transaction


def produce_from_postgresql(
    transactions: Iterable[Transaction], tables: Tables, options: PostgresqlDtsOptions, *, until: int | None = None
) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions`` of some tables, in sending order.

    ``until`` is the time in seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on after the last transaction.
    """
    task = PostgresqlDtsTask(options)
    before: deque[Transaction] = deque(maxlen=options.reread)
    for number, one in enumerate(transactions, 1):
        yield from task.advance(int(one.committed.timestamp() * SECOND) + task.latency_ms * 1000)
        if options.restart_every is not None and number % options.restart_every == 0:
            yield from task.break_off(one, tables)
            for earlier in before:
                yield from task.send_changes(earlier, tables)
        yield from task.send_changes(one, tables)
        before.append(one)
    yield from task.flush()
    if until is not None and task.committed is not None:
        yield from task.advance(until * SECOND + task.latency_ms * 1000)


class PostgresqlDtsTask(DtsTask):
    """A task of the vendor that reads a PostgreSQL."""

    encoder: PostgresqlEncoder

    def __init__(self, options: PostgresqlDtsOptions) -> None:
        self._own = options
        super().__init__(options, SourceClock(options.bytes_per_second))

    def send_changes(self, transaction: Transaction, tables: Tables) -> Iterator[Message]:
        """Yield the messages of a transaction, as far as they do not wait for more to merge with."""
        for routed in self.encoder.changes(transaction, tables):
            yield from self._add(routed.partition, self._item(routed.entry))
        self.committed = self.encoder.end_of(transaction)
        if not self.options.linger_ms:
            yield from self.flush()

    def break_off(self, transaction: Transaction, tables: Tables) -> Iterator[Message]:
        """Yield the messages of the first half of a transaction, after which the task is restarted."""
        entries = len(transaction.changes) + 2
        for routed in islice(self.encoder.changes(transaction, tables), entries // 2):
            yield from self._add(routed.partition, self._item(routed.entry))
        yield from self.flush()

    def _new_encoder(self) -> PostgresqlEncoder:
        return PostgresqlEncoder(self._own)
