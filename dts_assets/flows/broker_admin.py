"""What a broker knows of a subscription beside its messages: how long it keeps them, and where the consumer group stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.retention import BrokerRetention

if TYPE_CHECKING:
    from dts_assets.sources.kafka_place import KafkaPlace


class BrokerAdmin(Protocol):
    """A broker's own view. All calls raise SourceError where it does not answer or does not allow the question."""

    def retention(self) -> BrokerRetention:
        """How long the topics keep messages; of several, the shortest."""
        ...

    def committed(self) -> Mapping[int, int | None]:
        """By Kafka partition the next offset that the group would read, None where it never committed; empty without a group."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Make ``offsets`` the next ones that the group would read."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaAdmin:
    """The broker that a subscription is read from."""

    place: KafkaPlace

    def retention(self) -> BrokerRetention:
        """How long the topics keep messages; of several, the shortest."""
        from dts_assets.sources.kafka_retention import topic_retention

        return topic_retention(self.place)

    def committed(self) -> Mapping[int, int | None]:
        """By Kafka partition the next offset that the group would read, None where it never committed; empty without a group."""
        from dts_assets.sources.kafka_group import GroupOffsets

        return {} if self.place.group_id is None else GroupOffsets(self.place).committed()

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Make ``offsets`` the next ones that the group would read."""
        from dts_assets.sources.kafka_group import GroupOffsets

        GroupOffsets(self.place).commit(offsets)


_SECONDS = 5.0
"""How long a look waits for a broker that goes away in the middle of it: a sensor has 60 seconds for everything."""


def impatient(pipeline: Pipeline) -> Pipeline:
    """The same pipeline for a look at the source, not for a run: reads wait for a broker that is away for some seconds only."""
    if pipeline.settings.source.kafka is None:
        return pipeline
    from dts_assets.sources.kafka_source import KafkaSource

    source = pipeline.source
    return replace(pipeline, source=replace(source, patience=_SECONDS)) if isinstance(source, KafkaSource) else pipeline


def open_broker(pipeline: Pipeline) -> BrokerAdmin | None:
    """The broker of a subscription; None for a recording. Asks nothing yet."""
    if pipeline.settings.source.kafka is None:
        return None
    from dts_assets.sources.kafka_source import KafkaSource

    assert isinstance(pipeline.source, KafkaSource)
    return KafkaAdmin(pipeline.source.place)
