"""All processes of a live pipeline on one machine, for ``make live``, the freshness benchmark and the soak.

They are a busy MariaDB, the emulated task that sends its changes to Kafka, Spark, and Dagster that follows.
"""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dts_assets.errors.machine import PortInUseError
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.model.formats import Evidence
from dts_assets.settings import load_settings
from dts_assets.settings.formats import traits_of
from dts_assets.settings.values import duration_of
from dts_emulator.errors import BrokerUnavailable, FolderTaken
from dts_emulator.kafka.private_broker import Broker, private_broker
from dts_emulator.live.freshness_meter import CommitLog, CutLog, Place
from dts_emulator.live.supervisor import Child, Supervisor, at_once
from dts_emulator.machine.ports import HOST, free_port, listens
from dts_emulator.machine.waiting import wait_until
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.vendor_tasks import FORMATS, VENDOR_TASKS

HOUSE = Path(__file__).resolve().parents[2]
SUBSCRIPTION = "live"
DATABASE = "busy"
TOPIC = "topic-subs-live"
PASSWORD_VARIABLE = "LIVE_KAFKA_PASSWORD"

WORKLOAD, EMULATOR, SPARK, CODE, DAEMON, WEBSERVER = (
    "workload",
    "emulator",
    "spark",
    "code-server",
    "daemon",
    "webserver",
)
"""The names of the processes, and of their log files."""

_ORDER = ((EMULATOR, SPARK, CODE), (DAEMON, WEBSERVER), (WORKLOAD,))
"""Processes that start side by side. The workload is the last, so that nothing is late from the beginning."""

_MARKER = ".dts-assets-live"
"""A file in the folder of a live pipeline; a folder without it is not ours to empty."""

_CONFIGURATION = """\
# Made by `make live` and made anew each time.
lake: {{warehouse: ./lake}}
spark: {{remote: "sc://{host}:{spark_port}"}}
subscriptions:
  {name}:
    format: {format}{schema}
    source:
      kafka:
        bootstrap_servers: {bootstrap}
        topics: [{topic}]
        group_id: {group}
        config: {config}
    partitions: {partitions}
    # The open window is refreshed too: what is committed in the database is in the snapshots before its window has closed.
    window: {{every: {every}, start: {start}, live: true{grace}}}
    consistency: {consistency}
    source_time_zone: "+00:00"
    tables: {{include: ["{database}.*"]}}
"""

_SCHEMA_FILE = "Record.avsc"
"""The schema of the topic's messages, beside the configuration, for formats that are read with one."""

