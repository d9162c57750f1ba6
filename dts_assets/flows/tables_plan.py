"""The plan of a tables run: its marks, and the windows that keep rows or are appended to.

It reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.errors.windows import IncompleteWindowError
from dts_assets.flows.copied_changes import take_copies
from dts_assets.flows.known_tables import known_names, known_sources, known_tables, register_shapes
from dts_assets.flows.lake_shapes import stored_shapes
from dts_assets.flows.layers import CHANGELOG, Layer, Selection
from dts_assets.flows.looks import looks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.renamed_tables import with_new_names
from dts_assets.flows.reports import Progress
from dts_assets.model.columns import Column
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.ledger_rows import BacklogTable, Cut, IngestWindow, PausedTable, WindowTable
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.model.windows import Window
from dts_assets.planning.appends import NO_APPENDS, Appends, find_appends, open_windows
from dts_assets.planning.backlog import backlog_of, concerned_tables
from dts_assets.planning.mark_changes import made_meanwhile
from dts_assets.planning.pauses import catches_up
from dts_assets.planning.topic_marks import TopicHistory, same_rows
from dts_assets.store.commit import Rectangle

MARKED = ("cuts", "window_tables")
"""The tables of the ledger that a run of the tables writes for its windows."""


@dataclass(frozen=True, slots=True)
class TablesPlan:
    """The decisions about a run before anything is decoded.

    ``marks`` are the marks that the windows are to have, ``stored`` the marks of now of all windows that are not settled, by
    window start; for those the history has a past. The windows of ``proven`` keep their rows and get another mark; the windows of
    ``again`` are made, those of ``appends`` by appending. ``changelogs`` are the tables whose changelogs are written, ``run``
    names the folder of the files. ``turn`` has the writer's name, ``found`` the files that the system tables had of the windows
    when the run was planned. ``paused`` are the known tables that stood still then: the run leaves all their layers as they are,
    also if a person resumes one meanwhile. ``catching_up`` has the windows that are made for some resumed tables alone, by window
    start. ``concerned`` are the tables that the run may have work for, None for all; ``backlog`` are the rows of the backlog as
    the run found them, and ``lacking`` the tables there, None for all. ``counted`` are the counts that the windows of ``again``
    had. ``copied`` are the copied tables of these windows, by window start. ``judged_otherwise`` are the coming marks of other
    windows, whose rows filters judged without the statements of this run.
    """

    windows: tuple[Window, ...]
    selection: Selection
    ingested: Mapping[Cell, IngestWindow]
    history: TopicHistory
    stored: Mapping[datetime, Cut]
    marks: tuple[Cut, ...]
    proven: tuple[Cut, ...]
    again: tuple[Cut, ...]
    appends: Appends
    tables: Mapping[TableId, tuple[Column, ...]]
    changelogs: Mapping[TableId, tuple[Column, ...]]
    run: str
    turn: Turn
    found: Mapping[str, Mapping[datetime, Collection[str]]]
    paused: Mapping[TableId, PausedTable]
    catching_up: Mapping[datetime, frozenset[TableId]]
    counted: tuple[WindowTable, ...]
    copied: Mapping[datetime, tuple[CopiedTable, ...]]
    concerned: frozenset[TableId] | None
    backlog: tuple[BacklogTable, ...]
    lacking: frozenset[TableId] | None
    judged_otherwise: tuple[Cut, ...] = ()

    def with_tables(self, tables: Mapping[TableId, tuple[Column, ...]]) -> TablesPlan:
        """Return the plan with the changelogs of further tables."""
        concerned = None if self.concerned is None else self.concerned.union(tables)
        return replace(self, changelogs={**self.changelogs, **tables}, concerned=concerned)

    def with_moved(self, starts: Collection[datetime]) -> TablesPlan:
        """Return the plan without appends to some windows, whose rows before the stored ends are compared."""
        return replace(self, appends=self.appends.comparing(starts))

    @property
    def brought(self) -> dict[datetime, tuple[CopiedTable, ...]]:
        """The copied tables whose rows the run brings, by window start."""
        return {start: some for start, some in self.copied.items() if start not in self.appends.marks}

    def base(self, name: str, starts: Iterable[datetime]) -> list[str]:
        """Return the files that a system table had of some windows when the run was planned."""
        return [path for start in starts for path in self.found[name].get(start, ())]

    def replaces(self, table: TableId, start: datetime) -> bool:
        """Return whether the run replaces, or appends to, the changelog rows of a table in a window."""
        return start not in self.catching_up or table in self.catching_up[start]

    @property
    def windows_again(self) -> list[Window]:
        """The windows whose rows are made."""
        return [mark.window for mark in self.again]

    @property
    def writes(self) -> bool:
        """True if any changelog is written."""
        return bool(self.again) and (bool(self.changelogs) or self.selection.whole)


def plan_tables(
    pipeline: Pipeline,
    windows: Sequence[Window],
    selection: Selection,
    turn: Turn,
    progress: Progress,
    *,
    before_waiting: Mapping[datetime, Cut] | None = None,
) -> TablesPlan:
    """Return the plan of a run over ``windows``, in time order.

    ``before_waiting`` are the marks as they stood when the run began to wait for another; None if it did not wait.

    Raises:
        NotReadyError: A Kafka partition of a window has no entries.
        IncompleteWindowError: A window is incomplete, and the settings say that such windows block.
    """
    pipeline.ledger.enter_turn(MARKED, turn)
    found = {name: _files_of_tables(pipeline, name, windows) for name in ("quarantine", "ddl", "redeliveries")}
    take_copies(pipeline, windows)
    backlog, shapes = pipeline.ledger.backlog(), pipeline.ledger.table_shapes(windows)
    # All known tables: those of these windows are among them even if the registry file never heard of them.
    register_shapes(pipeline, stored_shapes(shapes))
    tables = known_tables(pipeline)
    look = next(look for look in looks(pipeline, known_names(pipeline)) if look.judges(windows))
    ingested, topic, stored = look.entries, look.topic, look.cuts
    pipeline.require(pipeline.cells(windows), ingested, needed="entries")
    paused = {row.table: row for row in pipeline.ledger.paused_tables() if row.table in tables}
    for row in (one for one in paused.values() if not one.is_removed):
        progress(f"tables: {row.table} is paused since {row.since:%Y-%m-%d %H:%M} UTC and stands still: {row.reason}")
    marks = [topic.mark(window) for window in windows]
    refuse_incomplete(pipeline, marks, ingested)
    proven = [
        mark for mark in marks if selection.whole and same_rows(stored.get(mark.window.start), mark, paused=paused)
    ]
    if before_waiting is not None and selection.whole:
        made = [mark for mark in marks if made_meanwhile(before_waiting, stored, mark, paused=paused)]
        progress(f"tables: {len(made)} of {len(marks)} windows were made by the run that was waited for")
        proven += made
    elif proven:
        progress(f"tables: {len(proven)} windows keep their rows; what is known of them has changed")
    keep = {mark.window for mark in proven}
    again = [mark for mark in marks if mark.window not in keep]
    counted = pipeline.ledger.window_tables([mark.window for mark in again])
    lacking = backlog_of(backlog, pipeline.layer_titles)
    concerned = None
    if selection.whole:
        routes = pipeline.settings.routes
        starts = {mark.window.start for mark in again}
        concerned = concerned_tables(
            lacking,
            [row for cell, row in ingested.items() if cell.window.start in starts],
            described=(
                table
                for row in shapes
                if row.window_start in starts and (table := routes.decoded_table(row.table)) is not None
            ),
            counted=(row.table for row in counted),
            tables=[source for some in known_sources(pipeline).values() for source in some],
            lake_table=routes.lake_table,
        )
        made_before = starts.intersection(stored) - open_windows(ingested.values())
        if concerned and made_before:  # rows may have moved to another table since
            concerned = with_new_names(pipeline, concerned)
    appends = find_appends(again, stored, ingested, counted=counted, paused=paused) if selection.whole else NO_APPENDS
    starts = {mark.window.start for mark in again}
    return TablesPlan(
        windows=tuple(windows),
        selection=selection,
        ingested=ingested,
        history=topic.history,
        stored=stored,
        marks=tuple(marks),
        proven=tuple(proven),
        again=tuple(again),
        appends=appends,
        tables=tables,
        changelogs=chosen_tables(tables, CHANGELOG, selection, without=paused, among=concerned),
        run=pipeline.new_run(),
        turn=turn,
        found=found,
        paused=paused,
        catching_up={
            mark.window.start: resumed
            for mark in (again if selection.whole else ())
            if (resumed := catches_up(stored.get(mark.window.start), mark, paused=paused))
        },
        counted=tuple(counted),
        copied={start: some for start, some in topic.copied.items() if start in starts},
        concerned=concerned,
        backlog=tuple(backlog),
        lacking=lacking,
    )


def _files_of_tables(pipeline: Pipeline, name: str, windows: Iterable[Window]) -> dict[datetime, list[str]]:
    """Return the files that runs of the tables have written to a system table, by window start."""
    rectangle: Rectangle = {"window_start": {window.start for window in windows}, "stage": {"tables"}}
    found: dict[datetime, list[str]] = {}
    for file in pipeline.lake.data_files(pipeline.path(name), rectangle):
        found.setdefault(file.partition["window_start"], []).append(file.path)
    return found


def chosen_tables(
    tables: Mapping[TableId, tuple[Column, ...]],
    layer: Layer,
    selection: Selection,
    *,
    without: Collection[TableId] = (),
    among: Collection[TableId] | None = None,
) -> dict[TableId, tuple[Column, ...]]:
    """Return the tables that a run makes in a layer.

    Tables ``without`` stand still, and there is work for tables ``among`` alone; None stands for all tables.
    """
    return {
        table: columns
        for table, columns in tables.items()
        if selection.takes(layer, table) and table not in without and (among is None or table in among)
    }


def refuse_incomplete(pipeline: Pipeline, marks: Iterable[Cut], ingested: Mapping[Cell, IngestWindow]) -> None:
    """Refuse incomplete windows where they block.

    The incomplete Kafka partitions are named, or the window if it shows only over all of them.

    Raises:
        IncompleteWindowError: A window is incomplete, and the settings say that such windows block.
    """
    incomplete: dict[str, list[str]] = {}
    for mark in marks:
        if mark.completeness is not Completeness.INCOMPLETE:
            continue
        rows = [ingested[cell] for cell in pipeline.cells([mark.window])]
        own = {str(row.cell): row.problems for row in rows if row.completeness is Completeness.INCOMPLETE}
        for where, problems in (own or {mark.window.key: mark.problems}).items():
            incomplete[where] = [problem.code.value for problem in problems]
    if incomplete and pipeline.settings.on_incomplete == "block":
        raise IncompleteWindowError(pipeline.name, incomplete)
