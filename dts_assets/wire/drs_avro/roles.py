"""The fields of a DRS record by the roles that they play: found by name, or declared.

The vendor's schema is not public ("Kafka Message Format" names a file, ``record.rar``), so the customer's schema decides. The
names that are looked for are those of the vendor's JSON, and those of the records of two other vendors, whose form it may share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dts_assets.wire.avro.column_lists import NAMES
from dts_assets.wire.avro.field_values import is_scalar
from dts_assets.wire.avro.records import Place, RecordSchema, fields_beside, fields_of
from dts_assets.wire.avro.schema import SchemaError, Type

ROLES: Mapping[str, tuple[str, ...]] = {
    "operation": ("type", "opType", "messageType", "operation", "op"), "id": ("id",),
    "database": ("database", "schemaName", "db"), "schema": ("schema",), "table": ("table", "tableName", "objectName"),
    "before": ("old", "oldColumns", "beforeImages", "before"), "after": ("data", "newColumns", "afterImages", "after"),
    "columns": ("columns", "fields"), "types": ("mysqlType", "columnType"), "key_names": ("pkNames",),
    "time": ("es", "timestamp", "sourceTimestamp"), "sql": ("sql",), "is_ddl": ("isDdl",),
}  # fmt: skip
"""The names by which a field with a role is found, in this order."""

NEEDED = ("operation", "id", "table", "before", "after")
"""The roles without which nothing can be made of a record."""

SENT = frozenset({"ts", "readerTimestamp", "processTimestamps"})
"""The names of fields that say when a message was sent, which differs between copies."""

VALUE_NAMES = ("value",)
"""The names of the field with a value, in a record of a column's name and value."""


def drs_record(record: Type, declared: Mapping[str, str]) -> RecordSchema:
    """Return a record with its fields by role; ``declared`` has names by role, ``{"operation": "header.op"}``.

    Raises:
        SchemaError: There is no field for a needed role, or a declared one is not there or cannot play its role.
    """
    found = {role: _declared(record, role, name) for role, name in declared.items()}
    taken = {place.path for place in found.values()}
    if len(taken) < len(found):
        raise SchemaError("avro: names one field for two roles")
    for role, names in ROLES.items():
        if role not in found:
            places = (Place((one,)) for name in names if (one := record.field(name)) is not None)
            fitting = next((one for one in places if one.path not in taken and _FITS[role](one.type)), None)
            if fitting is not None:
                found[role] = fitting
                taken.add(fitting.path)
    in_order = any(_has_values_in_order(found[role].type) for role in ("before", "after") if role in found)
    missing = [role for role in (*NEEDED, *(["columns"] if in_order else [])) if role not in found]
    if missing:
        looked = "; ".join(f"{role} (looked for {', '.join(ROLES[role])})" for role in missing)
        raise SchemaError(f"its record {record.short_name} has no field for {looked}; name it under avro:")
    return RecordSchema(record, found, fields_beside(record, found.values()))


def _declared(record: Type, role: str, name: str) -> Place:
    """Return the field that is declared for a role, ``header.op`` of a record inside the record.

    Raises:
        SchemaError: It is not there, or cannot play the role.
    """
    whole = record.field(name)
    if whole is not None:
        return _fitting(Place((whole,)), role)
    path, kind = [], record
    for part in name.split("."):
        inner = Type("record", fields=fields_of(kind)).field(part)
        if inner is None:
            raise SchemaError(f"its record {record.short_name} has no field {name}, which avro: names for {role}")
        path.append(inner)
        kind = inner.type
    return _fitting(Place(tuple(path)), role)


def _fitting(place: Place, role: str) -> Place:
    if not _FITS[role](place.type):
        raise SchemaError(
            f"its field {place.name} cannot be the {role}: it is no {_WANTED.get(role, 'text or number')}"
        )
    return place


_IMAGE = "row: neither values in the order of the columns, nor values by name"
_WANTED = {
    "before": _IMAGE, "after": _IMAGE, "columns": "list of columns", "types": "map of types", "key_names": "list of names",
    "id": "whole number", "time": "whole number",
}  # fmt: skip


def branches_of(kind: Type) -> tuple[Type, ...]:
    """Return the branches of a union without null; any other type is its only branch."""
    return tuple(one for one in (kind.items if kind.kind == "union" else (kind,)) if one.kind != "null")


def is_pair(kind: Type) -> bool:
    """Tell whether a type is a record of a column's name and value."""
    name, value = (kind.field(*names) if kind.kind == "record" else None for names in (NAMES, VALUE_NAMES))
    return name is not None and value is not None and is_scalar(name.type)


def _is_image(kind: Type) -> bool:
    return any(one.kind in ("array", "map") for one in branches_of(kind))


def _has_values_in_order(kind: Type) -> bool:
    """Tell whether rows are values without names, which only a list of columns gives an order."""
    items = [one.items[0] for one in branches_of(kind) if one.kind == "array"]
    return any(one.kind != "map" and not is_pair(one) for item in items for one in (branches_of(item) or (item,)))


def _is_column_list(kind: Type) -> bool:
    items = [one.items[0] for one in branches_of(kind) if one.kind == "array"]
    return any(one.kind == "record" and one.field(*NAMES) is not None for one in items)


def _is_type_map(kind: Type) -> bool:
    return any(one.kind == "map" and is_scalar(one.items[0]) for one in branches_of(kind))


def _is_whole(kind: Type) -> bool:
    return all(one.kind in ("int", "long", "string") for one in branches_of(kind))


def _is_name_list(kind: Type) -> bool:
    return any(one.kind == "array" and is_scalar(one.items[0]) for one in branches_of(kind))


_FITS: Mapping[str, Callable[[Type], bool]] = {
    **dict.fromkeys(ROLES, is_scalar), "before": _is_image, "after": _is_image, "columns": _is_column_list,
    "types": _is_type_map, "key_names": _is_name_list, "id": _is_whole, "time": _is_whole,
}  # fmt: skip
