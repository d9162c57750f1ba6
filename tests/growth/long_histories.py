"""The decisions of planning over ledgers of many windows and lists of many things: what is given, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.delivery import CellDelivery
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import EMPTY_FRONTIER, Consistency, Frontier
from dts_assets.model.ledger_rows import Cut, IngestWindow, Lease, PausedBy, PausedTable, RawWindow, SettledDay
from dts_assets.model.lineages import Doubt
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.refreshes import Refresh
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid, day_of
from dts_assets.planning.adjoining_cells import excused, joined, seam
from dts_assets.planning.appends import can_append_entries, find_appends, open_windows, tables_as_stored
from dts_assets.planning.boundaries import PlannedCell, closed_windows, instants_to_find, plan_cells
from dts_assets.planning.column_names import ColumnNames, named_columns
from dts_assets.planning.column_types import column_types, converted_columns, converted_in_windows
from dts_assets.planning.compactions import FileShape, files_to_compact
from dts_assets.planning.completeness import completeness_of_cell, completeness_of_window, gtids_by_shard, level_of_cell
from dts_assets.planning.cuts import cut_of_window, frontier, frontier_of_table, window_cut
from dts_assets.planning.earlier_cells import find_earlier_cells
from dts_assets.planning.group_offsets import offset_to_commit
from dts_assets.planning.ingest_marks import Decoded, entries_mark, raw_mark
from dts_assets.planning.judgements import group_by_window, judge_window, unbalanced_tables
from dts_assets.planning.latches import Failure, Trouble, latch_after
from dts_assets.planning.leases import Observed, given_back, renewed, taken, wanted
from dts_assets.planning.loss import LossState, OldestSeen, unread_ranges, worst
from dts_assets.planning.mark_changes import made_meanwhile
from dts_assets.planning.open_sets import disagreeing, left_open_by, open_before, with_windows_before
from dts_assets.planning.pauses import (
    Fault,
    catches_up,
    lacking_from_now_on,
    new_pauses,
    pauses_of,
    removed,
    resumed_inputs,
    shared_fault,
    standings,
    windows_lacking,
    with_missing,
)
from dts_assets.planning.proofs import NOTHING_PROVEN, prove_windows
from dts_assets.planning.raw_reads import plan_read, problems_of_read
from dts_assets.planning.rectangles import rectangles, window_runs
from dts_assets.planning.redriven import entries_to_redrive, quarantined_cells, tables_to_redrive
from dts_assets.planning.replaced_windows import replaced_windows
from dts_assets.planning.settled_days import (
    begin_of_look,
    day_key,
    days_referred_to,
    is_whole,
    rests_on_tables,
    still_settled,
    tables_lacking,
    windows_of_day,
    windows_referred_to,
    with_days,
)
from dts_assets.planning.settled_ids import NO_IDS, ids_after, ids_reach_back
from dts_assets.planning.settled_past import NO_PAST, Past, past_after, reaches_back
from dts_assets.planning.snapshot_plans import (
    EMPTY_STATE,
    Chain,
    SnapshotState,
    plan_snapshot,
    windows_by_table,
)
from dts_assets.planning.staleness import changed_inputs, entries_sources, stale_entries, tables_inputs
from dts_assets.planning.task_shares import shared_files
from dts_assets.planning.ticks import Cursor, ingest_tick, tables_tick
from dts_assets.planning.topic_lineages import find_lineages
from dts_assets.planning.topic_marks import TopicHistory, TopicMarks, digest_of_tables, proven_anew, same_rows
from dts_assets.planning.watching import WatchCursor, watch_tick
from dts_assets.planning.work import plan_work
from tests.growth.ledgers import (
    CLOSING,
    GRID,
    MINUTE,
    START,
    TABLE,
    at,
    cells,
    counts,
    cuts,
    delivered,
    leases,
    left_open,
    marks,
    planned,
    quarantined,
    raws,
    read_in_parts,
    two_partitions,
    windows,
    with_ids,
)
from tests.ledger_rows import cut_row, ingest_row, raw_row

Given: TypeAlias = Any
Case: TypeAlias = tuple[Callable[[int], Given], Callable[[Given], object]]
"""What makes so many things, and what is done with them."""


def topic(rows: dict[Cell, IngestWindow], order: ChangeOrder = ChangeOrder.BINLOG_POSITION) -> TopicMarks:
    """What all windows tell together, and every mark."""
    found = TopicMarks.of(
        rows.values(), [TABLE], kafka_partitions=range(1), consistency=Consistency.CUT, order=order, settings="s"
    )
    for row in rows.values():
        found.mark(row.window)
    return found


def states(count: int) -> dict[str, Any]:
    stand = SnapshotState(Frontier(windows(count)[-1].start, None, at(9)), at(9), 1)
    mine = windows_by_table(counts(count))[TableId("shopdb", "", "t0")]
    return {"before": stand, "after": Frontier(windows(count)[-1].start, None, at(count)), "windows": mine}


def _plan(given: dict[Cell, IngestWindow]) -> object:
    raw, order = raws(len(given)), [cell.window for cell in given]
    work = plan_work(
        {0: order}, raw=raw, entries=given, cuts={}, decoding="d", settings="s", followed={order_last(order): True}
    )
    work = replace(work, ends={cell: 9 for cell in (*given, *work.followed)})
    work.ingest_runs(longest=24)
    work.tables_runs(longest=24)
    return ingest_tick(Cursor(), work), tables_tick(work)


def order_last(order: list[Window]) -> Cell:
    return Cell(0, GRID.at(len(order)))


def _append(rows: dict[Cell, IngestWindow]) -> object:
    stored = cuts(len(rows))
    appends = find_appends(stored.values(), stored, rows, counted=counts(len(rows)))
    made = {(row.window_start, row.kafka_partition, row.table): (row.kept, 0, 7) for row in counts(len(rows))}
    tables_as_stored(stored, made, counts(len(rows)), [TableId("shopdb", "", "t0")])
    return appends.marked(stored.values(), rows, run="r2", firsts={}, stood_at=None), open_windows(rows.values())


def _prove(given: tuple[dict[Cell, IngestWindow], list[Doubt]]) -> object:
    rows, doubts = given
    return prove_windows(rows.values(), kafka_partitions=1, synced={}, trust_gtids=True, doubts=doubts)


def _settle(rows: dict[Cell, IngestWindow]) -> object:
    """Fold all but the last of some windows, and look at the last one behind them."""
    *told, last = rows.values()
    found = topic({row.cell: row for row in told}) if told else topic(rows)
    past = past_after(
        NO_PAST, told, until=last.window.start, proofs=found.proven_behind(NOTHING_PROVEN, told), frontier=EMPTY_FRONTIER,
        lineages=found.history.lineages,
    )  # fmt: skip
    return reaches_back(past, (), [last], judged=past, lineages=find_lineages([*past.rows, last], trust_gtids=True))


def _settle_ids(given: dict[Cell, IngestWindow]) -> object:
    """The state behind all windows but the last, from which that one goes on."""
    *told, last = given.values()
    until = last.window.start
    seen = TopicHistory.of(given.values(), [], order=ChangeOrder.MESSAGE_ID).ids
    behind = ids_after(NO_IDS, told, until=until, seen=seen, comparisons=[])
    assert behind is not None
    later = TopicHistory.of([last], [], order=ChangeOrder.MESSAGE_ID, past=Past(until, ids=behind)).ids
    return ids_reach_back(behind, behind, until=until, rows=[last], seen=later)


def _settled(count: int) -> list[SettledDay]:
    return [SettledDay(day, day, (day,), "", "k", "a", b"p" if day == count - 1 else None) for day in range(count)]


def _still_settled(rows: list[SettledDay]) -> object:
    files = {row.day: ("a", "b") for row in rows}
    named = [
        replace(row, key=day_key(row.day, files, refers_to=row.refers_to, before="a", settings="s")) for row in rows
    ]
    settled = still_settled(named, files, settings="s", tables="t")
    return begin_of_look(settled, files), with_days(rows, rows)


def _whole(rows: dict[Cell, IngestWindow]) -> object:
    raw = raws(len(rows))
    return (
        is_whole(list(rows), raw, rows, cuts(len(rows)), ends={}, epoch=0),
        days_referred_to(rows.values(), GRID),
        windows_referred_to(rows.values(), GRID),
        rests_on_tables(cuts(len(rows)).values()),
        windows_of_day(day_of(START), WindowGrid(MINUTE / len(rows), START), first=START),
    )


def _paused(count: int) -> tuple[list[PausedTable], list[Cut]]:
    """As many tables that stand still as windows, one of which lacks them all."""
    since = GRID.start
    rows = [PausedTable(TableId("db", "", f"t{one}"), "", "r", PausedBy.PERSON, since) for one in range(count)]
    stored = list(cuts(count).values())
    return rows, [with_missing(stored[0], rows), *(with_missing(one, rows[:1]) for one in stored[1:])]


def _resume(given: tuple[list[PausedTable], list[Cut]]) -> object:
    (rows, stored), tables = given, {row.table for row in given[0]}
    faults = dict.fromkeys(tables, Fault("snapshot", "KeyError"))
    proven = replace(stored[0], inputs=(*stored[0].inputs, "proof:x=1"))
    found = {mark.window.start: window_cut(mark) for mark in stored}
    lacking = windows_lacking(stored)[rows[0].table]
    return (
        shared_fault(tables, faults), pauses_of(faults, since=GRID.start, first_window=None), new_pauses(rows, rows),
        resumed_inputs(stored[0], ()), catches_up(stored[0], stored[0], paused=()), same_rows(stored[0], proven, paused=tables),
        removed(tables, rows, reason="r", since=GRID.start), tables_lacking(stored), standings(tables, rows, stored),
        lacking_from_now_on(stored, [rows[0].table], reason="r", since=GRID.start),
        frontier_of_table(found, GRID, first=GRID.start, lacking=lacking),
    )  # fmt: skip


def _look(given: dict[str, Lease]) -> Observed:
    observed = Observed()
    observed.see(given.values(), 1.0)
    return observed


PLANNING: dict[str, Case] = {
    "files of a snapshot": (lambda count: [FileShape(n << 10, 100, n % 20) for n in range(count)], files_to_compact),
    "windows": (marks, topic),
    "windows with statements": (lambda count: marks(count, statements=2), topic),
    "windows behind a failover": (lambda count: marks(count, falls_every=count), topic),
    "windows of two Kafka partitions, one behind a failover": (two_partitions, topic),
    "windows of messages with ids": (with_ids, lambda rows: topic(rows, ChangeOrder.MESSAGE_ID)),
    "tables with full loads": (
        lambda count: with_ids(count, tables=True),
        lambda rows: topic(rows, ChangeOrder.MESSAGE_ID),
    ),
    "doubts": (lambda count: (marks(count), [Doubt(0, 9 * one, "d") for one in range(count)]), _prove),
    "work": (marks, _plan),
    "settled windows": (marks, _settle),
    "settled windows behind failovers": (lambda count: marks(count, falls_every=count // 2), _settle),
    "settled windows of messages with ids": (lambda count: with_ids(count, tables=True), _settle_ids),
    "settled days": (_settled, _still_settled),
    "windows of a whole day": (marks, _whole),
    "tables that are known": (lambda count: [TableId("db", "", f"t{one}") for one in range(count)], digest_of_tables),
    "marks that are appended to": (marks, _append),
    "marks that are proven anew": (cuts, lambda given: proven_anew(given.values(), given)),
    "marks made meanwhile": (cuts, lambda given: made_meanwhile({}, given, next(iter(given.values())))),
    "tables that stand still": (_paused, _resume),
    "readings of a window": (read_in_parts, lambda given: raw_mark(*given, epoch=0, run="r")),
    "parts of a window": (
        lambda count: raw_row(
            cells(1)[0], OffsetRange(0, count), refreshes=tuple(Refresh(one, "g", "r") for one in range(count))
        ),
        lambda row: plan_read(
            PlannedCell(row.cell, OffsetRange(0, row.offsets.end + 1), ClosedBy.MESSAGE, stored=True), row
        ),
    ),
    "messages of the future": (
        lambda count: list(range(count)),
        lambda skewed: problems_of_read(
            read_in_parts(1)[0], Watermark(0, 9, None, None), row_before=None, skewed=skewed
        ),
    ),
    "heads of a window": (
        raws,
        lambda rows: entries_mark(
            next(iter(rows)),
            rows,
            Decoded(9, ingest_row(next(iter(rows))).counts, CellDelivery(), heads_from=tuple(rows)),
            beyond=None,
            appends_to=None,
            decoding="d",
            run="r",
        ),
    ),
    "inputs of a window": (
        lambda count: (
            ingest_row(
                cells(1)[0], inputs=[f"raw:{cell}=g" for cell in cells(count)], closed_by=ClosedBy.OPEN, resume=b"1"
            ),
            raws(count),
        ),
        lambda given: (
            can_append_entries(given[0], given[1], decoding="d"),
            changed_inputs(given[0].inputs, entries_sources(given[1], decoding="d")),
        ),
    ),
    "stale entries": (
        marks,
        lambda rows: (
            stale_entries(rows, raws(len(rows)), decoding="d"),
            tables_inputs(windows(1)[0], range(1), rows, settings="s"),
        ),
    ),
    "open sets": (
        left_open,
        lambda rows: (
            disagreeing(rows),
            open_before(rows, left_open_by(rows)),
            with_windows_before(windows(len(rows)), raws(len(rows))),
        ),
    ),
    "empty windows": (
        lambda count: {cell: raw_row(cell) for cell in cells(count)},
        lambda rows: with_windows_before(windows(len(rows))[-1:], rows),
    ),
    "earlier cells": (
        raws,
        lambda rows: find_earlier_cells(_span(rows), rows, GRID),
    ),
    "borders of windows": (
        planned,
        lambda given: (
            instants_to_find(*given[:2]),
            plan_cells(*given[:2], found=given[2], watermarks={0: Watermark(0, 9, None, START)}, closing=CLOSING),
            closed_windows(0, windows(len(given[0])), watermark=Watermark(0, 9, None, START), closing=CLOSING),
        ),
    ),
    "frontier": (
        lambda count: {start: window_cut(row) for start, row in cuts(count).items()},
        lambda given: frontier(given, GRID, first=START),
    ),
    "Kafka partitions of a cut": (
        lambda count: [at(one) for one in range(count)],
        lambda given: cut_of_window(given, {ClosedBy.MESSAGE}, wanted=Consistency.CUT),
    ),
    "rectangles": (
        lambda count: [Cell(one % 7, GRID.at(one // 3)) for one in range(count)],
        lambda given: rectangles(given, longest=24),
    ),
    "runs of windows": (lambda count: [GRID.at(2 * one) for one in range(count)], window_runs),
    "counts of tables": (
        counts,
        lambda rows: (
            group_by_window(rows),
            unbalanced_tables(rows, dict.fromkeys(range(len(rows)), 1)),
            windows_by_table(rows),
        ),
    ),
    "tables": (lambda count: counts(count, tables=count), windows_by_table),
    "types of a column": (
        lambda count: {f"enum('{number}')": "string" for number in range(count)},
        lambda kinds: column_types("int", {**kinds, "int(11)": "int"}),
    ),
    "columns": (
        lambda count: [ColumnShape(f"c{one}", "text", False) for one in range(count)],
        lambda shape: (
            converted_columns([Column(one.name, "string", False) for one in shape]),
            converted_in_windows([Column("n", "string", False)], {GRID.at(0).start: [shape]}, [], str),
            named_columns(
                [ColumnNames(one.name, (one.name,)) for one in shape], [one.name for one in shape], ignores_case=True
            ),
            named_columns([], [one.name for one in shape], ignores_case=True),
        ),
    ),
    "windows of a snapshot": (
        states,
        lambda given: plan_snapshot(
            **given, changelog_snapshot=2, replaced=[one.window_start for one in given["windows"]]
        ),
    ),
    "files of a changelog": (
        lambda count: {one.start: frozenset({f"d/r{n}/f", f"d/r{n}/g"}) for n, one in enumerate(windows(count))},
        lambda given: replaced_windows(given, {}, state=EMPTY_STATE, chains={START: Chain("c", frozenset(("r",)))}),
    ),
    "files of tasks": (
        lambda count: {one.start: [(("f",), 9 << 20), (("g",), 1)] for one in windows(count)},
        lambda given: list(shared_files(given, cores=2)),
    ),
    "files of one window": (
        lambda count: {START: [((f"f{one}",), one) for one in range(count)]},
        lambda given: list(shared_files(given, cores=2)),
    ),
    "quarantine": (
        quarantined,
        lambda rows: (
            quarantined_cells(rows, GRID),
            entries_to_redrive(rows, GRID),
            tables_to_redrive(rows, rows, cuts(len(rows)).values()),
        ),
    ),
    "offsets of a group": (
        marks,
        lambda rows: offset_to_commit(rows.values(), start=0, committed=None, by_checkpoint=True),
    ),
    "ranges that are stored": (
        lambda count: [OffsetRange(3 * one, 3 * one + 2) for one in range(count)],
        lambda given: unread_ranges(given, start=0, high=10**9),
    ),
    "Kafka partitions of a topic": (
        lambda count: {one: OldestSeen(one, START) for one in range(count)},
        lambda given: (
            watch_tick(
                WatchCursor(),
                numbers={str(one): one for one in given},
                verdict="",
                trouble=False,
                oldest=given,
                now=START,
                looked_at=START,
            ),
            worst([LossState.SAFE] * len(given)),
        ),
    ),
    "leases": (
        leases,
        lambda given: (
            _look(given),
            taken(given, given, me="me", name="r", now=START),
            wanted(given, given, me="you", gone=lambda _: False),
            renewed(given, {part: one.name for part, one in given.items()}),
            given_back(given, {}),
        ),
    ),
    "failed runs": (
        lambda count: [
            Failure(
                f"{one}", START + one * timedelta(minutes=1), START + (one + 1) * timedelta(minutes=1), Trouble.LASTING
            )
            for one in range(count)
        ],
        lambda given: latch_after(given, changed=None, now=START + timedelta(days=10_000)),
    ),
    "shards of two cells": (
        lambda count: (delivered(0, shards=count), delivered(2, shards=count)),
        lambda given: (joined(*given), seam(*given), excused(given[0], given[1], []), gtids_by_shard(given)),
    ),
    "problems": (
        lambda count: [Problem(ProblemCode.UNKNOWN, None, None, f"{one}") for one in range(count)],
        lambda given: (
            completeness_of_cell(given),
            level_of_cell(given, delivered(0)),
            completeness_of_window([Completeness.OBSERVED] * len(given)),
            judge_window(cut_row(windows(1)[0]), unbalanced=["x"] * len(given)).sentence,
            excused(delivered(0), delivered(1), given),
        ),
    ),
}


def _span(rows: dict[Cell, RawWindow]) -> Any:
    return rectangles(rows)[0]
