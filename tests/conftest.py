"""Which tests a tier has, and what tests of several rooms share: an empty lake, and the one Spark session of the process."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.fixed_draws import draw_without_constants_of_modules
from tests.threads import still_running
from tests.tiers import ALL, FIRST, LONG, MORE, MYSQL, REST, TIER, may_hold, part_of, tiers_of, times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from dts_assets.store.catalog import LakeLocation
    from dts_emulator.kafka.private_broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    if not ALL and not hasattr(config, "workerinput") and "TMPDIR" not in os.environ:
        _keep_temporary_files_in_memory()
    # An example's time says how busy the machine is, not whether the code is right. Only `make test-all` draws by chance.
    settings.register_profile(
        "dts-assets", deadline=None, max_examples=times(20, 100), derandomize=not ALL, print_blob=ALL
    )
    settings.load_profile("dts-assets")
    if not ALL:
        draw_without_constants_of_modules()
    # A shell starts what runs in its background with INT ignored, and so would be every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # py4j leaves its loopback sockets to the garbage collector, which may strike in any test after the first with Spark.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.*127\\.0\\.0\\.1:ResourceWarning")


_MEMORY = Path("/dev/shm")
_ROOM = 8 << 30
"""Bytes that must be free there; the tests of ``make test`` use less than three gigabytes at a time."""


def _keep_temporary_files_in_memory() -> None:
    """Let this process, and all that it starts, put temporary files into memory where there is room; they go at its end.

    Lakes, databases and brokers of tests wait for a disk half of their time, and no test is about a machine that loses power.
    """
    if not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return
    folder = tempfile.mkdtemp(prefix="tests-", dir=_MEMORY)
    Path(folder).chmod(0o1777)  # as /tmp is: a database that root starts runs as another user
    # Before pytest registers its own cleaning of the folder: what is registered first runs last.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def _tiers_of(path: Path, config: pytest.Config) -> set[str]:
    """Which tiers of a file run: of a file that a person named, or whose test is named, ``more`` tests run, too."""
    if MYSQL in str(config.getoption("markexpr")):
        return {MYSQL}
    if ALL:
        return {FIRST, MORE, REST, LONG}
    is_named = any(Path(argument.partition("::")[0]).resolve() == path for argument in config.args)
    return {FIRST, MORE, REST} if TIER == FIRST and is_named else {TIER}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file without a test of this tier, or of this part, unread: importing all of them takes half a minute."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    part = config.getoption("part")
    if part is not None:
        path = collection_path.relative_to(config.rootpath).as_posix()
        return None if part in {part_of(path, is_long=is_long).number for is_long in (False, True)} else True
    return None if any(may_hold(collection_path, tier) for tier in _tiers_of(collection_path, config)) else True


def _is_wanted(item: pytest.Item, tier: str, config: pytest.Config) -> bool:
    part = config.getoption("part")
    if tier not in _tiers_of(item.path, config):
        return False
    return part is None or part_of(_room(item.nodeid, 99), is_long=tier == LONG).number == part


@pytest.hookimpl(tryfirst=True)  # before -m looks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = [item for item, tier in zip(items, tiers_of(items), strict=True) if _is_wanted(item, tier, config)]
    if len(wanted) < len(items):
        kept = set(wanted)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = wanted
    # Workers share files out, the dearest first: what is cheap fills the end.
    items.sort(key=lambda item: (_place(item), item.path))


class _FilesTogether(LoadScopeScheduling):  # type: ignore[misc]  # a class without types
    """Gives all tests of a file to one worker. The marks of xdist's own groups are without effect since pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        room, file = _room(nodeid, 2), _room(nodeid, 3)
        return room if room == _ONE_BY_ONE else _TOGETHER.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return _FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


_ONE_BY_ONE = "tests/live"
"""The room whose tests may not run side by side: each is a whole pipeline, with deadlines by the clock."""

