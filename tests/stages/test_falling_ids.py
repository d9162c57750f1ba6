"""Ids that fall: copies, a task made anew, or nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dts_assets.model.problems import ProblemCode
from tests.stages.task_messages import Change, Sent, Topic, bag, named, snapshot


def life(numbers: Iterable[int], said: str, *, es: int, tick: int, partition: int = 0, **more: str) -> list[Sent]:
    """Messages with ids, one a second; what each says is told by the life and the id."""
    return [
        Sent(number, f"{said}{number}", es + step, tick + step, partition, **more)  # type: ignore[arg-type]
        for step, number in enumerate(numbers)
    ]


def again(sent: Iterable[Sent], *, tick: int, es: int = 0) -> list[Sent]:
    """Messages sent again from a tick on; their ``es`` may be another."""
    return [replace(one, tick=tick + step, es=one.es + es) for step, one in enumerate(sent)]


def notes(changes: Iterable[Change]) -> list[str | None]:
    return [one.note for one in changes]


@pytest.mark.parametrize("borders", [(), (10,), (5, 10, 13), tuple(range(1, 30))], ids=str)
def test_ids_that_begin_again_are_another_lineage_within_a_window_and_across_windows(borders: tuple[int, ...]) -> None:
    first, second = life(range(1, 7), "a", es=0, tick=0), life(range(1, 7), "b", es=10, tick=10)
    topic = Topic([*first, *second], borders)
    history = topic.decide()
    changes = topic.changes(history)
    assert notes(changes) == [one.said for one in (*first, *second)]
    assert [one.at for one in changes] == [(0, n) for n in range(1, 7)] + [(1, n) for n in range(1, 7)]
    assert snapshot(changes) == {n: f"b{n}" for n in range(1, 7)}
    assert not named(history)
    assert [one.lineage for one in history.lineages.all] == [0, 1]


@pytest.mark.parametrize("borders", [(), (10,), (12,), tuple(range(1, 30))], ids=str)
def test_the_same_ids_with_the_same_content_are_copies_whatever_their_time(borders: tuple[int, ...]) -> None:
    first = life(range(1, 7), "a", es=10, tick=0)
    for es in (0, 100, -3):
        topic = Topic([*first, *again(first, tick=10, es=es)], borders)
        assert notes(topic.changes()) == [one.said for one in first]
        assert not named(topic.decide())


def test_the_same_ids_with_other_content_are_another_life_even_if_clocks_went_back() -> None:
    first, second = life(range(1, 7), "a", es=100, tick=0), life(range(1, 4), "b", es=0, tick=10)
    topic = Topic([*first, *second], [10])
    assert notes(topic.changes()) == [one.said for one in (*first, *second)]
    assert not named(topic.decide())


def test_times_may_fall_while_ids_grow() -> None:
    sent = [Sent(number, f"a{number}", es, number) for number, es in enumerate([5, 9, 2, 7, 7, 1], 1)]
    topic = Topic([*sent, *again(sent[1:4], tick=10), *life([7, 8], "a", es=0, tick=20)], [3, 11])
    assert notes(topic.changes()) == [f"a{number}" for number in range(1, 9)]
    assert not named(topic.decide())


@pytest.mark.parametrize("borders", [(), (10,), (12, 15), tuple(range(1, 40))], ids=str)
def test_a_re_read_in_the_middle_of_the_second_life(borders: tuple[int, ...]) -> None:
    first, second = life(range(1, 9), "a", es=0, tick=0), life(range(1, 6), "b", es=10, tick=10)
    rest = life([6, 7], "b", es=20, tick=20)
    topic = Topic([*first, *second, *again(second[2:], tick=16), *rest], borders)
    assert notes(topic.changes()) == [one.said for one in (*first, *second, *rest)]
    assert not named(topic.decide())


@pytest.mark.parametrize("borders", [(), (10,), (20,), (22,), tuple(range(1, 40))], ids=str)
def test_an_older_life_that_is_told_again_is_no_third_one(borders: tuple[int, ...]) -> None:
    first, second = life(range(1, 9), "a", es=0, tick=0), life(range(1, 6), "b", es=10, tick=10)
    rest = life([6, 7], "b", es=30, tick=30)
    topic = Topic([*first, *second, *again(first[2:5], tick=20), *rest], borders)
    assert notes(topic.changes()) == [one.said for one in (*first, *second, *rest)]
    assert len(topic.decide().lineages.all) == 2


def test_a_life_that_has_begun_is_not_compared_again_with_each_window_that_follows() -> None:
    first, second = life(range(1, 60), "a", es=0, tick=0), life(range(1, 40), "b", es=100, tick=60)
    topic = Topic([*first, *second], range(60, 100, 5))
    cells = sorted(topic.rows, key=lambda cell: cell.window)
    made = []
    for count in range(1, len(cells) + 1):
        history = topic.decide(cells[:count])
        made.append(len(topic.comparisons))
        assert not history.undecided
    assert made == [0, *[1] * (len(cells) - 1)]
    assert notes(topic.changes()) == [one.said for one in (*first, *second)]


def test_a_third_life_may_say_what_the_first_one_said() -> None:
    lives = [life(range(1, 5), said, es=es, tick=es) for said, es in (("a", 0), ("b", 10), ("a", 20))]
    topic = Topic([one for some in lives for one in some], [10, 20])
    assert notes(topic.changes()) == [one.said for some in lives for one in some]
    assert [one.lineage for one in topic.decide().lineages.all] == [0, 1, 2]


@pytest.mark.parametrize("borders", [(10,), (12,), (5, 14), tuple(range(1, 40))], ids=str)
def test_another_kafka_partition_follows_although_it_saw_nothing_of_the_first_life(borders: tuple[int, ...]) -> None:
    first, second = life(range(1, 7), "a", es=0, tick=0), life(range(1, 7), "b", es=10, tick=10)
    other = life(range(2, 5), "p", es=11, tick=11, partition=1)
    topic = Topic([*first, *second, *other], borders)
    history = topic.decide()
    found = {one.note: one.at[0] for one in topic.changes(history)}
    assert found == {one.said: 0 for one in first} | {one.said: 1 for one in (*second, *other)}
    assert named(history) == [ProblemCode.LINEAGES], "only times tell it"


def test_kafka_partitions_that_see_other_lives_agree_on_their_order() -> None:
    topic = Topic(
        [
            *life(range(1, 5), "a", es=0, tick=0), *life(range(3, 6), "a-", es=1, tick=1, partition=1),
            *life(range(1, 5), "b", es=20, tick=20), *life(range(1, 5), "c", es=40, tick=40),
            *life(range(2, 5), "c-", es=41, tick=41, partition=1), *life([1, 2], "b-", es=21, tick=21, partition=2),
        ],
        [10, 30, 50],
    )  # fmt: skip
    found = topic.changes()
    assert len(found) == 20
    assert {"abc"[one.at[0]] for one in found if one.note and one.note[0] != "abc"[one.at[0]]} == set()


def test_pieces_of_one_event_are_neither_copies_nor_lives() -> None:
    """Without a key, two pieces of an event can say the same."""
    sent = [
        replace(one, table="bag")
        for one in (
            Sent(1, "x", 0, 0, 0), Sent(1, "x", 0, 1, 0), Sent(1, "y", 0, 2, 0), Sent(1, "x", 0, 2, 1),
            Sent(2, "z", 0, 3, 0), Sent(2, "z", 0, 4, 1), Sent(1, "x", 0, 5, 0), Sent(1, "x", 0, 6, 0),
            Sent(1, "y", 0, 7, 0), Sent(2, "z", 0, 8, 0), Sent(3, "z", 0, 9, 0),
        )
    ]  # fmt: skip
    for borders in ((), (1,), (2, 6), (7,), tuple(range(1, 10))):
        topic = Topic(sent, borders)
        history = topic.decide()
        found = topic.changes(history)
        assert [one.note for one in found if one.partition == 0] == ["x", "x", "y", "z", "z"], borders
        assert [one.note for one in found if one.partition == 1] == ["x", "z"]
        assert not named(history)
        assert len(history.lineages.all) == 1


@pytest.mark.parametrize("borders", [(), (1,), (2,), (3, 5), tuple(range(1, 20))], ids=str)
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_a_message_of_a_table_with_a_key_that_is_sent_twice_in_a_row_is_a_copy(
    borders: tuple[int, ...], chunk: int
) -> None:
    """A producer that got no answer sends its batch again: of one message, or of all pieces of one event."""
    pieces = [Sent(2, "b", 0, 1, key=20), Sent(2, "c", 0, 2, key=21)]
    sent = [
        Sent(1, "a", 0, 0), *pieces, *again(pieces, tick=3), pieces[1], Sent(3, "d", 0, 6), *again([Sent(3, "d", 0, 6)], tick=7),
        *again([Sent(3, "d", 0, 6)], tick=8, es=9), Sent(4, "d", 0, 9),
    ]  # fmt: skip
    sent = [replace(one, tick=tick) for tick, one in enumerate(sent)]
    topic = Topic(sent, borders, chunk=chunk)
    history = topic.decide()
    assert sorted(notes(topic.changes(history)), key=str) == ["a", "b", "c", "d", "d"]
    assert not named(history)
    assert len(history.lineages.all) == 1


def test_a_message_sent_twice_in_a_row_tears_no_full_load() -> None:
    """A second load that says what the first one said is no copy of it, wherever it stumbles."""
    first = life(range(1, 7), "a", es=0, tick=0, kind="INIT")
    second = [*life(range(1, 7), "a", es=10, tick=10, kind="INIT"), *life([7], "b", es=20, tick=20)]
    stumbled = [one for one in second for _ in range(1 + (one.number in (3, 4)))]
    stumbled = [replace(one, tick=10 + tick) for tick, one in enumerate(stumbled)]
    stumbled[1] = replace(stumbled[1], said="other")
    for borders in ((), (10,), (13,), (14, 16), tuple(range(1, 30))):
        changes = [one for one in Topic([*first, *stumbled], borders).changes() if one.op != "truncate"]
        assert notes(changes) == [*(f"a{n}" for n in range(1, 7)), "a1", "other", "a3", "a4", "a5", "a6", "b7"], borders


def test_a_torn_event_gets_its_other_pieces() -> None:
    torn = [Sent(1, "w", 0, 0), Sent(2, "x", 0, 1)]
    topic = Topic([*torn, Sent(1, "w", 0, 2), Sent(2, "x", 0, 3), Sent(2, "y", 0, 4), Sent(3, "z", 0, 5)], [2])
    assert notes(topic.changes()) == ["w", "x", "y", "z"]
    assert not named(topic.decide())


def test_a_piece_of_an_event_that_comes_behind_a_later_event_begins_no_life() -> None:
    """Two requests of a producer changed places: the piece keeps its place in the source's order, and is named."""
    early, late = Sent(5, "piece one", 9, 0, key=1), Sent(5, "piece two", 9, 2, key=2)
    sent = [early, Sent(6, "later", 10, 1, key=2), late, Sent(7, "last", 11, 3, key=3)]
    for borders in ((), (1,), (2,), (1, 2, 3)):
        topic = Topic(sent, borders)
        history = topic.decide()
        changes = topic.changes(history)
        assert snapshot(changes) == {1: "piece one", 2: "later", 3: "last"}, borders
        assert named(history) == [ProblemCode.ID]


