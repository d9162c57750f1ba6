"""Rules applied to decoded changes, held against a model in memory: a table, its changes, and images of several kinds."""

from __future__ import annotations

import hmac
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.column_rules import ColumnRule, RuleKind, stored_columns, table_rules, unusable
from dts_assets.model.columns import Column
from dts_assets.stages.column_rules import RulesError, apply_rules
from dts_assets.stages.keyed_values import hashed, key_of_unfit, tokenized
from tests.stages.ruled import (
    COLUMNS,
    KEY,
    NAMES,
    NULLS,
    RULES,
    STORED,
    UNFIT,
    Change,
    Row,
    batch_of,
    changes_of,
    rules_of,
)


def ruled_value(name: str, value: Any) -> Any:
    """What a rule makes of a value, in plain Python."""
    if value is None or name not in RULES:
        return value
    unfit = value.startswith(UNFIT)
    if name == "email":
        return hmac.digest(key_of_unfit(KEY) if unfit else KEY, value.encode(), "sha256").hex()
    if name == "note":
        return "***"
    if unfit:
        return f"tok_{hmac.digest(KEY, value.encode(), 'sha256').hex()[:32]}"
    return re.sub(
        "[0-9]{4,}", lambda m: f"tok_{hmac.digest(KEY, m.group().encode(), 'sha256').hex()[:32]}{m.group()[-2:]}", value
    )


def ruled_row(row: Row) -> Row:
    return {name: ruled_value(name, row[name]) for name in STORED}


def passes(row: Row) -> bool:
    return row["region"] == "eu" and ((row["amount"] is not None and row["amount"] >= 10) or row["secret"] is None)


def folded(batch: pa.RecordBatch) -> dict[Any, Row]:
    """The rows that stand behind some changes, as a merge makes them: what is not sent follows the row."""
    state: dict[Any, Row] = {}
    for row in batch.to_pylist():
        absent = set(row["absent"])
        sent = {
            side: None if row[side] is None else {n: v for n, v in row[side].items() if f"{side}.{n}" not in absent}
            for side in ("before", "after")
        }
        before, after = sent["before"] or {}, sent["after"] or {}
        old = state.pop(before.get("id", after.get("id")), {}) if row["op"] in ("update", "delete") else {}
        if row["op"] != "delete":
            new = {name: after.get(name, old.get(name)) for name in (row["after"] or {})}
            state[new["id"]] = new
    return state


def value_of(random: Random, name: str) -> Any:
    if name == "region":
        return random.choice(["eu", "eu", "us", "EU", "eu ", None])
    if name == "amount":
        return random.choice([9, 10, 11, None])
    some = {"email": "a@b", "card": "no 123456 or 99", "note": "text", "secret": None}
    return random.choice(
        [some[name], f"{name} {random.randrange(3)}4444", None, *([UNFIT + name] if name != "secret" else [])]
    )


def history(random: Random, kind: str, count: int = 30) -> tuple[list[Change], dict[int, Row]]:
    """Changes with images of a kind, and the rows that stand in the end."""
    rows: dict[int, Row] = {}
    changes = []
    for _ in range(count):
        key = random.choice([None, *rows]) if rows else None
        if key is None:
            new = {
                "id": random.choice([one for one in range(99) if one not in rows]),
                **{n: value_of(random, n) for n in NAMES[1:]},
            }
            rows[new["id"]] = new
            changes.append(Change(random.choice(["insert", "read"]), None, dict(new)))
            continue
        old = rows.pop(key)
        if random.random() < 0.2:
            changes.append(Change("delete", trimmed(old, old, kind), None))
            continue
        new = {**old, **{n: value_of(random, n) for n in random.sample(NAMES[1:], random.randint(1, 6))}}
        if random.random() < 0.2:
            new["id"] = random.choice([one for one in range(99) if one not in rows and one != key])
        rows[new["id"]] = new
        moved = new["id"] != key
        before = None if kind == "no old image" and not moved else trimmed(old, old, kind)
        after = {n: v for n, v in new.items() if n == "id" or v != old[n]} if kind == "changed columns" else dict(new)
        if kind == "old image of changed columns":
            before = {n: v for n, v in old.items() if new[n] != v} or {"id": old["id"]}
        changes.append(Change("update", before, after))
    return changes, rows


def trimmed(row: Row, old: Row, kind: str) -> Row:
    return {"id": old["id"]} if kind in ("old key", "no old image") else dict(row)


WHOLE_NEW = ["whole", "old key", "no old image", "old image of changed columns"]


