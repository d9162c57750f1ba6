"""Snapshots of a lake held against the tables that a server had: names in order, lake types, rows, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.casts import arrow_type
from dts_emulator.judge.comparison import COORDINATES
from tests.dts_emulator.server_lives import Held, Moment, Row, kinds_of, one_of
from tests.flows.harness import Harness

ADDED = (*COORDINATES, DELETED_AT)


@dataclass
class Judged:
    """What differs, in words for people, and counts of what was compared."""

    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wider: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self.faults)


def faults_of(harness: Harness, moment: Moment, *, wider: Mapping[str, str] = MappingProxyType({})) -> Judged:
    """Compare all snapshots of a lake with the tables of a moment, and look for what was left out.

    ``wider`` are lake types that stand for others, because a format does not tell the difference.
    """
    found, pipeline = Judged(wider=wider), harness.pipeline
    snapshots = {table: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for table in known_tables(pipeline)}
    compare(found, {table: rows for table, rows in snapshots.items() if rows is not None}, moment.tables)
    found.faults += [f"quarantine: {row['reason']}" for row in harness.rows("quarantine")]
    found.faults += [f"paused: {row['paused']}" for row in harness.rows("cuts") if row.get("paused")]
    return found


def compare(found: Judged, snapshots: Mapping[TableId, pa.Table], tables: Mapping[TableId, Held]) -> None:
    """Note how snapshots differ from the tables of a server. One that has no row and never had one may be missing."""
    for table in sorted(tables.keys() | snapshots.keys()):
        held, snapshot = tables.get(table), snapshots.get(table)
        if snapshot is None:
            if held is not None and held.rows:
                found.faults.append(f"{table}: no snapshot, {len(held.rows)} rows at the server")
        elif held is None:
            if rows_of(snapshot, snapshot.column_names):
                found.faults.append(f"{table}: {snapshot.num_rows} rows, dropped at the server")
        else:
            _compare_table(found, table, snapshot, held)


def _compare_table(found: Judged, table: TableId, snapshot: pa.Table, held: Held) -> None:
    names = [name for name in snapshot.column_names if name not in ADDED]
    if names != list(held.schema.names):
        found.faults.append(f"{table}: columns {names}, {list(held.schema.names)} at the server")
    for name, kind in kinds_of(held.schema).items():
        told = _short(snapshot.schema.field(name).type) if name in names else None
        wanted = arrow_type(found.wider.get(kind.lake_type, kind.lake_type))
        if told is not None and told != wanted:
            found.faults.append(f"{table}.{name}: {told}, {wanted} at the server")
    found.counts["tables"] += 1
    if held.doubt:
        found.counts["doubted"] += 1
    elif sorted(names) == sorted(held.schema.names):
        _compare_rows(found, table, rows_of(snapshot, held.schema.names), held)


def _short(kind: pa.DataType) -> pa.DataType:
    """A type without the long offsets that a reader gives where there are no rows."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def rows_of(snapshot: pa.Table, names: Any) -> list[Row]:
    """The rows that live, with the source's text for values that no lake type holds."""
    shown = snapshot.to_pylist()
    return [
        tuple(one_of(row[name], dict(row.get("_invalid") or ()).get(name)) for name in names)
        for row in shown
        if row.get(DELETED_AT) is None
    ]


def _compare_rows(found: Judged, table: TableId, rows: list[Row], held: Held) -> None:
    left, names = list(rows), held.schema.names
    for row, unknown in sorted(zip(held.rows, held.unknown, strict=True), key=lambda one: len(one[1])):
        matching = [one for one in left if _is(one, row, unknown, names)]
        if not matching:
            found.faults.append(f"{table}: no row {row}{f' (not known: {sorted(unknown)})' if unknown else ''}")
            continue
        left.remove(matching[0])
        found.counts["values"] += len(names)
        found.counts["not known"] += len(unknown)
    found.faults += [f"{table}: a row too many, {row}" for row in left]


def _is(mine: Row, row: Row, unknown: frozenset[str], names: tuple[str, ...]) -> bool:
    return all(
        one == other or (one is None and name in unknown) for one, other, name in zip(mine, row, names, strict=True)
    )
