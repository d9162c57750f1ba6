"""A small market that a real MariaDB keeps: a seeded, transactional workload that says itself what time it is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pymysql.cursors import Cursor

DATABASE = "market"

TABLES = (
    "CREATE TABLE wallets (id INT UNSIGNED PRIMARY KEY, owner VARCHAR(40) CHARACTER SET gbk, balance DECIMAL(14,2) NOT NULL)",
    "CREATE TABLE safes (id BIGINT PRIMARY KEY, balance DECIMAL(14,2) NOT NULL, touched TIMESTAMP(3) NULL)",
    """CREATE TABLE orders (note TEXT, shop CHAR(4), placed DATETIME(6), number INT, raw VARBINARY(12), doc JSON,
       PRIMARY KEY (shop, number))""",
    """CREATE TABLE goods (sku VARCHAR(12) PRIMARY KEY, left_over SMALLINT, price DOUBLE, weight FLOAT,
       kind ENUM('new', 'süß', 'it''s'), marks SET('x', 'y', 'z'), bits BIT(9))""",
)

OWNERS, EACH = 30, 1000
_SHOPS = ("ost", "west")


class Market:
    """One connection's work. ``second`` in all methods is the source's own time, seconds since the epoch."""

    def __init__(self, cursor: Cursor, seed: int) -> None:
        self._cursor = cursor
        self._random = Random(seed)
        self._numbers = 0
        self._columns = 0
        self._moves: tuple[Callable[[], None], ...] = (
            self._transfer, self._transfer, self._order, self._renumber, self._cancel, self._deliver, self._restock,
            self._rename, self._rewrite,
        )  # fmt: skip

    def open(self, second: float) -> None:
        """The tables, and what is in them on the first day."""
        self._at(second)
        self._run(f"CREATE DATABASE {DATABASE}")
        self._run(f"USE {DATABASE}")
        for table in TABLES:
            self._run(table)
        self._run("BEGIN")
        self._run(f"INSERT INTO wallets SELECT seq, CONCAT('店', seq), {EACH} FROM seq_1_to_{OWNERS}")
        self._run(f"INSERT INTO safes SELECT seq, {EACH}, NULL FROM seq_1_to_{OWNERS}")
        self._run(
            "INSERT INTO goods SELECT CONCAT('s', seq), seq, seq / 7, seq / 3, 1 + seq % 3, seq % 8, seq FROM seq_1_to_40"
        )
        self._run("COMMIT")

    def transaction(self, second: float) -> None:
        """One to four moves that are seen together or not at all; now and then they are taken back."""
        self._at(second)
        self._run("BEGIN")
        for move in self._random.choices(self._moves, k=self._random.randint(1, 4)):
            move()
        self._run("ROLLBACK" if self._random.random() < 0.05 else "COMMIT")

    def add_column(self, second: float, table: str) -> None:
        """A new column that is NULL in every row, and values for some of them."""
        self._columns += 1
        self._at(second)
        self._run(f"ALTER TABLE {table} ADD COLUMN more_{self._columns} VARCHAR(20) NULL")
        self._run(f"UPDATE {table} SET more_{self._columns} = CONCAT('m', RAND(%s)) LIMIT 7", self._columns)

    def _at(self, second: float) -> None:
        self._run("SET TIMESTAMP = %s", second)

    def _run(self, sql: str, *values: object) -> None:
        self._cursor.execute(sql, values or None)

    def _transfer(self) -> None:
        """From a wallet to a safe: two tables, mostly two Kafka partitions."""
        one, other = self._random.randint(1, OWNERS), self._random.randint(1, OWNERS)
        amount = self._random.randint(1, 9999) / 100
        self._run("UPDATE wallets SET balance = balance - %s WHERE id = %s", amount, one)
        self._run("UPDATE safes SET balance = balance + %s, touched = NOW(3) WHERE id = %s", amount, other)

    def _order(self) -> None:
        for _ in range(self._random.randint(2, 6)):
            self._numbers += 1
            self._run(
                "INSERT INTO orders (note, shop, placed, number, raw, doc) VALUES (%s, %s, NOW(6), %s, %s, %s)",
                self._random.choice((None, "", "bitte läuten", "x" * self._random.randint(100, 900))),
                self._random.choice(_SHOPS),
                self._numbers,
                self._random.choice((None, b"", self._random.randbytes(12))),
                self._random.choice((None, "{}", f'{{"n": [{self._numbers}, null]}}')),
            )

    def _renumber(self) -> None:
        """Rows hand on their keys to each other in one event, and some go to the other shop."""
        self._run("UPDATE orders SET number = number + 1 WHERE shop = %s ORDER BY number DESC LIMIT 6", _SHOPS[0])
        self._run(
            "UPDATE IGNORE orders SET shop = %s, number = number + 100000 WHERE number %% 17 = 0 LIMIT 2", _SHOPS[1]
        )
        self._numbers += 1

    def _cancel(self) -> None:
        self._run("DELETE FROM orders WHERE number %% 5 = %s LIMIT 3", self._random.randrange(5))

    def _deliver(self) -> None:
        self._run("DELETE FROM orders ORDER BY placed, shop, number LIMIT 1")
        self._run("UPDATE goods SET left_over = left_over - 1, marks = 'x,z' ORDER BY RAND(%s) LIMIT 2", self._numbers)

    def _restock(self) -> None:
        sku = f"s{self._random.randint(1, 60)}"
        self._run(
            "REPLACE INTO goods (sku, left_over, price, kind) VALUES (%s, 9, %s, 'süß')", sku, self._random.random()
        )
        self._run("UPDATE goods SET weight = price / 3, bits = left_over & 255 WHERE sku = %s", sku)

    def _rename(self) -> None:
        """A row's key moves away and another row takes it, in two statements."""
        one, other = self._random.sample(range(1, 60), 2)
        self._run("DELETE FROM goods WHERE sku = %s", f"s{other}")
        self._run("UPDATE goods SET sku = %s WHERE sku = %s", f"s{other}", f"s{one}")

    def _rewrite(self) -> None:
        self._run(
            "UPDATE wallets SET owner = CONCAT('户', id * %s) ORDER BY id DESC LIMIT 3", self._random.randint(1, 9)
        )
