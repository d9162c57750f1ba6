"""The main job as a new user meets it: the example through Dagster, judged by the database; a second run; a query."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from dts_assets.settings import load_settings
from dts_assets.store.registry import read_registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's configuration and example, with a lake and a Dagster home of their own and no registry."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copy(ROOT / "pipeline.yaml", folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "dagster_home").mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", folder / "dagster_home")
    return folder


def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DTS_ASSETS_CONFIG": str(folder / "pipeline.yaml"), "COLUMNS": "120"}
    environment.pop("DAGSTER_HOME", None)
    return subprocess.run(
        [sys.executable, "-m", "dts_assets", "demo"],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_every_snapshot_equals_the_database_and_a_second_run_finds_nothing_to_do(checkout: Path) -> None:
    first = demo(checkout)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "12 of 12 snapshots equal the database row by row" in first.stdout
    registry = read_registry(load_settings(checkout / "pipeline.yaml").subscriptions["shop"].registry_path)
    shipped = read_registry(ROOT / "registry" / "shop.json")
    assert registry == shipped, "the shipped registry is what entries would write"

    second = demo(checkout)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "Nothing to do" in second.stdout
    assert "shop_ingest" not in second.stdout

    catalog = SqlCatalog("lake", uri=f"sqlite:///{checkout / 'lake' / 'catalog.db'}")
    orders = catalog.load_table("shop.snapshot.shopdb.orders").scan(limit=5).to_arrow()
    assert orders.num_rows == 5
    assert "total" in orders.column_names
