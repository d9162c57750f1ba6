"""The work of one snapshot table: nothing, taking newer changes over, or computing keys again.

A snapshot commit carries the frontier it stands at and the changelog state it was made from. The next one works on the
difference alone: the changes between the two frontiers, and the windows that were replaced between the two changelog states.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from typing import Any

from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.key_periods import KeyPeriod, KeySpan, joined_periods, spans_of
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.lost_keys import LostKey
from dts_assets.model.positions import SourcePosition
from dts_assets.model.present_columns import PresentColumn, PresentColumns, columns_digest
from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.model.tables import TableId


@dataclass(frozen=True, slots=True)
class TableWindow:
    """The counts of one table in one window, over all Kafka partitions.

    ``first`` and ``last`` are the least and the greatest source position, of changes and of ``statements`` that may have changed
    the table beyond its events.
    """

    window_start: datetime
    changes: int
    first: SourcePosition
    last: SourcePosition
    absent_rows: int = 0
    truncations: int = 0
    invalid_values: int = 0
    partial_moves: int = 0
    keys: tuple[KeyPeriod, ...] = ()
    statements: int = 0

    @property
    def has_rows(self) -> bool:
        """True if the changelog has rows of the window."""
        return bool(self.changes or self.truncations)


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The state of a snapshot: its frontier, the greatest position it has applied, the changelog's Iceberg snapshot.

    ``truncated`` says that a truncation was among the changes that it was made from. ``chain`` names the chain of runs that made
    the changelogs of the frontier's window, if the window was open: as long as the name stays, these runs have only added rows
    that the frontier did not hold. ``unfit`` says that its keys may have values that do not fit their columns, ``absent`` that
    changes lack columns, ``moves`` that some of these move rows. ``waits_from`` is the start of the first window with changes
    or statements that the frontier does not hold; None if it holds all. ``added`` names the columns that the snapshot has on
    request. ``keys`` are the primary keys that changes told so far. ``shape`` is the digest of the columns that events told
    last, empty where they told several. ``present`` are the columns that it has because it follows the statements of its table;
    None where it has all columns that events told. ``followed`` is the text of
    :func:`~dts_assets.stages.history_statements.statements_text` for the statements that a history follows, and
    ``followed_columns`` the digest of the columns that its changelog had then. ``passed`` is the text of the rules that the rows
    of its changelogs have passed because of the tables that they reach. ``ambiguous`` is a digest of the changes that may mean
    several different rows of a table without a key, 0 without one: each has a row in quarantine. ``unfollowed`` has the first
    statement whose changes the rows of a merged table lack, or says which rows it lacks; empty where it lacks none. ``lost`` says
    since when no change finds some of its rows.

    What was true once stays true: so a plan needs the counts of the windows from :attr:`reads_from` on, and no earlier ones.
    """

    frontier: Frontier = EMPTY_FRONTIER
    applied: SourcePosition | None = None
    changelog_snapshot: int | None = None
    truncated: bool = False
    chain: str = ""
    unfit: bool = False
    absent: bool = False
    moves: bool = False
    waits_from: datetime | None = None
    added: tuple[str, ...] = ()
    keys: tuple[KeyPeriod, ...] = ()
    shape: str = ""
    present: PresentColumns | None = None
    followed: str = ""
    followed_columns: str = ""
    passed: str = ""
    ambiguous: int = 0
    unfollowed: str = ""
    lost: LostKey | None = None

    @property
    def doubt(self) -> str:
        """The reason why columns or rows are not proven; empty where they are."""
        found = self.unfollowed if self.present is None else self.present.doubt
        return found or ("" if self.lost is None else str(self.lost))

    @property
    def reads_from(self) -> datetime | None:
        """The start of the first window whose counts the next plan needs; None stands for all windows.

        It needs those of replaced windows, too. The window of the frontier is among them: it may have been open.
        """
        window = self.frontier.window
        return window if window is None or self.waits_from is None else min(window, self.waits_from)

    def to_text(self) -> str:
        """Return the text that stands in the properties of a snapshot commit."""
        frontier = self.frontier
        return json.dumps(
            {
                "window": frontier.window and frontier.window.isoformat(),
                "whole_until": frontier.whole_until and frontier.whole_until.isoformat(),
                "cut": frontier.cut and astuple(frontier.cut),
                "applied": self.applied and astuple(self.applied),
                "changelog_snapshot": self.changelog_snapshot,
                "truncated": self.truncated,
                "chain": self.chain,
                "unfit": self.unfit,
                "absent": self.absent,
                "moves": self.moves,
                "waits_from": self.waits_from and self.waits_from.isoformat(),
                "added": self.added,
                "keys": [[astuple(one.first), astuple(one.last), one.columns] for one in self.keys],
                "shape": self.shape,
                "present": self.present and astuple(self.present),
                "followed": self.followed,
                "followed_columns": self.followed_columns,
                "passed": self.passed,
                "ambiguous": self.ambiguous,
                "unfollowed": self.unfollowed,
                "lost": self.lost and [astuple(self.lost.position), self.lost.has_key],
            }
        )

    @classmethod
    def of_text(cls, text: str) -> SnapshotState:
        """Return the inverse of :meth:`to_text`."""
        raw = json.loads(text)
        window, whole_until = (raw[name] and datetime.fromisoformat(raw[name]) for name in ("window", "whole_until"))
        cut, applied = (raw[name] and SourcePosition(*raw[name]) for name in ("cut", "applied"))
        # A state of an earlier version has not noted all of this: its next plan needs the counts of all windows.
        waits_from = raw.get("waits_from", _LONG_AGO)
        keys = (
            KeyPeriod(SourcePosition(*first), SourcePosition(*last), tuple(key))
            for first, last, key in raw.get("keys", ())
        )
        return cls(
            Frontier(window, whole_until, cut), applied, raw["changelog_snapshot"], raw["truncated"], raw["chain"], raw["unfit"],
            raw.get("absent", False), raw.get("moves", False), waits_from and datetime.fromisoformat(waits_from),
            tuple(raw.get("added", ())), tuple(keys), raw.get("shape", ""), _present(raw.get("present")),
            raw.get("followed", ""), raw.get("followed_columns", ""), raw.get("passed", ""), raw.get("ambiguous", 0),
            raw.get("unfollowed", ""), _lost(raw.get("lost")),
        )  # fmt: skip


