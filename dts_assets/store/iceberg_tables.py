"""Lake tables by their asset keys: identifiers, creation, and widening as source tables change.

An asset ``shop/changelog/shopdb/orders`` is the table ``shop.changelog.shopdb.orders`` of the catalog ``lake``. A schema only
ever grows: columns are added, types widened; nothing is dropped, because old windows still hold it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.typedef import Identifier
from pyiceberg.types import IcebergType, StructType

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import quoted, widened
from dts_assets.store.columns import NamedType
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.schemas import TableLayout
from dts_assets.store.types import arrow_schema, iceberg_type, lake_type
from dts_assets.store.versions import refuse_set_back

CATALOG = "lake"
"""The catalog's name for Spark and for pyiceberg: the SQLite catalog keeps tables by it."""

_REPEATED = (CommitFailedException, CommitStateUnknownException)
"""The outcomes after which a change of a table's metadata is tried again.

Each try begins with the table as it is, so a change that landed unheard is not made twice.
"""

_NOT_IN_PATHS = re.compile(r"[^A-Za-z0-9_\-]")


def table_identifier(path: Sequence[str], *, joined: bool = False) -> Identifier:
    """Return the identifier of the table of an asset key.

    With ``joined``, for catalogs of a single namespace level, the subscription is the namespace and the other parts are joined:
    ``("shop", "changelog__shopdb__orders")``.
    """
    return (path[0], "__".join(path[1:])) if joined else tuple(path)


def spark_name(identifier: Identifier) -> str:
    """Return the table's name in Spark SQL, with quoted parts: ``lake.`shop`.`entries```."""
    return ".".join((CATALOG, *(quoted(part) for part in identifier)))


def ensure_table(catalog: Catalog, identifier: Identifier, layout: TableLayout) -> Table:
    """Return the table, created with its namespaces if it is not there yet.

    Several processes may do so at once.

    Raises:
        LakeTableError: Other writers kept the catalog busy all the time, or it gave no answer.
        SetBackTableError: The table stands at an earlier version than before.
    """
    made = until_it_gets_through(
        ".".join(identifier), lambda: _load_or_create(catalog, identifier, layout), lost=_REPEATED
    )
    return refuse_set_back(made)


def remember(catalog: Catalog, identifier: Identifier, layout: TableLayout, *, name: str, value: str) -> None:
    """Keep a fact in the properties of a table, where it lasts as long as the lake. The first writer wins.

    Raises:
        LakeTableError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = ensure_table(catalog, identifier, layout)
        if name not in table.properties:
            with table.transaction() as transaction:
                transaction.set_properties({name: value})

    until_it_gets_through(".".join(identifier), attempt, lost=_REPEATED)


def _load_or_create(catalog: Catalog, identifier: Identifier, layout: TableLayout) -> Table:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        pass
    for depth in range(1, len(identifier)):
        _ensure_namespace(catalog, identifier[:depth])
    try:
        return catalog.create_table(
            identifier,
            layout.schema,
            location=_location(catalog, identifier),
            partition_spec=layout.spec,
            properties=dict(layout.properties),
        )
    except TableAlreadyExistsError:
        return catalog.load_table(identifier)


def evolve(catalog: Catalog, identifier: Identifier, columns: Sequence[NamedType]) -> pa.Schema:
    """Widen a table to hold ``columns``, and return its new Arrow schema with field ids.

    ``columns`` are names and lake types: ``("id", "bigint")``. New columns, and new fields of structs, go to the end; int, float
    and decimal widen as Iceberg allows. A column that the table already has in a wider type stays as it is.

    Raises:
        LakeTableError: A column's type and the wanted type have no common wider type, or other writers kept the table busy all
            the time.
    """

    def attempt() -> None:
        table = catalog.load_table(identifier)
        # Made when it is needed: to begin an update takes longer than to find that there is none.
        update = lru_cache(maxsize=1)(table.update_schema)
        struct = table.schema().as_struct()
        changed = [_widen(update, ".".join(identifier), struct, (name,), iceberg_type(text)) for name, text in columns]
        if any(changed):
            update().commit()

    until_it_gets_through(".".join(identifier), attempt, lost=_REPEATED)
    return arrow_schema(catalog.load_table(identifier).schema())


def _widen(
    update: Callable[[], UpdateSchema], table: str, struct: StructType, path: tuple[str, ...], wanted: IcebergType
) -> bool:
    """Stage the change with which the field at ``path`` holds ``wanted``; return False if none is needed.

    Raises:
        LakeTableError: The field cannot hold it without loss.
    """
    present = next((field for field in struct.fields if field.name == path[-1]), None)
    if present is None:
        update().add_column(path, wanted)
        return True
    found = present.field_type
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return any([_widen(update, table, found, (*path, field.name), field.field_type) for field in wanted.fields])
    one, other = lake_type(found), lake_type(wanted)
    if one == other:
        return False
    wide = widened(one, other)
    if wide is None:
        raise LakeTableError(
            table,
            f"column {'.'.join(path)} is {one} and cannot become {other} without loss",
            f"declare {one} or a wider type of its kind for it under types, or use another subscription name, whose tables "
            f"start empty",
        )
    if wide == one:
        return False
    update().update_column(path, field_type=iceberg_type(wide))
    return True


def _ensure_namespace(catalog: Catalog, namespace: Identifier) -> None:
    if catalog.namespace_exists(namespace):
        return
    try:
        catalog.create_namespace(namespace)
    except Exception:
        # Two creators at once: the second gets a constraint violation of whatever database the catalog keeps.
        if not catalog.namespace_exists(namespace):
            raise


def _location(catalog: Catalog, identifier: Identifier) -> str | None:
    """Return the table's folder: its parts below the warehouse, so that the folders read like the assets.

    Other catalogs choose it themselves. Characters beyond letters, digits, ``_`` and ``-`` are written as ``~`` and hex: a
    percent sign in a location means one thing to a URI and another to a path.
    """
    if not isinstance(catalog, SqlCatalog):
        return None
    parts = [_NOT_IN_PATHS.sub(lambda found: f"~{ord(found.group()):x}~", part) for part in identifier]
    return "/".join((catalog.properties["warehouse"].rstrip("/"), *parts))
