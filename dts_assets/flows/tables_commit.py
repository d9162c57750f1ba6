"""The commits of a tables run: changelogs, the system rows beside them, and the counts of all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.flows.apart import do_apart
from dts_assets.flows.judged import quarantine_rows, unbalanced_windows
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.open_windows import Keep, kept
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress, rate
from dts_assets.flows.tables_decode import Decoded
from dts_assets.flows.tables_plan import MARKED, TablesPlan
from dts_assets.flows.tables_tasks import TablesResult
from dts_assets.model.ledger_rows import InvalidColumn, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.appends import tables_as_stored
from dts_assets.planning.pauses import Fault
from dts_assets.stages.table_tallies import TableTally, TallyKey
from dts_assets.store.commit import Rectangle, stands_at
from dts_assets.store.files import WrittenFile


@dataclass(frozen=True, slots=True)
class Written:
    """The committed rows of a run, counted.

    ``tallies`` has the counts of all windows of the run by window start, Kafka partition and table; ``unbalanced`` what the
    counts leave out, by window start; ``firsts`` the least positions of the written rows, by window start.
    ``tables`` are the tables of which the run wrote files. ``kept`` has the compared windows in which each table kept its files:
    like appended windows they only got rows. ``touched`` has the least position of all that the run wrote or took away, by
    table. ``altered`` has that of the cells that got statements, by table and window start. ``faults`` are those of tables whose
    changelogs were not committed, with those of the decoding; the counts leave them out.
    """

    tallies: Mapping[TallyKey, TableTally]
    unbalanced: Mapping[datetime, tuple[str, ...]]
    firsts: Mapping[datetime, Sequence[SourcePosition]]
    tables: frozenset[TableId]
    faults: Mapping[TableId, Fault]
    kept: Mapping[TableId, frozenset[datetime]]
    touched: Mapping[TableId, SourcePosition]
    altered: Mapping[TableId, Mapping[datetime, SourcePosition]]


def commit_tables(pipeline: Pipeline, plan: TablesPlan, decoded: Decoded, *, progress: Progress) -> Written:
    """Commit changelogs, then the system rows beside them, then the counts; the marks come after the layers.

    Raises:
        OvertakenError: Another run has taken over.
        StaleGenerationError: Another run has written to one of the tables since this one was planned.
    """
    # After all that the commits assert was read: whoever takes over from now on finds files that were not there.
    pipeline.ledger.require_turn(MARKED, plan.turn)
    faults, kept_in = dict(decoded.faults), _kept_windows(plan, decoded)
    if plan.writes:
        faults |= _commit_changelogs(pipeline, plan, decoded, kept_in, progress)
    still = {*plan.paused, *faults}
    decoded = replace(decoded, results=tuple(result.without(still) for result in decoded.results))
    if plan.selection.of(CHANGELOG) is None:
        _commit_system_rows(pipeline, plan, decoded.results)
    tallies = _stored_tallies(pipeline, [mark.window for mark in plan.appends.marks.values()], without=still)
    for result in decoded.results:
        for key, tally in (*result.tallies.items(), *result.compared.items()):
            tallies.setdefault(key, TableTally()).merge(tally)
    if plan.selection.whole or plan.changelogs:
        appended_next = dict.fromkeys(plan.appends.of_next_run(plan.again, plan.ingested), plan.run)
        rows = window_tables_of(
            tallies,
            decoded.before.changes([table for table in plan.changelogs if table not in still]),
            appended_next,
        )
        chosen = None if plan.selection.whole else plan.selection.of(CHANGELOG)
        pipeline.ledger.replace_window_tables(plan.windows_again, rows, tables=chosen, besides=still, turn=plan.turn)
    tallies |= _stored_tallies(pipeline, [mark.window for mark in plan.proven])
    written = frozenset(table for result in decoded.results for table in result.files)
    rejected = quarantine_rows(pipeline, plan.windows) if plan.selection.whole else None
    lacking = {mark.window.start for mark in (plan.again if still else ())}
    lacking |= {start for start, mark in plan.stored.items() if mark.paused}
    unbalanced = unbalanced_windows(pipeline, plan.windows, rejected, lacking=lacking)
    touched, altered = _touched(plan, decoded.results, kept_in, without=still)
    return Written(tallies, unbalanced, _firsts(decoded.results), written, faults, kept_in, touched, altered)


def quarantined_entries(tallies: Iterable[tuple[TallyKey, TableTally]]) -> Mapping[datetime, int]:
    """Return the number of entries whose rows could not be used, by window start."""
    counts: Counter[datetime] = Counter()
    for (start, _, _), tally in tallies:
        counts[start] += tally.quarantined_entries
    return counts


def _kept_windows(plan: TablesPlan, decoded: Decoded) -> dict[TableId, frozenset[datetime]]:
    """Return the compared windows in which tables keep their files."""
    compared, made = plan.appends.compared, dict[TallyKey, TableTally]()
    for result in decoded.results:
        for key, tally in result.compared.items():
            made.setdefault(key, TableTally()).merge(tally)
    rows = {key: (tally.changes, tally.truncations, tally.row_hash) for key, tally in made.items()}
    return tables_as_stored(compared, rows, plan.counted, decoded.tables, paused=plan.paused)


def _commit_changelogs(
    pipeline: Pipeline,
    plan: TablesPlan,
    decoded: Decoded,
    kept_in: Mapping[TableId, frozenset[datetime]],
    progress: Progress,
) -> Mapping[TableId, Fault]:
    """Commit the changelog files of all tables, one commit a table, and return the faults.

    Windows that are appended to keep their files. The files of a table that failed stay: its commit may have landed unheard.
    """
    began = time.monotonic()
    files: dict[TableId, list[WrittenFile]] = {}
    for result in decoded.results:
        for table, some in result.files.items():
            # Windows that are made for resumed tables alone: all tables were decoded, for quarantine and statements.
            wanted = [
                file
                for file in some
                if plan.replaces(table, file.partition[0])
                and not (file.path in result.compared_paths and file.partition[0] in kept_in[table])
            ]
            files.setdefault(table, []).extend(wanted)
            pipeline.lake.discard(pipeline.table_path(CHANGELOG.name, table), set(some).difference(wanted))

    def commit(table: TableId) -> bool:
        path, head = pipeline.table_path(CHANGELOG.name, table), decoded.heads.get(table)
        found = head
        for starts, keep in _replaced_and_appended(plan, kept_in[table]):
            mine = {start for start in starts if plan.replaces(table, start)}
            new = [file for file in files.get(table, ()) if file.partition[0] in mine]
            if not mine:
                continue
            done = pipeline.lake.replace(path, {"window_start": mine}, new, keep=keep, assertion=stands_at(head))
            head = head if done.snapshot_id is None else done.snapshot_id
        return head != found

    done = do_apart(CHANGELOG.name, decoded.tables, commit, busy={table for table, some in files.items() if some})
    committed = sum(done.results.values())
    changes = sum(tally.changes for result in decoded.results for tally in result.tallies.values())
    rows = rate(changes, "row changes", decoded.seconds + time.monotonic() - began)
    progress(f"changelog: stored {committed} tables with rows, of {len(decoded.tables)}, {rows}")
    return done.faults


def _replaced_and_appended(
    plan: TablesPlan, kept_in: Collection[datetime] = ()
) -> list[tuple[set[datetime], Keep | None]]:
    """Return the starts of the windows that are replaced, and of the windows that are appended to.

    Windows that are appended to come with the rule for the files that stay; for replaced windows it is None. ``kept_in`` are
    those of a table that keeps files.
    """
    appended = {*plan.appends.marks, *kept_in}
    replaced = {mark.window.start for mark in plan.again} - appended
    parts = ((replaced, None), (appended, kept([plan.appends.made_by])))
    return [(starts, keep) for starts, keep in parts if starts]


def _commit_system_rows(pipeline: Pipeline, plan: TablesPlan, results: Sequence[TablesResult]) -> None:
    """Commit the quarantine and the statements of whole windows.

    These rows stand under no one table, so a run of some tables leaves them be.
    """
    for starts, keep in _replaced_and_appended(plan):
        inside: Rectangle = {"window_start": starts, "stage": {"tables"}}
        for name, files in (
            ("quarantine", [file for result in results for file in result.quarantine_files]),
            ("ddl", [file for result in results for file in result.ddl_files]),
        ):
            mine = [file for file in files if file.partition[1] in starts]
            pipeline.lake.replace(pipeline.path(name), inside, mine, base=plan.base(name, starts), keep=keep)


def _stored_tallies(
    pipeline: Pipeline, windows: Sequence[Window], *, without: Collection[TableId] = ()
) -> dict[TallyKey, TableTally]:
    """Return the counts that an earlier run stored for windows whose rows stay, but those of tables ``without``."""
    rows = pipeline.ledger.window_tables(windows) if windows else []
    return {
        (row.window_start, row.kafka_partition, row.table): TableTally(
            row.changes, row.kept, row.filtered, row.quarantined, row.truncations, row.row_hash, row.absent_rows,
            row.invalid_values, row.partial_moves, row.first_position, row.last_position,
            quarantined_entries=row.quarantined_entries,
            invalid_columns=Counter({one.column: one.values for one in row.invalid_columns if one.values}), keys=row.keys,
            lists=row.lists, statements=row.statements, deletes=row.deletes, moves=row.moves,
        )
        for row in rows
        if row.table not in without
    }  # fmt: skip


def _firsts(results: Iterable[TablesResult]) -> dict[datetime, list[SourcePosition]]:
    firsts: dict[datetime, list[SourcePosition]] = {}
    for result in results:
        for (start, _, _), tally in result.tallies.items():
            if tally.first is not None:
                firsts.setdefault(start, []).append(tally.first)
    return firsts


def _touched(
    plan: TablesPlan,
    results: Iterable[TablesResult],
    kept_in: Mapping[TableId, Collection[datetime]],
    *,
    without: Collection[TableId],
) -> tuple[dict[TableId, SourcePosition], dict[TableId, dict[datetime, SourcePosition]]]:
    """Return ``touched`` and ``altered`` of what was written, but for tables ``without``."""
    former, made = dict[TallyKey, TableTally](), dict[TallyKey, TableTally]()
    for row in plan.counted:
        keeps_rows = row.window_start in plan.appends.marks or row.window_start in kept_in.get(row.table, ())
        if not keeps_rows and row.table not in without and plan.replaces(row.table, row.window_start):
            counted = TableTally(first=row.first_position, statements=row.statements)
            former[row.window_start, row.kafka_partition, row.table] = counted
    for result in results:
        compared = {key: one for key, one in result.compared.items() if key[0] not in kept_in.get(key[2], ())}
        for key, tally in (*result.tallies.items(), *compared.items()):
            if plan.replaces(key[2], key[0]):
                made.setdefault(key, TableTally()).merge(tally)
    touched, altered = dict[TableId, SourcePosition](), dict[TableId, dict[datetime, SourcePosition]]()
    for (_, _, table), tally in (*former.items(), *made.items()):
        if tally.first is not None:
            touched[table] = min(tally.first, touched.get(table, tally.first))
    for key, tally in made.items():
        start, _, table = key
        if tally.first is not None and tally.statements > former.get(key, TableTally()).statements:
            mine = altered.setdefault(table, {})
            mine[start] = min(tally.first, mine.get(start, tally.first))
    return touched, altered


def window_tables_of(
    tallies: Mapping[TallyKey, TableTally],
    before: Mapping[TallyKey, int],
    runs: Mapping[datetime, str],
) -> list[WindowTable]:
    """Return the ledger's rows of the counts.

    ``before`` counts the changes that were delivered before. ``runs`` has, by window start, the run whose count the next one
    may add to.
    """
    found = {key: tallies.get(key, TableTally()) for key in tallies.keys() | before.keys()}
    return [
        WindowTable(
            kafka_partition=partition,
            window_start=start,
            table=table,
            changes=tally.announced,
            kept=tally.changes,
            filtered=tally.filtered,
            redelivered=before.get((start, partition, table), 0),
            quarantined=tally.quarantined,
            truncations=tally.truncations,
            statements=tally.statements,
            deletes=tally.deletes,
            moves=tally.moves,
            quarantined_entries=tally.quarantined_entries,
            row_hash=tally.row_hash,
            absent_rows=tally.absent_rows,
            invalid_values=tally.invalid_values,
            invalid_columns=tuple(InvalidColumn(*one) for one in sorted(tally.invalid_columns.items()) if one[1]),
            partial_moves=tally.partial_moves,
            keys=tally.keys,
            lists=tally.lists,
            first_position=tally.first,
            last_position=tally.last,
            run=runs.get(start, ""),
        )
        for (start, partition, table), tally in sorted(found.items())
    ]
