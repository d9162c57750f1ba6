"""Messages that nobody can use: each is named in quarantine, the rest of its window goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.errors.windows import IncompleteWindowError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.model.problems import Completeness, ProblemCode, Reason
from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.short import LANES, SECOND, insert, item, open_short, short_source, with_values
from tests.flows.source import DATABASE, Change, Dml, Message, dml_event, folded

pytestmark = pytest.mark.spark


def entry(message_type: int, event: pb.Event) -> pb.Entry:
    return dts_messages.entry(
        message_type, event, timestamp=int(border(1).timestamp()), fileName="mysql-bin.9", position=999_999,
        schemaName=DATABASE, tableName="items", serverId=77, isLast=True,
    )  # fmt: skip


def damaged(message: Message, **fields: int) -> Message:
    envelope = pb.Envelope.FromString(message.value or b"")
    for name, value in fields.items():
        setattr(envelope, name, value)
    return replace(message, value=envelope.SerializeToString())


def with_data(message: Message, data: bytes) -> Message:
    envelope = pb.Envelope.FromString(message.value or b"")
    envelope.data = data
    return replace(message, value=envelope.SerializeToString())


def ragged(message: Message) -> bytes:
    """The message with a row that lacks values, in the middle of its transaction."""
    envelope = pb.Envelope.FromString(message.value or b"")
    entries = pb.Entries.FromString(envelope.data)
    (dml,) = (one for one in entries.items if one.header.messageType == pb.DML)
    del dml.event.dmlEvent.rows[0].newColumns[1:]
    envelope.data = entries.SerializeToString()
    return envelope.SerializeToString()


class Spoilt:
    """A stream whose second window holds one of everything that is wrong, among much that is right."""

    def __init__(self) -> None:
        self.source = source = short_source()
        self.quarantined: set[tuple[int, int, int, Reason]] = set()  # partition, first and last offset, reason
        self.nulls = 0
        self._changed: dict[tuple[int, int], Message | None] = {}
        self._at = border(1)
        insert(source, border(0) + 10 * SECOND, range(8))
        source.checkpoint(border(0) + 300 * SECOND)
        self._spoil(Reason.UNDECODABLE_MESSAGE, lambda one: replace(one, value=b"\xff\xff\xff"))
        self._spoil(Reason.UNDECODABLE_ENTRIES, lambda one: with_data(one, b"\xff\xff"))
        self._spoil(Reason.WRONG_VERSION, lambda one: damaged(one, version=2))
        self._spoil(Reason.CONTRADICTORY_FRAGMENT, lambda one: damaged(one, total=0))
        self._spoil(Reason.CONTRADICTORY_FRAGMENT, lambda one: damaged(one, index=1))
        self._spoil(None, lambda one: replace(one, value=None))
        self._spoil(None, lambda one: replace(one, value=b""))
        self._lose_a_head()
        dml = dml_event(source.tables["items"], "insert", [(None, item(7000))])
        self._send(entry(99, dml), Reason.UNKNOWN_MESSAGE_TYPE)
        dml.dmlEvent.dmlEventType = 9  # type: ignore[assignment]
        self._send(entry(pb.DML, dml), Reason.UNKNOWN_OPERATION)
        ragged = dml_event(source.tables["items"], "insert", [(None, item(7001))])
        del ragged.dmlEvent.rows[0].newColumns[1:]
        self._send(entry(pb.DML, ragged), Reason.RAGGED_ROW)
        insert(source, self._at + 20 * SECOND, range(500, 508))
        source.checkpoint(border(1) + 400 * SECOND)
        insert(source, border(2) + 10 * SECOND, range(600, 604))

    @property
    def messages(self) -> list[Message]:
        """What was recorded."""
        found = [self._changed.get((one.partition, one.offset), one) for one in self.source.messages]
        return [one for one in found if one is not None]

    @property
    def kept(self) -> list[Change]:
        """The changes that can still be seen."""
        lost = set(self._changed) | {(partition, last) for partition, _, last, _ in self.quarantined}
        return [one for one in self.source.changes if (one.partition, one.last_offset) not in lost]

    def _new_rows(self, lane: int) -> Dml:
        """Three rows that all go to one Kafka partition, and to no other transaction."""
        table = self.source.tables["items"]
        start = 10_000 + len(self.source.messages) * 100
        numbers = [number for number in range(start, start + 40) if table.partition(item(number), LANES) == lane]
        return Dml(table, [(None, item(number)) for number in numbers[:3]])

    def _spoil(self, reason: Reason | None, change: Callable[[Message], Message]) -> None:
        """Spoil a message that holds a whole transaction, and send another behind it."""
        self._at += 5 * SECOND
        self.source.transaction(self._at, self._new_rows(0))
        message = self.source.messages[-1]
        self._changed[message.partition, message.offset] = change(message)
        if reason is None:
            self.nulls += 1
        else:
            self.quarantined.add((message.partition, message.offset, message.offset, reason))
        self.source.transaction(self._at + SECOND, self._new_rows(0))

    def _lose_a_head(self) -> None:
        """Three fragments, of which the first was never recorded."""
        self._at += 5 * SECOND
        self.source.transaction(self._at, self._new_rows(1))
        times = [self._at + SECOND, self._at + 2 * SECOND, self._at + 3 * SECOND]
        self.source.transaction(self._at, self._new_rows(1), split={1: times})
        head, middle, last = self.source.messages[-3:]
        self._changed[head.partition, head.offset] = None
        self.quarantined.add((1, middle.offset, last.offset, Reason.MISSING_HEAD))
        self._at += 5 * SECOND

    def _send(self, entry: pb.Entry, reason: Reason) -> None:
        message = self.source.send(1, self._at, entry)
        self.quarantined.add((1, message.offset, message.offset, reason))


def border_key(number: int) -> str:
    return border(number).strftime("%Y-%m-%d-%H:%M")


def assert_named(spoilt: Spoilt, harness: Harness) -> None:
    ledger = harness.pipeline.ledger
    rows = ledger.quarantine(payload=True)
    found = [(row.kafka_partition, row.first_offset, row.last_offset, row.reason) for row in rows]
    assert len(found) == len(set(found))
    assert set(found) == spoilt.quarantined
    assert {row.window_start for row in rows} == {border(1)}
    assert {row.stage for row in rows if row.reason is Reason.RAGGED_ROW} == {"tables"}
    assert all(row.payload for row in rows)
    by_cell = {(row.window.start, row.kafka_partition): row for row in ledger.windows()}
    assert all(row.counts.balanced for row in by_cell.values())
    whole = {key for key, row in by_cell.items() if row.completeness is not Completeness.INCOMPLETE}
    assert whole == by_cell.keys() - {(border(1), 0), (border(1), 1)}
    first, second = (by_cell[border(1), lane] for lane in range(LANES))
    assert (first.counts.quarantined_messages, first.counts.null_messages) == (4, spoilt.nulls)
    assert [one.code for one in first.problems] == [ProblemCode.QUARANTINED] * 2
    assert first.counts.quarantined_sets == 1
    assert (second.counts.quarantined_fragments, second.counts.quarantined_entries) == (2, 2)
    assert {one.code for one in second.problems} == {ProblemCode.QUARANTINED, ProblemCode.GAP}
    cuts = {row.window.start: row for row in ledger.cuts()}
    assert cuts[border(1)].completeness is Completeness.INCOMPLETE
    assert any(one.detail.startswith("p00: ") for one in cuts[border(1)].problems)
    counted = ledger.window_tables(harness.windows(1))
    assert sum(row.quarantined for row in counted) == sum(row.quarantined_entries for row in counted) == 1
    judged = judge_ledger(harness.pipeline)
    assert all(one.balanced for one in judged)
    incomplete = {one.partition for one in judged if not one.complete}
    assert incomplete == {border_key(1), *(f"p0{lane}|{border_key(1)}" for lane in range(LANES))}
    assert all(row.changes == row.kept + row.redelivered + row.quarantined for row in counted)


@pytest.mark.more
def test_the_rest_of_the_window_goes_on(bench: Bench, tmp_path: Path) -> None:
    spoilt = Spoilt()
    harness = open_short(bench, tmp_path / "capture", spoilt.messages, name="spoilt_rest")
    harness.all()
    kept = folded(spoilt.source.tables, spoilt.kept)
    assert harness.snapshots(spoilt.source.tables) == kept
    assert len(harness.rows("changelog", DATABASE, "items")) == len(spoilt.kept)
    assert_named(spoilt, harness)
    assert find_work(harness.pipeline).nothing

    harness.entries()  # once more: quarantine is replaced, not added to
    harness.tables()
    assert_named(spoilt, harness)

    blocking = open_short(bench, tmp_path / "capture", spoilt.messages, name="spoilt_rest", on_incomplete="block")
    with pytest.raises(IncompleteWindowError) as caught:
        blocking.tables(0, 1)
    assert set(caught.value.problems) == {"p00|2026-03-01-10:10", "p01|2026-03-01-10:10"}
    blocking.tables(0)
    assert harness.snapshots(spoilt.source.tables) == kept


def test_a_change_that_cannot_be_used_alone_makes_its_window_incomplete_and_blocks(
    bench: Bench, tmp_path: Path
) -> None:
    source = short_source()
    insert(source, border(0) + 10 * SECOND, range(8))
    insert(source, border(1) + 10 * SECOND, range(20, 28))
    change = source.changes[0]
    message = next(
        one for one in source.messages if (one.partition, one.offset) == (change.partition, change.last_offset)
    )
    messages = with_values(source.messages, {(message.partition, message.offset): ragged(message)})
    blocking = open_short(bench, tmp_path / "capture", messages, name="ragged", windows=2, on_incomplete="block")
    blocking.raw()
    blocking.entries()
    with pytest.raises(IncompleteWindowError):
        blocking.tables()
    harness = open_short(bench, tmp_path / "capture", messages, name="ragged", windows=2)
    report = harness.tables()
    assert [window.judgement.complete for window in report.windows] == [False, True]
    assert all(window.judgement.balanced for window in report.windows)
    cuts = harness.pipeline.ledger.cuts()
    assert [row.completeness is Completeness.INCOMPLETE for row in cuts] == [True, False]
    assert ProblemCode.QUARANTINED in {problem.code for problem in cuts[0].problems}
    assert [one.partition for one in judge_ledger(harness.pipeline) if one.sentence] == [border_key(0)]
