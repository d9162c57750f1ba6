"""The time that a broker keeps the messages of some topics, where it may be asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from confluent_kafka.admin import ConfigResource, ResourceType

from dts_assets.model.retention import BrokerRetention
from dts_assets.sources.kafka_client import client_of
from dts_assets.sources.kafka_place import KafkaPlace

_FOR_EVER = -1
_LONGEST = timedelta(days=36_500)
"""A longer age is no limit: many set the greatest number that there is, which is no duration."""


def topic_retention(place: KafkaPlace) -> BrokerRetention:
    """Return the age and size up to which the topics of a place keep messages.

    Of several topics the least of each counts.

    Raises:
        BrokerDeniedError: The user may read messages, but not settings.
        BrokerError: The broker does not answer, or not as expected.
    """
    found = client_of(place).ask(
        lambda admin, seconds: admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic) for topic in place.topics], request_timeout=seconds
        ),
        "read the settings of {}",
        refused_for=0.0,  # an account that may only read is refused at every look
    )
    each = [retention_of({name: entry.value for name, entry in configs.items()}) for configs in found.values()]
    return BrokerRetention(
        min((one.age for one in each if one.age is not None), default=None),
        min((one.bytes for one in each if one.bytes is not None), default=None),
    )


def retention_of(configs: Mapping[str, str | None]) -> BrokerRetention:
    """Return the retention that a topic's settings name.

    A topic that is compacted and not deleted forgets nothing by age or size.
    """
    if "delete" not in (configs.get("cleanup.policy") or "delete"):
        return BrokerRetention(None, None)
    age = int(configs.get("retention.ms") or _FOR_EVER)
    size = int(configs.get("retention.bytes") or _FOR_EVER)
    limited = 0 <= age <= _LONGEST // timedelta(milliseconds=1)
    return BrokerRetention(timedelta(milliseconds=age) if limited else None, None if size < 0 else size)
