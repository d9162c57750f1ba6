"""The decision whether a database is the server that a topic's messages are of.

Positions of copied rows are compared with those of messages, so it has to be the server whose binlog the task reads. Ids prove
nothing: the default ids are the same everywhere, and a replica has the transactions at other positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dts_assets.model.gtids import GtidSet, gtid_source, is_domain, server_and_number
from dts_assets.model.server_identity import (
    BinlogEvent,
    ServerFacts,
    ServerMatch,
    StoredEvent,
    TopicTrace,
    Unread,
    Verdict,
)


def match_server(topic: TopicTrace, server: ServerFacts) -> ServerMatch:
    """Return whether a server is that of a topic, with the reason."""
    if topic.is_by_lsn:
        return _other("the topic's positions are those of a PostgreSQL")
    if topic.last is None:
        return _unchecked("no message of the topic is stored yet; let a window close, and run the subscription first")
    reason = next(_contradictions(topic, server), None)
    if reason is not None:
        return _other(reason)
    seen = _last_event(topic.events, server.events)
    if seen is not None:
        return _by_event(*seen)
    if server.ends_there is False:
        return _other(f"no event of its binlog ends or begins at {_at(topic.last)}, where the topic's last event does")
    why = server.unread or (Unread.FAR if topic.events else "the entries of the topic's last events have left the lake")
    if topic.gtids and server.uuid is not None and _same_server(topic.writer, server.uuid):
        return ServerMatch(Verdict.MATCHES, "it wrote the topic's last transaction, and has it")
    advice = "; grant REPLICATION SLAVE to it" if server.unread is Unread.DENIED else ""
    if topic.gtids and server.executed:
        why = f"it has the topic's transactions, as a replica with other positions has them, and {why}"
    return _unchecked(why + advice)


def _contradictions(topic: TopicTrace, server: ServerFacts) -> Iterator[str]:
    """Yield reasons why a server cannot be that of a topic, such as a transaction that it lacks."""
    assert topic.last is not None, "a topic without messages contradicts nothing"
    for name, number in sorted(topic.gtids.items()):
        if server.executed:
            if not _executed(server.executed, name, number):
                yield f"it lacks the topic's transaction {name}:{number}"
        elif server.state is not None and _is_mariadb(name) and dict(_states(server.state)).get(name, 0) < number:
            yield f"its binlog lacks the topic's transaction {name}-{number}"
    if not server.files:
        return
    file, position = topic.last
    end = max(server.files.items())
    if topic.last > end:
        yield f"its binlog ends at {_at(end)}, before the topic's last event at {_at(topic.last)}"
    elif file in server.files and position > server.files[file]:
        yield f"its binlog file {file} has {server.files[file]} bytes, and the topic's last event stands at {_at(topic.last)}"
    elif file > min(server.files) and file not in server.files:
        yield f"it has no binlog file {file}, where the topic's last event stands"


def _last_event(
    stored: Sequence[StoredEvent], read: Sequence[BinlogEvent]
) -> tuple[StoredEvent, list[BinlogEvent]] | None:
    """Return the last stored event that a server's events reach, and those that begin or end there.

    The event at which reading begins is left out: it is a place to begin, and nothing is known of the event before.
    """
    if not read:
        return None
    first, last = read[0].start, read[-1].end
    found = next(
        (one for one in reversed(stored) if first < one.position <= last and one.file == stored[-1].file), None
    )
    return None if found is None else (found, [one for one in read if found.position in (one.start, one.end)])


def _by_event(stored: StoredEvent, read: Sequence[BinlogEvent]) -> ServerMatch:
    """Return the verdict of the events that a server has at the place of a stored one."""
    place = _at(stored.place)
    if not read:
        return _other(f"no event of its binlog ends or begins at {place}, where the topic has one")
    judged = [_is_same(stored, one) for one in read]
    if True in judged:
        return ServerMatch(Verdict.MATCHES, f"its event at {place} is the topic's")
    if None in judged:
        return _unchecked(
            f"its event at {place} tells neither a GTID of the topic's form nor its time; grant REPLICATION SLAVE to the account"
        )
    return _other(f"its event at {place} is another one than the topic's: server id, GTID or time differ")


def _is_same(stored: StoredEvent, read: BinlogEvent) -> bool | None:
    """Return whether a server's event is a stored one; None where nothing but its place is known."""
    if stored.server_id and read.server_id != stored.server_id:
        return False
    one, other = server_and_number(stored.gtid or ""), server_and_number(read.gtid or "")
    if one is not None and other is not None and _is_mariadb(one[0]) == _is_mariadb(other[0]):
        return (one[0].lower(), one[1]) == (other[0].lower(), other[1])
    if stored.time is not None and read.time is not None:
        return stored.time.replace(microsecond=0) == read.time
    # A task may tell MariaDB's transactions in MySQL's form, with their numbers.
    return True if one is not None and other is not None and one[1] == other[1] else None


def _executed(executed: str, name: str, number: int) -> bool:
    """Return whether a set of MySQL's has a transaction; one of MariaDB's is in none."""
    try:
        return GtidSet.parse(executed).holds(gtid_source(name), number)
    except ValueError:
        return False


def _states(text: str) -> Iterator[tuple[str, int]]:
    """Yield the servers of a state of MariaDB's binlog, each with its greatest number: ``("0-1", 812)``."""
    for one in text.split(","):
        found = server_and_number(one.strip())
        if found is not None:
            yield found


def _is_mariadb(server: str) -> bool:
    """Return whether a server's name is of MariaDB's form, ``domain-server``."""
    return is_domain(server.partition("-")[0])


def _same_server(name: str | None, uuid: str) -> bool:
    return name is not None and name.partition(":")[0].lower() == uuid.lower()


def _at(place: tuple[int, int]) -> str:
    return f"{place[0]}:{place[1]}"


def _other(reason: str) -> ServerMatch:
    return ServerMatch(Verdict.MISMATCHES, reason)


def _unchecked(reason: str) -> ServerMatch:
    return ServerMatch(Verdict.UNCHECKED, reason)
