"""Avro schemas as types that refer to one another (Apache Avro 1.11 specification, "Schema Declaration").

A schema file is one schema, or an array of named schemas in any order. Names in it are resolved before anything is read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


_MOST_BYTES, _MOST_DIGITS = 1 << 31, 1 << 10
_MOST_VALUES = 1 << 16
"""Values that a record may have at the most, items of lists left out.

Each takes a step of reading.
"""


class SchemaError(Exception):
    """A schema that cannot be used. Its text is a clause, which says where and why."""


@dataclass(slots=True, eq=False)
class Type:
    """A type of a schema.

    ``kind`` is a primitive, or ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union``. ``name`` is the full name of a
    named type. ``fields`` belong to a record, ``symbols`` to an enum, ``size`` to a fixed; ``items`` are the types inside: one of
    an array or map, the branches of a union. ``logical`` is the logical type, such as ``decimal``, whose digits behind the point
    are ``scale``.
    """

    kind: str
    name: str = ""
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    items: tuple[Type, ...] = ()
    logical: str = ""
    scale: int = 0

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
        if kind in PRIMITIVES:
            return Type(kind, logical=_logical(schema), scale=_scale(schema))
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
            made.logical, made.scale = _logical(schema), _scale(schema)
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
    return (one for one in every_type(*types) if one.name)


def every_type(*types: Type) -> Iterator[Type]:
    """Yield every type that can be reached, each once."""
    seen: set[int] = set()
    left = deque(types)
    while left:
        one = left.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
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
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_BYTES:
        raise SchemaError(f"the size of {name} is no number of bytes that a message may have")
    return value


def _logical(schema: Mapping[str, Any]) -> str:
    """Return the logical type, empty without one.

    One that is no text is none: the specification has readers ignore what they do not know.
    """
    found = schema.get("logicalType")
    return found if isinstance(found, str) else ""


def _scale(schema: Mapping[str, Any]) -> int:
    found = schema.get("scale", 0)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MOST_DIGITS else 0


def require_bounds(top: Type) -> None:
    """Look for types that let a few bytes cost any time.

    Raises:
        SchemaError: An array has items without bytes, a record holds itself in each of its values, or types that hold one another
            several times make too many values.
    """
    bounds = _Bounds()
    try:
        if bounds.values(top) > _MOST_VALUES:
            raise SchemaError(f"its types make more than {_MOST_VALUES} values")
        for one in every_type(top):
            if one.kind == "array" and not bounds.least(one.items[0]):
                raise SchemaError("an array in it has items without bytes")
    except RecursionError:
        raise SchemaError("its types lie too deep in one another") from None


@dataclass(slots=True)
class _Bounds:
    """The fewest bytes of a value of each type, and how many values stand in it."""

    bytes_of: dict[int, int] = field(default_factory=dict)
    values_of: dict[int, int] = field(default_factory=dict)

    def least(self, kind: Type) -> int:
        """Return the fewest bytes of a value, 1 for one or more."""
        if kind.kind not in ("record", "null", "fixed"):
            return 1
        if id(kind) not in self.bytes_of:
            self.bytes_of[id(kind)] = 1  # for a record that holds itself
            within = (
                kind.size if kind.kind == "fixed" else max((self.least(one.type) for one in kind.fields), default=0)
            )
            self.bytes_of[id(kind)] = min(1, within)
        return self.bytes_of[id(kind)]

    def values(self, kind: Type, within: frozenset[int] = frozenset()) -> int:
        """Return how many values a value of the type is at most.

        A type that values reach in several ways counts several times. ``within`` are the records that each value of the type
        stands in.

        Raises:
            SchemaError: A record holds itself in each of its values.
        """
        if id(kind) in within:
            raise SchemaError(f"its record {kind.short_name} holds itself in each of its values")
        if id(kind) not in self.values_of:
            self.values_of[id(kind)] = 1  # for a type that holds itself in some of its values
            mine = within | {id(kind)} if kind.kind == "record" else frozenset[int]()
            inside = (*kind.items, *(one.type for one in kind.fields))
            found = 1 + sum(self.values(one, mine) for one in inside)
            self.values_of[id(kind)] = min(_MOST_VALUES + 1, found)
        return self.values_of[id(kind)]
