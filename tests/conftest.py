"""What tests of several rooms share: an empty lake, and the one Spark session of the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.emulator.broker import Broker
    from dts_assets.store.catalog import LakeLocation


def pytest_configure(config: pytest.Config) -> None:
    # An example's time says how busy the machine is, not whether the code is right.
    settings.register_profile("dts-assets", deadline=None)
    settings.load_profile("dts-assets")
    # A shell starts what runs in its background with INT ignored, and so would be every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # py4j leaves its loopback sockets to the garbage collector, which may strike in any test after the first with Spark.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.*127\\.0\\.0\\.1:ResourceWarning")


@pytest.fixture
def lake_location(tmp_path: Path) -> LakeLocation:
    """An empty lake of the test's own. The session ``spark`` does not know it; see ``spark_lake``."""
    from dts_assets.store.catalog import LakeLocation

    return LakeLocation(str(tmp_path / "lake"))


@pytest.fixture(scope="session")
def spark_lake(tmp_path_factory: pytest.TempPathFactory) -> LakeLocation:
    """The lake that ``spark`` has as its catalog. Tests share it, each under a subscription of its own name."""
    from dts_assets.store.catalog import LakeLocation

    return LakeLocation(str(tmp_path_factory.mktemp("spark") / "lake"))


@pytest.fixture(scope="session")
def spark(spark_lake: LakeLocation) -> Iterator[SparkSession]:
    """A classic session with two cores and small shuffles, one for the whole pytest process; its catalog is ``spark_lake``."""
    from dts_assets.store.catalog import open_catalog
    from dts_assets.store.session import open_session

    open_catalog(spark_lake)  # makes the folder and the catalog's tables
    conf = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    session = open_session(spark_lake, conf, master="local[2]", name="dts-assets-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """A Kafka broker of the process, started when the first test wants it. Tests share it, each with topics of its own."""
    from dts_assets.emulator.broker import private_broker

    with private_broker() as broker:
        yield broker
