"""The recording in ``examples/shop`` with a configuration and a lake of a test's own."""

from __future__ import annotations

from pathlib import Path

from dts_assets.flows.pipeline import open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.settings import load_settings
from tests.flows.harness import Harness

ROOT = Path(__file__).parents[1]
"""The folder of the project."""

_CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {root}/examples/shop, complete: true}}}}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z, end: 2026-01-05T0{hours}:00Z}}
    tables: {{include: [{tables}]}}
    {more}
"""


def shop_config(folder: Path, *tables: str, hours: int = 5, more: str = "") -> Path:
    """Write the file of configuration of a lake with some tables of the database ``shopdb``, and with ``more`` settings."""
    path, named = folder / "pipeline.yaml", ", ".join(f'"shopdb.{name}"' for name in tables)
    path.write_text(_CONFIG.format(folder=folder, root=ROOT, hours=hours, tables=named, more=more))
    return path


def shop_of(config: Path) -> Harness:
    """The subscription of a file of configuration, whose flows run in this process."""
    return Harness(open_pipeline(load_settings(config), "shop"), this_process())
