"""Facts about a database server and about a topic, by which one is known as the other's source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""The number of a binlog file, and a position in it."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event of a binlog as messages told it.

    ``position`` is that of its first byte, or of the byte behind it.
    """

    file: int
    position: int
    server_id: int
    gtid: str | None
    time: datetime | None

    @property
    def place(self) -> Place:
        """The file and the position."""
        return self.file, self.position


@dataclass(frozen=True, slots=True)
class TopicTrace:
    """The end of a topic's last lineage.

    ``events`` are its last ones, ascending, and ``gtids`` has the greatest GTID number of each server.
    ``last`` is the greatest place of all, None where no message is stored. ``writer`` is the server that the last GTID names.
    There are no GTIDs where the task made them up. ``is_by_lsn`` says that positions are those of a PostgreSQL.
    """

    last: Place | None = None
    events: tuple[StoredEvent, ...] = ()
    gtids: Mapping[str, int] = field(default_factory=dict)
    writer: str | None = None
    is_by_lsn: bool = False


@dataclass(frozen=True, slots=True)
class BinlogEvent:
    """An event in a server's binlog, from its first byte to the byte behind it.

    ``gtid`` is that of its transaction, None where it is not known; so is ``time``.
    """

    start: int
    end: int
    server_id: int
    gtid: str | None = None
    time: datetime | None = None


class Unread(StrEnum):
    """The reason why a server's binlog was not read; the value is a clause for people."""

    DENIED = "the account may not read events of its binlog"
    PURGED = "it has purged the binlog file of the last stored event"
    COMPRESSED = "it compresses the transactions of its binlog, whose events have no places of their own"
    FAR = "its binlog has too much between the last stored events"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The answers of a server.

    ``uuid`` and ``executed`` (a set of GTIDs) are MySQL's, ``state`` is MariaDB's. ``files`` are the binlog files with their
    sizes. ``events`` are read around the last stored event, in its file; ``unread`` says why there are none. ``ends_there`` is
    False where no event begins or ends at the last stored place, and None where nobody could look.
    """

    is_mariadb: bool
    uuid: str | None = None
    executed: str | None = None
    state: str | None = None
    files: Mapping[int, int] = field(default_factory=dict)
    events: tuple[BinlogEvent, ...] = ()
    unread: Unread | None = None
    ends_there: bool | None = None


class Verdict(StrEnum):
    """The answer to the question whether a server is a topic's."""

    MATCHES = "matches"
    MISMATCHES = "mismatches"
    UNCHECKED = "cannot be checked"


@dataclass(frozen=True, slots=True)
class ServerMatch:
    """A verdict with its reason, which is a clause for people: "it lacks the topic's transaction ..."."""

    verdict: Verdict
    reason: str
