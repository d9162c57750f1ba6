"""A snapshot compared with a table of a server, row by row, in shares that fit into memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.scratch_server import ScratchServer
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, UNKNOWN_PROPERTY
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import rule_on
from dts_assets.model.columns import Column
from dts_assets.model.server_tables import ServerColumn
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.compared_rows import Differences, compare_bags, compare_by_key, shares
from dts_assets.stages.compared_values import of_lake, of_server, server_text, unfit
from dts_assets.stages.snapshot_in_arrow import text_of
from dts_assets.store.columns import flat_name

_ROWS_OF_SHARE = 500_000
_INVALID = "_invalid"
_TEXTS = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class StandingTable:
    """A snapshot as it stands: the Iceberg table and snapshot, its state, and its table at the source.

    ``columns`` are the source's names of the columns of the lake. ``unknown`` are columns of which some values are known to
    nobody, and ``left_out`` columns that say nothing here, with the reason.
    """

    table: TableId
    source: TableId
    iceberg: Table
    snapshot_id: int
    state: SnapshotState
    columns: Mapping[str, str]
    unknown: frozenset[str]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableProof:
    """The verdict on a table.

    ``lacking`` are columns that the server alone has, ``extra`` those that the lake alone has. ``left_out`` are columns that were
    not compared, with the reason. ``doubt`` says why columns or rows of the snapshot are not proven.
    """

    rows_lake: int
    rows_server: int
    differences: Differences
    keys: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""

    @property
    def equal(self) -> bool:
        """True if nothing that was compared differs."""
        return self.differences.nothing and not (self.lacking or self.extra)

    @property
    def whole(self) -> bool:
        """True if no column and no value was left out."""
        return not (self.left_out or self.differences.unfit or self.differences.unknown)


def standing_table(
    pipeline: Pipeline, table: TableId, source: TableId, columns: Sequence[Column]
) -> StandingTable | None:
    """Return a snapshot as it stands now; None if nothing was ever committed to it."""
    iceberg = pipeline.lake.table(pipeline.table_path(SNAPSHOT.name, table))
    head = None if iceberg is None else iceberg.current_snapshot()
    told = head.summary.additional_properties.get(STATE_PROPERTY) if head is not None and head.summary else None
    if iceberg is None or head is None or told is None:
        return None
    state, left_out = SnapshotState.of_text(told), dict[str, str]()
    names: dict[str, str] = {}
    if state.present is None:
        names = {flat_name(one.name): one.source_names[0] for one in columns}
    else:
        for one in state.present.columns:
            names[one.name] = one.source
            if one.place:
                left_out[one.name] = "the policy for schema changes decides about it"
    rule_of = pipeline.settings.rule_finder(table)
    by_name = {flat_name(one.name): one for one in columns}
    for name in names:
        column = by_name.get(name, Column(names[name], "string", is_key=False))
        if rule_on(column, rule_of) is not None:
            left_out[name] = "a rule changes its values"
    there = {one.name for one in iceberg.schema().fields}
    names = {name: original for name, original in names.items() if name in there}
    unknown = frozenset(
        name
        for one in iceberg.snapshots()
        if one.summary is not None
        for name in json.loads(one.summary.additional_properties.get(UNKNOWN_PROPERTY, "{}"))
    )
    return StandingTable(table, source, iceberg, head.snapshot_id, state, names, unknown, left_out)


def compare_table(pipeline: Pipeline, server: ScratchServer, one: StandingTable) -> TableProof:
    """Compare a snapshot with the server's table of that name.

    A table that the server does not have is empty there.

    Raises:
        StatementRefused: The server refused to read its table.
        ScratchServerError: The connection is lost.
    """
    theirs = {column.name: column for column in server.columns(one.source)}
    doubt = "" if one.state.present is None else one.state.present.doubt
    paired = _paired(one, theirs)
    rule_of = pipeline.settings.rule_finder(one.table)
    dropped = {name for name in theirs if rule_of(name) is not None}
    lacking = tuple(
        name for name in theirs if name not in {other.name for other in paired.values()} and name not in dropped
    )
    extra = tuple(name for name in one.columns if name not in paired and name not in one.left_out) if theirs else ()
    left_out = {name: reason for name, reason in one.left_out.items() if name in one.columns}
    left_out |= dict.fromkeys(dropped - {other.name for other in paired.values()}, "a rule drops it")
    used = {name: column for name, column in paired.items() if name not in left_out}
    keys = tuple(name for name, column in used.items() if column.is_key)
    by_key = bool(keys) and len(keys) == sum(column.is_key for column in theirs.values())
    unknown = frozenset(used) if doubt else one.unknown
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        sides = _Sides(one, server, used, Path(folder), keys if by_key else tuple(used), bool(theirs))
        found = sides.compare(by_key=by_key, unknown=unknown)
    return TableProof(
        sides.rows_lake, sides.rows_server, found, keys if by_key else (), lacking, extra, left_out, doubt
    )


def _paired(one: StandingTable, theirs: Mapping[str, ServerColumn]) -> dict[str, ServerColumn]:
    """Return the server's column for each of the lake's; names differ in case at most."""
    by_case = {name.lower(): column for name, column in theirs.items()}
    found = {name: theirs.get(original, by_case.get(original.lower())) for name, original in one.columns.items()}
    return {name: column for name, column in found.items() if column is not None}


@dataclass(slots=True)
class _Sides:
    """The rows of both sides, in the common form and dealt out to shares."""

    one: StandingTable
    server: ScratchServer
    columns: Mapping[str, ServerColumn]
    folder: Path
    shared_by: Sequence[str]
    is_there: bool
    rows_lake: int = 0
    rows_server: int = 0

    def compare(self, *, by_key: bool, unknown: frozenset[str]) -> Differences:
        """Return what differs."""
        # Values that say nothing may be part of a row of a bag, so that equal rows would come to different shares.
        whole = not by_key and (bool(unknown) or self.one.state.unfit)
        count = 1 if whole else 1 + self._told_rows() // _ROWS_OF_SHARE
        mine = _Shares(self.folder / "lake", count, tuple(self.columns), self.shared_by)
        theirs = _Shares(self.folder / "server", count, tuple(self.columns), self.shared_by)
        for rows in self._lake():
            self.rows_lake += rows.num_rows
            mine.add(rows)
        for rows in self._server() if self.is_there else ():
            self.rows_server += rows.num_rows
            theirs.add(rows)
        found = Differences()
        for lake, server in zip(mine.tables(), theirs.tables(), strict=True):
            if not self.columns:
                found.only_lake += max(0, lake.num_rows - server.num_rows)
                found.only_server += max(0, server.num_rows - lake.num_rows)
            elif by_key:
                compare_by_key(lake, server, self.shared_by, found, unknown=unknown)
            else:
                compare_bags(lake, server, found, unknown=unknown)
        return found

    def _told_rows(self) -> int:
        head = self.one.iceberg.snapshot_by_id(self.one.snapshot_id)
        told = None if head is None or head.summary is None else head.summary.additional_properties.get("total-records")
        return int(told or 0)

    def _lake(self) -> Iterator[pa.Table]:
        """Yield the rows that live, in the common form."""
        iceberg = self.one.iceberg
        there = {field.name for field in iceberg.schema().fields}
        beside = [name for name in (_INVALID, DELETED_AT) if name in there]
        scan = iceberg.scan(selected_fields=(*self.columns, *beside), snapshot_id=self.one.snapshot_id)
        for batch in scan.to_arrow_batch_reader():
            rows = pa.table(batch)
            if DELETED_AT in beside:
                rows = rows.filter(rows[DELETED_AT].is_null())
            for part in rows.combine_chunks().to_batches():
                made = [self._lake_texts(part, name, column.type) for name, column in self.columns.items()]
                yield _table(made, tuple(self.columns), part.num_rows)

    def _lake_texts(self, rows: pa.RecordBatch, name: str, kind: str) -> pa.Array:
        values = rows.column(name)
        texts = of_lake(values, kind)
        if _INVALID not in rows.schema.names or rows.column(_INVALID).null_count == rows.num_rows:
            return texts
        return pc.coalesce(texts, unfit(text_of(rows.column(_INVALID).cast(_TEXTS), [name]), values.type, kind))

    def _server(self) -> Iterator[pa.Table]:
        """Yield the rows of the server, in the common form."""
        kinds = {field.name: field.type for field in self.one.iceberg.schema().as_arrow()}
        asked = [server_text(column.name, column.type, kinds[name]) for name, column in self.columns.items()]
        for rows in self.server.rows(self.one.source, asked or ["1"]):
            columns = list(zip(*rows, strict=True))
            made = [
                of_server(pa.array(texts, pa.string()), kinds[name], column.type)
                for texts, (name, column) in zip(columns, self.columns.items(), strict=False)
            ]
            yield _table(made, tuple(self.columns), len(rows))


def _table(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.Table:
    if not names:
        return pa.table({"": pa.nulls(rows, pa.string())})
    return pa.table([column.cast(pa.string()) for column in columns], names=list(names))


@dataclass(slots=True)
class _Shares:
    """Rows dealt out to files by some columns; one share stays in memory."""

    folder: Path
    count: int
    names: Sequence[str]
    shared_by: Sequence[str]
    _held: list[pa.Table] = field(default_factory=list)
    _writers: dict[int, pa.ipc.RecordBatchFileWriter] = field(default_factory=dict)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self.names or ("",)])

    def add(self, rows: pa.Table) -> None:
        """Add rows to the shares that they belong to."""
        if self.count == 1:
            self._held.append(rows)
            return
        self.folder.mkdir(exist_ok=True)
        numbers = shares(rows, self.shared_by, self.count)
        for number in np.unique(numbers).tolist():
            if number not in self._writers:
                self._writers[number] = pa.ipc.new_file(str(self.folder / f"{number}.arrow"), self._schema)
            self._writers[number].write_table(rows.filter(pa.array(numbers == number)))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each share."""
        if self.count == 1:
            yield pa.concat_tables(chain([self._schema.empty_table()], self._held))
            return
        for writer in self._writers.values():
            writer.close()
        for number in range(self.count):
            path = self.folder / f"{number}.arrow"
            yield pa.ipc.open_file(str(path)).read_all() if path.exists() else self._schema.empty_table()