@given(st.integers(0, 1 << 30), st.sampled_from([*WHOLE_NEW, "changed columns"]), st.integers(1, 40))
def test_what_stands_in_the_end_is_what_passes_of_the_source(seed: int, kind: str, size: int) -> None:
    """Batches of any size are judged alone, and give together what the filter leaves of the source's rows."""
    random, rules = Random(seed), rules_of()
    changes, rows = history(random, kind)
    parts, left_out = [], 0
    for first in range(0, len(changes), size):
        try:
            found = apply_rules(changes_of(batch_of(changes[first : first + size], rules.decoded)), rules)
        except RulesError:
            assert kind == "changed columns"
            return
        parts.append(found.changes.batch)
        left_out += len(found.left_out)
    made = pa.Table.from_batches(parts).combine_chunks().to_batches(max_chunksize=10**6) or parts[:1]
    batch = made[0]
    assert folded(batch) == {row["id"]: ruled_row(row) for row in rows.values() if passes(row)}
    assert batch.num_rows + left_out == len(changes)
    assert "secret" not in str(batch.schema)
    assert UNFIT not in str(batch.to_pylist())


@given(st.integers(0, 1 << 30))
def test_an_update_over_the_border_is_an_insert_or_a_delete(seed: int) -> None:
    random, rules = Random(seed), rules_of()
    changes, _ = history(random, "whole")
    found = apply_rules(changes_of(batch_of(changes, rules.decoded)), rules).changes.batch.to_pylist()
    expected = []
    for change in changes:
        before = change.before if change.before is not None and passes(change.before) else None
        after = change.after if change.after is not None and passes(change.after) else None
        if before or after:
            op = change.op if change.op != "update" or (before and after) else "insert" if after else "delete"
            expected.append((op, before and ruled_row(before), after and ruled_row(after)))
    assert [(row["op"], row["before"], row["after"]) for row in found] == expected
    assert not any(row["absent"] or row["invalid"] for row in found)


