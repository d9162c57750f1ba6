"""Snapshots follow statements as the database does: its columns, types, order and rows, also of rows that no event touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.followed_scripts import MOVES, SCRIPTS, recorded_script
from tests.dts_emulator.judged_snapshots import Judged, compare, faults_of
from tests.dts_emulator.random_lives import MANY, MOVING, PLAIN, STILL, RandomLife
from tests.dts_emulator.recorded_lakes import recorded, recorded_lake
from tests.dts_emulator.server_lives import FIRST, HOUR, Held, Life, LifeRecorder, kinds_of, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, WAYS, as_it_grows
from tests.flows.harness import Harness
from tests.tiers import chosen, times

pytestmark = pytest.mark.database

UNKNOWN_SHARE = 0.15
"""The most cells of which a life's end may not be known."""


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def assert_followed(harness: Harness, life: Life, *, wider: Mapping[str, str] = MappingProxyType({})) -> Judged:
    """The snapshots are what the server had behind the last statement of a life."""
    found = faults_of(harness, life.moments[-1], wider=wider)
    assert not found.faults, f"{found}\n{life.script()}"
    return found


def made(life: Life, folder: Path, *, name: str = "dts-protobuf", **options: Any) -> Harness:
    return recorded_lake(name, life.transactions, folder, **{**EVERYWHERE, **options})


def of_ways(life: Life, folder: Path, seed: int) -> Judged:
    """Make a life's lake in several ways, in the short tier in one."""
    found = Judged()
    for way in chosen(WAYS, 1):
        (folder / way.__name__).mkdir()
        harness = recorded("dts-protobuf", life.transactions, folder / way.__name__, **EVERYWHERE)
        way(harness, life, seed)
        found = assert_followed(harness, life)
    return found


def assert_little_is_not_known(found: Judged) -> None:
    assert found.counts["not known"] <= UNKNOWN_SHARE * found.counts["values"]
    assert found.counts["doubted"] <= max(1, found.counts["tables"] // 2)


SHORT_SCRIPTS = (
    "many clauses in one statement",
    "an added column has its default in rows that no event touches",
    "a column is dropped and added again under its name with another type",
    "the key goes, comes and has other columns",
    "truncate, drop and create with other columns",
    "a table without a key gets statements",
    "two sessions write at once",
)
SHORT_MOVES = (
    "gh-ost swaps a table",
    "a table gets another name and no row since",
    "a table moves to another database and back",
)


def first(names: tuple[str, ...], scripts: Mapping[str, Any]) -> Sequence[str]:
    """All scripts; in the short tier those that are named."""
    assert scripts.keys() >= set(names)
    return chosen([*names, *(name for name in scripts if name not in names)], len(names))


@pytest.mark.more
@pytest.mark.parametrize("name", first(SHORT_SCRIPTS, SCRIPTS))
def test_what_happens(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    life = recorded_script(recorder, SCRIPTS[name])
    of_ways(life, tmp_path, 3)


@pytest.mark.more
@pytest.mark.parametrize("name", first(SHORT_MOVES, MOVES))
def test_what_happens_to_tables_that_get_other_names(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    life = recorded_script(recorder, MOVES[name])
    of_ways(life, tmp_path, 3)


SHORT_IN_MINIMAL = ("the key goes, comes and has other columns", "a table gets another name and no row since")
IN_MINIMAL = sorted({**SCRIPTS, **MOVES}, key=lambda name: (name not in SHORT_IN_MINIMAL, name))


@pytest.mark.more
@pytest.mark.parametrize("name", chosen(IN_MINIMAL, len(SHORT_IN_MINIMAL)))
def test_what_happens_in_minimal_images(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    """Rows go on with what they had, also over keys."""
    life = recorded_script(recorder, {**SCRIPTS, **MOVES}[name], image="MINIMAL")
    of_ways(life, tmp_path, 3)


LATE = (
    ("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)", 1, "ALTER TABLE t MODIFY a VARCHAR(9)", 2,
     "INSERT INTO t VALUES (2, 'z')"),
    ("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)", 1, "ALTER TABLE t ADD b INT DEFAULT 3 FIRST", 2,
     "INSERT INTO t VALUES (2, 2, 2)"),
    ("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "INSERT INTO t VALUES (1, 1, 'x')", 1,
     "ALTER TABLE t CHANGE a b INT, CHANGE b a VARCHAR(9)", 2, "INSERT INTO t VALUES (2, 1, 'y')"),
)  # fmt: skip


@pytest.mark.more
@pytest.mark.parametrize("script", chosen(LATE, 1))
@pytest.mark.parametrize("order", chosen([(0, 2, 1), (2, 1, 0), (1, 2, 0)], 1))
def test_the_window_of_a_statement_is_made_behind_the_rows_of_the_next_one(
    recorder: LifeRecorder, script: Any, order: tuple[int, ...], tmp_path: Path
) -> None:
    life = recorded_script(recorder, script)
    harness = recorded("dts-protobuf", life.transactions, tmp_path, **EVERYWHERE)
    for number in order:
        harness.all(number)
    harness.settle()
    assert_followed(harness, life)


@pytest.mark.more
def test_a_late_window_brings_rows_from_before_a_statement_that_was_followed(
    recorder: LifeRecorder, tmp_path: Path
) -> None:
    """The messages of the second window cannot be read at first, and the third one alters the table."""
    script = (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))", "INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two')", 1,
        "INSERT INTO t VALUES (3, 30, 'three')", "UPDATE t SET a = 21 WHERE id = 2", "DELETE FROM t WHERE id = 1", 2,
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7 FIRST, MODIFY a VARCHAR(9), CHANGE b word VARCHAR(20)",
        "INSERT INTO t VALUES (8, 4, 'vierzig', 'four')",
    )  # fmt: skip
    life = recorded_script(recorder, script)
    harness = recorded("dts-protobuf", life.transactions, tmp_path, **EVERYWHERE)
    for file in sorted((tmp_path / "capture").glob("*.parquet")):
        rows = pq.read_table(file)
        lost = [FIRST + HOUR <= one < FIRST + 2 * HOUR for one in rows["timestamp"].to_pylist()]
        assert any(lost)
        values = [
            b"\xff" * len(value) if gone else value for value, gone in zip(rows["value"].to_pylist(), lost, strict=True)
        ]
        place = rows.schema.get_field_index("value")
        pq.write_table(
            rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type)), file
        )
    harness.settle()
    assert harness.rows("quarantine")
    harness = recorded("dts-protobuf", life.transactions, tmp_path, **EVERYWHERE)
    harness.raw(1)
    harness.settle()
    assert_followed(harness, life)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 4)))
