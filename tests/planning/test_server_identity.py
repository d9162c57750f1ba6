"""The decision whether a server is that of a topic: ids alone decide nothing, and a contradiction is never overruled."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from dts_assets.model.server_identity import BinlogEvent, ServerFacts, StoredEvent, TopicTrace, Unread, Verdict
from dts_assets.planning.server_identity import match_server

UUID, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
TIME = datetime(2026, 3, 1, 10, tzinfo=UTC)
MATCHES, MISMATCHES, UNCHECKED = Verdict.MATCHES, Verdict.MISMATCHES, Verdict.UNCHECKED


def topic(
    *, gtid: str | None = "0-1-812", time: datetime | None = TIME, server: str = "0-1", number: int = 812
) -> TopicTrace:
    """A topic whose last two events are a BEGIN and a COMMIT."""
    begin, commit = (StoredEvent(7, place, 1, gtid, time) for place in (1042, 1200))
    return TopicTrace((7, 1200), (begin, commit), {server: number} if gtid else {}, server if gtid else None)


def mysql_topic() -> TopicTrace:
    return topic(gtid=f"{UUID}:812", server=UUID)


def facts(
    gtid: str | None = "0-1-812", time: datetime | None = TIME, *, server_id: int = 1, starts: int = 0
) -> ServerFacts:
    """The binlog of the server that the topic is of; ``starts`` moves its events."""
    places = (1000, 1042, 1100, 1169, 1200)
    events = tuple(BinlogEvent(start + starts, end + starts, server_id, gtid, time) for start, end in pairwise(places))
    return ServerFacts(True, state="0-1-900", files={6: 100, 7: 1200, 8: 50}, events=events, ends_there=True)


def mysql_facts(events: ServerFacts | None = None, *, uuid: str = UUID, executed: str = f"{UUID}:1-900") -> ServerFacts:
    seen = replace(facts(), events=(), ends_there=None, unread=Unread.DENIED) if events is None else events
    return replace(seen, is_mariadb=False, state=None, uuid=uuid, executed=executed)


@pytest.mark.parametrize(
    ("told", "server", "verdict"),
    [
        (topic(), facts(), MATCHES),
        (topic(), facts(time=None), MATCHES),
        (topic(), facts("0-1-813"), MISMATCHES),
        (topic(), facts("0-2-812"), MISMATCHES),
        (topic(), facts(server_id=99), MISMATCHES),
        (topic(), facts(starts=3), MISMATCHES),
        (topic(gtid=None), facts(), MATCHES),
        (topic(gtid=None), facts(time=TIME + timedelta(seconds=1)), MISMATCHES),
        (topic(gtid=None, time=TIME + timedelta(milliseconds=250)), facts(), MATCHES),
        (topic(gtid=None), facts(time=None), UNCHECKED),
        # A task may tell MariaDB's transactions as MySQL's: then times decide, and numbers where no time is known.
        (topic(gtid=f"{UUID}:812", server=UUID), facts(), MATCHES),
        (topic(gtid=f"{UUID}:812", server=UUID), facts(time=None), MATCHES),
        (topic(gtid=f"{UUID}:811", server=UUID), facts(time=None), UNCHECKED),
        (topic(gtid=f"{UUID}:812", server=UUID), facts(time=TIME - timedelta(days=1)), MISMATCHES),
    ],
)  # fmt: skip
def test_the_event_at_the_last_place_decides(told: TopicTrace, server: ServerFacts, verdict: Verdict) -> None:
    assert match_server(told, server).verdict is verdict


def test_a_position_may_be_that_of_the_first_byte() -> None:
    """Some tasks tell the first byte of an event, others the byte behind it."""
    first = tuple(StoredEvent(7, place, 1, "0-1-812", TIME) for place in (1000, 1169))
    assert match_server(TopicTrace((7, 1169), first, {"0-1": 812}, "0-1"), facts()).verdict is MATCHES


def test_the_event_behind_the_place_at_which_reading_begins_decides_nothing() -> None:
    """What stands before it was not read, and the event that ends there is the topic's."""
    told = TopicTrace((7, 1000), (StoredEvent(7, 1000, 1, "0-1-811", TIME),), {"0-1": 811}, "0-1")
    assert match_server(told, facts()).verdict is UNCHECKED


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (
            replace(facts(), files={6: 100, 7: 1199}),
            "its binlog ends at 7:1199, before the topic's last event at 7:1200",
        ),
        (replace(facts(), files={3: 10**9}), "its binlog ends at 3:1000000000"),
        (replace(facts(), files={7: 1199, 8: 4}), "its binlog file 7 has 1199 bytes"),
        (replace(facts(), files={5: 9, 8: 4}), "it has no binlog file 7"),
        (replace(facts(), state="0-1-811,1-1-9000"), "its binlog lacks the topic's transaction 0-1-812"),
        (replace(facts(), state=""), "lacks the topic's transaction"),
        (replace(facts(), events=(), ends_there=False), "no event of its binlog ends or begins at 7:1200"),
    ],
)
def test_a_server_that_lacks_what_the_topic_has_is_another_one(server: ServerFacts, said: str) -> None:
    found = match_server(topic(), server)
    assert found.verdict is MISMATCHES
    assert said in found.reason


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (replace(facts(), events=(), ends_there=None, unread=Unread.PURGED, files={8: 50}), "has purged"),
        (replace(facts(), events=(), ends_there=None, unread=Unread.DENIED), "grant REPLICATION SLAVE"),
        (replace(facts(), events=()), "too much between"),
    ],
)
def test_what_nobody_can_look_at_is_not_decided(server: ServerFacts, said: str) -> None:
    found = match_server(topic(), server)
    assert found.verdict is UNCHECKED
    assert said in found.reason


