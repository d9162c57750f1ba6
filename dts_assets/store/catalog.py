"""The lake's catalog: its place, and the settings with which pyiceberg and Spark open it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import Select, bindparam, event, select
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session

from dts_assets.errors import UnwritableLakeError
from dts_assets.errors.damage import DamagedCatalogError
from dts_assets.store.avro_schemas import parse_schemas_once
from dts_assets.store.catalog_properties import for_pyiceberg, for_spark, of_file_stores, without_own
from dts_assets.store.contention import explained_trouble
from dts_assets.store.damage import damage_named, name_damage, with_named_metadata
from dts_assets.store.durable import bring_folder_to_disk, bring_to_disk
from dts_assets.store.file_stores import prepare_clients
from dts_assets.store.iceberg_tables import CATALOG
from dts_assets.store.jars import packages_of
from dts_assets.store.places import clause_of, require_lake_folder

SQLITE_WAIT_SECONDS = 60
"""The seconds for which SQLite waits for another writer.

Without this wait 157 of 271 calls of one of four writers failed.
"""

_METADATA_FILES = 2500
"""Metadata files whose content is held in memory, the latest used.

A thousand tables with changelog and snapshot have two thousand, and a refresh reads each some twenty times. A file takes some
50 KB in memory, and half a millisecond to be read.
"""

_REDACTED = (
    r"(?i)secret|password|token|credential|\.header\.|[._-]key($|[._-])|connection.string|executorenv|:[^/@\s]+@"
)
"""Names of settings and forms of values that Spark hides wherever it shows them.

Its own list lacks the last six.
"""

_FLAT_CATALOGS = ("hive", "glue")

_DAMAGED = re.compile(r"malformed|not a database|file is encrypted")
"""Words of SQLite for a database that it cannot read."""

_METADATA = "*/*/metadata/*.metadata.json"
"""The metadata of a subscription's own tables, below the warehouse."""


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """A lake: its warehouse (a local path or a URI) and its catalog's properties, as Iceberg names them.

    It is picklable. ``properties["type"]`` is ``sqlite`` if it is left out; the database of this catalog is ``catalog.db`` in
    the warehouse unless ``uri``, a local path, names another. ``joined`` says that the catalog has one namespace level, None
    that its type decides. ``only_read`` says that nobody writes, so that a SQLite catalog may be one that cannot be written.
    """

    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold credentials
    joined: bool | None = None
    only_read: bool = False

    @property
    def catalog_type(self) -> str:
        """The type of the catalog: ``sqlite``, ``rest``, ``hive``, ``glue`` or another that Iceberg knows."""
        return self.properties.get("type", "sqlite")

    @property
    def joins_names(self) -> bool:
        """True if the parts of a table's name are joined by ``__``."""
        return self.catalog_type in _FLAT_CATALOGS if self.joined is None else self.joined

    @property
    def names_in_urls(self) -> bool:
        """True if the catalog is asked by URLs that have the names of tables in their path."""
        return self.catalog_type == "rest"

    @property
    def local_path(self) -> Path | None:
        """The warehouse's folder, None if it is not on a local disk."""
        if "://" not in self.warehouse:
            return Path(self.warehouse).absolute()
        return Path(self.warehouse.removeprefix("file://")) if self.warehouse.startswith("file://") else None

    @property
    def warehouse_uri(self) -> str:
        """The URI of the warehouse for Iceberg.

        That of a local folder begins with ``file://``, so that no engine takes it for another store.
        """
        return f"file://{self.local_path}" if self.local_path is not None else self.warehouse.rstrip("/")

    @property
    def database(self) -> Path:
        """The SQLite catalog's file.

        Raises:
            UnwritableLakeError: The warehouse is on no local disk, and no ``uri`` names a file.
        """
        if "uri" in self.properties:
            return Path(self.properties["uri"].removeprefix("sqlite:///")).absolute()
        if self.local_path is None:
            raise UnwritableLakeError(
                self.warehouse, "a SQLite catalog needs a local disk, so lake.catalog needs a uri or another type"
            )
        return self.local_path / "catalog.db"

    @property
    def scheme(self) -> str:
        """The scheme of the warehouse's URI: ``file``, ``s3``."""
        return self.warehouse_uri.partition("://")[0]


