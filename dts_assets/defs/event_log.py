"""The SQLite storage of Dagster, with an event log written in batches over connections that stay open.

A run writes two events for each partition and asset, and two for each check of them. Dagster's SQLite storage opens and closes a
connection two to five times an event and waits for the disk at each; see docs/decisions/0007 for what that costs. Files, tables
and everything that is read stay Dagster's: the two storages can be exchanged at any time.

A test pins the parts that are not Dagster's documented interface.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from dagster import DagsterInstance, EventLogEntry, StringSource
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event

from dts_assets.settings.environment import set_where_unset

BATCH_EVENTS = 500
"""The most events in one transaction. Other writers of the home wait for its end, half a second."""

_OPEN_FILES = 8
"""The most logs of runs that stay open; a webserver looks into many."""


@dataclass(slots=True)
class _Batch:
    """The events that are being stored, in one transaction for each file.

    ``last`` has the last event of each asset and kind, with its number.
    """

    stack: ExitStack
    connections: dict[str, Connection] = field(default_factory=dict)
    last: dict[Hashable, tuple[EventLogEntry, int]] = field(default_factory=dict)


class GatheringLog(SqlEventLogStorage):
    """An event log that can gather single events of a block of code into batches."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._block = threading.local()
        super().__init__(*given, **named)  # type: ignore[no-untyped-call]

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Gather the events that this thread stores in the block.

        They are stored at its end, however it ends.
        """
        self._block.events = []
        try:
            yield
        finally:
            events, self._block.events = self._block.events, None
            self._store_gathered(events)

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event, at the end of the block if this thread gathers events."""
        events = getattr(self._block, "events", None)
        if events is None:
            super().store_event(event)
            return
        events.append(event)
        if len(events) >= BATCH_EVENTS:
            self._block.events = None  # a batch may be stored one by one
            self._store_gathered(events)
            self._block.events = []

    def _store_gathered(self, events: Sequence[EventLogEntry]) -> None:
        """Store events as a batch; if that fails one by one, as Dagster does with its own batches."""
        try:
            if len(events) > 1:
                self.store_event_batch(events)
                return
        except Exception as error:  # whatever a database raises
            sys.stderr.write(f"a batch of {len(events)} events is stored one by one ({type(error).__name__})\n")
        for one in events:
            self.store_event(one)


@contextmanager
def gathered_events(instance: DagsterInstance) -> Iterator[None]:
    """Have the events of the block stored in batches, where the instance's storage can do so."""
    storage = instance.event_log_storage
    with storage.gathered() if isinstance(storage, GatheringLog) else nullcontext():
        yield


class BatchedEventLog(GatheringLog, SqliteEventLogStorage):
    """The event log in the files of Dagster's SQLite storage: a log of each run, and an index."""

    def __init__(self, base_dir: str) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._batch: _Batch | None = None
        self._there: set[str] = set()
        super().__init__(base_dir)
        self._db_lock = cast("threading.Lock", threading.RLock())  # a batch takes it again for each of its events

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events in one transaction a file, all or none."""
        with self._db_lock, ExitStack() as stack:
            self._batch = batch = _Batch(stack)
            stack.callback(setattr, self, "_batch", None)
            super().store_event_batch(events)
            with self.index_transaction() as connection:
                for event, number in batch.last.values():
                    super()._store_asset_event(connection, event, number)

    def has_table(self, table_name: str) -> bool:
        """Return whether a table exists; Dagster asks at every event, so a table found once is remembered."""
        if table_name not in self._there and super().has_table(table_name):
            self._there.add(table_name)
        return table_name in self._there

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._there and super()._has_asset_key_col_on_connection(conn, column_name):
            self._there.add(column_name)
        return column_name in self._there

    def _store_asset_event(self, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        """Note the last event of an asset in its row; a batch does so at its end, once."""
        if self._batch is None:
            super()._store_asset_event(conn, event, event_id)
            return
        key = (event.get_dagster_event().asset_key, event.dagster_event_type)
        self._batch.last.pop(key, None)  # so that the order is that of the last ones
        self._batch.last[key] = event, event_id

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            if self._batch is None:
                with self._engine(shard).begin() as connection:
                    yield connection
                return
            if shard not in self._batch.connections:
                self._batch.connections[shard] = self._batch.stack.enter_context(self._engine(shard).begin())
            yield self._batch.connections[shard]

    def dispose(self) -> None:
        """Close all files."""
        with self._db_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()
        super().dispose()

    def _engine(self, shard: str) -> Engine:
        """Return the engine of a file. Its one connection stays open while the file is among the last files used."""
        engine = self._engines.get(shard)
        if engine is None:
            engine = create_engine(
                self.conn_string_for_shard(shard),
                pool_size=1,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS},
            )
            event.listen(engine, "connect", _without_waiting)
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            self._engines[shard] = engine
            if len(self._engines) > _OPEN_FILES:
                self._engines.popitem(last=False)[1].dispose()
        self._engines.move_to_end(shard)
        return engine


class BatchedSqliteStorage(DagsterSqliteStorage):
    """The SQLite storage in the place of Dagster's default, the home itself, with the batched event log.

    It also sets the environment variable that makes Dagster hand over events in batches.
    """

    def __init__(self, home: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(home, inst_data)
        self._event_log_storage = BatchedEventLog(str(Path(home) / "history" / "runs"))
        set_where_unset({"DAGSTER_EVENT_BATCH_SIZE": str(BATCH_EVENTS)})

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Return the configuration: ``home`` is the folder of dagster.yaml."""
        return {"home": StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """Return the storage that dagster.yaml describes."""
        return cls(config_value["home"], inst_data)


def _without_waiting(connection: Any, _: Any) -> None:
    """Commit without waiting for the disk: only a power failure may lose the last events."""
    connection.execute("PRAGMA synchronous=NORMAL")
