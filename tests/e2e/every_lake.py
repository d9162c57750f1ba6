"""One configuration with many subscriptions: the captures of the repository, the scenarios of all formats, and made ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dts_emulator.messages.capture_files import CAPTURE_SCHEMA
from tests.wire.scenarios import Scenario, scenarios

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONGEST_NAME = 63
"""Dagster refuses longer ones, as values of its tags."""
EVERY_LAYER: Mapping[str, Any] = {"history": ["*"], "sql": {"tables": ["*"]}}


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """A message of a capture; its value may be null."""

    timestamp: datetime
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A subscription: its name, its format, and the folder of its capture or the messages that make one.

    ``windows`` is the number of windows of an hour, which begin at ``START``.
    """

    name: str
    format: str
    messages: Sequence[KafkaMessage] = ()
    capture: Path | None = None
    partitions: int = 1
    windows: int = 1
    schema: bytes | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


MakeTopic: TypeAlias = Callable[[], Topic]
"""Makes the messages of a topic, which takes a while for those with many types."""


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with one lake, and configurations of it.

    ``config`` names all subscriptions, each of ``parts`` some of them, and each of ``alone`` the one of its name.
    """

    folder: Path
    config: Path
    parts: Mapping[str, Path]
    alone: Mapping[str, Path]

    @classmethod
    def of(cls, topics: Iterable[Topic], folder: Path, *, part: Callable[[Topic], str] = lambda _: "all") -> Self:
        """Write the captures, the schema files and the configurations; ``part`` is the name of a topic's part."""
        parts: dict[str, dict[str, Any]] = {}
        for topic in topics:
            parts.setdefault(part(topic), {})[topic.name] = _subscription(topic, folder)
        whole = {name: one for some in parts.values() for name, one in some.items()}
        return cls(
            folder,
            _write_config(folder / "pipeline.yaml", whole),
            {name: _write_config(folder / f"part-{name}.yaml", some) for name, some in parts.items()},
            {name: _write_config(folder / f"alone-{name}.yaml", {name: one}) for name, one in whole.items()},
        )


def _write_config(file: Path, subscriptions: Mapping[str, Any]) -> Path:
    described = {
        "lake": {"warehouse": "./lake"},
        "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False}},
        "subscriptions": dict(subscriptions),
    }
    file.write_text(yaml.safe_dump(described, sort_keys=False), "utf-8")
    return file


def recorded_topics() -> dict[str, MakeTopic]:
    """Return a topic for each recorded capture of the repository: a folder of Parquet files with the columns of messages."""
    folders = sorted({file.parent for file in (ROOT / "examples").rglob("*.parquet")})
    return {folder.name: partial(_recorded_topic, folder) for folder in folders if _is_capture(folder)}


def scenario_topics() -> dict[str, MakeTopic]:
    """Return a topic for each folder of ``tests/data``; every second one has all layers."""
    return {
        scenario_name(scenario): partial(_scenario_topic, scenario, has_every_layer=number % 2 == 0)
        for number, scenario in enumerate(scenarios())
    }


def scenario_name(scenario: Scenario) -> str:
    return f"{scenario.folder.parent.name}_{scenario.folder.name}".replace("-", "_")[:LONGEST_NAME]


def _is_capture(folder: Path) -> bool:
    return all(pq.read_schema(file).names == CAPTURE_SCHEMA.names for file in folder.glob("*.parquet"))


def _recorded_topic(folder: Path) -> Topic:
    return Topic(folder.name, "dts-protobuf", capture=folder, partitions=4, windows=8, settings=EVERY_LAYER)


def _scenario_topic(scenario: Scenario, *, has_every_layer: bool) -> Topic:
    """The messages of a scenario, a second after one another."""
    settings = {**_settings_of(scenario), **(EVERY_LAYER if has_every_layer else {})}
    return Topic(
        scenario_name(scenario), scenario.folder.parent.name, tuple(_sent(scenario)), schema=scenario.settings.schema,
        settings=settings,
    )  # fmt: skip


def _sent(scenario: Scenario) -> Iterator[KafkaMessage]:
    for offset, row in enumerate(scenario.messages().to_pylist()):
        headers = tuple((one["key"], one["value"]) for one in row["headers"])
        yield KafkaMessage(START + timedelta(seconds=offset), row["value"], headers, offset=offset)


def _settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return the settings of a scenario by the names that they have in a configuration."""
    given = scenario.settings
    found: dict[str, Any] = {"source_time_zone": given.source_time_zone}
    if scenario.folder.parent.name == "drs-avro":
        found |= {"framing": str(given.framing), "avro": dict(given.fields)}
    return found


def _subscription(topic: Topic, folder: Path) -> dict[str, Any]:
    capture = topic.capture or _write_capture(topic, folder / "captures" / topic.name)
    described: dict[str, Any] = {
        "format": topic.format,
        "source": {"capture": str(capture)},
        "partitions": topic.partitions,
        "window": {"every": "1h", "start": _text(START), "end": _text(START + topic.windows * HOUR)},
        **topic.settings,
    }
    if topic.schema is not None:
        file = folder / "schemas" / topic.name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(topic.schema)
        described["schema"] = str(file)
    return described


def _write_capture(topic: Topic, folder: Path) -> Path:
    folder.mkdir(parents=True)
    rows = [
        {
            "topic": topic.name, "partition": one.partition, "offset": one.offset, "timestamp": one.timestamp, "key": None,
            "value": one.value, "headers": [{"key": name, "value": value} for name, value in one.headers],
        }
        for one in topic.messages
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, CAPTURE_SCHEMA), folder / "part-00000.parquet")
    return folder


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"
