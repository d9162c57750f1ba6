"""A project in a folder of its own: a configuration, a registry, a capture that may grow. No Spark, no network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.defs.assemble import assemble
from dts_assets.defs.resources import PipelineResource
from dts_assets.model.tables import TableId
from dts_assets.settings import Subscription, load_settings
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

    from dts_assets.flows.pipeline import Pipeline

CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: ./capture, complete: {complete}}}}}
    partitions: {partitions}
    window: {{every: {every}, start: 2026-01-05T00:00Z, end: {end}, live: {live}}}
    tables: {{include: [{include}], exclude: [{exclude}]}}
    history: [{history}]
    automation: {automation}
"""


@dataclass(frozen=True)
class Project:
    """A folder with ``pipeline.yaml``; nothing else is there until a test puts it there."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "pipeline.yaml"

    def touch_config(self) -> None:
        """Give the configuration the time of now: the clock that ``touch`` takes it from may be 10 ms behind."""
        now = time.time_ns()
        os.utime(self.config, ns=(now, now))

    @property
    def subscription(self) -> Subscription:
        return load_settings(self.config).subscriptions["shop"]

    @property
    def pipelines(self) -> PipelineResource:
        return PipelineResource(config_path=str(self.config))

    @property
    def pipeline(self) -> Pipeline:
        return self.pipelines.pipeline("shop")

    def configure(
        self,
        *,
        partitions: int = 2,
        every: str = "1h",
        end: str = "2026-01-05T03:00Z",
        complete: bool = True,
        live: bool = False,
        automation: str = "sensors",
        include: Iterable[str] = ("shopdb.*",),
        exclude: Iterable[str] = (),
        history: Iterable[str] = (),
    ) -> Project:
        facts = {
            "partitions": partitions,
            "every": every,
            "end": end,
            "complete": str(complete).lower(),
            "live": str(live).lower(),
            "automation": automation,
        }
        globs = {
            name: ", ".join(f'"{one}"' for one in found)
            for name, found in (("include", include), ("exclude", exclude), ("history", history))
        }
        self.config.write_text(CONFIGURATION.format(**facts, **globs))
        return self

    def register(self, tables: Mapping[TableId, Iterable[tuple[str, str, bool]]]) -> Project:
        """Put tables into the registry of the lake: columns as (name, lake type, whether of the key).

        Before the lake is made it is the file that is shipped with a configuration.
        """
        lake = self.pipeline.lake.identity("shop") if (self.folder / "lake").exists() else None
        shop = self.subscription
        merge_registry(
            shop.shipped_registry_path if lake is None else shop.registry_path,
            [
                RegisteredTable(table, tuple(RegisteredColumn(name, kind, kind, key) for name, kind, key in columns))
                for table, columns in tables.items()
            ],
            lake=lake,
        )
        return self

    def definitions(self) -> dg.Definitions:
        return assemble(load_settings(self.config), self.config)

    def graph(self) -> AssetGraph:
        return self.definitions().resolve_asset_graph()

    def send(self, file: str, messages: Iterable[tuple[int, int, datetime]]) -> None:
        """Add a file to the capture, with messages as (Kafka partition, offset, time)."""
        rows = [
            {"topic": "shop", "partition": partition, "offset": offset, "timestamp": time, "value": b"v"}
            for partition, offset, time in messages
        ]
        (self.folder / "capture").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, MESSAGE_SCHEMA), self.folder / "capture" / f"{file}.parquet")
