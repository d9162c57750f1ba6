"""Types of columns of the PostgreSQL family, and their types in the lake.

Names are those of PostgreSQL's ``format_type``, its short names, and those that GaussDB adds. DRS sends them without lengths
("Kafka Message Format", table 4), DTS with them.
"""

from __future__ import annotations

import re

_ARGUMENTS = re.compile(r"\(([^)]*)\)")
_DECIMAL = re.compile(r"\s*(\d{1,4})\s*(?:,\s*(-?\d{1,4})\s*)?", re.ASCII)
_MOST_DIGITS = 38

_TYPES = {
    "smallint": "int", "int2": "int", "smallserial": "int", "integer": "int", "int": "int", "int4": "int", "serial": "int",
    "tinyint": "int", "int1": "int", "bigint": "bigint", "int8": "bigint", "bigserial": "bigint",
    "real": "float", "float4": "float", "double precision": "double", "float8": "double", "binary_double": "double",
    "boolean": "boolean", "bool": "boolean", "date": "date",
    "timestamp without time zone": "timestamp_ntz", "timestamp": "timestamp_ntz", "smalldatetime": "timestamp_ntz",
    "timestamp with time zone": "timestamp", "timestamptz": "timestamp",
    "bytea": "binary", "blob": "binary", "raw": "binary",
}  # fmt: skip

_DECIMALS = frozenset({"numeric", "decimal", "number"})


def postgresql_type(original_type: str) -> str | None:
    """Return the lake type of a type text of the PostgreSQL family, such as ``numeric(10,2)``.

    None stands for every type that the lake holds as text: characters, JSON, intervals, ranges, arrays, and what nobody knows.
    A ``numeric`` without a precision is text, too, since its values may have any number of digits.
    """
    text = " ".join(original_type.lower().split())
    arguments = _ARGUMENTS.search(text)
    name = " ".join(_ARGUMENTS.sub(" ", text).split())
    if name in _DECIMALS:
        return None if arguments is None else _decimal(arguments.group(1))
    return _TYPES.get(name)


def _decimal(arguments: str) -> str | None:
    found = _DECIMAL.fullmatch(arguments)
    if found is None:
        return None
    precision, scale = int(found.group(1)), int(found.group(2) or 0)
    fits = 1 <= precision <= _MOST_DIGITS and 0 <= scale <= precision
    return f"decimal({precision},{scale})" if fits else None
