"""Snapshots compared with the live source database at one moment, without moving rows.

The source's moment comes first: a transaction with a consistent snapshot, whose binlog position is known. Then the lake is waited
for, and its tables are made as of exactly that position (``flows/moments.py``). So writes that go on meanwhile concern neither
side. Sums are compared, and only where they differ rows are looked for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dts_assets.errors import NothingFoundError
from dts_assets.errors.databases import CopyError
from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.compared_snapshots import stored_total, unknown_values, version_of_others
from dts_assets.flows.compared_tables import ComparedTable, LakeSums, compared_table, refused, sums_of_files
from dts_assets.flows.differing_rows import differing_rows
from dts_assets.flows.known_moments import known_position
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.moments import TablesAt, tables_at
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.repairs import prove_rows, repair_rows
from dts_assets.flows.reports import Progress
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.flows.server_identity import require_server
from dts_assets.flows.unproven import unseen_now
from dts_assets.model.columns import Column
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.differences import Differences
from dts_assets.model.failures import Failure
from dts_assets.model.positions import SourcePosition
from dts_assets.model.server_tables import ServerTable
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtPosition
from dts_assets.sources.live_database import SourceMoment, TableAlteredError, moment_of
from dts_assets.stages.sum_sql import sum_statement

_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SourceSums:
    """The rows of a table at the source and their sum.

    ``misfits`` counts the values that the lake's types do not hold.
    """

    rows: int = 0
    sum: int = 0
    misfits: int = 0


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """The comparison of one table. ``refused`` says why it could not be compared, and is empty where it was.

    ``lake`` are the sums over the files, ``stored`` is the sum over all columns that the snapshot carries, None where it carries
    none. ``left_out`` has the columns that no sum tells, with the reasons. ``differences`` are there where sides are not equal,
    and ``compared`` is what was compared then. ``version_of_others`` is the Iceberg snapshot that another program has committed
    last: what readers of the table find there is not what was compared.
    """

    table: TableId
    lake: LakeSums = field(default_factory=LakeSums)
    stored: int | None = None
    source: SourceSums = field(default_factory=SourceSums)
    left_out: Mapping[str, str] = field(default_factory=dict)
    differences: Differences | None = None
    refused: str = ""
    compared: ComparedTable | None = None
    version_of_others: int | None = None

    @property
    def is_equal(self) -> bool:
        """True if the table was compared and is equal."""
        return not self.refused and self.version_of_others is None and self.is_as_stored and self.is_as_at_source

    @property
    def is_as_stored(self) -> bool:
        """True if the files have the sum that the snapshot carries, or if it carries none."""
        return self.stored is None or self.stored == self.lake.whole

    @property
    def is_as_at_source(self) -> bool:
        """True if the files have the rows and the sum that the source has."""
        return (self.lake.rows, self.lake.compared) == (self.source.rows, self.source.sum)


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of all tables at one position of the source, which holds everything up to it.

    ``repaired`` has the rows that were taken from the source because they differed, as copies that windows take; ``not_repaired``
    the tables whose rows could not be, with the reasons. ``proven`` are equal tables that foreign keys may have
    changed: a note of it ends their state. ``failures`` are those of tables that could not be read.
    """

    position: SourcePosition
    verdicts: Mapping[TableId, TableVerdict]
    repaired: Mapping[TableId, CopiedTable] = field(default_factory=dict)
    not_repaired: Mapping[TableId, str] = field(default_factory=dict)
    proven: Mapping[TableId, CopiedTable] = field(default_factory=dict)
    failures: Mapping[TableId, Failure] = field(default_factory=dict)

    @property
    def unequal(self) -> tuple[TableId, ...]:
        """The tables that were compared and are not equal."""
        return tuple(table for table, one in self.verdicts.items() if not one.refused and not one.is_equal)

    @property
    def refused(self) -> Mapping[TableId, str]:
        """The tables that could not be compared, with the reasons."""
        return {table: one.refused for table, one in self.verdicts.items() if one.refused}


