"""The tables of the workload: their statements, values made at random, and which keys are in them.

Nothing is asked of the database: what is in a table is known from what was written. Every table has a column ``changes`` that
each UPDATE counts up, so that no UPDATE leaves its row as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

Literal = Callable[[Random], str]
"""Makes a value as SQL writes it."""

_EPOCH_DAYS = 20_000
_WORDS = (
    "amber", "Bär", "茶", "delta", "écru", "fjord", "灰色", "harbour", "it's", "jade", "kiosk", "лес", "mango", "north", "olive",
    "pearl", "quartz", "river", "50 %", "tea\\pot", "🚲",
)  # fmt: skip
_PLAIN_WORDS = ("door", "lamp", "motor", "pump", "relay", "valve")


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _text(random: Random) -> str:
    return quoted(" ".join(random.choices(_WORDS, k=random.randint(0, 6))))


def _long_text(random: Random) -> str:
    return quoted(" ".join(random.choices(_WORDS, k=random.randint(10, 120))))


def _plain(random: Random) -> str:
    return quoted(random.choice(_PLAIN_WORDS))


def _number(low: int, high: int) -> Literal:
    return lambda random: str(random.randint(low, high))


def _decimal(digits: int, scale: int) -> Literal:
    bound = 10**digits - 1
    return lambda random: str(Decimal(random.randint(-bound, bound)).scaleb(-scale))


def _float(random: Random) -> str:
    return repr(random.gauss(0, 10 ** random.randint(-3, 6)))


def _date(random: Random) -> str:
    return f"'{1980 + random.randrange(60)}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}'"


def _clock(random: Random) -> str:
    return f"{random.randrange(24):02d}:{random.randrange(60):02d}:{random.randrange(60):02d}"


def _moment(digits: int) -> Literal:
    def made(random: Random) -> str:
        fraction = f".{random.randrange(10**digits):0{digits}d}" if digits else ""
        return f"{_date(random)[:-1]} {_clock(random)}{fraction}'"

    return made


def _time(random: Random) -> str:
    return f"'{random.choice(('', '-'))}{_clock(random)}.{random.randrange(1000):03d}'"


def _json(random: Random) -> str:
    document = {"tags": random.choices(_WORDS, k=2), "n": random.randrange(1000), "on": random.random() < 0.5}
    return quoted(json.dumps(document, ensure_ascii=False))


def _bytes(low: int, high: int) -> Literal:
    return lambda random: f"x'{random.randbytes(random.randint(low, high)).hex()}'"


def _or_null(made: Literal) -> Literal:
    return lambda random: "NULL" if random.random() < 0.2 else made(random)


def _of(*labels: str) -> Literal:
    return lambda random: quoted(random.choice(labels))


def _set_of(*labels: str) -> Literal:
    return lambda random: quoted(",".join(label for label in labels if random.random() < 0.4))


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns and keys that tables of one kind have besides ``changes``. ``keys`` is None without a primary key."""

    name: str
    key: str
    """The statement's words for the column that rows are found by, after its name ``id``."""
    make_key: Callable[[int], str]
    """A key from a number that no other row has."""
    columns: tuple[tuple[str, str, Literal], ...]
    """Name, type and values of the other columns."""
    constraint: str = "PRIMARY KEY (id)"


def _plain_key(number: int) -> str:
    return str(number)