REFUSED = {
    "an insert without the column": Change("insert", None, {"id": 1, "region": "eu"}),
    "a new image without the column, like the old one": Change("update", {"id": 1}, {"id": 1, "region": "eu"}),
    "a row that comes in with some columns alone": Change(
        "update",
        {**NULLS, "id": 1, "region": "us"},
        {"id": 1, "region": "eu", "amount": 12, "secret": None},
    ),
    "a row that may come in with some columns alone": Change(
        "update", {"id": 1}, {"id": 1, "region": "eu", "amount": 12, "secret": None}
    ),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_nobody_can_judge_is_refused(change: Change) -> None:
    rules = rules_of()
    with pytest.raises(RulesError, match="row filter"):
        apply_rules(changes_of(batch_of([change], rules.decoded)), rules)


def test_without_a_key_an_old_image_must_tell() -> None:
    columns = tuple(replace(column, is_key=False) for column in COLUMNS)
    rules = rules_of(columns)
    some = [Change("delete", {"id": 1}, None)]
    with pytest.raises(RulesError, match="without a primary key"):
        apply_rules(changes_of(batch_of(some, rules.decoded), ()), rules)
    assert apply_rules(changes_of(batch_of(some, rules.decoded)), rules).changes.batch.num_rows == 1  # its key tells


@pytest.mark.parametrize(
    "change",
    [
        Change("delete", {"id": 1}, None),
        Change("update", {"id": 1}, {**NULLS, "id": 1}),
        Change("update", None, {**NULLS, "id": 1}),
        Change("update", {"id": 1}, {**NULLS, "id": 2, "region": "eu", "secret": None}),
    ],
    ids=["deleted", "leaves", "leaves without an old image", "moves"],
)
def test_where_deleted_rows_stay_an_old_image_must_tell(change: Change) -> None:
    """A row that never passed would stand in the snapshot as a deleted one."""
    rules = rules_of()
    batch = batch_of([change], rules.decoded)
    assert apply_rules(changes_of(batch), rules).changes.batch.num_rows == 1
    with pytest.raises(RulesError, match="as a deleted one"):
        apply_rules(changes_of(batch), replace(rules, keeps_deleted=True))
    stays = Change("update", {"id": 1}, {**NULLS, "id": 1, "region": "eu"})
    assert apply_rules(
        changes_of(batch_of([stays], rules.decoded)), replace(rules, keeps_deleted=True)
    ).changes.batch.num_rows


def test_a_column_that_was_not_sent_is_as_in_the_old_image() -> None:
    old = {**NULLS, "id": 1, "region": "eu", "amount": 10}
    rules = rules_of()
    some = [Change("update", old, {"id": 1, "note": "new"}), Change("update", old, {"id": 1, "region": "us"})]
    found = apply_rules(changes_of(batch_of(some, rules.decoded)), rules).changes.batch.to_pylist()
    assert [(row["op"], len(row["absent"])) for row in found] == [("update", 4), ("delete", 0)]
    assert not any("secret" in name for row in found for name in row["absent"])


def test_a_row_that_leaves_keeps_its_key_where_only_the_new_image_has_it() -> None:
    rules = rules_of()
    some = [
        Change("update", None, {**NULLS, "id": 7}),
        Change("update", {"note": "x"}, {**NULLS, "id": 8}),
    ]
    found = apply_rules(changes_of(batch_of(some, rules.decoded)), rules).changes.batch.to_pylist()
    assert [(row["op"], row["before"]["id"], row["after"]) for row in found] == [
        ("delete", 7, None),
        ("delete", 8, None),
    ]
    assert [sorted(row["absent"]) for row in found] == [
        [f"before.{name}" for name in ("amount", "card", "email", "note", "region")],
        [f"before.{name}" for name in ("amount", "card", "email", "region")],
    ]


def test_a_key_that_does_not_fit_goes_along_with_its_text() -> None:
    rules = rules_of((Column("id", "string", is_key=True), *COLUMNS[1:]))
    some = [Change("update", None, {**NULLS, "id": UNFIT + "key"})]
    (row,) = apply_rules(changes_of(batch_of(some, rules.decoded)), rules).changes.batch.to_pylist()
    assert row["invalid"] == [("before.id", UNFIT + "key")]


def test_keys_can_be_hashed_and_nothing_else() -> None:
    for kind in RuleKind:
        rules = rules_of(rows=None, id=ColumnRule(kind, key=KEY, text="x", pattern="x"))
        clause = unusable(rules)
        if kind is RuleKind.HASH:
            assert clause is None
            continue
        assert clause is not None
        assert "primary key" in clause
    rules = rules_of(rows=None)
    with pytest.raises(RulesError, match="drop is on secret"):  # a key that the table had once
        apply_rules(changes_of(batch_of([], rules.decoded), ("secret",)), rules)


def test_equal_values_have_equal_hashes_whatever_their_columns_and_types() -> None:
    text, number = hashed(pa.array([b"5", None, b"5"]), KEY).to_pylist(), hashed(pa.array([b"5"]), KEY)[0].as_py()
    assert text == [number, None, number]
    assert text[0] == hmac.new(KEY, b"5", "sha256").hexdigest()
    assert hashed(pa.array([b"5"]), KEY + b"!")[0].as_py() != number


@given(st.lists(st.none() | st.text(alphabet="0123456789a\x01\\é", max_size=20), max_size=20), st.integers(0, 5))
def test_tokens_stand_where_the_pattern_matches(texts: list[str | None], keep: int) -> None:
    rule = ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="[0-9]{3,5}", keep_last=keep)

    def token(found: re.Match[str]) -> str:
        match = found.group()
        kept = match[-keep:] if 0 < keep < len(match) else ""
        return f"tok_{hmac.digest(KEY, match.encode(), 'sha256').hex()[:32]}{kept}"

    expected = [None if text is None else re.sub("[0-9]{3,5}", token, text) for text in texts]
    assert tokenized(pa.array(texts, pa.string()), rule).to_pylist() == expected
    assert tokenized(pa.array(["x", *texts], pa.string()).slice(1), rule).to_pylist() == expected


def test_bytes_become_a_token_whole() -> None:
    rule = ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="never")
    (found,) = tokenized(pa.array([b"\xff4111"]), rule).to_pylist()
    assert found == f"tok_{hmac.digest(KEY, bytes([255]) + b'4111', 'sha256').hex()[:32]}"


def test_stored_columns_are_text_where_rules_make_other_values() -> None:
    rules: Mapping[str, ColumnRule] = {"amount": RULES["email"], "photo": RULES["email"], "secret": RULES["secret"]}
    columns = (*COLUMNS, Column("photo", "binary", is_key=False))
    assert [column.type for column in stored_columns(columns, rules.get)] == ["int", *["string"] * 6]
    made = table_rules(columns, rules.get, None)
    assert made is not None
    assert {column.name: column.type for column in made.decoded}["photo"] == "binary"
    assert "secret" not in {column.name for column in made.decoded}


def test_rules_travel_to_tasks_and_show_no_key() -> None:
    rules = rules_of()
    assert pickle.loads(pickle.dumps(rules)) == rules
    assert KEY.decode() not in repr(rules) + str(rules) + "".join(rule.fingerprint for rule in rules.columns.values())
    other = replace(RULES["email"], key=KEY + b"!")
    assert other.fingerprint != RULES["email"].fingerprint
