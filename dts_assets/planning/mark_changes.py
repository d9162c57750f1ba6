"""Marks that the files of the next run would contradict, and marks that another run has just made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeVar

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import resumed_in
from dts_assets.planning.staleness import FILTERS_INPUT, OTHER_NAMES, input_text

Mark = TypeVar("Mark", RawWindow, IngestWindow, Cut)


def contradicts(stored: Mark, coming: Mark) -> bool:
    """Return whether a stored mark would be wrong beside the files that belong to the ``coming`` one.

    It would be if it stands for other content, and if it names the runs whose files it stands for: the coming files are of
    another run.
    """
    named = stored.made_by if isinstance(stored, Cut) else stored.refreshes
    return stored.generation != coming.generation or bool(named)


def made_meanwhile(
    before: Mapping[datetime, Cut], now: Mapping[datetime, Cut], mark: Cut, *, paused: Collection[TableId] = ()
) -> bool:
    """Return whether the window of a mark was made between two looks, from the same inputs.

    It was not if it lacks a table that is not ``paused`` any more.
    """
    row = now.get(mark.window.start)
    # A run gives marks of other windows an input that makes them stale, and leaves their generation.
    if row is None or resumed_in(row, paused) or input_text(FILTERS_INPUT, OTHER_NAMES) in row.inputs:
        return False
    return row != before.get(mark.window.start) and row.generation == mark.generation
