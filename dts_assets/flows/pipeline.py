"""Everything that the flows of one subscription share: its settings, its source, its lake and its ledger."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeAlias, TypeVar

from pyspark.sql import SparkSession

from dts_assets.errors import SetBackTableError
from dts_assets.errors.damage import DamagedFileError
from dts_assets.errors.windows import NotReadyError
from dts_assets.flows.first_times import first_times
from dts_assets.flows.lake_shape import LakeShape, Topics
from dts_assets.flows.layers import LAYERS, Layer
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Comparison, IngestWindow, RawWindow
from dts_assets.model.message_retention import NOTHING_REMOVED, Removed
from dts_assets.model.routes import SET_COLUMN
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.type_mappings import TypeMapping
from dts_assets.model.version import CODE_VERSION, ROWS_VERSION
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.boundaries import Closing
from dts_assets.planning.copied_tables import Copies
from dts_assets.planning.message_retention import Unmakeable
from dts_assets.planning.partial_images import NO_PARTIAL_IMAGES, PartialImages
from dts_assets.planning.settled_past import NO_PAST, Past
from dts_assets.planning.topic_marks import TopicMarks
from dts_assets.settings.models import Settings, Subscription
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.sources.source import Source
from dts_assets.stages.reached_tables import Reached
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.other_tables import OtherTables
from dts_assets.wire.format import WireFormat
from dts_assets.wire.formats import wire_format

SparkProvider: TypeAlias = Callable[[], SparkSession]
"""Gives the session at first use: flows that find nothing to do start no JVM."""

Row = TypeVar("Row", RawWindow, IngestWindow)

_MOVED_ROWS_PASS = "rules of moved rows"


@dataclass(frozen=True)  # without slots, for the cached property
class Pipeline:
    """One subscription, opened for one run. Reads and writes nothing until a flow does."""

    settings: Subscription
    source: Source
    lake: Lake
    layers: tuple[Layer, ...] = LAYERS

    @property
    def name(self) -> str:
        """The subscription's name, the first part of all its asset keys."""
        return self.settings.name

    @property
    def layer_titles(self) -> tuple[str, ...]:
        """The titles of all layers; one is another text once other tables have the layer.

        Where there are rules one more says that rows which statements move have passed them.
        """
        titles = tuple(layer.title(self.settings) for layer in self.layers)
        return (*titles, _MOVED_ROWS_PASS) if self.settings.has_rules else titles

    @property
    def grid(self) -> WindowGrid:
        """All windows."""
        return self.settings.grid

    @property
    def kafka_partitions(self) -> range:
        """All Kafka partitions."""
        return range(self.settings.partitions)

    @property
    def complete(self) -> bool:
        """True if the source is a recording that has ended."""
        capture = self.settings.source.capture
        return capture is not None and capture.complete

    @cached_property
    def format(self) -> WireFormat:
        """The wire format, made from the subscription's settings at first use.

        Its schema file is read once: if the file changes in the middle of a run, tasks and generations still agree.

        Raises:
            WireFormatError: No package registers the format, or its schema file cannot be read or used.
        """
        return wire_format(self.settings.format, self.settings.format_settings)

    @cached_property
    def reached(self) -> dict[int | None, Mapping[TableId, frozenset[Reached]]]:
        """The tables that rows of tables reach, by the version of the table ``ddl`` that says it."""
        return {}

    @property
    def ledger(self) -> Ledger:
        """The ledger of the subscription.

        Raises:
            LakeFormatError: Another version of dts-assets made its tables.
        """
        self.lake.require_format(self.name)
        return Ledger(self.lake.catalog, self.name)

    def other_tables(self) -> OtherTables:
        """Return the tables of the catalog that are asked before files of the subscription go."""
        return OtherTables(self.lake.catalog, near=self.settings.maintenance.other_tables == "near")

    def learn_sets(self) -> None:
        """Note that messages tell the sets of a TDSQL.

        From now on tables have the column of the set. The registry says so, which is read before anything depends on it.
        """
        if not self.settings.routes.by_set:
            object.__setattr__(self, "settings", self.settings.by_set())

    def cells(self, windows: Iterable[Window]) -> list[Cell]:
        """Return the cells of some windows in all Kafka partitions, window by window."""
        return [Cell(partition, window) for window in windows for partition in self.kafka_partitions]

    def by_partition(self, rows: Iterable[Row]) -> dict[int, list[Row]]:
        """Return the rows of the present epoch by Kafka partition, in offset order."""
        found: dict[int, list[Row]] = {number: [] for number in self.kafka_partitions}
        for row in rows:
            if row.epoch == self.settings.epoch:
                found[row.kafka_partition].append(row)
        return {number: sorted(mine, key=lambda row: (row.window, row.offsets)) for number, mine in found.items()}

    def require(self, cells: Iterable[Cell], stored: Collection[Cell], *, needed: str) -> None:
        """Refuse to go on if some cells of the asset ``needed`` are not stored.

        Raises:
            NotReadyError: A cell is not stored.
        """
        missing: dict[str, list[int]] = {}
        for cell in cells:
            if cell not in stored:
                missing.setdefault(cell.window.key, []).append(cell.kafka_partition)
        if missing:
            raise NotReadyError(self.name, missing, needed)

    def path(self, *parts: str) -> tuple[str, ...]:
        """Return the asset key, and lake table, of a layer: ``path("entries")`` is ``("shop", "entries")``."""
        return (self.name, *parts)

    def table_path(self, layer: str, table: TableId) -> tuple[str, ...]:
        """Return the asset key of a source table in a layer: ``("shop", "changelog", "shopdb", "orders")``."""
        return (self.name, layer, *table.path)

    def has_rows(self, layer: Layer, table: TableId) -> bool:
        """Return whether anything was ever committed to a source table's table in a layer."""
        return self.lake.state(self.table_path(layer.name, table)) is not None

    def is_stored(self, layer: Layer, table: TableId) -> bool:
        """Return whether a source table has a table in a layer; one that cannot be read is there."""
        with suppress(DamagedFileError, SetBackTableError):
            return self.lake.table(self.table_path(layer.name, table)) is not None
        return True

    def topic_marks(
        self,
        rows: Iterable[IngestWindow],
        tables: Iterable[TableId],
        *,
        copied: Copies,
        past: Past = NO_PAST,
        judged: Past = NO_PAST,
        partial: PartialImages = NO_PARTIAL_IMAGES,
    ) -> TopicMarks:
        """Return the marks of all stored windows; ``rows`` are all rows of ``windows``, ``tables`` all known tables.

        ``copied`` are tables that were copied beside the stream, ``partial`` the images that lack columns of a key.
        Rows of the windows that ``past`` tells of may be left out. Windows that ``judged`` tells of get no proof.
        """
        return TopicMarks.of(
            rows,
            tables,
            kafka_partitions=self.kafka_partitions,
            consistency=Consistency(self.settings.consistency),
            order=self.settings.traits.order,
            settings=self.shaping_settings(),
            comparisons=self.comparisons(),
            copied=copied,
            past=past,
            judged=judged,
            partial=partial,
        )

    def copies(self) -> Copies:
        """Return the copied tables that windows take, or have taken."""
        tables = tuple(one for one in self.ledger.copied_tables() if one.is_input)
        waiting = any(one.window_start is None for one in tables)
        return Copies(tables, self.unmakeable().removed if waiting else NOTHING_REMOVED)

    def unmakeable(self) -> Unmakeable:
        """Return what cannot be made again, because retention has removed rows that it would be made from."""
        return Unmakeable(Removed(tuple(self.ledger.removed_rows())), self.grid)

    def comparisons(self) -> list[Comparison]:
        """Return what messages behind falling ids turned out to be; none where messages carry no ids."""
        return self.ledger.comparisons() if self.settings.traits.order is ChangeOrder.MESSAGE_ID else []

    def closing(self) -> Closing:
        """Return the rule by which windows close, with the time of now."""
        return Closing(self.complete, self.settings.window.grace, self.source.now())

    def new_run(self) -> str:
        """Return a name for the folder that the files of one flow call share."""
        return uuid.uuid4().hex

    def decoding_settings(self) -> str:
        """Return a digest of the code and the settings that decide what entries look like."""
        facts = f"{ROWS_VERSION} {self.format.entries_fingerprint}"
        return hashlib.sha256(facts.encode()).hexdigest()[:12]

    def lake_type(self, table: TableId, original_type: str, *, unsigned: bool = False) -> str:
        """Return the lake type of a source type: the format's, or what ``type_mapping`` asks for.

        ``unsigned`` says that a value was unsigned although the type's text does not say so.
        """
        usual = self.format.column_type(original_type, unsigned=unsigned, table=table)
        return self.settings.mapped_type(table, original_type, usual) or usual

    @property
    def clock_zone(self) -> str:
        """The zone of wall clocks that settings store as instants; empty where they store none so."""
        mapped = any(TypeMapping.DATETIME_TO_TIMESTAMP in some for some in self.settings.type_mapping.values())
        return self.settings.source_time_zone if mapped or "timestamp" in self.settings.types.values() else ""

    def shaping_settings(self) -> str:
        """Return a digest of the settings that decide what rows of tables look like."""
        settings = self.settings
        facts: dict[str, object] = {
            "types": dict(sorted(settings.types.items())),
            "include": list(settings.tables.include),
            "exclude": list(settings.tables.exclude),
            "format": self.format.changes_fingerprint,
            "consistency": settings.consistency,
            **(
                {"mapping": {glob: list(some) for glob, some in settings.type_mapping.items()}}
                if settings.type_mapping
                else {}
            ),
        }
        if self.clock_zone:
            facts["zone"] = self.clock_zone
        if any(settings.rules):  # a lake without rules keeps the digest that it has
            facts["rules"] = settings.rules
        if settings.routes:
            merges = [[name, list(some)] for name, some in settings.merge.items()]
            facts["routes"] = {"rename": list(settings.rename.items()), "merge": merges}
            if settings.routes.by_set:
                facts["sets"] = SET_COLUMN
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def judging_settings(self) -> str:
        """Return a digest of everything beside the ledger that decides whether a window is stale."""
        first = self.first_window()
        facts = [
            CODE_VERSION,
            self.decoding_settings(),
            self.shaping_settings(),
            self._shape(),
            first and first.isoformat(),
        ]
        if copied := [one.copy for one in self.ledger.copied_tables() if one.is_input]:
            facts.append(",".join(copied))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]

    def check_shape(self) -> None:
        """Refuse settings that an existing lake was not built with; remember them in a new one.

        Stored offsets and windows would mean something else under another grid. The source is not asked.

        Raises:
            IncompatibleLakeError: The lake was built with another setting, or other topics.
        """
        self._lake_shape.check_settings()

    def check_topics(self) -> None:
        """Refuse topics whose Kafka partitions have other numbers in the lake; remember added ones.

        Raises:
            OtherTopicsError: The lake was built with other topics.
            SourceError: The source does not tell its topics.
        """
        self._lake_shape.check_topics(self.topics(), self._first_window_of)

    def first_window(self) -> datetime | None:
        """Return the start of the first window that counts; None while there is no message.

        It is the window of the first message ever seen, or the grid's first. It is found once and stored, so that a topic
        that forgets its beginning does not move the frontier.
        """
        stored = self._lake_shape.first_window()
        if stored is not None:
            return stored
        first = self._first_window_of(self.kafka_partitions)
        if first is not None and self.lake.table(self.path("raw_windows")) is not None:
            self._lake_shape.remember_first_window(first)
        return first

    def topics(self) -> Topics:
        """Return the topics with their numbers of partitions, as :func:`topics_of` does."""
        return topics_of(self.settings, self.source)

    def _first_window_of(self, kafka_partitions: range) -> datetime | None:
        """Return the start of the first window in which some Kafka partitions have messages now."""
        skew = self.settings.window.max_clock_skew
        marks = {number: mark for number, mark in self.source.watermarks().items() if number in kafka_partitions}
        times = first_times(self.source, marks, since=self.grid.start, skew=skew).values()
        return self.grid.at(max(0, self.grid.number(min(times)))).start if times else None

    @property
    def _lake_shape(self) -> LakeShape:
        kafka, capture = self.settings.source.kafka, self.settings.source.capture
        told: Topics = () if capture is None else tuple(capture.topics.items())
        names = tuple(name for name, _ in told) if kafka is None else kafka.topics
        return LakeShape(self.lake, self.name, self._shape(), names, told)

    def _shape(self) -> dict[str, str | int]:
        return {
            "window.every": str(self.grid.every),
            "window.start": self.grid.start.isoformat(),
            "partitions": self.settings.partitions,
            "epoch": self.settings.epoch,
        }