def verify(
    pipeline: Pipeline,
    place: DatabasePlace,
    *,
    tables: Collection[TableId] | None = None,
    timeout: float | None = None,
    repair: bool = False,
    server_is_right: bool = False,
    progress: Progress = lambda _: None,
) -> Verification:
    """Compare snapshots with the source as it is now; ``timeout`` in seconds is otherwise that of the configuration.

    With ``repair`` the rows that differ are taken from the source at the moment of the comparison. ``server_is_right`` is a
    person's word that a database which cannot be checked is the topic's.

    Where the source's position could be off by a commit that was under way, unequal tables are looked at once more, at another
    moment.

    Raises:
        OtherServerError: The database is not the topic's server.
        UncheckedServerError: Rows are to be repaired from a database that cannot be checked.
        DatabaseError: The source does not answer, or refuses a question.
        MissingExtraError: The driver is not installed.
        NothingFoundError: The lake has not reached the moment in time, or does not know positions of a binlog.
    """
    settings = pipeline.settings.verify
    seconds = settings.timeout.total_seconds() if timeout is None else timeout
    chosen, routes = tables, pipeline.settings.routes
    if chosen is None and settings.tables != ("*",):
        chosen = [one for one in known_tables(pipeline) if any(routes.means(one, glob) for glob in settings.tables)]

    def once(some: Collection[TableId] | None, *, is_last: bool) -> tuple[Verification, bool]:
        with moment_of(place) as moment, TemporaryDirectory(prefix="dts-assets-") as folder:
            known = require_server(
                pipeline, moment.connection, place, is_right=server_is_right or not repair, progress=progress
            )
            moment.check_sums()
            progress(f"{place} stands at {moment}")
            found = verify_at(pipeline, moment, Path(folder), tables=some, timeout=seconds, progress=progress)
            if repair and (moment.surely or is_last):
                found = _repaired(pipeline, moment, found, known)
            return found, moment.surely

    found, surely = once(chosen, is_last=False)
    if surely or not found.unequal:
        return found
    again, _ = once(found.unequal, is_last=True)
    return replace(again, verdicts={**found.verdicts, **again.verdicts}, failures={**found.failures, **again.failures})


def _repaired(pipeline: Pipeline, moment: SourceMoment, found: Verification, known: str) -> Verification:
    """Return a comparison whose differing rows were taken from the source."""
    repaired, refused_ = dict[TableId, CopiedTable](), dict[TableId, str]()
    for table in found.unequal:
        verdict = found.verdicts[table]
        if verdict.version_of_others is not None:
            refused_[table] = f"another program has committed to it; run dts-assets tables rebuild {table}"
            continue
        if verdict.compared is None or verdict.differences is None or not verdict.differences.rows:
            continue
        try:
            repaired[table] = repair_rows(
                pipeline, moment, found.position, verdict.compared, verdict.differences, server=known
            )
        except CopyError as error:
            refused_[table] = str(error)
        except TableAlteredError:
            refused_[table] = "the source altered it meanwhile; run it again"
    sources, proven = _sources(pipeline, moment.tables()), dict[TableId, CopiedTable]()
    for table in unseen_now(pipeline).reasons:  # rows that no event changed are right at this moment
        if table in found.verdicts and found.verdicts[table].is_equal and len(sources.get(table, ())) == 1:
            proven[table] = prove_rows(pipeline, moment, found.position, sources[table][0], server=known)
    return replace(found, proven=proven, repaired=repaired, not_repaired=refused_)


def verify_at(
    pipeline: Pipeline,
    moment: SourceMoment,
    folder: Path,
    *,
    tables: Collection[TableId] | None = None,
    timeout: float = 600.0,
    progress: Progress = lambda _: None,
) -> Verification:
    """Compare snapshots with the source at a moment that is held.

    Files of the moment lie in ``folder``, which is only needed meanwhile. ``tables`` are the tables to compare, None stands for
    all. The lake is waited for, at most so many seconds.

    Raises:
        DatabaseError: The source does not answer, or refuses a question.
        NothingFoundError: The lake has not reached the moment in time, or does not know positions of a binlog.
    """
    at, position = wait_for(pipeline, moment, timeout=timeout, progress=progress)
    found = tables_at(pipeline, at, folder, tables=tables, progress=progress)
    described = moment.tables()
    verdicts = {table: TableVerdict(table, refused=f"it stands still: {why}") for table, why in found.paused.items()}
    verdicts |= {table: TableVerdict(table, refused=fault.reason) for table, fault in found.failed.items()}
    sources, known = _sources(pipeline, described), known_tables(pipeline)
    compared = one_by_one(
        sorted(found.tables),
        lambda table: _verdict(pipeline, moment, found, table, known.get(table, ()), sources.get(table, ()), described),
        named=lambda table: f"The comparison of {table}",
        through=DatabaseError,
    )
    verdicts |= compared.results
    verdicts |= {table: TableVerdict(table, refused=one.sentence) for table, one in compared.failures.items()}
    lacking = "the lake has no such table at this moment: it is newer, or no change of it has come"
    asked = (one for one in sources if tables is None or one in tables)
    verdicts |= {one: TableVerdict(one, refused=lacking) for one in asked if one not in verdicts}
    return Verification(position, verdicts, failures=compared.failures)