def _present(raw: list[Any] | None) -> PresentColumns | None:
    return (
        None if raw is None else PresentColumns(raw[0], raw[1], tuple(PresentColumn(*one) for one in raw[2]), *raw[3:])
    )


def _lost(raw: list[Any] | None) -> LostKey | None:
    return None if raw is None else LostKey(SourcePosition(*raw[0]), raw[1])


_LONG_AGO = "0001-01-01T00:00:00+00:00"

EMPTY_STATE = SnapshotState()
"""The state of a snapshot that was never written."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The runs that made the changelogs of an open window, each only by appending."""

    name: str
    runs: frozenset[str]


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """The work of one snapshot.

    ``newer`` are the windows with changes or statements that the new frontier holds and the old one did not. Keys of changes in
    ``newer`` at or before ``suspect_until`` (a re-read of what was applied already), and keys of the ``replaced`` windows in
    their old and new version, are computed again from the whole changelog. ``fold_absent`` says that some change lacks columns,
    ``follow_moves`` that some of these moves its row: then the keys that rows came from or went to are computed again, too.
    ``rebuilds`` says that all rows are made again from the changelog: a truncation came or may have gone, or the rows that stand
    are not to be relied on. ``spans`` are the changes to look at, by the primary key that finds their rows; none where changes
    tell no key. ``doubts_keys`` says that the key changed amid changes of which only sums are known here: what all windows tell
    decides then.
    """

    state: SnapshotState
    newer: tuple[datetime, ...]
    replaced: tuple[datetime, ...]
    suspect_until: SourcePosition | None
    fold_absent: bool
    follow_moves: bool = False
    rebuilds: bool = False
    spans: tuple[KeySpan, ...] = ()
    doubts_keys: bool = False

    @property
    def nothing(self) -> bool:
        """True if the snapshot already holds what the new frontier asks for."""
        return not (self.newer or self.replaced or self.rebuilds)

    @property
    def recomputes(self) -> bool:
        """True if some keys have to be computed again from the changelog."""
        return bool(self.replaced) or self.suspect_until is not None


