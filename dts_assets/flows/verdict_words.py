"""The words for a verdict on a table, with values of cells on request alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dts_assets.flows.differing_rows import DifferingRow
from dts_assets.flows.verification import TableVerdict

_SHOWN = 20
"""The most rows of a table that are listed."""


def verdict_words(verdict: TableVerdict) -> str:
    """Return the verdict on a table in words: ``equal``."""
    if verdict.refused:
        return f"not compared: {verdict.refused}"
    if verdict.is_equal:
        return "equal"
    told = [] if verdict.is_as_at_source else ["differs from the source"]
    return " and ".join([*told, *([] if verdict.is_as_stored else ["files differ from the sum that it carries"])])


def difference_lines(verdict: TableVerdict, *, values: bool) -> list[str]:
    """Return a line for each row that differs, with its key and columns.

    On request it has the ``values`` of both sides.
    """
    found = verdict.differences
    if found is None or not found.rows:
        return []
    lines = [_row_line(verdict, row, values=values) for row in found.rows[:_SHOWN]]
    more = len(found.rows) - len(lines)
    if more or found.more:
        lines.append(
            f"{verdict.table}: {f'{more:,} ' if more else ''}more rows differ{', at least' if found.more else ''}"
        )
    return lines


def _row_line(verdict: TableVerdict, row: DifferingRow, *, values: bool) -> str:
    key = ", ".join(f"{name} {text}" for name, text in row.key.items()) or "a row without a key"
    if row.source is None or row.lake is None:
        side, other = ("the lake", row.lake) if row.source is None else ("the source", row.source)
        return f"{verdict.table}: {key} is in {side} alone" + (f": {_shown(other or {})}" if values else "")
    columns = ", ".join(
        f"{name} (source {row.source[name]!r}, lake {row.lake[name]!r})" if values else name for name in row.columns
    )
    return f"{verdict.table}: {key} differs in {columns}"


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items())
