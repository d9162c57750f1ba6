"""Settled days, in whose windows nothing is left to do: runs of the tables find and store them.

Looks begin behind them (``flows/looks.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.looks import Look, look_from, past_of, pasts_of, paused_now, settled_now, stands_alone
from dts_assets.flows.partial_images import judging_settings
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import SettledDay
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, start_of_day
from dts_assets.planning.cuts import frontier, window_cut
from dts_assets.planning.settled_days import (
    Begin,
    begin_of_look,
    day_key,
    days_referred_to,
    is_whole,
    rests_on_tables,
    tables_lacking,
    windows_of_day,
    with_days,
)
from dts_assets.planning.settled_ids import ids_after
from dts_assets.planning.settled_past import NO_PAST, Past, past_after
from dts_assets.planning.work import plan_work
from dts_assets.store.marks_by_day import MarksByDay

_ALL_DAYS = 1 << 30
_TRIES = ((0, 0), (0, 2), (7, 2), (_ALL_DAYS, 2))
"""The numbers of days that are read to tell whether a day is settled.

They are settled days before it, besides one, and days after it.

A failover at the end of a day shows whole only in the next one.
"""

_MOST_ROWS = 100_000
"""The most marks of entries with which all days are read to tell whether a day is settled.

To read so many takes 45 s.
"""

_TRY_AGAIN = 600.0
"""Seconds until this process tries again to settle a day with the same files.

Each try costs some looks, and the live run asks every ten seconds.
"""

_IN_VAIN: dict[tuple[str | None, int, tuple[str, ...] | None], float] = {}
"""The last try in vain: the lake, the day and its files, and when it was."""

_MOST_DAYS = 10
"""The most days that one run settles.

A lake of years, which an earlier version made, is settled bit by bit.
"""


def settle_days(pipeline: Pipeline, progress: Progress, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Store the days that are settled and follow the settled ones.

    Days that are not settled any more are dropped. An error is a line of progress: nothing rests on these rows, and the next
    run tries again. After a try in vain this process waits a while, by ``clock``.
    """
    try:
        count = _settle(pipeline, clock())
    except Exception as error:
        progress(f"ledger: no day was settled ({type(error).__name__}); looks begin where they did")
        return
    if count:
        progress(f"ledger: {count} more days are settled")


def _settle(pipeline: Pipeline, now: float) -> int:
    """Return the number of days that were settled and stored.

    Raises:
        LakeChangeError: Other runs changed the rows each time that this one tried.
    """
    tables = list(known_names(pipeline))
    stored = pipeline.ledger.marks_by_day()
    settled = list(settled_now(pipeline, stored, tables))
    known = len(settled)
    while len(settled) < known + _MOST_DAYS:
        row = _settled_next(pipeline, stored, settled, tables, now)
        if row is None:
            break
        settled.append(row)
    if len(settled) > known:
        pipeline.ledger.change_settled_days(lambda rows: with_days(rows, settled))
    return len(settled) - known


def _settled_next(
    pipeline: Pipeline, stored: MarksByDay, settled: list[SettledDay], tables: Collection[TableId], now: float
) -> SettledDay | None:
    """Return the row of the day behind the settled ones.

    The result is None if the day is not settled, or was not a while ago.
    """
    day = settled[-1].day + 1 if settled else min(stored.files, default=None)
    first, before = pipeline.first_window(), past_of(settled[-1]) if settled else NO_PAST
    if day is None or first is None or before is None or day > max(stored.files):
        return None
    windows = windows_of_day(day, pipeline.grid, first=first)
    tried = (pipeline.lake.identity(pipeline.name), day, stored.files.get(day))
    if now - _IN_VAIN.get(tried, -_TRY_AGAIN) < _TRY_AGAIN or not _is_whole(pipeline, stored, day, windows, before):
        return None
    for back, ahead in _TRIES:
        if back == _ALL_DAYS and stored.count_of_windows() > _MOST_ROWS:
            break
        begin = begin_of_look(settled, stored.files, back=back)
        if begin.settled is None:
            begin = Begin(None, tuple(row.day for row in settled), settled[-1] if settled else None, day)
        pasts = pasts_of(begin)
        look = None if pasts is None else look_from(pipeline, stored, tables, begin, pasts, to=day + ahead)
        if look is not None and stands_alone(pipeline, look, begin) and _is_done(pipeline, look, windows, tables):
            row = _row_of_day(pipeline, stored, day, begin=begin, look=look, before=before)
            if row is not None:
                return row
    _IN_VAIN.clear()
    _IN_VAIN[tried] = now
    return None


def _is_whole(pipeline: Pipeline, stored: MarksByDay, day: int, windows: Sequence[Window], before: Past) -> bool:
    return is_whole(
        pipeline.cells(windows),
        {row.cell: row for row in stored.raw_windows([day])},
        {row.cell: row for row in stored.windows([day])},
        {row.window.start: row for row in stored.cuts([day])},
        ends={chain.kafka_partition: chain.end for chain in before.proofs.chains},
        epoch=pipeline.settings.epoch,
    )


def _row_of_day(
    pipeline: Pipeline, stored: MarksByDay, day: int, *, begin: Begin, look: Look, before: Past
) -> SettledDay | None:
    """Return the row of a settled day; ``before`` is the past before it.

    The result is None if its inputs cannot be read, or if later windows may tell more of it.
    """
    entries, cuts = stored.windows([day]), stored.cuts([day])
    refers_to = days_referred_to(entries, pipeline.grid)
    if refers_to is None:
        return None
    refers_to |= set(begin.known)
    frontier_behind = frontier(
        {row.window.start: window_cut(row) for row in cuts},
        pipeline.grid,
        first=pipeline.first_window(),
        behind=before.frontier,
    )
    until, proofs = start_of_day(day + 1), look.topic.proven_behind(before.proofs, entries)
    lineages = look.topic.history.lineages
    if pipeline.settings.traits.order is ChangeOrder.MESSAGE_ID:
        told = [row for row in look.entries.values() if row.window.start < until]
        ids = ids_after(
            look.past.ids, told, until=until, seen=look.topic.history.ids, comparisons=pipeline.comparisons()
        )
        if ids is None:
            return None
        told_lineages = lineages.all[: ids.lineages]
        past = Past(until, proofs=proofs, frontier=frontier_behind, lineages=told_lineages, ids=ids)
    else:
        past = past_after(before, entries, until=until, proofs=proofs, frontier=frontier_behind, lineages=lineages)
    key = day_key(
        day,
        stored.files,
        refers_to=refers_to,
        before="" if begin.settled is None else begin.settled.after,
        settings=judging_settings(pipeline),
    )
    return SettledDay(
        day=day,
        began=min(begin.known, default=day),
        refers_to=tuple(sorted(refers_to)),
        tables=look.topic.history.tables if rests_on_tables(cuts) else "",
        key=key,
        after=past.digest,
        past=past.to_bytes(),
        lacking=tables_lacking(cuts),
    )


def _is_done(pipeline: Pipeline, look: Look, windows: Iterable[Window], tables: Collection[TableId]) -> bool:
    """Return whether nothing is left to do in some windows."""
    windows = list(windows)
    work = plan_work(
        dict.fromkeys(pipeline.kafka_partitions, windows),
        raw=look.sources,
        entries=look.entries,
        cuts=look.cuts,
        decoding=pipeline.decoding_settings(),
        settings=pipeline.shaping_settings(),
        beside={window.start: look.topic.beside(window) for window in windows},
        paused=paused_now(pipeline, tables),
        unmakeable=pipeline.unmakeable(),
    )
    return work.nothing and not work.waiting
