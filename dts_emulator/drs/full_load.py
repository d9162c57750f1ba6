"""The full load of a DRS task: the rows that the first transactions of a binlog leave behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dts_emulator.errors import UnsupportedSource
from dts_emulator.source.events import Ddl, Image, RowChange, Rows, SourceTable, Transaction


@dataclass(slots=True)
class FullLoad:
    """Transactions added up. ``statements`` made the tables; ``seconds`` is the time of the last commit."""

    seconds: int = 0
    statements: list[Ddl] = field(default_factory=list)
    _rows: dict[SourceTable, Counter[Image]] = field(default_factory=dict)

    def take(self, transaction: Transaction) -> None:
        """Add one more transaction.

        Raises:
            UnsupportedSource: A statement other than CREATE comes after rows: only a server knows how it changes them.
        """
        self.seconds = transaction.end.timestamp
        for event in transaction.events:
            if isinstance(event, Ddl):
                if any(rows.total() for rows in self._rows.values()) and not event.sql.lstrip().upper().startswith(
                    "CREATE"
                ):
                    what = "a statement that may change rows lies inside the full load; let it end earlier"
                    raise UnsupportedSource(what, event.at.file_name, event.at.start)
                self.statements.append(event)
            elif isinstance(event, Rows):
                rows = self._rows.setdefault(event.table, Counter())
                for change in event.rows:
                    if change.before is not None:
                        rows[change.before] -= 1
                    if change.after is not None:
                        rows[change.after] += 1

    def tables(self) -> Iterator[tuple[SourceTable, tuple[RowChange, ...]]]:
        """Every table that has rows, with each row as if it were inserted."""
        for table, rows in self._rows.items():
            if rows.total():
                yield table, tuple(RowChange(None, row) for row in rows.elements())
