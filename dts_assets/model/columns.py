"""Columns of source tables: their types at the source, and their types in the lake.

Options of a subscription may name another lake type; no mapping may lose a value. Lake types are written as Spark writes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)", re.ASCII)
_ORIGINAL = re.compile(
    r"^\s*(?P<name>[A-Za-z]+(?: precision| varying)?)\s*(?:\((?P<arguments>[^)]*)\))?(?P<rest>.*)$", re.S
)
_JSON = re.compile(r"\s*jsonb?\b(?!\s*\[)", re.I)
_NUMBERS = re.compile(r"\s*(\d{1,4})\s*(?:,\s*(\d{1,4})\s*)?", re.ASCII)
"""One or two arguments of a type. Whoever reads longer numbers reads nonsense: no server has them."""

_WHOLE = {"int": "decimal(10,0)", "bigint": "decimal(19,0)"}
"""Decimals that hold every value of a type of whole numbers."""

SIMPLE_TYPES = frozenset(
    {"int", "bigint", "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"}
)
"""Lake types without arguments; ``timestamp`` is an instant in UTC, ``timestamp_ntz`` a wall clock."""

_MYSQL = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "integer": "int", "bigint": "bigint",
    "float": "float", "double": "double", "double precision": "double", "real": "double",
    "year": "int", "bool": "int", "boolean": "int",
    "date": "date", "datetime": "timestamp_ntz", "timestamp": "timestamp", "time": "string",
    "char": "string", "varchar": "string", "tinytext": "string", "text": "string", "mediumtext": "string",
    "longtext": "string", "enum": "string", "set": "string", "json": "string",
    "binary": "binary", "varbinary": "binary", "tinyblob": "binary", "blob": "binary", "mediumblob": "binary",
    "longblob": "binary", "geometry": "binary", "point": "binary", "linestring": "binary", "polygon": "binary",
    "multipoint": "binary", "multilinestring": "binary", "multipolygon": "binary", "geometrycollection": "binary",
    "geomcollection": "binary",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column as an event describes it: name, source type, and whether it is in the primary key."""

    name: str
    original_type: str
    is_key: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the lake holds it: its name there and its lake type, such as ``decimal(10,2)``.

    ``spellings`` are the names that the source has given it, the last one last; none where it was only ever called ``name``.
    ``own_types`` has the lake types of source types whose values ``type`` would read to others, or not at all:
    ``(("int(11)", "int"),)`` where ``type`` is ``string``, because the column became a text later. Types whose values turned out
    to be unsigned, which their texts do not say, are among them. ``holds_documents`` marks the column with the documents of a
    collection.
    """

    name: str
    type: str
    is_key: bool
    spellings: tuple[str, ...] = ()
    own_types: tuple[tuple[str, str], ...] = ()
    holds_documents: bool = False

    def own_type(self, original_type: str) -> str:
        """Return the lake type by which values of a source type are read."""
        return next((kind for text, kind in self.own_types if text == original_type), self.type)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names that events may have for the column, the last one first."""
        return self.spellings[::-1] or (self.name,)

    @property
    def lake_names(self) -> tuple[str, ...]:
        """The names that stored rows may have for the column, the present one first."""
        former = self.spellings if self.name in self.spellings else ()
        return (self.name, *(name for name in former if name != self.name))


def same_name(name: str) -> str:
    """Return a text that two names share if Spark takes them for one: ``id`` for ``Id``.

    Spark compares names without case as Java does: by the lower case of each character's upper case.
    """
    if name.isascii():
        return name.lower()
    return "".join(
        map(_without_case, name.lower().replace("i\u0307", "i"))
    )  # a dotted I has two characters in lower case


def _without_case(character: str) -> str:
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def decimal_arguments(lake_type: str) -> tuple[int, int] | None:
    """Return the precision and scale of a decimal lake type, else None."""
    found = _DECIMAL.fullmatch(lake_type)
    return (int(found.group(1)), int(found.group(2))) if found else None


def is_lake_type(text: str) -> bool:
    """Return whether ``text`` is a type that a column of the lake may be declared as."""
    arguments = decimal_arguments(text)
    return text in SIMPLE_TYPES or (arguments is not None and _fits_lake(*arguments))


