"""Values that are read without a parser: what is found in them, and what is left to the parser."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.dts_protobuf.plain_values import PlainValues, plain_values
from dts_assets.wire.dts_protobuf.protobuf_parser import message_class, reshaped

_LENIENT: Any = message_class(reshaped("test_plain_values", {"Data": None}))
"""A value whose texts are bytes, so that those that are not UTF-8 can be compared."""

_TEXTS = st.sampled_from(["", "1", "-12.50", "漢字", "x" * 126, "x" * 127, "x" * 128, "x" * 20_000])
_NUMBERS = st.builds(pb.Data, dataType=st.sampled_from([*range(1, 11), pb.DECIMAL]), sv=_TEXTS)
_BYTES = st.builds(pb.Data, dataType=st.just(pb.BYTES), bv=_TEXTS.map(str.encode))
_NAMES = st.sampled_from(["utf8mb4", "utf8mb4", "utf8mb4", "utf8", "gbk", "", "utf8mb3", "geostd8", "x" * 100])
_STRINGS = st.builds(pb.Data, dataType=st.just(pb.STRING), charset=_NAMES, bv=_TEXTS.map(str.encode))
_USUAL = _NUMBERS | _BYTES | _STRINGS | st.just(pb.Data()) | st.just(pb.Data(dataType=pb.NA))


def _messages(values: list[bytes], skipped: int = 0) -> pa.BinaryArray:
    return pa.array([*[b"x"] * skipped, *values], pa.binary()).slice(skipped)


def _found(values: list[bytes]) -> list[tuple[int, bytes, bytes]] | None:
    """Type, set and bytes of each value; the set is empty where all are one."""
    found = plain_values(_messages(values))
    return None if found is None else _rows(found, len(values))


def _rows(found: PlainValues, count: int) -> list[tuple[int, bytes, bytes]]:
    found.values.validate(full=True)
    assert len(found.types) == count + 1
    assert found.types[-1] == pb.NIL
    items = found.values.to_pylist()
    assert len(items) == 2 * count + 2
    assert items[-1] == b""
    names = [b""] * count if found.names is None else found.names.to_pylist()
    return list(zip(found.types[:-1].tolist(), names, items[1:-1:2], strict=True))


@given(st.lists(_USUAL, max_size=8), st.integers(0, 3))
def test_usual_values_are_what_the_parser_finds(values: list[pb.Data], skipped: int) -> None:
    found = plain_values(_messages([one.SerializeToString() for one in values], skipped))
    assert found is not None
    one_set = {one.charset for one in values if one.charset} <= {"utf8mb4"}
    assert (found.names is None) == one_set
    assert _rows(found, len(values)) == [
        (one.dataType, b"" if one_set else one.charset.encode(), one.bv or one.sv.encode()) for one in values
    ]


@given(st.lists(_USUAL, min_size=1, max_size=4), st.data())
def test_what_is_read_of_broken_values_is_what_the_parser_finds(values: list[pb.Data], data: st.DataObject) -> None:
    serialized = [one.SerializeToString() for one in values]
    which = data.draw(st.integers(0, len(values) - 1))
    broken = bytearray(serialized[which] or b"\x08\x01")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(broken), 16) - 1))
        change = data.draw(st.sampled_from(["flip", "cut", "repeat", "end"]))
        if change == "flip":
            broken[at] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "cut":
            del broken[at]
        elif change == "repeat":
            broken[at:at] = broken[at : at + 1]
        else:
            del broken[at + 1 :]
        if not broken:
            break
    serialized[which] = bytes(broken)
    found = _found(serialized)
    if found is not None:
        parsed = [_LENIENT.FromString(one) for one in serialized]
        assert [(kind, bytes_) for kind, _, bytes_ in found] == [(one.dataType, one.bv or one.sv) for one in parsed]
        if any(name for _, name, _ in found):
            assert [name for _, name, _ in found] == [one.charset for one in parsed]
        else:
            assert {one.charset for one in parsed} <= {b"", b"utf8mb4"}


@pytest.mark.parametrize(
    "value",
    [
        b"\x1a\x01\x31",  # no data type
        b"\x08",
        b"\x08\x0d\x1a\x01\x31",  # a number's field in a text
        b"\x08\x03\x22\x01\x31",  # a text's field in a number
        b"\x08\x0f\x22\x01\x31",  # a type that is not known
        b"\x08\x80\x01",
        b"\x08\x0e\x00\x00",  # bytes in a value that was not sent
        b"\x08\x0d\x12\x07utf8",  # ends in the name
        b"\x08\x0d\x12\x81\x00x\x22\x01x",  # a long form of a short length
        b"\x08\x0d\x22\x05\x31",  # ends in the value
        b"\x08\x0d\x22\x01\x31\x31",
        b"\x08\x0d\x22\x01\x31\x22\x01\x32",  # a field that comes twice
        b"\x08\x0d\x22\x80\x80\x80\x80\x80\x01",
        b"\x22\x01x\x12\x04utf8\x08\x0d",
    ],
)
def test_any_other_layout_is_left_to_the_parser(value: bytes) -> None:
    usual = pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"y" * 300).SerializeToString()
    assert _found([usual]) is not None
    assert _found([value]) is None
    assert _found([usual, value, usual]) is None
