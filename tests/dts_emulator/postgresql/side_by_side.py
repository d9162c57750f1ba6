"""Transactions of a PostgreSQL that run side by side, so that some begin before others end; rows of a COPY come with them."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import psycopg2  # type: ignore[import-untyped]

from tests.dts_emulator.postgresql.followed_postgresql import Followed

SESSIONS = 3
MADE = (
    "CREATE TABLE counted (id int PRIMARY KEY, n int, big text)",
    "ALTER TABLE counted ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE bag (a int)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
)


def run_side_by_side(followed: Followed, random: Random, *, statements: int, has_bag: bool = True) -> None:
    """Run statements of several sessions in turn, each with rows of its own: nobody waits for another one."""
    followed.run(*MADE)
    sessions = [psycopg2.connect(followed.connection.dsn) for _ in range(SESSIONS)]
    try:
        for step in range(statements):
            number = random.randrange(SESSIONS)
            if random.random() < 0.25:
                sessions[number].rollback() if random.random() < 0.1 else sessions[number].commit()
            else:
                _statement(sessions[number].cursor(), random, number, step, has_bag=has_bag)
        for session in sessions:
            session.commit()
    finally:
        for session in sessions:
            session.close()


def _statement(cursor: Any, random: Random, session: int, step: int, *, has_bag: bool) -> None:
    key, mine = random.randrange(8) * SESSIONS + session, (session * 10, session * 10 + 9)
    match random.randrange(9 if has_bag else 6):
        case 0 | 1 | 2:
            statement = (
                "INSERT INTO counted VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET n = excluded.n + counted.n"
            )
            cursor.execute(statement, (key, step, "l" * 2500))
        case 3:
            cursor.execute("DELETE FROM counted WHERE id = %s", (key,))
        case 4:
            moved = "UPDATE counted SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM counted WHERE id = %s)"
            cursor.execute(moved, (key + 300, key, key + 300))
        case 5:
            rows = "".join(f"{1000 + step * 10 + row}\t{row}\t\\N\n" for row in range(3))
            cursor.copy_expert("COPY counted FROM STDIN", io.StringIO(rows))
        case 6:
            cursor.execute("INSERT INTO bag VALUES (%s)", (mine[0] + step % 3,))
        case 7:
            cursor.execute("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE a BETWEEN %s AND %s)", mine)
        case _:
            rows = "".join(f"{mine[0] + row % 2}\n" for row in range(4))
            cursor.copy_expert("COPY bag FROM STDIN", io.StringIO(rows))
