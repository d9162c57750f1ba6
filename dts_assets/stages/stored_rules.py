"""Rules on columns applied to rows of a changelog that are stored already."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.collections import DOCUMENT
from dts_assets.model.column_rules import ColumnRule, RuleKind
from dts_assets.model.columns import same_name
from dts_assets.stages.document_rows import UPDATE
from dts_assets.stages.document_tokens import tokenized_documents, tokenized_json
from dts_assets.stages.keyed_values import TOKEN_PREFIX, hashed, key_of_unfit, tokenized

_IMAGES = ("before", "after")
_TOKEN = f"{TOKEN_PREFIX}[0-9a-f]{{32}}"

Rules = Mapping[str, ColumnRule]
"""Rules by the names of columns without case."""


def with_rules(
    rows: pa.RecordBatch, rules: Rules, *, json: Collection[str] = (), spares: bool = False
) -> pa.RecordBatch:
    """Return rows of a changelog whose values have passed some rules.

    Those that did not fit are among them. ``json`` names the columns whose texts are JSON. ``spares`` leaves out values
    that look as if the rule had made them. Columns with a rule are text, unless it drops them.

    Raises:
        UntokenizableError: A document would be none, or another one.
    """
    columns = {name: rows[name] for name in rows.schema.names}
    if UPDATE in columns and DOCUMENT in rules:
        for name in ("after", UPDATE):
            columns[name] = _documents(rows[name], rules[DOCUMENT], are_updates=name == UPDATE, spares=spares)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
    texts = _unfit_texts(rows["invalid"], rules)
    for side in _IMAGES:
        columns[side] = _ruled_image(rows[side], side, texts, rules, json=json, spares=spares)
    columns["invalid"] = _without(rows["invalid"], rules)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)


def _ruled_image(
    image: pa.StructArray,
    side: str,
    texts: Mapping[str, pa.Array],
    rules: Rules,
    *,
    json: Collection[str],
    spares: bool,
) -> pa.StructArray:
    children = []
    for place, field in enumerate(image.type):
        name = same_name(field.name)
        values, rule = pc.struct_field(image, [place]), rules.get(name)
        if rule is not None:
            values = ruled(values, texts.get(f"{side}.{name}"), rule, is_json=name in json, spares=spares)
        children.append(values)
    return pa.StructArray.from_arrays(children, fields=list(image.type), mask=pc.invert(image.is_valid()))


def ruled(
    values: pa.Array, texts: pa.Array | None, rule: ColumnRule, *, is_json: bool = False, spares: bool = False
) -> pa.Array:
    """Return values as a rule makes them.

    ``texts`` has those that did not fit their type; it is None if there is none.
    """
    if rule.kind is RuleKind.DROP:
        return pa.nulls(len(values), values.type)
    made = tokenized_json(values, rule) if is_json and rule.kind is RuleKind.TOKENIZE else _made(values, rule)
    if spares:
        made = pc.if_else(pc.fill_null(passed(values, rule, is_json=is_json), False), values, made)
    if texts is None:
        return made
    if rule.kind is RuleKind.HASH:
        return pc.coalesce(made, hashed(texts.cast(pa.binary()), key_of_unfit(rule.key)))
    return pc.coalesce(made, _made(texts.cast(pa.binary()), rule))


def _made(values: pa.Array, rule: ColumnRule) -> pa.StringArray:
    if rule.kind is RuleKind.MASK:
        return pc.if_else(values.is_valid(), pa.scalar(rule.text), pa.scalar(None, pa.string()))
    return hashed(values.cast(pa.binary()), rule.key) if rule.kind is RuleKind.HASH else tokenized(values, rule)


def passed(values: pa.Array, rule: ColumnRule, *, is_json: bool = False) -> pa.BooleanArray:
    """Return whether texts look as if a rule had made them; null for null.

    A text in which a pattern finds nothing has passed ``tokenize``, of JSON one in whose texts and names it finds nothing.
    Nothing passes ``drop``.
    """
    if rule.kind is RuleKind.HASH:
        return pc.match_substring_regex(values, "^[0-9a-f]{64}$")
    if rule.kind is RuleKind.MASK:
        return pc.equal(values, rule.text)
    if rule.kind is RuleKind.DROP:
        return pc.if_else(values.is_valid(), False, pa.scalar(None, pa.bool_()))
    has_token = pc.match_substring_regex(values, _TOKEN)
    if is_json:
        return pc.or_(has_token, pc.equal(tokenized_json(values, rule), values))
    return pc.or_(has_token, pc.invert(pc.match_substring_regex(values, rule.pattern)))


def passed_documents(values: pa.Array, rule: ColumnRule, *, are_updates: bool) -> pa.BooleanArray:
    """Return whether documents, or updates of them, look as if a rule had made them; null for null.

    A document in whose texts and names the pattern finds nothing has passed.

    Raises:
        UntokenizableError: A document would be none, or another one.
    """
    found = _documents(values, rule, are_updates=are_updates, spares=False)
    return pc.or_(pc.match_substring_regex(values, _TOKEN), pc.equal(found, values))


def _documents(values: pa.Array, rule: ColumnRule, *, are_updates: bool, spares: bool) -> pa.Array:
    made = tokenized_documents(values, rule, are_updates=np.full(len(values), are_updates))
    if not spares:
        return made
    return pc.if_else(pc.fill_null(pc.match_substring_regex(values, _TOKEN), False), values, made)


def _column_of(key: str) -> tuple[str, str]:
    side, _, name = key.partition(".")
    return side, same_name(name)


def _unfit_texts(invalid: pa.MapArray, rules: Rules) -> dict[str, pa.Array]:
    """Return the texts of values that did not fit, one for each row, by names such as ``after.day``."""
    found: dict[str, list[str | None]] = {}
    for row, texts in enumerate(invalid.to_pylist() if pc.any(pc.greater(_sizes(invalid), 0)).as_py() else ()):
        for key, text in texts or ():
            side, name = _column_of(key)
            if name in rules:
                found.setdefault(f"{side}.{name}", [None] * len(invalid))[row] = text
    return {key: pa.array(texts, pa.string()) for key, texts in found.items()}


def _without(invalid: pa.MapArray, rules: Rules) -> pa.MapArray:
    """Return maps of values that did not fit, without the columns that have a rule."""
    if not pc.any(pc.greater(_sizes(invalid), 0)).as_py():
        return invalid
    kept = [
        None if texts is None else [(key, text) for key, text in texts if _column_of(key)[1] not in rules]
        for texts in invalid.to_pylist()
    ]
    return pa.array(kept, invalid.type)


def _sizes(invalid: pa.MapArray) -> pa.Array:
    offsets = invalid.offsets
    return pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1))
