"""Rules on the columns of a table: what becomes of values before anything typed is stored.

A table with rules has two lists of columns: those that are decoded, and those that the lake stores.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from dts_assets.model.collections import DOCUMENT, is_collection
from dts_assets.model.columns import Column, same_name
from dts_assets.model.filter_names import FilterSince
from dts_assets.model.positions import SourcePosition
from dts_assets.model.row_filters import RowFilter, columns_of, misfit, renamed
from dts_assets.model.tables import TableId


class RuleKind(StrEnum):
    """The kinds of rules on a column."""

    DROP = "drop"
    HASH = "hash"
    MASK = "mask"
    TOKENIZE = "tokenize"


_VERSIONS = {RuleKind.TOKENIZE: "/2"}
"""Kinds of rules that have made other values before.

Their windows become stale by it, as no window does by the version of the code. Until 5 tokens stood in the JSON of documents.
"""


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A rule on a column.

    ``key`` is the secret of ``hash`` and ``tokenize``, ``text`` the mask. What ``pattern`` matches becomes a token, but for the
    last ``keep_last`` characters of each match.
    """

    kind: RuleKind
    key: bytes = field(default=b"", repr=False)
    text: str = ""
    pattern: str = ""
    keep_last: int = 0

    @property
    def fingerprint(self) -> str:
        """A text that is another one where the rule makes other values: ``hash 5d41402abc4b``.

        The secret is in it as a keyed hash of a fixed text, which tells as much of it as each hashed value does.
        """
        seal = hmac.digest(self.key, b"dts-assets column rule", "sha256").hex()[:12] if self.key else ""
        kind = f"{self.kind.value}{_VERSIONS.get(self.kind, '')}"
        return f"{kind} {seal} {self.keep_last} {self.text!r} {self.pattern!r}"


RuleOf: TypeAlias = Callable[[str], ColumnRule | None]
"""The function that gives the rule on a column of one table, by one of its names."""


def no_rule(name: str) -> ColumnRule | None:
    """Return no rule: it is the function of a table without rules."""
    return None


