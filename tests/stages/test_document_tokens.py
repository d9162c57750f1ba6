"""Tokens in documents and JSON: each text and each name is looked at by itself, and all else stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.column_rules import ColumnRule, RuleKind
from dts_assets.model.columns import is_json
from dts_assets.stages.column_rules import apply_rules
from dts_assets.stages.document_tokens import UntokenizableError, tokenized_documents, tokenized_json
from dts_assets.stages.keyed_values import tokenized
from dts_assets.stages.stored_rules import passed, ruled
from dts_assets.wire.documents.extended_json import text_of, value_of
from dts_assets.wire.documents.shell_syntax import document_of
from dts_assets.wire.documents.updates import updated
from dts_assets.wire.format import ToldKeys
from tests.stages.ruled import COLUMNS, KEY, Change, batch_of, changes_of, rules_of
from tests.tiers import examples

CARD = "4111111111111111"
WHOLE = ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="^[0-9]{16}$", keep_last=4)
PATTERNS = ("^[0-9]{16}$", "[0-9]{16}", '["\\\\]+', "^a", "b$", "é|ü", "^.{2,}$", "n")


def rule_of(pattern: str, keep_last: int = 0) -> ColumnRule:
    return ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern=pattern, keep_last=keep_last)


def token(text: str, rule: ColumnRule = WHOLE) -> str:
    """What the rule makes of a text that stands in no document."""
    found: str = tokenized(pa.array([text], pa.string()), rule)[0].as_py()
    return found


def whole_token(text: str) -> str:
    found: str = tokenized(pa.array([text.encode()], pa.binary()), WHOLE)[0].as_py()
    return found


def of_json(text: str | None, rule: ColumnRule = WHOLE) -> Any:
    return tokenized_json(pa.array([text], pa.string()), rule)[0].as_py()


def of_document(text: str, rule: ColumnRule = WHOLE, *, is_update: bool = False) -> Any:
    """What the rule makes of a document in the syntax of the shell."""
    canonical = pa.array([text_of(document_of(text))], pa.string())
    return value_of(tokenized_documents(canonical, rule, are_updates=np.array([is_update]))[0].as_py())


def mapped(value: Any, made: Callable[[str], str]) -> Any:
    """A parsed value with other texts and names, in plain Python."""
    if isinstance(value, str):
        return made(value)
    if isinstance(value, list):
        return [mapped(one, made) for one in value]
    if isinstance(value, tuple):  # the pairs of an object
        return tuple((made(name), mapped(inner, made)) for name, inner in value)
    return value


def parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=tuple, parse_float=lambda one: ("number", one))


TEXTS = st.one_of(
    st.sampled_from([CARD, f"x{CARD}", 'a"b', "\\", 'C:\\n"b', "aé", "\u0001b", ""]), st.text('ab"\\1é\n/', max_size=5)
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-5, 10**20)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from(PATTERNS), st.booleans(), st.sampled_from([None, 1]))
@examples(200)
def test_json_has_tokens_in_its_texts_and_names_alone(
    value: Any, pattern: str, ascii: bool, indent: int | None
) -> None:
    text, rule = json.dumps(value, ensure_ascii=ascii, indent=indent), rule_of(pattern)
    assert parsed(of_json(text, rule)) == mapped(parsed(text), lambda one: token(one, rule))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f'{{"card": "{CARD}"}}', f'{{"card": "{token(CARD)}"}}'),
        (f'{{"{CARD}":1.50,  "n":1e400, "n": {CARD}}}', f'{{"{token(CARD)}":1.50,  "n":1e400, "n": {CARD}}}'),
        (r'["\u0034111111111111111", "a\/b"]', rf'["{token(CARD)}", "a\/b"]'),
        (f'"{CARD}"', f'"{token(CARD)}"'),
        (CARD, CARD),
        (f"  {CARD}", f"  {CARD}"),
        (None, None),
        ("null", "null"),
        (f'[{"[" * 499}"{CARD}"{"]" * 499}]', f'[{"[" * 499}"{token(CARD)}"{"]" * 499}]'),
        (f'["{"[" * 600}", "{CARD}"]', f'["{"[" * 600}", "{token(CARD)}"]'),
    ],
)
def test_what_no_pattern_matches_stays_as_it_was_sent(text: str | None, wanted: str | None) -> None:
    assert of_json(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        f'{{"card": "{CARD}"',
        f"{{'card': '{CARD}'}}",
        "NaN",
        "",
        "[" * 501 + f'"{CARD}"' + "]" * 501,
        rf'"{CARD} \ud800"',
        "\\",
        '"',
    ],
)
def test_a_text_that_is_no_json_becomes_a_token_whole(text: str) -> None:
    values = pa.array(['{"a": 1}', text, f'["{CARD}"]', None], pa.string())
    assert tokenized_json(values, WHOLE).to_pylist() == ['{"a": 1}', whole_token(text), f'["{token(CARD)}"]', None]
    assert tokenized_json(values.slice(1, 1), WHOLE).to_pylist() == [whole_token(text)]


def test_quotes_and_backslashes_are_escaped_again() -> None:
    rule = rule_of(r'["\\]', keep_last=1)
    (made,) = json.loads(of_json(json.dumps(['a\\"b']), rule))
    assert made == token('a\\"b', rule)
    assert of_json('"x"', rule) == '"x"', "the quotes around a text are no part of it"
    assert of_document('{"_id": 1, "a": "C:\\\\x"}', rule)["a"] == token("C:\\x", rule)


@pytest.mark.parametrize(("kind", "wanted"), [
    ("json", True), ("JSONB", True), (" json ", True), ("json[]", False), ("longtext", False), ("jsonpath", False), 
    ("varchar(9)", False),
])  # fmt: skip
def test_types_of_json(kind: str, wanted: bool) -> None:
    assert is_json(kind) == wanted


def test_each_row_is_read_by_the_type_of_its_own_event() -> None:
    """A column may have been text before it was JSON: the same characters are a number in JSON, and a text in text."""
    columns = tuple(one for one in COLUMNS if one.name in ("id", "card"))
    rules = rules_of(columns, None, card=WHOLE)
    batch = batch_of([Change("insert", None, {"id": n, "card": CARD}) for n in range(3)], rules.decoded)

    def cards(json: ToldKeys) -> list[str]:
        sent = changes_of(batch)
        made = apply_rules(type(sent)(sent.table, sent.batch, sent.keys, json=json), rules).changes.batch
        return [row["after"]["card"] for row in made.to_pylist()]

    assert cards(ToldKeys(((), ("card",)), np.array([0, 1, 0]))) == [token(CARD), CARD, token(CARD)]
    assert cards(ToldKeys((("card",),))) == [CARD] * 3
    assert cards(ToldKeys((("id",),))) == cards(ToldKeys()) == [token(CARD)] * 3


@pytest.mark.parametrize("pattern", ["^[0-9]{16}$", "[0-9]{16}"])
def test_stored_json_is_plain_if_a_text_of_it_would_become_a_token(pattern: str) -> None:
    """A number is no text, and what stands in quotes begins behind them: ``rules check`` asks this of old rows."""
    rule = rule_of(pattern)
    made = of_json(f'{{"card": "{CARD}"}}', rule)
    values = pa.array([f'{{"card": "{CARD}"}}', made, f'{{"n": {CARD}}}', None, f'["{CARD}'], pa.string())
    assert passed(values, rule, is_json=True).to_pylist() == [False, True, True, None, False]
    again = ruled(values, None, rule, is_json=True, spares=True).to_pylist()
    assert again[:4] == [made, made, f'{{"n": {CARD}}}', None]
    assert re.fullmatch("tok_[0-9a-f]{32}", again[4])


def test_every_text_of_a_document_is_looked_at_and_no_number_date_or_id() -> None:
    found = of_document(
        f'{{"_id": ObjectId("64650cf67dc36a464e76e583"), "card": "{CARD}", "{CARD}": [{{"{CARD}": "{CARD}"}}, "x{CARD}"],'
        f' "n": NumberLong("{CARD}"), "d": NumberDecimal("{CARD}"), "at": ISODate("2026-01-05T00:00:00Z"),'
        f' "b": BinData(0, "{CARD}"),'
        f' "s": Symbol("{CARD}"), "c": Code("{CARD}"), "r": /{CARD}/i, "ref": DBRef("orders", "{CARD}"), "t": Timestamp(1, 2)}}'
    )
    assert found.pop("_id") == {"$oid": "64650cf67dc36a464e76e583"}
    one = token(CARD)
    assert found == {
        "card": one, one: [{one: one}, f"x{CARD}"], "n": {"$numberLong": CARD}, "d": {"$numberDecimal": CARD},
        "at": {"$date": {"$numberLong": "1767571200000"}}, "b": {"$binary": {"base64": CARD, "subType": "00"}},
        "s": {"$symbol": one}, "c": {"$code": one}, "r": {"$regularExpression": {"pattern": one, "options": "i"}},
        "ref": {"$ref": "orders", "$id": one}, "t": {"$timestamp": {"t": 1, "i": 2}},
    }  # fmt: skip


def test_the_parts_of_a_path_are_names_by_themselves() -> None:
    found = of_document(
        f'{{"$set": {{"a.{CARD}.0": "{CARD}", "_id": 7}}, "$unset": {{"{CARD}": true}}}}', is_update=True
    )
    assert found == {
        "$set": {f"a.{token(CARD)}.0": token(CARD), "_id": {"$numberInt": "7"}},
        "$unset": {token(CARD): True},
    }


@pytest.mark.parametrize(
    ("text", "is_update", "pattern", "clause"),
    [
        (f'{{"_id": "{CARD}"}}', False, "[0-9]{16}", "matches in an _id"),
        (f'{{"_id": {{"card": "{CARD}"}}}}', False, "[0-9]{16}", "matches in an _id"),
        ('{"_id": {"card": 1}}', False, "card", "matches in an _id"),
        (f'{{"$set": {{"_id.a": "{CARD}"}}}}', True, "[0-9]{16}", "matches in an _id"),
        ('{"$set": {"_id.card": 1}}', True, "card", "matches in an _id"),
        ('{"$set": {"a.0": 1}}', True, "[0-9]", "a number in the path of an update"),
    ],
)
def test_an_id_and_a_number_in_a_path_stay_or_the_table_stands_still(
    text: str, is_update: bool, pattern: str, clause: str
) -> None:
    with pytest.raises(UntokenizableError, match=clause):
        of_document(text, rule_of(pattern), is_update=is_update)
    assert of_document(text, rule_of("no such text"), is_update=is_update) == document_of(text)


def test_two_fields_never_become_one() -> None:
    with pytest.raises(UntokenizableError, match="one name"):
        of_document(f'{{"a": {{"{CARD}": 1, "{token(CARD)}": 2}}}}')


def test_the_name_of_the_id_and_the_operators_stay_whatever_the_pattern() -> None:
    rule = rule_of(".+")
    assert list(of_document('{"_id": 1, "a": 2}', rule)) == ["_id", token("a", rule)]
    update = of_document('{"$set": {"_id": 1, "a.b": "c"}}', rule, is_update=True)
    assert list(update["$set"]) == ["_id", f"{token('a', rule)}.{token('b', rule)}"]
    assert list(update) == ["$set"]


NAMES = st.sampled_from(["a", "b", "ab", "n1", CARD, "é"])
LEAVES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(0, 9).map(lambda n: {"$numberInt": str(n)}))
FIELDS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
PATHS = st.lists(st.one_of(NAMES, st.sampled_from(["0", "1"])), min_size=1, max_size=3).map(".".join)


@given(
    st.dictionaries(NAMES, FIELDS, max_size=4),
    st.dictionaries(PATHS, FIELDS, max_size=3),
    st.lists(PATHS, max_size=2),
    st.sampled_from(PATTERNS),
)
@examples(400)
def test_an_update_with_tokens_leads_to_the_document_with_tokens(
    fields: dict[str, Any], sets: dict[str, Any], unset: list[str], pattern: str
) -> None:
    rule, document = rule_of(pattern), {"_id": {"$numberInt": "1"}, **fields}
    update = {"$set": sets, "$unset": dict.fromkeys(unset, True)}
    texts = pa.array([text_of(document), text_of(update)], pa.string())
    before, change = map(value_of, tokenized_documents(texts, rule, are_updates=np.array([False, True])).to_pylist())
    after = pa.array([text_of(updated(document, update).document)], pa.string())
    (wanted,) = tokenized_documents(after, rule, are_updates=np.array([False])).to_pylist()
    assert updated(before, change).document == value_of(wanted)


def test_documents_and_columns_have_one_token_for_one_value() -> None:
    assert re.fullmatch("tok_[0-9a-f]{32}1111", token(CARD))
    assert of_document(f'{{"_id": 1, "a": "{CARD}"}}')["a"] == json.loads(of_json(f'"{CARD}"')) == token(CARD)
