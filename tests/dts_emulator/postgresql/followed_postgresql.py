"""A PostgreSQL that is followed into a lake by way of DRS JSON or DTS Protobuf, its own content the judge of the snapshots."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2  # type: ignore[import-untyped]
from psycopg2 import sql

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.tables import TableId
from dts_emulator.drs.postgresql_task import PostgresqlOptions, produce_from_postgresql
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions
from dts_emulator.dts.postgresql_task import produce_from_postgresql as dts_messages
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from dts_emulator.postgresql.changes import TableColumns, Transaction
from dts_emulator.postgresql.server import private_postgres
from dts_emulator.postgresql.slot import LOGICAL, Slot
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

Rows = Counter[tuple[Any, ...]]

READ: Mapping[str, Callable[[str], Any]] = {
    "smallint": int, "integer": int, "bigint": int, "real": lambda text: _number(float(np.float32(text))),
    "double precision": lambda text: _number(float(text)),
    "boolean": lambda text: {"t": True, "f": False}[text], "date": date.fromisoformat,
    "timestamp without time zone": datetime.fromisoformat,
    "timestamp with time zone": lambda text: datetime.fromisoformat(text).astimezone(UTC),
    "bytea": lambda text: bytes.fromhex(text.removeprefix("\\x")),
}  # fmt: skip
"""The values of PostgreSQL's texts by type, read by Python; texts of all other types are their values."""

_DATABASE = "followed"
_DECIMAL = re.compile(r"numeric\((\d+),(-?\d+)\)")


def _number(value: Any) -> Any:
    """A number that is equal to itself, also where it is none."""
    return "NaN" if isinstance(value, float) and value != value else value


@dataclass
class Followed:
    """A server with a slot, and what the slot has told."""

    connection: Any
    slot: Slot
    transactions: list[Transaction] = field(default_factory=list)
    tables: dict[tuple[str, str], TableColumns] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)

    def run(self, *statements: str | sql.Composable) -> None:
        """Run statements, each a transaction of its own."""
        cursor = self.connection.cursor()
        for one in statements:
            cursor.execute(one)

    def read(self) -> None:
        """Take what was committed, with the columns that tables have now; a minute passes between two transactions."""
        self.tables |= self.slot.tables()
        for one in self.slot.read():
            at = START + timedelta(minutes=len(self.transactions))
            self.transactions.append(replace(one, committed=at))

    def rows(self, schema: str, table: str, *, lengths: bool = False) -> Rows:
        """The rows of a table as the lake would have them; with ``lengths`` it knows precisions."""
        known = self.slot.tables()[schema, table]
        columns = known.columns
        cursor = self.connection.cursor()
        # A cast to text is another text than the type's own: that of char(n) has no blanks at its end.
        shown = sql.SQL("CASE WHEN {0} IS NOT DISTINCT FROM NULL THEN NULL ELSE format('%%s', {0}) END")
        texts = sql.SQL(", ").join(shown.format(sql.Identifier(name)) for name, _ in columns)
        cursor.execute(sql.SQL("SELECT {} FROM ONLY {}").format(texts, sql.Identifier(schema, table)), ())
        kinds = known.declared if lengths else [kind for _, kind in columns]
        return Counter(tuple(map(_value, row, kinds)) for row in cursor.fetchall())


def _value(text: str | None, kind: str) -> Any:
    if text is None:
        return text
    try:
        if decimal := _DECIMAL.fullmatch(kind):
            return _decimal(text) if int(decimal.group(2)) >= 0 else text
        return READ[kind](text) if kind in READ else text
    except ValueError:
        return ("no value", text)


def _decimal(text: str) -> Decimal:
    if not Decimal(text).is_finite():
        raise ValueError(text)
    return Decimal(text)


@contextmanager
def followed_server() -> Iterator[str]:
    """The URL of a server whose databases can be followed, in a zone of its own."""
    with private_postgres(*LOGICAL, "timezone=Asia/Shanghai") as url:
        yield url


