"""Positions in a source database's change log, compared as numbers, never as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MOST_DIGITS = 18
_SEGMENT = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})00000([0-9A-F]{3})", re.ASCII)
_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})", re.ASCII)
_LARGEST = (1 << 63) - 1


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

    @property
    def at_server(self) -> ServerPosition:
        """The place at the server, without the lineage."""
        return ServerPosition(self.file, self.position)

    def __str__(self) -> str:
        return f"{self.lineage}:{self.file}:{self.position}"


@dataclass(frozen=True, slots=True)
class ServerPosition:
    """The place of a change in its server's binlog, whose lineage is not decided yet.

    Two of them have no order: one may be of a server that took over and counts its files from 1.
    """

    file: int
    position: int

    def of(self, lineage: int) -> SourcePosition:
        """Return the position in a lineage."""
        return SourcePosition(lineage, self.file, self.position)

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def file_number(file_name: str) -> int:
    """Return the number in a binlog file's name: 5 for ``mysql-bin.000005``; 0 for a name without a number.

    A number of more than 18 digits is none: columns hold 64 bits, and no server writes so many files. The number of a segment of
    PostgreSQL's write-ahead log follows from its place on any timeline, and that of an LSN (``0/16B3748``) is its value.
    """
    if segment := _SEGMENT.fullmatch(file_name):
        return int(segment.group(2), 16) << 12 | int(segment.group(3), 16)
    if lsn := _LSN.fullmatch(file_name):
        number = int(lsn.group(1), 16) << 32 | int(lsn.group(2), 16)
        return number if number <= _LARGEST else 0
    digits = file_name.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


def timeline_of(file_name: str) -> int:
    """Return the timeline in the name of a segment of PostgreSQL's write-ahead log, 0 for any other name.

    A server that takes over begins a timeline, on which the places behind its begin have other content.
    """
    segment = _SEGMENT.fullmatch(file_name)
    return 0 if segment is None else int(segment.group(1), 16)


def has_place(file_name: str) -> bool:
    """Return whether a file name of a PostgreSQL tells a place.

    Without a name the position alone tells it.
    """
    return not file_name or _SEGMENT.fullmatch(file_name) is not None or file_number(file_name) > 0
