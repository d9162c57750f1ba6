"""The questions to a server that tell whether a topic is of it.

They are about its ids, its transactions, and events of its binlog.

Statements in a binlog's events are data of people, so only places, ids and times are taken from them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.positions import file_number
from dts_assets.model.server_identity import BinlogEvent, ServerFacts, StoredEvent, TopicTrace, Unread
from dts_assets.sources.live_database import DENIED, connected, explained

if TYPE_CHECKING:
    from pymysql.connections import Connection

_MOST = 300
"""The most events that one question reads."""

_FIRST = 4
"""The position of a binlog file's first event."""

_GTID = re.compile(r"GTID (?P<mariadb>\d+-\d+-\d+)|GTID_NEXT= '(?P<mysql>[0-9a-fA-F-]{36}:[^']+)'")
_NO_PLACE = 1220
"""The number of a server's error where no event begins at a place."""

_HEADER = struct.Struct("<IBIIIH")
_NOT_BLOCKING = 1
_OPENED = frozenset({4, 15})
"""The types of events with which a server begins to send a binlog: its file's name and description."""


def server_facts(connection: Connection, place: DatabasePlace, topic: TopicTrace) -> ServerFacts:
    """Return what a server says of itself and of its binlog around a topic's last events.

    Raises:
        DatabaseError: The server refuses a question, or does not answer.
    """
    with explained(place), connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        is_mariadb = "mariadb" in str(cursor.fetchone()[0]).lower()
        uuid, executed, state = _ids(cursor, is_mariadb=is_mariadb)
        files = _files(cursor)
        sizes = {file_number(name): size for name, size in files.items()}
        facts = ServerFacts(is_mariadb, uuid, executed, state, sizes)
        if topic.last is None or topic.is_by_lsn:
            return facts
        if not is_mariadb and _compresses(cursor):
            return ServerFacts(is_mariadb, uuid, executed, state, sizes, unread=Unread.COMPRESSED)
        name = next((one for one in files if file_number(one) == topic.last[0]), None)
        if name is None or topic.last[1] > files[name]:
            unread = Unread.DENIED if not files else Unread.PURGED
            return ServerFacts(is_mariadb, uuid, executed, state, sizes, unread=unread)
        try:
            ends_there = _has_place(cursor, name, topic.last[1])
            events = _around(cursor, name, topic) if ends_there else ()
        except _DeniedError:
            return ServerFacts(is_mariadb, uuid, executed, state, sizes, unread=Unread.DENIED)
    times = _times(place, name, events[0].start, events[-1].end) if events else {}
    timed = tuple(_with_time(one, times) for one in events)
    return ServerFacts(is_mariadb, uuid, executed, state, sizes, timed, ends_there=ends_there)


def _ids(cursor: Any, *, is_mariadb: bool) -> tuple[str | None, str | None, str | None]:
    """Return the uuid and the transactions of a MySQL, and the state of a MariaDB's binlog."""
    if is_mariadb:
        cursor.execute("SELECT @@global.gtid_binlog_state")
        return None, None, str(cursor.fetchone()[0])
    cursor.execute("SELECT @@global.server_uuid, @@global.gtid_executed")
    uuid, executed = cursor.fetchone()
    return str(uuid), str(executed).replace("\n", ""), None


def _compresses(cursor: Any) -> bool:
    """Return whether a MySQL writes compressed transactions."""
    cursor.execute("SHOW GLOBAL VARIABLES LIKE 'binlog_transaction_compression'")
    row = cursor.fetchone()
    return row is not None and str(row[1]).upper() == "ON"


def _files(cursor: Any) -> Mapping[str, int]:
    """Return the server's binlog files with their sizes; none where the account may not see them.

    Raises:
        MySQLError: The server refuses it for another reason.
    """
    import pymysql

    try:
        cursor.execute("SHOW BINARY LOGS")
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] in DENIED:
            return {}
        raise
    return {str(row[0]): int(row[1]) for row in cursor.fetchall()}