@dataclass(frozen=True, slots=True)
class FilterEra:
    """The row filter behind a position, with the names that columns have in the lake there.

    The position None stands for the first change. ``lacking`` has the digests of the lists of columns that events told, and that
    lack one of the filter. ``follows`` says that another filter was in force before. It is for the changes of one ``source``
    where a table has several, each of which has statements of its own; None stands for all.
    """

    since: SourcePosition | None
    rows: RowFilter
    follows: bool = False
    lacking: frozenset[str] = frozenset()
    source: TableId | None = None


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules on one table.

    ``decoded`` are the columns as they are decoded, ``stored`` the columns of the lake. ``columns`` has rules by the name in the
    lake, ``keys`` the columns of the primary key. ``rows`` is the row filter with names of the lake, None without
    one; ``eras`` has it with the names that its columns have from position to position, none where no statement gave them others.
    ``follows`` says that another filter was in force before it, by which rows may stand. ``keeps_deleted`` says that deleted rows
    stay in the table's snapshot, ``writes_statements`` that statements are made of its changes, ``of_documents`` that it is a
    collection.
    """

    decoded: tuple[Column, ...]
    stored: tuple[Column, ...]
    keys: frozenset[str]
    columns: Mapping[str, ColumnRule]
    rows: RowFilter | None = None
    keeps_deleted: bool = False
    writes_statements: bool = False
    of_documents: bool = False
    eras: tuple[FilterEra, ...] = ()
    follows: bool = False

    @property
    def differ_by_source(self) -> bool:
        """True if the source tables have row filters of their own."""
        return any(era.source is not None for era in self.eras)

    def of_source(self, source: TableId) -> TableRules:
        """Return the rules for the changes of a source table."""
        return replace(self, eras=tuple(era for era in self.eras if era.source in (None, source)))

    def until(self, position: SourcePosition | None) -> TableRules:
        """Return the rules for changes up to a position: no era behind it is of any matter. None stands for no bound."""
        if position is None or not self.eras:
            return self
        eras = tuple(era for era in self.eras if (era.since or _BEGIN) <= position)
        filters = {era.rows for era in eras}
        return replace(self, rows=filters.pop(), eras=()) if len(filters) == 1 else replace(self, eras=eras)

    def of_era(self, era: FilterEra) -> TableRules:
        """Return the rules for the changes of an era."""
        return replace(self, rows=era.rows, eras=(), follows=era.follows)

    @property
    def looked_at(self) -> frozenset[str]:
        """The names of the columns that the row filter looks at in any era."""
        return frozenset().union(*map(columns_of, self._filters))

    @property
    def _filters(self) -> tuple[RowFilter, ...]:
        return tuple(era.rows for era in self.eras) or (() if self.rows is None else (self.rows,))

    @property
    def merge_judges(self) -> bool:
        """True if a merge can judge the rows of a table with a key by its row filter.

        It sees the columns as they are stored, so none that the filter looks at may have a rule.
        """
        return self.rows is not None and self.looked_at.isdisjoint(self.columns)

    @property
    def filter_columns(self) -> tuple[Column, ...]:
        """The decoded columns that the row filter looks at."""
        names = self.looked_at
        return tuple(column for column in self.decoded if column.name in names)

    def unusable_key(self, names: Iterable[str]) -> str | None:
        """Return a clause about a rule that destroys a key; None if the key stays a key.

        Only a hashed column still tells rows apart, and nobody can make two values with one hash.
        """
        for name in sorted(names):
            rule = self.columns.get(name)
            if rule is not None and rule.kind is not RuleKind.HASH:
                return (
                    f"the rule {rule.kind.value} is on {name}, a column of its primary key, which tells its rows apart"
                )
        return None


def stored_columns(columns: Iterable[Column], rule_of: RuleOf) -> tuple[Column, ...]:
    """Return the columns of a table as the lake has them.

    Dropped ones are left out, and those with another rule are text.
    """
    if rule_of is no_rule:  # thousands of tables are asked for again and again
        return tuple(columns)
    found = []
    for column in columns:
        rule = rule_on(column, rule_of)
        if rule is None:
            found.append(column)
        elif rule.kind is not RuleKind.DROP:
            found.append(replace(column, type="string", own_types=()))
    return tuple(found)


def table_rules(
    columns: Iterable[Column],
    rule_of: RuleOf,
    rows: RowFilter | None,
    *,
    keeps_deleted: bool = False,
    writes_statements: bool = False,
    eras: Mapping[TableId | None, Sequence[FilterSince]] = MappingProxyType({}),
) -> TableRules | None:
    """Return the rules on a table with some columns; None where nothing is to be done.

    Values that get another form are read as text, exactly as the source wrote them, or as bytes. A name in the filter that no
    column has stays as it is. ``eras`` are the filters from position to position, where there are several, by the source table;
    None stands for all of them.
    """
    columns = tuple(columns)
    # Of names that differ in case only, the one of the lake counts first.
    named = {same_name(name): one.name for one in reversed(columns) for name in one.source_names[::-1]}
    named |= {same_name(one.name): one.name for one in columns}

    def in_lake(name: str) -> str:
        return named.get(same_name(name), name)

    mine = tuple(
        FilterEra(one.since, renamed(one.rows, in_lake), one.follows, source=source)
        for source, some in eras.items()
        for one in some
    )
    rows = None if rows is None else renamed(rows, in_lake)
    looked_at = frozenset().union(*map(columns_of, [era.rows for era in mine] or ([] if rows is None else [rows])))
    rules = {column.name: rule for column in columns if (rule := rule_on(column, rule_of)) is not None}
    if not rules and rows is None:
        return None
    decoded = []
    for column in columns:
        found = rules.get(column.name)
        if found is None or (found.kind is RuleKind.DROP and column.name in looked_at):
            decoded.append(column)
        elif found.kind is not RuleKind.DROP:
            decoded.append(replace(column, type="binary" if column.type == "binary" else "string", own_types=()))
    keys = frozenset(column.name for column in columns if column.is_key)
    stored = stored_columns(columns, rule_of)
    return TableRules(
        tuple(decoded), stored, keys, rules, rows, keeps_deleted, writes_statements, is_collection(columns), mine
    )


def unusable(rules: TableRules) -> str | None:
    """Return a clause about rules that a table cannot have; None if it can."""
    if not rules.stored:
        return "no column is left of it"
    found = rules.unusable_key(rules.keys) or (_unusable_of_documents(rules) if rules.of_documents else None)
    if found is None and rules.rows is not None:
        types = {column.name: column.type for column in rules.decoded}
        # No event has told the columns of an era yet that are not there.
        told = [era.rows for era in rules.eras if columns_of(era.rows) <= types.keys()] or [rules.rows]
        found = next((clause for rows in told if (clause := misfit(rows, types)) is not None), None)
    return found


def _unusable_of_documents(rules: TableRules) -> str | None:
    """Return a clause about a rule that documents cannot have; None if they can have all.

    A document holds its id as well, and must stay a document: later updates are applied to it.
    """
    for name, rule in sorted(rules.columns.items()):
        if name != DOCUMENT:
            return f"the rule {rule.kind.value} is on {name} of a collection, whose documents hold it as well"
        if rule.kind is not RuleKind.TOKENIZE:
            return f"the rule {rule.kind.value} is on documents, which can only be tokenized"
    return None


def rule_on(column: Column, rule_of: RuleOf) -> ColumnRule | None:
    """Return the rule on a column, whichever of its names it is for."""
    return next((rule for name in (*column.source_names, column.name) if (rule := rule_of(name)) is not None), None)


def first_difference(rules: TableRules, others: TableRules) -> SourcePosition | None:
    """Return the first position from which on two filters judge by other names.

    None stands for filters that never do.
    """
    sources = dict.fromkeys(one.source for one in (*rules.eras, *others.eras))
    if len(sources) > 1:
        both = ((rules.of_source(one), others.of_source(one)) for one in sources if one is not None)
        found = (first_difference(*pair) for pair in both)
        return min((since for since in found if since is not None), default=None)
    begins = {one.since or _BEGIN for one in (*rules.eras, *others.eras)}
    return next((since for since in sorted(begins) if _rows_at(rules, since) != _rows_at(others, since)), None)


_BEGIN = SourcePosition(0, 0, 0)


def _rows_at(rules: TableRules, position: SourcePosition) -> RowFilter | None:
    return next((one.rows for one in reversed(rules.eras) if (one.since or _BEGIN) <= position), rules.rows)
