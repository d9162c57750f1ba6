"""A snapshot that is compared with a server's table: its rows, its state, and its pairs of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, UNKNOWN_PROPERTY
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import rule_on
from dts_assets.model.columns import Column, same_name
from dts_assets.model.server_tables import ServerColumn
from dts_assets.model.stored_sums import SUMS_PROPERTY, StoredSums
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.compared_values import ComparedColumn
from dts_assets.store.columns import flat_name

_INVALID = "_invalid"


def rows_that_live(snapshot: Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a snapshot that are not deleted, with some columns and ``_invalid``."""
    there = {one.name for one in snapshot.schema().fields}
    wanted = [name for name in dict.fromkeys([*columns, _INVALID, DELETED_AT]) if name in there]
    for batch in snapshot.scan(selected_fields=tuple(wanted)).to_arrow_batch_reader():
        if DELETED_AT in wanted:
            batch = batch.filter(batch.column(DELETED_AT).is_null())
        if batch.num_rows:
            yield batch


def state_of(snapshot: Table) -> SnapshotState | None:
    """Return what a snapshot stands for; None where no commit of the product is its last one."""
    told = _properties(snapshot).get(STATE_PROPERTY)
    return None if told is None else SnapshotState.of_text(told)


def last_state(snapshot: Table) -> SnapshotState | None:
    """Return what a snapshot stood for by the product's last commit; others may have committed since."""
    head = snapshot.current_snapshot()
    for version in () if head is None else ancestors_of(head, snapshot.metadata):
        told = None if version.summary is None else version.summary.additional_properties.get(STATE_PROPERTY)
        if told is not None:
            return SnapshotState.of_text(told)
    return None


def version_of_others(snapshot: Table | None) -> int | None:
    """Return the Iceberg snapshot that another program has committed last.

    None stands for a table to which dts-assets has committed last, or nobody.
    """
    head = None if snapshot is None else snapshot.current_snapshot()
    return head.snapshot_id if snapshot is not None and head is not None and state_of(snapshot) is None else None


def stored_total(snapshot: Table) -> int | None:
    """Return the sum over its rows that a snapshot carries.

    None stands for a snapshot that carries none, or whose rows nobody has added up.
    """
    found = StoredSums.of_text(_properties(snapshot).get(SUMS_PROPERTY))
    return None if found is None else found.total


def stored_rows(snapshot: Table) -> int:
    """Return the number of rows in the files of a snapshot, those that are deleted among them."""
    return int(_properties(snapshot).get("total-records", 0))


def unknown_values(*tables: Table | None) -> Mapping[str, int]:
    """Return the most values of each column that some version of a snapshot counts as not known."""
    found = dict[str, int]()
    for one in tables:
        for version in () if one is None else one.snapshots():
            text = None if version.summary is None else version.summary.additional_properties.get(UNKNOWN_PROPERTY)
            for name, count in json.loads(text or "{}").items():
                found[name] = max(count, found.get(name, 0))
    return found


def _properties(snapshot: Table) -> Mapping[str, str]:
    head = snapshot.current_snapshot()
    return {} if head is None or head.summary is None else head.summary.additional_properties


@dataclass(frozen=True, slots=True)
class ColumnPairs:
    """The columns of a snapshot and of a server's table, by what they are for each other.

    ``same`` are pairs of one column, and ``left_out`` columns that say nothing here, with the reason. ``extra`` are columns that
    the lake alone has, ``lacking`` those that the server alone has.
    """

    same: tuple[ComparedColumn, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


def paired_columns(
    pipeline: Pipeline, table: TableId, snapshot: Table, columns: Sequence[Column], at_server: Sequence[ServerColumn]
) -> ColumnPairs:
    """Return how the columns of a snapshot and of a server's table belong together.

    ``columns`` are those of the table as far as they are known. A server's name differs in case from the source's at most. Where
    the server has no such table, no column is extra.
    """
    state, left_out = state_of(snapshot), dict[str, str]()
    present = None if state is None else state.present
    if present is None:
        names = {flat_name(one.name): one.source_names[0] for one in columns}
    else:
        names = {one.name: one.source for one in present.columns}
        reason = "the policy for schema changes decides about it"
        left_out = {one.name: reason for one in present.columns if one.place}
    rule_of, by_name = rule_finder(pipeline, table), {flat_name(one.name): one for one in columns}
    for name, source in names.items():
        rule = rule_on(by_name.get(name, Column(source, "string", is_key=False)), rule_of)
        if rule is not None:
            left_out[name] = f"a rule changes its values ({rule.kind.value})"
    types = {one.name: one.type for one in snapshot.schema().as_arrow() if one.name in names}
    exact, spelled = {one.name: one for one in at_server}, {same_name(one.name): one for one in at_server}
    pairs = dict[str, ServerColumn]()
    for name in types:
        other = exact.get(names[name]) or spelled.get(same_name(names[name]))
        if other is not None:
            pairs[name] = other
    alone = [one.name for one in at_server if one.name not in {other.name for other in pairs.values()}]
    dropped = {name for name in alone if rule_of(name) is not None}
    return ColumnPairs(
        same=tuple(ComparedColumn(name, types[name], one) for name, one in pairs.items() if name not in left_out),
        left_out={name: reason for name, reason in left_out.items() if name in types}
        | dict.fromkeys(sorted(dropped), "a rule drops it"),
        extra=tuple(name for name in types if at_server and name not in pairs and name not in left_out),
        lacking=tuple(name for name in alone if name not in dropped),
    )
