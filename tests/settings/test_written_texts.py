"""Texts that look like numbers or flags: whoever passes them on passes on what was written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from dts_assets.settings import Settings, load_settings

EVERYWHERE = """\
lake: {{warehouse: ./lake, catalog: {{type: rest, uri: u, token: {written}}}}}
spark: {{conf: {{a.b: {written}}}}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{kafka: {{bootstrap_servers: h, topics: [t], config: {{client.id: {written}}}}}}}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
"""
NUMBERS = """\
lake: {warehouse: ./lake}
subscriptions:
  shop:
    format: dts-protobuf
    source: {capture: {path: ./capture, complete: False}}
    partitions: 0x10
    epoch: 007
    window: {every: 1h, start: 2026-01-05T00:00Z}
"""


def settings_of(folder: Path, text: str) -> Settings:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    return load_settings(file, environment={})


@pytest.mark.parametrize(
    "written",
    ["012345", "1e3", "0x1F", "0o17", "1_000", "+5", "-0", ".50", "1.10", "True", "FALSE", "2026-01-05", "12:30"],
)
def test_what_is_passed_on_is_what_was_written(tmp_path: Path, written: str) -> None:
    settings = settings_of(tmp_path, EVERYWHERE.format(written=written))
    kafka = settings.subscriptions["shop"].source.kafka
    assert kafka is not None
    assert (settings.lake.catalog.properties["token"], settings.spark.conf["a.b"]) == (written, written)
    assert kafka.config["client.id"] == written


def test_numbers_and_flags_are_plain_ones(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, NUMBERS)
    shop = settings.subscriptions["shop"]
    assert shop.source.capture is not None
    assert [repr(one) for one in (shop.partitions, shop.epoch, shop.source.capture.complete)] == ["16", "7", "False"]
    assert pickle.loads(pickle.dumps(settings)) == settings
