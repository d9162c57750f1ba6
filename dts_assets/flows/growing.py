"""Windows whose tables were made while they were open: what the next run of the tables adds, and to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.tables_tasks import CellKey, TablesResult
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.refreshes import reached
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.staleness import entries_input
from dts_assets.planning.topic_marks import row_inputs


@dataclass(frozen=True, slots=True)
class Growing:
    """Windows, by their starts, to whose changelogs rows are added; each with the mark of what is there."""

    onto: Mapping[datetime, Cut]

    @property
    def made_by(self) -> frozenset[str]:
        """The runs that made what is there."""
        return frozenset(run for mark in self.onto.values() for run in mark.made_by)

    @property
    def from_offsets(self) -> dict[CellKey, int]:
        """Where the entries begin that are not in the changelogs yet."""
        return {(partition, start): end for start, mark in self.onto.items() for partition, end in enumerate(mark.ends)}

    def to_go_on(self, marks: Iterable[Cut], rows: Mapping[Cell, IngestWindow]) -> frozenset[datetime]:
        """The windows, by their starts, that the next run may have to add to: those that are open, and those that were."""
        still = open_windows(rows.values())
        return frozenset(start for mark in marks if (start := mark.window.start) in still or start in self.onto)

    def marked(
        self,
        marks: Iterable[Cut],
        rows: Mapping[Cell, IngestWindow],
        *,
        run: str,
        results: Iterable[TablesResult],
        stood_at: SourcePosition | None,
    ) -> list[Cut]:
        """The marks of windows that ``run`` has made or added to, with what the next run needs to add to them.

        ``stood_at`` is the cut that snapshots may stand at. Rows at or before it begin a new chain: keys that they change have to
        be computed again.
        """
        firsts: dict[datetime, list[SourcePosition]] = {}
        for result in results:
            for (start, _, _), tally in result.tallies.items():
                if tally.first is not None:
                    firsts.setdefault(start, []).append(tally.first)
        made = []
        marks = list(marks)
        go_on = self.to_go_on(marks, rows)
        for mark in marks:
            start = mark.window.start
            if start not in go_on:
                made.append(mark)
                continue
            late = stood_at is not None and any(position <= stood_at for position in firsts.get(start, ()))
            before = self.onto.get(start)
            ends = tuple(rows[cell].offsets.end for cell in _cells(mark.window, rows))
            made_by = (*(before.made_by if before is not None else ()), run)
            chain = before.chain if before is not None and not late else run
            made.append(replace(mark, ends=ends, made_by=made_by, chain=chain))
        return made


def open_windows(rows: Iterable[IngestWindow]) -> frozenset[datetime]:
    """The windows, by their starts, that have not closed in all Kafka partitions, as far as they are stored."""
    return frozenset(row.window.start for row in rows if row.closed_by is ClosedBy.OPEN)


def find_growing(
    pipeline: Pipeline, marks: Iterable[Cut], stored: Mapping[datetime, Cut], rows: Mapping[Cell, IngestWindow]
) -> Growing:
    """Which of some windows, given with the marks that they are to have, only have to be added to.

    Everything that decided the rows that are there must be as it was; and no statement may have come, since it can change what
    counts of those before it.
    """
    counted = {(row.window_start, row.run) for row in pipeline.ledger.window_tables([mark.window for mark in marks])}
    onto = {}
    for mark in marks:
        before = stored.get(mark.window.start)
        if before is None or not before.ends or before.code_version != CODE_VERSION:
            continue
        cells = _cells(mark.window, rows)
        of_last_run = all(run == before.made_by[-1] for start, run in counted if start == mark.window.start)
        if of_last_run and _same_beside(before, mark, cells) and _goes_on(before, [rows[cell] for cell in cells]):
            onto[mark.window.start] = before
    return Growing(onto)


def _cells(window: Window, rows: Mapping[Cell, IngestWindow]) -> list[Cell]:
    return sorted(cell for cell in rows if cell.window == window)


def _same_beside(before: Cut, mark: Cut, cells: Iterable[Cell]) -> bool:
    """Whether all inputs are the same but for the entries of the window itself."""
    own = tuple(f"{entries_input(cell)}=" for cell in cells)
    now, then = ({text for text in row_inputs(one.inputs) if not text.startswith(own)} for one in (mark, before))
    return now == then


def _goes_on(before: Cut, rows: Iterable[IngestWindow]) -> bool:
    """Whether the entries that a mark was made from are the beginning of those that are there now, without a statement since."""
    texts = dict(text.rsplit("=", 1) for text in before.inputs)
    for row, end in zip(rows, before.ends, strict=True):
        made_from = texts.get(entries_input(row.cell), "")
        unchanged = row.generation == made_from and row.offsets.end == end
        if not (unchanged or reached(row.refreshes, made_from, end)):
            return False
        if any(statement.offset >= end for statement in row.statements):
            return False
    return True
