"""Rules on columns and rows: many changes, long texts, and patterns that other engines take long for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa

from dts_assets.model.column_rules import ColumnRule, RuleKind, TableRules, no_rule, table_rules
from dts_assets.model.columns import Column
from dts_assets.model.filter_names import FilterSince
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.column_rules import apply_rules
from dts_assets.stages.filter_eras import by_era
from dts_assets.stages.reached_tables import Reached, reached_rule, reached_tables
from dts_assets.stages.stored_rules import with_rules
from dts_assets.wire.ddl.effects import Effect
from dts_assets.wire.ddl.reading import effects_of
from tests.growth.long_histories import Case
from tests.stages.judged_worlds import FILTERS, changelogs, minimal
from tests.stages.merging import SHAPE, merged, stored
from tests.stages.minimal_worlds import MOVES, Minimal
from tests.stages.ruled import KEY, NULLS, UNFIT, Change, batch_of, changes_of, rules_of

PATTERN = ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="(a+)+b|[0-9]+", keep_last=1)
NOTES = (Column("id", "int", is_key=True), Column("note", "string", is_key=False))


def _rules(filter_text: str) -> TableRules:
    found = table_rules(NOTES, {"note": PATTERN}.get, filter_of(filter_text))
    assert found is not None
    return found


def _changes(count: int) -> pa.RecordBatch:
    """Changes that come into the filter, leave it, and have values that do not fit."""
    rows = []
    for number in range(count):
        one = {
            **NULLS,
            "id": number,
            "region": ("eu", "us")[number % 2],
            "email": f"{number}@b",
            "card": f"{number}1111",
        }
        other = {**one, "region": ("us", "eu", "eu")[number % 3], "note": UNFIT if number % 5 == 0 else "n"}
        rows.append(Change("update", one, other))
    return batch_of(rows, rules_of().decoded)


def _notes(texts: list[str]) -> pa.RecordBatch:
    return batch_of([Change("insert", None, {"id": 1, "note": text}) for text in texts], NOTES)


def _open_changes(count: int) -> list[pa.RecordBatch]:
    """Changes of minimal images, many of them at few keys."""
    world = Minimal(1, Random(3))
    world.live(count // 10, MOVES)  # type: ignore[arg-type]
    return changelogs(minimal(world.changes), FILTERS[2].rules)


def _judge(changes: list[pa.RecordBatch]) -> object:
    return merged(stored([]), changes, shape=replace(SHAPE, judged=FILTERS[2].stored), fold_absent=True, shares=3)


def _under(filter_text: str) -> Callable[[pa.RecordBatch], object]:
    return lambda batch: apply_rules(changes_of(batch), _rules(filter_text))


def _by_era(batch: pa.RecordBatch) -> object:
    changes, count = changes_of(batch), batch.num_rows
    places = {"lineage": pa.array([0] * count, pa.int32()), "position": pa.array(range(count), pa.int64())}
    entries = pa.RecordBatch.from_pydict({**places, "file_name": pa.array(["binlog.000001"] * count)})
    changes = replace(changes, batch=changes.batch.set_column(0, "entry_index", pa.array(range(count), pa.int32())))
    filters = [filter_of("region = 'eu'"), filter_of("note = 'eu'")]
    eras = [FilterSince(SourcePosition(0, 1, count * part // 3), filters[part % 2]) for part in range(3)]
    rules = table_rules(rules_of().decoded, no_rule, filters[0], eras={None: eras})
    return [len(some.batch) for some, _, _ in by_era(changes, entries, rules, changes.table)]


def _statements(count: int) -> list[tuple[Effect, ...]]:
    """Tables that are rotated, and copies of gh-ost that take their place."""
    swap = effects_of("RENAME TABLE t TO _t_del, _t_gho TO t", "d").effects
    rotated = effects_of("RENAME TABLE l2 TO l3, l1 TO l2, l TO l1", "d").effects
    changed = effects_of("ALTER TABLE t CHANGE a b INT, CHANGE b a INT, DROP COLUMN c", "d").effects
    return [swap, rotated, changed] * count


def _stored(count: int) -> pa.RecordBatch:
    image = pa.array([{"id": number, "email": f"{number}@b"} for number in range(count)])
    invalid = pa.array([[("after.email", "?")] if number % 5 == 0 else [] for number in range(count)], MAP)
    return pa.RecordBatch.from_pydict({"before": image, "after": image, "invalid": invalid})


MAP = pa.map_(pa.string(), pa.string())

RULE_STEPS: dict[str, Case] = {
    "statements that move rows": (_statements, reached_tables),
    "tables that rows reach": (
        lambda count: [(Reached(TableId("d", "", f"t{number}")), {"email": PATTERN}.get) for number in range(count)],
        lambda reached: reached_rule(reached, "email"),
    ),
    "stored rows under a rule": (_stored, lambda rows: with_rules(rows, {"email": PATTERN}, spares=True)),
    "changes under rules": (_changes, lambda batch: apply_rules(changes_of(batch), rules_of())),
    "changes by the eras of a filter": (_changes, _by_era),
    "changes that a merge judges": (_open_changes, _judge),
    "texts that match often": (lambda count: _notes(["1 2 3 aab"] * count), _under("note IS NOT NULL")),
    "one long text that matches often": (lambda count: _notes(["1a" * count]), _under("note LIKE '%1%a%'")),
    "one long text that nearly matches": (lambda count: _notes(["a" * count]), _under("note LIKE '%a%a%a%a%b'")),
}