@pytest.mark.parametrize(
    ("server", "verdict"),
    [
        (mysql_facts(facts(f"{UUID}:812")), MATCHES),
        (mysql_facts(), MATCHES),  # it wrote the last transaction itself, and has it
        (mysql_facts(uuid=UUID.upper()), MATCHES),
        (mysql_facts(executed=f"{UUID}:1-811"), MISMATCHES),  # a copy of its folder has its uuid, too
        (mysql_facts(executed=f"{OTHER}:1-5000"), MISMATCHES),
        (mysql_facts(facts(f"{UUID}:812"), uuid=OTHER), MATCHES),  # the task reads this replica
        (mysql_facts(facts(f"{UUID}:813"), uuid=OTHER), MISMATCHES),
        (mysql_facts(facts(f"{UUID}:812", starts=5), uuid=OTHER), MISMATCHES),  # another replica has other positions
        (mysql_facts(uuid=OTHER), UNCHECKED),  # it may be such a replica
        (mysql_facts(executed=""), MATCHES),  # GTIDs were turned off since
    ],
)
def test_a_mysql_is_known_by_its_transactions_and_their_places(server: ServerFacts, verdict: Verdict) -> None:
    assert match_server(mysql_topic(), server).verdict is verdict


def test_a_mysql_is_no_mariadb() -> None:
    assert match_server(topic(), mysql_facts()).verdict is MISMATCHES


def test_without_messages_nothing_can_be_known_and_a_postgresql_is_another_server() -> None:
    empty = match_server(TopicTrace(), facts())
    assert (empty.verdict, "no message of the topic is stored yet" in empty.reason) == (UNCHECKED, True)
    assert match_server(replace(topic(), is_by_lsn=True), facts()).verdict is MISMATCHES


def test_entries_that_have_left_leave_a_doubt() -> None:
    found = match_server(replace(topic(), events=()), replace(facts(), events=()))
    assert (found.verdict, "have left the lake" in found.reason) == (UNCHECKED, True)
