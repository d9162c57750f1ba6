"""Tokens in documents and in JSON: a pattern sees each text and each field name by itself.

So ``^`` and ``$`` are the ends of one text, and the text around a token is escaped again. All else stays as the source wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.json import Decoder, encode

from dts_assets.model.collections import ID
from dts_assets.model.column_rules import ColumnRule
from dts_assets.stages.keyed_values import tokenized
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.documents.extended_json import text_of, value_of
from dts_assets.wire.documents.shell_syntax import RESERVED, Value
from dts_assets.wire.documents.updates import is_index

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_BRACKETS = re.compile(r"[\[\]{}]")
_MOST_NESTED = 500
"""The levels of JSON that are read. Servers take 100, and no parser of Python as many as a thousand."""

_TEXT, _JSON = Decoder(str), Decoder(float_hook=len)
"""Parsers of a text, and of any JSON, whose numbers may be greater than all doubles."""

_PATTERN = "$regularExpression"
_KEPT = frozenset({"$ref", "$id", "$db", "$code", "$scope", "$symbol", "$dbPointer"})
"""Names with which the driver writes values, beside those of types without a text in them."""

_Made = Callable[[str], str]
"""The function that makes another text of a text or a name."""


class UntokenizableError(Exception):
    """A document that would be none, or another one, with tokens. Its text is a clause, which names no value."""


def tokenized_json(values: pa.StringArray, rule: ColumnRule) -> pa.StringArray:
    """Return JSON with tokens in its texts and names, null for null.

    A text that is no JSON becomes a token whole.
    """
    coded = values.dictionary_encode()
    distinct: list[str] = coded.dictionary.to_pylist()
    are_json = list(map(_is_json, distinct))
    literals = {one for text, known in zip(distinct, are_json, strict=True) if known for one in _STRING.findall(text)}
    texts = {one: _TEXT.decode(one) for one in literals}
    tokens = _tokens(texts.values(), rule)
    written = {one: encode(tokens[text]).decode() for one, text in texts.items() if text in tokens}

    def replaced(found: re.Match[str]) -> str:
        return written.get(found[0], found[0])

    whole = iter(_whole_tokens([text for text, known in zip(distinct, are_json, strict=True) if not known], rule))
    made = [
        (_STRING.sub(replaced, text) if written else text) if known else next(whole)
        for text, known in zip(distinct, are_json, strict=True)
    ]
    return pa.array(made, pa.string()).take(coded.indices)


def tokenized_documents(
    values: pa.StringArray, rule: ColumnRule, *, are_updates: npt.NDArray[np.bool_]
) -> pa.StringArray:
    """Return documents, and updates of them, with tokens in their texts and names, null for null.

    Numbers, dates, ids and bytes stay. A path of an update has a name for each of its parts.

    Raises:
        UntokenizableError: The pattern matches in an ``_id``, or a number in a path, or two fields would get one name.
    """
    documents = list(zip(values.to_pylist(), are_updates.tolist(), strict=True))
    seen = dict[str, None]()

    def note(text: str) -> str:
        seen[text] = None
        return text

    for text, is_update in documents:
        if text is not None:
            _document(value_of(text), note, is_update=is_update)
    tokens = _tokens(seen, rule)
    if not tokens:
        return values

    def token(text: str) -> str:
        return tokens.get(text, text)

    made = [
        None if text is None else text_of(_document(value_of(text), token, is_update=is_update))
        for text, is_update in documents
    ]
    return pa.array(made, pa.string())


def _is_json(text: str) -> bool:
    if text.count("[") + text.count("{") > _MOST_NESTED:
        brackets = _BRACKETS.findall(_STRING.sub("", text))
        if max(accumulate(1 if one in "[{" else -1 for one in brackets)) > _MOST_NESTED:
            return False
    try:
        _JSON.decode(text)
    except MALFORMED:
        return False
    return True


def _tokens(texts: Iterable[str], rule: ColumnRule) -> dict[str, str]:
    """Return the texts in which the pattern matches, with what the rule makes of each."""
    distinct = list(dict.fromkeys(texts))
    made = tokenized(pa.array(distinct, pa.string()), rule).to_pylist()
    return {text: token for text, token in zip(distinct, made, strict=True) if text != token}


def _whole_tokens(texts: list[str], rule: ColumnRule) -> list[str]:
    made: list[str] = tokenized(pa.array(texts, pa.string()).cast(pa.binary()), rule).to_pylist()
    return made


def _document(document: Mapping[str, Value], made: _Made, *, is_update: bool) -> Value:
    """Return a document or an update of one with other texts.

    Raises:
        UntokenizableError: It would be no document, or that of another id.
    """
    try:
        if not is_update:
            return _fields(document, made, _whole_name)
        return {operator: _fields(paths, made, _path) for operator, paths in document.items()}
    except RecursionError:
        raise UntokenizableError("a document is nested too deeply for its rule") from None


def _fields(fields: Mapping[str, Value], made: _Made, named: Callable[[str, _Made], str]) -> Value:
    """Return the fields of a document, or the paths below an operator, with other texts.

    The id stays.

    Raises:
        UntokenizableError: The id would be another one, or a path.
    """
    found = {}
    for name, value in fields.items():
        first, _, rest = name.partition(".")
        other = _value(value, made)
        if first != ID:
            found[named(name, made)] = other
        elif other == value and (not rest or named(rest, made) == rest):
            found[name] = value
        else:
            raise UntokenizableError("the pattern of its rule matches in an _id, which the column _id shows as well")
    return _of_one_size(found, fields)


def _whole_name(name: str, made: _Made) -> str:
    return made(name)


def _path(path: str, made: _Made) -> str:
    """Return a path with another name for each part.

    Raises:
        UntokenizableError: A part is a number: of an array's element, which stays, or of a field, which does not.
    """
    parts = path.split(".")
    others = [made(part) for part in parts]
    if any(is_index(part) and part != other for part, other in zip(parts, others, strict=True)):
        raise UntokenizableError(
            "the pattern of its rule matches a number in the path of an update, which may be that of an array's element"
        )
    return ".".join(others)


def _value(value: Value, made: _Made) -> Value:
    if isinstance(value, str):
        return made(value)
    if isinstance(value, list):
        return [_value(one, made) for one in value]
    if not isinstance(value, dict):
        return value
    first = next(iter(value), "")
    if first == _PATTERN:
        return {first: {**value[first], "pattern": made(value[first]["pattern"])}}
    if first in RESERVED:
        return value
    found = {name if name in _KEPT else made(name): _value(inner, made) for name, inner in value.items()}
    return _of_one_size(found, value)


def _of_one_size(found: dict[str, Value], fields: Mapping[str, Value]) -> dict[str, Value]:
    if len(found) != len(fields):
        raise UntokenizableError("two fields of a document would have one name under its rule")
    return found