def test_a_life_without_statements_ends_as_its_server(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    life = RandomLife(recorder, seed, STILL).lived(times(15, 60))
    of_ways(life, tmp_path, seed)


@pytest.mark.more
@pytest.mark.parametrize("words", chosen([pytest.param(MANY, id="many"), pytest.param(PLAIN, id="plain")], 1))
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_a_life_ends_as_its_server(recorder: LifeRecorder, words: Any, seed: int, tmp_path: Path) -> None:
    life = RandomLife(recorder, seed, words).lived(times(25, 60))
    assert_little_is_not_known(of_ways(life, tmp_path, seed))


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_a_life_of_tables_that_move_ends_as_its_server(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    life = RandomLife(recorder, seed, MOVING).lived(times(14, 50))
    of_ways(life, tmp_path, seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_behind_each_statement_the_snapshots_are_those_of_the_server(
    recorder: LifeRecorder, seed: int, tmp_path: Path
) -> None:
    """The topic ends behind the statement; in the short tier behind three of them."""
    life = RandomLife(recorder, 50 + seed, [PLAIN, MANY][seed % 2]).lived(times(15, 30))
    places = range(2, len(life.moments))
    for place in Random(seed).sample(places, min(times(2, 99), len(places))):
        part = life.until(place)
        (tmp_path / str(place)).mkdir()
        assert_followed(made(part, tmp_path / str(place)), part)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_windows_that_are_read_while_they_are_open_follow_statements(
    recorder: LifeRecorder, seed: int, tmp_path: Path
) -> None:
    life = RandomLife(recorder, 400 + seed, [PLAIN, MANY][seed % 2]).lived(times(15, 40))
    assert_followed(as_it_grows(life, tmp_path, seed, pieces=times(3, 12)), life)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_a_task_that_is_set_back_changes_nothing_and_brings_what_was_lost(
    recorder: LifeRecorder, seed: int, tmp_path: Path
) -> None:
    """Statements and rows come twice; one transaction comes only with the second delivery, late."""
    life = RandomLife(recorder, 500 + seed, [PLAIN, MANY][seed % 2]).lived(times(15, 40))
    whole = life.transactions
    back = Random(seed).randrange(3, len(whole) - 6)
    stopped = Random(seed).randrange(back + 3, len(whole) - 1)
    sent = [*whole[:back], *whole[back + 1 : stopped], *whole[back:]]
    assert_followed(made(Life(sent, life.moments), tmp_path), life)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 8)))
