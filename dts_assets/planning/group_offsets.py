"""The offset that a consumer group may be moved to.

It lies behind the last CHECKPOINT of the stored and decoded messages without a hole, and the group never moves back. The
group is a courtesy to the vendor's console, which shows its lag; the ledger alone decides which messages are read next.
"""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.model.ledger_rows import IngestWindow


def offset_to_commit(
    decoded: Iterable[IngestWindow], *, start: int, committed: int | None, by_checkpoint: bool
) -> int | None:
    """Return the next offset to read, as Kafka wants it; None to leave the group where it is.

    ``start`` is the offset at which the chain of windows begins: all messages before it are stored, or were never wanted.
    ``by_checkpoint`` says that the format has CHECKPOINTs; without them the end of the stored messages counts.
    """
    at, reached = start, None
    for row in sorted(decoded, key=lambda one: one.offsets):
        if row.offsets.start > at:
            break
        at = max(at, row.offsets.end)
        if not by_checkpoint:
            reached = at
        elif row.checkpoints:
            reached = max(reached or 0, 1 + max(mark.offset for mark in row.checkpoints))
    if reached is None or (committed is not None and reached <= committed):
        return None
    return reached
