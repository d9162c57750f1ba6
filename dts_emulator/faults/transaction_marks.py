"""The marks of transactions in recorded messages: BEGIN, COMMIT, ROLLBACK, GTIDs and CHECKPOINTs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dts_assets.model.gtids import parse_gtid
from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.faults.damage import FoundBy, entries_of
from dts_emulator.faults.record_entries import entries_of_records
from dts_emulator.faults.recorded_topic import Recorded


def _entries(message: Recorded) -> Sequence[pb.Entry]:
    """Return the entries of a message that is a whole entry set or a record.

    Any other message has none.
    """
    return entries_of([message.value]) or entries_of_records([message.value]) or ()


def boundaries(message: Recorded) -> Iterator[int]:
    """Yield the types of the entries of a message at which transactions begin and end."""
    for entry in _entries(message):
        if entry.header.messageType in (pb.BEGIN, pb.COMMIT, pb.ROLLBACK):
            yield entry.header.messageType


def gtids(message: Recorded) -> set[tuple[str, int]]:
    """Return the transactions that begin in a message: ``{("03b4169b-9ef3-5cb1-b1ba-ad0380a42bc7", 812)}``."""
    found = set()
    for entry in _entries(message):
        if entry.header.messageType == pb.BEGIN:
            with suppress(ValueError):  # damaged, or none
                found.add(parse_gtid(entry.header.gtid))
    return found


def has_checkpoint(message: Recorded) -> bool:
    """Return True if a CHECKPOINT stands in a message."""
    return any(entry.header.messageType == pb.CHECKPOINT for entry in _entries(message))


def open_transaction(messages: Sequence[Recorded]) -> FoundBy:
    """Return the evidence that a partition ends inside a transaction; FoundBy.NOTHING if it does not."""
    for message in reversed(messages):
        if marks := list(boundaries(message)):
            return FoundBy.TRANSACTION if marks[-1] == pb.BEGIN else FoundBy.NOTHING
    return FoundBy.NOTHING
