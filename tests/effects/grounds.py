"""What a world stands on: its catalog, its store, and what runs its tasks; and how all of it is put back before a run."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.fs as pafs
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.typedef import Identifier

from dts_assets.flows.snapshot_jobs import Merge
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_emulator.machine.rest_lake import WAREHOUSE
from tests.effects.by_spark import catch_spark
from tests.effects.effects import Effects, catch_sqlite
from tests.effects.in_process import InProcess
from tests.effects.over_http import catch_requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "effects"
"""The subscription of all worlds."""


class Ground(Protocol):
    """A lake that can be put back, and what runs tasks on it."""

    @property
    def location(self) -> LakeLocation:
        """The lake as pipelines open it."""
        ...

    def session(self, effects: Effects) -> Any:
        """What a flow takes for Spark's session."""
        ...

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        """Set what holds for all runs."""
        ...

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        """Have the calls of this catalog and of these tasks counted."""
        ...

    def keep(self) -> None:
        """Remember the lake as it is: a run begins there."""
        ...

    def put_back(self) -> None:
        """Bring the lake back to where it was kept."""
        ...

    def sizes(self) -> Mapping[str, int] | None:
        """The bytes of every file in the store by path, None if it is a local disk."""
        ...


@dataclass
class OnDisk:
    """A SQLite catalog on a local disk, and no JVM: the ground on which all effects are tried."""

    folder: Path

    @property
    def location(self) -> LakeLocation:
        return LakeLocation(str(self.folder / "lake"))

    def session(self, effects: Effects) -> Any:
        return InProcess(effects)

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        return

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        catch_sqlite(effects, patch)

    def keep(self) -> None:
        _mirror(self.folder / "lake", self.folder / "kept")

    def put_back(self) -> None:
        _mirror(self.folder / "kept", self.folder / "lake")

    def sizes(self) -> None:
        return None


def _mirror(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)


@dataclass
class OnSpark:
    """A SQLite catalog on a local disk and a real Spark session, which runs the tasks and shares all changes out.

    The JVM has the catalog's file open, and other subscriptions may be in it. So rows are put back and not the file.
    """

    folder: Path
    spark: SparkSession
    location: LakeLocation
    _rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def session(self, effects: Effects) -> Any:
        return self.spark

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Merge, "is_small", False)  # all changes are shared out

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        catch_sqlite(effects, patch)
        catch_spark(effects, patch)

    def keep(self) -> None:
        _mirror(self._files, self.folder / "kept")
        with closing(sqlite3.connect(self.location.database)) as database:
            for table, column in _OF_A_SUBSCRIPTION.items():
                self._rows[table] = database.execute(
                    f"SELECT * FROM {table} WHERE {column} = ? OR {column} LIKE ?", (NAME, f"{NAME}.%")
                ).fetchall()

    def put_back(self) -> None:
        _mirror(self.folder / "kept", self._files)
        with closing(sqlite3.connect(self.location.database, timeout=60)) as database, database:
            for table, column in _OF_A_SUBSCRIPTION.items():
                database.execute(f"DELETE FROM {table} WHERE {column} = ? OR {column} LIKE ?", (NAME, f"{NAME}.%"))
                for row in self._rows[table]:
                    database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def sizes(self) -> None:
        return None

    @property
    def _files(self) -> Path:
        return Path(self.location.warehouse) / NAME


_OF_A_SUBSCRIPTION = {"iceberg_tables": "table_namespace", "iceberg_namespace_properties": "namespace"}
"""The tables of a SQLite catalog, and the column that names the namespace."""


@dataclass
class OnRest:
    """A real REST catalog with an S3 store, and no Spark.

    Tables are dropped and registered again at the metadata that they had; objects that came since are removed, and those that
    are gone are written again.
    """

    properties: Mapping[str, str]
    _tables: dict[Identifier, str] = field(default_factory=dict)
    _objects: dict[str, bytes] = field(default_factory=dict)

    @property
    def location(self) -> LakeLocation:
        return LakeLocation(WAREHOUSE, self.properties)

    def session(self, effects: Effects) -> Any:
        return InProcess(effects)

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Merge, "is_small", False)  # all changes are shared out
        # A small object is one request and not three, so that moto is not most of the time.
        patch.setattr(pafs, "S3FileSystem", partial(pafs.S3FileSystem, allow_delayed_open=True))

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        catch_requests(effects, patch, self.properties["uri"])

    def keep(self) -> None:
        catalog, store = open_catalog(self.location), self._store
        self._tables = {one: catalog.load_table(one).metadata_location for one in _tables_of(catalog)}
        self._objects = {path.removeprefix("s3://"): b"" for path in self.sizes()}
        for path in self._objects:
            with store.open_input_stream(path) as stream:
                self._objects[path] = stream.read()

    def put_back(self) -> None:
        catalog, store = open_catalog(self.location), self._store
        for identifier in _tables_of(catalog):
            catalog.drop_table(identifier)
        for namespace in reversed(_namespaces_of(catalog)):
            catalog.drop_namespace(namespace)
        sizes = {path.removeprefix("s3://"): size for path, size in self.sizes().items()}
        for path in sizes.keys() - self._objects.keys():
            store.delete_file(path)
        for path, content in self._objects.items():
            if sizes.get(path) != len(content):
                with store.open_output_stream(path) as stream:
                    stream.write(content)
        for identifier, metadata in sorted(self._tables.items(), key=lambda pair: len(pair[0])):
            for depth in range(1, len(identifier)):
                catalog.create_namespace_if_not_exists(identifier[:depth])
            catalog.register_table(identifier, metadata)

    def sizes(self) -> dict[str, int]:
        chosen = pafs.FileSelector(WAREHOUSE.removeprefix("s3://"), allow_not_found=True, recursive=True)
        return {f"s3://{one.path}": one.size for one in self._store.get_file_info(chosen) if one.is_file}

    @property
    def _store(self) -> pafs.S3FileSystem:
        return pafs.S3FileSystem(
            access_key=self.properties["s3.access-key-id"],
            secret_key=self.properties["s3.secret-access-key"],
            endpoint_override=self.properties["s3.endpoint"],
            region=self.properties["s3.region"],
        )


def _namespaces_of(catalog: Catalog) -> list[Identifier]:
    """Return all namespaces of the subscription, each before those below it."""
    found, waiting = list[Identifier](), list[Identifier]([(NAME,)])
    while waiting:
        try:
            below = catalog.list_namespaces(waiting[0])
        except NoSuchNamespaceError:
            return found
        found.append(waiting.pop(0))
        waiting += below
    return found


def _tables_of(catalog: Catalog) -> list[Identifier]:
    return [table for namespace in _namespaces_of(catalog) for table in catalog.list_tables(namespace)]


@contextmanager
def own_spark(folder: Path) -> Iterator[OnSpark]:
    """Yield a ground with a session of its own, for a process that has none."""
    from dts_assets.store.session import open_session

    location = LakeLocation(str(folder / "lake"))
    open_catalog(location)  # makes the folder and the catalog's tables
    conf = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    session = open_session(location, conf, master="local[2]", name="dts-assets-effects")
    try:
        yield OnSpark(folder, session, location)
    finally:
        session.stop()