def test_what_nobody_can_know_is_kept_by_id_and_named() -> None:
    topic = Topic([*life([1, 2, 5, 6], "a", es=10, tick=0), Sent(3, "late", 5, 9), Sent(7, "a7", 20, 10)], [5])
    history = topic.decide()
    assert notes(topic.changes(history)) == ["a1", "a2", "late", "a5", "a6", "a7"]
    assert named(history) == [ProblemCode.ID]
    assert len(history.lineages.all) == 1


def test_an_id_never_seen_with_a_later_time_begins_a_life() -> None:
    topic = Topic([*life([10, 20], "a", es=0, tick=0), *life([3, 12], "b", es=50, tick=9)], [5])
    assert notes(topic.changes()) == ["a10", "a20", "b3", "b12"]
    assert not named(topic.decide())


def test_ids_that_fall_too_often_to_be_followed_are_named() -> None:
    sent = [one for step in range(80) for one in life([1, 2], "a", es=0, tick=2 * step)]
    topic = Topic(sent)
    history = topic.decide()
    assert {one.note for one in topic.changes(history)} == {"a1", "a2"}
    assert ProblemCode.ID in named(history)
    assert named(Topic(sent[:120]).decide()) == []


def load(numbers: Iterable[int], said: str, *, es: int, tick: int, table: str = "orders", ddl: bool) -> list[Sent]:
    """A full load; its rows have the keys of their ids."""
    numbers = list(numbers)
    statement = Sent(numbers[0], f"CREATE TABLE {table} (id INT, note TEXT)", es, tick, 0, "INIT_DDL")
    rows = [Sent(n, f"{said}{n}", es, tick + n, 0, "INIT", table) for n in numbers[1 if ddl else 0 :]]
    return [statement, *rows] if ddl else rows