_WITHOUT_CHECKPOINTS = ("window", ", grace: 20s")
"""The settings of a format without CHECKPOINTs.

No cut is known to stop at, and a Kafka partition that nothing is written to closes its windows by grace alone.
"""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The settings of a live pipeline.

    ``folder`` is emptied. ``rate`` are row changes per second, ``every`` is the length of a window as the configuration writes
    it, ``port`` the UI's (0: any that is free). With ``ddl`` the workload alters and adds tables, too.
    """

    folder: Path
    rate: int = 500
    tables: int = 20
    partitions: int = 4
    every: str = "5m"
    port: int = 0
    seed: int = 1
    ddl: bool = False
    format: str = FORMATS[0]


@dataclass(frozen=True, slots=True)
class Runs:
    """The numbers of Dagster runs that ended well, that failed, and that have not ended."""

    done: int
    failed: int
    unfinished: int


@dataclass(frozen=True, slots=True)
class LiveStack:
    """A live pipeline that runs. Its processes may be ended and started again by their names, with ``children``."""

    options: LiveOptions
    supervisor: Supervisor
    server: Server
    broker: Broker
    pipeline: Pipeline
    url: str
    children: Mapping[str, Child]
    commits: CommitLog
    cuts: CutLog

    def check(self) -> None:
        """Check that every part of the pipeline runs.

        Raises:
            ChildEnded: A process has ended.
            ServerUnavailable: MariaDB has ended.
            BrokerUnavailable: Kafka has ended.
        """
        self.supervisor.check()
        with self.server.connect():
            pass
        if not listens(self.broker.ports.of["PLAINTEXT"]):
            raise BrokerUnavailable("Kafka has ended")

    def wait_until(self, holds: Callable[[], bool], *, seconds: float, every: float = 1.0) -> bool:
        """Wait until ``holds`` is true, as long as every part runs; return False after ``seconds`` in vain.

        Raises:
            EmulatorError: A part of the pipeline has ended.
        """

        def looked() -> bool:
            self.check()
            return holds()

        return wait_until(looked, seconds=seconds, every=every)

    def reach(self, place: Place, *, seconds: float) -> bool:
        """Wait until all snapshots stand at ``place`` or behind; return whether they did within ``seconds``.

        Raises:
            EmulatorError: A part of the pipeline has ended.
        """

        def reached() -> bool:
            self.cuts.read()
            return self.cuts.place is not None and self.cuts.place >= place

        return self.wait_until(reached, seconds=seconds, every=0.5)

    def ask(self, query: str) -> dict[str, Any]:
        """Return the data that Dagster's GraphQL answers.

        Raises:
            OSError: It does not answer, or does not understand.
        """
        request = urllib.request.Request(
            f"{self.url}/graphql", json.dumps({"query": query}).encode(), {"content-type": "application/json"}
        )
        # It is on this machine, whatever proxy the environment names for the rest of the world.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        if "errors" in found:
            raise OSError(f"Dagster does not understand: {found['errors'][0]['message']}")
        data: dict[str, Any] = found["data"]
        return data

    def runs(self) -> Runs:
        """Return the runs of the instance.

        Raises:
            OSError: The webserver does not answer.
        """
        kinds = {
            "done": "SUCCESS",
            "failed": "FAILURE, CANCELED",
            "unfinished": "QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING",
        }
        asked = " ".join(
            f"{name}: runsOrError(filter: {{statuses: [{statuses}]}}) {{ ... on Runs {{ count }} }}"
            for name, statuses in kinds.items()
        )
        found = self.ask(f"{{ {asked} }}")
        return Runs(**{name: found[name]["count"] for name in kinds})


@contextmanager
def live_stack(
    options: LiveOptions, *, say: Callable[[str], None], without: frozenset[str] = frozenset()
) -> Iterator[LiveStack]:
    """Run a live pipeline from nothing for the length of the block.

    ``say`` gets a line for each part that is up.

    The processes ``without`` are left to be started by the caller. To be called from the main thread: servers end with the
    thread that started them.

    Raises:
        PortInUseError: The UI's port is taken.
        FolderTaken: The folder holds something else.
        ChildEnded: A process has ended.
        ChildNotReady: A process does not become ready.
        EmulatorError: MariaDB or Kafka does not start.
    """
    port = options.port or free_port()
    if listens(port):
        raise PortInUseError(port, what="Dagster")
    folder = options.folder.resolve()
    _empty(folder)
    with ExitStack() as stack:
        supervisor = Supervisor(folder / "logs")
        server = stack.enter_context(private_server())
        say("MariaDB is up")
        broker = stack.enter_context(private_broker())
        broker.create_topic(TOPIC, options.partitions)
        say("Kafka is up")
        config, spark_port = folder / "pipeline.yaml", free_port()
        config.write_text(_configuration(options, broker, spark_port))
        schema = VENDOR_TASKS[options.format].schema
        if schema is not None:
            (folder / _SCHEMA_FILE).write_bytes(schema())
        url = f"http://{HOST}:{port}"
        environment = {
            "DAGSTER_HOME": str(folder / "dagster_home"),
            "DTS_ASSETS_CONFIG": str(config),
            "DTS_ASSETS_UI": url,
            PASSWORD_VARIABLE: broker.password,
        }
        pipeline = open_pipeline(load_settings(config, environment=environment), SUBSCRIPTION)
        children = {
            child.name: child
            for child in _children(options, folder, server, broker, environment, spark_port=spark_port, port=port)
        }
        stack.enter_context(supervisor)
        for names in _ORDER:
            together = [name for name in names if name not in without]
            supervisor.start(*(children[name] for name in together))
            say(f"{' and '.join(together)} {'is' if len(together) == 1 else 'are'} up")
        commits = CommitLog(_commit_file(folder))
        yield LiveStack(options, supervisor, server, broker, pipeline, url, children, commits, CutLog(pipeline))


def _empty(folder: Path) -> None:
    """Make the folder as it was before anything ran in it.

    Raises:
        FolderTaken: The folder holds something that no live pipeline has made.
    """
    marker = folder / _MARKER
    if folder.exists() and any(folder.iterdir()) and not marker.exists():
        raise FolderTaken(folder)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "dagster_home").mkdir(parents=True)
    marker.touch()
    shutil.copy(HOUSE / "dagster_home" / "dagster.yaml", folder / "dagster_home")


def _commit_file(folder: Path) -> Path:
    return folder / "commits.jsonl"


def _configuration(options: LiveOptions, broker: Broker, spark_port: int) -> str:
    """Return the pipeline.yaml as a customer would write one, the password in the environment."""
    config = broker.client_config("SASL_PLAINTEXT")
    bootstrap = config.pop("bootstrap.servers")
    with_checkpoints = Evidence.CHECKPOINTS in traits_of(options.format).evidence
    consistency, grace = ("cut", "") if with_checkpoints else _WITHOUT_CHECKPOINTS
    config["sasl.password"] = f"${{{PASSWORD_VARIABLE}}}"
    return _CONFIGURATION.format(
        host=HOST,
        spark_port=spark_port,
        name=SUBSCRIPTION,
        bootstrap=bootstrap,
        topic=TOPIC,
        group=f"consumer-grp-{SUBSCRIPTION}",
        config=json.dumps(config),
        partitions=options.partitions,
        every=options.every,
        start=_border(duration_of(options.every)).strftime("%Y-%m-%dT%H:%MZ"),
        database=DATABASE,
        format=options.format,
        schema="" if VENDOR_TASKS[options.format].schema is None else f"\n    schema: ./{_SCHEMA_FILE}",
        consistency=consistency,
        grace=grace,
    )


def _border(every: timedelta) -> datetime:
    """Return the start of the window that it is now."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (now - midnight) // every * every


