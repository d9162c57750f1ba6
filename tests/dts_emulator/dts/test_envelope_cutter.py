"""Merging entries into sets, and cutting sets into envelopes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.envelope_cutter import PendingSet, as_item, envelopes


def entry(text: str) -> pb.Entry:
    return pb.Entry(event=pb.Event(ddlEvent=pb.DDLEvent(sql=text)))


def test_items_one_after_the_other_are_an_entries_message() -> None:
    items = [entry("a"), entry("b" * 300), pb.Entry()]
    joined = b"".join(as_item(item.SerializeToString()) for item in items)
    assert joined == pb.Entries(items=items).SerializeToString()


def test_a_set_within_the_limit_is_one_envelope() -> None:
    (value,) = envelopes(b"12345", limit=5)
    assert value.hex() == "08011001" + "22053132333435"


def test_a_set_above_the_limit_is_cut_in_order() -> None:
    found = [pb.Envelope.FromString(value) for value in envelopes(b"0123456789", limit=4)]
    assert [(e.version, e.total, e.index, e.data) for e in found] == [
        (1, 3, 0, b"0123"),
        (1, 3, 1, b"4567"),
        (1, 3, 2, b"89"),
    ]


def test_a_set_takes_items_while_they_fit() -> None:
    pending = PendingSet(10)
    assert pending.fits(b"x" * 99)
    pending.add(b"x" * 6)
    assert pending.fits(b"y" * 4)
    assert not pending.fits(b"y" * 5)
    pending.add(b"y" * 4)
    assert pending.is_full
    assert pending.take() == b"xxxxxxyyyy"
    assert pending.fits(b"z" * 11)
    assert not pending.is_full


@pytest.mark.more
@given(st.lists(st.text(max_size=60), max_size=8), st.integers(1, 200))
def test_joined_fragments_are_the_entries(texts: Sequence[str], limit: int) -> None:
    entries = pb.Entries(items=[entry(text) for text in texts])
    found = [pb.Envelope.FromString(value) for value in envelopes(entries.SerializeToString(), limit=limit)]
    assert pb.Entries.FromString(b"".join(e.data for e in found)) == entries
    assert [e.index for e in found] == list(range(len(found)))
    assert {e.total for e in found} == {len(found)}
    assert all(len(e.data) <= limit for e in found)