@pytest.mark.parametrize("ddl", [True, False], ids=["INIT_DDL", "no INIT_DDL"])
@pytest.mark.parametrize("table", ["orders", "bag"])
@pytest.mark.parametrize("borders", [(), (20,), (23,), tuple(range(1, 60))], ids=["one", "two", "inside", "many"])
def test_a_second_full_load_replaces_what_the_first_one_brought(
    ddl: bool, table: str, borders: tuple[int, ...]
) -> None:
    """Rows of the first load that were deleted since are not in the second one, and one row is as it was."""
    first = load(range(1, 7), "a", es=0, tick=0, table=table, ddl=ddl)
    more = [Sent(7, "x", 9, 9, table=table, key=70), Sent(8, "y", 9, 10, table=table, key=80)]
    second = load(range(1, 5), "a", es=20, tick=20, table=table, ddl=ddl)
    second[-1] = replace(second[-1], said="changed")
    after = [Sent(5, "z", 40, 40, table=table, key=90)]
    topic = Topic([*first, *more, *second, *after], borders)
    history = topic.decide()
    changes = topic.changes(history)
    truth = [(one.number, one.said) for one in second if one.kind == "INIT"] + [(90, "z")]
    if table == "orders":
        assert snapshot(changes) == dict(truth)
    else:
        assert bag(changes) == sorted(truth, key=str)
    assert [one.op for one in changes].count("truncate") == 1
    assert not named(history)


