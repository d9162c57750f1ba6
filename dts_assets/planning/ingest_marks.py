"""The marks of raw and entries: the ledger rows that end the ingest of a cell.

A mark's generation stands for the content of its cell, so times, runs and file names have no part in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.delivery import CellDelivery
from dts_assets.model.emptied_tables import EmptiedTable
from dts_assets.model.ledger_rows import Counts, IngestWindow, RawWindow, ServerPositions
from dts_assets.model.message_ids import SeenTable
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet, open_sets_text
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.refreshes import Refresh
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.completeness import level_of_cell
from dts_assets.planning.raw_reads import RawRead
from dts_assets.planning.staleness import (
    ABSENT,
    FORMAT_INPUT,
    generation,
    input_text,
    raw_input,
)


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """The messages of a piece of a cell; ``digest`` tells their content from any other."""

    offsets: OffsetRange
    messages: int
    digest: str


@dataclass(frozen=True, slots=True)
class Copied:
    """The messages of a cell that one reading copied, with the least and the greatest message time."""

    parts: tuple[CopiedPart, ...]
    bytes: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(part.messages for part in self.parts)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The facts of a cell's entries after its last reading, with the facts of all earlier readings.

    ``end`` is the offset up to which messages were decoded, and ``resume`` the state from which the next reading goes on.
    ``heads_from`` are the earlier cells that were asked for heads of entry sets; ``looked_beyond`` says that the search for a
    head went past every stored cell. ``left_open`` and ``taken_over`` are entry sets that cross the borders of the cell.
    """

    end: int
    counts: Counts
    delivery: CellDelivery
    problems: tuple[Problem, ...] = ()
    runs: tuple[Run, ...] = ()
    checkpoints: tuple[SeenCheckpoint, ...] = ()
    statements: tuple[SeenStatement, ...] = ()
    checkpoint: SourcePosition | None = None
    checkpoint_gtid_set: str | None = None
    positions: tuple[ServerPositions, ...] = ()
    emptying: int = 0
    emptied: tuple[EmptiedTable, ...] = ()
    altering: int = 0
    altered: tuple[EmptiedTable, ...] = ()
    unread: tuple[str, ...] = ()
    heads_from: tuple[Cell, ...] = ()
    looked_beyond: bool = False
    resume: bytes | None = None
    left_open: tuple[OpenSet, ...] = ()
    taken_over: tuple[OpenSet, ...] = ()
    seen_tables: tuple[SeenTable, ...] = ()


def raw_mark(read: RawRead, copied: Copied, problems: Iterable[Problem], *, epoch: int, run: str) -> RawWindow:
    """Return the mark of raw after a reading; ``problems`` are the reading's own.

    If the reading appended to a window that was open, the mark holds the facts of the earlier readings too.
    """
    plan, before, own = read.plan, read.appends_to, tuple(problems)
    refreshes = _refreshes_of_raw(read, copied, own, epoch=epoch, run=run)
    times = [copied.first_time, copied.last_time]
    if before is not None:
        times += [before.first_time, before.last_time]
    seen = [time for time in times if time is not None]
    in_one_go = plan.closed_by is not ClosedBy.OPEN and len(refreshes) == 1 and before is None
    return RawWindow(
        kafka_partition=plan.cell.kafka_partition,
        window=plan.cell.window,
        epoch=epoch,
        offsets=OffsetRange(plan.offsets.start, read.offsets.end),
        closed_by=plan.closed_by,
        messages=copied.messages + (before.messages if before is not None else 0),
        bytes=copied.bytes + (before.bytes if before is not None else 0),
        first_time=min(seen, default=None),
        last_time=max(seen, default=None),
        problems=own if before is None else (*before.problems, *own),
        generation=refreshes[-1].generation,
        code_version=CODE_VERSION,
        refreshes=() if in_one_go else refreshes,
    )


