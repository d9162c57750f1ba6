"""Rules on what every format decodes: all values of all scenarios become hashes, and no other text of them is left."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pytest

from dts_assets.model.column_rules import ColumnRule, RuleKind, table_rules, unusable
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.stages.column_rules import apply_rules
from dts_assets.wire.format import TableChanges
from tests.made_up_format.place import SITE_PACKAGES
from tests.stages.ruled import KEY
from tests.wire.scenarios import Scenario, entries_of, scenarios

HASH = ColumnRule(RuleKind.HASH, key=KEY)
DROP = ColumnRule(RuleKind.DROP)


@pytest.fixture(autouse=True)
def _with_the_made_up_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)


def changes_of(scenario: Scenario, tables: Mapping[TableId, tuple[Column, ...]]) -> dict[TableId, TableChanges]:
    found = scenario.format.changes(entries_of(scenario)[0], tables)
    return {one.table: one for one in found.tables}


@pytest.mark.parametrize("scenario", scenarios(), ids=str)
def test_every_value_becomes_a_hash(scenario: Scenario) -> None:
    _, tables = entries_of(scenario)
    as_sent = changes_of(scenario, tables)
    rules = {
        table: found for table, columns in tables.items() if (found := table_rules(columns, lambda name: HASH, None))
    }
    of_documents = {table for table, one in rules.items() if one.of_documents}
    assert all(unusable(rules.pop(table)) for table in of_documents), "documents cannot be hashed"
    for table, changes in changes_of(scenario, {table: one.decoded for table, one in rules.items()}).items():
        made = apply_rules(changes, rules[table]).changes.batch
        made.validate(full=True)
        for plain, row in zip(as_sent[table].batch.to_pylist(), made.to_pylist(), strict=True):
            assert row["invalid"] == []
            assert (row["op"], row["absent"]) == (plain["op"], plain["absent"])
            unfit = dict(plain["invalid"])
            for side in ("before", "after"):
                assert (row[side] is None) == (plain[side] is None)
                for name, value in (row[side] or {}).items():
                    told = plain[side][name] is not None or f"{side}.{name}" in unfit
                    assert (value is not None) == told, (name, plain[side][name])
                    assert value is None or re.fullmatch("[0-9a-f]{64}", value)


@pytest.mark.parametrize("scenario", scenarios(), ids=str)
def test_a_dropped_column_leaves_nothing(scenario: Scenario) -> None:
    _, tables = entries_of(scenario)
    for table, columns in tables.items():
        kept = columns[0].name
        rules = table_rules(columns, {one.name: DROP for one in columns[1:]}.get, None)
        if rules is None:  # a table of one column
            continue
        for changes in changes_of(scenario, {table: rules.decoded}).values():
            if changes.keys.distinct and any(set(key) - {kept} for key in changes.keys.distinct):
                continue  # its key cannot be dropped
            batch = apply_rules(changes, rules).changes.batch
            assert [field.name for field in batch.schema.field("after").type] == [kept]
            names = [
                *batch["absent"].flatten().to_pylist(),
                *(pair[0] for row in batch["invalid"].to_pylist() for pair in row),
            ]
            assert {name.partition(".")[2] for name in names} <= {kept}
            assert isinstance(batch, pa.RecordBatch)