def _children(
    options: LiveOptions,
    folder: Path,
    server: Server,
    broker: Broker,
    environment: Mapping[str, str],
    *,
    spark_port: int,
    port: int,
) -> Iterator[Child]:
    """Yield the processes."""
    python = (sys.executable, "-W", "ignore", "-m")
    programs = Path(sys.executable).parent
    emulator = (
        *python, "dts_emulator.tasks", "--socket", str(server.socket), "--bootstrap-servers", broker.plain,
        "--topic", TOPIC, "--partitions", str(options.partitions), "--checkpoint", str(folder / "emulator.json"),
        "--format", options.format,
    )  # fmt: skip
    yield Child(EMULATOR, emulator)
    spark = (*python, "dts_assets", "spark-server", "--port", str(spark_port))
    yield Child(SPARK, spark, lambda: listens(spark_port), environment, patience=120)
    code_port = free_port()
    code = (
        str(programs / "dagster"), "code-server", "start", "-h", HOST, "-p", str(code_port),
        "-m", "dts_assets.definitions", "-d", str(HOUSE), "--location-name", "dts_assets",
    )  # fmt: skip
    yield Child(CODE, code, lambda: listens(code_port), environment, patience=120)
    workspace = folder / "workspace.yaml"
    place = {"host": HOST, "port": code_port, "location_name": "dts_assets"}
    workspace.write_text(json.dumps({"load_from": [{"grpc_server": place}]}) + "\n")
    daemon = (str(programs / "dagster-daemon"), "run", "-w", str(workspace))
    yield Child(DAEMON, daemon, at_once, environment)
    webserver = (str(programs / "dagster-webserver"), "-h", HOST, "-p", str(port), "-w", str(workspace))
    yield Child(WEBSERVER, webserver, lambda: listens(port), environment, patience=120)
    workload = (
        *python, "dts_emulator.workload", "--socket", str(server.socket), "--database", DATABASE,
        "--tables", str(options.tables), "--rate", str(options.rate), "--seed", str(options.seed),
        "--log", str(_commit_file(folder)), *(("--ddl",) if options.ddl else ()),
    )  # fmt: skip
    yield Child(WORKLOAD, workload, lambda: _commit_file(folder).exists(), patience=120)
