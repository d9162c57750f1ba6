"""Changes of tables without a key that may mean several different rows: rows of ``quarantine``.

A snapshot's state has a digest of those of its table. Where the quarantine has another one, a run was interrupted between the
two: then all rows of the snapshot are made anew, and the changes are found again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.model.columns import Column, has_key
from dts_assets.model.ledger_rows import Cut, QuarantineRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.judgements import corrected_marks, names_ambiguous
from dts_assets.stages.quarantine import Unusable, quarantine_rows
from dts_assets.stages.row_places import POSITION
from dts_assets.store.files import TableWriter
from dts_assets.store.stored_files import StoredFile

STAGE = "snapshot"
"""The stage of changes that a snapshot did not apply."""

_MODULUS = 1 << 64
_PLACE = attrgetter("kafka_partition", "window_start", "table")


def ambiguous_by_window(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]], marks: Iterable[Cut]
) -> Mapping[datetime, int]:
    """Return how many changes of windows snapshots did not apply, by window start.

    The list of quarantine's files has it. ``tables`` are all known tables. Nothing is read if each has a key, and none of
    the stored ``marks`` names such changes.
    """
    found = Counter[datetime]()
    may_be = not all(map(has_key, tables.values())) or any(map(names_ambiguous, marks))
    for file in _files(pipeline) if may_be else ():
        found[file.partition["window_start"]] += file.rows
    return found


def corrected_marks_of_others(
    pipeline: Pipeline,
    stored: Mapping[datetime, Cut],
    before: Mapping[datetime, int],
    now: Mapping[datetime, int],
    *,
    without: Collection[Window],
) -> tuple[Cut, ...]:
    """Return the marks of windows of changes that snapshots have applied, corrected where another number is ambiguous now.

    ``before`` and ``now`` have these numbers, by window start. Marks of windows ``without`` are left out.
    """
    missing = [pipeline.grid.of_start(start) for start in sorted({*before, *now}.difference(stored))]
    marks = [*stored.values(), *(pipeline.ledger.cuts(missing) if missing else ())]
    return corrected_marks(marks, now, without=without)


def noted_by_table(pipeline: Pipeline) -> Mapping[str, int]:
    """Return digests of the changes that snapshots did not apply, by the name of the table."""
    found: dict[str, list[QuarantineRow]] = {}
    for row in _stored(pipeline):
        found.setdefault(str(row.table), []).append(row)
    return {table: _digest(rows) for table, rows in found.items()}


def with_more(noted: int, table: TableId, found: Iterable[pa.RecordBatch]) -> int:
    """Return the digest of a table's changes that were noted before, and of those found now.

    It is 0 without a change, and does not depend on their order.
    """
    return (noted + _digest([row for batch in found for row in _rows(table, batch)])) % _MODULUS


def write_ambiguous(
    pipeline: Pipeline, jobs: Iterable[SnapshotJob], found: Mapping[TableId, Sequence[pa.RecordBatch]]
) -> None:
    """Write the changes of some tables that were found; ``jobs`` are those of committed snapshots.

    Of a table whose rows were made anew they take the place of all others.
    """
    jobs = list(jobs)
    anew = {str(job.table) for job in jobs if job.plan.rebuilds}
    new = [row for job in jobs for batch in found.get(job.table, ()) for row in _rows(job.table, batch)]
    stored = _stored(pipeline) if anew or new else []
    left = [row for row in stored if row.table not in anew]
    if not new and len(left) == len(stored):
        return
    path = pipeline.path("quarantine")
    target = pipeline.lake.target(path, pipeline.new_run())
    with TableWriter(target) as writer:
        for _, some in groupby(sorted([*left, *new], key=_PLACE), _PLACE):
            writer.write(_batch(list(some)))
        files = writer.close()
    pipeline.lake.replace(path, {"stage": {STAGE}}, files)


def _stored(pipeline: Pipeline) -> list[QuarantineRow]:
    """Return the rows of the stage. Nothing is read where there is no file of it."""
    return [row for row in pipeline.ledger.quarantine() if row.stage == STAGE] if _files(pipeline) else []


def _files(pipeline: Pipeline) -> list[StoredFile]:
    return pipeline.lake.data_files(pipeline.path("quarantine"), {"stage": {STAGE}})


def _rows(table: TableId, changes: pa.RecordBatch) -> list[QuarantineRow]:
    return [_row(table, one) for one in changes.to_pylist()]


def _digest(rows: Iterable[QuarantineRow]) -> int:
    return sum(_number(row) for row in rows) % _MODULUS


def _number(row: QuarantineRow) -> int:
    """Return a number for a row, which is never 0."""
    told = f"{row.kafka_partition} {row.window_start.timestamp():.6f} {row.first_offset} {row.detail}"
    return int.from_bytes(blake2b(told.encode(), digest_size=8).digest()) or 1


def _row(table: TableId, change: Mapping[str, Any]) -> QuarantineRow:
    place = SourcePosition(*(change[name] for name in POSITION))
    operation = "DELETE" if change["removes"] else "UPDATE"
    detail = f"{table}: several rows that differ have the columns that the {operation} at {place} sends of its row"
    offset = change["offset"]
    return QuarantineRow(
        change["kafka_partition"],
        change["window_start"],
        STAGE,
        offset,
        offset,
        Reason.AMBIGUOUS,
        detail,
        None,
        str(table),
    )


def _batch(rows: Sequence[QuarantineRow]) -> pa.RecordBatch:
    first = rows[0]
    found = [Unusable(row.first_offset or 0, row.last_offset or 0, row.reason, row.detail, None) for row in rows]
    tables = [row.table for row in rows]
    return quarantine_rows(
        found, kafka_partition=first.kafka_partition, window_start=first.window_start, stage=STAGE, tables=tables
    )