class _DeniedError(Exception):
    """The account may not read events."""


def _has_place(cursor: Any, name: str, position: int) -> bool:
    """Return whether an event begins at a position, or the file ends there."""
    return _events(cursor, name, position, most=1) is not None


def _around(cursor: Any, name: str, topic: TopicTrace) -> tuple[BinlogEvent, ...]:
    """Return events around the last stored one, from a stored place before it on.

    The transaction before the last one is the best place to begin, because the GTID stands before the events of a transaction.
    """
    assert topic.last is not None, "the caller has looked"
    found: tuple[BinlogEvent, ...] = ()
    for start in _starts(topic.events, topic.last):
        read = _events(cursor, name, start, most=_MOST)
        if read and read[-1].end >= topic.last[1]:
            return read
        found = found or read or ()
    return found


def _starts(stored: Sequence[StoredEvent], last: tuple[int, int]) -> Iterator[int]:
    """Yield positions to begin at, each once, the best one first."""
    here = sorted({one.position for one in stored if one.file == last[0]})
    latest = max((one for one in stored if one.file == last[0]), key=lambda one: one.position, default=None)
    before = [one.position for one in stored if latest is not None and one.file == last[0] and one.gtid != latest.gtid]
    narrow = min(pairwise(here), key=lambda pair: pair[1] - pair[0], default=None)
    tried = [*([max(before)] if before else []), *here[-2:-1], *([narrow[0]] if narrow else []), _FIRST]
    yield from dict.fromkeys(tried)


def _events(cursor: Any, name: str, position: int, *, most: int) -> tuple[BinlogEvent, ...] | None:
    """Return the events from a position on; None where no event begins there.

    Raises:
        _DeniedError: The account may not read them.
        MySQLError: The server refuses it for another reason.
    """
    import pymysql

    try:
        cursor.execute("SHOW BINLOG EVENTS IN %s FROM %s LIMIT %s", (name, position, most))
    except pymysql.err.MySQLError as error:
        number = error.args[0] if error.args else 0
        if number in DENIED:
            raise _DeniedError from None
        if number == _NO_PLACE:
            return None
        raise
    found, gtid = [], None
    for _, start, _, server_id, end, told in cursor.fetchall():
        named = _GTID.search(told if isinstance(told, str) else "")
        gtid = (named["mariadb"] or named["mysql"]) if named else gtid
        found.append(BinlogEvent(int(start), int(end), int(server_id), gtid))
    return tuple(found)


def _with_time(event: BinlogEvent, times: Mapping[int, datetime]) -> BinlogEvent:
    return BinlogEvent(event.start, event.end, event.server_id, event.gtid, times.get(event.end))


def _times(place: DatabasePlace, name: str, start: int, end: int) -> Mapping[int, datetime]:
    """Return the times of events between two positions, by the position behind each.

    They are read as a replica reads them, over a line of their own. None are there where the account is no replica's.
    """
    import pymysql
    from pymysql.constants import COMMAND

    found: dict[int, datetime] = {}
    with connected(place) as connection:
        try:
            with connection.cursor() as cursor:
                for word in ("master", "source"):
                    cursor.execute(f"SET @{word}_binlog_checksum = 'NONE'")
                cursor.execute("SET @mariadb_slave_capability = 4")
            # Number 0 is no replica's, so that no replica is sent away.
            asked = struct.pack("<IHI", start, _NOT_BLOCKING, 0) + name.encode()
            connection._execute_command(COMMAND.COM_BINLOG_DUMP, asked)
            while (packet := connection._read_packet()) and not packet.is_eof_packet():
                seconds, kind, _, _, behind, _ = _HEADER.unpack_from(packet.get_all_data(), 1)
                if kind not in _OPENED:
                    found[behind] = datetime.fromtimestamp(seconds, UTC)
                if behind >= end and kind not in _OPENED:
                    break
        except pymysql.err.MySQLError:
            return found
    return found
