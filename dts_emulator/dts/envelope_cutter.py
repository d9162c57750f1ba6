"""Entries into messages' values: merged up to a size, and cut into envelopes beyond it.

An ``Entries`` message is one repeated field, so the bytes of a set are the bytes of its items one after the other, and a cut
may fall anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.entry_encoder import PROTOCOL_VERSION

_ITEM_TAG = b"\x0a"
"""Field 1, length-delimited: ``Entries.items``."""


def as_item(entry: bytes) -> bytes:
    """Return an entry's bytes as one item of an ``Entries`` message."""
    length, encoded = len(entry), bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return _ITEM_TAG + bytes(encoded) + entry


@dataclass(slots=True)
class PendingSet:
    """The entries of one partition that wait to be sent together."""

    limit: int
    items: list[bytes] = field(default_factory=list)
    size: int = 0

    def fits(self, item: bytes) -> bool:
        """Return True if the set stays within the limit with the item in it. An empty set takes anything."""
        return not self.items or self.size + len(item) <= self.limit

    @property
    def is_full(self) -> bool:
        """True if nothing more can be merged; an item above the limit fills a set alone."""
        return self.size >= self.limit

    def add(self, item: bytes) -> None:
        """Put an item behind the others."""
        self.items.append(item)
        self.size += len(item)

    def take(self) -> bytes:
        """Return the bytes of the set, which is empty afterwards."""
        data = b"".join(self.items)
        self.items, self.size = [], 0
        return data


def envelopes(entries: bytes, *, limit: int) -> tuple[bytes, ...]:
    """Return the envelopes of an entry set in order: one if the set is within the limit."""
    segments = [entries[start : start + limit] for start in range(0, len(entries), limit)] or [b""]
    return tuple(
        pb.Envelope(version=PROTOCOL_VERSION, total=len(segments), index=index, data=segment).SerializeToString()
        for index, segment in enumerate(segments)
    )
