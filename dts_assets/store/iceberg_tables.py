"""Lake tables by their asset keys: identifiers, creation, and widening as source tables change.

An asset ``shop/changelog/shopdb/orders`` is the table ``shop.changelog.shopdb.orders`` of the catalog ``lake``. A schema only
grows here: columns are added, types widened; nothing is dropped, because old windows still hold it. Tables that follow the
present columns of their source get them by a plan; see :mod:`dts_assets.store.planned_fields`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, lru_cache

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
from pyiceberg.types import IcebergType, ListType, NestedField, StructType

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import quoted, same_name, widened
from dts_assets.model.tables import folder_name
from dts_assets.store.columns import NamedType
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.schemas import TableLayout
from dts_assets.store.types import arrow_schema, iceberg_type, lake_type
from dts_assets.store.versions import refuse_set_back

CATALOG = "lake"
"""The catalog's name for Spark and for pyiceberg: the SQLite catalog keeps tables by it."""

TRIED_AGAIN = (CommitFailedException, CommitStateUnknownException)
"""The outcomes after which a change of a table is tried again.

Each try begins with the table as it is, so a change that landed unheard is not made twice.
"""

_JOINED_BYTES = 255
"""The longest table name of Glue; Hive takes one more."""

_NOT_JOINED = re.compile(r"[^a-z0-9_]|(?<![a-z0-9])_|_(?![a-wyz0-9])")
"""The characters of a part that are escaped where parts are joined.

An underscore stays between lower-case letters and digits alone, and not before an ``x``: so ``__`` can only be a joint, and
``_x`` only the begin of an escape.
"""


def table_identifier(path: Sequence[str], *, joined: bool = False, in_urls: bool = False) -> Identifier:
    """Return the identifier of the table of an asset key.

    With ``in_urls``, for catalogs that are asked by URL, ``~`` stands for ``%``, which servers refuse in the path of a request
    (Jetty 12: "Ambiguous URI path encoding"), and ``~7E`` for ``~``: ``a~2Eb`` for the table ``a.b``.

    With ``joined``, for catalogs of a single namespace level and without case, the subscription is the namespace and the other
    parts are joined, in lower case with escapes: ``("shop", "changelog__shopdb___x4f_rders")`` for ``Orders``. Two paths never
    have the same identifier.
    """
    if not joined:
        return tuple(part.replace("~", "%7E").replace("%", "~") for part in path) if in_urls else tuple(path)
    name = "__".join(_NOT_JOINED.sub(_escaped, part) for part in path[1:])
    if len(name) > _JOINED_BYTES:
        # Four underscores are the end of an escape, a joint, and the begin of an escape: an x follows everywhere else.
        end = "____" + hashlib.sha256(name.encode()).hexdigest()[:32]
        name = name[: _JOINED_BYTES - len(end)] + end
    return (path[0], name)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"_x{byte:02x}_" for byte in found.group().encode())


def spark_name(identifier: Identifier) -> str:
    """Return the table's name in Spark SQL, with quoted parts: ``lake.`shop`.`entries```."""
    return ".".join((CATALOG, *(quoted(part) for part in identifier)))


def ensure_table(catalog: Catalog, identifier: Identifier, layout: TableLayout) -> Table:
    """Return the table, created with its namespaces if it is not there yet.

    Several processes may do so at once.

    Raises:
        LakeChangeError: Other writers kept the catalog busy all the time, or it gave no answer.
        SetBackTableError: The table stands at an earlier version than before.
    """
    made = until_it_gets_through(
        ".".join(identifier), lambda: _load_or_create(catalog, identifier, layout), lost=TRIED_AGAIN
    )
    return refuse_set_back(made)


def with_all_columns(catalog: Catalog, identifier: Identifier, layout: TableLayout, table: Table) -> Table:
    """Return ``table``, widened by the columns and fields of its ``layout`` that an earlier version did not know.

    Raises:
        LakeChangeError: Other writers kept the table busy all the time.
    """
    if {*layout.schema.column_names} <= {*table.schema().column_names}:
        return table
    evolve(catalog, identifier, [(field.name, lake_type(field.field_type)) for field in layout.schema.fields])
    return catalog.load_table(identifier)


