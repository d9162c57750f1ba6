"""The settings of an emulated Tencent DTS task, and the choices that the vendor's documents leave open.

Everything the documents do say is code, not an option: how entries are merged and cut, the order of fragments, the texts of
values, contiguous ``ps`` headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dts_emulator.messages.routing import Routing

Boundaries = Literal["broadcast", "touched"]
Partitioning = Literal["table", "table+key"]


@dataclass(frozen=True, slots=True)
class DtsOptions:
    """One subscription task. A user of the vendor sets the first group; on the rest the vendor is silent."""

    topic: str = "topic-subs-emulator-cdb"
    partitions: int = 1
    """Kafka partitions of the topic; the vendor offers 1, 4 and 8."""
    partitioning: Partitioning = "table+key"
    """``table``: all rows of a table in one partition. ``table+key``: by table and primary key."""

    source_type: Literal["MYSQL", "MARIADB"] = "MYSQL"
    """The kind of source in headers. Partition policies and ``uuid:n`` GTIDs exist for MySQL sources only."""
    max_message_bytes: int = 1_000_000
    """Most bytes of Entries in one message. Entries are merged below it; an entry set above it is cut into envelopes."""
    linger_ms: int = 0
    """The time that entries wait for more to merge with. 0: until the end of their transaction."""

    checkpoint_seconds: int = 10
    """Source time between two CHECKPOINTs in every partition, on whole multiples of it since the epoch."""
    heartbeat_seconds: int = 60
    """Source time between two HEARTBEATs in every partition; 0 sends none. When the vendor sends them is not documented."""

    transaction_boundaries: Boundaries = "broadcast"
    """The partitions that get BEGIN and COMMIT: all, or those that hold the transaction's rows (else partition 0)."""
    ddl_routing: Literal["broadcast", "first"] = "broadcast"
    """Partitions that get a DDL entry: all of them, or partition 0."""
    key_change_routing: Literal["old", "new"] = "old"
    """The key that routes an UPDATE which changes the primary key."""

    ddl_execution_seconds: int | None = None
    """The duration in DDL entries. None: that of the binlog, which is wrong where a session set its own clock."""

    header_position: Literal["end", "start"] = "end"
    """The position in an entry's header: the end of its binlog event (end_log_pos), or its first byte."""
    transaction_id_on_begin: bool = False
    """BEGIN carries the transaction id too. A binlog knows it at COMMIT only."""
    binary_as: Literal["string", "bytes"] = "string"
    """BINARY and VARBINARY: STRING with charset ``binary``, as the type table reads, or BYTES."""
    json_as: Literal["json", "text"] = "json"
    """The form of JSON columns, which MariaDB stores as longtext.

    ``json``: as a MySQL server has them (type ``json``, BYTES); ``text``: as the longtext they are.
    """
    original_type_sign: bool = True
    """The field originalType keeps ``unsigned`` and ``zerofill``. The samples show lengths, but no unsigned column."""
    utf8_name: Literal["utf8", "utf8mb3"] = "utf8"
    """The name of the three-byte UTF-8 charset; the samples say ``utf8``."""
    plain_charset: str = "utf8"
    """The charset of STRING values that have none in the database: dates and times."""
    zero_timestamp: str = "0000-00-00 00:00:00"
    """The text of the zero TIMESTAMP, which is no instant, before any offset."""

    latency_ms: int = 120
    """From the commit's source time to the first of its messages."""
    bytes_per_second: int = 16_000_000
    """The rate at which messages are sent, which spreads the message times of fragments."""
    first_offset: int = 0
    """Kafka offset of the first message of every partition; ``ps`` begins at 1 whatever it is."""
    shard_id: str | None = None
    """A ``ShardId`` header beside ``ps``, as TDSQL topics have; None for none."""

    def __post_init__(self) -> None:
        if (
            self.partitions < 1
            or self.max_message_bytes < 1
            or self.checkpoint_seconds < 1
            or self.bytes_per_second < 1
        ):
            raise ValueError(
                "partitions, max_message_bytes, checkpoint_seconds and bytes_per_second must be at least 1"
            )
        if self.heartbeat_seconds < 0 or self.linger_ms < 0 or self.latency_ms < 0:
            raise ValueError("heartbeat_seconds, linger_ms and latency_ms must not be negative")

    @property
    def routing(self) -> Routing:
        """The choice of a Kafka partition for row changes."""
        return Routing(self.partitions, self.partitioning == "table+key", self.key_change_routing == "new")
