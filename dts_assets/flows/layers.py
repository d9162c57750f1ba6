"""The layers that have one table for each source table, as values for flows.

The tasks that decode entries write the changelog. Every other layer is made from an earlier layer by a function of its own,
once the changelogs of a run are committed. Flows are imported when they are called: Dagster reads this module in every
process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dts_assets.model.added_columns import CANONICAL
from dts_assets.model.columns import Column
from dts_assets.model.layouts import UNPARTITIONED, Layout
from dts_assets.model.tables import TableId
from dts_assets.store.columns import (
    NamedType,
    added_columns,
    changelog_columns,
    flat_name,
    history_columns,
    snapshot_columns,
    statement_columns,
)

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline, SparkProvider
    from dts_assets.flows.reports import LayerOutcome, Progress
    from dts_assets.model.frontier import Frontier
    from dts_assets.model.positions import SourcePosition
    from dts_assets.model.turns import Turn
    from dts_assets.model.windows import Window
    from dts_assets.planning.cut_tags import ClosedCut
    from dts_assets.planning.snapshot_plans import Chain
    from dts_assets.settings import Subscription


@dataclass(frozen=True, slots=True)
class LayerWork:
    """The order that a run gives to a layer: bring `tables` to the frontier `reached`.

    `windows` are the windows of the run, `chains` the chains of the windows that were made
    while they were open. `turn` has the name of the run that is writing the tables, `behind` the frontiers of tables that some
    windows lack. `compared` are the windows that were made whole and may have kept rows, `kept` has those in which a table did.
    `backlog` are the tables that may have lacked changes before the run; None stands for all tables. `anew` says that all rows
    are made anew. ``closed`` are the closed cuts whose tags are kept; None leaves all tags as they are. ``goes_back`` says that a
    table whose rows stand behind the frontier goes back to it; otherwise it keeps every change that it has applied. ``altered``
    has by table the windows in which the run found new statements, with the least position that it found there, and ``moved_to``
    are the tables to which statements moved changes that the run wrote, or that the frontier holds now.
    """

    pipeline: Pipeline
    tables: Mapping[TableId, Sequence[Column]]
    windows: tuple[Window, ...]
    reached: Frontier
    chains: Mapping[datetime, Chain]
    turn: Turn
    spark: SparkProvider
    progress: Progress
    behind: Mapping[TableId, Frontier] = field(default_factory=dict)
    kept: Mapping[TableId, Collection[datetime]] = field(default_factory=dict)
    compared: Collection[datetime] = ()
    backlog: Collection[TableId] | None = None
    anew: bool = False
    closed: tuple[ClosedCut, ...] | None = None
    goes_back: bool = False
    altered: Mapping[TableId, Mapping[datetime, SourcePosition]] = field(default_factory=dict)
    moved_to: Collection[TableId] = ()

    def frontier(self, table: TableId) -> Frontier:
        """Return the frontier to bring a table to."""
        return self.behind.get(table, self.reached)

    def chains_kept(self, table: TableId) -> Mapping[datetime, Chain]:
        """Return the chains of the windows to which rows of a table were only added.

        This run, too, has replaced none of them.
        """
        replaced = set(self.compared).difference(self.kept.get(table, ()))
        return {start: chain for start, chain in self.chains.items() if start not in replaced}


Make: TypeAlias = Callable[[LayerWork], Mapping[TableId, "LayerOutcome"]]
"""Brings tables of a layer up to date and says what became of each table."""

NeededVersions: TypeAlias = Callable[["Pipeline", TableId], Collection[int]]
"""The function that gives the Iceberg snapshots of earlier layers that a layer's next run reads."""


AskedFor: TypeAlias = Callable[["Subscription"], Sequence[str]]
"""The function that gives the globs of the tables that have a layer."""

Compact: TypeAlias = Callable[["Pipeline", Mapping[TableId, Sequence[Column]], "SparkProvider", "Progress"], None]
"""Puts the files of some tables of a layer in order when a window has closed."""


Added: TypeAlias = Callable[["Subscription", TableId], tuple[str, ...]]
"""The function that names the columns that a table has in a layer on request: ``("_deleted_at", "_op")``."""

Requests: TypeAlias = Callable[["Subscription"], Sequence[str]]
"""The function that gives the requests for columns in a layer, as texts: ``("soft shopdb.orders",)``."""


def _none_needed(pipeline: Pipeline, table: TableId) -> Collection[int]:
    """Return no id: the layer reads earlier layers only as they stand."""
    return ()


LayoutOf: TypeAlias = Callable[["Subscription", TableId], Layout]
"""The function that gives the layout of a table's files in a layer."""


def _none_added(settings: Subscription, table: TableId) -> tuple[str, ...]:
    """Return no column: tables have no more than those of the layer."""
    return ()


def _no_requests(settings: Subscription) -> Sequence[str]:
    """Return no request: nobody can ask for columns in the layer."""
    return ()


