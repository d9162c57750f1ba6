"""Rules on columns hold for rows that statements move: no plain value stands in a typed table, whichever way it came."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.plain_values import plain_values
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Row, Table

KEY = "a key that nobody guesses"
HASH: dict[str, Any] = {"hash": {"key": KEY}}
TOKEN: dict[str, Any] = {"tokenize": {"key": KEY, "pattern": "[a-z]+-[0-9]+@plain"}}
MASK: dict[str, Any] = {"mask": "***"}
MARK = "@plain.example"


def sealed(text: str) -> str:
    return hmac.digest(KEY.encode(), text.encode(), "sha256").hex()


def people(name: str, column: str = "email") -> Table:
    return Table(name, [Field("id", INT, True), Field(column, TEXT), Field("n", INT)])


def mail(number: int) -> str:
    return f"anna-{number}{MARK}"


def person(number: int, column: str = "email", n: int = 0) -> Row:
    return {"id": number, column: mail(number), "n": n}


class Life:
    """A source in which rows are written and move, with a second between any two statements."""

    def __init__(self, *tables: Table) -> None:
        self.source: Source = short_source(*tables)
        self.at = border(0)

    def put(self, table: str, *numbers: int, column: str = "email", n: int = 0) -> None:
        self._send(Dml(self.source.tables[table], [(None, person(number, column, n)) for number in numbers]))

    def change(self, table: str, number: int, *, column: str = "email", n: int = 1) -> None:
        old, new = person(number, column), person(number, column, n)
        self._send(Dml(self.source.tables[table], [(old, new)]))

    def say(self, sql: str) -> None:
        self._send(Ddl(sql))

    def window(self, number: int) -> None:
        self.source.checkpoint(border(number) + 500 * SECOND)
        self.at = border(number + 1)

    def _send(self, what: Dml | Ddl) -> None:
        self.at += timedelta(seconds=1)
        self.source.transaction(self.at, what)


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "moved")


def opened(
    bench: Bench, folder: Path, life: Life, columns: dict[str, Any], *, windows: int, **settings: Any
) -> Harness:
    return open_short(
        bench, folder / "capture", life.source.messages, windows=windows, columns=columns,
        **{"history": ["*"], "sql": {"tables": ["*"]}, **settings},
    )  # fmt: skip


def lake_of(harness: Harness) -> Path:
    return Path(harness.pipeline.lake.location.warehouse)


def emails(
    harness: Harness, table: str = "customers", column: str = "email", layer: str = "snapshot"
) -> dict[int, Any]:
    return {row["id"]: row[column] for row in harness.rows(layer, "bank", table)}


def gh_ost() -> Life:
    """gh-ost copies a table while it changes, and swaps the two; then events go on."""
    life = Life(people("customers"), people("_customers_gho"))
    life.put("customers", 1, 2, 3)
    life.window(0)
    life.put("_customers_gho", 1, 2, 3)
    life.change("customers", 2)
    life.change("_customers_gho", 2)
    life.say("RENAME TABLE bank.customers TO bank._customers_del, bank._customers_gho TO bank.customers")
    life.window(1)
    life.source.rows["customers"].clear()
    life.put("customers", 4)
    life.window(2)
    return life


def renamed() -> Life:
    """A table that nobody has a rule for becomes the one with the rule."""
    life = Life(people("staging"), people("customers"))
    life.put("staging", 1, 2, 3)
    life.window(0)
    life.change("staging", 2)
    life.window(1)
    life.say("RENAME TABLE bank.staging TO bank.customers")
    life.put("customers", 4)
    life.window(2)
    return life


def through_names() -> Life:
    """Rows come over two names, the last statement in a window of its own."""
    life = Life(people("a"), people("customers"))
    life.put("a", 1, 2, 3)
    life.say("RENAME TABLE bank.a TO bank.b")
    life.window(0)
    life.window(1)
    life.say("ALTER TABLE bank.b RENAME TO bank.customers")
    life.put("customers", 4)
    life.window(2)
    return life


def swapped() -> Life:
    life = Life(people("customers"), people("others"))
    life.put("customers", 5, 6)
    life.put("others", 1, 2, 3)
    life.window(0)
    life.say("RENAME TABLE bank.customers TO bank.x, bank.others TO bank.customers, bank.x TO bank.others")
    life.window(1)
    life.source.rows["customers"].clear()
    life.put("customers", 4)
    life.window(2)
    return life


def changed() -> Life:
    """A column gets the name that a rule is for."""
    life = Life(people("customers", "contact"))
    life.put("customers", 1, 2, 3, column="contact")
    life.window(0)
    life.change("customers", 2, column="contact")
    life.window(1)
    life.say("ALTER TABLE bank.customers CHANGE contact email VARCHAR(80)")
    life.source.tables["customers"].columns[1] = Field("email", TEXT)
    life.put("customers", 4)
    life.window(2)
    return life


def changed_and_renamed() -> Life:
    life = Life(people("staging", "contact"), people("customers"))
    life.put("staging", 1, 2, 3, column="contact")
    life.window(0)
    life.say("ALTER TABLE bank.staging CHANGE contact email VARCHAR(80), RENAME TO bank.customers")
    life.window(1)
    life.put("customers", 4)
    life.window(2)
    return life


LIVES: dict[str, Callable[[], Life]] = {
    one.__name__: one for one in (gh_ost, renamed, through_names, swapped, changed, changed_and_renamed)
}
RULES: dict[str, Any] = {"hash": HASH, "mask": MASK, "tokenize": TOKEN}


def ruled_mail(kind: str, number: int) -> str:
    if kind == "tokenize":
        match = f"anna-{number}@plain"
        return f"tok_{sealed(match)[:32]}.example"
    return "***" if kind == "mask" else sealed(mail(number))


@pytest.mark.more(after=1)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("kind", RULES)
def test_no_value_is_plain_however_rows_came(bench_of: Bench, tmp_path: Path, life: str, kind: str) -> None:
    harness = opened(bench_of, tmp_path, LIVES[life](), {"bank.customers.email": RULES[kind]}, windows=3)
    for number in range(3):
        harness.all(number)
    harness.settle()
    assert plain_values(lake_of(harness), [MARK]) == {}
    assert emails(harness) == {number: ruled_mail(kind, number) for number in (1, 2, 3, 4)}
