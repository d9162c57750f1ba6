"""The broker and the topics of a subscription, and the settings of the clients that connect to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dts_assets.settings.sources import Kafka

_NO_GROUP = "dts-assets"
"""The library wants a group's name even where no group is joined or asked."""

_DEFAULTS = {
    "client.id": "dts-assets",
    "log_level": "0",  # what is wrong is an error here, not a line on stderr
    "fetch.queue.backoff.ms": "5",  # at its default of 1000 a reader that keeps up waits most of the time
    "fetch.wait.max.ms": "10",  # what is read is there; at its default of 500 each range begins with half a second of waiting
    "queued.max.messages.kbytes": "32768",
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}
_FIXED: Mapping[str, Any] = {
    "auto.offset.reset": "error",  # every other value skips deleted messages without a word
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """A broker, the topics of one subscription, and the settings to connect with.

    ``config`` are librdkafka settings as pairs, ``(("sasl.username", "dts"),)``; they may hold a password, so no representation
    shows them. ``partitions`` is the configured number of partitions of all topics together: ours are numbered through them in
    the order listed.
    """

    servers: str
    topics: tuple[str, ...]
    partitions: int
    group_id: str | None = None
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, kafka: Kafka, partitions: int) -> KafkaPlace:
        """Return the place that a configuration names."""
        config = tuple(sorted(kafka.config.items()))
        return cls(kafka.bootstrap_servers, kafka.topics, partitions, kafka.group_id, config)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of every client of this place."""
        given = dict(self.config)
        defaults = {key: value for key, value in _DEFAULTS.items() if not (key == "log_level" and "debug" in given)}
        return {**defaults, **given, "bootstrap.servers": self.servers}

    @property
    def reader_settings(self) -> dict[str, Any]:
        """The settings of a client that reads messages."""
        return {**self.settings, **_FIXED, "group.id": self.group_id or _NO_GROUP}
