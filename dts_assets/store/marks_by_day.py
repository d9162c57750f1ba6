"""The marks of a subscription as they stood at one moment, read day by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.store.ledger_files import rows_of_file
from dts_assets.store.rows import Kind


@dataclass(frozen=True, slots=True)
class MarksByDay:
    """The marks of raw, entries and tables as they stood at one moment.

    They are read day by day. Days are counted from 1970-01-01, in UTC; a window belongs to the day in which it starts.
    ``files`` has the paths of the files of all days that have any.
    """

    files: Mapping[int, tuple[str, ...]]
    _found: Mapping[str, tuple[Table, Mapping[int, tuple[DataFile, ...]]]]

    def raw_windows(self, days: Iterable[int]) -> list[RawWindow]:
        """Return the marks of raw of some days, by window and Kafka partition."""
        return sorted(self._rows(RawWindow, "raw_windows", days), key=lambda row: (row.window, row.kafka_partition))

    def windows(self, days: Iterable[int]) -> list[IngestWindow]:
        """Return the marks of ingest of some days, by window and Kafka partition."""
        return sorted(self._rows(IngestWindow, "windows", days), key=lambda row: (row.window, row.kafka_partition))

    def cuts(self, days: Iterable[int]) -> list[Cut]:
        """Return the marks of the tables runs of some days, by window."""
        return sorted(self._rows(Cut, "cuts", days), key=lambda row: row.window)

    def files_of_windows(self, days: Iterable[int]) -> tuple[str, ...]:
        """Return the paths of the files with the marks of ingest of some days. Equal paths are equal rows."""
        return tuple(sorted(file.file_path for day in set(days) for file in self._days_of_windows.get(day, ())))

    def count_of_windows(self) -> int:
        """Return the number of the marks of ingest of all days."""
        return sum(file.record_count for files in self._days_of_windows.values() for file in files)

    @property
    def _days_of_windows(self) -> Mapping[int, tuple[DataFile, ...]]:
        return self._found["windows"][1] if "windows" in self._found else {}

    def _rows(self, kind: type[Kind], name: str, days: Iterable[int]) -> list[Kind]:
        if name not in self._found:
            return []
        table, by_day = self._found[name]
        files = (file for day in sorted(set(days)) for file in by_day.get(day, ()))
        return [row for file in files for row in rows_of_file(table, file, kind, ())]
