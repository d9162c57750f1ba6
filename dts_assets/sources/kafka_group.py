"""The offsets of a consumer group, read and set without joining the group.

An administrator's request sets the offsets, as the vendors' consoles do: it answers within seconds where a consumer's own commit
waits three quarters of a minute for a group that its user may not use. The user needs what it needs for consuming: to read the
topic and the group.

A consumer that has not joined reads the offsets. The library's own administrator's request for them kills the process where the
broker answers that it does not coordinate the group (yet), as it does for a moment after each start (librdkafka issue 5040).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from dts_assets.errors.sources import BrokerError
from dts_assets.sources.kafka_answers import answer_of, seconds_left, told
from dts_assets.sources.kafka_client import Client, client_of
from dts_assets.sources.kafka_place import KafkaPlace


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The offsets of a subscription's consumer group. The place must name the group."""

    place: KafkaPlace

    def committed(self) -> Mapping[int, int | None]:
        """Return the next offset that the group would read, by Kafka partition: ``{0: 41, 1: None}``.

        None stands for a partition that the group never committed.

        Raises:
            BrokerDeniedError: The user may not use the group.
            BrokerError: The broker does not answer, or not as expected.
        """
        client, group = client_of(self.place), self._group
        layout = client.layout()
        # A user that may not use the group is refused at once here, where a consumer would wait in vain.
        client.ask(lambda admin, seconds: admin.describe_consumer_groups([group], request_timeout=seconds), _DOING)
        partitions = [TopicPartition(*place) for place in layout]
        found = self._settled(client, lambda seconds: client.member().committed(partitions, timeout=seconds))
        offsets = {(one.topic, one.partition): one.offset for one in found}
        return {number: None if offsets[at] < 0 else offsets[at] for number, at in enumerate(layout)}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Set the next offsets that the group would read, by Kafka partition; other partitions stay as they are.

        Raises:
            GroupInUseError: A client has joined the group.
            BrokerDeniedError: The user may not use the group.
            BrokerError: The broker does not answer, or not as expected.
        """
        if not offsets:
            return
        client, group = client_of(self.place), self._group
        layout = client.layout()
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(*layout[number], offset) for number, offset in offsets.items()]
        )

        def put(_: float) -> list[TopicPartition]:
            (answer,) = client.ask(
                lambda admin, seconds: admin.alter_consumer_group_offsets([wanted], request_timeout=seconds), _DOING
            ).values()
            return list(answer.topic_partitions)

        self._settled(client, put)

    def _settled(self, client: Client, put: Callable[[float], list[TopicPartition]]) -> list[TopicPartition]:
        """Return the broker's answer for each partition, asked again while its obstacle may pass.

        A coordinator that has just started is still loading the group.
        """

        def attempt(began: float) -> list[TopicPartition]:
            try:
                found = put(seconds_left(began))
                errors = [one.error for one in found if one.error is not None]
            except KafkaException as problem:
                found, errors = [], [problem.args[0]]
            if errors:
                raise told(errors[0], self.place.servers, _DOING.format(self._group), self._group)
            return found

        return answer_of(attempt, client.heard)

    @property
    def _group(self) -> str:
        if self.place.group_id is None:
            raise BrokerError(
                self.place.servers, "no group_id is configured under source.kafka, so there is no group to ask"
            )
        return self.place.group_id


_DOING = "use consumer group {}"