_WITH_SPARK = (
    "tests/store/test_spark.py",
    "tests/store/test_spark_deletes.py",
    "tests/store/test_catalog_properties.py",
    "tests/flows/test_redelivered.py",
    "tests/flows/test_replaced.py",
    "tests/flows/test_values.py",
    "tests/flows/test_made_up_format.py",
    "tests/flows/test_spark_tasks.py",
    "tests/stages/test_row_filters.py",
    "tests/defs/test_layers.py",
    "tests/lake/test_lake.py",
    "tests/e2e/test_reading.py",
)
"""Files whose tests have a session of Spark in ``make test`` or ``make test-more``: one Java is enough for all."""

_WITH_BROKER = (
    "tests/flows/test_several_topics_broker.py",
    "tests/flows/test_topic_broker.py",
    "tests/cli/test_capture.py",
    "tests/cli/test_sniff.py",
    "tests/dts_emulator/tasks/test_follow.py",
    "tests/dts_emulator/kafka/test_broker.py",
    "tests/sources/test_kafka_source.py",
    "tests/sources/test_kafka_group.py",
)
"""Files whose tests share a broker."""

_TOGETHER = {
    "tests/flows/test_any_order.py": "tests/flows/test_rectangle.py",
    **({} if ALL else {**dict.fromkeys(_WITH_SPARK, "a session of Spark"), **dict.fromkeys(_WITH_BROKER, "a broker")}),
}
"""Files with a dear fixture of the session in common."""

_DEAREST = (
    "tests/live",
    "tests/e2e",
    "tests/soak",
    "tests/benchmarks",
    "tests/flows",
    "tests/defs",
    "tests/cli",
    "tests/store",
    "tests/dts_emulator",
    "tests/sources",
)
"""Rooms whose tests take long, the longest first."""


def _place(item: pytest.Item) -> int:
    room = _room(item.nodeid, 2)
    return _DEAREST.index(room) if room in _DEAREST else len(_DEAREST)


def _room(nodeid: str, parts: int) -> str:
    """The beginning of a test's name: the room (2 parts), or its file (3)."""
    return "/".join(nodeid.partition("::")[0].split("/")[:parts])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--part", type=int, metavar="N", help="only the tests of a part of make test-all")
    group.addoption("--budget", type=float, metavar="SECONDS", help="fail if the whole run takes longer than that")


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    budget = session.config.getoption("budget")
    if budget is not None and time.monotonic() - session.config.stash[_BEGAN] > budget and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which rooms the time went to: ``make test`` has a budget, and whoever exceeds it moves tests to ``long``."""
    spent: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                room = _room(report.nodeid, 2)
                spent[room] = spent.get(room, 0.0) + report.duration
    took, budget = time.monotonic() - config.stash[_BEGAN], config.getoption("budget")
    if budget is not None or took > _WORTH_SAYING:
        listed = (f"{room} {seconds:.0f}" for room, seconds in sorted(spent.items(), key=lambda pair: -pair[1]))
        terminalreporter.write_line(f"{took:.0f} s; in tests: {', '.join(listed)}")
    if budget is not None and took > budget:
        terminalreporter.write_line(
            f"The tests took {took:.0f} s, and their budget is {budget:.0f} s: mark the dearest new ones `long` and leave a "
            "smaller one in their place (CONTRIBUTING.md, How tests are written).", red=True,
        )  # fmt: skip


_BEGAN = pytest.StashKey[float]()
_WORTH_SAYING = 60.0


@pytest.fixture(autouse=True)
def _no_thread_survives_its_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    if running := still_running(before):
        pytest.fail(f"threads that this test started still run: {', '.join(running)}")


@pytest.fixture(autouse=True)
def _leases_of_lakes_that_have_gone(
    request: pytest.FixtureRequest, _no_thread_survives_its_test: None
) -> Iterator[None]:
    """Forget the leases in the lakes of a test's own folder: a process looks after its leases for a minute, every two seconds."""
    folder = str(request.getfixturevalue("tmp_path")) if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None and (keepers := sys.modules.get("dts_assets.flows.lease_keeper")) is not None:
        kept = keepers._REGISTRY.keepers
        for key in [
            key for key in list(kept) if key and str(key[0]).removeprefix("file://").startswith(folder + os.sep)
        ]:
            del kept[key]


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
    from dts_emulator.kafka.private_broker import private_broker

    with private_broker() as broker:
        yield broker
