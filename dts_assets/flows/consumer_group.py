"""The move of the consumer group behind the stored messages.

The vendor's console then shows the true lag. The group decides nothing here: the ledger says which messages are read next.
So the group is moved without joining it, and a failed move is no failure of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dts_assets.flows.broker_admin import BrokerAdmin
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.formats import Evidence
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.offsets import Watermark
from dts_assets.model.windows import Window
from dts_assets.planning.group_offsets import offset_to_commit


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """The offsets of the group before and after, by Kafka partition.

    ``after`` holds only the Kafka partitions in which the group moved.
    """

    before: Mapping[int, int | None]
    after: Mapping[int, int]


def commit_group(pipeline: Pipeline, broker: BrokerAdmin) -> GroupCommit:
    """Commit, per Kafka partition, the offset up to which messages are stored and decoded without a hole.

    The offset lies behind the last CHECKPOINT among these messages; with a format without CHECKPOINTs it is their end. The
    group never moves back.

    Raises:
        SourceError: The broker does not answer, or does not allow the move.
    """
    before = broker.committed()
    watermarks = pipeline.source.watermarks()
    rows, whole = _decoded(pipeline, before, watermarks)
    first = pipeline.first_window()
    by_checkpoint = Evidence.CHECKPOINTS in pipeline.settings.traits.evidence
    after: dict[int, int] = {}
    for number in pipeline.kafka_partitions:
        mine, committed = rows[number], before.get(number)
        start = committed
        if whole:
            if not mine or first is None or mine[0].window.start > first:
                continue  # the first window is not there yet
            start = max(mine[0].offsets.start, committed or 0)
        if start is None:
            continue
        offset = offset_to_commit(mine, start=start, committed=committed, by_checkpoint=by_checkpoint)
        # A greater offset than the topic has is of an earlier topic of this name.
        if offset is not None and offset <= watermarks[number].high:
            after[number] = offset
    if after:
        broker.commit(after)
    return GroupCommit(before, after)


def _decoded(
    pipeline: Pipeline, committed: Mapping[int, int | None], watermarks: Mapping[int, Watermark]
) -> tuple[dict[int, list[IngestWindow]], bool]:
    """Return the marks of decoded windows by Kafka partition, and whether they are of all windows.

    The windows of messages that the topic still holds are enough if they reach back to the offset of the group.
    """
    rows = pipeline.by_partition(pipeline.ledger.windows(_windows_in_topic(pipeline, watermarks)))
    for number, mine in rows.items():
        stands = committed.get(number)
        if stands is None or not mine or mine[0].offsets.start > stands:
            return pipeline.by_partition(pipeline.ledger.windows()), True
    return rows, False


def _windows_in_topic(pipeline: Pipeline, watermarks: Mapping[int, Watermark]) -> tuple[Window, ...]:
    """Return the windows of the messages that the topic still holds, and one more at either end."""
    times = [mark.earliest for mark in watermarks.values() if mark.earliest is not None]
    if not times:
        return ()
    grid = pipeline.grid
    latest = (pipeline.source.now() or datetime.now(UTC)) + pipeline.settings.window.max_clock_skew
    numbers = range(max(0, grid.number(min(times)) - 1), grid.number(latest) + 2)
    return tuple(window for window in map(grid.at, numbers) if grid.end is None or window.end <= grid.end)
