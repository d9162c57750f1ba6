"""The broker's view of a subscription: how long it keeps messages, and where the consumer group stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.retention import BrokerRetention

if TYPE_CHECKING:
    from dts_assets.sources.kafka_place import KafkaPlace


class BrokerAdmin:
    """The own view of the broker that a subscription is read from.

    Every call raises SourceError if the broker does not answer or does not allow the call.
    """

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place

    def retention(self) -> BrokerRetention:
        """Return the retention of the topics: the shortest of several."""
        from dts_assets.sources.kafka_retention import topic_retention

        return topic_retention(self._place)

    def committed(self) -> Mapping[int, int | None]:
        """Return the next offset that the group would read, by Kafka partition; empty without a group.

        The offset is None where the group never committed.
        """
        from dts_assets.sources.kafka_group import GroupOffsets

        return {} if self._place.group_id is None else GroupOffsets(self._place).committed()

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Make ``offsets`` the next ones that the group would read."""
        from dts_assets.sources.kafka_group import GroupOffsets

        GroupOffsets(self._place).commit(offsets)


_SECONDS = 5.0
"""The seconds for which a look waits for a broker that goes away in the middle of it.

A sensor has 60 seconds for everything.
"""


def impatient(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline for a look at the source.

    It waits for a broker that is away for a few seconds only.
    """
    if pipeline.settings.source.kafka is None:
        return pipeline
    from dts_assets.sources.kafka_source import KafkaSource

    source = pipeline.source
    return replace(pipeline, source=replace(source, patience=_SECONDS)) if isinstance(source, KafkaSource) else pipeline


def open_broker(pipeline: Pipeline) -> BrokerAdmin | None:
    """Return the broker of a subscription; None for a recording.

    Nothing is asked yet.
    """
    if pipeline.settings.source.kafka is None:
        return None
    from dts_assets.sources.kafka_source import KafkaSource

    assert isinstance(pipeline.source, KafkaSource)
    return BrokerAdmin(pipeline.source.place)
