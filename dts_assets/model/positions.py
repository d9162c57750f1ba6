"""Positions in a source database's change log, compared as numbers, never as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SourcePosition:
    """Where a change stands: the lineage (one unbroken run of one server's binlog), the file's number, the position in it."""

    lineage: int
    file: int
    position: int

    def __str__(self) -> str:
        return f"{self.lineage}:{self.file}:{self.position}"


def file_number(file_name: str) -> int:
    """The number in a binlog file's name: 5 for ``mysql-bin.000005``; 0 where there is none, as in an empty name."""
    digits = file_name.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0
