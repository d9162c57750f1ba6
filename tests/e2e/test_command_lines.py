"""No secret of a configuration stands in a command line, where every user of the machine could read it, or in a file."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from dts_emulator.machine.waiting import wait_until
from tests.e2e.watched_processes import files_with, watched_processes

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.more, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SECRETS = (
    "STORE_KEY", "STORE_SECRET", "CATALOG_TOKEN", "CATALOG_CREDENTIAL", "CATALOG_PASSWORD", "HADOOP_SECRET", "EXECUTOR_SECRET",
    "PII_KEY", "DATABASE_PASSWORD", "KAFKA_PASSWORD",
)  # fmt: skip
LAUNCHER, DRIVER = "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "dts_assets.flows.spark_daemon"
LOCAL_CLUSTER = "local-cluster[1,1,1024]"


@pytest.fixture
def marks() -> dict[str, str]:
    """The secrets, each a text that stands nowhere else."""
    return {name: f"{name.lower()}-{uuid4().hex}" for name in SECRETS}


def configured(folder: Path, *, live: bool = False, **spark: object) -> Path:
    """A file with secrets in all places that take one: a topic that is recorded, and one of a broker that is not there."""
    database = {"url": "jdbc:mysql://127.0.0.1:1/", "user": "reader", "password": "${DATABASE_PASSWORD}"}
    login = {"sasl.username": "reader", "sasl.password": "${KAFKA_PASSWORD}"}
    broker = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", **login}
    shop = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": str(ROOT / "examples" / "shop"), "complete": not live}},
        "partitions": 4,
        "window": {"every": "1h", "start": "2026-01-05T00:00Z", "end": "2026-01-05T01:00Z", "live": live},
        "tables": {"include": ["shopdb.customers"]},
        "columns": {"shopdb.customers.email": {"hash": {"key": "${PII_KEY}"}}},
        "verify": {"jdbc": database},
    }
    kafka = {"bootstrap_servers": "127.0.0.1:1", "topics": ["far"], "config": broker}
    catalog = {
        "type": "sqlite",
        "s3.access-key-id": "${STORE_KEY}",
        "s3.secret-access-key": "${STORE_SECRET}",
        "token": "${CATALOG_TOKEN}",
        "credential": "${CATALOG_CREDENTIAL}",
        "jdbc.password": "${CATALOG_PASSWORD}",
    }
    (events := folder / "events").mkdir()
    conf = {
        "spark.hadoop.fs.s3a.secret.key": "${HADOOP_SECRET}",
        "spark.executorEnv.SHOP": "${EXECUTOR_SECRET}",
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": events.as_uri(),
    }
    file = folder / "pipeline.yaml"
    found = {
        "lake": {"warehouse": "./lake", "catalog": catalog},
        "spark": {"conf": conf, **spark},
        "subscriptions": {"shop": shop, "far": {**shop, "partitions": 1, "source": {"kafka": kafka}}},
    }
    file.write_text(yaml.safe_dump(found, sort_keys=False))
    return file


def environment(given: Mapping[str, str], config: Path, marks: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: its temporary files and Dagster's home lie beside the configuration."""
    (home := config.parent / "home").mkdir(exist_ok=True)
    (scratch := config.parent / "scratch").mkdir(exist_ok=True)
    places = {"DAGSTER_HOME": str(home), "DTS_ASSETS_CONFIG": str(config), "TMPDIR": str(scratch)}
    unset = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")
    return {name: value for name, value in {**given, **places, **marks}.items() if name not in unset}


def call(config: Path, marks: Mapping[str, str], *command: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    with watched_processes() as (given, seen):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env=environment(given, config, marks), cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done, seen


def judge(config: Path, marks: Mapping[str, str], seen: set[str], programs: Sequence[str]) -> None:
    """Each of the programs ran, no command line has a secret, and no file."""
    for program in programs:
        assert [line for line in seen if program in line], f"{program} did not run; there were {seen}"
    secrets = tuple(marks.values())
    assert [line for line in seen if any(secret in line for secret in secrets)] == []
    assert files_with(config.parent, secrets) == []
    assert files_with(config.parent / "events", ("spark.executorEnv.SHOP",)) or DRIVER not in programs, (
        "Spark logs its events"
    )


@pytest.mark.parametrize("master", [LOCAL_CLUSTER, pytest.param("local[1]", marks=pytest.mark.long)])
def test_a_run_and_its_executors(tmp_path: Path, marks: dict[str, str], master: str) -> None:
    config = configured(tmp_path, master=master)
    done, seen = call(config, marks, "dts_assets", "run")
    assert (done.returncode, "shop_tables" in done.stdout) == (10, True), done.stdout + done.stderr  # nobody has "far"
    judge(config, marks, seen, [LAUNCHER, DRIVER, WORKER, *([EXECUTOR] if master == LOCAL_CLUSTER else [])])
    assert not [secret for secret in marks.values() if secret in done.stdout + done.stderr]


def test_a_run_that_follows_its_source_live(tmp_path: Path, marks: dict[str, str]) -> None:
    config = configured(tmp_path, live=True)
    (tmp_path / "live.yaml").write_text(
        "ops: {shop_follow_live: {config: {since: '2026-01-05T00:00:00+00:00', seconds: 1}}}\n"
    )
    asked = ("-m", "dts_assets.definitions", "-j", "shop_live", "-c", str(tmp_path / "live.yaml"))
    done, seen = call(config, marks, "dagster", "job", "execute", *asked)
    assert done.returncode == 0, done.stderr[-3000:]
    judge(config, marks, seen, [LAUNCHER, DRIVER, WORKER])


@pytest.mark.parametrize("master", ["local[1]", pytest.param(LOCAL_CLUSTER, marks=pytest.mark.long)])
def test_a_spark_server_and_the_run_that_uses_it(tmp_path: Path, marks: dict[str, str], master: str) -> None:
    config = configured(tmp_path)
    with watched_processes() as (given, seen):
        server = subprocess.Popen(
            [sys.executable, "-m", "dts_assets", "spark-server", "--port", "0", "--master", master, "--end-with-input"],
            env=environment(given, config, marks), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        address = next(line.strip() for line in server.stdout if line.startswith("sc://"))
        text = yaml.safe_load(config.read_text())
        config.write_text(yaml.safe_dump({**text, "spark": {"remote": address}}, sort_keys=False))
        done, of_run = call(config, marks, "dts_assets", "run")
        server.stdin.close()
        assert server.wait(60) == 0
        server.stdout.close()
    assert "shop_tables" in done.stdout, done.stdout + done.stderr
    judge(config, marks, seen | of_run, [LAUNCHER, DRIVER, WORKER, *([EXECUTOR] if master == LOCAL_CLUSTER else [])])


@pytest.mark.parametrize("program", [LAUNCHER, pytest.param(DRIVER, marks=pytest.mark.long)])
def test_a_run_that_is_killed_while_spark_starts_leaves_no_file(
    tmp_path: Path, marks: dict[str, str], program: str
) -> None:
    config = configured(tmp_path)
    with watched_processes() as (given, seen):
        running = subprocess.Popen(
            [sys.executable, "-m", "dts_assets", "run"],
            env=environment(given, config, marks), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert wait_until(lambda: any(program in line for line in list(seen)), seconds=60)
        running.kill()
        running.wait()
        time.sleep(0.2)
    judge(config, marks, seen, [])
