"""The configuration file as frozen values: every key, its default and its checks.

The field descriptions are what editors show, through the JSON Schema. Values that other rooms need are given in the words of
``model``: a window grid, tables, absolute paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic import model_validator as check_whole
from pydantic.json_schema import SkipJsonSchema

from dts_assets.errors import WireFormatError
from dts_assets.model.column_rules import RuleOf
from dts_assets.model.formats import UNCHANGED_VALUE, FormatSettings, FormatTraits, Framing
from dts_assets.model.message_retention import MessageAges
from dts_assets.model.routes import Routes, table_of
from dts_assets.model.row_filters import RowFilter
from dts_assets.model.tables import TableId
from dts_assets.model.type_mappings import mapped_type
from dts_assets.model.windows import WindowGrid
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.settings.databases import Jdbc
from dts_assets.settings.environment import writable_folder
from dts_assets.settings.formats import format_name, registered_formats, traits_of, usual_zone
from dts_assets.settings.maintenance import Maintenance
from dts_assets.settings.message_retention import MessageRetention, checked_ages
from dts_assets.settings.places import AbsolutePath, Lake, Part, Spark, default_duration, folder_of
from dts_assets.settings.routes import (
    MergeTexts,
    RenameTexts,
    check_routes,
    checked_merges,
    checked_renames,
    routes_of,
)
from dts_assets.settings.row_filters import WrittenFilter, filters_of
from dts_assets.settings.rules import ColumnRules, rule_finder, rule_texts, tables_of_rule
from dts_assets.settings.schema_changes import check_policies
from dts_assets.settings.snapshots import Snapshots
from dts_assets.settings.sources import Source
from dts_assets.settings.values import (
    VALUE,
    ColumnName,
    Duration,
    Glob,
    Instant,
    LakeType,
    TypeMappings,
    divides_a_day,
    instead,
    is_aligned,
    mistake,
    zone_name,
)

NAME_KEY, FOLDER_KEY, LAKE_KEY = HIDDEN_KEYS = ("<name>", "<folder>", "<lake>")
"""Keys that no file has. They tell a subscription its name, the file's folder and the key of the lake."""

_SUBSCRIPTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""Names of subscriptions are the values of Dagster's tags, which have 63 characters at most."""

_GLOB_CHARACTERS = frozenset("*?[")


def _with_format_names(schema: dict[str, Any]) -> None:
    schema["enum"] = list(registered_formats())


class WindowSettings(Part):
    """The windows of Kafka message time that partitions are made of, in UTC."""

    every: Annotated[Duration, AfterValidator(divides_a_day)] = Field(
        description="The length of a window: 15m, 1h, 1d."
    )
    start: Instant = Field(description="The start of the first window.")
    end: Instant | None = Field(None, description="The end of the last window; without one they go on.")
    grace: Duration = default_duration(
        "10m", "A Kafka partition that stays silent closes its window this long after its end."
    )
    live: bool = Field(False, description="Whether the window that is still open is refreshed too.")
    max_clock_skew: Duration = default_duration(
        "5m", "Messages dated further in the future than this are read past and named."
    )

    @field_validator("start", "end")
    @classmethod
    def _on_a_border(cls, instant: datetime | None, info: ValidationInfo) -> datetime | None:
        every = info.data.get("every")
        if instant is not None and every is not None and not is_aligned(instant, every):
            raise mistake(
                f"{VALUE} is no border between windows of this length",
                "windows are counted from midnight UTC: choose a time that many whole windows after it",
            )
        return instant

    @field_validator("end")
    @classmethod
    def _after_the_start(cls, end: datetime | None, info: ValidationInfo) -> datetime | None:
        start = info.data.get("start")
        if end is not None and start is not None and end <= start:
            raise mistake("the end is not after the start", "choose a later end, or leave it out")
        return end


class Tables(Part):
    """The source tables that are decoded, by globs of ``include`` and ``exclude``."""

    include: tuple[Glob, ...] = Field(
        ("*",), min_length=1, description="Names without * ? [ are in the graph before any data was read."
    )
    exclude: tuple[Glob, ...] = Field((), description="Tables that are left out although included.")

    def takes(self, table: TableId) -> bool:
        """Tell whether a table is decoded."""
        return _any_names(self.include, table) and not _any_names(self.exclude, table)

    @property
    def exact(self) -> tuple[TableId, ...]:
        """The tables that ``include`` names without a glob, less the excluded ones; sorted."""
        tables = {table_of(glob) for glob in self.include if not _GLOB_CHARACTERS & set(glob)}
        return tuple(sorted(table for table in tables if not _any_names(self.exclude, table)))


