"""The offline proof: changelogs turned back into SQL, run in a scratch server, and compared with the snapshots.

The server makes rows of statements by rules of its own, and nothing of the snapshots' code takes part in that. Statements are run
up to the frontier of the snapshots, so that both sides stand at one moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dts_assets.errors import NothingFoundError
from dts_assets.flows.known_tables import known_sources, known_tables
from dts_assets.flows.one_by_one import OneByOne, one_by_one
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.proof_comparison import StandingTable, TableProof, compare_table, standing_table
from dts_assets.flows.proof_replay import Existing, Replay, Replayed, prepare_databases
from dts_assets.flows.scratch_account import scratch_account
from dts_assets.flows.scratch_server import ScratchServer
from dts_assets.flows.statement_export import Exported, Wanted, statements_in_order
from dts_assets.model.collections import is_collection
from dts_assets.model.failures import Failure
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.sql_dialects import dialect_of
from dts_assets.wire.ddl.chosen_statements import OF_SERVERS
from dts_assets.wire.ddl.other_parts import Part

if TYPE_CHECKING:
    from dts_assets.flows.reports import Progress

_MYSQL = "mysql"
_FIRST = SourcePosition(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of a proof: what was run, and the verdict on each table.

    ``not_compared`` are tables without a verdict, with the reason, and ``failures`` those of tables that could not be read.
    """

    frontier: Frontier
    replayed: Replayed
    exported: Exported
    tables: Mapping[TableId, TableProof] = field(default_factory=dict)
    not_compared: Mapping[TableId, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    @property
    def equal(self) -> bool:
        """True if no table differs."""
        return all(one.equal for one in self.tables.values())

    @property
    def whole(self) -> bool:
        """True if everything was compared: no table, change, column or value was left out."""
        return (
            self.exported.whole
            and not (self.replayed.refused or self.not_compared or self.exported.parts[Part.CASCADE] or self.failures)
            and all(one.whole for one in self.tables.values())
        )


def prove(
    pipeline: Pipeline,
    server: ScratchServer,
    *,
    tables: Sequence[str] = (),
    existing: Existing = Existing.REFUSE,
    progress: Progress = lambda _: None,
) -> Proof:
    """Run the statements of a subscription in a server, and compare every snapshot with what stands there then.

    ``server`` is a connection with an account that may make others: all work is done by one with rights on the databases of the
    tables alone. ``tables`` are globs, none for all tables. The content stays in the server.

    Raises:
        NothingFoundError: No table has a snapshot that can be compared, and none failed.
        FullDatabasesError: Databases of the server have tables, and ``existing`` says to refuse them.
        ScratchServerError: No account with rights on these databases alone can be made, or the connection is lost.
    """
    wanted = Wanted(dialect_of(_MYSQL), tuple(tables), routes=pipeline.settings.routes)
    not_compared = _without_statements(pipeline, wanted)
    opened = _standing(pipeline, wanted, not_compared)
    standing = {table: one for table, one in opened.results.items() if one is not None}
    standing = {table: one for table, one in standing.items() if one.state.frontier != EMPTY_FRONTIER}
    marked = {mark.window.start for mark in pipeline.ledger.cuts()}
    going_on = [table for table, one in standing.items() if one.state.frontier.window not in marked]
    not_compared |= dict.fromkeys(going_on, "the run that made it has not ended: run the tables")
    of_servers = [table for table, one in standing.items() if one.source.database.lower() in OF_SERVERS]
    not_compared |= dict.fromkeys(of_servers, "each server has a database of this name for itself")
    standing = {table: one for table, one in standing.items() if table not in not_compared}
    if not standing and opened.failures:
        failures = tuple(opened.failures.values())
        return Proof(EMPTY_FRONTIER, Replayed(), Exported(), not_compared=not_compared, failures=failures)
    if not standing:
        raise NothingFoundError("The lake", "snapshot to compare with a server", "run the tables first, or name others")
    frontier = max((one.state.frontier for one in standing.values()), key=_order)
    databases = sorted({one.source.database for one in standing.values()})
    progress(f"prove: {len(standing)} tables, statements go into {', '.join(databases)} on {server.address}")
    behind = {table: one.state.frontier for table, one in standing.items() if one.state.frontier != frontier}
    wanted = replace(wanted, frontier=frontier, standing=behind, databases=frozenset(databases))
    exported = Exported()
    with scratch_account(server, databases) as own:
        prepare_databases(own, databases, existing=existing)
        replay = Replay(own, wanted.dialect.preamble, databases)
        replayed = replay.run(statements_in_order(pipeline, wanted, exported, progress=progress))
        exported.lacking -= set(not_compared)
        late = exported.behind.intersection(standing)
        not_compared |= dict.fromkeys(late, "its snapshot lacks changes that others have: run the tables")

        def compare(table: TableId) -> TableProof:
            found = compare_table(pipeline, own, standing[table])
            progress(f"prove: {table}: {'equal' if found.equal else 'differs'}")
            return found

        compared = one_by_one((table for table in standing if table not in late), compare, named=_comparison_of)
    failures = (*opened.failures.values(), *compared.failures.values())
    return Proof(frontier, replayed, exported, compared.results, not_compared, failures)


def _comparison_of(table: TableId) -> str:
    return f"The comparison of {table}"


def _order(frontier: Frontier) -> tuple[float, SourcePosition]:
    """Return the order of frontiers, the empty one first."""
    window = frontier.window
    return (0.0, _FIRST) if window is None else (window.timestamp(), frontier.cut or _FIRST)


def _without_statements(pipeline: Pipeline, wanted: Wanted) -> dict[TableId, str]:
    """Return the tables that a person asks for and that have no statements, with the reason."""
    routes, found = pipeline.settings.routes, dict[TableId, str]()
    for table, columns in known_tables(pipeline).items():
        if wanted.takes(table) and routes.shard_columns(table):
            found[table] = "rows of several tables are merged in it"
        elif wanted.takes(table) and is_collection(columns):
            found[table] = "it holds documents"
    paused = paused_here(pipeline)
    return found | {table: f"it stands still: {row.reason}" for table, row in paused.items() if wanted.takes(table)}


def _standing(
    pipeline: Pipeline, wanted: Wanted, without: Collection[TableId]
) -> OneByOne[TableId, StandingTable | None]:
    """Return the snapshots as they stand now, each with the Iceberg snapshot that is compared."""
    sources, known = known_sources(pipeline), known_tables(pipeline)
    return one_by_one(
        (table for table in sorted(known) if wanted.takes(table) and table not in without),
        lambda table: standing_table(pipeline, table, sources.get(table, (table,))[0], known[table]),
        named=_comparison_of,
    )
