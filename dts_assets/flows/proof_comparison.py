"""A snapshot compared with a scratch server's table, row by row, in shares that fit into memory.

All rows are read on both sides, so that columns are compared whose texts are not proven equal. A verification
(``flows/differing_rows.py``) compares values so, too, but only of rows that sums have found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from dts_assets.flows.compared_snapshots import (
    ColumnPairs,
    paired_columns,
    rows_that_live,
    state_of,
    stored_rows,
    unknown_values,
)
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.scratch_server import ScratchServer
from dts_assets.model.columns import Column
from dts_assets.model.differences import Differences
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.compared_rows import (
    compare_bags,
    compare_by_key,
    lake_rows,
    server_rows,
    shares,
    text_schema,
)

_ROWS_OF_SHARE = 500_000


@dataclass(frozen=True, slots=True)
class StandingTable:
    """A snapshot as it stands, its state, the columns of its table, and that table at the source."""

    table: TableId
    source: TableId
    snapshot: Table
    state: SnapshotState
    columns: Sequence[Column]


@dataclass(frozen=True, slots=True)
class TableProof:
    """The verdict on a table.

    ``keys`` are the columns by which rows were matched, none for whole rows. ``doubt`` says why columns or rows of the snapshot
    are not proven.
    """

    rows_lake: int
    rows_server: int
    differences: Differences
    columns: ColumnPairs
    keys: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def equal(self) -> bool:
        """True if nothing that was compared differs."""
        return self.differences.nothing and not (self.columns.lacking or self.columns.extra)

    @property
    def whole(self) -> bool:
        """True if no column and no value was left out."""
        return not (self.columns.left_out or self.differences.unfit or self.differences.unknown)


def standing_table(
    pipeline: Pipeline, table: TableId, source: TableId, columns: Sequence[Column]
) -> StandingTable | None:
    """Return a snapshot as it stands now; None if nothing was ever committed to it."""
    snapshot = pipeline.lake.table(pipeline.table_path(SNAPSHOT.name, table))
    state = None if snapshot is None else state_of(snapshot)
    if snapshot is None or state is None:
        return None
    return StandingTable(table, source, snapshot, state, columns)


def compare_table(pipeline: Pipeline, server: ScratchServer, one: StandingTable) -> TableProof:
    """Compare a snapshot with the server's table of that name.

    A table that the server does not have is empty there.

    Raises:
        StatementRefused: The server refused to read its table.
        ScratchServerError: The connection is lost.
    """
    theirs = server.columns(one.source)
    pairs = paired_columns(pipeline, one.table, one.snapshot, one.columns, theirs)
    columns, doubt = pairs.same, one.state.doubt
    keys = tuple(column.name for column in columns if column.server.is_key)
    if len(keys) < sum(column.is_key for column in theirs):
        keys = ()
    unfilled = unknown_values(one.snapshot).keys()  # the server makes no values of its own for them
    unknown = {column.name for column in columns} if doubt else unfilled
    # Values that say nothing may be part of a row of a bag, so that equal rows would come to different shares.
    whole = not keys and (bool(unknown) or one.state.unfit)
    count = 1 if whole else 1 + stored_rows(one.snapshot) // _ROWS_OF_SHARE
    asked = [column.expression for column in columns] or ["1"]
    found = Differences()
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        schema = text_schema(columns)
        mine, others = (
            _Shares(Path(folder) / side, count, schema, keys or schema.names) for side in ("lake", "server")
        )
        mine.take(lake_rows(rows, columns) for rows in rows_that_live(one.snapshot, [c.name for c in columns]))
        if theirs:
            others.take(server_rows(rows, columns) for rows in server.rows(one.source, asked))
        for lake, at_server in zip(mine.tables(), others.tables(), strict=True):
            if keys:
                compare_by_key(lake, at_server, keys, found, unknown=unknown, unfilled=unfilled)
            else:
                compare_bags(lake, at_server, found, unknown=unknown, unfilled=unfilled)
    return TableProof(mine.rows, others.rows, found, pairs, keys, doubt)


@dataclass(slots=True)
class _Shares:
    """Rows dealt out to files by some columns; one share stays in memory."""

    folder: Path
    count: int
    schema: pa.Schema
    shared_by: Sequence[str]
    rows: int = 0
    _held: list[pa.Table] = field(default_factory=list)
    _writers: dict[int, pa.ipc.RecordBatchFileWriter] = field(default_factory=dict)

    def take(self, parts: Iterable[pa.Table]) -> None:
        """Deal rows out to the shares that they belong to."""
        for rows in parts:
            self.rows += rows.num_rows
            if self.count == 1:
                self._held.append(rows)
                continue
            self.folder.mkdir(exist_ok=True)
            numbers = shares(rows, self.shared_by, self.count)
            for number in np.unique(numbers).tolist():
                if number not in self._writers:
                    self._writers[number] = pa.ipc.new_file(str(self.folder / f"{number}.arrow"), self.schema)
                self._writers[number].write_table(rows.filter(pa.array(numbers == number)))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each share."""
        if self.count == 1:
            yield pa.concat_tables(chain([self.schema.empty_table()], self._held))
            return
        for writer in self._writers.values():
            writer.close()
        for number in range(self.count):
            path = self.folder / f"{number}.arrow"
            yield pa.ipc.open_file(str(path)).read_all() if path.exists() else self.schema.empty_table()
