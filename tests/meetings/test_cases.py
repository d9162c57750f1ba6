"""Cases by themselves: what is drawn, what is left out, the views that rows are held against, and scripts."""

from __future__ import annotations

import hmac
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

import pytest

from dts_assets.model.tables import TableId
from dts_assets.settings.models import Subscription
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema
from tests.dts_emulator.server_lives import FIRST, Held, Life, Moment
from tests.meetings import machine
from tests.meetings.cases import Case, Said, Step, drawn_steps
from tests.meetings.expected import OneOf, Past, View, views_of
from tests.meetings.features import APART, KEY, NEEDS, Feature, drawn, settings_of
from tests.meetings.machine import Played, again, make_small, sign

F = Feature
SILENT = list[str]().append
SOME = [drawn(Random(seed)) for seed in range(600)]
COLUMNS = (SchemaColumn("id", "int(11)"), SchemaColumn("f", "int(11)"), SchemaColumn("mail", "varchar(40)", "utf8mb4"))
ROWS = ((1, 7, "anna"), (2, 70, "bo"), (3, None, None))
ITEMS, SHARD = TableId("d", "", "items"), TableId("shop_00", "", "orders_1")


def held(*rows: tuple[Any, ...]) -> Held:
    return Held(TableSchema(COLUMNS, ("id",)), rows, tuple(frozenset[str]() for _ in rows))


def shown(features: set[Feature], **tables: Held) -> dict[TableId, View]:
    settings = settings_of(frozenset(features), 4)
    return views_of({1: {ITEMS: tables["items"], SHARD: tables["shard"]}}, features, settings, Past())


def test_every_feature_is_drawn_and_meets_all_that_it_may_meet() -> None:
    pairs = {frozenset({one, other}) for one in F for other in F if one != other}
    met = {pair for pair in pairs if any(pair <= some for some in SOME)}
    cannot = {frozenset({F.RETOLD, F.COPIES})}  # the one needs a failover, the other cannot have any
    assert met == pairs - APART.keys() - cannot
    assert all(NEEDS[one] in some for some in SOME for one in some & NEEDS.keys())
    assert all(APART.values())


def test_the_settings_of_all_cases_are_those_of_a_subscription() -> None:
    source = {"capture": {"path": "."}}
    window = {"every": "12h", "start": "2026-01-05T00:00Z"}
    for seed, features in enumerate(SOME[:150]):
        values = {"format": "dts-protobuf", "source": source, "partitions": 1, "window": window}
        made = Subscription.model_validate({**values, **settings_of(features, seed)})
        assert made.has_rules == bool({F.RULES, F.FILTER} & features)


def test_a_filter_leaves_rows_out_and_a_rule_makes_others_of_values() -> None:
    found = shown({F.FILTER, F.RULES}, items=held(*ROWS), shard=held())
    sealed = hmac.new(KEY.encode(), b"anna", "sha256").hexdigest()
    assert found[ITEMS].rows == [{"id": 1, "f": 7, "mail": sealed}]


def test_a_merged_table_has_the_rows_of_all_shards() -> None:
    found = shown({F.MERGE}, items=held(*ROWS), shard=held(*ROWS[:1]))
    tells = {"_source_database": "shop_00", "_source_table": "orders_1"}
    assert found[TableId("shop", "", "orders")].rows == [{"id": 1, "f": 7, "mail": "anna", **tells}]
    assert len(found[ITEMS].rows) == 3


def test_a_value_that_a_statement_moved_may_be_plain_or_under_its_rule() -> None:
    past = Past({"anna"}, {"mail", "a"})
    (view,) = views_of({1: {ITEMS: held(ROWS[0])}}, {F.RULES}, {}, past).values()
    (row,) = view.rows
    assert isinstance(row["mail"], OneOf)
    assert row["mail"].takes("anna")
    assert row["mail"].takes(hmac.new(KEY.encode(), b"anna", "sha256").hexdigest())
    assert not row["mail"].takes("berta")


def test_a_value_that_may_be_plain_may_also_be_in_the_type_that_holds_those_of_all_shards() -> None:
    numbers, dates = (
        (SchemaColumn("id", "int(11)"), SchemaColumn("a", "int(11)")),
        (COLUMNS[0], SchemaColumn("a", "date")),
    )
    tables = {
        table: Held(TableSchema(columns, ("id",)), rows, (frozenset[str](),) * len(rows))
        for table, columns, rows in ((SHARD, numbers, ((1, 100),)), (TableId("shop_01", "", "orders_1"), dates, ()))
    }
    (view,) = views_of({1: tables}, {F.MERGE, F.RULES}, {}, Past({"anna"}, {"a"})).values()
    (row,) = view.rows
    assert view.columns["a"] == "string"
    assert row["a"].takes("100")
    assert not row["a"].takes("101")


@pytest.mark.parametrize("keeps_deleted", [False, True])
def test_a_shard_whose_key_got_other_columns_has_had_several_until_it_is_dropped(keeps_deleted: bool) -> None:
    states = [TableSchema(COLUMNS, ("id",)), TableSchema(COLUMNS, ("id", "f")), None, TableSchema(COLUMNS, ("id",))]
    several = []
    for count in range(1, len(states) + 1):
        tables = [{} if one is None else {SHARD: Held(one)} for one in states[:count]]
        life = Life([], [Moment("", "d", FIRST, 0, one) for one in tables])
        past = replace(Past.of({1: life}, keeps_deleted=keeps_deleted), seen=None)
        several += [view.several_keys for view in views_of({1: tables[-1]}, {F.MERGE}, {}, past).values()]
    assert several == [False, True, keeps_deleted]


def test_a_script_is_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    features = frozenset({F.MERGE, F.RETOLD, F.FAILOVER})
    said = (Said(1, 3, "d", "CREATE TABLE `d`.t (a INT DEFAULT '\\\\')"),)
    case = Case(7, features, said, drawn_steps(features, Random(3), 3))
    played: list[Case] = []
    monkeypatch.setattr(machine, "life_recorder", mock.MagicMock())

    def noted(_: object, one: Case) -> Played:
        played.append(one)
        return Played()

    monkeypatch.setattr(machine, "play", noted)
    names = {"again": again}
    exec(case.script().partition("\n")[2], names)
    assert played == [case]


def test_a_case_gets_as_small_as_its_fault_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that needs two features, two statements and a step."""
    features = frozenset({F.MERGE, F.HISTORY, F.SOFT, F.MINIMAL})
    said = tuple(Said(1, second, "d", f"statement {second}") for second in range(20))
    steps = tuple(Step("raw", number) for number in range(5))

    def played(_: object, case: Case) -> Played:
        fails = {F.MERGE, F.SOFT} <= case.features and {said[3], said[17]} <= {*case.said} and steps[2] in case.steps
        return Played(["snapshot d.items: no row {1}"] if fails else [])

    monkeypatch.setattr(machine, "play", played)
    small, found = make_small(
        mock.Mock(), Case(1, features, said, steps), {sign("snapshot d.moved: no row {2}")}, say=SILENT
    )
    assert small == Case(1, frozenset({F.MERGE, F.SOFT}), (said[3], said[17]), (steps[2],))
    assert found.faults
