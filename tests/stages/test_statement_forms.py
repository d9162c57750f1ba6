"""Statements in all their forms beside a real MariaDB: its schema, its untouched rows, and its words as names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from dts_assets.wire.ddl.table_schemas import Family
from tests.stages.statement_forms import FormsBeside, check_words, keywords, random_forms, systematic_forms
from tests.tiers import times

pytestmark = pytest.mark.database


@pytest.fixture
def beside() -> Iterator[FormsBeside]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with private_server() as server, server.connect() as connection:
            found = FormsBeside(connection, Family.MARIADB)
            found.begin()
            yield found
    except ServerUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.more
def test_random_statements_leave_the_schema_and_the_rows_of_the_server(beside: FormsBeside) -> None:
    for sql in islice(random_forms(Random(52)), times(120, 3_000)):
        beside.check(sql)
    beside.assert_right()
    assert beside.counts["taken"] > times(40, 1_000)


@pytest.mark.more
def test_words_of_the_server_name_columns_and_tables(beside: FormsBeside) -> None:
    words = ["period", "system", "vector", "global", "versioning", *Random(52).sample(keywords(beside), times(10, 600))]
    check_words(beside, words)
    beside.assert_right()
    assert beside.counts["taken"] > times(100, 6_000)


@pytest.mark.long
def test_each_form_of_the_lists_leaves_the_schema_and_the_rows_of_the_server(beside: FormsBeside) -> None:
    for sql in systematic_forms():
        beside.check(sql)
    beside.assert_right()
    assert beside.counts["taken"] > 1_500
