"""Values replaced by keyed hashes and tokens: equal values stay equal, and only the key finds them.

A hash is HMAC-SHA-256. Each distinct value is hashed once; all else is done in columns.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.column_rules import ColumnRule, RuleKind
from dts_assets.wire.columns.buffers import offsets_of

TOKEN_PREFIX = "tok_"
_TOKEN_DIGITS = 32


def hashed(values: pa.BinaryArray, key: bytes) -> pa.StringArray:
    """Return the HMAC-SHA-256 of each value in 64 hex digits, null for null."""
    return _of_distinct(values, lambda value: hmac.digest(key, value, "sha256").hex())


def key_of_unfit(key: bytes) -> bytes:
    """Return the key for texts of values that could not be read.

    None of them has the hash of a value that could.
    """
    return hmac.digest(key, b"values that do not fit", "sha256")


def text_by_rule(text: str, rule: ColumnRule) -> str | None:
    """Return a text as a rule makes it; None where the rule leaves its column out."""
    if rule.kind is RuleKind.MASK:
        return rule.text
    if rule.kind is RuleKind.HASH:
        made = hashed(pa.array([text.encode()], pa.binary()), rule.key)
    elif rule.kind is RuleKind.TOKENIZE:
        made = tokenized(pa.array([text]), rule)
    else:
        return None
    return str(made[0].as_py())


def tokenized(values: pa.Array, rule: ColumnRule) -> pa.StringArray:
    """Return texts with tokens for what a pattern matches: ``card tok_5d41...``, null for null.

    A token is ``tok_`` and 32 hex digits of the keyed hash of the match. Bytes, which no pattern can read, become a token whole.
    """
    if pa.types.is_binary(values.type):
        return _of_distinct(values, lambda value: _token(value, rule.key))
    # RE2 marks the matches, so that no text makes a pattern slow; a sign that nobody knows before cannot stand in a text.
    sign = f"\x01{secrets.token_hex(16)}\x01"
    marked = pc.replace_substring_regex(values, pattern=rule.pattern, replacement=f"{sign}\\0{sign}")
    pieces = pc.split_pattern(marked, sign)
    bounds = offsets_of(pieces).astype(np.int64)
    parts = pieces.flatten()
    numbers = np.arange(bounds[0], bounds[-1]) - np.repeat(bounds[:-1], np.diff(bounds))
    matches = parts.filter(pa.array(numbers % 2 == 1)).cast(pa.binary())

    def token(match: bytes) -> str:
        text = match.decode()
        kept = text[-rule.keep_last :] if 0 < rule.keep_last < len(text) else ""
        return _token(match, rule.key) + kept

    tokens = _of_distinct(matches, token)
    whole = pc.replace_with_mask(parts, pa.array(numbers % 2 == 1), tokens)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array((bounds - bounds[0]).astype(np.int32)), whole), "")
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.string()))


def _token(value: bytes, key: bytes) -> str:
    return TOKEN_PREFIX + hmac.digest(key, value, "sha256").hex()[:_TOKEN_DIGITS]


def _of_distinct(values: pa.BinaryArray, made: Callable[[bytes], str]) -> pa.StringArray:
    """Return what a function makes of each value; it is called once for each distinct one."""
    coded = values.dictionary_encode()
    return pa.array([made(value) for value in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)
