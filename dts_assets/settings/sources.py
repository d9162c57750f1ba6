"""The sources of messages in a configuration: captures, brokers, and the database that they come from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic import model_validator as check_whole

from dts_assets.model.foreign_keys import ForeignKeys
from dts_assets.settings.databases import SourceDatabase
from dts_assets.settings.kafka import ClientSettings, addresses, checked
from dts_assets.settings.places import AbsolutePath, Part, folder_of
from dts_assets.settings.values import mistake


class Capture(Part):
    """A folder of recorded Kafka messages."""

    path: AbsolutePath = Field(description="The folder with the Parquet files.")
    complete: bool = Field(True, description="false while it is still being recorded: its end closes no window.")
    topics: dict[Annotated[str, Field(min_length=1)], Annotated[int, Field(ge=1, le=100)]] = Field(
        default_factory=dict,
        description="The topics of a recording of several, each with its number of partitions; numbered in this order.",
    )


def _bare_path_is_complete(values: object) -> object:
    return {"path": values} if isinstance(values, str) else values


def _or_a_bare_path(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"type": "string"}, *schema["anyOf"]]


def _topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(topics)) < len(topics):
        raise mistake("a topic is listed twice", "list each topic once")
    return topics


class Kafka(Part):
    """A broker and the topics of one subscription."""

    bootstrap_servers: Annotated[str, AfterValidator(addresses)] = Field(
        min_length=1, description="host:port, several with commas."
    )
    topics: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AfterValidator(_topics)] = Field(
        min_length=1, description="Partitions of several topics are numbered in this order; add new ones at the end."
    )
    group_id: str | None = Field(None, min_length=1, description="The consumer group that the subscription was given.")
    config: ClientSettings = Field(
        default_factory=ClientSettings,
        description="librdkafka settings: security.protocol, sasl.mechanism, sasl.username, sasl.password, ssl.ca.location.",
    )

    commit: bool = Field(
        True,
        description="Whether the group is moved behind what is stored, so that the vendor's console shows the true lag.",
    )

    @field_validator("config")
    @classmethod
    def _taken_by_the_library(cls, config: ClientSettings, info: ValidationInfo) -> ClientSettings:
        return checked(config, folder_of(info))


class Source(Part):
    """The source of messages: exactly one of a capture and a broker, and the database behind them."""

    capture: Annotated[Capture | None, BeforeValidator(_bare_path_is_complete)] = Field(
        None,
        description="A folder of recorded messages; a bare path is a complete one.",
        json_schema_extra=_or_a_bare_path,
    )
    kafka: Kafka | None = Field(None, description="A Kafka broker.")
    database: SourceDatabase | None = Field(
        None, description="The database that the messages come from, which is asked for its settings alone."
    )

    foreign_keys: ForeignKeys = Field(
        ForeignKeys.NAMED,
        description="What foreign keys with CASCADE or SET NULL mean: named, logged (the server writes events) or accepted.",
    )

    @check_whole(mode="after")
    def _exactly_one(self) -> Source:
        if (self.capture is None) == (self.kafka is None):
            said = "nothing is said" if self.capture is None else "both capture and kafka are there"
            raise mistake(f"messages come from one place, and {said}", "write capture: and a folder, or kafka:")
        return self
