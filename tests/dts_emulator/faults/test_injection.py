"""Faults in a recorded topic: each is what the plan says, shows where it says, and nothing else has changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.envelope_cutter import as_item, envelopes
from dts_emulator.errors import NoRoomForFault, NotACapture
from dts_emulator.faults.damage import FoundBy, found_by
from dts_emulator.faults.injection import PLAN_FILE, Fault, Kind, inject, inject_into
from dts_emulator.faults.recorded_topic import read_topic
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message

START = 1_767_571_200_000
PARTITIONS = 2

SERVER = "03b4169b-9ef3-5cb1-b1ba-ad0380a42bc7"


def entry(number: int, kind: pb.MessageType, event: pb.Event) -> bytes:
    header = pb.Header(
        version=1, sourceType=pb.MYSQL, messageType=kind, timestamp=START // 1000 + number, serverId=7,
        fileName="mysql-bin.000005", position=100 * number, gtid=f"{SERVER}:{number}", schemaName="db", tableName="t",
    )  # fmt: skip
    return as_item(pb.Entry(header=header, event=event).SerializeToString())


def transaction(number: int, *, size: int = 20) -> bytes:
    row = pb.RowChange(newColumns=[pb.Data(dataType=pb.STRING, charset="utf8", bv=b"v" * size)])
    dml = pb.DMLEvent(columns=[pb.Column(name="c", originalType="text")], rows=[row])
    return b"".join(
        [
            entry(number, pb.BEGIN, pb.Event(beginEvent=pb.BeginEvent())),
            entry(number, pb.DML, pb.Event(dmlEvent=dml)),
            entry(number, pb.COMMIT, pb.Event(commitEvent=pb.CommitEvent(transactionId=str(number)))),
        ]
    )


def recorded(folder: Path, *, numbers: bool = True, partitions: int = PARTITIONS) -> Path:
    """Two partitions of 60 messages each: transactions, a CHECKPOINT in every ten, and sets of three fragments."""
    messages = []
    for partition in range(partitions):
        values: list[bytes] = []
        number = 1
        while len(values) < 60:
            if len(values) % 10 == 0:
                values += envelopes(
                    entry(number, pb.CHECKPOINT, pb.Event(checkpointEvent=pb.CheckpointEvent())), limit=9999
                )
            elif number % 7 == 0:
                values += envelopes(transaction(number, size=900), limit=400)
            else:
                values += envelopes(transaction(number), limit=9999)
            number += 1
        for place, value in enumerate(values):
            headers = (("ps", str(place + 1).encode()),) if numbers else ()
            messages.append(Message(partition, 500 + place, START + 1000 * place, None, value, headers))
    write_capture(messages, folder, topic="t")
    return folder


@dataclass(frozen=True)
class Row:
    offset: int
    ps: int | None
    value: bytes


def rows(folder: Path) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for file in sorted(folder.glob("*.parquet")):
        for one in pq.read_table(file).to_pylist():
            headers = {header["key"]: header["value"] for header in one["headers"]}
            ps = int(headers["ps"]) if "ps" in headers else None
            found.setdefault(one["partition"], []).append(Row(one["offset"], ps, one["value"]))
    return found


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("capture"))


def mutated(
    capture: Path, out: Path, kind: Kind, *, count: int = 3, seed: int = 1, keep_offsets: bool = False
) -> tuple[tuple[Fault, ...], dict[int, list[Row]]]:
    faults = inject(capture, out, seed=seed, kinds=[kind], count=count, keep_offsets=keep_offsets)
    assert [fault.kind for fault in faults] == [kind] * count
    return faults, rows(out)


def at(found: dict[int, list[Row]], partition: int, offset: int | None) -> Row:
    return next(row for row in found[partition] if row.offset == offset)


def entries_in(found: Sequence[Row]) -> list[bytes]:
    """Entry sets, fragments joined by a reader that knows nothing of the rest."""
    sets, data = [], b""
    for row in found:
        envelope = pb.Envelope.FromString(row.value)
        data = envelope.data if envelope.index == 0 else data + envelope.data
        if envelope.index == envelope.total - 1:
            sets.append(data)
    return sets


def test_the_same_seed_gives_the_same_faults_and_another_others(capture: Path, tmp_path: Path) -> None:
    one, again, other = (
        inject(capture, tmp_path / name, seed=seed, kinds=list(Kind), count=9)
        for name, seed in (("one", 5), ("again", 5), ("other", 6))
    )
    assert one == again != other
    assert rows(tmp_path / "one") == rows(tmp_path / "again")
    lines = [json.loads(line) for line in (tmp_path / "one" / PLAN_FILE).read_text().splitlines()]
    assert [(line["kind"], line["first_offset"], line["found_by"]) for line in lines] == [
        (fault.kind.value, fault.first_offset, fault.found_by.value) for fault in one
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_result_looks_like_a_topic_whatever_was_done(capture: Path, tmp_path: Path, seed: int) -> None:
    faults = inject(capture, tmp_path / "out", seed=seed, kinds=list(Kind), count=12)
    found = rows(tmp_path / "out")
    for lane in found.values():
        assert [row.offset for row in lane] == list(range(500, 500 + len(lane)))
    for fault in faults:
        for offset in (fault.first_offset, fault.last_offset):
            assert offset is None or 500 <= offset < 500 + len(found[fault.partition])


def test_a_dropped_message_shows_as_a_hole_before_the_next_one(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.DROP)
    holes = {
        (partition, row.offset)
        for partition, lane in found.items()
        for before, row in pairwise(lane)
        if row.ps != (before.ps or 0) + 1
    }
    assert {(one.partition, one.first_offset) for one in faults if one.found_by is FoundBy.SEQUENCE} == holes
    assert sum(map(len, found.values())) == sum(map(len, rows(capture).values())) - 3


def test_kept_offsets_leave_a_hole(capture: Path, tmp_path: Path) -> None:
    _, found = mutated(capture, tmp_path / "out", Kind.DROP, keep_offsets=True)
    before = rows(capture)
    assert {(partition, row) for partition, lane in found.items() for row in lane} < {
        (partition, row) for partition, lane in before.items() for row in lane
    }


def test_without_numbers_a_lost_transaction_shows_by_its_gtid_and_a_lost_fragment_by_its_set(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "in", numbers=False, partitions=1)
    before = rows(capture)[0]
    last = max(number for row in before for number in begun_in(row))
    seen = set()
    for seed in range(12):
        (fault,), _ = mutated(capture, tmp_path / f"out{seed}", Kind.DROP, count=1, seed=seed)
        gone = next(row for row in before if row.offset == fault.from_offset)
        begun = begun_in(gone)
        fragment = pb.Envelope.FromString(gone.value).total > 1
        # Nobody misses a transaction behind which none is known.
        shows = bool(begun) and min(begun) < last
        expected = FoundBy.DECODING if fragment else FoundBy.GTID if shows else FoundBy.NOTHING
        assert fault.first_offset is None or fault.found_by is expected
        seen.add(expected)
    assert {FoundBy.DECODING, FoundBy.GTID} <= seen


def begun_in(row: Row) -> list[int]:
    """Numbers of the transactions that begin in a message that is a whole entry set."""
    envelope = pb.Envelope.FromString(row.value)
    entries = pb.Entries.FromString(envelope.data).items if envelope.total == 1 else []
    return [int(one.header.gtid.rpartition(":")[2]) for one in entries if one.header.messageType == pb.BEGIN]


def test_a_repeat_has_the_numbers_that_the_messages_had(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.REPEAT)
    for fault in faults:
        assert fault.first_offset is not None
        assert fault.last_offset is not None
        for offset in range(fault.first_offset, fault.last_offset + 1):
            row = at(found, fault.partition, offset)
            earlier = [one for one in found[fault.partition] if one.ps == row.ps and one.offset < offset]
            assert [one.value for one in earlier] == [row.value]
        assert fault.found_by is FoundBy.SEQUENCE


def test_a_re_read_sends_what_came_since_the_checkpoint_under_new_numbers(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.REREAD)
    for lane in found.values():
        assert [row.ps for row in lane] == list(range(1, len(lane) + 1))
    for fault in faults:
        assert fault.first_offset is not None
        assert fault.last_offset is not None
        lane = found[fault.partition]
        first, last = fault.first_offset - 500, fault.last_offset - 500
        again = [row.value for row in lane[first : last + 1]]
        assert [row.value for row in lane[first - len(again) : first]] == again
        before = pb.Entries.FromString(pb.Envelope.FromString(lane[first - len(again) - 1].value).data)
        assert before.items[-1].header.messageType == pb.CHECKPOINT


def test_a_flip_changes_one_bit(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.FLIP, count=20)
    before, changed = rows(capture), set()
    for partition, lane in found.items():
        for old, new in zip(before[partition], lane, strict=True):
            bits = int.from_bytes(old.value, "big") ^ int.from_bytes(new.value, "big")
            assert len(old.value) == len(new.value)
            assert bits.bit_count() <= 1
            if bits:
                changed.add((partition, new.offset))
    assert {(fault.partition, fault.first_offset) for fault in faults} == changed
    assert {fault.found_by for fault in faults} >= {FoundBy.DECODING, FoundBy.NOTHING}


@pytest.mark.more(after=1)
@pytest.mark.parametrize("begun", [True, False])
def test_a_changed_gtid_shows_unless_its_transaction_began_before_the_topic(tmp_path: Path, begun: bool) -> None:
    begin, commit = (
        entry(1, pb.BEGIN, pb.Event(beginEvent=pb.BeginEvent())),
        entry(1, pb.COMMIT, pb.Event(commitEvent=pb.CommitEvent(transactionId="1"))),
    )
    values = [value for one in ([begin] if begun else []) + [commit] for value in envelopes(one, limit=9999)]
    write_capture([Message(0, at, START + at, None, value, ()) for at, value in enumerate(values)], tmp_path, topic="t")
    faults = []
    for seed in range(400):  # one bit of the message each; some of them are in its GTID
        faults += [
            one
            for one in inject_into(read_topic(tmp_path), seed=seed, kinds=[Kind.FLIP], count=1)
            if "GTID" in one.detail
        ]
    assert {(one.first_offset, one.found_by) for one in faults if one.first_offset == len(values) - 1} == {
        (len(values) - 1, FoundBy.GTID if begun else FoundBy.NOTHING)
    }


def test_a_truncated_message_is_shorter_and_does_not_parse(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.TRUNCATE)
    for fault in faults:
        old = at(rows(capture), fault.partition, fault.from_offset).value
        new = at(found, fault.partition, fault.first_offset).value
        assert old.startswith(new)
        assert 0 < len(new) < len(old)
        assert fault.found_by is FoundBy.DECODING


def test_neighbours_change_places_with_their_numbers(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.REORDER)
    for fault in faults:
        first, last = (at(found, fault.partition, offset) for offset in (fault.first_offset, fault.last_offset))
        assert (last.offset, first.ps) == (first.offset + 1, (last.ps or 0) + 1)


def test_a_set_in_more_fragments_is_the_same_set(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.CUT)
    before = rows(capture)
    for partition, lane in found.items():
        assert entries_in(lane) == entries_in(before[partition])
        assert [row.ps for row in lane] == list(range(1, len(lane) + 1))
    assert sum(map(len, found.values())) > sum(map(len, before.values()))
    assert {fault.found_by for fault in faults} == {FoundBy.NOTHING}


def test_a_message_in_another_partition_keeps_its_number(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.REPARTITION)
    for fault in faults:
        row, old = (
            at(found, fault.partition, fault.first_offset),
            at(rows(capture), fault.from_partition, fault.from_offset),
        )
        assert (row.value, row.ps) == (old.value, old.ps)
        assert fault.partition != fault.from_partition


def test_a_recording_that_ends_early_has_lost_its_end(capture: Path, tmp_path: Path) -> None:
    faults, found = mutated(capture, tmp_path / "out", Kind.END, count=2)
    assert {fault.partition for fault in faults} == {0, 1}
    for fault in faults:
        assert len(found[fault.partition]) == fault.from_offset - 500
        assert fault.first_offset is None


def evidence(before: Sequence[bytes], after: Sequence[bytes]) -> FoundBy:
    found = found_by(before, after)
    assert found is not None
    return found[0]


def flipped(old: pb.Entry, **header: object) -> FoundBy:
    """The evidence that an entry has another header, as a reader sees it."""
    new = pb.Entry.FromString(old.SerializeToString())
    for name, value in header.items():
        setattr(new.header, name, value)
    values = [envelopes(as_item(one.SerializeToString()), limit=9999) for one in (old, new)]
    return evidence(*values)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"gtid": "uuid:9"}, FoundBy.GTID),
        ({"gtid": ""}, FoundBy.NOTHING),
        ({"messageType": 99}, FoundBy.DECODING),
        ({"messageType": pb.BEGIN}, FoundBy.DECODING),
        ({"position": 4}, FoundBy.NOTHING),
        ({"tableName": "u"}, FoundBy.NOTHING),
    ],
)
def test_what_a_changed_header_shows_by(header: dict[str, object], expected: FoundBy) -> None:
    event = pb.Event(dmlEvent=pb.DMLEvent(dmlEventType=pb.INSERT))
    old = pb.Entry(header=pb.Header(messageType=pb.DML, gtid="uuid:1", position=3, tableName="t"), event=event)
    assert flipped(old, **header) is expected


def test_a_fragment_that_lost_its_place_does_not_make_up_a_set() -> None:
    before = envelopes(transaction(1, size=900), limit=400)
    assert found_by(before, before) is None
    wrong = pb.Envelope.FromString(before[1])
    wrong.total += 1
    assert evidence(before, [before[0], wrong.SerializeToString(), *before[2:]]) is FoundBy.DECODING


def test_a_field_that_the_protocol_does_not_have_is_told_from_a_contradiction() -> None:
    old = pb.Entry(header=pb.Header(messageType=pb.COMMIT), event=pb.Event(commitEvent=pb.CommitEvent()))
    new = old.SerializeToString() + b"\x50\x01"  # field 10
    values = [envelopes(as_item(one), limit=9999) for one in (old.SerializeToString(), new)]
    assert found_by(*values) == (FoundBy.DECODING, "it has a field that the protocol does not have")


@pytest.mark.parametrize(("after", "expected"), [(b'{"a": 2}', FoundBy.NOTHING), (b'{"a": 2', FoundBy.DECODING)])
def test_of_json_only_the_text_is_judged(after: bytes, expected: FoundBy) -> None:
    assert evidence([b'{"a": 1}'], [after]) is expected


def test_bytes_that_read_as_before_are_no_fault() -> None:
    old = envelopes(transaction(1), limit=9999)
    entries = pb.Entries.FromString(pb.Envelope.FromString(old[0]).data)
    other = pb.Envelope(version=1, total=1, index=0, data=entries.SerializeToString()).SerializeToString()
    same_but_longer = other + b"\x10\x01"  # the field `total` once more
    assert found_by(old, [same_but_longer]) is None
    assert found_by([b'{"a": 1}'], [b'{ "a": 1}']) is None
    assert found_by([b"no json"], [b"no json"]) is None


def test_a_flip_that_changes_nothing_is_not_counted(tmp_path: Path) -> None:
    """One bit makes a tab a carriage return, which a reader of JSON skips as well."""
    value = b'{"a":' + b"\t" * 400 + b"1}"
    messages = [Message(0, 500 + place, START + place, None, value, ()) for place in range(200)]
    write_capture(messages, tmp_path / "in", topic="t")
    faults, found = mutated(tmp_path / "in", tmp_path / "out", Kind.FLIP, count=20)
    for fault in faults:
        row = at(found, 0, fault.first_offset)
        try:
            assert json.loads(row.value) != {"a": 1}
        except ValueError:
            assert fault.found_by is FoundBy.DECODING


def test_neighbours_that_are_alike_do_not_change_places(tmp_path: Path) -> None:
    messages = [Message(0, place, START + place, None, b'{"a": 1}', ()) for place in range(10)]
    write_capture(messages, tmp_path / "in", topic="t")
    with pytest.raises(NoRoomForFault, match="reorder"):
        inject(tmp_path / "in", tmp_path / "out", seed=1, kinds=[Kind.REORDER], count=1)


def test_a_folder_without_a_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(NotACapture, match="no Parquet file"):
        inject(tmp_path / "in", tmp_path / "out", seed=1, kinds=[Kind.DROP], count=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", [".", "below", "../{}/below", "link/below"])
def test_nothing_is_written_into_the_capture_that_is_read(capture: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to(capture)
    out = (tmp_path if place.startswith("link") else capture) / place.format(capture.name)
    before = sorted(capture.rglob("*"))
    with pytest.raises(NotACapture, match="would be read with it; name a folder elsewhere"):
        inject(capture, out, seed=1, kinds=[Kind.DROP], count=1)
    assert sorted(capture.rglob("*")) == before


@pytest.mark.parametrize("name", ["notes.txt", "part-00000.parquet", PLAN_FILE])
def test_nothing_that_is_there_is_overwritten(capture: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("kept")
    with pytest.raises(NotACapture, match="is not empty, and nothing is overwritten"):
        inject(capture, tmp_path, seed=1, kinds=[Kind.DROP], count=1)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "kept")]


def test_more_faults_than_there_are_messages_are_refused(capture: Path, tmp_path: Path) -> None:
    with pytest.raises(NoRoomForFault, match="drop"):
        inject(capture, tmp_path / "out", seed=1, kinds=[Kind.DROP], count=500)
