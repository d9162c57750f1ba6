"""Rows of a changelog that are stored already, under a rule that came later: no image and no unfit text stays plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from dts_assets.model.column_rules import ColumnRule, RuleKind
from dts_assets.stages.keyed_values import hashed, key_of_unfit, tokenized
from dts_assets.stages.stored_rules import with_rules

KEY = b"a key that nobody guesses"
UNFIT = pa.map_(pa.string(), pa.string())
IMAGE = pa.struct({"id": pa.int32(), "Email": pa.string()})

RULES = {
    "hash": ColumnRule(RuleKind.HASH, key=KEY),
    "mask": ColumnRule(RuleKind.MASK, text="***"),
    "tokenize": ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="plain", keep_last=1),
    "drop": ColumnRule(RuleKind.DROP),
}


def rows_of() -> pa.RecordBatch:
    """An update with values before and after, and one whose values did not fit, beside another that did not."""
    images = {
        "before": [{"id": 1, "Email": "plain-1"}, {"id": 2, "Email": None}],
        "after": [{"id": 1, "Email": "plain-2"}, {"id": 2, "Email": None}],
    }
    unfit = [[], [("before.Email", "plain-3"), ("after.Email", "plain-4"), ("after.id", "other")]]
    arrays = [*(pa.array(some, IMAGE) for some in images.values()), pa.array(unfit, UNFIT)]
    return pa.RecordBatch.from_arrays(arrays, names=[*images, "invalid"])


@pytest.mark.parametrize("kind", RULES)
def test_both_images_and_unfit_texts_pass_a_rule(kind: str) -> None:
    rule = RULES[kind]
    made = with_rules(rows_of(), {"email": rule})
    assert "plain" not in str(made.to_pydict())
    assert made["invalid"].to_pylist() == [[], [("after.id", "other")]]

    def ruled(text: str, *, is_unfit: bool) -> str | None:
        values = pa.array([text.encode()], pa.binary())
        found: dict[str, Callable[[], Any]] = {
            "hash": lambda: hashed(values, key_of_unfit(rule.key) if is_unfit else rule.key)[0].as_py(),
            "mask": lambda: rule.text,
            "tokenize": lambda: tokenized(values if is_unfit else values.cast(pa.string()), rule)[0].as_py(),
            "drop": lambda: None,
        }
        value: str | None = found[kind]()
        return value

    for side, fit, unfit in (("before", "plain-1", "plain-3"), ("after", "plain-2", "plain-4")):
        expected = [ruled(fit, is_unfit=False), ruled(unfit, is_unfit=True)]
        assert made[side].field("Email").to_pylist() == expected
        assert made[side].field("id").to_pylist() == [1, 2]
