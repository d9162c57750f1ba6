"""Cases about delivery: pieces, Kafka partitions, messages that come again, other servers and messages that are none."""

from __future__ import annotations

from collections.abc import Mapping

from dts_emulator.conformance.expected import Case
from dts_emulator.conformance.formats import ABILITIES, Abilities
from dts_emulator.conformance.mysql_cases import TWO_PARTITIONS, MysqlCase
from dts_emulator.conformance.plays import (
    made_anew,
    restarted,
    restarted_within_pieces,
    with_broken_messages,
    with_repeated_messages,
)
from dts_emulator.conformance.story import Named, Story, column, each, key

_PIECES = "Tencent Cloud, data subscription Kafka edition (571/58779), Envelope: total, index and data"
_FRAMES = "Avro specification, Object Container Files; Confluent, wire format. The vendor names no frame"
_RESTARTS = "The vendor's page of the format: delivery is at least once"


def _items(story: Story) -> Named:
    return story.table("items", key(), column("n", "int(11)"), column("note", "varchar(400)"))


def _tells_copies(abilities: Abilities) -> bool:
    return abilities.copies != "nothing"


def _unreadable(name: str) -> Mapping[str, int]:
    return {"undecodable_message" if ABILITIES[name].pieces else "undecodable_entries": 1}


def _large(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, *each(range(1, 9), lambda number: {"id": number, "n": number, "note": "长" * 90}))
    story.insert(table, {"id": 20, "n": 1, "note": "short"})
    with story.transaction():
        story.update(table, {"id": 2}, {"note": "改" * 120})
        story.delete(table, {"id": 1})


def _again(story: Story, abilities: Abilities) -> None:
    """Change values to and fro, so that an old change which is applied once more shows."""
    table = _items(story)
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": 0, "note": None}))
    story.mark("kept")
    story.update(table, {"id": 1}, {"n": 1})
    story.delete(table, {"id": 2})
    story.insert(table, {"id": 6, "n": 6, "note": "six"})
    story.update(table, {"id": 3}, {"id": 30})
    story.mark("stopped")
    story.update(table, {"id": 1}, {"n": 2})
    story.insert(table, {"id": 2, "n": 22, "note": None})


def _again_without_a_key(story: Story, abilities: Abilities) -> None:
    bag = story.table("bag", column("word", "varchar(9)"), column("n", "int(11)"))
    story.insert(bag, {"word": "x", "n": 1}, {"word": "x", "n": 1})
    story.mark("kept")
    story.insert(bag, {"word": "y", "n": 2})
    story.delete(bag, {"word": "x"}, most=1)
    story.insert(bag, {"word": None, "n": 3})
    story.mark("stopped")
    story.insert(bag, {"word": "x", "n": 1})


