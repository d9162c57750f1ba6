"""``python -m dts_emulator.workload``: random transactions on a running MariaDB, at a steady rate.

    python -m dts_emulator.workload --socket /run/mysqld/mysqld.sock --rate 500 --log commits.jsonl

One connection, one round trip per transaction. With the same seed the transactions are the same, however fast they go. Started
again on the same database, it goes on with what it finds there.

About five times a second, right after a commit, a line is added to the log::

    {"time": 1732193848.12, "rows": 51230, "gtid": "6f..:812", "file": "mysql-bin.000001", "position": 812345}

``rows`` counts row changes committed so far, those of earlier runs with the same log among them, but not the rows that tables
begin with; ``gtid`` is spelled as the messages spell it; ``file`` and ``position`` are where the binlog ended. Nobody else should
write to the server.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click
import pymysql
from pymysql.constants import CLIENT

from dts_emulator.errors import EmulatorError, ServerUnavailable
from dts_emulator.machine.signals import ended_by_signals
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.server import Server
from dts_emulator.source.server_options import server_options
from dts_emulator.workload.transactions import FIRST_ROWS, Transactions
from dts_emulator.workload.workload_tables import ACCOUNTS, Table, open_bank, table_number

LOG_SECONDS = 0.2
"""Between two lines of the log."""

_DDL_SECONDS = 20
"""At the set rate, between two statements that change tables."""


@dataclass(slots=True)
class _Log:
    """The file of commits; nothing without one."""

    path: Path | None
    rows: int = 0

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            whole, _, _ = self.path.read_bytes().rpartition(b"\n")
            self.path.write_bytes(whole + b"\n" if whole else b"")  # an earlier run may have been killed in a line
            last = whole.rpartition(b"\n")[2]
            self.rows = int(json.loads(last)["rows"]) if last else 0

    def write(self, session: Session) -> None:
        if self.path is not None:
            gtid, file, position = session.position()
            said = {"time": time.time(), "rows": self.rows, "gtid": gtid, "file": file, "position": position}
            with self.path.open("a", encoding="utf-8") as file_:
                file_.write(json.dumps(said) + "\n")


class Session:
    """A connection that sends several statements at once.

    Raises:
        ServerUnavailable: There is no server.
    """

    def __init__(self, server: Server) -> None:
        server.connect().close()  # says what is wrong if there is no server
        self._connection = pymysql.connect(
            **server.address, charset="utf8mb4", autocommit=True, client_flag=CLIENT.MULTI_STATEMENTS,
            init_command="SET time_zone = '+00:00'",
        )  # fmt: skip

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def run(self, statements: Iterable[str]) -> int:
        """Run statements in one round trip; return the number of rows they changed.

        Raises:
            ServerUnavailable: The server refuses a statement, or has gone.
        """
        try:
            with self._connection.cursor() as cursor:
                rows = cursor.execute(";".join(statements))
                while cursor.nextset():
                    rows += cursor.rowcount
        except pymysql.err.OperationalError as error:
            raise ServerUnavailable(f"MariaDB did not do what it was asked: {error.args[-1]}") from error
        return int(rows)

    def transaction(self, statements: Sequence[str]) -> int:
        """Run statements as one transaction; how many rows they changed."""
        return self.run(["BEGIN", *statements, "COMMIT"])

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows that a statement gives."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def position(self) -> tuple[str, str, int]:
        """Return the GTID of the session's last transaction, as messages spell it, and the binlog's end."""
        ((last,),) = self.rows("SELECT @@last_gtid")
        ((file, position, *_),) = self.rows("SHOW MASTER STATUS")
        gtid = str(Gtid.parse(str(last))) if last else ""
        return gtid, str(file), int(str(position))


def prepare(session: Session, database: str, tables: int, random: Random) -> list[Table]:
    """Make the database with its tables, where they are not there, and return the tables as they stand.

    There are ``tables`` in all, the bank's two among them, which are not returned.
    """
    session.run([f"CREATE DATABASE IF NOT EXISTS {database}", f"USE {database}", *open_bank()])
    there = {str(name) for (name,) in session.rows("SHOW TABLES")}
    made = []
    for number in range(max(tables, len(there)) - len(ACCOUNTS)):
        table = table_number(number)
        if table.name in there:
            columns = [str(row[0]) for row in session.rows(f"SHOW COLUMNS FROM {table.name}")]
            keys = [row[0] for row in session.rows(f"SELECT DISTINCT id FROM {table.name}")]
            table.take_over(columns, [key if isinstance(key, int) else str(key) for key in keys])
        else:
            session.run([table.create])
        if not table.keys:
            session.transaction([table.insert(random, FIRST_ROWS)])
        made.append(table)
    return made


def work(
    session: Session, transactions: Iterable[list[str]], log: _Log, *, rate: float, ended: threading.Event
) -> None:
    """Run transactions at ``rate`` row changes per second until ``ended``.

    What was missed for more than a second is not made up.
    """
    begun, done, logged = time.monotonic(), 0, 0.0
    for statements in transactions:
        ahead = done / rate - (time.monotonic() - begun)
        if ahead > 0:
            ended.wait(ahead)
        elif ahead < -1:
            begun -= ahead
        if ended.is_set():
            break
        rows = session.transaction(statements)
        done += rows
        log.rows += rows
        now = time.monotonic()
        if now - logged >= LOG_SECONDS:
            log.write(session)
            logged = now
    log.write(session)


@click.command(name="python -m dts_emulator.workload", help=__doc__, context_settings={"show_default": True})
@server_options
@click.option("--database", default="busy")
@click.option("--tables", default=20, type=click.IntRange(2), help="How many tables, two of a bank among them.")
@click.option("--rate", default=500.0, type=click.FloatRange(0, min_open=True), help="Row changes per second.")
@click.option("--seconds", type=float, help="Ends after so long; without it, at SIGTERM or Ctrl-C.")
@click.option("--seed", default=1)
@click.option("--most-rows", default=1000, type=click.IntRange(10), help="Of a table, about.")
@click.option("--ddl", is_flag=True, help=f"Adds a column or a table about every {_DDL_SECONDS} seconds.")
@click.option(
    "--log", "log_file", type=click.Path(dir_okay=False, path_type=Path), help="Where commits are written down."
)
def main(
    *,
    server: Server,
    database: str,
    tables: int,
    rate: float,
    seconds: float | None,
    seed: int,
    most_rows: int,
    ddl: bool,
    log_file: Path | None,
) -> None:
    """Run the command."""
    ended = ended_by_signals()
    if seconds is not None:
        timer = threading.Timer(seconds, ended.set)
        timer.daemon = True
        timer.start()
    random = Random(seed)
    try:
        session = Session(server)
        made = prepare(session, database, tables, random)
        log = _Log(log_file)
        every = int(rate * _DDL_SECONDS) if ddl else None
        work(session, Transactions(made, random, most_rows=most_rows, ddl_every=every), log, rate=rate, ended=ended)
    except EmulatorError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    session.close()


if __name__ == "__main__":
    main()