class Sql(Part):
    """Tables whose changes are also written out as statements."""

    tables: tuple[Glob, ...] = Field((), description="Globs, as in tables.")
    dialect: Literal["mysql", "postgresql"] = Field("mysql", description="The dialect of the statements.")


def _any_names(globs: tuple[str, ...], table: TableId) -> bool:
    return any(table.matches(glob) for glob in globs)


class Subscription(Snapshots):
    """A subscription: a topic that becomes tables."""

    name: SkipJsonSchema[str] = Field("subscription", alias=NAME_KEY)
    folder: SkipJsonSchema[Path] = Field(Path(), alias=FOLDER_KEY, repr=False)
    lake_key: SkipJsonSchema[str] = Field("lake", alias=LAKE_KEY, repr=False)
    format: Annotated[str, AfterValidator(format_name)] = Field(
        description="How the messages are encoded.", json_schema_extra=_with_format_names
    )
    schema_file: AbsolutePath | None = Field(
        None, alias="schema", description="The customer's own schema file, for formats that are read with one."
    )
    framing: Literal["auto", "raw", "confluent", "container"] = Field(
        "auto", description="The frame of Avro records, where the format fixes none; auto: each message tells."
    )
    avro: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict,
        description="The fields of Avro records by their roles, where a schema has other names than the documented ones: "
        "operation: header.op.",
    )
    source: Source = Field(description="Where messages come from.")
    partitions: int = Field(ge=1, le=100, description="How many Kafka partitions the topics have together.")
    window: WindowSettings = Field(description="How time is cut into windows.")
    consistency: Literal["cut", "window"] = Field(
        "cut",
        description="cut: with CHECKPOINTs no torn transaction is visible; window: all changes of a window are applied.",
    )
    epoch: int = Field(0, ge=0, description="Raised by hand when the topic was recreated and offsets began again.")
    retention: Duration = default_duration("24h", "How long the topic keeps its messages.")
    message_retention: MessageRetention = Field(
        default_factory=MessageRetention,
        description="How long messages and entries stay in the lake; without it all stay.",
    )
    maintenance: Maintenance = Field(
        default_factory=Maintenance, description="When and how the files of tables are kept in order."
    )
    source_time_zone: Annotated[str, AfterValidator(zone_name)] = Field(
        None, validate_default=True, description="The zone of values that carry none: +08:00 or Asia/Shanghai."
    )
    tables: Tables = Field(default_factory=Tables, description="Which source tables are decoded.")
    rename: RenameTexts = Field(
        default_factory=dict,
        description="Names in the lake by source tables; stars in both stand for equal texts: shopdb.*: sales.*.",
    )
    merge: MergeTexts = Field(
        default_factory=dict,
        description="Shards that become one table, globs by its name, with the columns _source_database and _source_table.",
    )
    history: tuple[Glob, ...] = Field((), description="Tables that also get every version of their rows.")
    history_retention: Duration | None = Field(
        None, description="How long versions that have ended stay in histories, in whole days; without it all stay."
    )
    sql: Sql = Field(default_factory=Sql, description="Tables whose statements are written out.")
    types: dict[ColumnName, LakeType] = Field(
        default_factory=dict,
        description="Types of columns, db.table.column, that the source does not declare or that are to be others.",
    )
    type_mapping: TypeMappings = Field(
        default_factory=dict,
        description="Lake types that are to be others than usual; or lists by globs, of which the first that matches counts.",
        json_schema_extra={"default": []},
    )
    unchanged_value: str | None = Field(
        UNCHANGED_VALUE, description="The text of PostgreSQL for a large value that an UPDATE left as it was; or null."
    )
    columns: ColumnRules = Field(
        default_factory=dict,
        description="Rules on columns, db.table.column or globs of them, of which the first that matches counts: drop, "
        "hash, mask or tokenize, before anything typed is stored.",
    )
    rows: dict[Glob, WrittenFilter] = Field(
        default_factory=dict,
        description="Row filters in a part of Spark SQL, by globs of tables, of which the first that matches counts.",
    )
    strict_rules: bool = Field(
        False, description="true: no table is made while a rule below columns or rows matches nothing that is known."
    )
    bootstrap: Bootstrap | None = Field(None, description="Where tables are copied from, to begin with or anew.")
    on_incomplete: Literal["continue", "block"] = Field(
        "continue", description="block: tables are not made from a window that is incomplete."
    )
    automation: Literal["sensors", "conditions"] = Field(
        "sensors",
        description="What asks for tables: a sensor that reads the ledger, or (for small graphs) Dagster's AutomationConditions.",
    )

    @field_validator("name")
    @classmethod
    def _fit_for_the_lake(cls, name: str) -> str:
        if not _SUBSCRIPTION_NAME.fullmatch(name):
            raise mistake(
                "the name cannot be used in the lake",
                "begin with a-z and go on with a-z, 0-9 and _, up to 63 characters",
                at=("..",),
            )
        return name

    @field_validator("partitions")
    @classmethod
    def _of_all_topics(cls, partitions: int, info: ValidationInfo) -> int:
        source: Source | None = info.data.get("source")
        topics = {} if source is None or source.capture is None else source.capture.topics
        if topics and sum(topics.values()) != partitions:
            raise mistake(
                f"the topics of the capture have {sum(topics.values())} Kafka partitions together, not {VALUE}",
                f"write partitions: {sum(topics.values())}, or mend the numbers below topics",
            )
        return partitions

    @field_validator("schema_file")
    @classmethod
    def _schema_where_needed(cls, schema: Path | None, info: ValidationInfo) -> Path | None:
        name = info.data.get("format")
        if name not in registered_formats():
            return schema
        if traits_of(name).needs_schema:
            if schema is None:
                raise mistake(
                    f"messages in {name} are read with a schema, and none is named", "write schema: and the file's path"
                )
        elif schema is not None:
            raise mistake(f"messages in {name} are read without a schema file", "remove the key")
        return schema

    @field_validator("framing", "avro")
    @classmethod
    def _avro_where_it_is_open(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.data.get("format")
        if value in ("auto", {}) or name not in registered_formats():
            return value
        roles = traits_of(name).roles
        if not roles:
            what = "frame" if info.field_name == "framing" else "names of fields"
            raise mistake(f"the {what} of messages in {name} cannot be chosen", "remove the key")
        if isinstance(value, Mapping):
            for role in value:
                if role not in roles:
                    raise mistake("no such role of a field", instead(role, roles), at=(role,))
        return value

    @field_validator("source_time_zone", mode="before")
    @classmethod
    def _zone_of_format(cls, zone: Any, info: ValidationInfo) -> Any:
        return usual_zone(info.data.get("format")) if zone is None else zone

    @field_validator("message_retention")
    @classmethod
    def _ages_fit(cls, ages: MessageRetention, info: ValidationInfo) -> MessageRetention:
        return checked_ages(ages, info.data.get("format"))

    @field_validator("rename")
    @classmethod
    def _names_apart(cls, rename: dict[str, str]) -> dict[str, str]:
        return checked_renames(rename)

    @field_validator("merge")
    @classmethod
    def _merged_apart(cls, merge: dict[str, tuple[str, ...]], info: ValidationInfo) -> dict[str, tuple[str, ...]]:
        return checked_merges(merge, info.data.get("rename", {}))

    @check_whole(mode="after")
    def _routes_fit(self) -> Self:
        routes = self.routes
        if routes:
            by_globs = ("history", "deletes", "schema_changes", "layout", "type_mapping", "rows")
            named = {name: getattr(self, name) for name in by_globs}
            named["columns"] = [*map(tables_of_rule, self.columns)]
            named["types"] = [name.rpartition(".")[0] for name in self.types]
            check_routes(routes, self.tables.exact, named, self.sql.tables)
            check_policies(self.schema_changes, routes)
        return self

    @property
    def database(self) -> Jdbc | None:
        """The source database, wherever it is named: below ``source``, ``verify`` or ``bootstrap``; None without one."""
        own, copied = self.source.database, self.bootstrap
        return own.jdbc if own is not None else self.verify.jdbc or (None if copied is None else copied.source.jdbc)

    @cached_property
    def _routes(self) -> Routes:
        return routes_of(self.rename, self.merge, self.tables.include, self.tables.exclude)

    def decodes(self, source: TableId) -> bool:
        """Tell whether changes of a source table are decoded."""
        return self.tables.takes(source) if not self.routes else self.routes.decoded_table(source) is not None

    def decoded_sources(self, table: TableId, sources: Iterable[TableId]) -> tuple[TableId, ...]:
        """Return the source tables of a lake table that are decoded, of those ``sources`` that events described.

        A table for which none is told is its own source.
        """
        routes = self.routes
        if not routes:
            return (table,) if self.tables.takes(table) else ()
        return tuple(source for source in (tuple(sources) or (table,)) if routes.decoded_table(source) == table)

    @property
    def grid(self) -> WindowGrid:
        """All windows of the subscription."""
        return WindowGrid(self.window.every, self.window.start, self.window.end)

    @property
    def traits(self) -> FormatTraits:
        """The traits of the subscription's format."""
        return traits_of(self.format)

    @property
    def format_settings(self) -> FormatSettings:
        """The settings that the format is made from.

        Raises:
            WireFormatError: the schema file cannot be read.
        """
        try:
            schema = None if self.schema_file is None else self.schema_file.read_bytes()
        except OSError as error:
            what = f"its schema file {self.schema_file} cannot be read ({error.strerror})"
            raise WireFormatError(self.format, what) from None
        fields = tuple(sorted(self.avro.items()))
        return FormatSettings(self.source_time_zone, schema, Framing(self.framing), fields, self.unchanged_value)

    @property
    def registry_path(self) -> Path:
        """The file with the tables that were found in this lake: ``registry/5d41402abc4b/shop.json``.

        It lies beside the configuration, or in Dagster's home where nothing can be written there.
        """
        return writable_folder(self.folder / "registry") / self.lake_key / f"{self.name}.json"

    @property
    def shipped_registry_path(self) -> Path:
        """The file with the tables that the graph shows while none is known of this lake: ``registry/shop.json``."""
        return self.folder / "registry" / f"{self.name}.json"

    @property
    def message_ages(self) -> MessageAges:
        """The ages and sizes from which on messages and entries are removed from the lake."""
        kept = self.message_retention
        return MessageAges(kept.raw, kept.entries, kept.raw_size, kept.entries_size)

    def mapped_type(self, table: TableId, original_type: str, lake_type: str) -> str | None:
        """Return the lake type that ``type_mapping`` gives a source type; None where the usual one stays."""
        routes = self.routes
        mappings = next((some for glob, some in self.type_mapping.items() if routes.means(table, glob)), ())
        return mapped_type(original_type, lake_type, mappings)

    def types_of(self, table: TableId) -> Mapping[str, str]:
        """Return the declared lake types of a table's columns, by column name."""
        named = (f"{one}." for one in (table, *self.routes.renamed_from(table)))
        return {
            name.removeprefix(prefix): kind
            for prefix in named
            for name, kind in self.types.items()
            if name.startswith(prefix)
        }

    def rule_finder(self, table: TableId) -> RuleOf:
        """Return the function that gives the rule on a column, by one of its names."""
        return rule_finder(self.columns, table, self.routes)

    def own_rule_finder(self, table: TableId) -> RuleOf:
        """Return the function that gives the rule that is written for a column of this very table."""
        return rule_finder(self.columns, table, self.routes, helps=False)

    def row_filter(self, table: TableId) -> RowFilter | None:
        """Return the row filter of a table, the last one of several; None where every row is wanted."""
        return next((rows for _, rows in reversed(self.row_filters(table))), None)

    def row_filters(self, table: TableId) -> tuple[tuple[datetime | None, RowFilter], ...]:
        """Return the row filters of a table, each with the window until which it holds."""
        found = next((one for glob, one in self.rows.items() if self.routes.means(table, glob)), None)
        return () if found is None else filters_of(found)

    @property
    def has_rules(self) -> bool:
        """True if there are rules on columns or rows."""
        return bool(self.columns or self.rows)

    @property
    def rules(self) -> list[Any]:
        """The rules on columns and rows as texts without secrets; empty lists where there are none."""
        # Where deleted rows stay, a filter is stricter with old images.
        return [*rule_texts(self.columns, self.rows), list(self.deletes.items()) if self.rows else []]


class Settings(Part):
    """A whole configuration file; ``repr`` and ``str`` show no value of the environment."""

    lake: Lake = Field(description="Where the tables are.")
    spark: Spark = Field(default_factory=Spark, description="Which Spark computes.")
    subscriptions: dict[str, Subscription] = Field(
        min_length=1,
        description="Topics by the name that their tables get.",
        json_schema_extra={"propertyNames": {"pattern": f"^{_SUBSCRIPTION_NAME.pattern}$"}},
    )

    @field_validator("subscriptions", mode="before")
    @classmethod
    def _named(cls, subscriptions: object, info: ValidationInfo) -> object:
        if not isinstance(subscriptions, Mapping):
            return subscriptions
        told: dict[str, Any] = {}
        lake: Lake | None = info.data.get("lake")
        for name, values in subscriptions.items():
            own = {NAME_KEY: name, FOLDER_KEY: folder_of(info), LAKE_KEY: "" if lake is None else lake.key}
            told[name] = {**values, **own} if isinstance(values, Mapping) else values
        return told
