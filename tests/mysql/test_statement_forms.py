"""Statements in all their forms beside a real MySQL: its schema, its untouched rows, and its words as names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from dts_assets.wire.ddl.table_schemas import Family
from dts_emulator.source.private_mysql import private_mysql
from tests.stages.statement_forms import ACTIONS, TABLES, FormsBeside, check_words, keywords, random_forms

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def beside() -> Iterator[FormsBeside]:
    with private_mysql() as server, server.connect() as connection:
        found = FormsBeside(connection, Family.MYSQL)
        found.begin()
        yield found


def test_random_statements_leave_the_schema_and_the_rows_of_the_server(beside: FormsBeside) -> None:
    for sql in islice(random_forms(Random(52)), 200):
        beside.check(sql)
    beside.assert_right()


def test_clauses_leave_the_schema_and_the_rows_of_the_server(beside: FormsBeside) -> None:
    for sql in (*TABLES, *(f"ALTER TABLE t {action}" for action in ACTIONS)):
        beside.check(sql)
    beside.assert_right()
    assert beside.counts["taken"] > 100


def test_words_of_the_server_name_columns_and_tables(beside: FormsBeside) -> None:
    check_words(beside, ["period", "system", "vector", *Random(52).sample(keywords(beside), 30)])
    beside.assert_right()
