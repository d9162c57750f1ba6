"""The topics of a DRS task: names by policy and template, and offsets of each topic's own."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_emulator.drs.drs_options import DrsOptions, TopicPolicy
from dts_emulator.drs.drs_task import produce_drs
from dts_emulator.drs.topics import topic_of
from dts_emulator.source.events import Ddl, Transaction
from tests.dts_emulator.drs.test_drs_task import BAG, QUIET, TABLE, at, insert, transaction
from tests.tiers import examples


@pytest.mark.parametrize(
    ("policy", "template", "of_table", "of_statement"),
    [
        (0, None, None, None),
        (1, None, "db1-tab1", "db1"),
        (1, "$database$-$tablename$", "db1-tab1", "db1"),
        (1, "x.$database$.$tablename$.y", "x.db1.tab1.y", "x.db1.y"),
        (1, "$tablename$", "tab1", "drs-emulator"),
        (2, None, "db1", "db1"),
        (2, "all_$database$", "all_db1", "all_db1"),
        (3, None, "db1", "db1"),
    ],
)
def test_names_follow_the_policy_and_its_template(
    policy: TopicPolicy, template: str | None, of_table: str | None, of_statement: str | None
) -> None:
    options = DrsOptions(topic_policy=policy, topic_template=template)
    assert topic_of(options, "db1", "tab1") == of_table
    assert topic_of(options, "db1") == of_statement


@given(st.text(max_size=300), st.text(max_size=300), st.sampled_from([None, "$database$", "-$schema$-$tablename$-"]))
@examples(200)
def test_every_name_is_one_that_kafka_takes(database: str, table: str, template: str | None) -> None:
    name = topic_of(DrsOptions(topic_policy=1, topic_template=template), database, table)
    assert name is not None
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name)


def test_a_template_without_a_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="a template of topics is for the topic policies 1, 2 and 3"):
        DrsOptions(topic_template="$database$")


def test_statements_and_rows_of_each_table_have_offsets_of_their_own_and_ids_of_the_task() -> None:
    work = [
        Transaction((Ddl(at(0), "shop", "CREATE TABLE t (id INT)", 0),)),
        transaction(1, insert(1, b"a"), insert(2, b"b")),
        transaction(2, insert(7), table=BAG),
        Transaction((Ddl(at(3), "shop", "ALTER TABLE t ADD x INT", 0),)),
        transaction(4, insert(3, b"c")),
    ]
    options = replace(QUIET, partitions=2, partition_policy=2, topic_policy=1)
    messages = list(produce_drs(work, options))
    places = defaultdict(list)
    for one in messages:
        places[one.topic, one.partition].append(one.offset)
    assert {topic for topic, _ in places} == {"shop", f"shop-{TABLE.table}", f"shop-{BAG.table}"}
    assert all(offsets == list(range(len(offsets))) for offsets in places.values())
    assert places["shop", 0] == [0, 1]
    single = list(produce_drs(work, replace(options, topic_policy=0)))
    assert [one.value for one in messages] == [one.value for one in single], "what is said does not depend on the topic"
