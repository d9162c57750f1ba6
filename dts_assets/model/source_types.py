"""Kinds of source databases, by the words of ``source_type``; the words of DTS Protobuf where it has them."""

from __future__ import annotations

from functools import lru_cache

MYSQL = "MYSQL"
POSTGRESQL = "PGSQL"
GAUSSDB = "GAUSSDB"
SQL_SERVER = "SQLSERVER"
ORACLE = "ORACLE"
MONGODB = "MONGODB"
OTHER = "OTHER"
"""A source with a schema level whose kind is not told."""

OTHER_DIALECTS = frozenset({POSTGRESQL, GAUSSDB, SQL_SERVER, ORACLE, OTHER})
"""Kinds whose statements are not those of the MySQL family.

A kind that nobody knows is taken for one of the MySQL family, as it always was. MongoDB has no statements: decoders write its
commands as statements of MySQL, so that they are followed alike.
"""

_SIGNS = (
    ("POSTGRES", POSTGRESQL),
    ("GAUSS", GAUSSDB),
    ("SQLSERVER", SQL_SERVER),
    ("ORACLE", ORACLE),
    ("MONGO", MONGODB),
)


@lru_cache(maxsize=1 << 8)
def source_type_of(name: str | None) -> str:
    """Return the kind of a source beside the MySQL family from the vendor's name of it.

    Names have changed over time, and differ in case and signs: ``GaussDB Primary/Standby``, ``GaussDB Centralized``.
    """
    letters = "".join(filter(str.isalnum, (name or "").upper()))
    return next((kind for sign, kind in _SIGNS if sign in letters), OTHER)