def open_pipeline(
    settings: Settings, name: str, *, layers: tuple[Layer, ...] = LAYERS, only_read: bool = False
) -> Pipeline:
    """Return the pipeline of a subscription. It makes the tables of ``layers``, or is ``only_read`` and makes none."""
    subscription = settings.subscriptions[name]
    lake = Lake(replace(lake_location(settings), only_read=only_read))
    return Pipeline(subscription, open_source(subscription), lake, layers)


def open_source(subscription: Subscription) -> Source:
    """Return the source of a subscription.

    Nothing is read and nobody is asked yet.
    """
    capture, kafka = subscription.source.capture, subscription.source.kafka
    if capture is not None:
        topics = tuple(capture.topics.items())
        return CaptureSource(str(capture.path), subscription.partitions, complete=capture.complete, topics=topics)
    assert kafka is not None, "the settings refuse a source that is neither"
    from dts_assets.sources.kafka_source import KafkaSource  # not needed, and so not loaded, where a capture is read

    return KafkaSource.of(kafka, subscription.partitions)


def topics_of(subscription: Subscription, source: Source) -> Topics:
    """Return the topics of a subscription with their numbers of partitions, in the order of numbering.

    There are none where the source is a recording of one topic without a message. A broker is asked if there are several.
    """
    kafka = subscription.source.kafka
    if isinstance(source, CaptureSource):
        return source.named_topics()
    if kafka is None or len(kafka.topics) == 1:
        return () if kafka is None else ((kafka.topics[0], subscription.partitions),)
    from dts_assets.sources.kafka_source import KafkaSource  # not needed, and so not loaded, where a capture is read

    return source.topics() if isinstance(source, KafkaSource) else ()


def lake_location(settings: Settings) -> LakeLocation:
    """Return the place of a configuration's lake."""
    catalog = settings.lake.catalog
    return LakeLocation(settings.lake.warehouse, {"type": catalog.type, **dict(catalog.properties)})
