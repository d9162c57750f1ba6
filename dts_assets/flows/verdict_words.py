"""The words for a snapshot that was compared with a server's table.

Values of cells are told on request alone. A server is called ``source`` or ``server``: the database of the source, or a scratch
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dts_assets.model.differences import Differences, DifferingRow
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    from dts_assets.flows.proof_comparison import TableProof
    from dts_assets.flows.verification import TableVerdict

_SHOWN = 20
"""The most rows of a table that are listed."""


def verdict_words(verdict: TableVerdict) -> str:
    """Return the verdict of a verification on a table in words: ``equal``."""
    if verdict.refused:
        return f"not compared: {verdict.refused}"
    if verdict.is_equal:
        return "equal"
    told = [] if verdict.is_as_at_source else ["differs from the source"]
    told += [] if verdict.is_as_stored else ["files differ from the sum that it carries"]
    if verdict.version_of_others is not None:
        told.append(f"another program has committed version {verdict.version_of_others}")
    return " and ".join(told)


def proof_words(proof: TableProof) -> str:
    """Return the verdict of a proof on a table in words: ``equal, as far as compared``."""
    return "differs from the server" if not proof.equal else "equal" if proof.whole else "equal, as far as compared"


def difference_lines(table: TableId, found: Differences | None, *, server: str, values: bool) -> list[str]:
    """Return a line for each row that differs, with its key and columns.

    More lines say what the rows do not tell. On request rows have the ``values`` of both sides.
    """
    if found is None:
        return []
    rows = sorted(found.rows, key=_place)[:_SHOWN]
    lines = [_row_words(row, server, values=values) for row in rows]
    if found.total > len(rows):
        lines += [f"{count:,} rows differ in {name}" for name, count in sorted(found.columns.items())]
        lines.append(f"{found.total - len(rows):,} more rows differ{', at least' if found.more else ''}")
    elif found.more:
        lines.append("more rows differ")
    lines += [
        f"{count:,} values of {name} did not fit and were not compared" for name, count in sorted(found.unfit.items())
    ]
    lines += [f"{count:,} values of {name} are not known in the lake" for name, count in sorted(found.unknown.items())]
    return [f"{table}: {line}" for line in lines]


def left_out_lines(table: TableId, left_out: Mapping[str, str]) -> list[str]:
    """Return a line for each column that was not compared, with the reason."""
    return [f"{table}: the column {name} was not compared: {reason}" for name, reason in sorted(left_out.items())]


def _place(row: DifferingRow) -> list[tuple[int, str]]:
    """Return the place of a row by its key: 9 stands before 10."""
    return [(len(text or ""), text or "") for text in row.key.values()]


def _row_words(row: DifferingRow, server: str, *, values: bool) -> str:
    key = ", ".join(f"{name} {_shown(text)}" for name, text in row.key.items()) or "a row without a key"
    if row.lake is not None and row.server is not None:
        lake, other = row.lake, row.server
        cells = (f"{name} (lake {_shown(lake[name])}, {server} {_shown(other[name])})" for name in row.columns)
        return f"{key} differs in {', '.join(cells if values else row.columns)}"
    where = (
        "in the lake more than once" if row.is_repeated else f"in the {server if row.lake is None else 'lake'} alone"
    )
    alone = ", ".join(f"{name} {_shown(text)}" for name, text in (row.lake or row.server or {}).items())
    return f"{key} is {where}" + (f": {alone}" if values else "")


def _shown(text: str | None) -> str:
    return "NULL" if text is None else repr(text)