def _fits_lake(precision: int, scale: int) -> bool:
    """Return whether Iceberg, Spark and Arrow have a decimal type."""
    return 1 <= precision <= 38 and scale <= precision


def mysql_type(original_type: str, *, unsigned: bool = False) -> str | None:
    """Return the lake type of a MySQL type text, such as ``int(11) unsigned``; None for an unknown type.

    ``unsigned`` says that a value's data type was UINTn, for servers whose type text leaves the sign out. Numbers and bits whose
    arguments make no sense, or are more than the lake's types hold, are ``string``, which holds every text as it is.
    """
    found = _ORIGINAL.match(original_type.lower())
    if found is None:
        return None
    name, arguments, rest = found.group("name"), found.group("arguments"), found.group("rest")
    unsigned = unsigned or "unsigned" in rest or "zerofill" in rest
    if name in ("decimal", "numeric", "dec", "fixed"):
        precision, scale = _numbers(arguments or "10")
        return f"decimal({precision},{scale})" if _fits_lake(precision, scale) else "string"
    if name == "bit":
        bits, _ = _numbers(arguments or "1")
        return "bigint" if 1 <= bits < 64 else "decimal(20,0)" if bits == 64 else "string"
    if unsigned and name in ("int", "integer"):
        return "bigint"
    if unsigned and name == "bigint":
        return "decimal(20,0)"
    return _MYSQL.get(name)


def is_json(original_type: str) -> bool:
    """Return whether values of a source type are JSON: ``json``, ``jsonb``. MariaDB's JSON is a ``longtext``."""
    return _JSON.match(original_type) is not None


def _numbers(arguments: str) -> tuple[int, int]:
    """Return the arguments of a type, the second one 0 where there is none; (0, 0) for nonsense."""
    found = _NUMBERS.fullmatch(arguments)
    return (0, 0) if found is None else (int(found.group(1)), int(found.group(2) or 0))


def widened(one: str, other: str) -> str | None:
    """Return the lake type that holds the values of both types; None if there is none.

    It is ``bigint`` for ``int`` and ``bigint``. Iceberg can promote both types to the returned one.
    """
    if one == other:
        return one
    for narrow, wide in (("int", "bigint"), ("float", "double")):
        if {one, other} == {narrow, wide}:
            return wide
    first, second = decimal_arguments(one), decimal_arguments(other)
    if first and second and first[1] == second[1]:
        return f"decimal({max(first[0], second[0])},{first[1]})"
    return None


def joined_type(one: str, other: str) -> str:
    """Return the lake type that holds exactly every value of both types.

    Where no other type does, it is text. It is ``bigint`` for ``int`` and ``bigint``, ``decimal(20,0)`` for ``bigint`` and
    ``decimal(20,0)``, ``string`` for ``int`` and ``date``, and ``binary`` where one of them is binary. The order in which types
    are joined does not matter.
    """
    found = widened(one, other) or widened(_WHOLE.get(one, one), _WHOLE.get(other, other))
    return found or ("binary" if "binary" in (one, other) else "string")


def reads_alike(narrow: str, wide: str) -> bool:
    """Return whether a wider lake type reads each text of a type to that type's value.

    A ``bigint`` reads those of an ``int`` so. A ``double`` reads ``0.1`` to another value than a ``float``.
    """
    return widened(narrow, wide) == wide and (narrow == wide or narrow != "float")


def quoted(name: str) -> str:
    """Return a name in backticks, as Spark, MySQL and MariaDB read it."""
    return "`" + name.replace("`", "``") + "`"


def matched_by(columns: Iterable[Column], key: Collection[str]) -> tuple[Column, ...]:
    """Return columns with another primary key: those in ``key``, by any of their names in stored rows."""
    return tuple(replace(column, is_key=not set(key).isdisjoint(column.lake_names)) for column in columns)


def has_key(columns: Iterable[Column]) -> bool:
    """Return whether a table with these columns has a primary key; without one its rows are a bag."""
    return any(column.is_key for column in columns)


def are_in_order(shapes: Iterable[ColumnShape], columns: Iterable[Column]) -> bool:
    """Return whether the columns of an event stand in the order that they have in the lake."""
    places = {name: place for place, column in enumerate(columns) for name in column.source_names}
    found = [places[one.name] for one in shapes if one.name in places]
    return found == sorted(found)
