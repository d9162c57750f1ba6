"""A database session in simulated time: every transaction sets the clock first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from types import TracebackType

from dts_emulator.source.server import Server


class Session:
    """One connection to the shop's database. Times are seconds since the epoch."""

    def __init__(self, server: Server, database: str | None = None) -> None:
        self._connection = server.connect(database=database)
        # Without gap locks, so that a long transaction does not hold up the others.
        self.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def at(self, instant: float) -> None:
        """Set the session's clock; the server takes it for the times it writes and for the binlog."""
        self.run("SET TIMESTAMP = %s", Decimal(f"{instant:.3f}"))

    def run(self, sql: str, *values: object) -> int:
        """Run a statement and return the number of rows that it changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, values or None))

    def insert(
        self, table: str, rows: Sequence[Mapping[str, object]], *, verb: str = "INSERT", suffix: str = ""
    ) -> int:
        """Insert all rows by one statement; they name the same columns."""
        columns = ", ".join(f"`{name}`" for name in rows[0])
        marks = f"({', '.join(['%s'] * len(rows[0]))})"
        values = [value for row in rows for value in row.values()]
        return self.run(f"{verb} INTO {table} ({columns}) VALUES {', '.join([marks] * len(rows))} {suffix}", *values)

    @contextmanager
    def transaction(self, instant: float) -> Iterator[Session]:
        """Run the block as one transaction at one instant, committed at its end."""
        self.at(instant)
        self.run("BEGIN")
        yield self
        self.run("COMMIT")
