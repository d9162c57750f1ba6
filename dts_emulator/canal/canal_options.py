"""The settings of an emulated Canal, in the terms of Canal's own where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Literal

PartitionPolicy = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True)
class CanalOptions:
    """One Canal instance that sends to one topic (``canal.mq.*``)."""

    topic: str = "canal-emulator"
    partitions: int = 1
    """Kafka partitions of the topic (``canal.mq.partitionsNum``)."""
    partition_policy: PartitionPolicy = 0
    """0: by table (``partitionHash=.*\\..*``); 1: everything to partition 0; 2: by primary key (``.*\\..*:$pk$``)."""
    source_time_zone: tzinfo = UTC
    """The zone of Canal's own process, in which it writes TIMESTAMP values."""
    batch: int = 50
    """Most messages that share a batch number (``canal.mq.canalBatchSize``)."""
    pause_every: int | None = None
    """Canal is started again after every so many messages; None: never."""
    repeated: int = 0
    """The number of messages that it sends again then, since nobody had acknowledged them."""
    latency_ms: int = 120
    """From the commit's source time to the first of its messages."""
    bytes_per_second: int = 16_000_000
    """The rate at which messages are sent."""
    first_offset: int = 0
    """Kafka offset of the first message of every partition: the topic is the customer's own."""

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.batch < 1 or self.bytes_per_second < 1:
            raise ValueError("partitions, batch and bytes_per_second must be at least 1")
        if self.latency_ms < 0 or self.repeated < 0 or (self.pause_every is not None and self.pause_every < 1):
            raise ValueError("latency_ms and repeated must not be negative, and pause_every must be at least 1")
