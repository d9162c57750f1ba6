"""Where a consumer group stands, read and set without joining it.

An administrator's request sets the offsets, as the vendors' consoles do: it answers within seconds where a consumer's own commit
waits three quarters of a minute for a group that its user may not use. The user needs what it needs for consuming: to read the
topic and the group.

A consumer that has not joined reads them. The library's own administrator's request for them kills the process where the broker
answers that it does not coordinate the group (yet), as it does for a moment after each start (librdkafka issue 5040).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from dts_assets.errors import BrokerError
from dts_assets.sources.kafka_client import ANSWER_SECONDS, Client, KafkaPlace, client_of
from dts_assets.sources.kafka_troubles import PASSING, error_of


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
        # Says at once what a consumer waits for in vain: that the user may not use the group.
        client.ask(lambda admin, seconds: admin.describe_consumer_groups([group], request_timeout=seconds), _DOING)
        partitions = [TopicPartition(*place) for place in layout]
        found = self._settled(client, lambda seconds: client.member().committed(partitions, timeout=seconds))
        offsets = {(one.topic, one.partition): one.offset for one in found}
        return {number: None if offsets[at] < 0 else offsets[at] for number, at in enumerate(layout)}

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

        def put(_: float) -> list[TopicPartition]:
            (answer,) = client.ask(
                lambda admin, seconds: admin.alter_consumer_group_offsets([wanted], request_timeout=seconds), _DOING
            ).values()
            return list(answer.topic_partitions)

        self._settled(client, put)

    def _settled(self, client: Client, put: Callable[[float], list[TopicPartition]]) -> list[TopicPartition]:
        """What the broker answers for each partition, asked again while what is in the way may pass: a coordinator that has just
        started is still loading the group."""
        began = time.monotonic()
        while True:
            left = began + ANSWER_SECONDS - time.monotonic()
            try:
                found = put(max(1.0, left))
                errors = [one.error for one in found if one.error is not None]
            except KafkaException as problem:
                found, errors = [], [problem.args[0]]
            if not errors:
                return found
            if errors[0].code() not in PASSING:
                raise error_of(errors[0], self.place.servers, _DOING.format(self._group), self._group)
            client.troubles.note(errors[0])
            if left <= 1:
                raise client.troubles.verdict(began) or client.troubles.unreachable(ANSWER_SECONDS, began)
            time.sleep(0.1)

    @property
    def _group(self) -> str:
        if self.place.group_id is None:
            raise BrokerError(
                self.place.servers, "no group_id is configured under source.kafka, so there is no group to ask"
            )
        return self.place.group_id


_DOING = "use consumer group {}"
