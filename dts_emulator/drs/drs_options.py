"""The settings of an emulated Huawei DRS task, and the choices that the vendor's documents leave open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import ClassVar, Literal

PartitionPolicy = Literal[0, 1, 2]
TopicPolicy = Literal[0, 1, 2, 3]
TEMPLATES: Mapping[int, str] = {1: "$database$-$schema$-$tablename$", 2: "$database$", 3: "$database$-$schema$"}
"""The templates of topics by policy, where none is given. MySQL has no schemas: that part is empty."""


@dataclass(frozen=True, slots=True)
class DrsOptions:
    """One synchronization task from MySQL to Kafka in the format JSON-C. The last group is where the vendor is silent."""

    deleted_in_old: ClassVar[bool] = False
    """The field of deleted rows is ``old``, and not ``data``."""
    epoch_seconds: ClassVar[bool] = False
    """TIMESTAMP values are seconds since the epoch with a fraction, and not wall clocks."""

    topic: str = "drs-emulator"
    partitions: int = 1
    """Kafka partitions of the customer's topic."""
    partition_policy: PartitionPolicy = 0
    """The vendor's numbers. 0: by database and table; 1: everything to partition 0; 2: by primary key, without one by table."""
    topic_policy: TopicPolicy = 0
    """The vendor's numbers. 0: one topic; 1: one for each table; 2: for each database; 3: for each database and schema."""
    topic_template: str | None = None
    """The name of a topic, ``$database$-$tablename$``, for every policy but 0. A statement's has an empty table name."""
    source_time_zone: tzinfo = UTC
    """The zone that TIMESTAMP values are written in."""
    full_load_until: int | None = None
    """The end of the full load, in seconds since the epoch. Everything that is committed later is an increment."""
    pause_every: int | None = None
    """The task is paused and resumed after every so many messages; None: never."""
    repeated: int = 0
    """The number of messages that a resumed task sends again, with the ids that they had."""

    rows_per_message: int = 1
    """Most rows of one message; the samples show one."""
    old: Literal["all", "changed"] = "all"
    """The columns in ``old`` of an UPDATE. ``all``, as in the vendor's sample; ``changed``, as Canal has it."""
    json_as: Literal["json", "text"] = "json"
    """The form of JSON columns. ``json``: as a MySQL server has them; ``text``: as the longtext that MariaDB makes of them."""
    latency_ms: int = 120
    """From the commit's source time to the first of its messages."""
    bytes_per_second: int = 16_000_000
    """The rate at which messages are sent."""
    first_offset: int = 0
    """Kafka offset of the first message of every partition: the topic is the customer's own."""

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.rows_per_message < 1 or self.bytes_per_second < 1:
            raise ValueError("partitions, rows_per_message and bytes_per_second must be at least 1")
        if self.topic_template is not None and not self.topic_policy:
            raise ValueError("a template of topics is for the topic policies 1, 2 and 3")
        if self.latency_ms < 0 or self.repeated < 0 or (self.pause_every is not None and self.pause_every < 1):
            raise ValueError("latency_ms and repeated must not be negative, and pause_every must be at least 1")


@dataclass(frozen=True, slots=True)
class DrsJsonOptions(DrsOptions):
    """A task with the format JSON, which differs from JSON-C in two points."""

    deleted_in_old: ClassVar[bool] = True
    epoch_seconds: ClassVar[bool] = True
