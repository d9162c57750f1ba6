"""Lakes of compressed transactions: the events of each share a place, and none is lost, in any order of windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import tables_decode
from dts_assets.protocol import subscribe_pb2 as pb
from tests.dts_messages import dml_event, entry, entry_set, number, text
from tests.flows.harness import Harness, settle_open
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.source import Message, write_capture
from tests.flows.test_any_order import assert_equal

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COLUMNS = [("id", "int(11)", True), ("v", "varchar(9)", False)]


def change(table: str, before: tuple[int, str] | None, after: tuple[int, str] | None) -> pb.Entry:
    """One row event; the table ``bag`` has no key."""
    images = [[] if row is None else [number(row[0]), text(row[1])] for row in (before, after)]
    kind = pb.INSERT if before is None else pb.DELETE if after is None else pb.UPDATE
    columns = [(name, original, is_key and table != "bag") for name, original, is_key in COLUMNS]
    return entry(pb.DML, dml_event(columns, [(images[0], images[1])], kind), schemaName="d", tableName=table)


def transaction(place: int, changes: Sequence[pb.Entry], *, inner: int, count: int) -> list[pb.Entry]:
    """BEGIN, changes that are all at the place ``inner``, and COMMIT."""
    transaction_id = f"{SERVER}:{count}"
    begin = entry(pb.BEGIN, pb.Event(beginEvent=pb.BeginEvent(transactionId=transaction_id)), position=place)
    end = entry(pb.COMMIT, pb.Event(commitEvent=pb.CommitEvent(transactionId=transaction_id)), position=place + 100)
    found = [begin, *changes, end]
    for one in found:
        one.header.gtid, one.header.serverId = transaction_id, 1
        one.header.timestamp = 1_767_600_000 + count
    for one in changes:
        one.header.position = inner
    return found


def chain(table: str, since: int, keys: int) -> list[pb.Entry]:
    """Inserts, and updates of one key in their order."""
    found = [change(table, None, (since + key, "a")) for key in range(keys)]
    return [*found, *(change(table, (since, one), (since, other)) for one, other in zip("ab", "bc", strict=True))]


def messages(*, at_zero: bool) -> list[Message]:
    """Three windows with a transaction of two tables each; the first is sent again in the second, in pieces."""
    sent: list[tuple[int, list[pb.Entry]]] = []
    for window in range(3):
        place = 1_000 * (window + 1)
        changes = [*chain("t", 10 * window, 3), *chain("bag", 0, 3)]
        made = transaction(place, changes, inner=0 if at_zero else place + 50, count=window + 1)
        sent.append((window, made))
        if window == 1:
            first = sent[0][1]
            sent += [(1, first[:5]), (1, first[5:])]
    return [
        Message(0, offset, border(window) + timedelta(seconds=10 + offset), _value(entries), offset + 1)
        for offset, (window, entries) in enumerate(sent)
    ]


def _value(entries: Sequence[pb.Entry]) -> bytes:
    data = entry_set(entries)
    return pb.Envelope(version=1, total=1, index=0, data=data).SerializeToString()


def content(harness: Harness) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    tables = (harness.rows("snapshot", "d", name) for name in ("t", "bag"))
    keyed, bag = (sorted((row["id"], row["v"]) for row in rows) for rows in tables)
    return keyed, bag


RIGHT = (
    [(key, "c" if key % 10 == 0 else "a") for key in (0, 1, 2, 10, 11, 12, 20, 21, 22)],
    sorted([(0, "c"), (1, "a"), (2, "a")] * 3),
)


@pytest.mark.more
@pytest.mark.parametrize("at_zero", [False, True])
def test_every_change_is_kept_once_in_any_order_of_windows(tmp_path: Path, at_zero: bool) -> None:
    bench = bench_in_process(tmp_path, "place")
    sent = write_capture(tmp_path / "capture", messages(at_zero=at_zero))
    settings: dict[str, Any] = {"partitions": 1, "window": {"end": border(3)}, "history": ["*"]}
    forwards = bench.open(sent, **settings)
    for window in range(3):
        forwards.all(window)
    forwards.settle()
    assert content(forwards) == RIGHT
    rows = forwards.rows("changelog", "d", "t")
    places = [(row["source_position"]["position"], row["row_number"], row["window_start"]) for row in rows]
    assert len(set(places)) == len(rows) == 15
    assert sum(row.redelivered for row in forwards.pipeline.ledger.window_tables()) == 10
    backwards = bench.open(sent, **settings)
    for window in (2, 0, 1):
        backwards.all(window)
    backwards.settle()
    assert_equal(backwards, forwards)


def in_pieces(*, at_zero: bool, sizes: Sequence[int]) -> list[Message]:
    """One transaction whose events come in messages of so many, all in the first window."""
    changes = [*chain("t", 0, 3), *chain("bag", 0, 3)]
    made = transaction(1_000, changes, inner=0 if at_zero else 1_050, count=1)
    ends = [*accumulate(sizes), len(made)]
    sent = [made[at:until] for at, until in pairwise([0, *ends])]
    end = transaction(2_000, [], inner=0, count=2)
    return [
        Message(0, offset, border(0) + timedelta(seconds=10 + offset), _value(entries), offset + 1)
        for offset, entries in enumerate([*sent, end])
    ]


def grown(folder: Path, messages: Sequence[Message]) -> Harness:
    """A lake of one live window that gets a message at a time."""
    settings: dict[str, Any] = {
        "partitions": 1, "window": {"end": border(3), "live": True}, "complete": False, "consistency": "window"
    }  # fmt: skip
    capture = folder / "capture"
    harness = bench_in_process(folder, "pieces").open(write_capture(capture, []), **settings)
    for place, one in enumerate(messages):
        write_capture(capture, [one], name=f"piece{place}")
        settle_open(harness, rounds=10)
    return harness


@pytest.mark.more
@pytest.mark.parametrize("at_zero", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (4, 4), (2, 1, 1, 3, 3)])
def test_a_transaction_that_arrives_between_two_refreshes_keeps_the_order_of_its_changes(
    tmp_path: Path, at_zero: bool, sizes: Sequence[int]
) -> None:
    harness = grown(tmp_path, in_pieces(at_zero=at_zero, sizes=sizes))
    assert content(harness) == ([(0, "c"), (1, "a"), (2, "a")], [(0, "c"), (1, "a"), (2, "a")])
    rows = harness.rows("changelog", "d", "t")
    assert len({(row["source_position"]["position"], row["row_number"]) for row in rows}) == len(rows) == 5


@pytest.mark.more
def test_changes_that_were_taken_for_copies_come_back_when_later_messages_show_that_they_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look at split places, so that the comparison of copies alone finds them."""
    monkeypatch.setattr(tables_decode, "windows_with_split_places", lambda *_: frozenset())
    harness = grown(tmp_path, in_pieces(at_zero=False, sizes=(2, 1, 1, 5)))
    assert content(harness)[0] == RIGHT[0][:3]
    assert len(harness.rows("changelog", "d", "t")) == 5
    assert "identity: 1 open windows are made again; other changes than before are copies" in harness.lines
