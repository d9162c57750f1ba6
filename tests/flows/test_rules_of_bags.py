"""Changes do not find rows by values that passed another rule under another name: such tables are not proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.unproven import unproven_tables
from tests.flows.harness import Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import INT, TEXT, Field, Table

HASH = {"hash": {"key": "a key that nobody guesses"}}
MASK = {"mask": "***"}
NAMED = "values of column card have passed a rule before this statement, and no primary key finds their rows"


def named(source: Source, rules: dict[str, Any], said: str, order: tuple[int, ...], folder: Path) -> Harness:
    """The lake of a table under rules: the table is not proven for the reason that is ``said``, if any."""
    for window in range(3):
        source.checkpoint(border(window) + 300 * SECOND)
    columns = {f"{DATABASE}.journal.{name}": rule for name, rule in rules.items()}
    harness = open_short(
        bench_in_process(folder, "bags"), folder / "capture", source.messages, windows=3, columns=columns
    )
    for window in order:
        harness.all(window)
    harness.settle()
    found = unproven_tables(harness.pipeline)
    assert {table: one.split(": ")[-1] for table, one in found.results.items()} == (
        {table_id("journal"): said} if said else {}
    )
    return harness


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
@pytest.mark.parametrize(
    ("rules", "is_key", "said"),
    [
        ({"mail": HASH, "card": MASK}, False, NAMED),
        ({"mail": HASH}, False, NAMED),
        ({"mail": HASH, "card": HASH}, False, ""),
        ({"card": HASH}, False, ""),
        ({"mail": HASH, "card": MASK}, True, ""),
    ],
)
def test_a_column_under_another_rule_is_named_where_no_key_finds_rows(
    rules: dict[str, Any], is_key: bool, said: str, order: tuple[int, ...], tmp_path: Path
) -> None:
    table = Table("journal", [Field("line", INT, is_key), Field("n", INT), Field("mail", TEXT)])
    source = short_source(table)
    row: dict[str, Any] = {"line": 1, "n": 1, "mail": "anna"}
    source.transaction(border(0) + SECOND, Dml(table, [(None, row)]))
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE journal RENAME COLUMN mail TO card"))
    table.columns[2] = Field("card", TEXT)
    for one in (*source.bags.get("journal", ()), *source.rows.get("journal", {}).values()):
        assert isinstance(one, dict)
        one["card"] = one.pop("mail")
    before = {"line": 1, "n": 1, "card": "anna"}
    source.transaction(border(2) + SECOND, Dml(table, [(before, {**before, "n": 2})]))
    harness = named(source, rules, said, order, tmp_path)
    if not said:
        assert [row["n"] for row in harness.rows("snapshot", DATABASE, "journal")] == [2]


@pytest.mark.parametrize("order", [(), *(pytest.param(one, marks=pytest.mark.more) for one in ((0, 1, 2), (2, 0, 1)))])
@pytest.mark.parametrize(
    ("rules", "key", "later", "said"),
    [
        (
            {"mail": HASH},
            "mail",
            (),
            "values of column card have passed a rule before this statement, and changes find rows by it",
        ),
        ({"mail": HASH, "card": HASH}, "mail", (), ""),
        ({"mail": HASH}, "line", (), ""),
        (
            {"mail": HASH},
            "line",
            ("DROP PRIMARY KEY, ADD PRIMARY KEY (card)",),
            "values of column card have passed a rule before this statement, and changes find rows by it",
        ),
        (
            {"mail": HASH},
            "line",
            ("RENAME COLUMN card TO note", "DROP PRIMARY KEY"),
            "values of column note have passed a rule before this statement, and no primary key finds their rows",
        ),
        ({"mail": HASH}, "line", ("DROP COLUMN card", "ADD COLUMN card varchar(9)", "DROP PRIMARY KEY"), ""),
    ],
)
def test_a_key_whose_values_have_passed_another_rule_is_named(
    rules: dict[str, Any], key: str, later: tuple[str, ...], said: str, order: tuple[int, ...], tmp_path: Path
) -> None:
    table = Table("journal", [Field("line", INT, key == "line"), Field("n", INT), Field("mail", TEXT, key == "mail")])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"line": 1, "n": 1, "mail": "anna"})]))
    source.transaction(border(1) + SECOND, Ddl("ALTER TABLE journal RENAME COLUMN mail TO card"))
    for action in later:
        source.transaction(border(2) + SECOND, Ddl(f"ALTER TABLE journal {action}"))
    named(source, rules, said, order, tmp_path)


@pytest.mark.more(after=2)
@pytest.mark.parametrize("order", [(), (0, 1, 2)])
@pytest.mark.parametrize(
    ("statement", "key", "said"),
    [
        (
            "MODIFY mail varbinary(30)",
            "",
            "values of column mail have passed a rule before this statement, and no primary key finds their rows",
        ),
        (
            "MODIFY mail varbinary(30)",
            "mail",
            "values of column mail have passed a rule before this statement, and changes find rows by it",
        ),
        ("MODIFY mail varbinary(30)", "line", ""),
        ("MODIFY mail varchar(200)", "", ""),
        ("MODIFY n bigint", "", ""),
        (
            "CHANGE mail card varbinary(30), DROP COLUMN n",
            "",
            "values of column card have passed a rule before this statement, and no primary key finds their rows",
        ),
    ],
)
def test_a_ruled_column_that_a_statement_converts_is_named(
    statement: str, key: str, said: str, order: tuple[int, ...], tmp_path: Path
) -> None:
    """The rule was applied to values of the former type, and is applied to those of the new one from then on."""
    table = Table("journal", [Field("line", INT, key == "line"), Field("n", INT), Field("mail", TEXT, key == "mail")])
    source = short_source(table)
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"line": 1, "n": 1, "mail": "anna"})]))
    source.transaction(border(1) + SECOND, Ddl(f"ALTER TABLE journal {statement}"))
    named(source, {"mail": HASH, "card": HASH}, said, order, tmp_path)