_SHAPES = (
    Shape("orders", "BIGINT NOT NULL", _plain_key, (
        ("customer", "INT UNSIGNED NOT NULL", _number(0, 2**32 - 1)),
        ("status", "ENUM('new','paid','sent','sent back') NOT NULL", _of("new", "paid", "sent", "sent back")),
        ("amount", "DECIMAL(12,2) NOT NULL", _decimal(8, 2)),
        ("note", "VARCHAR(200)", _or_null(_text)),
        ("created", "DATETIME(6) NOT NULL", _moment(6)),
        ("changed", "TIMESTAMP(3) NULL", _or_null(lambda random: f"'{2000 + random.randrange(35)}-06-15 {_clock(random)}.125'")),
    )),
    Shape("people", "CHAR(12) CHARACTER SET ascii NOT NULL", lambda number: quoted(f"p{number:011d}"), (
        ("name", "VARCHAR(120) NOT NULL", _text),
        ("born", "DATE", _or_null(_date)),
        ("likes", "SET('tea','coffee','milk','water') NOT NULL", _set_of("tea", "coffee", "milk", "water")),
        ("active", "TINYINT(1) NOT NULL", _number(0, 1)),
    )),
    Shape("readings", "BIGINT UNSIGNED NOT NULL", lambda number: str(2**63 + number), (
        ("value", "DOUBLE", _or_null(_float)),
        ("level", "FLOAT NOT NULL", _float),
        ("flags", "BIT(10) NOT NULL", _number(0, 1023)),
        ("quality", "SMALLINT NOT NULL", _number(-32768, 32767)),
        ("taken", "TIME(3) NOT NULL", _time),
    )),
    Shape("documents", "INT NOT NULL", _plain_key, (
        ("body", "TEXT", _or_null(_long_text)),
        ("attributes", "JSON", _or_null(_json)),
        ("image", "BLOB", _or_null(_bytes(0, 400))),
        ("digest", "BINARY(8) NOT NULL", _bytes(8, 8)),
        ("year", "YEAR NOT NULL", _number(1990, 2060)),
    )),
    # No primary key: rows are found by a column that is not theirs alone, and some rows are there twice.
    Shape("log", "BIGINT NOT NULL", _plain_key, (
        ("severity", "TINYINT UNSIGNED NOT NULL", _number(0, 255)),
        ("message", "VARCHAR(80) CHARACTER SET latin1 NOT NULL", _plain),
        ("at", "DATETIME NOT NULL", _moment(0)),
    ), constraint="KEY (id)"),
    Shape("prices", "INT NOT NULL", _plain_key, (
        ("region", "VARCHAR(10) NOT NULL", _plain),
        ("price", "DECIMAL(30,10) NOT NULL", _decimal(28, 10)),
        ("stock", "MEDIUMINT NOT NULL", _number(-(2**23), 2**23 - 1)),
        ("total", "BIGINT UNSIGNED NOT NULL", _number(0, 2**64 - 1)),
    ), constraint="PRIMARY KEY (id, region)"),
)  # fmt: skip
"""Kinds of tables, so that every column type that is followed comes by."""

_ADDED = (
    ("INT", _or_null(_number(-1000, 1000))),
    ("VARCHAR(200)", _or_null(_text)),
    ("DECIMAL(10,3)", _or_null(_decimal(9, 3))),
    ("DATETIME(3)", _or_null(_moment(3))),
)
"""Columns that a table may be given later. They have no defaults: a default fills rows that no event touches, which snapshots do
not follow yet."""

_MOST_ADDED = 6


