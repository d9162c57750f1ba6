"""What must be true of a live pipeline once its source is quiet, whatever was done to it. Each question gives what is wrong."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.snapshots import Snapshot

from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition, file_number
from dts_assets.model.problems import Completeness
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.dump_format import dump_file
from dts_emulator.judge.moments import content_at, moment_of_gtids, moment_of_position
from dts_emulator.live.freshness_meter import Place
from dts_emulator.live.live_stack import DATABASE, SUBSCRIPTION, LiveStack

_DECODED = 60.0
"""The seconds in which a run that follows decodes what it has stored, however busy the machine is."""


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The database when the last change was made: where its binlog ended, and the folder with its content."""

    place: Place
    content: Path


def source_end(stack: LiveStack, folder: Path) -> SourceEnd:
    """Write down the database as it is now, which nobody writes to any more: the one moment that is judged."""
    place = database_place(stack)
    dump_database(stack.server, DATABASE, folder)
    assert database_place(stack) == place, "somebody still writes to the database"
    return SourceEnd(place, folder)


def catch_up(stack: LiveStack, end: SourceEnd, *, seconds: float) -> list[str]:
    """Wait until the snapshots stand where the source has ended, and no run is left to end but the one that follows."""

    def left() -> list[str]:
        return [*stuck(stack, older_than=0), *undone(stack)]

    deadline = time.monotonic() + seconds
    if stack.reach(end.place, seconds=seconds) and stack.wait_until(
        lambda: not left(), seconds=deadline - time.monotonic()
    ):
        return []
    return [f"after {seconds:.0f} s the snapshots stand at {stack.cuts.place}, the database at {end.place}", *left()]


def database_place(stack: LiveStack) -> Place:
    """Where the database's binlog ends now."""
    with stack.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone() or ("", 0)
    return file_number(str(file)), int(position)


def wrong(stack: LiveStack, folder: Path, *, end: SourceEnd | None) -> list[str]:
    """Everything that is wrong with what the lake holds; ``end`` is given where all that was ever written should be there."""
    return [*unequal(stack, folder, end=end), *incomplete(stack), *undone(stack), *repeated(stack)]


def unequal(stack: LiveStack, folder: Path, *, end: SourceEnd | None) -> Iterator[str]:
    """Snapshots that are not the database's content at the GTID set that the ledger names, nor what it was at its ``end``.

    Snapshots are taken as they stood at that cut: the pipeline may be at work on the next one.
    """
    cut = last_cut(stack)
    if cut.gtid_set is None or cut.cut is None:
        yield f"the cut of {cut.window} has no GTID set"
        return
    with content_at(stack.server, moment_of_gtids(stack.server, cut.gtid_set)) as past:
        dump_database(past, DATABASE, folder / "past")
    yield from _differing(snapshots_at(stack, cut.cut), folder / "past", f"at {cut.gtid_set}")
    if end is not None:
        if (cut.cut.file, cut.cut.position) < end.place:
            yield f"the snapshots stand at {cut.cut}, and the source ended at {end.place}"
        yield from _differing(snapshots_at(stack, None), end.content, "at the end of the source")


def unequal_as_they_stand(stack: LiveStack, folder: Path) -> Iterator[str]:
    """Snapshots that are not the database's content at the very cut that they say they stand at, whoever is at work on them.

    Tables of different cuts are judged apart. A snapshot that had to take a window whole, without a common cut, is left out.
    """
    standing: dict[SourcePosition, dict[TableId, pa.Table]] = {}
    for table in known_tables(stack.pipeline):
        path = stack.pipeline.table_path("snapshot", table)
        stored = stack.pipeline.lake.table(path)
        newest = None if stored is None else stored.current_snapshot()
        if newest is None:
            continue
        frontier = _state(newest).frontier
        if frontier.cut is not None and frontier.whole_until != frontier.window:
            rows = stack.pipeline.lake.scan(path, snapshot_id=newest.snapshot_id)
            assert rows is not None
            standing.setdefault(frontier.cut, {})[table] = rows
    for cut, snapshots in standing.items():
        with content_at(stack.server, moment_of_position(stack.server, cut.file, cut.position)) as past:
            dump_database(past, DATABASE, folder / str(cut))
        yield from _differing(snapshots, folder / str(cut), f"as they stand at {cut}", of=frozenset(snapshots))


def _differing(
    snapshots: Mapping[TableId, pa.Table], content: Path, when: str, *, of: Collection[TableId] | None = None
) -> Iterator[str]:
    if not snapshots:
        yield f"{when}: there are no snapshots"
    for verdict in differences(snapshots, content):
        if of is not None and verdict.table not in of:
            continue
        # A column that nobody has written to yet was in no change either.
        file = content / dump_file(verdict.table)
        unknown = [
            name
            for name in verdict.missing_columns
            if (column := pq.read_table(file, columns=[name])[name]).null_count < len(column)
        ]
        if verdict.differing_rows or verdict.extra_columns or unknown:
            yield f"{when}: {verdict}"


def snapshots_at(stack: LiveStack, cut: SourcePosition | None) -> dict[TableId, pa.Table]:
    """The rows of all snapshots as they stood at a cut; None: as they stand."""
    pipeline, found = stack.pipeline, dict[TableId, pa.Table]()
    for table in known_tables(pipeline):
        path = pipeline.table_path("snapshot", table)
        stored = pipeline.lake.table(path)
        if stored is None:
            continue
        chosen = [one for one in stored.metadata.snapshots if cut is None or _stands_at(one, cut)]
        if chosen:
            newest = max(chosen, key=lambda one: one.sequence_number or 0)
            rows = pipeline.lake.scan(path, snapshot_id=newest.snapshot_id)
            assert rows is not None
            found[table] = rows
    return found


