"""Dagster's PostgreSQL storage with a batched event log: Dagster's own tables, all or none of a batch, few statements."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
from sqlalchemy import Engine, create_engine, event, make_url, text

from dts_assets.defs import postgres_log
from dts_assets.defs.event_log import gathered_events
from dts_assets.defs.postgres_log import BatchedPostgresLog, BatchedPostgresStorage
from dts_assets.errors.machine import MissingExtraError, UnreachableStorageError
from dts_emulator.postgresql.server import private_postgres

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
KEYS = [f"2026-01-{day:02d}" for day in range(1, 21)]
WHOLE = {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[-1]}
ASSETS = ("counted", "summed")
_DATABASES = iter(range(1_000))


@dg.multi_asset(
    specs=[dg.AssetSpec(name, partitions_def=DAYS) for name in ASSETS],
    check_specs=[dg.AssetCheckSpec("whole", asset=name, partitions_def=DAYS) for name in ASSETS],
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def tables(context: dg.AssetExecutionContext) -> Iterator[Any]:
    for name in ASSETS:
        with gathered_events(context.instance):
            for key in context.partition_keys:
                one = dg.AssetCheckEvaluation(
                    asset_key=dg.AssetKey(name), check_name="whole", passed=key != KEYS[3], partition=key
                )
                context.log_event(one)
        yield dg.MaterializeResult(asset_key=name)
        yield dg.AssetCheckResult(asset_key=name, check_name="whole", passed=True)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with private_postgres() as url:
        yield url


@pytest.fixture
def database(server: str) -> str:
    """The URL of an empty database, as people write it: without a driver."""
    url = make_url(server).set(drivername="postgresql+psycopg2")
    name = f"dagster{next(_DATABASES)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(server).set(database=name).render_as_string()


@contextmanager
def instance_of(home: Path, storage: dict[str, Any]) -> Iterator[dg.DagsterInstance]:
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(yaml.safe_dump({"storage": storage, "telemetry": {"enabled": False}}))
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def ours(url: str) -> dict[str, Any]:
    named = {"module": "dts_assets.defs.postgres_log", "class": "BatchedPostgresStorage"}
    return {"custom": {**named, "config": {"postgres_url": url}}}


def dagsters(url: str) -> dict[str, Any]:
    return {"postgres": {"postgres_url": url.replace("postgresql://", "postgresql+psycopg2://")}}


@pytest.fixture
def instance(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)
    with instance_of(tmp_path, ours(database)) as made:
        yield made


def materialize(instance: dg.DagsterInstance, tags: dict[str, str] = WHOLE) -> str:
    result = dg.materialize([tables], instance=instance, tags=tags)
    assert result.success
    return result.run_id


def stored(instance: dg.DagsterInstance, run: str) -> dict[str, Any]:
    """What the UI shows of a run: partitions of assets, results of checks, and the last event of each asset."""
    found: dict[str, Any] = {}
    for name in ASSETS:
        key = dg.AssetKey(name)
        records = instance.fetch_materializations(key, limit=999).records
        found[name] = sorted(str(one.partition_key) for one in records)
        history = instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(key, "whole"), limit=999
        )
        found[f"checks of {name}"] = sorted((str(one.partition), one.status.value) for one in history)
        (record,) = instance.get_asset_records([key])
        last = record.asset_entry.last_materialization_record
        found[f"last of {name}"] = (last is not None and last.partition_key, record.asset_entry.last_run_id == run)
    events = instance.get_records_for_run(run).records
    found["events"] = [str(one.event_log_entry.dagster_event_type) for one in events]
    return found


@pytest.mark.long
def test_the_same_stands_in_the_tables_as_with_dagsters_own_storage(
    instance: dg.DagsterInstance, database: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(instance.event_log_storage, BatchedPostgresLog)
    first = materialize(instance)
    found = stored(instance, first)
    assert found["counted"] == KEYS
    assert sum(status == "FAILED" for _, status in found["checks of counted"]) == 1
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE")
    with instance_of(tmp_path / "own", dagsters(database)) as own:
        assert type(own.event_log_storage) is PostgresEventLogStorage
        assert stored(own, first) == found
        second = materialize(own)
        assert stored(own, second)["events"] == found["events"]
    assert stored(instance, second)["counted"] == sorted([*KEYS, *KEYS])


@contextmanager
def statements(storage: BatchedPostgresLog) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement.split()[0])

    event.listen(storage._engine, "before_cursor_execute", note)
    yield seen
    event.remove(storage._engine, "before_cursor_execute", note)


@pytest.mark.long
def test_a_run_takes_few_statements_and_one_connection(instance: dg.DagsterInstance) -> None:
    storage = instance.event_log_storage
    assert isinstance(storage, BatchedPostgresLog)
    connected: list[Any] = []
    event.listen(storage._engine, "connect", lambda *_: connected.append(_))
    with statements(storage) as seen:
        run = materialize(instance)
    events = len(instance.get_records_for_run(run).records)
    assert events > 2 * len(ASSETS) * len(KEYS)
    assert seen.count("INSERT") < events / 2, "an insert for each event"
    assert seen.count("UPDATE") == len(ASSETS) * (len(KEYS) + 1), "one for each evaluation"
    assert len(connected) <= 1
    storage.dispose()
    assert isinstance(storage._engine, Engine)
    assert materialize(instance), "a connection that was closed is opened again"


@pytest.mark.long
def test_a_batch_that_fails_leaves_nothing_and_its_events_are_stored_one_by_one(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = BatchedPostgresLog._store_batch

    def failing(self: BatchedPostgresLog, *arguments: Any) -> None:
        real(self, *arguments)
        raise OSError("disk full")

    monkeypatch.setattr(BatchedPostgresLog, "_store_batch", failing)
    found = stored(instance, materialize(instance))
    assert found["counted"] == found["summed"] == KEYS
    assert len(found["checks of counted"]) == len(KEYS) + 1
    said = capfd.readouterr().err
    assert "Falling back to storing multiple single-event storage requests" in said
    assert "events is stored one by one (OSError)" in said.replace("40 ", "").replace("20 ", "")


@pytest.mark.long
def test_the_server_may_restart_between_two_events(instance: dg.DagsterInstance, database: str) -> None:
    run = materialize(instance)
    engine = create_engine(make_url(database).set(drivername="postgresql+psycopg2", database="postgres"))
    with engine.connect() as connection:
        named = {"name": make_url(database).database}
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
        assert connection.execute(text(ended), named).all()
    engine.dispose()
    assert len(instance.get_records_for_run(run).records) > len(KEYS)
    materialize(instance)


def test_the_documented_storage_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    document = (Path(__file__).parents[2] / "docs" / "catalogs-and-stores.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(storage:.*?)```", document, re.DOTALL)
    custom = yaml.safe_load(block)["storage"]["custom"]
    assert getattr(importlib.import_module(custom["module"]), custom["class"]) is BatchedPostgresStorage
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql://user:password@host:5432/dagster")
    assert process_config(resolve_to_config_type(BatchedPostgresStorage.config_type()), custom["config"]).success


def test_a_server_that_is_away_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(UnreachableStorageError, match=r"PostgreSQL at 127\.0\.0\.1:1, cannot be reached") as raised:
        BatchedPostgresStorage("postgresql://me:hush@127.0.0.1:1/dagster")
    assert "hush" not in str(raised.value)


def test_without_the_extra_a_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_postgres", None)
    source = inspect.getsource(postgres_log)
    with pytest.raises(MissingExtraError, match=r'pip install "dts-assets\[postgres\]"'):
        exec(compile(source, "postgres_log", "exec"), {"__name__": "again"})


def test_dagster_is_as_it_was_when_its_inside_was_read() -> None:
    assert "self._engine = create_pg_engine(" in inspect.getsource(PostgresEventLogStorage.__init__)
    for method in (PostgresEventLogStorage.run_connection, PostgresEventLogStorage.index_connection):
        assert "return self._connect()" in inspect.getsource(method)
    assert "self._event_log_storage = " in inspect.getsource(DagsterPostgresStorage.__init__)
    assert list(inspect.signature(PostgresEventLogStorage._store_asset_event_tags).parameters) == [
        "self", "conn", "events", "event_ids",
    ]  # fmt: skip
    batch = inspect.getsource(PostgresEventLogStorage.store_event_batch)
    assert "is_asset_failed_to_materialize" in batch
    assert "self._store_asset_event(conn, events[-1], event_ids[-1])" in batch
