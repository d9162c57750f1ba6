"""Foreign keys in statements, and their history under other names of tables and columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import pytest

from dts_assets.model.foreign_keys import ForeignKey, KeyHistory
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.foreign_key_history import ShownKeys, foreign_key_history
from dts_assets.wire.ddl.foreign_keys import count_keys, declared_keys, key_steps
from dts_assets.wire.ddl.schema_history import SourceStatement


def at(number: int) -> SourcePosition:
    return SourcePosition(0, 4, number)


def key(name: str, columns: str = "p", parent: str = "d.p", referenced: str = "id", **rules: str) -> ForeignKey:
    database, table = parent.split(".")
    return ForeignKey(name, tuple(columns.split()), database, table, tuple(referenced.split()), **rules)


CASCADE = {"on_delete": "CASCADE"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE c (p int, FOREIGN KEY (p) REFERENCES p (id))", [key("")]),
        ("CREATE TABLE c (p int, CONSTRAINT FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)", [key("", **CASCADE)]),
        ("CREATE TABLE c (p int, constraint `a ``b` foreign key x (`p`) references `d`.`p` (`id`) on delete cascade)",
         [key("a `b", **CASCADE)]),
        ("CREATE TABLE c (p int, FOREIGN KEY x (p) REFERENCES e.p (id) ON UPDATE SET NULL ON DELETE NO ACTION)",
         [key("x", parent="e.p", on_update="SET NULL")]),
        ("CREATE TABLE c (p int, q int, CONSTRAINT k FOREIGN KEY (p, q) REFERENCES p (a, b) MATCH FULL ON DELETE SET DEFAULT)",
         [key("k", "p q", referenced="a b", on_delete="SET DEFAULT")]),
        ("CREATE TABLE c (id int, p int NOT NULL DEFAULT 1 COMMENT 'references x(y)' REFERENCES p(id) ON DELETE CASCADE, z int)",
         [key("", **CASCADE)]),
        ("CREATE TABLE c (p int, `references` int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE) FROBNICATE = 7 SELECT 1",
         [key("", **CASCADE)]),
        ("ALTER TABLE c FROBNICATE, ADD CONSTRAINT k FOREIGN KEY IF NOT EXISTS (p) REFERENCES p (id) ON DELETE CASCADE",
         [key("k", **CASCADE)]),
        ("ALTER TABLE c ADD COLUMN (a int, p int REFERENCES p (id) ON DELETE CASCADE)", [key("", **CASCADE)]),
        ("ALTER IGNORE TABLE c NOWAIT ADD p int REFERENCES p (id) ON DELETE CASCADE", [key("", **CASCADE)]),
        ("ALTER TABLE c CHANGE a p int REFERENCES p (id) ON DELETE CASCADE", [key("", **CASCADE)]),
        ("/*!40000 ALTER TABLE c */ ADD FOREIGN KEY (p) REFERENCES p (id) /*!50000 ON DELETE CASCADE */", [key("", **CASCADE)]),
        ("SET STATEMENT max_statement_time = 5 FOR ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)", [key("")]),
        ("CREATE VIEW v AS SELECT 'references' FROM p", []),
        ("CREATE TABLE c LIKE p", []),
        ("CREATE TEMPORARY TABLE c (p int REFERENCES p (id) ON DELETE CASCADE)", []),
        ("ALTER TABLE c ADD FOREIGN KEY (p REFERENCES", []),
        ("", []),
    ],
)  # fmt: skip
def test_foreign_keys_are_found_whatever_else_a_statement_says(sql: str, expected: list[ForeignKey]) -> None:
    assert list(declared_keys(sql, "d")) == expected
    assert count_keys(sql) == sum(one.changes_rows for one in expected)


def history(*sqls: str, shown: Iterable[ShownKeys] = ()) -> KeyHistory:
    """The history of statements at the positions 10, 20, ..., in any order that they are given."""
    found = [SourceStatement(at(10 * number), "d", sql) for number, sql in enumerate(sqls, 1)]
    whole = foreign_key_history(found, shown)
    for some in list(permutations(found))[:7]:
        assert foreign_key_history(some, shown) == whole
    return whole


def held(found: KeyHistory) -> list[tuple[str, str, str, int, int | None]]:
    """Each foreign key by name, child, parent and its columns, and the positions between which it holds."""

    def name(number: int, since: SourcePosition) -> str:
        return next(
            one.name.table for one in found.names if one.number == number and (one.until is None or since < one.until)
        )

    return sorted(
        (
            one.key.name,
            name(one.child, one.since),
            f"{name(one.parent, one.since)} {' '.join(one.key.parent_columns)}",
            one.since.position,
            None if one.until is None else one.until.position,
        )
        for one in found.keys
    )


ADD = "ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE"
MADE = "CREATE TABLE c (id int, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)"


@pytest.mark.parametrize(
    ("sqls", "expected"),
    [
        ((ADD,), [("k", "c", "p id", 10, None)]),
        ((ADD, "ALTER TABLE c DROP FOREIGN KEY K"), [("k", "c", "p id", 10, 20)]),
        ((ADD, "ALTER TABLE c DROP CONSTRAINT k, DROP COLUMN x"), [("k", "c", "p id", 10, 20)]),
        ((ADD, "ALTER TABLE c DROP FOREIGN KEY other"), [("k", "c", "p id", 10, None)]),
        ((ADD, "DROP TABLE x, c"), [("k", "c", "p id", 10, 20)]),
        ((ADD, "DROP DATABASE d"), [("k", "c", "p id", 10, 20)]),
        ((ADD, "CREATE OR REPLACE TABLE c (id int)"), [("k", "c", "p id", 10, 20)]),
        ((ADD, "CREATE TABLE IF NOT EXISTS c (id int)"), [("k", "c", "p id", 10, None)]),
        ((MADE, "ALTER TABLE c ADD FOREIGN KEY (q) REFERENCES p (n) ON UPDATE CASCADE"),
         [("c_ibfk_1", "c", "p id", 10, None), ("c_ibfk_2", "c", "p n", 20, None)]),
        ((MADE, "RENAME TABLE c TO e", "ALTER TABLE e DROP FOREIGN KEY e_ibfk_1"),
         [("c_ibfk_1", "c", "p id", 10, 20), ("e_ibfk_1", "e", "p id", 20, 30)]),
        ((ADD, "RENAME TABLE p TO q", "CREATE TABLE p (id int)"), [("k", "c", "p id", 10, None)]),
        ((ADD, "ALTER TABLE p CHANGE id ident bigint"), [("k", "c", "p id", 10, 20), ("k", "c", "p ident", 20, None)]),
        ((ADD, "ALTER TABLE p RENAME COLUMN ID TO n, RENAME TO q"), [("k", "c", "p id", 10, 20), ("k", "c", "q n", 20, None)]),
        ((ADD, "DROP TABLE p", "CREATE TABLE p (id int)"), [("k", "c", "p id", 10, 30), ("k", "c", "p id", 30, None)]),
        ((ADD, "DROP TABLE p", "RENAME TABLE p_new TO p"), [("k", "c", "p id", 10, 30), ("k", "c", "p id", 30, None)]),
        (("CREATE TABLE c (p int, FOREIGN KEY (p) REFERENCES p (id))",), []),
    ],
)  # fmt: skip
def test_a_foreign_key_holds_under_all_names_until_it_goes(sqls: tuple[str, ...], expected: list[object]) -> None:
    assert held(history(*sqls)) == expected


def test_a_dropped_parent_and_the_next_of_its_name_are_two_tables() -> None:
    found = history(ADD, "DROP TABLE p", "CREATE TABLE p (id int)")
    first, second = sorted(found.keys, key=lambda one: one.since)
    assert first.parent != second.parent
    assert found.numbers_of(TableId("d", "", "p"), at(15)) == [first.parent]
    assert found.numbers_of(TableId("d", "", "p"), at(25)) == []
    assert found.numbers_of(TableId("d", "", "p"), at(35)) == [second.parent]
    assert found.without_rows[second.parent] == at(30)


def test_keys_that_a_server_shows_come_beside_those_of_statements() -> None:
    table = TableId("d", "", "c")
    known = key("real", **CASCADE)
    shown = [ShownKeys(at(5), table, (key("old", "x", **CASCADE),)), ShownKeys(at(25), table, (known,))]
    found = held(history(MADE, "ALTER TABLE c DROP FOREIGN KEY unknown", shown=shown[1:]))
    assert found == [("real", "c", "p id", 10, None)], "a known key has the server's name"
    assert held(history("ALTER TABLE c DROP FOREIGN KEY old", shown=shown)) == [
        ("old", "c", "p id", 5, 10), ("real", "c", "p id", 25, None),
    ]  # fmt: skip


def test_statements_of_other_sources_have_no_foreign_keys() -> None:
    """PostgreSQL logs what its foreign keys do."""
    one = SourceStatement(at(10), "d", ADD, source_type="PostgreSQL")
    assert one.is_of_other_dialect == (not foreign_key_history([one]).keys)


def test_a_statement_that_ends_early_is_passed_over() -> None:
    assert key_steps("ALTER TABLE c DROP FOREIGN KEY", "d") == ()
    assert key_steps("ALTER TABLE c DROP FOREIGN KEY k; nonsense", "d") != ()
