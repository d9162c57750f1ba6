"""Row images that lack columns of their table's key.

They are told by the columns that events of all windows list.
Canal describes the columns that it sends. Of a server with minimal images an UPDATE has changed columns alone: it looks like a
change of a table without a key, or with a part of it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dts_assets.model.key_periods import PartialLists, list_digest
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId

_BEGIN = ServerPosition(0, 0)


@dataclass(frozen=True, slots=True)
class PartialImages:
    """The lists of columns that lack a part of their table's key.

    They are by Kafka partition and start of the window.
    """

    by_cell: Mapping[tuple[int, datetime], PartialLists] = field(default_factory=dict)

    def text(self, cell: Cell) -> str:
        """Return the lists of a cell as a text; empty without any."""
        found = self.by_cell.get((cell.kafka_partition, cell.window.start), {})
        return _digest(f"{table} {one} {','.join(lacking)}" for (table, one), lacking in found.items()) if found else ""

    @property
    def digest(self) -> str:
        """A digest of all lists; empty without any."""
        cells = (f"{cell} {sorted(lists.items())}" for cell, lists in self.by_cell.items())
        return _digest(cells) if self.by_cell else ""

    def takes(self, row: TableShapeRow) -> bool:
        """Tell whether a shape lacks a part of its table's key."""
        lists = self.by_cell.get((row.kafka_partition, row.window_start), {})
        return (row.table, list_digest(one.name for one in row.columns)) in lists


NO_PARTIAL_IMAGES = PartialImages()


def find_partial_images(
    shapes: Iterable[TableShapeRow], borders: Mapping[TableId, Sequence[SourcePosition]]
) -> PartialImages:
    """Return the lists of columns that lack a part of their table's key.

    A list is one if another one of its table has all its columns and more, with a key of which some columns are missing in it.
    ``borders`` are the positions, ascending, of statements by which a table may have got another key or lost columns: only lists
    between two of them are compared.
    """
    alike: dict[tuple[TableId, int], list[TableShapeRow]] = {}
    for row in shapes:
        at = (row.first_position or _BEGIN).of(0)  # formats that describe what they send have one lineage
        stretch = bisect_right(borders.get(row.table, ()), at)
        alike.setdefault((row.table, stretch), []).append(row)
    found: dict[tuple[int, datetime], dict[tuple[TableId, str], tuple[str, ...]]] = {}
    for (table, _), rows in alike.items():
        keys = {(_names(row), frozenset(one.name for one in row.columns if one.is_key)) for row in rows}
        lacking = {names: _lacking(names, keys) for names in {names for names, _ in keys}}
        for row in rows:
            if missing := lacking[_names(row)]:
                place = table, list_digest(one.name for one in row.columns)
                found.setdefault((row.kafka_partition, row.window_start), {})[place] = missing
    return PartialImages(found)


def _lacking(names: frozenset[str], keys: Iterable[tuple[frozenset[str], frozenset[str]]]) -> tuple[str, ...]:
    """Return the columns of keys that a list lacks; ``keys`` has those that lists of its table tell."""
    return tuple(sorted({one for columns, key in keys if names < columns for one in key - names}))


def _names(row: TableShapeRow) -> frozenset[str]:
    return frozenset(one.name for one in row.columns)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode(errors="surrogatepass")).hexdigest()[:12]