@pytest.mark.parametrize("ddl", [True, False], ids=["INIT_DDL", "no INIT_DDL"])
def test_a_first_full_load_replaces_nothing(ddl: bool) -> None:
    changes = Topic([*load(range(1, 7), "a", es=0, tick=0, ddl=ddl), Sent(7, "x", 9, 9, key=1)]).changes()
    assert [one.op for one in changes] == ["read"] * (5 if ddl else 6) + ["insert"]


def test_a_full_load_behind_changes_of_its_lineage_replaces_them_and_late_rows_are_added() -> None:
    before = [Sent(1, "x", 0, 0, key=70)]
    loaded = load(range(2, 5), "a", es=1, tick=1, ddl=False)
    topic = Topic([*before, *loaded, Sent(5, "y", 9, 9, key=80), Sent(6, "late", 9, 10, 0, "INIT")], [3, 10])
    history = topic.decide()
    assert snapshot(topic.changes(history)) == {2: "a2", 3: "a3", 4: "a4", 80: "y", 6: "late"}
    assert named(history) == [ProblemCode.RELOAD]


def test_definitions_with_one_id_all_count() -> None:
    statements = [Sent(1, f"CREATE TABLE {table} (id INT)", 0, 0, 0, "INIT_DDL") for table in ("orders", "bag")]
    sent = [*statements, Sent(2, "a", 0, 1), *again(statements, tick=5), Sent(2, "a", 0, 9)]
    for borders in ((), (5,), (1,)):
        history = Topic(sent, borders).decide()
        assert sorted(offset for some in history.statements.values() for offset in some) == [0, 1]


def test_a_topic_that_was_recreated_begins_a_life_with_its_offsets() -> None:
    first, second = life(range(1, 7), "a", es=0, tick=0), life(range(1, 4), "b", es=10, tick=10)
    topic = Topic(
        [*first, *second, *again(second, tick=15), *life([4, 5], "b", es=20, tick=20)], [10, 20], epoch_from=10
    )
    changes = topic.changes()
    assert notes(changes) == [*(one.said for one in (*first, *second)), "b4", "b5"]