def plan_snapshot(
    before: SnapshotState,
    after: Frontier,
    *,
    changelog_snapshot: int | None,
    windows: Iterable[TableWindow],
    replaced: Iterable[datetime],
    chains: Mapping[datetime, Chain] = {},
    anew: bool = False,
    added: tuple[str, ...] = (),
    told: Iterable[KeyPeriod] | None = None,
    has_key: bool = True,
    sends_parts: bool = False,
) -> SnapshotPlan:
    """Return the work that brings a snapshot from ``before`` to ``after``.

    Args:
        before: The state that the snapshot is in.
        after: The frontier to bring it to.
        changelog_snapshot: The present Iceberg snapshot of the changelog.
        windows: The counts of the table as the changelog stands now, in the windows that ``before`` reads and in the replaced
            ones; counts of further windows change nothing.
        replaced: The windows whose changelog rows have been replaced since ``before``.
        chains: The chains of windows whose changelogs were made while they were open, by window start.
        anew: Whether the rows that stand are not to be relied on; ``before`` is empty then.
        added: The columns that the snapshot has on request.
        told: The primary keys that all windows of the table tell. None stands for those of ``before`` and ``windows``, which are
            enough where the plan does not doubt them.
        has_key: Whether rows are found by a key, and not by the columns that changes send.
        sends_parts: Whether changes may send a part of their row without lacking a column.
    """
    stats = {window.window_start: window for window in windows if window.has_rows or window.statements}
    held = [window for window in stats.values() if after.holds(window.window_start, window.first)]
    newer = tuple(sorted(window.window_start for window in held if _brings_more(after, before.frontier, window)))
    old = before.frontier
    touched = frozenset(start for start in replaced if old.window is not None and start <= old.window)
    firsts = {start: first_new(old, stats[start]) for start in newer if start not in touched}
    # A statement alone brings no row that could be one of those that were applied already.
    new_rows = [position for start, position in firsts.items() if stats[start].has_rows]
    suspect = before.applied is not None and any(position <= before.applied for position in new_rows)
    applied = max(
        [last_held(after, window) for window in held] + ([before.applied] if before.applied else []), default=None
    )
    new_keys = [period for window in stats.values() for period in window.keys]
    keys = joined_periods((*before.keys, *new_keys) if told is None else told)
    waiting = [window.window_start for window in stats.values() if not after.holds(window.window_start, window.last)]
    state = SnapshotState(
        after,
        applied,
        changelog_snapshot,
        truncated=before.truncated or any(window.truncations for window in held),
        chain=_chain(after, chains),
        unfit=before.unfit or any(window.invalid_values for window in stats.values()),
        absent=before.absent or any(window.absent_rows for window in stats.values()),
        moves=before.moves or any(window.partial_moves for window in stats.values()),
        waits_from=min(waiting, default=None),
        added=added,
        keys=keys,
        shape=before.shape,
        present=before.present,
        followed=before.followed,
        followed_columns=before.followed_columns,
        passed=before.passed,
        unfollowed=before.unfollowed,
    )
    by_parts = not has_key and (state.absent or sends_parts)
    rebuilds = (
        anew
        or any(stats[start].truncations for start in newer)
        # Keys are computed again by one key of the table, and rows may have been found by several, or by parts of them.
        or ((state.truncated or len(keys) > 1 or by_parts) and (bool(touched) or suspect))
    )
    state = state if rebuilds else replace(state, ambiguous=before.ambiguous, lost=before.lost)
    return SnapshotPlan(
        state=state,
        newer=tuple(start for start in newer if start not in touched),
        replaced=tuple(sorted(touched)),
        suspect_until=before.applied if suspect else None,
        fold_absent=state.absent,
        follow_moves=state.moves,
        rebuilds=rebuilds,
        spans=_spans(keys, None if rebuilds else min(firsts.values(), default=None), applied),
        doubts_keys=told is None and _are_mixed(keys, new_keys, rebuilds=rebuilds),
    )


def needs_schemas(
    before: SnapshotState,
    plan: SnapshotPlan,
    windows: Iterable[TableWindow],
    columns: Sequence[Column],
    shapes: Collection[str],
    *,
    names: Collection[str],
    made_again: Collection[datetime],
    is_merged: bool = False,
) -> bool:
    """Return whether a snapshot's columns may become others: then its table's schemas have to be read.

    Args:
        before: The state that the snapshot is in.
        plan: Its plan.
        windows: The counts of the table in the windows that the plan needs.
        columns: All columns that the changelog of the table has.
        shapes: The digests of the columns that events told in the plan's newer windows.
        names: The names of the columns that all events told there and in its replaced windows.
        made_again: The windows that the snapshot holds and the run has made again: their statements may be others now.
        is_merged: Whether its rows are of shards. If their keys differ it has all columns, and may lack statements.
    """
    looked_at = {*plan.newer, *plan.replaced, *made_again}
    if any(window.statements for window in windows if plan.rebuilds or window.window_start in looked_at):
        return True
    if plan.state.absent and not before.absent:
        return True
    if (is_merged or before.present is not None) and (made_again or plan.rebuilds or plan.recomputes):
        return True
    if before.present is not None and not before.present.fits(columns):
        return True
    # A later window, or the part of one behind the cut, may have told another type already, or another column.
    is_ahead = before.present is None and any(
        column.own_types or (names and column.source_names[0] not in names) for column in columns
    )
    # Where events had several lists of columns, nothing says here which one the rows have.
    is_first = before.frontier.window is None
    return is_ahead or not {*shapes} <= {next(iter(shapes), "") if is_first else before.shape}


