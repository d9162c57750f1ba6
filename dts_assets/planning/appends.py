"""Appends: windows that were read while open, to which the next run only adds new rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.refreshes import reached
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.pauses import resumed_in
from dts_assets.planning.staleness import changed_inputs, entries_input, entries_sources, input_text, raw_input
from dts_assets.planning.topic_marks import row_inputs


@dataclass(frozen=True, slots=True)
class Appends:
    """The stored marks of the windows to whose changelogs rows are appended, by window start."""

    marks: Mapping[datetime, Cut]

    @property
    def made_by(self) -> frozenset[str]:
        """The runs that wrote the changelog rows which stay."""
        return frozenset(run for mark in self.marks.values() for run in mark.made_by)

    @property
    def from_offsets(self) -> dict[tuple[int, datetime], int]:
        """The first offset that is not in the changelogs yet, by Kafka partition and window start."""
        return {
            (partition, start): end for start, mark in self.marks.items() for partition, end in enumerate(mark.ends)
        }

    def of_next_run(self, marks: Iterable[Cut], rows: Mapping[Cell, IngestWindow]) -> frozenset[datetime]:
        """Return the starts of the windows to which the next run may append.

        They are the windows that are open, and those that this run appends to.
        """
        still = open_windows(rows.values())
        return frozenset(start for mark in marks if (start := mark.window.start) in still or start in self.marks)

    def marked(
        self,
        marks: Iterable[Cut],
        rows: Mapping[Cell, IngestWindow],
        *,
        run: str,
        firsts: Mapping[datetime, Sequence[SourcePosition]],
        stood_at: SourcePosition | None,
    ) -> list[Cut]:
        """Return the marks of windows that `run` has written or appended to.

        Args:
            marks: The marks that the windows are to have, without offsets and runs.
            rows: The marks of ingest of all cells.
            run: The run that wrote the rows.
            firsts: The least positions of the rows that the run wrote, by window start.
            stood_at: The cut that snapshots may stand at. Rows at or before it begin a new chain: keys that they change have to
                be computed again.
        """
        marks = list(marks)
        of_next_run, cells = self.of_next_run(marks, rows), _by_window(rows)
        made = []
        for mark in marks:
            start = mark.window.start
            if start not in of_next_run:
                made.append(mark)
                continue
            late = stood_at is not None and any(position <= stood_at for position in firsts.get(start, ()))
            before = self.marks.get(start)
            ends = tuple(rows[cell].offsets.end for cell in cells.get(mark.window, ()))
            made_by = (*(before.made_by if before is not None else ()), run)
            chain = before.chain if before is not None and not late else run
            made.append(replace(mark, ends=ends, made_by=made_by, chain=chain))
        return made


NO_APPENDS = Appends({})


def open_windows(rows: Iterable[IngestWindow]) -> frozenset[datetime]:
    """Return the starts of the stored windows that have not closed in all Kafka partitions."""
    return frozenset(row.window.start for row in rows if row.closed_by is ClosedBy.OPEN)


def find_appends(
    marks: Iterable[Cut],
    stored: Mapping[datetime, Cut],
    rows: Mapping[Cell, IngestWindow],
    *,
    counted: Iterable[WindowTable],
    paused: Collection[TableId] = (),
) -> Appends:
    """Return the windows whose changelogs only have to be appended to.

    Beside new entries of the window itself, all its inputs must be unchanged. No DDL statement may have come since, because it
    can change which of the rows before it count. And the stored counts of the window must be of its last marked run: a killed
    run may have left other counts. A paused table keeps its counts; one that was resumed lacks entries that no append
    would bring.

    Args:
        marks: The marks that the windows are to have.
        stored: The stored marks, by window start.
        rows: The marks of ingest of all cells.
        counted: The stored counts of the windows.
        paused: The tables that stand still.
    """
    counting: dict[datetime, set[str]] = {}
    for row in counted:
        if row.table not in paused:
            counting.setdefault(row.window_start, set()).add(row.run)
    found, by_window = {}, _by_window(rows)
    for mark in marks:
        before = stored.get(mark.window.start)
        if before is None or not before.ends or before.code_version != CODE_VERSION or resumed_in(before, paused):
            continue
        cells = by_window.get(mark.window, [])
        of_last_run = counting.get(mark.window.start, set()) <= set(before.made_by[-1:])
        if of_last_run and _same_beside(before, mark, cells) and _begins_with(before, [rows[cell] for cell in cells]):
            found[mark.window.start] = before
    return Appends(found)


def can_append_entries(row: IngestWindow, raw: Mapping[Cell, RawWindow], *, decoding: str) -> bool:
    """Return whether entries can be appended to a cell that was decoded while it was open.

    The raw messages that it was decoded from must be there unchanged, and so must all other inputs. ``decoding`` is the digest of
    the format and its settings.
    """
    if row.closed_by is not ClosedBy.OPEN or row.resume is None or row.code_version != CODE_VERSION:
        return False
    own = input_text(raw_input(row.cell), "")
    made_from = next((text.removeprefix(own) for text in row.inputs if text.startswith(own)), "")
    others = [text for text in row.inputs if not text.startswith(own)]
    now = entries_sources(raw, decoding=decoding)
    return reached(raw[row.cell].refreshes, made_from, row.offsets.end) and not changed_inputs(others, now)


def _by_window(rows: Mapping[Cell, IngestWindow]) -> dict[Window, list[Cell]]:
    """Return the cells of every window by Kafka partition."""
    found: dict[Window, list[Cell]] = {}
    for cell in sorted(rows):
        found.setdefault(cell.window, []).append(cell)
    return found


def _same_beside(before: Cut, mark: Cut, cells: Iterable[Cell]) -> bool:
    """Return whether two marks of a window have equal inputs, its own entries left aside."""
    own = tuple(f"{entries_input(cell)}=" for cell in cells)
    now, then = ({text for text in row_inputs(one.inputs) if not text.startswith(own)} for one in (mark, before))
    return now == then


def _begins_with(before: Cut, rows: Iterable[IngestWindow]) -> bool:
    """Return whether entries begin with the entries that a mark was made from, without a statement since."""
    texts = dict(text.rsplit("=", 1) for text in before.inputs)
    for row, end in zip(rows, before.ends, strict=True):
        made_from = texts.get(entries_input(row.cell), "")
        unchanged = row.generation == made_from and row.offsets.end == end
        if not (unchanged or reached(row.refreshes, made_from, end)):
            return False
        if any(statement.offset >= end for statement in row.statements):
            return False
    return True
