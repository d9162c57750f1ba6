"""The rules that rows of a copy have passed, compared with those of now.

A rule is applied once. Those that a column has not passed are left for the decoding, and one that is another one now cannot be
applied any more: nobody knows the values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dts_assets.model.column_rules import ColumnRule, RuleKind, RuleOf, TableRules, rule_on
from dts_assets.model.columns import Column
from dts_assets.model.copied_tables import CopiedTable, PassedRule
from dts_assets.model.row_filters import RowFilter, columns_of


@dataclass(frozen=True, slots=True)
class RulesLeft:
    """The rules that a copy has not passed.

    ``clash`` is a clause that says why they cannot be applied any more.
    """

    rules: TableRules | None = None
    clash: str | None = None

    @property
    def any(self) -> bool:
        """True if a rule is left to be applied."""
        return self.rules is not None


def rule_digest(rule: ColumnRule) -> str:
    """Return the digest of a rule on a column, which tells neither its key nor its pattern."""
    return _digest(rule.fingerprint)


def filter_digest(rows: RowFilter | None) -> str | None:
    """Return the digest of a row filter; None without one."""
    return None if rows is None else _digest(repr(rows))


def filter_by_names(rows: RowFilter | None) -> str | None:
    """Return the digest of a row filter with the names of its columns in a copy, or None."""
    digest = filter_digest(rows)
    return None if digest is None else _BY_NAMES + digest


_BY_NAMES = "names "
"""The begin of such digests. Copies of earlier versions note the filter as the configuration has it."""


def passed_now(columns: Sequence[Column], names: Iterable[str], rule_of: RuleOf) -> tuple[PassedRule, ...]:
    """Return the rules that columns of a copy pass now; ``names`` are theirs at the source."""
    by_name = {name: one for one in reversed(columns) for name in one.source_names}
    found = [(name, rule_on(by_name[name], rule_of)) for name in names if name in by_name]
    return tuple(PassedRule(name, rule_digest(rule)) for name, rule in found if rule is not None)


def rules_left(
    rules: TableRules | None,
    columns: Sequence[Column],
    rule_of: RuleOf,
    rows: RowFilter | None,
    copied: CopiedTable,
    by_names: Sequence[RowFilter] = (),
) -> RulesLeft:
    """Return the rules of a table that a copy has not passed.

    ``columns`` are those of the table before any rule, and ``rows`` is the row filter as it is written. ``by_names`` are the row
    filters with the names that columns have at the positions of the copy.
    """
    names = {one.name for one in copied.columns}
    there = {name: one for one in reversed(columns) for name in one.source_names}
    done: dict[str, ColumnRule] = {}
    for passed in copied.passed:
        column = there.get(passed.column)
        now = None if column is None else rule_on(column, rule_of)
        if column is None or passed.column not in names:
            continue
        if now is not None and rule_digest(now) == passed.rule:
            done[column.name] = now
        elif now is None or now.kind is not RuleKind.DROP:
            return RulesLeft(
                clash=f"its copy has passed another rule on {passed.column} than the configuration has now"
            )
    if (copied.passed_filter or "").startswith(_BY_NAMES):
        # A copy is ahead of the stored statements, so its columns may have had other names than it was judged by.
        if {copied.passed_filter} != {*map(filter_by_names, by_names)}:
            return RulesLeft(
                clash="its copy has passed another row filter than the configuration and the statements before it give"
            )
    elif copied.passed_filter is not None and copied.passed_filter != filter_digest(rows):
        return RulesLeft(clash="its copy has passed another row filter than the configuration has now")
    if rules is None:
        return RulesLeft()
    judged = rules.rows is None or copied.passed_filter is not None
    if not judged and rules.rows is not None and (unknown := columns_of(rules.rows).intersection(done)):
        return RulesLeft(clash=f"its copy has passed the rule on {min(unknown)}, which its row filter looks at")
    return RulesLeft(_without(rules, done, judged=judged))


def _without(rules: TableRules, done: dict[str, ColumnRule], *, judged: bool) -> TableRules | None:
    """Return rules without those that were applied; None where none is left."""
    left = {name: rule for name, rule in rules.columns.items() if name not in done}
    rows = None if judged else rules.rows
    if not left and rows is None:
        return None
    decoded = []
    for column in rules.decoded:
        rule = done.get(column.name)
        if rule is None:
            decoded.append(column)
        elif rule.kind is not RuleKind.DROP:
            decoded.append(replace(column, type="string", own_types=()))
    return replace(rules, decoded=tuple(decoded), columns=left, rows=rows)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
