"""Rows that retention has removed: whoever needs them is told so, and nothing is made from less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.message_retention import ENTRIES, RAW, Removed
from dts_assets.model.spans import Cell
from dts_assets.planning.message_retention import Unmakeable


def refuse_removed_messages(pipeline: Pipeline, removed: Removed, cells: Iterable[Cell]) -> None:
    """Refuse to read messages that retention has removed: they would come back, or be fewer.

    Raises:
        RowsRemovedError: The messages of a cell were removed.
    """
    _refuse(pipeline, RAW, removed.among(RAW, cells), "they cannot be made again")


def refuse_entries_again(pipeline: Pipeline, unmakeable: Unmakeable, stored: Iterable[IngestWindow]) -> None:
    """Refuse to make entries again that were made from messages which retention has removed.

    ``stored`` are the marks of entries that are to be made again. The head of a set may have been in an earlier window.

    Raises:
        RowsRemovedError: Messages that the entries were made from were removed.
    """
    gone = {cell: at for row in stored for cell, at in unmakeable.sources_of(row).items()}
    _refuse(pipeline, RAW, gone, "entries that were made from them cannot be made again")


def refuse_tables_again(pipeline: Pipeline, cells: Iterable[Cell], compared: Iterable[Cell]) -> None:
    """Refuse to make tables from entries that retention has removed.

    ``cells`` are those that the tables are made from, and ``compared`` those that they are compared with.

    Raises:
        RowsRemovedError: Entries of a cell were removed.
    """
    removed = pipeline.unmakeable().removed
    gone = removed.among(ENTRIES, cells)
    _refuse(pipeline, ENTRIES, gone, "the tables of these windows stay as they were made and cannot be made again")
    clause = (
        "a later window may repeat their changes, and nothing tells any more which ones, so its tables are not made; "
        "a subscription with another name reads the topic anew"
    )
    _refuse(pipeline, ENTRIES, removed.among(ENTRIES, compared), clause)


def refuse_removed_entries(pipeline: Pipeline, cells: Iterable[Cell], *, consequence: str) -> None:
    """Refuse to read entries that retention has removed; ``consequence`` is the clause that says what cannot be done.

    Raises:
        RowsRemovedError: Entries of a cell were removed.
    """
    _refuse(pipeline, ENTRIES, pipeline.unmakeable().removed.among(ENTRIES, cells), consequence)


def _refuse(pipeline: Pipeline, layer: str, gone: Mapping[Cell, datetime], consequence: str) -> None:
    if gone:
        raise RowsRemovedError(pipeline.name, layer, {str(cell): at for cell, at in gone.items()}, consequence)
