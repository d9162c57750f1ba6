"""Dagster's PostgreSQL storage, with an event log written in batches over one connection that stays open.

Dagster's own opens a connection for each statement, and takes batches apart that hold anything but materializations: 53 ms an
event where this one takes 3 (docs/decisions/0041). Tables and everything that is read stay Dagster's: the two storages can be
exchanged at any time. `dagster.yaml` names :class:`BatchedPostgresStorage`; the package dagster-postgres is an extra of this one.

A test pins the parts that are not Dagster's documented interface.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from dagster import EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, make_url

from dts_assets.defs.event_log import BATCH_EVENTS, GatheringLog
from dts_assets.errors.machine import MissingExtraError, UnreachableStorageError
from dts_assets.settings.environment import set_where_unset

try:
    from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
    from dagster_postgres.utils import (
        DagsterPostgresException,
        create_pg_engine,
        get_token_provider_from_config,
        pg_url_from_config,
    )
except ModuleNotFoundError as missing:
    raise MissingExtraError("Dagster's storage in PostgreSQL", "postgres", str(missing.name)) from None

_DRIVER = "postgresql+psycopg2"
"""The driver that dagster-postgres brings. SQLAlchemy 2.1 takes another one for a bare ``postgresql://``."""


class BatchedPostgresLog(GatheringLog, PostgresEventLogStorage):
    """The event log in the tables of Dagster's PostgreSQL storage."""

    def __init__(self, postgres_url: str, should_autocreate_tables: bool = True, **named: Any) -> None:
        self._batch: dict[int, Connection] = {}
        self._there: set[str] = set()
        super().__init__(postgres_url, should_autocreate_tables, **named)
        # One connection of each process stays open; the server may have closed it, so it is tried before it is used.
        self._engine = create_pg_engine(
            self.postgres_url, self._token_provider, isolation_level="AUTOCOMMIT", pool_size=1, pool_pre_ping=True
        )

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events in one transaction, all or none."""
        # Dagster stores no failures to materialize in PostgreSQL either.
        wanted = [one for one in events if not (one.dagster_event and one.dagster_event.is_asset_failed_to_materialize)]
        if not wanted:
            return
        thread = threading.get_ident()
        with self.index_transaction() as connection:
            self._batch[thread] = connection
            try:
                self._store_batch(connection, wanted)
            finally:
                del self._batch[thread]

    def has_table(self, table_name: str) -> bool:
        """Return whether a table exists; Dagster asks at every event, so a table found once is remembered."""
        if table_name not in self._there and super().has_table(table_name):
            self._there.add(table_name)
        return table_name in self._there

    def dispose(self) -> None:
        """Close the connection."""
        super().dispose()
        self._engine.dispose()

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """Yield the connection of this thread's batch, else one for a statement of its own."""
        connection = self._batch.get(threading.get_ident())
        if connection is not None:
            yield connection
            return
        with super()._connect() as own:
            yield own

    def _store_batch(self, connection: Connection, events: Sequence[EventLogEntry]) -> None:
        inserted = self.prepare_insert_event_batch(events).returning(SqlEventLogStorageTable.c.id)
        numbers = [int(row[0]) for row in connection.execute(inserted)]
        numbered = list(zip(events, numbers, strict=True))
        of_assets = [
            (event, number)
            for event, number in numbered
            if event.dagster_event_type in ASSET_EVENTS and event.get_dagster_event().asset_key
        ]
        self._store_asset_event_tags(connection, [event for event, _ in of_assets], [number for _, number in of_assets])
        for event, number in _last_of_each(of_assets):
            self._store_asset_event(connection, event, number)
        for event, number in numbered:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, number)


def _last_of_each(events: Sequence[tuple[EventLogEntry, int]]) -> list[tuple[EventLogEntry, int]]:
    """Return the last event of each asset and kind.

    They come in the order of asset keys, so that two batches never wait for each other's rows.
    """
    last: dict[Hashable, tuple[EventLogEntry, int]] = {}
    for event, number in events:
        last[event.get_dagster_event().asset_key, event.dagster_event_type] = event, number
    return sorted(last.values(), key=lambda pair: (str(pair[0].get_dagster_event().asset_key), pair[1]))


class BatchedPostgresStorage(DagsterPostgresStorage):
    """The PostgreSQL storage with the batched event log.

    It also sets the environment variable that makes Dagster hand over events in batches.
    """

    def __init__(self, postgres_url: str, should_autocreate_tables: bool = True, **named: Any) -> None:
        url = make_url(postgres_url)
        if url.drivername == "postgresql":
            url = url.set(drivername=_DRIVER)
        full = url.render_as_string(hide_password=False)
        try:
            super().__init__(full, should_autocreate_tables, **named)
            told = {"token_provider": named.get("token_provider")}
            self._event_log_storage = BatchedPostgresLog(full, should_autocreate_tables, **told)
        except DagsterPostgresException:
            raise UnreachableStorageError(f"{url.host or 'localhost'}:{url.port or 5432}") from None
        set_where_unset({"DAGSTER_EVENT_BATCH_SIZE": str(BATCH_EVENTS)})

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """Return the storage that dagster.yaml describes."""
        return cls(
            pg_url_from_config(config_value),
            config_value.get("should_autocreate_tables", True),
            inst_data=inst_data,
            token_provider=get_token_provider_from_config(config_value),
        )
