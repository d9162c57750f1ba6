"""Row filters in a listed subset of Spark SQL, read by sqlglot. All else is refused.

The subset: columns compared with literals (= == <=> <> != < <= > >=, BETWEEN, IN, LIKE with ESCAPE), IS NULL, columns that are
true or false, AND, OR, NOT and parentheses. A form is listed only if it means here what it means in Spark, whatever the columns
hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

from dts_assets.model.row_filters import (
    Comparison,
    Conjunction,
    Disjunction,
    Likeness,
    Literal,
    Membership,
    Negation,
    Nullness,
    RowFilter,
    Truth,
    moment,
)
from dts_assets.model.windows import KEY_FORMAT
from dts_assets.settings.values import mistake

MOST_CHARACTERS = 10_000
"""The longest filter: reading takes a stack frame or two for each parenthesis."""

_MOST_DIGITS = 38
"""The digits that Spark's decimals have."""

_LISTED = (
    "compare columns with literals by = <=> <> < <= > >=, BETWEEN, IN or LIKE, test them by IS NULL, "
    "and join that by AND, OR and NOT"
)
_TURNED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Refused(Exception):
    """A filter outside of the subset: what it uses, and the fix."""


@lru_cache(maxsize=256)
def filter_of(text: str) -> RowFilter:
    """Return a row filter: of ``status <> 'draft'`` a comparison.

    Raises:
        mistake: the text is outside of the subset; no literal of it is named.
    """
    try:
        return _condition(_expression(text))
    except _Refused as refused:
        message, fix = refused.args
        raise mistake(message, fix) from None
    except RecursionError:
        raise mistake("the row filter is nested too deeply", "write fewer parentheses") from None


def _filter_text(text: str) -> str:
    filter_of(text)
    return text


FilterText = Annotated[
    str, AfterValidator(_filter_text), WithJsonSchema({"type": "string", "examples": ["status <> 'draft'"]})
]


@dataclass(frozen=True, slots=True)
class FilterUntil:
    """A row filter that is in force until a statement of a window; the last one has None."""

    until: datetime | None
    where: str


_FORM = "write [{until: 2026-01-05-04:00, where: ...}, {where: ...}], the windows in their order"


def _written(value: object, as_text: ValidatorFunctionWrapHandler) -> object:
    """Return a filter as it is written: a text, or several of which one follows the other.

    Raises:
        mistake: Several do not follow one another.
    """
    if not isinstance(value, list | tuple):
        return as_text(value)
    found = [_part(place, one) for place, one in enumerate(value)]
    windows = [one.until for one in found[:-1]]
    if not found or found[-1].until is not None or any(one is None for one in windows) or windows != sorted({*windows}):  # type: ignore[type-var]
        raise mistake("each row filter but the last one needs a later window until which it is in force", _FORM)
    return tuple(found)


def _part(place: int, value: object) -> FilterUntil:
    """Return one of several filters.

    Raises:
        mistake: It has another form, or is outside of the subset.
    """
    if not isinstance(value, Mapping) or "where" not in value or value.keys() - {"until", "where"}:
        raise mistake(
            "a row filter of several has a text where, and the window until which it is in force", _FORM, at=(place,)
        )
    try:
        where = _filter_text(str(value["where"]))
    except PydanticCustomError as refused:
        told = refused.context or {}
        raise mistake(told["message"], told["fix"], at=(place, "where")) from None
    until = value.get("until")
    try:
        start = None if until is None else datetime.strptime(str(until), KEY_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise mistake(
            "until is no window", "write the key of a window: 2026-01-05-04:00", at=(place, "until")
        ) from None
    return FilterUntil(start, where)


if TYPE_CHECKING:
    WrittenFilter = str | tuple[FilterUntil, ...]
else:
    WrittenFilter = Annotated[
        FilterText,
        WrapValidator(_written),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string", "examples": ["status <> 'draft'"]},
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "properties": {"until": {"type": "string"}, "where": {"type": "string"}},
                            "required": ["where"],
                            "additionalProperties": False,
                        },
                    },
                ]
            }
        ),
    ]


