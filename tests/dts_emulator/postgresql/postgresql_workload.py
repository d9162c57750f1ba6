"""A random workload on a PostgreSQL: keys of one and two columns, none, leaves of partitions, large values, hostile names."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.dts_emulator.postgresql.followed_postgresql import Followed

TABLES = (
    "CREATE TABLE accounts (id bigint PRIMARY KEY, owner varchar(20), balance numeric(12,2), note text, at timestamptz)",
    "ALTER TABLE accounts ALTER note SET STORAGE EXTERNAL",
    'CREATE SCHEMA "Sales #1"',
    'CREATE TABLE "Sales #1"."order$items.x" '
    '(pos int, order_id int, doc jsonb, "q ""x" text, paid boolean, PRIMARY KEY (order_id, pos))',
    "CREATE TABLE bag (a int, b text, big text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "ALTER TABLE bag ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE measured (id int, region text, v double precision, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE measured_north PARTITION OF measured FOR VALUES IN ('n')",
    "CREATE TABLE measured_south PARTITION OF measured FOR VALUES IN ('s')",
    'CREATE TABLE twins ("Id" int PRIMARY KEY, id int, "ID" text)',
)


@dataclass
class PostgresqlWorkload:
    """Random transactions, some of them on a table without a key if there are ``has_bags``.

    ``unchanged`` counts updates that leave a large value as it was.
    """

    followed: Followed
    random: Random
    has_bags: bool = True
    unchanged: int = 0

    def create(self) -> None:
        """Make the tables."""
        self.followed.run(*TABLES)

    def transaction(self) -> None:
        """Run some statements as one transaction, or as one that is rolled back."""
        cursor = self.followed.connection.cursor()
        cursor.execute("BEGIN")
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self._statement(cursor)
        cursor.execute("ROLLBACK" if self.random.random() < 0.1 else "COMMIT")

    def _statement(self, cursor: Any) -> None:
        random = self.random
        number = random.randrange(12)
        match random.randrange(12):
            case 0 | 1:
                cursor.execute(
                    "INSERT INTO accounts VALUES (%s, %s, %s, %s, now()) "
                    "ON CONFLICT (id) DO UPDATE SET balance = excluded.balance",
                    (number, random.choice(["ann", "bob's", None]), random.randrange(10**6) / 100, self._large()),
                )
            case 2 | 3:
                cursor.execute(
                    "UPDATE accounts SET balance = balance + 1 WHERE id = %s AND note IS NOT NULL", (number,)
                )
                self.unchanged += cursor.rowcount
            case 4:
                cursor.execute(
                    "UPDATE accounts SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM accounts WHERE id = %s)",
                    (number + 50, number, number + 50),
                )
            case 5:
                cursor.execute("DELETE FROM accounts WHERE id IN (%s, %s)", (number, number + 50))
            case 6:
                cursor.execute(
                    'INSERT INTO "Sales #1"."order$items.x" VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING',
                    (
                        number % 3,
                        number,
                        random.choice(['{"a": 1}', "null", None]),
                        random.choice(["", None, 'x"y']),
                        number > 5,
                    ),
                )
            case 7:
                cursor.execute(
                    'UPDATE "Sales #1"."order$items.x" SET paid = NOT paid, "q ""x" = NULL WHERE order_id = %s',
                    (number,),
                )
            case 8 | 9 if not self.has_bags:
                pass
            case 8:
                cursor.execute(
                    "INSERT INTO bag VALUES (%s, %s, %s)", (number % 2, random.choice([None, "x"]), self._large())
                )
            case 9:
                statement = random.choice(
                    [
                        "UPDATE bag SET a = a + 1 WHERE ctid = (SELECT min(ctid) FROM bag)",
                        "DELETE FROM bag WHERE ctid = (SELECT max(ctid) FROM bag)",
                        "UPDATE bag SET b = NULL WHERE ctid = (SELECT max(ctid) FROM bag)",
                    ]
                )
                cursor.execute(statement)
            case 10:
                cursor.execute(
                    "INSERT INTO measured VALUES (%s, %s, %s) ON CONFLICT (id, region) DO UPDATE SET v = excluded.v",
                    (number, random.choice("ns"), random.choice([0.1, float("nan"), float("inf"), None])),
                )
                if random.random() < 0.3:  # the row leaves its leaf: a DELETE there, and an INSERT in the other one
                    cursor.execute(
                        "UPDATE measured SET region = 's' WHERE id = %s AND region = 'n' "
                        "AND NOT EXISTS (SELECT FROM measured WHERE id = %s AND region = 's')",
                        (number, number),
                    )
            case _:
                cursor.execute(
                    'INSERT INTO twins VALUES (%s, %s, %s) ON CONFLICT ("Id") DO UPDATE SET id = excluded.id + 1',
                    (number, number * 2, random.choice([None, "t"])),
                )

    def _large(self) -> str | None:
        return self.random.choice([None, "small", "l" * 2500, "unchanged-toast-datum"])
