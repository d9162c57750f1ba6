"""Rules on columns and rows as they are written: globs of columns with what becomes of their values.

A secret that a rule needs comes from the environment, and neither ``repr`` nor a dump of the settings shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, SecretStr, WithJsonSchema
from pydantic import model_validator as check_whole
from pydantic_core import CoreSchema, PydanticCustomError

from dts_assets.model.column_rules import ColumnRule, RuleKind, RuleOf, no_rule
from dts_assets.model.columns import same_name
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.tables import TableId
from dts_assets.settings.document import Document, Place
from dts_assets.settings.places import Part
from dts_assets.settings.row_filters import WrittenFilter, filter_texts
from dts_assets.settings.values import VALUE, glob_of, mistake

LEAST_KEY = 16
"""The least characters of a key: hashes by a short one can be undone by trying all keys."""

_KEYED = ("hash", "tokenize")


def _long_enough(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value()) < LEAST_KEY:
        raise mistake("the key is too short", f"use {LEAST_KEY} characters or more that nobody can guess")
    return key


Key = Annotated[SecretStr, AfterValidator(_long_enough)]


def _pattern(text: str) -> str:
    """Return a pattern as it is.

    Raises:
        mistake: the pattern cannot be read, or matches the empty text.
    """
    import pyarrow as pa  # here and not above: most files have no pattern, and definitions load without pyarrow
    import pyarrow.compute as pc

    try:
        matches_nothing = pc.match_substring_regex(pa.array([""]), pattern=text)[0].as_py()
    except pa.ArrowInvalid:
        raise mistake(
            f"{VALUE} is no pattern", "write a regular expression of RE2, in single quotes: '[0-9]{16}'"
        ) from None
    if matches_nothing:
        raise mistake(f"{VALUE} matches the empty text", "write a pattern of at least one character: '[0-9]+'")
    return text


class HashRule(Part):
    """A rule that makes a keyed hash of each value."""

    key: Key = Field(
        description="The secret, from the environment: ${PII_KEY}. Equal values have equal hashes under one key."
    )


class TokenizeRule(Part):
    """A rule that replaces parts of texts by tokens."""

    pattern: Annotated[str, AfterValidator(_pattern)] = Field(
        description="What becomes a token, as a regular expression of RE2."
    )
    key: Key = Field(description="The secret, from the environment: ${PII_KEY}.")
    keep_last: int = Field(0, ge=0, description="How many characters at the end of each match stay as they are.")


class ColumnRuleText(Part):
    """One rule on a column: drop, or hash, mask or tokenize with what they need."""

    drop: Literal[True] | None = Field(None, description="The column is nowhere in typed tables.")
    hash: HashRule | None = Field(None, description="HMAC-SHA-256 of each value, in hex.")
    mask: str | None = Field(None, description="The text that stands for every value but NULL.")
    tokenize: TokenizeRule | None = Field(None, description="Tokens for what a pattern matches.")

    @check_whole(mode="after")
    def _one_of_them(self) -> ColumnRuleText:
        if sum(value is not None for value in (self.drop, self.hash, self.mask, self.tokenize)) != 1:
            raise mistake("the column has not one rule", "write one of drop, hash, mask and tokenize")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"const": RuleKind.DROP.value}, handler(schema)]}

    @property
    def rule(self) -> ColumnRule:
        """The rule in words of the model."""
        if self.hash is not None:
            return ColumnRule(RuleKind.HASH, key=_bytes(self.hash.key))
        if self.tokenize is not None:
            one = self.tokenize
            return ColumnRule(RuleKind.TOKENIZE, key=_bytes(one.key), pattern=one.pattern, keep_last=one.keep_last)
        return ColumnRule(RuleKind.DROP) if self.mask is None else ColumnRule(RuleKind.MASK, text=self.mask)


def _bytes(key: SecretStr) -> bytes:
    return key.get_secret_value().encode(errors="surrogateescape")


def _in_one_word(value: object) -> object:
    """Return ``drop`` as ``{"drop": True}``.

    Raises:
        mistake: the text is another one.
    """
    if not isinstance(value, str):
        return value
    if value != "drop":
        raise mistake(
            f"{VALUE} is no rule by itself", 'write drop, or {hash: {key: "${NAME}"}}, {mask: "***"}, {tokenize: ...}'
        )
    return {"drop": True}


def column_glob(text: object) -> str:
    """Return a glob of columns, ``shopdb.customers.email`` or ``*.email``: a glob of tables, a dot, a column.

    Raises:
        mistake: the text names no columns.
    """
    if isinstance(text, str):
        tables, dot, column = _parts_of(text)
        try:
            if dot and column:
                glob_of(tables)
                return text
        except PydanticCustomError:  # its words speak of tables
            pass
    raise mistake(
        "the key names no columns",
        'write database, table and column: "shopdb.customers.email"; "*.email" is the column of every table',
    )


def _parts_of(glob: str) -> tuple[str, str, str]:
    """Return the glob of tables and the column; a column with a dot stands in backquotes."""
    if glob.endswith("`") and (start := glob.find(".`")) >= 0:
        return glob[:start], ".", glob[start + 2 : -1]
    return glob.rpartition(".")


def tables_of_rule(glob: str) -> str:
    """Return the glob of tables in a glob of columns: ``shopdb.*`` in ``shopdb.*.email``."""
    return _parts_of(glob)[0]


def rule_finder(
    rules: Mapping[str, ColumnRuleText], table: TableId, routes: Routes = NO_ROUTES, *, helps: bool = True
) -> RuleOf:
    """Return the function that gives the rule on a column of a lake table.

    The first glob that matches counts. Case does not count in names: a value must not slip through because a server spells them
    otherwise. A helper table that ``helps`` has the rules of its table before its own. Columns that tell a shard have no rule.
    """
    helped = helped_table(table) if helps else None
    mine = [
        (column, one.rule)
        for named in ((table,) if helped is None else (helped, table))
        for glob, one in rules.items()
        if (column := _column_of(glob, named, routes))
    ]
    shard_columns = routes.shard_columns(table)

    def rule_of(name: str) -> ColumnRule | None:
        return None if name in shard_columns else next((rule for column, rule in mine if _names(column, name)), None)

    return rule_of if mine else no_rule


def matches_column(glob: str, table: TableId, names: Collection[str] | None, routes: Routes = NO_ROUTES) -> bool:
    """Tell whether a glob may name a column of a table.

    ``names`` is None where the columns are not known.
    """
    column = _column_of(glob, table, routes)
    return bool(column) and (names is None or any(_names(column, name) for name in names))


@lru_cache(maxsize=65536)
def _names(glob: str, column: str) -> bool:
    return fnmatchcase(same_name(column), same_name(glob))


@lru_cache(maxsize=65536)
def _column_of(glob: str, table: TableId, routes: Routes) -> str:
    """Return the glob of columns where the glob of tables matches, else an empty text."""
    tables, _, column = _parts_of(glob)
    return column if routes.means(table, tables, ignores_case=True) else ""


def written_keys(document: Document) -> Iterator[tuple[Place, str, str]]:
    """Yield the keys of rules that stand in the file itself, with a message and a fix."""
    for place, text in document.written.items():
        keyed = len(place) == 6 and place[0] == "subscriptions" and place[2] == "columns" and place[4] in _KEYED
        if keyed and place[5] == "key" and not text.startswith("${"):
            yield place, "the key of a rule stands in the file", 'write key: "${NAME}", and set NAME in the environment'


ColumnRules = dict[
    Annotated[str, BeforeValidator(column_glob), WithJsonSchema({"type": "string"})],
    Annotated[ColumnRuleText, BeforeValidator(_in_one_word)],
]
"""Rules by globs of columns."""


def rule_texts(columns: Mapping[str, ColumnRuleText], rows: Mapping[str, WrittenFilter]) -> list[Any]:
    """Return all rules as texts, in their order, without a secret: another list makes other rows."""
    return [[[glob, one.rule.fingerprint] for glob, one in columns.items()], filter_texts(rows)]
