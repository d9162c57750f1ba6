"""Avro schemas as types that refer to one another (Apache Avro 1.11 specification, "Schema Declaration").

A schema file is one schema, or an array of named schemas in any order. Names in it are resolved before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


class SchemaError(Exception):
    """A schema that cannot be used. Its text is a clause, which says where and why."""


@dataclass(slots=True, eq=False)
class Type:
    """A type of a schema.

    ``kind`` is a primitive, or ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union``. ``name`` is the full name of a
    named type. ``fields`` belong to a record, ``symbols`` to an enum, ``size`` to a fixed; ``items`` are the types inside: one of
    an array or map, the branches of a union.
    """

    kind: str
    name: str = ""
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    items: tuple[Type, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without its namespace; the kind of a type without a name."""
        return self.name.rpartition(".")[2] or self.kind

    def field(self, *names: str) -> Field | None:
        """Return the first field of a record with one of some names, or with an alias among them."""
        for name in names:
            for one in self.fields:
                if name == one.name or name in one.aliases:
                    return one
        return None


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()


@dataclass(slots=True)
class _Names:
    """The named types of a file: declarations that were found, and types that were made of them."""

    declared: dict[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    made: dict[str, Type] = field(default_factory=dict)

    def collect(self, schema: Any, namespace: str) -> None:
        """Note every named type in a schema.

        Raises:
            SchemaError: Two types have one name, or something is no schema.
        """
        if isinstance(schema, list):
            for one in schema:
                self.collect(one, namespace)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if isinstance(kind, str) and kind in _NAMED:
                name = _full_name(schema, namespace)
                if name in self.declared:
                    raise SchemaError(f"it declares {name} twice")
                inside = name.rpartition(".")[0]
                self.declared[name] = (schema, inside)
                for one in schema.get("fields") or () if kind in ("record", "error") else ():
                    if isinstance(one, dict):
                        self.collect(one.get("type"), inside)
            else:
                for part in (kind, schema.get("items"), schema.get("values")):
                    self.collect(part, namespace)

    def type_of(self, schema: Any, namespace: str) -> Type:
        """Return the type that a schema stands for.

        Raises:
            SchemaError: It is no schema, or it names a type that nothing declares.
        """
        if isinstance(schema, str):
            return Type(schema) if schema in PRIMITIVES else self._named(schema, namespace)
        if isinstance(schema, list):
            return Type("union", items=tuple(self.type_of(one, namespace) for one in schema))
        if not isinstance(schema, dict):
            raise SchemaError("a type is neither a name nor an object nor a list")
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.type_of(kind, namespace)
        if kind in _NAMED:
            return self._named(_full_name(schema, namespace), "")
        if kind in ("array", "map"):
            inside = schema.get("items" if kind == "array" else "values")
            return Type(kind, items=(self.type_of(inside, namespace),))
        return self.type_of(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.declared:
            full = name
        if full in self.made:
            return self.made[full]
        if full not in self.declared:
            raise SchemaError(f"it names the type {name}, which nothing declares")
        schema, inside = self.declared[full]
        kind = "record" if schema["type"] == "error" else schema["type"]
        made = self.made[full] = Type(kind, full)
        if kind == "enum":
            made.symbols = tuple(_texts(schema.get("symbols"), f"the symbols of {full}"))
        elif kind == "fixed":
            made.size = _size(schema.get("size"), full)
        else:
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise SchemaError(f"the record {full} has no list of fields")
            made.fields = tuple(self._field(one, full, inside) for one in fields)
        return made

    def _field(self, schema: Any, record: str, namespace: str) -> Field:
        if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
            raise SchemaError(f"a field of {record} has no name")
        aliases = tuple(_texts(schema.get("aliases") or [], f"the aliases of {record}.{schema['name']}"))
        return Field(schema["name"], self.type_of(schema.get("type"), namespace), aliases)


def parse_schema(content: bytes) -> tuple[Type, ...]:
    """Return the types of a schema file at its top: one, or all of an array.

    Raises:
        SchemaError: The file is no Avro schema.
    """
    try:
        schema = json.loads(content)
    except (ValueError, RecursionError):
        raise SchemaError("it is no JSON") from None
    names = _Names()
    try:
        names.collect(schema, "")
        found = tuple(names.type_of(one, "") for one in (schema if isinstance(schema, list) else [schema]))
    except RecursionError:
        raise SchemaError("its types lie too deep in one another") from None
    if not found:
        raise SchemaError("it declares no type")
    return found


def named_types(types: tuple[Type, ...]) -> Iterator[Type]:
    """Yield every named type that can be reached, each once."""
    seen: set[int] = set()
    left = list(types)
    while left:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.name:
            yield one
        left += [*one.items, *(each.type for each in one.fields)]


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not name or not isinstance(own, str):
        raise SchemaError("a record, enum or fixed has no name")
    return name if "." in name or not own else f"{own}.{name}"


def _texts(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SchemaError(f"{what} are no list of texts")
    return value


def _size(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SchemaError(f"the size of {name} is no number")
    return value