def remember(
    catalog: Catalog, identifier: Identifier, layout: TableLayout, *, name: str, value: str, again: bool = False
) -> None:
    """Keep a fact in the properties of a table, where it lasts as long as the table.

    The first writer wins, or the last one where it may be told ``again``.

    Raises:
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = ensure_table(catalog, identifier, layout)
        if name not in table.properties or (again and table.properties[name] != value):
            with table.transaction() as transaction:
                transaction.set_properties({name: value})

    until_it_gets_through(".".join(identifier), attempt, lost=TRIED_AGAIN)


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

    ``columns`` are names and lake types: ``("id", "bigint")``. New columns, and new fields of structs and of lists of structs, go
    to the end; int, float and decimal widen as Iceberg allows. A column that the table already has in a wider type stays as it
    is, and a column whose name differs in case only is spelled as in ``columns`` from then on.

    Raises:
        LakeTableError: A column's type and the wanted type have no common wider type.
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = catalog.load_table(identifier)
        # Made when it is needed: to begin an update takes longer than to find that there is none.
        update = lru_cache(maxsize=1)(table.update_schema)
        fields = Fields(table.schema().as_struct())
        changed = [_widen(update, ".".join(identifier), fields, (name,), iceberg_type(text)) for name, text in columns]
        if any(changed):
            update().commit()

    until_it_gets_through(".".join(identifier), attempt, lost=TRIED_AGAIN)
    return arrow_schema(catalog.load_table(identifier).schema())


def drop_columns(catalog: Catalog, identifier: Identifier, names: Collection[str]) -> None:
    """Take columns out of a table, those of ``names`` that it has.

    Files keep their values.

    Raises:
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = catalog.load_table(identifier)
        there = [name for name in names if name in table.schema().column_names]
        if there:
            with table.update_schema() as update:
                for name in there:
                    update.delete_column(name)

    until_it_gets_through(".".join(identifier), attempt, lost=TRIED_AGAIN)


def _widen(
    update: Callable[[], UpdateSchema], table: str, fields: Fields, path: tuple[str, ...], wanted: IcebergType
) -> bool:
    """Stage the change with which the field at ``path`` holds ``wanted``; return False if none is needed.

    Raises:
        LakeTableError: The field cannot hold it without loss.
    """
    present = fields.find(path[-1])
    if present is None:
        update().add_column(path, wanted)
        return True
    found, respelled = present.field_type, present.name != path[-1]
    if respelled:
        update().rename_column((*path[:-1], present.name), path[-1])
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        inner = Fields(found)
        return any([_widen(update, table, inner, (*path, field.name), field.field_type) for field in wanted.fields])
    one, other = lake_type(found), lake_type(wanted)
    if one == other:
        return respelled
    if isinstance(found, ListType) and isinstance(wanted, ListType) and isinstance(found.element_type, StructType):
        element = found.element_field
        return (
            _widen(update, table, Fields(StructType(element)), (*path, element.name), wanted.element_type) or respelled
        )
    wide = widened(one, other)
    if wide is None:
        raise LakeTableError(
            table,
            f"column {'.'.join(path)} is {one} and cannot become {other} without loss",
            f"declare {one} or a wider type of its kind for it under types, or use another subscription name, whose tables "
            f"start empty",
        )
    if wide == one:
        return respelled
    update().update_column((*path[:-1], present.name), field_type=iceberg_type(wide))
    return True


class Fields:
    """The fields of a struct, or of a table, by name."""

    def __init__(self, struct: StructType) -> None:
        self._by_name = {field.name: field for field in struct.fields}

    def find(self, name: str) -> NestedField | None:
        """Return the field of a name, else the one whose name differs in case only; None without one."""
        return self._by_name.get(name) or self._by_case.get(same_name(name))

    @cached_property
    def _by_case(self) -> dict[str, NestedField]:
        return {same_name(name): field for name, field in self._by_name.items()}


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

    Other catalogs choose it themselves.
    """
    if not isinstance(catalog, SqlCatalog):
        return None
    return "/".join((catalog.properties["warehouse"].rstrip("/"), *map(folder_name, identifier)))
