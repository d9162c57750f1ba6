"""The state that a stored snapshot or history carries, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dts_assets.flows.layers import LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.planning.replaced_windows import replaced_windows
from dts_assets.planning.snapshot_plans import EMPTY_STATE, Chain, SnapshotState
from dts_assets.store.lake import TableState
from dts_assets.store.stored_files import StoredFile


def stored_state(pipeline: Pipeline, layer: str, table: TableId) -> tuple[TableState | None, SnapshotState]:
    """Return the Iceberg snapshot of a layer's table, and the state that it carries."""
    stored = pipeline.lake.state(pipeline.table_path(layer, table))
    text = None if stored is None else stored.properties.get(STATE_PROPERTY)
    return stored, EMPTY_STATE if text is None else SnapshotState.of_text(text)


def by_window(files: Iterable[StoredFile]) -> dict[datetime, frozenset[str]]:
    """Return the paths of changelog files by the starts of their windows."""
    found: dict[datetime, set[str]] = {}
    for file in files:
        found.setdefault(file.partition["window_start"], set()).add(file.path)
    return {start: frozenset(paths) for start, paths in found.items()}


def replaced_since(
    pipeline: Pipeline,
    path: Sequence[str],
    changelog: TableState | None,
    state: SnapshotState,
    chains: Mapping[datetime, Chain] = {},
) -> frozenset[datetime]:
    """Return the windows whose rows a changelog has replaced since a snapshot was made from it.

    A table that got its name by a statement may have had rows of another name before it had a changelog.
    """
    if changelog is None or state.frontier.window is None:
        return frozenset()
    if state.changelog_snapshot is None:
        return replaced_windows({}, by_window(pipeline.lake.data_files(path)), state=state, chains=chains)
    old, now = pipeline.lake.files_apart(path, state.changelog_snapshot, changelog.snapshot_id)
    return replaced_windows(by_window(old), by_window(now), state=state, chains=chains)


def changelog_versions(pipeline: Pipeline, layer: str, table: TableId) -> tuple[int, ...]:
    """Return the Iceberg snapshot of the changelog that a layer's table was made from.

    The next run works on the difference to it.
    """
    made_from = stored_state(pipeline, layer, table)[1].changelog_snapshot
    return () if made_from is None else (made_from,)


def windows_made_again(work: LayerWork, table: TableId, frontier: Frontier) -> frozenset[datetime]:
    """Return the windows of a frontier that the run has made again, other than by adding rows."""
    added_to = work.chains_kept(table)
    return frozenset(
        window.start
        for window in work.windows
        if frontier.window is not None and window.start <= frontier.window and window.start not in added_to
    )
