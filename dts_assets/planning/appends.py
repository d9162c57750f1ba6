"""Windows that were read while open, to whose changelogs the next run adds new rows.

Where more than new entries came, it does so for the tables whose rows came out equal alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.refreshes import reached
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.pauses import resumed_in
from dts_assets.planning.staleness import (
    SETTINGS_INPUT,
    changed_inputs,
    entries_input,
    entries_sources,
    input_text,
    raw_input,
)
from dts_assets.planning.topic_marks import is_tables_input, offsets_in, row_inputs, statements_input

RowsOfCell: TypeAlias = tuple[int, int, int]
"""Rows of one table in one cell: the changes, the truncations, and the sum of their hashes."""

NO_ROWS: Final[RowsOfCell] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Appends:
    """The stored marks of windows that were open, by window start.

    To the changelogs of ``marks`` rows are appended. Windows of ``compared`` are made whole: a table whose rows before the
    stored ends came out equal keeps its files and gets the rows behind them, every other table is replaced.
    """

    marks: Mapping[datetime, Cut]
    compared: Mapping[datetime, Cut] = field(default_factory=dict)

    @property
    def made_by(self) -> frozenset[str]:
        """The runs that wrote the changelog rows which stay."""
        return frozenset(run for mark in (*self.marks.values(), *self.compared.values()) for run in mark.made_by)

    @property
    def from_offsets(self) -> dict[tuple[int, datetime], int]:
        """The first offset that is not in the changelogs yet, by Kafka partition and window start."""
        return _ends(self.marks)

    @property
    def compared_until(self) -> dict[tuple[int, datetime], int]:
        """The first offset that is not in the changelogs of a compared window, by Kafka partition and start."""
        return _ends(self.compared)

    def comparing(self, starts: Iterable[datetime]) -> Appends:
        """Return the appends with some windows compared, and none of their rows appended as they are."""
        chosen = frozenset(starts)
        moved = {start: mark for start, mark in self.marks.items() if start in chosen}
        return Appends(
            {start: mark for start, mark in self.marks.items() if start not in moved}, {**self.compared, **moved}
        )

    def of_next_run(self, marks: Iterable[Cut], rows: Mapping[Cell, IngestWindow]) -> frozenset[datetime]:
        """Return the starts of the windows to which the next run may append.

        They are the windows that are open, and those that this run appends to.
        """
        still = open_windows(rows.values())
        stored = {*self.marks, *self.compared}
        return frozenset(start for mark in marks if (start := mark.window.start) in still or start in stored)

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
            firsts: The least positions of the rows that the run wrote behind what stood there, by window start.
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
            before = self.marks.get(start) or self.compared.get(start)
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
    """Return the windows to whose changelogs rows are appended, and those that are compared.

    To append, all inputs beside new entries of the window itself must be unchanged, and the same statements before them must
    count. The stored counts of the window must be of its last marked run: a killed run may have left other counts. A paused table
    keeps its counts; a table that was resumed lacks entries that no append would bring. A window that had closed before and is
    as it was is made whole: a person asks for it, who may have lost a file.

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
    found, compared, by_window = dict[datetime, Cut](), dict[datetime, Cut](), _by_window(rows)
    for mark in marks:
        before = stored.get(mark.window.start)
        if before is None or not before.ends or before.code_version != CODE_VERSION:
            continue
        resumed = resumed_in(before, paused)
        if not (before.open_in or mark.open_in or resumed) and set(before.inputs) == set(mark.inputs):
            continue
        cells = by_window.get(mark.window, [])
        of_last_run = counting.get(mark.window.start, set()) <= set(before.made_by[-1:])
        unchanged = _same_beside(before, mark, cells) and _begins_with(before, mark, [rows[cell] for cell in cells])
        if of_last_run and unchanged and not resumed:
            found[mark.window.start] = before
        elif _settings(before) == _settings(mark):
            compared[mark.window.start] = before
    return Appends(found, compared)


def tables_as_stored(
    compared: Mapping[datetime, Cut],
    made: Mapping[tuple[datetime, int, TableId], RowsOfCell],
    counted: Iterable[WindowTable],
    tables: Iterable[TableId],
    *,
    paused: Collection[TableId] = (),
) -> dict[TableId, frozenset[datetime]]:
    """Return the compared windows in which tables keep their files: their rows came out as they were counted.

    Counts of another run than the window's last marked one say nothing of the files. A table that was resumed is made whole: its
    snapshot may have missed what a run did meanwhile.

    Args:
        compared: The stored marks of the compared windows, by window start.
        made: The rows before the stored ends as they came out, by window start, Kafka partition and table.
        counted: The stored counts of the windows.
        tables: The tables to be told about.
        paused: The tables that stand still.
    """
    stored: dict[tuple[datetime, TableId], dict[int, RowsOfCell]] = {}
    changed = {(start, one.id) for start, mark in compared.items() for one in resumed_in(mark, paused)}
    for row in counted:
        mark, key = compared.get(row.window_start), (row.window_start, row.table)
        if mark is not None and row.run not in mark.made_by[-1:]:
            changed.add(key)
        stored.setdefault(key, {})[row.kafka_partition] = (row.kept, row.truncations, row.row_hash)
    now: dict[tuple[datetime, TableId], dict[int, RowsOfCell]] = {}
    for (start, partition, table), rows in made.items():
        now.setdefault((start, table), {})[partition] = rows

    def keeps(start: datetime, table: TableId) -> bool:
        one, other = stored.get((start, table), {}), now.get((start, table), {})
        equal = all(one.get(cell, NO_ROWS) == other.get(cell, NO_ROWS) for cell in one.keys() | other.keys())
        return equal and (start, table) not in changed

    return {table: frozenset(start for start in compared if keeps(start, table)) for table in tables}


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


def _ends(marks: Mapping[datetime, Cut]) -> dict[tuple[int, datetime], int]:
    return {(partition, start): end for start, mark in marks.items() for partition, end in enumerate(mark.ends)}


def _settings(mark: Cut) -> set[str]:
    return {text for text in mark.inputs if text.startswith(f"{SETTINGS_INPUT}=")}


def _same_beside(before: Cut, mark: Cut, cells: Iterable[Cell]) -> bool:
    """Return whether two marks of a window have equal inputs beside its own entries and statements.

    The known tables may join them with the first statement that empties a table: no row before depends on them.
    """
    own = tuple(f"{name}=" for cell in cells for name in (entries_input(cell), statements_input(cell)))
    now, then = ({text for text in row_inputs(one.inputs) if not text.startswith(own)} for one in (mark, before))
    return not then - now and all(map(is_tables_input, now - then))


def _begins_with(before: Cut, mark: Cut, rows: Iterable[IngestWindow]) -> bool:
    """Return whether entries begin with the entries that a mark was made from.

    The same statements of these must count.
    """
    then, now = (dict(text.rsplit("=", 1) for text in one.inputs) for one in (before, mark))
    for row, end in zip(rows, before.ends, strict=True):
        made_from, name = then.get(entries_input(row.cell), ""), statements_input(row.cell)
        unchanged = row.generation == made_from and row.offsets.end == end
        if not (unchanged or reached(row.refreshes, made_from, end)):
            return False
        if {one for one in offsets_in(now.get(name, "")) if one < end} != set(offsets_in(then.get(name, ""))):
            return False
    return True