@contextmanager
def followed_postgresql(url: str) -> Iterator[Followed]:
    """An empty database of its own on a server, followed from its first statement on. There is one at a time."""
    server = psycopg2.connect(url)
    server.autocommit = True
    cursor = server.cursor()
    cursor.execute(f"DROP DATABASE IF EXISTS {_DATABASE}")
    cursor.execute(f"CREATE DATABASE {_DATABASE}")
    connection = psycopg2.connect(url, dbname=_DATABASE)
    connection.autocommit = True
    try:
        yield Followed(connection, Slot(connection))
    finally:
        connection.close()
        cursor.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        cursor.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)")
        server.close()


def recorded(
    followed: Followed, folder: Path, options: PostgresqlOptions | None = None, **subscription: Any
) -> Harness:
    """A subscription to what the slot has told, in windows of an hour, with nothing made of it yet."""
    chosen = options or PostgresqlOptions()
    messages = list(produce_from_postgresql(followed.transactions, followed.tables, chosen))
    write_capture(messages, folder / "capture", topic="one")
    last = max(message.timestamp for message in messages) / 1000
    end = datetime.fromtimestamp(last // 3600 * 3600, UTC) + HOUR
    return bench_in_process(folder, "postgresql").open(
        folder / "capture", format="drs-json", partitions=chosen.partitions,
        window={"every": HOUR, "start": START, "end": end}, tables={"include": ["*"]}, **subscription,
    )  # fmt: skip


def recorded_by_dts(
    followed: Followed,
    folder: Path,
    options: PostgresqlDtsOptions | None = None,
    *,
    then: tuple[int, PostgresqlDtsOptions] | None = None,
    **subscription: Any,
) -> Harness:
    """The same by way of DTS Protobuf, with CHECKPOINTs for a minute behind the last transaction.

    ``then`` are the number of a transaction, and what the task tells from there on.
    """
    chosen, told = options or PostgresqlDtsOptions(), followed.transactions
    until = int(told[-1].committed.timestamp()) + 60
    if then is None:
        messages = list(dts_messages(told, followed.tables, chosen, until=until))
    else:
        messages = list(dts_messages(told[: then[0]], followed.tables, chosen))
        behind = replace(then[1], first_offset=len(messages))
        messages += dts_messages(told[then[0] :], followed.tables, behind, until=until)
    write_capture(messages, folder / "capture", topic="one")
    last = max(message.timestamp for message in messages) / 1000
    end = datetime.fromtimestamp(last // 3600 * 3600, UTC) + HOUR
    return bench_in_process(folder, "postgresql").open(
        folder / "capture", format="dts-protobuf", partitions=chosen.partitions,
        window={"every": HOUR, "start": START, "end": end}, tables={"include": ["*"]}, **subscription,
    )  # fmt: skip


def snapshot_rows(harness: Harness, table: TableId, names: Sequence[str]) -> Rows:
    """The rows of a snapshot, with the source's text for values that no lake type holds."""
    found = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", table))
    if found is None:
        return Counter()
    shown = [(row, dict(row["_invalid"] or ())) for row in found.to_pylist()]
    named = {column.source_names[0]: column.name for column in known_tables(harness.pipeline)[table]}
    names = [named.get(name, name) for name in names]
    return Counter(
        tuple(("no value", invalid[name]) if name in invalid else _number(row[name]) for name in names)
        for row, invalid in shown
    )


def faults(harness: Harness, followed: Followed, *, lengths: bool = True) -> list[str]:
    """What differs between the snapshots and the server's tables, in words for people.

    DTS names no database, and its types may have their ``lengths``.
    """
    by_dts = harness.pipeline.settings.format == "dts-protobuf"
    database = "" if by_dts else "shop"
    lengths &= by_dts
    found = [f"quarantine: {row['reason']} {row['detail']}" for row in harness.rows("quarantine")]
    for (schema, table), columns in followed.slot.tables().items():
        names = [name for name, _ in columns.columns]
        at_server = followed.rows(schema, table, lengths=lengths)
        mine = snapshot_rows(harness, TableId(database, schema, table), names)
        if mine != at_server:
            found.append(f"{schema}.{table}: {dict(mine - at_server)} too many, {dict(at_server - mine)} missing")
    return found
