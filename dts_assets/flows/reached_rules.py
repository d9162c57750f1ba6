"""Rules on tables that rows reach by statements: they hold from the first event on.

A changelog notes which of these rules all of its rows have passed. Rules that are written for its own table are not among them:
another rule makes all windows stale.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.column_rules import ColumnRule, RuleOf, no_rule, rule_on
from dts_assets.model.columns import Column, same_name
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import rule_digest
from dts_assets.stages.reached_tables import Reached, reached_rule, reached_tables

PASSED_PROPERTY = "dts-assets.passed-rules"
"""The property of a changelog with the rules that its rows have passed because of others, by column."""


def rule_finder(pipeline: Pipeline, table: TableId) -> RuleOf:
    """Return the function that gives the rule on a column of a lake table.

    It is the table's own rule, else that of a table that its rows reach by the statements that are stored so far.
    """
    settings = pipeline.settings
    own = settings.rule_finder(table)
    some = sorted(reached_from(pipeline).get(table, ()))
    ruled = [(one, found) for one in some if (found := settings.rule_finder(one.table)) is not no_rule]
    if not ruled:
        return own
    shard_columns = settings.routes.shard_columns(table)

    def rule_of(name: str) -> ColumnRule | None:
        found = own(name)
        if found is not None or name in shard_columns:
            return found
        return reached_rule(ruled, name)

    return rule_of


def rule_finder_of_changelog(pipeline: Pipeline, table: TableId) -> RuleOf:
    """Return the function that gives the rule on a column of the rows that come into a changelog.

    Rows that stand there may have passed rules of tables that they reached by statements of before. A window that is made again
    may have lost such a statement to one that is not made yet, so further rows pass these rules, too.
    """
    rule_of = rule_finder(pipeline, table)
    passed = passed_by(pipeline, table) if pipeline.settings.columns else {}
    if not passed:
        return rule_of
    by_digest = {rule_digest(one.rule): one.rule for one in pipeline.settings.columns.values()}
    by_name = {same_name(name): by_digest[digest] for name, digest in passed.items() if digest in by_digest}
    return lambda name: rule_of(name) or by_name.get(same_name(name))


def reached_from(pipeline: Pipeline) -> Mapping[TableId, frozenset[Reached]]:
    """Return the tables that rows of tables reach, all by their names in the lake.

    Nobody needs them where there are no rules. The statements are read again once there are others.
    """
    if not pipeline.settings.has_rules or pipeline.lake.identity(pipeline.name) is None:
        return {}
    state = pipeline.lake.state(pipeline.path("ddl"))
    version = None if state is None else state.snapshot_id
    if version not in pipeline.reached:
        pipeline.reached.clear()
        pipeline.reached[version] = {} if version is None else _reached_from(pipeline)
    return pipeline.reached[version]


def _reached_from(pipeline: Pipeline) -> Mapping[TableId, frozenset[Reached]]:
    lake_table = pipeline.settings.routes.lake_table
    statements = sorted(stored_statements(pipeline, None), key=lambda one: (one.position, one.place))
    effects = [one.parsed.effects for one in statements if not one.is_first_state and not one.is_of_other_dialect]
    found: dict[TableId, set[Reached]] = {}
    for table, some in reached_tables(effects).items():
        mine = (replace(one, table=lake_table(one.table)) for one in some)
        found.setdefault(lake_table(table), set()).update(mine)
    return {table: frozenset(some) for table, some in found.items()}


def rules_because_of_others(pipeline: Pipeline, table: TableId, columns: Iterable[Column]) -> dict[str, ColumnRule]:
    """Return the rules on columns of a table that follow from other tables, by name in the lake.

    These are the tables that its rows reach, and the one that it helps to alter.
    """
    own, rule_of = pipeline.settings.own_rule_finder(table), rule_finder(pipeline, table)
    if rule_of is no_rule:
        return {}
    return {
        column.name: rule
        for column in columns
        if rule_on(column, own) is None and (rule := rule_on(column, rule_of)) is not None
    }


def passed_by(pipeline: Pipeline, table: TableId) -> dict[str, str]:
    """Return the rules that all rows of a changelog have passed because of other tables: digests by column."""
    there = pipeline.lake.table(pipeline.table_path(CHANGELOG.name, table))
    text = None if there is None else there.properties.get(PASSED_PROPERTY)
    return {} if text is None else dict(json.loads(text))


def passed_text(passed: Mapping[str, str]) -> str:
    """Return the text of the rules that rows have passed, as the property has it."""
    return json.dumps(dict(sorted(passed.items())))


def passed_before(pipeline: Pipeline, table: TableId) -> str:
    """Return the text of all rules that rows of a snapshot have passed because of other tables.

    It is empty if there are none. Changelogs of former names count, too. A snapshot with another text is made anew.
    """
    if not pipeline.settings.has_rules:
        return ""
    reached = reached_from(pipeline)
    names = {name for name, some in reached.items() if any(one.table == table for one in some)}
    if table in reached or helped_table(table) is not None:
        names.add(table)
    found: dict[str, object] = {str(name): passed for name in sorted(names) if (passed := passed_by(pipeline, name))}
    by_name, ours = pipeline.settings.row_filter, pipeline.settings.row_filter(table)
    if ours is not None and any(by_name(name) != ours for name in names):
        found[""] = "row filter"  # a snapshot of before has rows that do not pass it
    return json.dumps(found, sort_keys=True) if found else ""