def has_other_policy(before: SnapshotState, policy: SchemaPolicy) -> bool:
    """Return whether a snapshot has the columns of another policy on schema changes."""
    return before.present is not None and before.present.policy != (policy.value if policy.shapes_columns else "")


def needs_statements(
    before: SnapshotState, plan: SnapshotPlan, windows: Iterable[TableWindow], columns: Sequence[Column], *, moved: str
) -> bool:
    """Return whether statements may change a history, so that they have to be read.

    ``moved`` is the begin of what stands in the state if rows came from other names: their changelogs may have become others.
    Other arguments are those of :func:`needs_schemas`.
    """
    if plan.rebuilds or plan.recomputes or any(window.statements for window in windows):
        return True
    if plan.state.absent and not before.absent:
        return True
    return bool(before.followed) and (
        plan.state.absent  # inserts that lack a column may have a default
        or before.followed.startswith(moved)
        or before.followed_columns != columns_digest(columns)
    )


def _are_mixed(keys: Sequence[KeyPeriod], new: Iterable[KeyPeriod], *, rebuilds: bool) -> bool:
    """Return whether a change of the key lies where new changes do, or behind them.

    A period that was joined over other windows may then hide when its key was told, and a window made again may tell it no more.
    """
    first = min((period.first for period in new), default=None)
    return len(keys) > 1 and (rebuilds or (first is not None and keys[-1].first >= first))


def _spans(keys: Sequence[KeyPeriod], first: SourcePosition | None, last: SourcePosition | None) -> tuple[KeySpan, ...]:
    """Return the spans of the changes between two positions, each of which may be None for no bound."""
    return tuple(
        span
        for span in spans_of(keys)
        if (first is None or span.until is None or first <= span.until)
        and (last is None or span.since is None or span.since < last)
    )


def _chain(frontier: Frontier, chains: Mapping[datetime, Chain]) -> str:
    chain = None if frontier.window is None else chains.get(frontier.window)
    return "" if chain is None else chain.name


def _brings_more(after: Frontier, before: Frontier, window: TableWindow) -> bool:
    """Return whether ``after`` may hold changes of a window that ``before`` does not.

    A window that both frontiers cut at one position gives no work.
    """
    return not before.holds(window.window_start, last_held(after, window))


def first_new(before: Frontier, window: TableWindow) -> SourcePosition:
    """Return a lower bound of the positions that ``before`` does not hold."""
    if before.cut is not None and before.holds(window.window_start, window.first):
        return before.cut.next
    return window.first


def last_held(after: Frontier, window: TableWindow) -> SourcePosition:
    """Return the greatest position that a frontier may hold of a table's changes in a window."""
    if after.holds(window.window_start, window.last) or after.cut is None:
        return window.last
    return min(window.last, after.cut)


def may_reach(greatest: SourcePosition | None, position: SourcePosition) -> bool:
    """Return whether a file may hold a change at or behind a position.

    ``greatest`` has the greatest lineage, file number and position of its rows, each for itself; None where they are not known.
    """
    return greatest is None or greatest >= position


def windows_by_table(rows: Iterable[WindowTable]) -> dict[TableId, tuple[TableWindow, ...]]:
    """Return the windows in which each table has changes or statements, over all Kafka partitions."""
    found: dict[TableId, dict[datetime, TableWindow]] = {}
    for row in rows:
        if row.first_position is None or row.last_position is None:
            continue
        part = TableWindow(
            row.window_start, row.kept, row.first_position, row.last_position, row.absent_rows, row.truncations,
            row.invalid_values, row.partial_moves, row.keys, row.statements,
        )  # fmt: skip
        mine = found.setdefault(row.table, {})
        mine[row.window_start] = _sum(mine[row.window_start], part) if row.window_start in mine else part
    return {table: tuple(mine.values()) for table, mine in found.items()}


def _sum(one: TableWindow, other: TableWindow) -> TableWindow:
    return TableWindow(
        one.window_start,
        one.changes + other.changes,
        min(one.first, other.first),
        max(one.last, other.last),
        one.absent_rows + other.absent_rows,
        one.truncations + other.truncations,
        one.invalid_values + other.invalid_values,
        one.partial_moves + other.partial_moves,
        (*one.keys, *other.keys),
        one.statements + other.statements,
    )