class SqliteCatalog(SqlCatalog):
    """A catalog that reads each metadata file once, and makes its query for tables once.

    It does not read the files that it has written. Metadata files never change, and a refresh of twenty tables loads tables five
    hundred times. Making pyiceberg's own query anew takes most of such a load. This is not pyiceberg's documented interface; a
    test pins it.
    """

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table as it is now.

        Raises:
            NoSuchTableError: There is no table of that name.
        """
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        name = Catalog.table_name_from(identifier)
        with self.engine.connect() as connection:
            location: Any = connection.scalar(self._query, {"catalog": self.name, "namespace": namespace, "name": name})
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        return self._opened(location, namespace, name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Make one commit, and keep the metadata that it wrote: it is read next.

        Raises:
            NoSuchTableError: There is no table of that name.
            CommitFailedException: The table does not meet the requirements.
        """
        done = super().commit_table(table, requirements, updates)
        if len(_WRITTEN) >= _METADATA_FILES:
            _WRITTEN.clear()
        _WRITTEN[done.metadata_location] = done.metadata
        return done

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        SqlCatalog._write_metadata(metadata, io, metadata_path)
        bring_to_disk([metadata_path])

    def openers(self) -> Iterator[tuple[Identifier, Callable[[], Table]]]:
        """Yield the names of all tables in the file, with their openers.

        Programs may give the catalog different names; all are meant.
        """
        only_tables, wanted = self._iceberg_type_filter(), select(IcebergTables)
        with Session(self.engine) as session:
            found = list(session.scalars(wanted if only_tables is None else wanted.where(only_tables)))
        for one in found:
            yield (
                (*Catalog.identifier_to_tuple(one.table_namespace), one.table_name),
                partial(self._convert_orm_to_iceberg, one),
            )

    @cached_property
    def _query(self) -> Select[Any]:
        query = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == bindparam("catalog"),
            IcebergTables.table_namespace == bindparam("namespace"),
            IcebergTables.table_name == bindparam("name"),
        )
        only_tables = self._iceberg_type_filter()
        return query if only_tables is None else query.where(only_tables)

    def _opened(self, location: str, namespace: str, name: str) -> Table:
        metadata = _metadata(location, tuple(sorted(self.properties.items())))
        return Table(
            identifier=(*Catalog.identifier_to_tuple(namespace), name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location, namespace, name = orm_table.metadata_location, orm_table.table_namespace, orm_table.table_name
        if not (location and namespace and name):
            return super()._convert_orm_to_iceberg(orm_table)
        return self._opened(location, namespace, name)


@lru_cache(maxsize=_METADATA_FILES)
def _metadata(location: str, properties: tuple[tuple[str, str], ...]) -> TableMetadata:
    """Return the content of a metadata file.

    All callers share it: a caller that changes it makes a copy first, as pyiceberg does.
    """
    written = _WRITTEN.pop(location, None)
    if written is not None:
        return written
    source = load_file_io(dict(properties), location).new_input(location)
    with damage_named(source):
        return FromInputFile.table_metadata(source)


_WRITTEN: dict[str, TableMetadata] = {}
"""The metadata that this process has written and not read yet, by the places of their files."""


def open_catalog(lake: LakeLocation) -> Catalog:
    """Return the catalog ``lake``, made if it is a SQLite one that does not exist yet.

    Raises:
        UnwritableLakeError: A SQLite catalog cannot be opened, or a folder of the lake cannot be made or written.
        UnavailableCatalogError: Other programs kept a SQLite catalog locked.
        DamagedCatalogError: A SQLite catalog is damaged or lost.
    """
    parse_schemas_once()
    name_damage()
    told = for_pyiceberg(lake.properties)
    prepare_clients(told)
    if lake.catalog_type != "sqlite":
        # A catalog that is a server may know its warehouses by names of its own.
        catalog = load_catalog(CATALOG, **{"warehouse": lake.warehouse_uri, **told})
        prepare_clients(of_file_stores(catalog.properties))  # the server may have named the store
        return with_named_metadata(catalog)
    database, waiting = lake.database, {"timeout": str(SQLITE_WAIT_SECONDS)}
    _refuse_lost(lake)
    try:
        _make_ready(lake)
        uri = URL.create("sqlite", database=str(database), query=waiting)
    except UnwritableLakeError:
        if not (lake.only_read and os.access(database, os.R_OK)):
            raise
        query = {**waiting, "mode": "ro", "uri": "true"}
        uri = URL.create("sqlite", database=f"file:{quote(str(database))}", query=query)
    properties = {
        **of_file_stores(told),
        "uri": uri.render_as_string(),
        "warehouse": lake.warehouse_uri,
        "schema_version": "v1",
    }
    tables_left = 2
    while True:
        try:
            catalog = SqliteCatalog(CATALOG, **properties)
            event.listen(catalog.engine, "handle_error", partial(_name_damage, str(database)))
            return catalog
        except DatabaseError as error:
            # Another process may make each of the catalog's two tables between our look and our try.
            if tables_left and "already exists" in str(error):
                tables_left -= 1
                continue
            if (passing := explained_trouble(error)) is not None:
                raise passing from error
            if _says_damage(error):
                raise DamagedCatalogError(str(database)) from None
            raise UnwritableLakeError(lake.warehouse, f"its catalog {database.name} cannot be opened") from error


def _says_damage(error: BaseException) -> bool:
    """Return whether SQLite says that a database is damaged, or none."""
    return _DAMAGED.search(str(getattr(error, "orig", error))) is not None


def _name_damage(path: str, context: ExceptionContext) -> None:
    """Name the file of a catalog that turns out to be damaged when it is asked.

    Raises:
        DamagedCatalogError: SQLite says so.
    """
    if _says_damage(context.original_exception):
        raise DamagedCatalogError(path) from None


def spark_catalog_conf(lake: LakeLocation, user: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the Spark settings of the catalog ``lake``; all of them must stand when Spark starts.

    The table cache is off: with it Spark went on reading old rows after a commit by pyiceberg, in 3 of 3 tries. The package
    that reaches the warehouse's store is added, unless the settings of ``user`` name it themselves, in any version.

    Raises:
        UnwritableLakeError: A SQLite catalog has no local path.
    """
    name, jars = f"spark.sql.catalog.{CATALOG}", packages_of(lake.catalog_type, lake.scheme, user or {})
    properties = for_spark(lake.properties, scheme=lake.scheme)
    if lake.catalog_type == "sqlite":
        properties = {
            **without_own(properties),
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{lake.database}?busy_timeout={SQLITE_WAIT_SECONDS * 1000}",
            "jdbc.schema-version": "V1",
        }
    return {
        "spark.jars.packages": ",".join(jars),
        "spark.redaction.regex": _REDACTED,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.cache-enabled": "false",
        f"{name}.warehouse": lake.warehouse_uri,
        **{f"{name}.{key}": value for key, value in properties.items()},
    }


def _make_ready(lake: LakeLocation) -> None:
    """Make the folder of the SQLite database and the warehouse, and look whether they can be written.

    Raises:
        UnwritableLakeError: A folder cannot be made, it or the database cannot be written, a path has a character that no table
            location can carry, or there is no local path.
    """
    folders = [folder for folder in (lake.local_path, lake.database.parent) if folder is not None]
    for folder in folders:
        require_lake_folder(folder)
        if folder.is_dir():
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            bring_folder_to_disk(folder)
        except OSError as error:
            raise UnwritableLakeError(str(folder), clause_of(error)) from None
    database = lake.database
    if database.exists() and not os.access(database, os.W_OK):
        raise UnwritableLakeError(str(database), "permission denied")


def _refuse_lost(lake: LakeLocation) -> None:
    """Refuse a warehouse with tables whose SQLite database is lost: a new one would begin without them.

    A database with a place of its own may be a second catalog of the warehouse.

    Raises:
        DamagedCatalogError: The database is empty or missing.
    """
    size = lake.database.stat().st_size if lake.database.exists() else None
    lost = "it is empty" if size == 0 else "it is missing" if size is None and "uri" not in lake.properties else ""
    if lost and lake.local_path is not None and any(lake.local_path.glob(_METADATA)):
        raise DamagedCatalogError(str(lake.database), f"{lost}, and the warehouse has tables")