def _unpartitioned(settings: Subscription, table: TableId) -> Layout:
    """Return the layout of a layer for which nobody can ask for another one."""
    return UNPARTITIONED


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its name is the part of a path behind the subscription, `("shop", "changelog", "shopdb", "orders")`.

    `columns` gives the lake columns of a source table in this layer. `by_key` says that rows are told apart by the primary key,
    `has_versions` that a row stands there in every version. `asked_for` gives the globs of the tables that have the layer; None
    stands for all tables. `added` gives the columns that a table has on request, `requests` these requests as texts, `layout` the
    layout of its files. `make` is None for the layer that decoding writes, `compact` where files stay as they are made.
    """

    name: str
    columns: Callable[[Sequence[Column]], tuple[NamedType, ...]]
    made_from: Layer | None = None
    by_key: bool = False
    has_versions: bool = False
    asked_for: AskedFor | None = None
    added: Added = _none_added
    requests: Requests = _no_requests
    layout: LayoutOf = _unpartitioned
    make: Make | None = None
    needed_versions: NeededVersions = _none_needed
    compact: Compact | None = None

    @property
    def moves_rows(self) -> bool:
        """True if a statement that renames a table moves its rows in the layer, without a change."""
        return self.by_key or self.has_versions

    def takes(self, settings: Subscription, table: TableId) -> bool:
        """Tell whether a table has the layer."""
        return self.asked_for is None or any(settings.routes.means(table, glob) for glob in self.asked_for(settings))

    def title(self, settings: Subscription) -> str:
        """Return a text that is another one once other tables have the layer, or other columns in it.

        It is `snapshot`, or `history shopdb.orders`.
        """
        globs = () if self.asked_for is None else self.asked_for(settings)
        return " ".join([self.name, *sorted(globs), *self.requests(settings)])

    def columns_of(self, settings: Subscription, table: TableId, columns: Sequence[Column]) -> tuple[NamedType, ...]:
        """Return the lake columns of a source table in this layer, with those that it has on request."""
        return (*self.columns(columns), *added_columns(self.added(settings, table)))

    def key_columns(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Return the names of the lake columns that tell rows apart.

        There is none in a layer whose rows have no identity, and for a table without a primary key.
        """
        return tuple(flat_name(column.name) for column in columns if column.is_key) if self.by_key else ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables that a run makes, by layer name: `{"changelog": {orders}, "snapshot": set()}`.

    A layer that is not named is made whole, with tables that nobody has seen yet. `anew` says that tables of layers that are made
    from others get all rows anew.
    """

    tables: Mapping[str, Collection[TableId]] = field(default_factory=dict)
    anew: bool = False

    @property
    def whole(self) -> bool:
        """True if the run makes everything of its windows, so that it may mark them."""
        return not self.tables

    def of(self, layer: Layer) -> frozenset[TableId] | None:
        """Return the tables to make in a layer; None stands for all tables."""
        chosen = self.tables.get(layer.name)
        return None if chosen is None else frozenset(chosen)

    def takes(self, layer: Layer, table: TableId) -> bool:
        """Return whether the run makes a table in a layer."""
        chosen = self.of(layer)
        return chosen is None or table in chosen


EVERYTHING = Selection()


def _make_rows(name: str, work: LayerWork) -> Mapping[TableId, LayerOutcome]:
    from dts_assets.flows.snapshots import advance_rows

    return advance_rows(work, _layer(name))


def _changelog_versions(name: str, pipeline: Pipeline, table: TableId) -> Collection[int]:
    from dts_assets.flows.stored_snapshots import changelog_versions

    return changelog_versions(pipeline, name, table)


def _compact_rows(
    name: str,
    pipeline: Pipeline,
    tables: Mapping[TableId, Sequence[Column]],
    spark: SparkProvider,
    progress: Progress,
) -> None:
    from dts_assets.flows.snapshot_compaction import compact_rows

    compact_rows(pipeline, _layer(name), tables, spark=spark, progress=progress)


def _make_statements(work: LayerWork) -> Mapping[TableId, LayerOutcome]:
    from dts_assets.flows.statement_layer import write_layer

    return write_layer(work)


def _statement_versions(pipeline: Pipeline, table: TableId) -> Collection[int]:
    from dts_assets.flows.statement_layer import changelog_versions

    return changelog_versions(pipeline, table)


def _layer(name: str) -> Layer:
    return next(layer for layer in LAYERS if layer.name == name)


CHANGELOG = Layer("changelog", changelog_columns)
SNAPSHOT = Layer(
    "snapshot",
    snapshot_columns,
    made_from=CHANGELOG,
    by_key=True,
    added=lambda settings, table: settings.snapshot_columns(table),
    requests=lambda settings: settings.snapshot_requests,
    layout=lambda settings, table: settings.layout_of(table),
    make=partial(_make_rows, "snapshot"),
    needed_versions=partial(_changelog_versions, "snapshot"),
    compact=partial(_compact_rows, "snapshot"),
)
HISTORY = Layer(
    "history",
    history_columns,
    made_from=CHANGELOG,
    has_versions=True,
    asked_for=lambda settings: settings.history,
    added=lambda settings, table: tuple(one for one in settings.document_columns(table) if one == CANONICAL),
    make=partial(_make_rows, "history"),
    needed_versions=partial(_changelog_versions, "history"),
    compact=partial(_compact_rows, "history"),
)
SQL = Layer(
    "sql",
    statement_columns,
    made_from=CHANGELOG,
    asked_for=lambda settings: settings.sql.tables,
    requests=lambda settings: (settings.sql.dialect,) if settings.sql.tables else (),
    make=_make_statements,
    needed_versions=_statement_versions,
)

LAYERS = (CHANGELOG, SNAPSHOT, HISTORY, SQL)
"""All layers, each after the layer that it is made from."""