def _again_in_pieces(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": 0, "note": "一" * 60}))
    story.mark("kept")
    story.update(table, {"id": 1}, {"n": 1})
    story.insert(table, *each(range(6, 9), lambda number: {"id": number, "n": 1, "note": "二" * 60}))
    story.mark("stopped")
    story.update(table, {"id": 1}, {"n": 2})
    story.delete(table, {"id": 7})


def _partitions(story: Story, abilities: Abilities) -> None:
    table, other = _items(story), story.table("others", key(), column("n", "int(11)"))
    for first in (1, 11, 21):
        story.insert(table, *each(range(first, first + 10), lambda number: {"id": number, "n": 0, "note": None}))
        story.insert(other, *each(range(first, first + 10), lambda number: {"id": number, "n": number}))
    with story.transaction():
        for number in range(1, 9):
            story.update(table, {"id": number}, {"n": number})
    story.delete(table, {"id": 12})
    story.delete(other, {"id": 11})
    story.update(other, {"id": 1}, {"n": -1})


def _moved_partitions(story: Story, abilities: Abilities) -> None:
    """Keys move one after the other, several seconds apart, from one Kafka partition to the other and back."""
    table = _items(story)
    story.insert(table, *each(range(1, 9), lambda number: {"id": number, "n": number, "note": None}))
    for number in range(1, 9):
        story.update(table, {"id": number}, {"id": 100 + number, "note": "moved"})
    for number in range(1, 5):
        story.insert(table, {"id": number, "n": -number, "note": "new"})
    for number in range(101, 104):
        story.delete(table, {"id": number})


def _truncated(story: Story, abilities: Abilities) -> None:
    table = story.create(
        "items",
        "id INT PRIMARY KEY, n INT, note VARCHAR(400)",
        key(),
        column("n", "int(11)"),
        column("note", "varchar(400)"),
    )
    story.insert(table, *each(range(1, 12), lambda number: {"id": number, "n": number, "note": None}))
    story.truncate(table)
    story.insert(table, *each(range(6, 9), lambda number: {"id": number, "n": -number, "note": "new"}))


def _topics(story: Story, abilities: Abilities) -> None:
    first, second = (
        story.create(name, "id INT PRIMARY KEY, n INT", key(), column("n", "int(11)")) for name in ("one", "two")
    )
    for table in (first, second):
        story.insert(table, *each(range(1, 5), lambda number: {"id": number, "n": number}))
    story.truncate(first)
    story.insert(first, {"id": 2, "n": 22})
    story.update(second, {"id": 1}, {"id": 9})


def _marks(story: Story, abilities: Abilities) -> None:
    story.pause = 25  # a CHECKPOINT falls between any two transactions, a HEARTBEAT between some
    table = _items(story)
    for number in range(1, 9):
        story.insert(table, {"id": number, "n": number, "note": None})
    with story.transaction():
        story.update(table, {"id": 1}, {"n": 11})
        story.delete(table, {"id": 2})


def _server_that_tells_again(story: Story, abilities: Abilities) -> None:
    _servers(story, retold=2)


def _another_server(story: Story, abilities: Abilities) -> None:
    _servers(story, retold=0)


def _servers(story: Story, *, retold: int) -> None:
    table = _items(story)
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": 0, "note": "first server"}))
    story.update(table, {"id": 1}, {"n": 1})
    story.delete(table, {"id": 2})
    story.mark("stopped")
    story.switch_server(retold=retold)
    story.update(table, {"id": 1}, {"n": 2})
    story.insert(table, {"id": 2, "n": 22, "note": "second server"})
    story.delete(table, {"id": 3})


def _between_broken(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, {"id": 1, "n": 1, "note": None})
    story.insert(table, {"id": 2, "n": 2, "note": None})
    story.update(table, {"id": 1}, {"n": 11})


DELIVERY_CASES: tuple[Case, ...] = tuple(
    one.case()
    for one in (
        MysqlCase(
            "set_in_pieces", "Events of a transaction are cut into several messages",
            "each message is parsed by itself; a character is cut in two", _PIECES, _large,
            where=lambda abilities: abilities.pieces, options={"max_message_bytes": 300}, judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "rows_of_one_event_share_a_message", "Messages have up to twenty rows, or one row of a longer event each",
            "the first row of a message is taken, the others are not", _RESTARTS, _large, options={"rows_per_message": 20},
            judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "redelivery_after_a_restart", "The task stops, and reads a stretch of the source again",
            "changes are applied twice: rows of a table without a key, and every change in a changelog", _RESTARTS, _again,
            play=restarted, judges_changes=_tells_copies, has_copies=True,
        ),
        MysqlCase(
            "redelivery_of_a_table_without_a_key", "The task stops, and sends rows of a table without a key again",
            "copies stay as further rows", _RESTARTS, _again_without_a_key, where=_tells_copies, play=restarted,
            judges_changes=_tells_copies, has_copies=True,
        ),
        MysqlCase(
            "messages_that_a_producer_sends_twice", "Every third message stands twice, one behind the other",
            "a change is applied twice, or a piece of a set is joined twice", _RESTARTS, _large, play=with_repeated_messages,
            options={"max_message_bytes": 300}, judges_changes=_tells_copies, has_copies=True,
        ),
        MysqlCase(
            "redelivery_in_other_pieces", "The task stops within the pieces of a set, and cuts the set otherwise when it goes on",
            "pieces of two deliveries are joined, or the second delivery is not taken for a copy", _PIECES, _again_in_pieces,
            where=lambda abilities: abilities.pieces, play=restarted_within_pieces, options={"max_message_bytes": 300},
            judges_changes=lambda abilities: True, has_copies=True,
        ),
        MysqlCase(
            "two_partitions", "Rows of a table go to two Kafka partitions by their keys",
            "a transaction is taken to be in one partition; messages are applied partition by partition", _RESTARTS, _partitions,
            options=TWO_PARTITIONS,
        ),
        MysqlCase(
            "keys_move_between_partitions", "Changes of the new key of a row go to another Kafka partition",
            "partitions are read one after the other, so that a deleted row comes back", _RESTARTS, _moved_partitions,
            options=TWO_PARTITIONS,
        ),
        MysqlCase(
            "truncate_in_two_partitions", "TRUNCATE TABLE stands in one Kafka partition or in both, rows stand in both",
            "rows of the other partition stay, or a copy of the statement empties the table again", _RESTARTS, _truncated,
            options=TWO_PARTITIONS,
        ),
        MysqlCase(
            "a_topic_for_each_table", "Each table has a topic, and statements have another one",
            "topics are read one after the other, so that TRUNCATE empties a table at a wrong moment", _RESTARTS, _topics,
            where=lambda abilities: abilities.copies == "id",
            options={"topic_policy": 1, "topic_template": "conformance-$database$-$tablename$"},
        ),
        MysqlCase(
            "checkpoints_and_heartbeats_between", "CHECKPOINT and HEARTBEAT stand between changes, BEGIN and COMMIT around them",
            "a message without rows stops the consumer", "The vendor's page of the format: message types", _marks,
            where=lambda abilities: abilities.marks, judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "another_server_or_task", "A failover: positions begin anew; in formats with ids the task is made anew",
            "changes with lower positions or ids are taken for copies of old ones", _RESTARTS, _another_server, play=made_anew,
            judges_changes=lambda abilities: True, lineages=2,
        ),
        MysqlCase(
            "another_server_tells_changes_again",
            "A failover: the other server tells the last transactions again, at other positions",
            "changes with other positions are taken for new ones, and old values come back", _RESTARTS, _server_that_tells_again,
            where=lambda abilities: abilities.marks, play=made_anew, judges_changes=lambda abilities: True, has_copies=True,
            lineages=2,
        ),
        MysqlCase(
            "records_behind_the_number_of_a_schema", "Each record stands behind the five bytes of Confluent's wire format",
            "the five bytes are read as a part of the record", _FRAMES, _marks, where=lambda abilities: abilities.frames,
            options={"framing": "confluent"}, judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "records_in_containers", "Each message is an Avro object container with a schema of its own",
            "the header of the container is read as a record", _FRAMES, _marks, where=lambda abilities: abilities.frames,
            options={"framing": "container"}, judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "a_message_that_is_none", "A message that cannot be read stands between good ones",
            "the consumer stops, or passes over it without a word", "Good practice: what cannot be read is kept and named",
            _between_broken, play=with_broken_messages, quarantine=_unreadable,
        ),
    )
)  # fmt: skip
