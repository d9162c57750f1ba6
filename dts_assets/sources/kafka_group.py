"""Where a consumer group stands, read and set without joining it.

An administrator's request sets the offsets, as the vendors' consoles do: it answers within seconds where a consumer's own commit
waits three quarters of a minute for a group that its user may not use. The user needs what it needs for consuming: to read the
topic and the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from dts_assets.broker_errors import BrokerError
from dts_assets.sources.kafka_client import KafkaPlace, client_of
from dts_assets.sources.kafka_troubles import error_of


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The offsets of the consumer group that a subscription was given. The place must name the group."""

    place: KafkaPlace

    def committed(self) -> Mapping[int, int | None]:
        """By Kafka partition: the next offset that the group would read; None where it never committed.

        Raises BrokerDeniedError if the user may not use the group, and other BrokerErrors.
        """
        client, group = client_of(self.place), self._group
        layout = client.layout()
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in layout])
        (answer,) = client.ask(
            lambda admin, seconds: admin.list_consumer_group_offsets([asked], request_timeout=seconds), _DOING
        ).values()
        found = {(one.topic, one.partition): one for one in answer.topic_partitions}
        for one in found.values():
            if one.error is not None:
                raise error_of(one.error, self.place.servers, _DOING.format(group), group)
        return {number: None if found[at].offset < 0 else found[at].offset for number, at in enumerate(layout)}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Make these the next offsets that the group would read, by Kafka partition; the others stay.

        Raises GroupInUseError while a client has joined the group, BrokerDeniedError, and other BrokerErrors.
        """
        if not offsets:
            return
        client, group = client_of(self.place), self._group
        layout = client.layout()
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(*layout[number], offset) for number, offset in offsets.items()]
        )
        (answer,) = client.ask(
            lambda admin, seconds: admin.alter_consumer_group_offsets([wanted], request_timeout=seconds), _DOING
        ).values()
        for one in answer.topic_partitions:
            if one.error is not None:
                raise error_of(one.error, self.place.servers, _DOING.format(group), group)

    @property
    def _group(self) -> str:
        if self.place.group_id is None:
            raise BrokerError(
                self.place.servers, "no group_id is configured under source.kafka, so there is no group to ask"
            )
        return self.place.group_id


_DOING = "use consumer group {}"
