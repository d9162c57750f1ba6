"""Rules on columns and rows as they are written: which are taken, which are refused, and that keys stay secret."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors
from dts_assets.model.column_rules import RuleKind
from dts_assets.model.row_filters import Comparison, Negation, Nullness
from dts_assets.model.tables import TableId
from dts_assets.settings import Subscription
from dts_assets.settings.load import load_settings
from dts_assets.settings.row_filters import filter_of

KEY = "a key that nobody guesses"
ENVIRONMENT = {"PII_KEY": KEY, "SHORT": "0123456789abcde"}


def settings_of(tmp_path: Path, *lines: str) -> Subscription:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "lake: {warehouse: ./lake}\n"
        "subscriptions:\n"
        "  shop:\n"
        "    format: dts-protobuf\n"
        "    source: {capture: ./capture}\n"
        "    partitions: 1\n"
        "    window: {every: 1h, start: '2026-01-05T00:00Z'}\n" + "".join(f"    {line}\n" for line in lines)
    )
    return load_settings(file, environment=ENVIRONMENT).subscriptions["shop"]


def mistakes_of(tmp_path: Path, *lines: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        settings_of(tmp_path, *lines)
    return [f"{one.message}; {one.fix}" for one in caught.value.mistakes]


def kinds(settings: Subscription, table: TableId, *columns: str) -> list[str]:
    found = settings.rule_finder(table)
    return ["" if (rule := found(column)) is None else rule.kind.value for column in columns]


def test_the_first_glob_that_matches_counts_and_case_does_not(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        "columns:",
        '  "shopdb.customers.email": {mask: "***"}',
        '  "*.*mail": {hash: {key: "${PII_KEY}"}}',
        '  "shopdb.customers.`a.b`": drop',
        '  "shop*.cust*.[pq]*": {tokenize: {key: "${PII_KEY}", pattern: "[0-9]+", keep_last: 4}}',
    )
    customers, orders = TableId("shopdb", "", "customers"), TableId("shopdb", "", "orders")
    assert kinds(settings, customers, "email", "EMAIL", "eMail2", "gmail", "a.b", "phone", "id") == [
        "mask", "mask", "", "hash", "drop", "tokenize", "",
    ]  # fmt: skip
    assert kinds(settings, orders, "Email", "a.b", "phone") == ["hash", "", ""]
    rule = settings.rule_finder(customers)("phone")
    assert rule is not None
    assert (rule.kind, rule.key, rule.pattern, rule.keep_last) == (RuleKind.TOKENIZE, KEY.encode(), "[0-9]+", 4)


@pytest.mark.parametrize(
    "name", ["_customers_gho", "_customers_ghc", "_customers_del", "_Customers_NEW", "_customers_old"]
)
def test_tables_that_tools_make_beside_a_table_have_its_rules_first(tmp_path: Path, name: str) -> None:
    settings = settings_of(
        tmp_path,
        "columns:",
        '  "*._*.email": drop',
        '  "*._*.phone": drop',
        '  "shopdb.customers.email": {mask: "***"}',
    )
    helper = TableId("shopdb", "", name)
    assert kinds(settings, helper, "email", "phone") == ["mask", "drop"]
    assert settings.own_rule_finder(helper)("email") != settings.rule_finder(helper)("email")
    assert kinds(settings, TableId("other", "", name), "email") == ["drop"]
    for other in ("customers_gho", "_customers_gho2", "_customers", "_gho"):
        assert "mask" not in kinds(settings, TableId("shopdb", "", other), "email")


def test_a_filter_is_that_of_the_first_glob(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "rows:", '  "shopdb.orders": "a = 1"', '  "shopdb.*": "b IS NOT NULL"')
    assert settings.row_filter(TableId("shopdb", "", "orders")) == Comparison("a", "=", 1)
    assert settings.row_filter(TableId("shopdb", "", "items")) == Negation(Nullness("b"))
    assert settings.row_filter(TableId("other", "", "items")) is None


def test_nothing_shows_a_key(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "columns:", '  "*.email": {hash: {key: "${PII_KEY}"}}')
    shown = (
        repr(settings) + str(settings) + settings.model_dump_json() + repr(settings.model_dump()) + repr(settings.rules)
    )
    assert KEY not in shown
    assert KEY not in repr(settings.rule_finder(TableId("a", "", "b"))("email"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"shopdb.c.a": dropp', '"dropp" is no rule by itself; write drop'),
        ('"shopdb.c.a": {mask: 5}', "put quotes around it"),
        ('"shopdb.c.a": {}', "has not one rule"),
        ('"shopdb.c.a": {mask: "5", drop: true}', "has not one rule"),
        ('"shopdb": drop', "the key names no columns"),
        ('"shopdb.c.": drop', "the key names no columns"),
        ('"shopdb.c.a": {hash: {key: "a key that stands in the file"}}', 'write key: "${NAME}"'),
        ('"shopdb.c.a": {hash: {key: "$${PII_KEY} is no variable"}}', 'write key: "${NAME}"'),
        ('"shopdb.c.a": {hash: {key: "${SHORT}"}}', "the key is too short"),
        ('"shopdb.c.a": {hash: {key: "${NOT_SET}"}}', "no variable NOT_SET"),
        ('"shopdb.c.a": {hash: {}}', "key is missing"),
        ('"shopdb.c.a": {tokenize: {key: "${PII_KEY}", pattern: "[0-9"}}', "is no pattern"),
        ('"shopdb.c.a": {tokenize: {key: "${PII_KEY}", pattern: "[0-9]*"}}', "matches the empty text"),
        ('"shopdb.c.a": {tokenize: {key: "${PII_KEY}", pattern: "(a+)+(?=b)"}}', "is no pattern"),
        ('"shopdb.c.a": {tokenize: {key: "${PII_KEY}", pattern: "a", keep_lst: 1}}', "did you mean keep_last?"),
        ('"shopdb.c.a": {tokenize: {key: "${PII_KEY}", pattern: "a", keep_last: -1}}', "out of range"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(line: str, words: str, tmp_path: Path) -> None:
    (found,) = mistakes_of(tmp_path, "columns:", f"  {line}")
    assert words in found
    assert ENVIRONMENT["SHORT"] not in found


REFUSED = {
    "": "no expression",
    "a = 1; DROP TABLE x": "no expression",
    "a = 1 AND": "no expression",
    "SELECT 1": "Select",
    "a = (SELECT 1)": "Subquery",
    "a IN (SELECT 1)": "is not in the part",
    "EXISTS (SELECT 1)": "a function",
    "length(a) = 1": "a function",
    "a = current_timestamp()": "a function",
    "current_date = '2026-01-05'": "a function",
    "a RLIKE 'x'": "a function",
    "a ILIKE 'x'": "ILike",
    "a LIKE ANY ('x')": "is not in the part",
    "a LIKE 'x' ESCAPE 'yz'": "ESCAPE names no one character",
    "a LIKE 'x!' ESCAPE '!'": "stands before a letter",
    "a LIKE 'x!y' ESCAPE '!'": "stands before a letter",
    "a + 1 = 2": "is not in the part",
    "-a = 1": "is not in the part",
    "a.b = 1": "has a dot",
    "a = b": "compares two columns",
    "a = NULL": "IS NULL",
    "a IN (1, NULL)": "IS NULL",
    "a IS TRUE": "IS without NULL",
    "a IS DISTINCT FROM 1": "is not in the part",
    "CAST(a AS int) = 1": "a function",
    "a::int = 1": "is not in the part",
    "a = 10L": "a function",
    "a = 1BD": "a date or time is written otherwise",
    "a = X'1F'": "is not in the part",
    "a = r'x'": "is not in the part",
    "a = 'it''s'": "side by side",
    "a = 'x' 'y'": "side by side",
    r"a = 'x\n'": "a backslash",
    "!a": "an exclamation mark",
    "1 < a < 3": "is not in the part",
    "a BETWEEN SYMMETRIC 1 AND 2": "is not in the part",
    "a = 1 AS c": "is not in the part",
    "a = ?": "is not in the part",
    "a = DATE '2026-13-01'": "written otherwise",
    "a = DATE '2026-W01-1'": "written otherwise",
    "a = TIMESTAMP '2026-01-05 07:00:00+08:00'": "written otherwise",
    "a = 1e999": "too large",
    f"a = {'9' * 39}": "too large",
    f"a = 0.{'0' * 38}1": "too large",
    "a = true = b": "is not in the part",
    "TRUE": "Boolean",
    "CASE WHEN a THEN b END = 1": "is not in the part",
    "a = 'x' COLLATE UNICODE": "a function",
    f"{'(' * 2000}a{')' * 2000}": "nested too deeply",
    f"a = '{'x' * 10_000}'": "too long",
}


@pytest.mark.parametrize("text", REFUSED, ids=[one[:30] for one in REFUSED])
def test_a_filter_outside_of_the_subset_is_refused(text: str, tmp_path: Path) -> None:
    (found,) = mistakes_of(tmp_path, "rows:", f"  'shopdb.orders': '{text.replace(chr(39), chr(39) * 2)}'")
    assert REFUSED[text] in found


def test_a_literal_from_the_environment_is_in_no_message(tmp_path: Path) -> None:
    (found,) = mistakes_of(tmp_path, "rows:", "  'shopdb.orders': \"length(a) = '${PII_KEY}'\"")
    assert KEY not in found


def test_comments_and_parentheses_change_nothing() -> None:
    for text in ("a = 1 -- ' OR TRUE", "a = /* x */ 1", "((a)) = (1)", "1 = a", "`a` == 1"):
        assert filter_of(text) == Comparison("a", "=", 1)


def test_a_filter_belongs_to_tables(tmp_path: Path) -> None:
    (found,) = mistakes_of(tmp_path, "rows: a = 1")
    assert "a mapping is wanted here" in found


def test_filters_follow_one_another_until_windows(tmp_path: Path) -> None:
    lines = [
        "rows:",
        '  "shopdb.*": [{until: 2026-01-05-04:00, where: a = 1}, {where: b = 1}]',
        '  "*": [{where: c = 1}]',
    ]
    settings = settings_of(tmp_path, *lines)
    found = settings.row_filters(TableId("shopdb", "", "orders"))
    assert found == ((datetime(2026, 1, 5, 4, tzinfo=UTC), filter_of("a = 1")), (None, filter_of("b = 1")))
    assert settings.row_filter(TableId("shopdb", "", "orders")) == filter_of("b = 1")
    assert settings.row_filters(TableId("crm", "", "c")) == ((None, filter_of("c = 1")),)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[]", "needs a later window until"),
        ("[{until: 2026-01-05-04:00, where: a = 1}]", "needs a later window until"),
        ("[{where: a = 1}, {where: a = 2}]", "needs a later window until"),
        (
            "[{until: 2026-01-05-05:00, where: a = 1}, {until: 2026-01-05-04:00, where: a = 2}, {where: b}]",
            "needs a later window",
        ),
        ("[{until: 2026-01-05, where: a = 1}, {where: b}]", "until is no window"),
        ("[a = 1, {where: b}]", "has a text where"),
        ("[{untl: 2026-01-05-04:00, where: a = 1}, {where: b}]", "has a text where"),
        ("[{until: 2026-01-05-04:00, where: length(a) = 1}, {where: b}]", "a function"),
    ],
)
def test_filters_that_do_not_follow_one_another_are_refused(written: str, words: str, tmp_path: Path) -> None:
    (found,) = mistakes_of(tmp_path, "rows:", f'  "shopdb.orders": {written}')
    assert words in found


def test_rules_as_texts_differ_wherever_rows_would(tmp_path: Path) -> None:
    """The texts decide whether windows are stale; the layout of a snapshot is no rule."""
    hashed = 'columns: {"*.a": {hash: {key: "${PII_KEY}"}}}'
    several = [
        [hashed],
        ['columns: {"*.a": {hash: {key: "${PII_KEY}x"}}}'],
        ['columns: {"*.b": {hash: {key: "${PII_KEY}"}}}'],
        ['columns: {"*.a": {tokenize: {key: "${PII_KEY}", pattern: "x"}}}'],
        ['columns: {"*.a": {tokenize: {key: "${PII_KEY}", pattern: "x", keep_last: 1}}}'],
        ['columns: {"*.a": {mask: ""}}'],
        ['columns: {"*.a": {mask: "x"}}'],
        ['columns: {"*.a": drop}'],
        ['columns: {"*.a": drop, "*.b": drop}'],
        ['columns: {"*.b": drop, "*.a": drop}'],
        ['rows: {"*": "a = 1"}'],
        ['rows: {"*": "a = 2"}'],
        ['rows: {"*": "a = 1"}', "deletes: soft"],
        ['rows: {"*": [{until: 2026-01-05-04:00, where: a = 1}, {where: a = 2}]}'],
        ['rows: {"*": [{until: 2026-01-05-05:00, where: a = 1}, {where: a = 2}]}'],
    ]
    found = [str(settings_of(tmp_path, *lines).rules) for lines in several]
    assert len(set(found)) == len(several)
    assert not any(settings_of(tmp_path, "deletes: soft").rules)
    assert str(settings_of(tmp_path, hashed, 'layout: {"*": {sort: [a]}}').rules) == found[0]
