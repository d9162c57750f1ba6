"""A configuration file written for a source that was looked into; comments say what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dts_assets.settings.values import duration_text


@dataclass(frozen=True, slots=True)
class SuggestedSubscription:
    """The subscription that a file is written for.

    ``others`` are formats that the messages may be of as well. The source is the folder ``capture``, or the broker at
    ``servers``. ``config`` has client settings as they are to be written: a secret as ``${NAME}``. ``topics`` have their numbers
    of partitions. ``schema`` is a path as it is to be written, and ``remarks`` are comments.
    """

    name: str
    format: str
    topics: tuple[tuple[str, int], ...]
    every: timedelta
    start: datetime
    end: datetime | None
    others: tuple[str, ...] = ()
    schema: str | None = None
    capture: str | None = None
    servers: str = ""
    group: str | None = None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    retention: timedelta | None = None
    time_zone: str | None = None
    remarks: Sequence[str] = ()

    @property
    def partitions(self) -> int:
        """The number of Kafka partitions of all topics."""
        return sum(count for _, count in self.topics)


def file_text(one: SuggestedSubscription) -> str:
    """Return the text of a ``pipeline.yaml`` with one subscription and a lake beside the file."""
    return "\n".join((*_lines(one), ""))


def _lines(one: SuggestedSubscription) -> Iterator[str]:
    yield "# Written by `dts-assets sniff`; `dts-assets config check` names mistakes, docs/configuration.md all keys."
    yield from (f"# {remark}" for remark in one.remarks)
    yield ""
    yield "lake:"
    yield "  warehouse: ./lake"
    yield ""
    yield "subscriptions:"
    yield f"  {one.name}:"
    either = f"  # or {', '.join(one.others)}: no message told which" if one.others else ""
    yield f"    format: {one.format}{either}"
    if one.schema is not None:
        yield f"    schema: {_text(one.schema)}"
    yield "    source:"
    yield from _source(one)
    yield f"    partitions: {one.partitions}"
    end = "" if one.end is None else f", end: {_instant(one.end)}"
    yield f"    window: {{every: {duration_text(one.every)}, start: {_instant(one.start)}{end}}}"
    if one.retention is not None:
        yield f"    retention: {duration_text(one.retention)}"
    if one.time_zone is not None:
        yield f"    source_time_zone: {_text(one.time_zone)}  # a guess: TIMESTAMP values name no zone"


def _source(one: SuggestedSubscription) -> Iterator[str]:
    if one.capture is not None:
        yield "      capture:"
        yield f"        path: {_text(one.capture)}"
        yield "        complete: true"
        if len(one.topics) > 1:
            yield "        topics:  # each with its number of Kafka partitions, numbered in this order"
            # In keys nothing stands for a value of the environment.
            yield from (f"          {json.dumps(topic)}: {count}" for topic, count in one.topics)
        return
    yield "      kafka:"
    yield f"        bootstrap_servers: {_text(one.servers)}"
    yield f"        topics: [{', '.join(_text(topic) for topic, _ in one.topics)}]"
    if one.group is not None:
        yield f"        group_id: {_text(one.group)}"
    if one.config:
        yield "        config:"
        yield from (f"          {_text(key)}: {json.dumps(value)}" for key, value in sorted(one.config.items()))


def _instant(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _text(text: str) -> str:
    """Return a text in quotes, in which nothing stands for a value of the environment."""
    return json.dumps(text.replace("${", "$${"))
