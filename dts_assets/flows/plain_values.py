"""Plain values in columns with a rule: they are looked for in stored tables, and replaced.

A rule that comes later leaves rows as they are whose entries have left. Earlier versions of this package left values plain that
a statement had moved. What a stored value looks like is all that is known of it then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.copied_rules import lake_table_of, rules_of_copy
from dts_assets.flows.kept_copies import keep_copies
from dts_assets.flows.known_tables import registered_columns, source_types
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.reports import Progress
from dts_assets.flows.ruled_changelogs import apply_rules_to, forget_plain_versions, note_plain_versions
from dts_assets.flows.turns import tables_turn
from dts_assets.model.collections import DOCUMENT, is_collection
from dts_assets.model.column_rules import ColumnRule, RuleKind, rule_on
from dts_assets.model.columns import Column, is_json, same_name
from dts_assets.model.lake_layers import COPIES
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.stages.document_rows import UPDATE
from dts_assets.stages.document_tokens import UntokenizableError
from dts_assets.stages.stored_rules import passed, passed_documents
from dts_assets.store.columns import flat_names


@dataclass(frozen=True, slots=True, order=True)
class PlainColumn:
    """A stored column with values that its rule has not made, and how many these are."""

    table: TableId
    layer: str
    column: str
    rule: str
    values: int


def find_plain_values(pipeline: Pipeline, tables: Collection[TableId] = ()) -> list[PlainColumn]:
    """Return the columns in which values stand that look plain.

    Without ``tables`` all are looked at. Changelogs, snapshots and histories are read, a part at a time.
    """
    found = []
    for table, rules in _rules(pipeline, tables).items():
        columns = registered_columns(pipeline)[table]
        for layer in pipeline.layers:
            is_flat = layer.by_key or layer.has_versions
            if is_flat or layer is CHANGELOG:
                count = _counted_documents if is_collection(columns) else _counted
                counts = count(pipeline, layer.name, table, columns, rules)
                found += [
                    PlainColumn(table, layer.name, name, rules[name].kind.value, n) for name, n in counts.items() if n
                ]
    return sorted([*found, *_of_copies(pipeline, tables)])


def _of_copies(pipeline: Pipeline, tables: Collection[TableId]) -> Iterator[PlainColumn]:
    """Yield the columns of copies that lack a rule, with the number of rows.

    Copies note which rules they have passed, so none is read.
    """
    known = registered_columns(pipeline)
    for one in pipeline.ledger.copied_tables():
        table = lake_table_of(pipeline, one.table)
        left = rules_of_copy(pipeline, one, known).rules if one.has_rows and (not tables or table in tables) else None
        for name, rule in sorted({} if left is None else left.columns.items()):
            yield PlainColumn(table, COPIES, name, rule.kind.value, one.rows)


def _rules(pipeline: Pipeline, tables: Collection[TableId]) -> dict[TableId, dict[str, ColumnRule]]:
    """Return the rules on columns by table and name in the lake, without tables that have none."""
    removed = {row.table for row in pipeline.ledger.paused_tables() if row.is_removed}
    found = {}
    for table, columns in registered_columns(pipeline).items():
        if table in removed or (tables and table not in tables):
            continue
        rule_of = rule_finder(pipeline, table)
        if rules := {one.name: rule for one in columns if (rule := rule_on(one, rule_of)) is not None}:
            found[table] = rules
    return found


def _counted(
    pipeline: Pipeline, layer: str, table: TableId, columns: Sequence[Column], rules: Mapping[str, ColumnRule]
) -> dict[str, int]:
    """Return the number of values of each column with a rule that look plain."""
    counts, types = dict.fromkeys(rules, 0), source_types(pipeline).get(table, {})
    of_json = {name for name in rules if is_json(types.get(name, ""))}
    names = {same_name(name): one.name for one in columns if one.name in rules for name in _stored_names(layer, one)}
    for batch in pipeline.lake.batches(pipeline.table_path(layer, table), columns=("*",)):
        for name, values in _values_of(batch, is_flat=layer != CHANGELOG.name):
            column = names.get(same_name(name))
            if column is not None:
                counts[column] += _plain(values, rules[column], is_json=column in of_json)
    return counts


def _counted_documents(
    pipeline: Pipeline, layer: str, table: TableId, columns: Sequence[Column], rules: Mapping[str, ColumnRule]
) -> dict[str, int]:
    """Return the number of documents and updates that look plain; a collection with another rule stands still.

    A document that cannot pass the rule counts as plain.
    """
    rule = rules.get(DOCUMENT)
    if rule is None or rule.kind is not RuleKind.TOKENIZE:
        return {}
    names, count = (("after", UPDATE) if layer == CHANGELOG.name else (DOCUMENT,)), 0
    for batch in pipeline.lake.batches(pipeline.table_path(layer, table), columns=names):
        for name in names:
            values = batch[name]
            try:
                looks_passed = passed_documents(values, rule, are_updates=name == UPDATE)
            except UntokenizableError:
                count += len(values) - int(values.null_count)
            else:
                count += int(pc.sum(pc.invert(looks_passed)).as_py() or 0)
    return {DOCUMENT: count}


def _stored_names(layer: str, column: Column) -> tuple[str, ...]:
    return column.lake_names if layer == CHANGELOG.name else flat_names(column)


def _values_of(batch: pa.RecordBatch, *, is_flat: bool) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns of stored rows by name, and the texts of values that did not fit."""
    if is_flat:
        yield from zip(batch.schema.names, batch.columns, strict=True)
    else:
        for side in ("before", "after"):
            image = batch[side]
            yield from ((field.name, pc.struct_field(image, [place])) for place, field in enumerate(image.type))
    unfit = "_invalid" if is_flat else "invalid"
    for texts in batch[unfit].to_pylist() if unfit in batch.schema.names else ():
        yield from ((key if is_flat else key.partition(".")[2], pa.array([text])) for key, text in texts or ())


