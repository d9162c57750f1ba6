"""Kafka messages to fragments."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf import DtsProtobuf, Engine
from dts_assets.wire.dts_protobuf.fragments import plain_envelopes
from dts_assets.wire.format import FRAGMENTS
from tests.wire.made import messages

GOOD = pb.Envelope(version=1, total=1, index=0, data=b"abc").SerializeToString()


@pytest.fixture(params=["ptars", "protobuf"])
def wire(request: pytest.FixtureRequest) -> DtsProtobuf:
    engine: Engine = request.param
    return DtsProtobuf(engine)


def _row(wire: DtsProtobuf, value: bytes | None, headers: Any = None) -> dict[str, Any]:
    # Beside good messages, because what is wrong with one must not touch its neighbours.
    found = wire.fragments(messages(GOOD, value, GOOD, headers=[None, headers, None]))
    assert found.schema == FRAGMENTS
    rows: list[dict[str, Any]] = found.to_pylist()
    assert rows[0] == rows[2] == _expected()
    return rows[1]


def _expected(**changed: Any) -> dict[str, Any]:
    whole = {"shard": "", "sequence": None, "total": 1, "index": 0, "data": b"abc", "is_null": False, "reason": None}
    return {**whole, **changed}


def test_a_whole_message(wire: DtsProtobuf) -> None:
    assert _row(wire, GOOD) == _expected()


def test_headers_give_sequence_and_shard(wire: DtsProtobuf) -> None:
    found = _row(wire, GOOD, [("other", b"x"), ("ps", b"16006"), ("ShardId", b"set_1")])
    assert found == _expected(sequence=16006, shard="set_1")


@pytest.mark.parametrize(
    ("value", "sequence"),
    [
        (b"x1", None),
        (b"", None),
        (b"9223372036854775808", None),
        (b"07", 7),
        (None, None),
        (b"9223372036854775807", None),
        (b"9" * 18, 10**18 - 1),
        (b"9" * 5_000, None),
        (b"0x10", None),
        (b"-5", None),
    ],
)
def test_a_sequence_that_is_no_number_counts_as_none(
    wire: DtsProtobuf, value: bytes | None, sequence: int | None
) -> None:
    assert _row(wire, GOOD, [("ps", value)])["sequence"] == sequence


@pytest.mark.parametrize("value", [None, b""])
def test_a_null_or_empty_value_is_no_error(wire: DtsProtobuf, value: bytes | None) -> None:
    found = _row(wire, value)
    assert found == _expected(total=None, index=None, data=None, is_null=True)


def test_bytes_that_are_no_envelope(wire: DtsProtobuf) -> None:
    assert _row(wire, b"\xff\xff")["reason"] == "undecodable_message"


def test_another_version(wire: DtsProtobuf) -> None:
    assert _row(wire, pb.Envelope(version=2, total=1).SerializeToString())["reason"] == "wrong_version"


@pytest.mark.parametrize(("total", "index"), [(0, 0), (1, 1), (3, 7)])
def test_a_segment_that_cannot_be(wire: DtsProtobuf, total: int, index: int) -> None:
    found = _row(wire, pb.Envelope(version=1, total=total, index=index).SerializeToString())
    assert found["reason"] == "contradictory_fragment"


def test_a_segment_of_several(wire: DtsProtobuf) -> None:
    found = _row(wire, pb.Envelope(version=1, total=3, index=2, data=b"tail").SerializeToString())
    assert found == _expected(total=3, index=2, data=b"tail")


def test_properties_of_the_envelope_are_tolerated_even_with_bad_text(wire: DtsProtobuf) -> None:
    assert _row(wire, GOOD + b"\x7a\x04\x0a\x02\xff\xfe") == _expected()


def test_a_slice_of_a_batch_gives_its_own_rows(wire: DtsProtobuf) -> None:
    whole = messages(GOOD, GOOD, b"\xff", None, headers=[[("ps", b"1")], [("ps", b"2")], [("ps", b"3")], None])
    assert wire.fragments(whole.slice(1, 2)).to_pylist() == wire.fragments(whole).to_pylist()[1:3]


def test_no_messages(wire: DtsProtobuf) -> None:
    assert wire.fragments(pa.RecordBatch.from_pylist([], messages().schema)).num_rows == 0


# Envelopes of the usual layout are opened without a parser


_NUMBERS = st.sampled_from([0, 1, 2, 127, 128, 300, (1 << 21) - 1, 1 << 28, (1 << 32) - 1])


@st.composite
def usual(draw: st.DrawFn) -> bytes:
    """An envelope of the usual layout."""
    return pb.Envelope(
        version=1,
        total=draw(_NUMBERS.filter(bool)),
        index=draw(_NUMBERS),
        data=draw(st.binary(min_size=1, max_size=200)),
    ).SerializeToString()


@given(st.lists(usual(), min_size=1, max_size=6), st.integers(0, 3))
def test_envelopes_of_the_usual_layout_are_opened_in_step(values: list[bytes], skipped: int) -> None:
    found = plain_envelopes(pa.array([*[b"x"] * skipped, *values], pa.binary()).slice(skipped))
    assert found is not None
    parsed = [pb.Envelope.FromString(value) for value in values]
    assert found.total.tolist() == [one.total for one in parsed]
    assert found.index.tolist() == [one.index for one in parsed]
    assert found.data.to_pylist() == [one.data for one in parsed]


@given(st.lists(usual(), min_size=1, max_size=3), st.data())
def test_what_is_opened_without_a_parser_is_what_the_parser_finds(values: list[bytes], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(values) - 1))
    broken = bytearray(values[which])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(broken) - 1))
        change = data.draw(st.sampled_from(["flip", "cut", "repeat"]))
        if change == "flip":
            broken[at] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "cut":
            del broken[at : at + 1]
        else:
            broken[at:at] = broken[at : at + 1]
        if not broken:
            break
    values[which] = bytes(broken)
    assume(not has_long_tag(values[which]))
    given_messages = messages(*values)
    assert DtsProtobuf("ptars").fragments(given_messages).equals(DtsProtobuf("protobuf").fragments(given_messages))


def has_long_tag(value: bytes) -> bool:
    """Whether a field's number is written in more than five bytes, which ptars reads and protobuf refuses."""

    def varint(at: int) -> tuple[int, int]:
        number, first = 0, at
        while value[at] >= 0x80:
            number |= (value[at] & 0x7F) << (7 * (at - first))
            at += 1
        return number | value[at] << (7 * (at - first)), at + 1

    at = 0
    try:
        while at < len(value):
            tag, behind = varint(at)
            if behind - at > 5:
                return True
            number, after = varint(behind) if tag & 7 in {0, 2} else (0, behind)
            at = {0: after, 1: behind + 8, 2: after + number, 5: behind + 4}[tag & 7]
    except (IndexError, KeyError):
        return False
    return False


def test_a_long_tag_is_told() -> None:
    assert has_long_tag(bytes.fromhex("09 01 10 FF FF 7F 22 0B 00 DD 80 80 80 80 00 00 00 00 00"))
    assert not has_long_tag(pb.Envelope(version=1, total=1 << 31, data=bytes(200)).SerializeToString())


@pytest.mark.parametrize(
    "value",
    [
        b"",
        pb.Envelope(version=2, total=1, data=b"a").SerializeToString(),
        pb.Envelope(version=1, total=1, data=b"a", properties=[pb.KVPair(key="k")]).SerializeToString(),
        pb.Envelope(version=1, total=1, data=b"a").SerializeToString()[:-1],
        b"\x08\x01\x10\x80\x80\x80\x80\x10\x22\x01a",  # a total of more than 32 bits
        b"\x08\x01\x10\x80\x80\x80\x80\x80",  # ends inside the total
    ],
    ids=["empty", "version 2", "properties", "cut", "a large total", "cut in a number"],
)
def test_any_other_layout_is_left_to_the_parser(value: bytes) -> None:
    assert plain_envelopes(pa.array([value], pa.binary())) is None