def wait_for(
    pipeline: Pipeline, moment: SourceMoment, *, timeout: float, progress: Progress = lambda _: None
) -> tuple[AtPosition, SourcePosition]:
    """Wait until the lake is complete up to a moment.

    The moment and its position in the lake are returned.

    Raises:
        NothingFoundError: It is not in time.
    """
    until, told = time.monotonic() + timeout, ""
    while True:
        sources = SchemaSources.of(pipeline)
        lineages = [one.lineage for one in pipeline.ledger.lineages()]
        # A task tells the first byte of an event or the byte behind it. At the moment's own byte a transaction has ended, or the
        # event that begins one stands, which changes nothing.
        at = AtPosition(max(lineages, default=0), moment.file, moment.position)
        try:
            return at, known_position(sources, at, sought="tables")[0]
        except NothingFoundError as late:
            if time.monotonic() >= until:
                raise
            reached = str(sources.frontier.cut)
            if reached != told:
                progress(f"the lake is complete up to {reached}, and {moment} is waited for")
                told = reached
            del late
        time.sleep(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))


def _sources(pipeline: Pipeline, described: Collection[TableId]) -> Mapping[TableId, tuple[TableId, ...]]:
    """Return the tables of the source by the tables of the lake that hold their rows."""
    settings, found = pipeline.settings, dict[TableId, list[TableId]]()
    for source in sorted(described):
        table = settings.routes.decoded_table(source)
        if table is not None and settings.tables.takes(source):
            found.setdefault(table, []).append(source)
    return {table: tuple(some) for table, some in found.items()}


def _verdict(
    pipeline: Pipeline,
    moment: SourceMoment,
    found: TablesAt,
    table: TableId,
    columns: Sequence[Column],
    sources: Sequence[TableId],
    described: Mapping[TableId, ServerTable],
) -> TableVerdict:
    if pipeline.settings.routes.shard_columns(table):
        by_set = pipeline.settings.routes.by_set
        parts = "parts, one in each set of a TDSQL" if by_set else "tables"
        return TableVerdict(table, refused=f"it is merged of several {parts}")
    source = sources[0] if sources else table
    reason = refused(pipeline, table, described.get(source))
    if reason is not None:
        return TableVerdict(table, refused=reason)
    present = pipeline.lake.table(pipeline.table_path(SNAPSHOT.name, table))
    compared = compared_table(
        pipeline,
        table,
        found.tables[table],
        columns=columns,
        source=source,
        described=described[source],
        unknown=unknown_values(present, found.tables[table]),
    )
    if compared is None:
        return TableVerdict(table, refused="its row filter cannot be judged by the source as by the lake")
    try:
        return replace(_compared(moment, table, compared), version_of_others=version_of_others(present))
    except TableAlteredError:
        return TableVerdict(table, refused="the source altered it meanwhile; run it again")


def _compared(moment: SourceMoment, table: TableId, compared: ComparedTable) -> TableVerdict:
    ((rows, summed, misfits),) = moment.rows(sum_statement(compared.rows, compared.pairs))
    source, lake = SourceSums(int(rows), int(summed), int(misfits)), sums_of_files(compared)
    verdict = TableVerdict(table, lake, stored_total(compared.snapshot), source, compared.left_out)
    if verdict.is_equal:
        return verdict
    found = differing_rows(moment, compared, max(source.rows, lake.rows))
    return replace(verdict, differences=found, compared=compared)
