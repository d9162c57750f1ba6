"""Changes that lack columns of a row filter, between decoding and the changelog: those that a merge judges stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dts_assets.model.column_rules import ColumnRule, RuleKind, TableRules, no_rule, table_rules
from dts_assets.model.columns import Column
from dts_assets.model.stored_filters import stored_filter
from dts_assets.model.tables import TableId
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.column_rules import RulesError, apply_rules
from dts_assets.wire.format import ToldKeys
from tests.stages.ruled import KEY, UNFIT, Change, batch_of, changes_of

COLUMNS = (
    Column("id", "int", is_key=True),
    Column("status", "string", is_key=False),
    Column("amount", "int", is_key=False),
    Column("note", "string", is_key=False),
)
FILTER = "status <> 'draft' AND amount > 0"
OLD = {"id": 1}
WHOLE: dict[str, Any] = {"id": 1, "status": "paid", "amount": 5, "note": "n"}


def rules_of(**ruled: ColumnRule) -> TableRules:
    found = table_rules(COLUMNS, ruled.get if ruled else no_rule, filter_of(FILTER))
    assert found is not None
    return found


def made(change: Change, rules: TableRules) -> dict[str, Any] | None:
    """The row of the changelog; None where the change was left out."""
    found = apply_rules(changes_of(batch_of([change], rules.decoded)), rules)
    assert found.changes.batch.num_rows + len(found.left_out) == 1
    return next(iter(found.changes.batch.to_pylist()), None)


OPEN = {
    "an update of another column": Change("update", OLD, {"note": "new"}),
    "an update of one of the filter's columns": Change("update", OLD, {"status": "paid"}),
    "an update of one of them that cannot pass": Change("update", OLD, {"status": "draft"}),
    "an update of the key": Change("update", OLD, {"id": 2}),
    "an old image that tells another column": Change("update", {"id": 1, "amount": 5}, {"id": 1, "note": "new"}),
    "an insert without a column": Change("insert", None, {"id": 1, "status": "paid"}),
    "a read without a column": Change("read", None, {"id": 1, "amount": 5}),
}


@pytest.mark.parametrize("soft", [False, True], ids=["deleted rows go", "deleted rows stay"])
@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN)
def test_changes_that_nobody_can_judge_stay_as_they_are(change: Change, *, soft: bool) -> None:
    row = made(change, replace(rules_of(), keeps_deleted=soft))
    assert row is not None
    assert row["op"] == change.op
    for side, image in (("before", change.before), ("after", change.after)):
        sent = None if image is None else {**dict.fromkeys(WHOLE), **image}
        assert row[side] == sent
        assert {f"{side}.{name}" for name in WHOLE if image is not None and name not in image} <= {*row["absent"]}


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN)
@pytest.mark.parametrize(
    "rules",
    [
        rules_of(status=ColumnRule(RuleKind.HASH, key=KEY)),
        rules_of(amount=ColumnRule(RuleKind.DROP)),
    ],
    ids=["hashed", "dropped"],
)
def test_where_no_merge_judges_the_table_stands_still(change: Change, rules: TableRules) -> None:
    with pytest.raises(RulesError, match="nothing else tells"):
        made(change, rules)


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN)
def test_a_table_without_a_key_stands_still(change: Change) -> None:
    columns = tuple(replace(column, is_key=False) for column in COLUMNS)
    rules = table_rules(columns, no_rule, filter_of(FILTER))
    assert rules is not None
    with pytest.raises(RulesError, match="nothing else tells"):
        apply_rules(changes_of(batch_of([change], columns), ()), rules)


JUDGED = {
    "comes in without all columns": (Change("update", OLD, {"status": "paid", "amount": 5}), "update"),
    "comes in without all columns, of which the old image has some": (
        Change("update", {"id": 1, "status": "draft", "amount": 5}, {"status": "paid"}),
        "update",
    ),
    "comes in with what both images have": (Change("update", {**WHOLE, "status": "draft"}, {"status": "paid"}), "insert"),
    "comes in": (Change("update", {**WHOLE, "status": "draft"}, WHOLE), "insert"),
    "stays, as the old image says": (Change("update", WHOLE, {"note": "new"}), "update"),
    "goes, as both images together say": (Change("update", {"id": 1, "amount": 5}, {"status": "draft"}), "delete"),
    "goes": (Change("update", OLD, {"status": "draft", "amount": 5}), "delete"),
    "goes or was never there": (Change("delete", OLD, None), "delete"),
    "was outside": (Change("delete", {**WHOLE, "amount": 0}, None), None),
    "stays outside": (Change("update", {**WHOLE, "amount": 0}, {**WHOLE, "amount": -1}), None),
}  # fmt: skip


@pytest.mark.parametrize(("change", "operation"), JUDGED.values(), ids=JUDGED)
def test_changes_that_tell_all_columns_are_judged_at_once(change: Change, operation: str | None) -> None:
    row = made(change, rules_of())
    assert (row and row["op"]) == operation


NULL_STATUS: dict[str, Any] = {**WHOLE, "status": None, "note": None}
DRAFT: dict[str, Any] = {**WHOLE, "status": "draft"}
DOUBTFUL = {
    "goes or was never there": (Change("delete", NULL_STATUS, None), "delete"),
    "goes behind it, or was never there": (Change("update", NULL_STATUS, DRAFT), "delete"),
    "stays or comes in": (Change("update", NULL_STATUS, WHOLE), "update"),
}
CLEAR = {
    "stays outside": (Change("update", DRAFT, {**WHOLE, "amount": 0}), None),
    "comes in": (Change("update", DRAFT, WHOLE), "insert"),
    "stays": (Change("update", WHOLE, {**WHOLE, "note": None}), "update"),
    "does not fit": (Change("delete", {**NULL_STATUS, "status": UNFIT + "text"}, None), None),
    "is new": (Change("insert", None, WHOLE), "insert"),
    "is new and outside": (Change("insert", None, NULL_STATUS), None),
}


def of_a_schema(change: Change, rules: TableRules, *keys: tuple[str, ...]) -> dict[str, Any] | None:
    """The row of the changelog, in a source whose tables have a schema."""
    sent = replace(changes_of(batch_of([change], rules.decoded), *keys), table=TableId("shop", "public", "orders"))
    return next(iter(apply_rules(sent, rules).changes.batch.to_pylist()), None)


def bag_rules(**ruled: ColumnRule) -> TableRules:
    found = table_rules([replace(one, is_key=False) for one in COLUMNS], ruled.get, filter_of(FILTER))
    assert found is not None
    return found


@pytest.mark.parametrize(("change", "operation"), [*DOUBTFUL.values(), *CLEAR.values()], ids=[*DOUBTFUL, *CLEAR])
def test_null_in_an_old_image_of_a_source_with_a_schema_may_not_have_been_sent(
    change: Change, operation: str | None
) -> None:
    for soft in (False, True):
        row = of_a_schema(change, replace(bag_rules(), keeps_deleted=soft), ())
        assert (row and row["op"]) == operation
        assert row is None or row["absent"] == [], "the merge compares it with the rows that stand"


def test_a_key_that_comes_amid_the_changes_is_that_of_the_changes_behind_it() -> None:
    """Those with a key lack what they did not send, and those without one have NULL there."""
    lacking = Change("delete", {"id": 1, "amount": 20}, None)
    null, rules = Change("delete", NULL_STATUS, None), rules_of()
    batch = batch_of([null, lacking, null], rules.decoded)
    keys = ToldKeys(((), ("id",)), np.asarray([0, 1, 0]))
    sent = replace(changes_of(batch), table=TableId("shop", "public", "orders"), keys=keys)
    for soft in (False, True):
        made = apply_rules(sent, replace(rules, keeps_deleted=soft)).changes.batch.to_pylist()
        assert [row["absent"] for row in made] == [[], ["before.status", "before.note"], []]
    with pytest.raises(RulesError, match="without a primary key no stored row can tell"):
        apply_rules(replace(sent, keys=replace(keys, numbers=np.asarray([0, 0, 1]))), rules)


@pytest.mark.parametrize("change", [one for one, _ in DOUBTFUL.values()], ids=DOUBTFUL)
def test_null_is_null_in_an_old_image_of_mysql(change: Change) -> None:
    rules = bag_rules()
    row = next(
        iter(apply_rules(changes_of(batch_of([change], rules.decoded), ()), rules).changes.batch.to_pylist()), None
    )
    assert (row and row["op"]) == ("insert" if change.after == WHOLE else None)


@pytest.mark.parametrize("change", [one for one, _ in DOUBTFUL.values()], ids=DOUBTFUL)
@pytest.mark.parametrize(
    "rules",
    [bag_rules(status=ColumnRule(RuleKind.DROP)), replace(bag_rules(), writes_statements=True)],
    ids=["dropped", "statements"],
)
def test_where_no_stored_row_can_tell_what_null_was_the_table_stands_still(change: Change, rules: TableRules) -> None:
    with pytest.raises(RulesError, match="NULL in an old image may stand for a value that was not sent"):
        of_a_schema(change, rules, ())
    for clear, operation in CLEAR.values():
        row = of_a_schema(clear, rules, ())
        assert (row and row["op"]) == operation


def test_a_value_that_an_update_leaves_as_it_was_is_not_the_null_of_the_old_image() -> None:
    """PostgreSQL leaves large values out of new rows, and they are never NULL."""
    rules = table_rules([replace(one, is_key=False) for one in COLUMNS], no_rule, filter_of("note IS NULL"))
    assert rules is not None
    new = {name: WHOLE[name] for name in ("id", "status", "amount")}
    with pytest.raises(RulesError, match="nothing else tells"):
        of_a_schema(Change("update", NULL_STATUS, new), rules, ())


def test_a_row_that_comes_in_has_what_both_images_tell() -> None:
    """The old image is outside of the filter and stays behind; what it tells of the row does not."""
    old = {"id": 1, "status": "draft", "amount": UNFIT + "amount"}
    columns = tuple(replace(one, type="string") if one.name == "amount" else one for one in COLUMNS)
    rules = table_rules(columns, no_rule, filter_of("status <> 'draft'"))
    assert rules is not None
    row = made(Change("update", old, {"status": "paid"}), rules)
    assert row is not None
    assert row["before"] is None
    assert row["after"] == {"id": 1, "status": "paid", "amount": None, "note": None}
    assert row["absent"] == ["after.note"]
    assert row["invalid"] == [("after.amount", UNFIT + "amount")]


STATED = {
    "some columns of the filter": Change("update", OLD, {"status": "paid"}),
    "an insert without a column": Change("insert", None, {"id": 1, "status": "paid"}),
    "a row that may come in without all columns": Change("update", OLD, {"status": "paid", "amount": 5}),
}


@pytest.mark.parametrize("change", STATED.values(), ids=STATED)
def test_where_statements_are_written_a_row_must_tell_that_it_comes_or_goes(change: Change) -> None:
    """An UPDATE of other columns is right on a copy of the filtered table: it finds the row that stands, or none."""
    rules = replace(rules_of(), writes_statements=True)
    with pytest.raises(RulesError, match="row filter"):
        made(change, rules)
    other = made(Change("update", OLD, {"note": "new"}), rules)
    assert other is not None
    assert other["op"] == "update"


def test_a_filter_fits_the_rows_that_stand_or_says_why_not() -> None:
    rules = rules_of()
    fits = stored_filter(rules, COLUMNS)
    assert fits is not None
    assert fits.clause is None
    assert fits.fields == (("status",), ("amount",))
    wider = stored_filter(rules, [replace(one, type="bigint") if one.name == "amount" else one for one in COLUMNS])
    assert wider is not None
    assert wider.clause is None
    texts = stored_filter(rules, [replace(one, type="string") if one.name == "amount" else one for one in COLUMNS])
    assert texts is not None
    assert texts.clause is not None
    assert "amount, which is string, and is compared with something else" in texts.clause
    gone = stored_filter(rules, COLUMNS[:2])
    assert gone is not None
    assert gone.clause is not None
    assert "names amount, and no column is called so" in gone.clause
    clocks = (COLUMNS[0], Column("at", "timestamp", is_key=False))
    at = table_rules(clocks, no_rule, filter_of("at > '2026-01-05'"))
    other = stored_filter(at, (clocks[0], Column("at", "string", is_key=False)))
    assert other is not None
    assert other.clause == "its row filter looks at at, which is string in its rows and timestamp in its changes"


def test_no_merge_judges_tables_without_a_filter_nor_rows_without_a_key() -> None:
    assert stored_filter(None, COLUMNS) is None
    assert stored_filter(table_rules(COLUMNS, {"note": ColumnRule(RuleKind.DROP)}.get, None), COLUMNS) is None
    bag = stored_filter(rules_of(), [replace(one, is_key=False) for one in COLUMNS])
    assert bag is not None
    assert bag.clause == "no primary key finds the row that it changes"
    dropped = rules_of(amount=ColumnRule(RuleKind.DROP))
    assert stored_filter(dropped, dropped.stored) is None


def test_the_absence_of_a_former_spelling_counts() -> None:
    column = Column("status", "string", is_key=False, spellings=("Status", "status"))
    assert column.lake_names == ("status", "Status")
    columns = (COLUMNS[0], column, *COLUMNS[2:])
    rules = table_rules(columns, no_rule, filter_of(FILTER))
    found = stored_filter(rules, columns)
    assert found is not None
    assert ("status", "Status") in found.fields
