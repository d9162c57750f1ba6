"""Dagster's SQLite storage with a batched event log: the same files, all or none of a batch, much less waiting."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.execution.context.metadata_logging import AssetMetadataHandle, OutputMetadataAccumulator
from dagster._core.execution.context.system import StepExecutionContext
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

from dts_assets.defs.event_log import BatchedEventLog, BatchedSqliteStorage

HOUSE = Path(__file__).parents[2]
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
KEYS = [f"2026-01-{day:02d}" for day in range(1, 21)]
WHOLE = {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[-1]}


@dg.asset(partitions_def=DAYS, backfill_policy=dg.BackfillPolicy.single_run())
def counted(context: dg.AssetExecutionContext) -> None:
    context.log.info("one line")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the storage that the project's own dagster.yaml asks for."""
    asked = yaml.safe_load((HOUSE / "dagster_home" / "dagster.yaml").read_text())
    (tmp_path / "dagster.yaml").write_text(
        yaml.safe_dump({"storage": asked["storage"], "telemetry": {"enabled": False}})
    )
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)
    return tmp_path


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def materialize(instance: dg.DagsterInstance) -> str:
    result = dg.materialize([counted], instance=instance, tags=WHOLE)
    assert result.success
    return result.run_id


def partitions(instance: dg.DagsterInstance) -> list[str]:
    return sorted(str(one.partition_key) for one in instance.fetch_materializations(counted.key, limit=99).records)


def test_every_partition_has_one_event_in_the_run_and_in_the_index(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.event_log_storage, BatchedEventLog)
    run = materialize(instance)
    assert partitions(instance) == KEYS
    of_run = instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    assert [one.partition_key for one in of_run] == KEYS
    assert instance.get_materialized_partitions(counted.key) == set(KEYS)
    assert instance.get_run_by_id(run).is_success  # type: ignore[union-attr]


def test_dagster_s_own_storage_reads_the_same_files(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        materialize(instance)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert type(instance.event_log_storage) is SqliteEventLogStorage
        assert partitions(instance) == KEYS
        materialize(instance)
        assert partitions(instance) == sorted([*KEYS, *KEYS])


def test_a_batch_that_fails_leaves_nothing_and_its_events_are_stored_one_by_one(
    instance: dg.DagsterInstance, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = BatchedEventLog._store_asset_event, []

    def failing(self: BatchedEventLog, *arguments: Any) -> None:
        seen.append(arguments)
        real(self, *arguments)
        if len(seen) == 30:  # the tenth of the second batch: 20 planned, 20 made
            raise OSError("disk full")

    monkeypatch.setattr(BatchedEventLog, "_store_asset_event", failing)
    materialize(instance)
    assert len(seen) == 20 + 10 + 20
    assert partitions(instance) == KEYS
    # Dagster writes the output of a step into a file; a process of its own copies it to the terminal, at some later time.
    assert any("disk full" in file.read_text() for file in home.rglob("*.err"))


def test_the_index_of_assets_knows_the_last_event_of_a_batch(instance: dg.DagsterInstance) -> None:
    runs = [materialize(instance) for _ in range(2)]
    event = instance.get_latest_materialization_event(counted.key)
    assert event is not None
    assert event.run_id == runs[-1]
    (record,) = instance.get_asset_records([counted.key])
    last = record.asset_entry.last_materialization_record
    assert last is not None
    assert last.partition_key == KEYS[-1]
    assert record.asset_entry.last_run_id == runs[-1]
    newest = instance.fetch_materializations(counted.key, limit=1).records[0]
    assert last.storage_id == newest.storage_id


@pytest.mark.more
def test_connections_stay_open_and_few(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = instance.event_log_storage
    assert isinstance(storage, BatchedEventLog)
    runs = [materialize(instance) for _ in range(12)]
    assert len(storage._engines) == 8
    made: list[str] = []
    monkeypatch.setattr(storage, "conn_string_for_shard", made.append)
    for _ in range(10):
        assert len(instance.get_records_for_run(runs[-1]).records) > 20
    assert made == [], "a file that is open is not opened again"
    storage.dispose()
    assert storage._engines == {}


def test_dagster_is_as_it_was_when_its_inside_was_read() -> None:
    assert "with self._db_lock:" in inspect.getsource(SqliteEventLogStorage._connect)
    assert list(inspect.signature(SqliteEventLogStorage._initdb).parameters) == ["self", "engine", "for_index_shard"]
    assert "self._event_log_storage = " in inspect.getsource(DagsterSqliteStorage.__init__)
    assert "self._connect(" in inspect.getsource(SqliteEventLogStorage.index_connection)
    assert "self.store_event(" in inspect.getsource(SqliteEventLogStorage.store_event_batch)
    assert "_metadata_accumulator.get_asset_metadata" in inspect.getsource(StepExecutionContext.get_asset_metadata)
    handle = AssetMetadataHandle(asset_key=counted.key, partition_key="k")
    accumulated = OutputMetadataAccumulator(per_output_metadata={handle: {"rows": 1}})
    assert accumulated.get_asset_metadata(counted.key, "k") == {"rows": 1}
    assert issubclass(BatchedSqliteStorage, DagsterSqliteStorage)
    stored = inspect.getsource(SqliteEventLogStorage.store_event)
    assert "self._store_asset_event(conn, event, event_id)" in stored
    assert list(inspect.signature(SqliteEventLogStorage._has_asset_key_col_on_connection).parameters)[1:] == [
        "conn",
        "column_name",
    ]
