"""Tables that rows reach by statements, from which the rules on these rows follow.

Statements are read from the last to the first, so that it is known at each of them where the rows of a table will stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dts_assets.model.column_rules import ColumnRule, RuleKind, RuleOf
from dts_assets.model.columns import same_name
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.effects import Effect, EffectKind

_GONE = ""


@dataclass(frozen=True, slots=True, order=True)
class Reached:
    """A table that rows of another one reach.

    It may be the same table, with other names of columns. ``columns`` has the name without case that a column has, and the one
    that it gets, for each column that gets another name. A column that goes before gets an empty one.
    """

    table: TableId
    columns: tuple[tuple[str, str], ...] = ()

    def name_of(self, column: str) -> str:
        """Return the name that a column gets; an empty one if it goes before."""
        return dict(self.columns).get(same_name(column), column)

    def before(self, names: Mapping[str, str]) -> Reached:
        """Return the same before a statement that gave columns other names."""
        later = dict(self.columns)
        moved = {old: later.get(new, new) for old, new in names.items()}
        stays = {old: new for old, new in later.items() if old not in names and old not in names.values()}
        return Reached(self.table, tuple(sorted({**stays, **moved}.items())))


ReachedTables = Mapping[TableId, frozenset[Reached]]
"""The tables that the rows of tables reach."""


def reached_tables(statements: Sequence[Sequence[Effect]]) -> ReachedTables:
    """Return the tables that rows of tables reach.

    ``statements`` has the effects of each, in the order of the source.
    """
    live: dict[TableId, frozenset[Reached]] = {}
    found: dict[TableId, set[Reached]] = {}

    def own(table: TableId) -> frozenset[Reached]:
        return frozenset({Reached(table)})

    def note(table: TableId, reached: frozenset[Reached]) -> None:
        live[table] = reached
        if more := reached - {Reached(table)}:
            found.setdefault(table, set()).update(more)

    for effects in reversed(statements):
        for effect in reversed(effects):
            if effect.kind is EffectKind.RENAME_TABLE:
                old, new = effect.tables
                reached = live.get(new, own(new))
                live[new] = own(new)
                note(old, own(old) | reached)
            elif effect.kind in _BEGINS and effect.tables:
                live[effect.tables[0]] = own(effect.tables[0])
        for table, names in _renamed_columns(effects).items():
            note(table, own(table) | {one.before(names) for one in live.get(table, own(table))})
    return {table: frozenset(some) for table, some in found.items()}


_BEGINS = frozenset({EffectKind.CREATE_TABLE, EffectKind.DROP_TABLE, EffectKind.TRUNCATE_TABLE})
"""Effects before which a table has no row that stands behind them."""


def _renamed_columns(effects: Iterable[Effect]) -> dict[TableId, dict[str, str]]:
    """Return the columns that get other names or go, by the table's name before the statement."""
    found: dict[TableId, dict[str, str]] = {}
    for effect in effects:
        if effect.kind is EffectKind.RENAME_COLUMN:
            old, new = map(same_name, effect.columns)
            found.setdefault(effect.tables[0], {})[old] = new
        elif effect.kind is EffectKind.DROP_COLUMN:
            found.setdefault(effect.tables[0], {})[same_name(effect.columns[0])] = _GONE
    return found


_STRICTEST = (RuleKind.MASK, RuleKind.HASH, RuleKind.TOKENIZE, RuleKind.DROP)
"""The rules in the order in which they count where several tables are reached.

A column that one of them drops is left out there, whatever another one needs of it here.
"""


def reached_rule(reached: Iterable[tuple[Reached, RuleOf]], column: str) -> ColumnRule | None:
    """Return the rule on a column that follows from the tables that its values reach.

    Each stands with its rules. None says that there is no rule.
    """
    rules = [rule for one, rule_of in reached if (name := one.name_of(column)) and (rule := rule_of(name)) is not None]
    return min(rules, key=lambda rule: _STRICTEST.index(rule.kind), default=None)