def entries_mark(
    cell: Cell,
    raw: Mapping[Cell, RawWindow],
    decoded: Decoded,
    *,
    beyond: Cell | None,
    appends_to: IngestWindow | None,
    decoding: str,
    run: str,
) -> IngestWindow:
    """Return the mark of entries after a reading.

    ``raw`` has the marks of this cell and of the cells that were asked for heads. ``beyond`` is the nearest earlier cell that is
    not stored: an input if the search for a head got there. ``appends_to`` is the stored mark that the reading appended to, if
    any. ``decoding`` is the digest of the format and its settings.
    """
    source = raw[cell]
    inputs = {input_text(FORMAT_INPUT, decoding)}
    inputs |= {input_text(raw_input(one), raw[one].generation) for one in (cell, *decoded.heads_from)}
    if decoded.looked_beyond and beyond is not None:
        inputs.add(input_text(raw_input(beyond), ABSENT))
    refreshes, earlier = ((), ()) if appends_to is None else (appends_to.refreshes, appends_to.inputs)
    own = input_text(raw_input(cell), "")
    inputs |= {
        text for text in earlier if not text.startswith(own)
    }  # heads that earlier readings needed are inputs still
    taken_over = decoded.taken_over if appends_to is None else appends_to.taken_over
    # No input by name: it is compared set by set, and a cell alone has none of it.
    sets = {input_text("open sets", open_sets_text(taken_over))} if taken_over else set[str]()
    made = generation(inputs | sets, code_version=CODE_VERSION)
    if appends_to is not None or source.closed_by is ClosedBy.OPEN:
        refreshes = (*refreshes, Refresh(decoded.end, made, run))
    problems = (*source.problems, *decoded.problems)
    return IngestWindow(
        kafka_partition=source.kafka_partition,
        window=source.window,
        epoch=source.epoch,
        offsets=OffsetRange(source.offsets.start, decoded.end),
        counts=decoded.counts,
        checkpoint=decoded.checkpoint,
        checkpoint_gtid_set=decoded.checkpoint_gtid_set,
        positions=decoded.positions,
        runs=decoded.runs,
        checkpoints=decoded.checkpoints,
        statements=decoded.statements,
        delivery=decoded.delivery,
        closed_by=source.closed_by,
        completeness=level_of_cell(problems, decoded.delivery, nothing_follows=source.closed_by is ClosedBy.END),
        problems=problems,
        code_version=CODE_VERSION,
        generation=made,
        inputs=tuple(sorted(inputs)),
        refreshes=refreshes,
        resume=decoded.resume,
        emptying=decoded.emptying,
        emptied=decoded.emptied,
        altering=decoded.altering,
        altered=decoded.altered,
        unread=decoded.unread,
        left_open=decoded.left_open,
        taken_over=taken_over,
        seen_tables=decoded.seen_tables,
    )


def _refreshes_of_raw(
    read: RawRead, copied: Copied, problems: Sequence[Problem], *, epoch: int, run: str
) -> tuple[Refresh, ...]:
    """Return the earlier readings of a cell, and one for each part that was read now.

    A part without offsets counts only if nothing was read before. Messages dated beyond now are a problem but no fact that
    decides a generation: once their time has come, another reading would not name them.
    """
    refreshes = list(read.appends_to.refreshes) if read.appends_to is not None else []
    gaps = sorted(one.first_offset for one in problems if one.code is ProblemCode.GAP and one.first_offset is not None)
    for part in copied.parts:
        if not refreshes or len(part.offsets):
            facts = [f"before={refreshes[-1].generation}"] if refreshes else []
            facts += [
                f"epoch={epoch}",
                f"offsets={part.offsets}",
                f"messages={part.messages}",
                f"content={part.digest}",
            ]
            inside = gaps[bisect_left(gaps, part.offsets.start) : bisect_left(gaps, part.offsets.end)]
            facts += [f"gap={first}" for first in inside]
            refreshes.append(Refresh(part.offsets.end, generation(facts, code_version=CODE_VERSION), run))
    return tuple(refreshes)
