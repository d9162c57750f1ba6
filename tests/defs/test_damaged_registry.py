"""A damaged registry file takes no other subscription out of the graph, and the next look at the tables writes it anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from dts_assets.defs.assemble import assemble
from dts_assets.errors import LakeTableError
from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import register_shapes
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.model.columns import ColumnShape
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import ServerPosition
from dts_assets.model.spans import Cell
from dts_assets.settings import load_settings
from dts_assets.wire.format import TableShape
from tests.defs.test_two_lakes import ORDERS, SHIPPED, known, ship, shown, subscription

CONFIGURATION = """\
lake: {warehouse: ./lake}
subscriptions:
"""
SUBSCRIPTION = """\
  NAME:
    format: dts-protobuf
    source: {capture: {path: ./capture, complete: false}}
    partitions: 1
    window: {every: 1h, start: 2026-01-05T00:00Z}
"""


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40:80] = bytes(255 - one for one in content[40:80])
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replaced(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


DAMAGES = {
    "flipped": flipped,
    "cut": cut,
    "empty": replaced(""),
    "nested": replaced("[" * 200_000),
    "other JSON": replaced("[1]"),
    "no tables": replaced('{"version": 1}'),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A lake of two subscriptions, shop and bank, each with the table orders."""
    file = tmp_path / "pipeline.yaml"
    (tmp_path / "capture").mkdir()
    file.write_text(CONFIGURATION + "".join(SUBSCRIPTION.replace("NAME", name) for name in ("shop", "bank")))
    for name in ("shop", "bank"):
        pipeline = open_pipeline(load_settings(file), name)
        pipeline.check_shape()  # makes the lake
        start, columns = pipeline.grid.at(0), (ColumnShape("id", "int(11)", True),)
        row = TableShapeRow(0, start.start, ORDERS, columns, ServerPosition(1, 4), "1")
        pipeline.ledger.replace_table_shapes([Cell(0, start)], [row])
        register_shapes(pipeline, [TableShape(ORDERS, columns)])
    return file


def descriptions(config: Path) -> dict[str, str]:
    """The descriptions of all assets, by their keys."""
    graph = assemble(load_settings(config), config).resolve_asset_graph()
    return {key.to_user_string(): graph.get(key).description or "" for key in graph.get_all_asset_keys()}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_graph_names_a_damaged_file_until_a_look_at_the_tables_writes_it_anew(
    damage: Callable[[Path], object], config: Path
) -> None:
    path = subscription(config).registry_path
    whole, before = path.read_bytes(), descriptions(config)
    assert "shop/snapshot/shopdb/orders" in before
    damage(path)
    told = descriptions(config)
    assert {name for name in before if name not in told} == {
        "shop/changelog/shopdb/orders",
        "shop/snapshot/shopdb/orders",
    }
    assert str(path) in told["shop/topic"]
    assert "damaged" in told["shop/topic"]
    assert "dts-assets run" in told["shop/topic"]
    assert told["bank/topic"] == before["bank/topic"]
    assert ORDERS in known(config)
    assert path.read_bytes() == whole
    assert descriptions(config) == before


def test_the_tables_that_were_shipped_are_shown_while_the_lakes_own_cannot_be_read(config: Path) -> None:
    ship(config, SHIPPED)
    flipped(subscription(config).registry_path)
    assert shown(config) == {SHIPPED}
    flipped(subscription(config).shipped_registry_path)
    assert shown(config) == set()
    assert descriptions(config)["shop/topic"].count("lacks tables") == 2


@pytest.mark.parametrize("kind", ["newer", "folder"])
def test_a_file_that_no_run_may_replace_is_refused_by_its_own_subscription_alone(kind: str, config: Path) -> None:
    path = subscription(config).registry_path
    if kind == "newer":
        path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    else:
        path.unlink()
        path.mkdir()
    assert "lacks tables" in descriptions(config)["shop/topic"]
    settings = load_settings(config)
    with pytest.raises(LakeTableError, match="version 2" if kind == "newer" else "cannot be read"):
        find_work(open_pipeline(settings, "shop"))
    find_work(open_pipeline(settings, "bank"))


@pytest.mark.more
def test_dagster_loads_a_code_location_with_a_damaged_registry(config: Path, tmp_path: Path) -> None:
    flipped(subscription(config).registry_path)
    (tmp_path / "home").mkdir()
    environment = {**os.environ, "DTS_ASSETS_CONFIG": str(config), "DAGSTER_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-m", "dts_assets.definitions"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    dg.Definitions.validate_loadable(assemble(load_settings(config), config))