def _plain(values: pa.Array, rule: ColumnRule, *, is_json: bool) -> int:
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return len(values) - int(values.null_count)
    return int(pc.sum(pc.invert(passed(values, rule, is_json=is_json))).as_py() or 0)


def replace_plain_values(
    pipeline: Pipeline, tables: Collection[TableId] = (), *, spark: SparkProvider, progress: Progress
) -> Mapping[TableId, Fault]:
    """Let plain values pass their rules, and return the faults of tables where they cannot.

    Without ``tables`` all are looked at. Changelogs are written anew, all layers are made from them, and earlier versions expire.
    Values that look as if a rule had made them stay. A call that was stopped half way goes on when it is made again.
    """
    everything = find_plain_values(pipeline, tables)
    found = [one for one in everything if one.layer != COPIES]
    if len(found) < len(everything):
        with tables_turn(pipeline, progress):
            keep_copies(pipeline, spark=spark, progress=progress)
    rules, columns = _rules(pipeline, {one.table for one in found}), registered_columns(pipeline)
    asked: dict[TableId, dict[str, ColumnRule]] = {}
    for one in found:
        if one.layer == CHANGELOG.name:
            asked.setdefault(one.table, {})[one.column] = rules[one.table][one.column]
    faults: Mapping[TableId, Fault] = {}
    if asked:
        with tables_turn(pipeline, progress):
            done = apply_rules_to(
                pipeline, columns, asked, spark=spark, progress=progress, note=lambda _: None, spares=True
            )
            faults = done.faults
    again = {one.table for one in found} - faults.keys()
    if again:
        note_plain_versions(pipeline, again)
        rebuild_tables(pipeline, again, RebuildFrom.CHANGELOG, spark=spark, progress=progress)
        with tables_turn(pipeline, progress):
            forget_plain_versions(pipeline, progress, tables=again)
    return faults
