"""Positions in a source database's change log, compared as numbers, never as text."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, order=True)
class SourcePosition:
    """The place of a change: lineage, number of the binlog file, position in the file.

    A lineage is one unbroken run of one server's binlog.
    """

    lineage: int
    file: int
    position: int

    @property
    def previous(self) -> SourcePosition:
        """The last position before this one."""
        return SourcePosition(self.lineage, self.file, self.position - 1)

    @property
    def next(self) -> SourcePosition:
        """The first position behind this one."""
        return SourcePosition(self.lineage, self.file, self.position + 1)

    def __str__(self) -> str:
        return f"{self.lineage}:{self.file}:{self.position}"


def file_number(file_name: str) -> int:
    """Return the number in a binlog file's name: 5 for ``mysql-bin.000005``; 0 for a name without a number.

    A number of more than 18 digits is none: columns hold 64 bits, and no server writes so many files.
    """
    digits = file_name.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else 0
