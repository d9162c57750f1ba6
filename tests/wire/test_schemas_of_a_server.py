"""The model of schemas against a real MariaDB: random statements, and statements that stand for a trap each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dts_assets.wire.ddl.schema_model import apply
from tests.tiers import times
from tests.wire.column_spellings import SPELLINGS
from tests.wire.schema_oracle import Beside, run_random
from tests.wire.schema_scripts import SCRIPTS

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    yield from _beside(lower_case=False)


@pytest.fixture(scope="module")
def beside_without_case() -> Iterator[Beside]:
    yield from _beside(lower_case=True)


def _beside(*, lower_case: bool) -> Iterator[Beside]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with (
            private_server(extra=(f"--lower-case-table-names={int(lower_case)}",)) as server,
            server.connect() as connection,
        ):
            yield Beside(connection, lower_case=lower_case)
    except ServerUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.more(after=1)
@pytest.mark.parametrize("seed", range(times(4, 20)))
def test_random_statements_leave_the_model_with_the_catalog_of_the_server(beside: Beside, seed: int) -> None:
    run_random(beside, seed, times(100, 300))
    assert beside.counts["carried out"] > times(20, 60)


@pytest.mark.long
def test_a_server_without_case_has_the_catalog_of_the_model(beside_without_case: Beside) -> None:
    for seed in range(times(1, 4)):
        run_random(beside_without_case, seed, 300)
    assert beside_without_case.counts["carried out"] > 50


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_trap_leaves_the_model_with_the_catalog_of_the_server(beside: Beside, name: str) -> None:
    beside.begin(strict=True)
    for sql in SCRIPTS[name].statements:
        before = beside.catalog
        assert not beside.refused("shop", sql), sql
        assert [one.problem for one in beside.follow(beside.written("shop"))] in ([], [None]), sql
        beside.assert_equal(sql)
        assert apply(before, sql, "shop").catalog == beside.catalog, sql


def test_columns_in_every_spelling_are_those_of_the_server(beside: Beside) -> None:
    beside.begin(strict=False)
    for spelling in SPELLINGS:
        for sql in (f"CREATE OR REPLACE TABLE t (a {spelling})", "CREATE OR REPLACE TABLE u (z INT) CHARSET utf8"):
            assert not beside.refused("shop", sql), sql
            beside.follow([("shop", sql)])
        if not any(word in spelling for word in ("AUTO_INCREMENT", "SERIAL", "KEY", "VERSIONING")):
            sql = f"ALTER TABLE u ADD a {spelling} FIRST, MODIFY a {spelling}"
            assert not beside.refused("shop", sql), sql
            beside.follow([("shop", sql)])
        beside.assert_equal(spelling)


def test_a_version_comment_is_code_as_the_server_has_it(beside: Beside) -> None:
    beside.version = beside.server_version()
    beside.begin(strict=True)
    versions = ("", "40101", "50699", "50700", "80023", "99999", "100000", "101100", "999999")
    opens = [f"/*{kind}{version}" for kind in ("!", "M!") for version in versions]
    for number, opening in enumerate(opens):
        sql = f"CREATE TABLE t{number} (a INT {opening}, b INT */)"
        assert not beside.refused("shop", sql), sql
        assert [one.problem for one in beside.follow([("shop", sql)])] == [None]
        beside.assert_equal(sql)
    assert len({schema.names for schema in beside.catalog.tables.values()}) == 2
    beside.version = None


def test_a_query_makes_a_table_that_only_the_binlog_describes(beside: Beside) -> None:
    beside.begin(strict=True)
    for sql in ("CREATE TABLE t (a INT, b TEXT)", "CREATE TABLE u (c CHAR(3), b INT) AS SELECT * FROM t"):
        assert not beside.refused("shop", sql)
    (_, written) = statements = beside.written("shop")
    beside.follow(statements)
    beside.assert_equal(written[1])
    assert "SELECT" not in written[1]