def test_rows_of_minimal_images_follow_statements(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    life = RandomLife(recorder, 100 + seed, [PLAIN, MANY][seed % 2], image="MINIMAL").lived(times(20, 50))
    of_ways(life, tmp_path, seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 4)))
def test_histories_and_deleted_rows_that_stay_do_not_keep_statements_from_being_followed(
    recorder: LifeRecorder, seed: int, tmp_path: Path
) -> None:
    life = RandomLife(recorder, 200 + seed, PLAIN).lived(times(15, 40))
    assert_followed(made(life, tmp_path, history=["*"], deletes="soft"), life)


@pytest.mark.more
@pytest.mark.parametrize("name", chosen([one for one in FORMATS if one != "dts-protobuf"], 1))
def test_a_life_ends_as_its_server_in_every_format(recorder: LifeRecorder, name: str, tmp_path: Path) -> None:
    """The first table of these lives has types that each format tells alike, whole numbers of DRS apart."""
    for seed in (301, 302):
        life = RandomLife(recorder, seed, PLAIN).lived(times(10, 40))
        (tmp_path / str(seed)).mkdir()
        harness = recorded_lake(name, life.transactions, tmp_path / str(seed), **EVERYWHERE)
        assert_followed(harness, life, wider={"int": "bigint"} if name.startswith("drs") else {})


@pytest.mark.more
def test_an_insert_of_a_minimal_image_has_the_defaults_of_its_table(recorder: LifeRecorder, tmp_path: Path) -> None:
    """MariaDB does not send a column that the statement does not name."""
    script = (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 5)", "INSERT INTO t (id) VALUES (1)", 1,
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7, ALTER a SET DEFAULT 6", "INSERT INTO t (id) VALUES (2)",
    )  # fmt: skip
    life = recorded_script(recorder, script, image="MINIMAL")
    assert_followed(made(life, tmp_path), life)


ZEROS = (
    "int", "bigint unsigned", "decimal(10,2)", "float", "double", "bit(3)", "year", "varchar(9)", "char(3)", "text",
    "varbinary(9)", "binary(3)", "blob", "enum('x','y')", "set('x','y')", "date", "datetime", "datetime(3)", "time", "time(6)",
)  # fmt: skip
"""Types whose columns have a value where they take no NULL and have no default."""


@pytest.mark.more
@pytest.mark.parametrize("history", [(), ("*",)], ids=["snapshots", "histories"])
def test_an_insert_of_a_minimal_image_has_the_zero_of_columns_without_a_default(
    recorder: LifeRecorder, history: Sequence[str], tmp_path: Path
) -> None:
    """A server that is not strict takes inserts that leave such columns out, before a statement and after it."""
    columns = ", ".join(f"c{place} {kind} NOT NULL" for place, kind in enumerate(ZEROS))
    script = (
        f"CREATE TABLE t (id INT PRIMARY KEY, n INT, {columns})",
        "SET STATEMENT sql_mode = '' FOR INSERT IGNORE INTO t (id) VALUES (1)", 1,
        "ALTER TABLE t ADD e INT NOT NULL, MODIFY c0 varchar(20) NOT NULL, RENAME COLUMN c3 TO f3",
        "SET STATEMENT sql_mode = '' FOR INSERT IGNORE INTO t (id, n) VALUES (2, 2)", 2,
        "UPDATE t SET n = 3", "SET STATEMENT sql_mode = '' FOR INSERT IGNORE INTO t (id, c1) VALUES (3, 9)",
    )  # fmt: skip
    life = recorded_script(recorder, script, image="MINIMAL")
    harness = made(life, tmp_path, history=history)
    assert not assert_followed(harness, life).counts["not known"]
    ((table, _),) = life.moments[-1].tables.items()
    of = {row["id"]: row for row in harness.rows("snapshot", *table.path)}
    assert of[2]["c15"] is None
    assert ("c15", "0000-00-00") in of[2]["_invalid"]
    assert [of[number]["e"] for number in (1, 2, 3)] == [0, 0, 0]
    for row in harness.rows("history", *table.path) if history else ():
        if row["_valid_to"] is None:
            assert {name: row[name] for name in of[1].keys() & row.keys() if not name.startswith("_")} == {
                name: value for name, value in of[row["id"]].items() if not name.startswith("_")
            }