def _stands_at(snapshot: Snapshot, cut: SourcePosition) -> bool:
    """Whether a commit of a snapshot table is at or before a cut."""
    reached = _state(snapshot).frontier.cut
    return reached is not None and reached <= cut


def _state(snapshot: Snapshot) -> SnapshotState:
    properties = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return SnapshotState.of_text(properties[STATE_PROPERTY])


def last_cut(stack: LiveStack) -> Cut:
    """The cut that the snapshots stand at."""
    cuts = [row for row in stack.pipeline.ledger.cuts() if row.cut is not None]
    return max(cuts, key=lambda row: (row.cut, row.window))


def incomplete(stack: LiveStack) -> Iterator[str]:
    """Holes in the ledger: offsets between windows, cells without marks, sums that do not add up, levels below ``observed``."""
    ledger, pipeline = stack.pipeline.ledger, stack.pipeline
    raw = ledger.raw_windows()
    # A live run goes on: it may have stored messages that it has not decoded yet.
    stack.wait_until(lambda: {row.cell for row in raw} <= {row.cell for row in ledger.windows()}, seconds=_DECODED)
    cells = {row.cell: row for row in ledger.windows()}
    for partition in pipeline.kafka_partitions:
        mine = sorted((row for row in raw if row.kafka_partition == partition), key=lambda row: row.window)
        for before, after in itertools.pairwise(mine):
            if before.offsets.end != after.offsets.start:
                yield f"{before.cell} ends at {before.offsets.end}, {after.cell} starts at {after.offsets.start}"
        if sum(row.messages for row in mine) != sum(len(row.offsets) for row in mine):
            yield f"Kafka partition {partition} does not have a message for each of its offsets"
        yield from (f"{row.cell} is not decoded" for row in mine if row.cell not in cells)
    for cell, row in cells.items():
        if not row.counts.balanced:
            yield f"the counts of {cell} do not add up"
        if row.completeness is Completeness.INCOMPLETE:
            yield f"{cell} is incomplete: {', '.join(problem.code.value for problem in row.problems)}"
    cuts = ledger.cuts()
    yield from (
        f"{row.window} is incomplete: {', '.join(problem.code.value for problem in row.problems)}"
        for row in cuts
        if row.completeness is Completeness.INCOMPLETE
    )
    yield from (
        f"the changes of {row.table} in {row.window_start} do not add up"
        for row in ledger.window_tables()
        if not row.balanced
    )
    quarantined = Counter(row.reason.value for row in ledger.quarantine())
    if quarantined:
        yield f"in quarantine: {dict(quarantined)}"


def undone(stack: LiveStack) -> list[str]:
    """What is missing or stale, but for the windows from the last cut on: theirs may just be on its way."""
    work = find_work(stack.pipeline)
    last = max((row.window for row in stack.pipeline.ledger.cuts()), default=None)
    cells = [*work.ingest, *work.stale_entries]
    if last is None:
        return ["there is no cut"]
    return [
        *(f"{cell} has no entries, or other ones than it should" for cell in cells if cell.window < last),
        *(f"{window} has no tables, or stale ones" for window in work.tables if window < last),
    ]


def repeated(stack: LiveStack) -> Iterator[str]:
    """Messages and changes that are there twice."""
    lake, pipeline = stack.pipeline.lake, stack.pipeline
    found = lake.scan(pipeline.path("raw_envelopes"), columns=("kafka_partition", "offset"))
    assert found is not None
    messages = list(zip(*(found[name].to_pylist() for name in ("kafka_partition", "offset")), strict=True))
    if len(set(messages)) != len(messages):
        yield f"{len(messages) - len(set(messages))} messages are there twice"
    expected = sum(row.messages for row in pipeline.ledger.raw_windows())
    if len(messages) != expected:
        yield f"raw_envelopes has {len(messages)} messages, its ledger {expected}"
    for table in known_tables(pipeline):
        columns = ("source_position", "kafka_partition", "row_number", "op")
        changes = lake.scan(pipeline.table_path("changelog", table), columns=columns)
        if changes is None:
            continue
        rows = Counter(
            (*row["source_position"].values(), row["kafka_partition"], row["row_number"], row["op"] == "truncate")
            for row in changes.to_pylist()
        )
        twice = [row for row, count in rows.items() if count > 1]
        if twice:
            yield f"{table} has {len(twice)} changes twice, the first at {twice[0]}"


def repeated_deliveries(stack: LiveStack) -> int:
    """How many changes came again and were left out."""
    return sum(row.redelivered for row in stack.pipeline.ledger.window_tables())


def stuck(stack: LiveStack, *, older_than: float) -> list[str]:
    """Runs of Dagster that were asked for so many seconds ago and have not ended; of those that follow, all but one."""
    query = (
        "{ runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}) "
        "{ ... on Runs { results { runId jobName status creationTime } } } }"
    )
    runs = stack.ask(query)["runsOrError"]["results"]
    following = [run["runId"] for run in runs if run["jobName"] == f"{SUBSCRIPTION}_live"]
    found = [f"runs {', '.join(following)} follow side by side"] if len(following) > 1 else []
    return found + [
        f"run {run['runId']} of {run['jobName']} is {run['status']} since {time.time() - run['creationTime']:.0f} s"
        for run in runs
        if run["runId"] not in following and time.time() - run["creationTime"] > older_than
    ]