def filters_of(written: WrittenFilter) -> tuple[tuple[datetime | None, RowFilter], ...]:
    """Return the filters of a table, each with the window until which it is in force."""
    if isinstance(written, str):
        return ((None, filter_of(written)),)
    return tuple((one.until, filter_of(one.where)) for one in written)


def filter_texts(rows: Mapping[str, WrittenFilter]) -> list[list[Any]]:
    """Return row filters as texts, by globs: another list makes other rows."""
    return [
        [glob, one if isinstance(one, str) else [[str(part.until or ""), part.where] for part in one]]
        for glob, one in rows.items()
    ]


def _expression(text: str) -> Any:
    """Return the one expression of a text as sqlglot reads it.

    Raises:
        _Refused: The text is no expression, or has signs whose sense is not the same everywhere.
    """
    import sqlglot  # here and not above: to import it takes a quarter of a second, and most files have no filter
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    if len(text) > MOST_CHARACTERS:
        raise _Refused("the row filter is too long", f"write at most {MOST_CHARACTERS} characters")
    if "\\" in text:
        # Spark and others disagree about what a backslash in a text is.
        raise _Refused("the row filter has a backslash", "write LIKE 'a!%' ESCAPE '!' for a percent sign itself")
    unreadable = _Refused("the row filter is no expression of Spark SQL", "write as behind WHERE: status <> 'draft'")
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        found = sqlglot.parse(text, read="spark")
    except (SqlglotError, ValueError):
        raise unreadable from None
    if len(found) != 1 or found[0] is None or any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise unreadable
    if any(token.token_type is TokenType.NOT and token.text.upper() != "NOT" for token in tokens):
        raise _Refused("the row filter has an exclamation mark", "write NOT")
    for one, other in pairwise(tokens):
        if one.token_type is other.token_type is TokenType.STRING:
            raise _Refused("two texts of the row filter stand side by side", "put a text with ' inside between \"")
    return found[0]


def _condition(node: Any) -> RowFilter:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, exp.And | exp.Or):
        joined = Conjunction if isinstance(node, exp.And) else Disjunction
        operands = [_condition(node.this), _condition(node.expression)]
        flat = [inner for one in operands for inner in (one.operands if isinstance(one, joined) else (one,))]
        return joined(tuple(flat))
    if isinstance(node, exp.Not):
        return Negation(_condition(node.this))
    if isinstance(node, exp.Column):
        return Truth(_column(node))
    for kind, read in _readers().items():
        if type(node) is kind:
            return read(node)
    raise _Refused(*_unlisted(node))


def _readers() -> Mapping[type[Any], Callable[[Any], RowFilter]]:
    from sqlglot import exp

    compared: dict[type[Any], str] = {
        exp.EQ: "=", exp.NullSafeEQ: "<=>", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="
    }  # fmt: skip
    return {
        **{kind: partial(_comparison, operator=operator) for kind, operator in compared.items()},
        exp.Is: _nullness,
        exp.In: _membership,
        exp.Between: _between,
        exp.Like: partial(_likeness, escape=""),
        exp.Escape: _escaped,
    }


