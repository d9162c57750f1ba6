"""The flows over a lake in memory: the product plans and marks, and what Spark and commits do is played.

Each function is a run up to its last commit. A run that is killed has taken back the marks that its files would contradict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dts_assets.errors.windows import NotReadyError
from dts_assets.flows import entries as entries_flow
from dts_assets.flows import raw as raw_flow
from dts_assets.flows import tables as tables_flow
from dts_assets.flows.ingest_tasks import EntriesResult, RawResult
from dts_assets.flows.layers import EVERYTHING
from dts_assets.flows.message_retention import remove_old_rows
from dts_assets.flows.pauses import pause_tables
from dts_assets.flows.removed_rows import refuse_removed_messages, refuse_tables_again
from dts_assets.flows.settling import settle_days
from dts_assets.flows.tables_commit import Written
from dts_assets.flows.tables_plan import plan_tables
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.turns import NOBODY
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.cuts import not_behind
from dts_assets.planning.ingest_marks import Copied, CopiedPart
from dts_assets.planning.mark_changes import contradicts
from dts_assets.planning.pauses import Fault
from dts_assets.planning.raw_reads import RawRead, is_gone, plan_read
from dts_assets.planning.staleness import generation
from tests.year.decoding import Earlier, decode
from tests.year.lake import MemoryPipeline
from tests.year.topic import Message, TopicSource


class KilledError(Exception):
    """A process that was killed."""


Kill = Callable[[], None]
"""Called where marks have been taken back and nothing is committed yet; it may raise KilledError."""


def store_raw(pipeline: MemoryPipeline, span: Span, *, kill: Kill) -> None:
    """The first flow: messages of a span, from the topic into the lake."""
    memory, source = pipeline.memory, pipeline.source
    refuse_removed_messages(pipeline, pipeline.unmakeable().removed, span.cells())
    assert isinstance(source, TopicSource)
    stored = {row.cell: row for row in memory.raw_windows() if row.kafka_partition in span.kafka_partitions}
    watermarks = source.watermarks()
    raw_flow.refuse_other_topic(pipeline, stored.values(), watermarks)
    planned = raw_flow._plan(pipeline, span, stored.values(), watermarks)
    reads = [
        plan_read(plan, stored.get(plan.cell))
        for plan in planned
        if not is_gone(plan, watermarks[plan.cell.kafka_partition])
    ]
    content = {one.plan.cell: _copied(one, source, watermarks) for one in reads}
    results = {cell: RawResult(cell, (), copied) for cell, (copied, _) in content.items()}
    rows = raw_flow._marks(pipeline, reads, results, stored, watermarks, pipeline.new_run())
    replaced = [one.plan.cell for one in reads if one.appends_to is None and one.plan.cell in stored]
    memory.replace_raw([cell for cell in replaced if contradicts(stored[cell], rows[cell])], {})
    kill()
    for one in reads:
        before = memory.messages[one.plan.cell] if one.appends_to is not None else []
        memory.messages[one.plan.cell] = [*before, *content[one.plan.cell][1]]
    memory.replace_raw(rows, rows)
    pipeline.first_window()


def _copied(read: RawRead, source: TopicSource, watermarks: Mapping[int, Any]) -> tuple[Copied, list[Message]]:
    partition = read.plan.cell.kafka_partition
    messages = source.messages(partition, read.still_there(watermarks[partition]))
    parts = []
    for part in read.parts:
        mine = [one for one in messages if part.start <= one.offset < part.end]
        parts.append(CopiedPart(part, len(mine), generation([str(one.offset) for one in mine], code_version="")))
    times = [one.time for one in messages]
    return Copied(tuple(parts), 0, min(times, default=None), max(times, default=None)), messages


def store_entries(pipeline: MemoryPipeline, span: Span, *, kill: Kill) -> None:
    """The second flow: stored messages of a span, joined and decoded."""
    memory = pipeline.memory
    refuse_removed_messages(pipeline, pipeline.unmakeable().removed, span.cells())
    plan = entries_flow._plan(pipeline, span, pipeline.unmakeable(), _unheard)
    results = _decoded_cells(pipeline, plan)
    if plan.lacks_heads(results):
        plan = entries_flow._plan(pipeline, span, pipeline.unmakeable(), _unheard, with_settled=True)
        results = _decoded_cells(pipeline, plan)
    rows = plan.marks(results, pipeline.new_run())
    memory.replace_entries(
        [cell for cell, row in plan.stored.items() if cell not in plan.appends and contradicts(row, rows[cell])], {}
    )
    kill()
    for row in rows.values():
        assert row.counts.balanced, f"the decoding that is played does not add up: {row.counts}"
    memory.replace_entries(rows, rows)


def _decoded_cells(pipeline: MemoryPipeline, plan: entries_flow._Plan) -> dict[Cell, EntriesResult]:
    """The cells of a run, again where they took over other sets than the cells before them leave."""
    lows = {number: mark.low for number, mark in pipeline.source.watermarks().items()}
    known = plan.open_before({})

    def decoded(cells: Iterable[Cell]) -> dict[Cell, EntriesResult]:
        return {cell: _decoded(pipeline.memory.messages, plan, cell, known.get(cell), lows) for cell in cells}

    results = decoded(plan.before)
    while again := entries_flow._disagreeing(plan, results):
        known = plan.open_before(results)
        results |= decoded(again)
    return results


def _decoded(
    messages: Mapping[Cell, Sequence[Message]],
    plan: entries_flow._Plan,
    cell: Cell,
    known: tuple[OpenSet, ...] | None,
    lows: Mapping[int, int],
) -> EntriesResult:
    before, row = plan.before[cell], plan.raw[cell]
    chain = before.nearest(None)
    first = plan.raw[chain[-1] if chain else cell].offsets.start
    earlier = Earlier(chain, messages, before.beyond is None or first <= lows[cell.kafka_partition])
    still_open = row.closed_by is ClosedBy.OPEN
    found = decode(row.offsets, messages[cell], earlier, known=known, still_open=still_open)
    return EntriesResult(cell, (), (), found, {}, 0, None, "", 0.0)


def make_tables(
    pipeline: MemoryPipeline, windows: Sequence[Window], *, faults: Mapping[TableId, Fault], kill: Kill
) -> datetime | None:
    """The third flow: entries of whole windows into tables; the last window of the frontier that it reaches."""
    memory = pipeline.memory
    plan = plan_tables(pipeline, sorted(windows), EVERYTHING, NOBODY, _unheard)
    cells, suspicions = pipeline.cells(plan.windows_again), plan.history.suspicions
    refuse_tables_again(
        pipeline, cells, (one for cell in cells if cell in suspicions for one in suspicions[cell].earlier)
    )
    contradicted = [
        mark.window.start
        for mark in plan.again
        if (row := plan.stored.get(mark.window.start)) is not None and contradicts(row, mark)
    ]
    memory.replace_marks(contradicted, {})
    kill()
    failing = {table: fault for table, fault in faults.items() if table not in plan.paused}
    written = Written({}, {}, {}, frozenset(), failing, {}, {}, {})
    advanced = tables_flow._advance_layers(pipeline, plan, written, frozenset(), spark=_no_spark, progress=_unheard)
    pause_tables(pipeline, advanced.failed)
    memory.reached = not_behind(advanced.reached, memory.reached)
    memory.replace_marks((), {mark.window.start: mark for mark in advanced.marks})
    kill()
    settle_days(pipeline, _unheard)
    remove_old_rows(pipeline, _unheard)
    return advanced.reached.window


def _unheard(_: str) -> None:
    """Progress that nobody reads."""


def _no_spark() -> Any:
    raise NotReadyError("shop", {}, "spark")