def as_snapshots(tables: dict[TableId, Held]) -> dict[TableId, pa.Table]:
    """Snapshots as they should be."""
    found = {}
    for table, held in tables.items():
        columns = {}
        for place, (name, kind) in enumerate(kinds_of(held.schema).items()):
            values = [None if isinstance(row[place], tuple) else row[place] for row in held.rows]
            columns[name] = pa.array(values, arrow_type(kind.lake_type))
        texts = [
            [(name, value[1]) for name, value in zip(held.schema.names, row, strict=True) if isinstance(value, tuple)]
            for row in held.rows
        ]
        columns["_invalid"] = pa.array(texts, pa.map_(pa.string(), pa.string()))
        found[table] = pa.table(columns)
    return found


def faults(snapshots: dict[TableId, pa.Table], tables: dict[TableId, Held]) -> list[str]:
    found = Judged()
    compare(found, snapshots, tables)
    return found.faults


def test_mistakes_are_found(recorder: LifeRecorder) -> None:
    script = (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c DATE)",
        "INSERT INTO t VALUES (1, 10, 'one', '2026-01-05'), (2, 20, NULL, '0050-03-04'), (3, 30, '', NULL)",
        "ALTER TABLE t MODIFY a VARCHAR(20), ADD e DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)",
        "UPDATE t SET a = 'ten' WHERE id = 1",
    )
    life = recorded_script(recorder, script)
    tables = dict(life.moments[-1].tables)
    ((table, held),) = tables.items()
    assert held.unknown == (frozenset(), frozenset({"e"}), frozenset({"e"}))
    assert [row[1] for row in held.rows] == ["ten", "20", "30"]
    right = as_snapshots(tables)
    assert faults(right, tables) == []
    rows = right[table]
    (known, other, _), kind = rows["e"].to_pylist(), rows["e"].type
    blank, other = pa.array([known, None, None], kind), pa.array([known, other.replace(year=2001), None], kind)
    assert faults({table: rows.set_column(4, "e", blank)}, tables) == []
    wrong = {
        "no snapshot": {},
        "another order": {table: rows.select(["a", "id", "b", "c", "e", "_invalid"])},
        "another name": {table: rows.rename_columns(["id", "A", "b", "c", "e", "_invalid"])},
        "a column too many": {table: rows.append_column("f", rows["e"])},
        "a column too few": {table: rows.drop_columns(["b"])},
        "another type": {table: rows.set_column(0, "id", rows["id"].cast(pa.int64()))},
        "the empty text is NULL": {table: rows.set_column(2, "b", pa.array(["one", None, None]))},
        "values shifted": {table: rows.set_column(2, "b", rows["a"])},
        "a known value is NULL": {table: rows.set_column(1, "a", pa.array(["ten", None, "30"]))},
        "an unknown value is wrong": {table: rows.set_column(4, "e", other)},
        "an unknown value is NULL where it is known": {table: rows.set_column(4, "e", pa.nulls(3, kind))},
        "a row too few": {table: rows.slice(1)},
        "a row twice": {table: pa.concat_tables([rows, rows.slice(0, 1)])},
        "a century later": {table: rows.set_column(3, "c", pa.array([date(2026, 1, 5), date(2050, 3, 4), None]))},
        "a table that was dropped": {**right, replace(table, table="u"): rows},
    }  # fmt: skip
    assert [name for name, snapshots in wrong.items() if not faults(snapshots, tables)] == []


def test_lives_are_of_all_kinds(recorder: LifeRecorder) -> None:
    """Most statements are taken, rows stand while statements change their columns, and little is not known of them."""
    altered = standing = 0
    counts = Judged().counts
    for seed in range(times(4, 40)):
        life = RandomLife(recorder, seed, MANY).lived(40)
        for before, moment in zip(life.moments, life.moments[1:], strict=False):
            if moment.sql.startswith("ALTER"):
                altered += 1
                changed = [
                    one for one, held in moment.tables.items() if before.tables.get(one, held).schema != held.schema
                ]
                standing += any(moment.tables[one].rows for one in changed)
        for held in life.moments[-1].tables.values():
            counts["values"] += len(held.rows) * len(held.schema.columns)
            counts["not known"] += sum(map(len, held.unknown))
            counts["doubted"] += held.doubt is not None
            counts["tables"] += 1
    assert altered > times(15, 150)
    assert standing > altered / 3
    assert_little_is_not_known(Judged(counts=counts))
