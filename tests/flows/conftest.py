"""One lake and one session for all flow tests; each test opens subscriptions of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flows.harness import Bench, Harness
from tests.flows.history import History, bank_history
from tests.flows.source import write_capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation


@pytest.fixture
def bench(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    return Bench(spark, spark_lake, tmp_path, re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()))


@pytest.fixture(scope="session")
def bank() -> History:
    """A history in which one entry set lasts from the first window into the third."""
    return bank_history(1, long_set=True)


@pytest.fixture(scope="session")
def bank_capture(bank: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("bank") / "capture", bank.source.messages)


@pytest.fixture(scope="session")
def rectangle(
    spark: SparkSession,
    spark_lake: LakeLocation,
    bank_capture: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Harness:
    """The bank materialized in one rectangle, for tests that only look."""
    harness = Bench(spark, spark_lake, tmp_path_factory.mktemp("rectangle"), "rectangle").open(bank_capture)
    harness.all()
    return harness
