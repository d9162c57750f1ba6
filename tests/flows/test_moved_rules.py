"""Rules on columns hold for rows that statements move: no plain value stands in a typed table, whichever way it came."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import tables
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.planning.snapshot_plans import SnapshotState
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.plain_values import plain_values
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source, write_capture
from tests.flows.source_tables import INT, TEXT, Field, Row, Table
from tests.flows.test_live import pieces

KEY = "a key that nobody guesses"
HASH: dict[str, Any] = {"hash": {"key": KEY}}
PATTERN = "[a-z]+-[0-9]+@plain"
TOKEN: dict[str, Any] = {"tokenize": {"key": KEY, "pattern": PATTERN}}
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
    assert plain_values(lake_of(harness), [MARK, PATTERN, KEY]) == {}
    assert emails(harness) == {number: ruled_mail(kind, number) for number in (1, 2, 3, 4)}


@pytest.mark.more
def test_a_table_of_a_tool_has_the_rules_of_its_table_though_no_statement_swaps_them(
    bench_of: Bench, tmp_path: Path
) -> None:
    life = Life(people("customers"), people("_customers_gho"))
    for name in life.source.tables:
        life.put(name, 1, 2)
        life.put(name, 3, n=9)
    life.window(0)
    columns = {"bank.customers.email": HASH}
    harness = opened(bench_of, tmp_path, life, columns, windows=1, rows={"bank.customers": "n < 5"})
    harness.settle()
    assert plain_values(lake_of(harness), [MARK]) == {}
    for name in life.source.tables:
        assert emails(harness, name) == {number: sealed(mail(number)) for number in (1, 2)}


def table_of(harness: Harness, name: str = "customers") -> SnapshotState:
    return stored_state(harness.pipeline, "snapshot", table_id(name))[1]


@pytest.mark.more
@pytest.mark.parametrize("life", ["renamed", "through_names", "changed_and_renamed"])
def test_rows_that_a_statement_brings_are_under_the_row_filter_of_their_new_name(
    bench_of: Bench, tmp_path: Path, life: str
) -> None:
    harness = opened(bench_of, tmp_path, LIVES[life](), {}, windows=3, rows={"bank.customers": "id <> 3"}, sql={})
    harness.all(0, 1, 2)
    harness.settle()
    assert [*emails(harness)] == [1, 2, 4]
    assert {row["id"] for row in harness.rows("history", "bank", "customers")} == {1, 2, 4}
    assert table_of(harness).present.doubt == ""  # type: ignore[union-attr]


@pytest.mark.more
def test_a_table_is_not_proven_whose_former_name_left_rows_out(bench_of: Bench, tmp_path: Path) -> None:
    harness = opened(bench_of, tmp_path, renamed(), {}, windows=3, rows={"bank.staging": "id <> 3"}, sql={})
    harness.all(0, 1, 2)
    assert [*emails(harness)] == [1, 2, 4]
    present = table_of(harness).present
    assert present is not None
    assert present.doubt.endswith("the row filter of bank.staging left out rows, which the table lacks")


@pytest.mark.more
def test_a_row_filter_on_a_column_that_the_former_name_lacks_pauses_the_table(bench_of: Bench, tmp_path: Path) -> None:
    life = Life(people("staging"), people("others"), people("customers"))
    life.put("staging", 1, 2)
    life.put("others", 1)
    life.window(0)
    life.say("RENAME TABLE bank.staging TO bank.customers")
    life.put("customers", 3)
    life.window(1)
    harness = opened(bench_of, tmp_path, life, {}, windows=2, rows={"bank.customers": "region = 'eu'"}, sql={})
    harness.all(0)
    harness.all(1)
    (row,) = harness.pipeline.ledger.paused_tables()
    assert row.table == table_id("customers")
    assert "its row filter names region, and no column is called so" in row.reason
    assert [*emails(harness, "others")] == [1]


@pytest.mark.more
@pytest.mark.parametrize("rule", [HASH, MASK])
@pytest.mark.parametrize("way", ["", "bank.spare, bank.spare TO "])
def test_numbers_that_reach_a_rule_pause_their_table_and_the_one_that_they_reach(
    bench_of: Bench, tmp_path: Path, way: str, rule: dict[str, Any]
) -> None:
    life = Life(people("staging"), people("others"))
    life.put("staging", 1, 2, n=4111222233)
    life.put("others", 1)
    life.window(0)
    life.say(f"RENAME TABLE bank.staging TO {way}bank.customers")
    life.window(1)
    harness = opened(bench_of, tmp_path, life, {"bank.customers.n": rule}, windows=2)
    harness.all(0)
    harness.all(1)
    harness.settle()
    for cut in harness.pipeline.ledger.cuts():
        assert len({one.id for one in cut.paused}) == len(cut.paused)
    reasons = {row.table.table: row.reason for row in harness.pipeline.ledger.paused_tables()}
    assert reasons.keys() == {"staging", "customers"}
    assert "its column n is stored as int64" in reasons["staging"] or "int32" in reasons["staging"]
    assert "rows of bank.staging reach it, and could not pass its rules" in reasons["customers"]
    assert harness.pipeline.lake.state(harness.pipeline.table_path("snapshot", table_id("customers"))) is None
    assert [*emails(harness, "others")] == [1]


@pytest.mark.more
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rule", [MASK, "drop", TOKEN, HASH])
def test_a_key_that_reaches_a_rule_folds_no_rows(bench_of: Bench, tmp_path: Path, rule: Any, order: list[int]) -> None:
    life = Life(Table("staging", [Field("id", INT), Field("email", TEXT, True), Field("n", INT)]))
    life.put("staging", 1, 2)
    life.window(0)
    life.say("RENAME TABLE bank.staging TO bank.customers")
    life.window(1)
    harness = opened(bench_of, tmp_path, life, {"bank.customers.email": rule}, windows=2)
    for number in order:
        harness.all(number)
    if rule == HASH:
        harness.settle()
        assert emails(harness, "customers") == {1: sealed(mail(1)), 2: sealed(mail(2))}
        return
    reasons = {row.table.table: row.reason for row in harness.pipeline.ledger.paused_tables()}
    assert "on email, a column of its primary key" in reasons["staging"]
    assert harness.pipeline.lake.state(harness.pipeline.table_path("snapshot", table_id("customers"))) is None


@pytest.mark.more
def test_a_number_that_reaches_a_drop_goes(bench_of: Bench, tmp_path: Path) -> None:
    harness = opened(bench_of, tmp_path, renamed(), {"bank.customers.email": "drop"}, windows=3)
    for number in range(3):
        harness.all(number)
    harness.settle()
    assert plain_values(lake_of(harness), [MARK]) == {}
    assert {row["id"] for row in harness.rows("snapshot", "bank", "customers")} == {1, 2, 3, 4}


@pytest.mark.more
def test_a_value_that_has_passed_a_rule_stays_as_it_is(bench_of: Bench, tmp_path: Path) -> None:
    columns = {"bank.staging.email": HASH, "bank.customers.email": MASK}
    harness = opened(bench_of, tmp_path, renamed(), columns, windows=3)
    for number in range(3):
        harness.all(number)
    harness.settle()
    assert emails(harness) == {1: sealed(mail(1)), 2: sealed(mail(2)), 3: sealed(mail(3)), 4: "***"}
    assert not harness.pipeline.ledger.paused_tables()


@pytest.mark.more
def test_a_plain_value_that_looks_like_a_hash_is_hashed(bench_of: Bench, tmp_path: Path) -> None:
    life, digest = Life(people("staging")), "0123456789abcdef" * 4
    staging = life.source.tables["staging"]
    life.source.transaction(border(0) + SECOND, Dml(staging, [(None, {"id": 1, "email": digest, "n": 0})]))
    life.window(0)
    life.say("RENAME TABLE bank.staging TO bank.customers")
    life.window(1)
    harness = opened(bench_of, tmp_path, life, {"bank.customers.email": HASH}, windows=2)
    harness.all(0)
    harness.all(1)
    harness.all(0)  # made again it is hashed once, too
    harness.settle()
    assert emails(harness) == {1: sealed(digest)}
    assert plain_values(lake_of(harness), [digest]) == {}


@pytest.mark.more
def test_windows_in_any_order_leave_nothing_plain(bench_of: Bench, tmp_path: Path) -> None:
    expected, rules = None, {"bank.customers.email": HASH}
    for number, order in enumerate(permutations(range(3))):
        name = f"order{number}"
        harness = opened(bench_of, tmp_path / name, renamed(), rules, windows=3, name=name)
        for window in order:
            harness.all(window)
        harness.settle()
        assert plain_values(lake_of(harness), [MARK]) == {}
        found = {
            layer: sorted(map(repr, harness.rows(layer, "bank", "customers"))) for layer in ("snapshot", "history")
        }
        expected = expected or found
        assert found == expected


@pytest.mark.more
def test_rows_whose_entries_have_left_pass_the_rule_all_the_same(bench_of: Bench, tmp_path: Path) -> None:
    harness = opened(bench_of, tmp_path, renamed(), {"bank.customers.email": HASH}, windows=3)
    harness.all(0, 1)
    lake, path = harness.pipeline.lake, harness.pipeline.path("entries")
    gone = {window.start for window in harness.windows(0, 1)}
    assert lake.replace(path, {"window_start": gone}, []).removed
    harness.all(2)
    assert emails(harness) == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert plain_values(lake_of(harness), [MARK]) == {}


@pytest.mark.more
@pytest.mark.parametrize("at", ["_advance_layers", "_mark_windows", "forget_plain_versions"])
def test_a_run_that_is_killed_behind_the_changelogs_leaves_nothing_plain_in_the_end(
    bench_of: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    harness = opened(bench_of, tmp_path, renamed(), {"bank.customers.email": HASH}, windows=3)
    harness.all(0, 1)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tables, at, killed)
        with pytest.raises(KeyboardInterrupt):
            harness.all(2)
    harness.settle()
    harness.tables(2)
    assert emails(harness) == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert plain_values(lake_of(harness), [MARK]) == {}


@pytest.mark.more
def test_rows_of_a_paused_table_pass_the_rule_that_they_reach(bench_of: Bench, tmp_path: Path) -> None:
    harness = opened(bench_of, tmp_path, renamed(), {"bank.customers.email": HASH}, windows=3)
    harness.all(0)
    paused_by_person(harness.pipeline, [table_id("staging")], reason="later")
    harness.all(1)
    harness.all(2)
    resume_tables(harness.pipeline, [table_id("staging")])
    harness.settle()
    assert emails(harness) == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert plain_values(lake_of(harness), [MARK]) == {}


@pytest.mark.more
def test_live_windows_that_grow_leave_nothing_plain(bench_of: Bench, tmp_path: Path) -> None:
    life = gh_ost()
    harness = bench_of.open(
        tmp_path / "pieces", partitions=2, window={"end": border(4), "live": True}, complete=False, history=["*"],
        columns={"bank.customers.email": HASH},
    )  # fmt: skip
    for number, some in enumerate(pieces(life.source.messages, Random(3), 4)):
        write_capture(tmp_path / "pieces", some, name=f"piece{number}")
        refresh(harness)
    settle_open(harness, rounds=10)
    assert emails(harness) == {number: sealed(mail(number)) for number in (1, 2, 3, 4)}
    assert plain_values(lake_of(harness), [MARK]) == {}


@pytest.mark.more
@pytest.mark.parametrize(
    "sql", ["CHANGE email post VARCHAR(20)", "MODIFY email VARCHAR(20)", "CHANGE email post CHAR(9)"]
)
def test_a_value_that_has_passed_a_rule_goes_through_no_conversion(bench_of: Bench, tmp_path: Path, sql: str) -> None:
    life = Life(people("customers"))
    life.put("customers", 1, 2)
    life.window(0)
    life.say(f"ALTER TABLE bank.customers {sql}")
    column = "post" if "post" in sql else "email"
    life.source.tables["customers"].columns[1] = Field(column, TEXT)
    life.put("customers", 4, column=column)
    life.window(1)
    harness = opened(bench_of, tmp_path, life, {"bank.customers.email": HASH}, windows=2)
    harness.all(0)
    harness.all(1)
    found = emails(harness, column=column)
    assert (found[1], found[2]) == (sealed(mail(1)), sealed(mail(2)))