def _comparison(node: Any, operator: str) -> RowFilter:
    from sqlglot import exp

    column, literal = _bare(node.this), _bare(node.expression)
    if isinstance(literal, exp.Column) and not isinstance(column, exp.Column):
        column, literal, operator = literal, column, _TURNED[operator]
    if isinstance(literal, exp.Null):
        if operator != "<=>":
            raise _Refused("a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        return Nullness(_column(column))
    return Comparison(_column(column), operator, _literal(literal))


def _nullness(node: Any) -> RowFilter:
    from sqlglot import exp

    if not isinstance(node.expression, exp.Null):
        raise _Refused("the row filter has IS without NULL", "write IS NULL, or compare by = or <=>")
    return Nullness(_column(_bare(node.this)))


def _membership(node: Any) -> RowFilter:
    _only(node, "this", "expressions")
    literals = tuple(_literal(one) for one in node.expressions)
    if not literals:
        raise _Refused(*_unlisted(node))
    return Membership(_column(_bare(node.this)), literals)


def _between(node: Any) -> RowFilter:
    _only(node, "this", "low", "high")
    column = _column(_bare(node.this))
    return Conjunction(
        (Comparison(column, ">=", _literal(node.args["low"])), Comparison(column, "<=", _literal(node.args["high"])))
    )


def _escaped(node: Any) -> RowFilter:
    from sqlglot import exp

    if type(node.this) is not exp.Like:
        raise _Refused(*_unlisted(node))
    escape = _literal(node.expression)
    if not isinstance(escape, str) or len(escape) != 1 or escape in "%_":
        raise _Refused("ESCAPE names no one character", "write ESCAPE '!'")
    return _likeness(node.this, escape)


def _likeness(node: Any, escape: str) -> RowFilter:
    _only(node, "this", "expression", "negate")
    pattern = _literal(node.expression)
    if not isinstance(pattern, str):
        raise _Refused(*_unlisted(node))
    rest = pattern.replace(escape * 2, "") if escape else ""
    for place, character in enumerate(rest):
        if character == escape and rest[place + 1 : place + 2] not in ("%", "_"):
            raise _Refused(
                "the escape of a LIKE stands before a letter", f"write it before % or _, or twice: {escape * 2}"
            )
    found: RowFilter = Likeness(_column(_bare(node.this)), pattern, escape)
    return Negation(found) if node.args.get("negate") else found


def _column(node: Any) -> str:
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        raise _Refused(*_unlisted(node))
    if len(node.parts) != 1 or not isinstance(node.this, exp.Identifier):
        raise _Refused(
            "a name in the row filter has a dot", "write the column alone, in backquotes if it has a dot itself"
        )
    return str(node.this.this)


def _literal(node: Any) -> Literal:
    """Return a literal: a text, a number, a flag, a date or a time.

    Raises:
        _Refused: The node is something else.
    """
    from sqlglot import exp

    node = _bare(node)
    if type(node) is exp.Neg and type(node.this) is exp.Literal and not node.this.is_string:
        number = _number(node.this.this)
        return number.copy_negate() if isinstance(number, Decimal) else -number
    if type(node) is exp.Boolean:
        return bool(node.this)
    if type(node) is exp.Literal:
        return str(node.this) if node.is_string else _number(node.this)
    if isinstance(node, exp.Null):
        raise _Refused("a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
    if isinstance(node, exp.Cast) and type(node.this) is exp.Literal and node.this.is_string:
        return _moment(node)
    if isinstance(node, exp.Column):
        raise _Refused("the row filter compares two columns", "compare each column with a literal")
    raise _Refused(*_unlisted(node))


def _moment(node: Any) -> Literal:
    from sqlglot import exp

    kinds, found = exp.DataType.Type, moment(str(node.this.this))
    kind = node.to.this if isinstance(node.to, exp.DataType) else None
    if found is not None and kind in (kinds.TIMESTAMPTZ, kinds.TIMESTAMPNTZ, kinds.TIMESTAMPLTZ, kinds.TIMESTAMP):
        return found
    if found is not None and kind is kinds.DATE and found == datetime(found.year, found.month, found.day):
        return found.date()
    raise _Refused("a date or time is written otherwise", "write DATE '2026-01-05' or TIMESTAMP '2026-01-05 07:00:00'")


def _number(text: str) -> int | Decimal | float:
    if "e" in text.lower():
        number = float(text)
        if math.isfinite(number):
            return number
    elif len(text.replace(".", "").lstrip("0")) <= _MOST_DIGITS and len(text.partition(".")[2]) <= _MOST_DIGITS:
        return Decimal(text) if "." in text else int(text)
    raise _Refused("a number of the row filter is too large", f"write at most {_MOST_DIGITS} digits")


def _bare(node: Any) -> Any:
    from sqlglot import exp

    while type(node) is exp.Paren:
        node = node.this
    return node


def _only(node: Any, *known: str) -> None:
    """Refuse a node with more parts than are known, such as ``BETWEEN SYMMETRIC``.

    Raises:
        _Refused: There are more parts.
    """
    if any(value not in (None, False, []) for name, value in node.args.items() if name not in known):
        raise _Refused(*_unlisted(node))


def _unlisted(node: Any) -> tuple[str, str]:
    return f"{_kind(node)} is not in the part of Spark SQL that row filters have", _LISTED


def _kind(node: Any) -> str:
    from sqlglot import exp

    return "a function" if isinstance(node, exp.Func) else f"{type(node).__name__} (as sqlglot calls it)"
