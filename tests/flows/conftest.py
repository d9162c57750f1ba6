"""One lake and one session for all flow tests; each test opens subscriptions of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import pytest

from dts_assets.flows import message_retention
from dts_assets.store import expiry
from tests.flows.aging import Days
from tests.flows.harness import Bench, Harness
from tests.flows.history import History, bank_history
from tests.flows.in_process import bench_in_process
from tests.flows.source import write_capture
from tests.tiers import ALL

ON_SPARK = frozenset({"test_values", "test_replaced", "test_redelivered", "test_killed"})
"""The modules whose flows run on Spark in ``make test``, too.

All others run in this process there, without a JVM: the same tasks, but for how Spark carries them.
"""


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    words = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower())
    prefix = f"{words[:40]}_{crc32(words.encode()):08x}"  # names of subscriptions have 63 characters at most
    if not ALL and request.module.__name__.rpartition(".")[2] not in ON_SPARK:
        return bench_in_process(tmp_path, prefix)
    return Bench(request.getfixturevalue("spark"), request.getfixturevalue("spark_lake"), tmp_path, prefix)


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """Few messages are enough for old ones to leave, and Iceberg snapshots may go at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_retention, "MESSAGES_KEPT", 5)
        patch.setattr(expiry, "KEEP_FOR", timedelta(0))
        yield


@pytest.fixture(scope="module")
def days() -> Days:
    """A topic of some days, of which the first are old."""
    return Days()


@pytest.fixture(scope="session")
def bank() -> History:
    """A history in which one entry set lasts from the first window into the third."""
    return bank_history(1, long_set=True)


@pytest.fixture(scope="session")
def bank_capture(bank: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("bank") / "capture", bank.source.messages)


@pytest.fixture(scope="session")
def rectangle(bank_capture: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """The bank materialized in one rectangle, for tests that only look."""
    folder, name = tmp_path_factory.mktemp("rectangle"), "rectangle"
    if ALL:
        bench = Bench(request.getfixturevalue("spark"), request.getfixturevalue("spark_lake"), folder, name)
    else:
        bench = bench_in_process(folder, name)
    harness = bench.open(bank_capture)
    harness.all()
    return harness