@dataclass(slots=True)
class Table:
    """A table with the keys that are in it. Each statement is made for the state that the one before it has left."""

    name: str
    shape: Shape
    keys: list[str] = field(default_factory=list)
    added: list[tuple[str, Literal]] = field(default_factory=list)
    numbers: int = 0

    @property
    def create(self) -> str:
        """The CREATE TABLE statement."""
        columns = "".join(f"{name} {type_}, " for name, type_, _ in self.shape.columns)
        return f"CREATE TABLE {self.name} (id {self.shape.key}, changes INT NOT NULL DEFAULT 0, {columns}{self.shape.constraint})"

    def insert(self, random: Random, rows: int) -> str:
        """So many new rows. In a table without a primary key one of them may come twice, beyond the number."""
        made: list[str] = []
        for _ in range(rows):
            key = self._new_key()
            values = [key, *(value(random) for _, value in self._values)]
            made.append(f"({','.join(values)})")
            self.keys.append(key)
        if self.shape.constraint.startswith("KEY") and random.random() < 0.1:
            made.append(made[-1])
        names = ",".join(["id", *(name for name, _ in self._values)])
        return f"INSERT INTO {self.name} ({names}) VALUES {','.join(made)}"

    def update(self, random: Random, rows: int) -> str:
        """Return an UPDATE with new values in one or two columns of so many rows that are there."""
        chosen = random.sample(self._values, k=min(2, len(self._values)))
        told = ",".join(f"{name}={value(random)}" for name, value in chosen)
        return f"UPDATE {self.name} SET changes=changes+1,{told} WHERE id IN ({','.join(self._some(random, rows))})"

    def move(self, random: Random) -> str:
        """Another key for one of the rows that are there."""
        old, new = self._take(random), self._new_key()
        self.keys.append(new)
        return f"UPDATE {self.name} SET changes=changes+1,id={new} WHERE id={old}"

    def delete(self, random: Random, rows: int) -> str:
        """So many fewer of the rows that are there."""
        gone = [self._take(random) for _ in range(min(rows, len(self.keys)))]
        return f"DELETE FROM {self.name} WHERE id IN ({','.join(gone)})"

    def add_column(self, random: Random) -> str | None:
        """Return an ALTER TABLE with one more column; None where there have been enough."""
        if len(self.added) == _MOST_ADDED:
            return None
        kind = random.randrange(len(_ADDED))
        name = f"added_{len(self.added) + 1}_{kind}"
        self.take_over([name], ())
        return f"ALTER TABLE {self.name} ADD COLUMN {name} {_ADDED[kind][0]}"

    def take_over(self, columns: Iterable[str], keys: Iterable[int | str]) -> None:
        """Take over the columns and the values of ``id`` that an earlier run has left in the table."""
        for name in columns:
            if name.startswith("added_"):
                self.added.append((name, _ADDED[int(name[-1])][1]))
        for key in keys:
            self.keys.append(quoted(key) if isinstance(key, str) else str(key))
            self.numbers = max(self.numbers, int(str(key).removeprefix("p")) % 2**63)

    @property
    def _values(self) -> list[tuple[str, Literal]]:
        return [*((name, value) for name, _, value in self.shape.columns), *self.added]

    def _new_key(self) -> str:
        self.numbers += 1
        return self.shape.make_key(self.numbers)

    def _some(self, random: Random, rows: int) -> list[str]:
        return random.sample(self.keys, k=min(rows, len(self.keys)))

    def _take(self, random: Random) -> str:
        """One of the keys, which is not there any more; its place is taken by the last one."""
        at = random.randrange(len(self.keys))
        self.keys[at], self.keys[-1] = self.keys[-1], self.keys[at]
        return self.keys.pop()


def table_number(number: int) -> Table:
    """Return the table with a number from 0; kinds alternate: ``orders_00``, ``people_01``."""
    shape = _SHAPES[number % len(_SHAPES)]
    return Table(f"{shape.name}_{number:02d}", shape)


ACCOUNTS = ("checking", "savings")
"""The two tables of the bank. The sum over both is the same at every moment between two transactions."""

ACCOUNTS_EACH = 100
OPENING_BALANCE = 1000


def open_bank() -> list[str]:
    """Return the statements that make both tables with their accounts, where they are not there."""
    rows = ",".join(
        f"({number},{quoted(_PLAIN_WORDS[number % 6])},{OPENING_BALANCE})" for number in range(ACCOUNTS_EACH)
    )
    columns = "id INT NOT NULL PRIMARY KEY, owner VARCHAR(40) NOT NULL, balance DECIMAL(18,2) NOT NULL"
    return [
        statement
        for name in ACCOUNTS
        for statement in (f"CREATE TABLE IF NOT EXISTS {name} ({columns})", f"INSERT IGNORE INTO {name} VALUES {rows}")
    ]


def transfer(random: Random) -> list[str]:
    """Money from one account to one of the other table: two row changes that belong together."""
    giving, taking = random.sample(ACCOUNTS, k=2)
    cents = Decimal(random.randint(1, 100_000)).scaleb(-2)
    return [
        f"UPDATE {giving} SET balance=balance-{cents} WHERE id={random.randrange(ACCOUNTS_EACH)}",
        f"UPDATE {taking} SET balance=balance+{cents} WHERE id={random.randrange(ACCOUNTS_EACH)}",
    ]
