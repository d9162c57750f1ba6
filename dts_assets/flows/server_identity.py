"""The look whether a database is the server of a topic, before anything is read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

import pyarrow as pa

from dts_assets.errors.databases import OtherServerError, UncheckedServerError
from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.looks import looks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removed_rows import refuse_removed_entries
from dts_assets.flows.reports import Progress
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run
from dts_assets.model.server_identity import ServerMatch, StoredEvent, TopicTrace, Verdict
from dts_assets.model.spans import Cell
from dts_assets.planning.server_identity import match_server
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.sources.server_facts import server_facts
from dts_assets.stages.entry_columns import source_positions
from dts_assets.stages.entry_lineages import entry_lineages

if TYPE_CHECKING:
    from pymysql.connections import Connection

SAID = "said to be right"
"""The words of the ledger where a person answers for a server."""

_COLUMNS = (
    "kafka_partition", "window_start", "last_offset", "shard", "event_time", "gtid", "file_name", "position", "message_type",
    "server_id",
)  # fmt: skip
_NO_EVENTS = ("CHECKPOINT", "HEARTBEAT")
_BYTES_BACK = 1 << 20
"""The part of a binlog, before its last stored event, whose entries are looked at."""

_MOST = 100


def require_server(
    pipeline: Pipeline, connection: Connection, place: DatabasePlace, *, is_right: bool, progress: Progress
) -> str:
    """Refuse a server that is not the topic's, and return how that was known, for the ledger.

    ``is_right`` is a person's word for what cannot be checked.

    Raises:
        OtherServerError: It is another server.
        UncheckedServerError: It cannot be checked, and nobody answers for it.
        DatabaseError: It refuses a question, or does not answer.
    """
    several = len({one.shard for one in pipeline.ledger.lineages()}) > 1
    if several or pipeline.settings.traits.order is not ChangeOrder.BINLOG_POSITION:
        return ""  # its messages tell no common positions, so nothing is taken from any server, and each table says why
    found = server_match(pipeline, connection, place)
    if found.verdict is Verdict.UNCHECKED:
        if not is_right:
            raise UncheckedServerError(str(place), pipeline.name, found.reason)
        progress(f"{place} is {SAID}: {found.reason}")
        return f"{SAID}: {found.reason}"
    progress(f"{place} is the server of {pipeline.name}: {found.reason}")
    return str(found.verdict)


def server_match(pipeline: Pipeline, connection: Connection, place: DatabasePlace) -> ServerMatch:
    """Return whether a server is that of the topic of a pipeline, where that can be known.

    Raises:
        OtherServerError: It is another server.
        DatabaseError: It refuses a question, or does not answer.
    """
    trace = topic_trace(pipeline)
    found = match_server(trace, server_facts(connection, place, trace))
    if found.verdict is Verdict.MISMATCHES:
        raise OtherServerError(str(place), pipeline.name, found.reason)
    return found


def topic_trace(pipeline: Pipeline) -> TopicTrace:
    """Return the end of a topic as the lake has it."""
    look = next(one for one in looks(pipeline, known_tables(pipeline)) if one.entries or one.before is None)
    history = look.topic.history
    runs = [(*_greatest(history, cell, run), cell, run) for cell, row in history.rows.items() for run in row.runs]
    if not runs:
        return TopicTrace()
    last = max(place for place, *_ in runs)
    latest = [(place, cell, run) for place, _, cell, run in runs if place.lineage == last.lineage]
    gtids = dict[str, int]()
    for _, _, run in latest if history.trusts_gtids else ():
        for one in run.servers:
            gtids[one.server] = max(gtids.get(one.server, 0), one.last)
    begins = [(one.begun, one.server) for _, _, run in latest for one in run.servers if one.begun is not None]
    writer = max(begins, default=(None, None))[1] if history.trusts_gtids else None
    window = next(cell.window for place, cell, _ in latest if place == last)
    cells = sorted({cell for _, cell, _ in latest if cell.window == window})
    events = sorted(_events(pipeline, history, cells, last), key=lambda one: one.place)[-_MOST:]
    is_by_lsn = any(run.is_by_lsn for _, _, run in latest)
    return TopicTrace((last.file, last.position), tuple(events), gtids, writer, is_by_lsn)


def _greatest(history: TopicHistory, cell: Cell, run: Run) -> tuple[SourcePosition, bool]:
    """Return the greatest position of a run with its lineage, and whether the run has one lineage alone."""
    first, lineage = history.lineages.of_run(cell.kafka_partition, run, epoch=history.rows[cell].epoch)
    return SourcePosition(lineage, run.last.file, run.last.position), first == lineage


def _events(
    pipeline: Pipeline, history: TopicHistory, cells: Sequence[Cell], last: SourcePosition
) -> Iterator[StoredEvent]:
    """Yield the events of some cells shortly before a position, in its lineage and file.

    There are none where entries have left the lake.
    """
    try:
        refuse_removed_entries(pipeline, cells, consequence="look at the server")
    except RowsRemovedError:
        return
    near = f"position >= {max(0, last.position - _BYTES_BACK)} and position <= {last.position}"
    for cell in cells:
        place = f"kafka_partition = {cell.kafka_partition} and window_start = '{cell.window.start.isoformat()}'"
        found = pipeline.lake.scan(pipeline.path("entries"), columns=_COLUMNS, where=f"{place} and {near}")
        if found is None or not found.num_rows:
            continue
        rows = pa.RecordBatch.from_pydict({name: found[name].combine_chunks() for name in _COLUMNS})
        lineages = entry_lineages(rows, history.rules(cell))
        places = source_positions(rows.append_column("lineage", pa.array(lineages))).to_pylist()
        for row, at in zip(rows.to_pylist(), places, strict=True):
            if row["message_type"] in _NO_EVENTS or (at["lineage"], at["file"]) != (last.lineage, last.file):
                continue
            time = row["event_time"]
            time = None if time is None else time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            gtid = row["gtid"] or None if history.trusts_gtids else None
            yield StoredEvent(at["file"], at["position"], row["server_id"] or 0, gtid, time)
