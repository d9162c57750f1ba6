"""The windows whose changelog files hold other rows than those that a snapshot was made from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dts_assets.model.refreshes import compacted_name, is_made_of, name_of, run_of
from dts_assets.planning.snapshot_plans import EMPTY_STATE, Chain, SnapshotState


def replaced_windows(
    before: Mapping[datetime, frozenset[str]],
    now: Mapping[datetime, frozenset[str]],
    *,
    state: SnapshotState = EMPTY_STATE,
    chains: Mapping[datetime, Chain] = {},
) -> frozenset[datetime]:
    """Return the windows whose data files differ between two changelog states.

    Windows whose files were only compacted are left out. So is the open window that a snapshot in ``state`` stands in, if
    only rows behind its cut were appended.
    """
    none = frozenset[str]()
    return frozenset(
        start
        for start in before.keys() | now.keys()
        if not _same_rows(before.get(start, none), now.get(start, none))
        and not _only_appended(state, start, before.get(start, none), chains)
    )


def _same_rows(before: frozenset[str], now: frozenset[str]) -> bool:
    """Return whether files hold the rows of others.

    These were written as one file, or each of them as a new one.
    """
    if len(now) == 1 and all(is_made_of(path, before) for path in now):
        return True
    gone, come = before - now, now - before
    return len(gone) == len(come) and {name_of(path) for path in come} == {compacted_name([path]) for path in gone}


def _only_appended(
    state: SnapshotState, start: datetime, before: frozenset[str], chains: Mapping[datetime, Chain]
) -> bool:
    chain, stands_at = chains.get(start), state.frontier
    if chain is None or chain.name != state.chain or start != stands_at.window or start == stands_at.whole_until:
        return False
    return all(run_of(path) in chain.runs for path in before)
