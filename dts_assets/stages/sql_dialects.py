"""The dialects of statements by the names that the configuration uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dts_assets.stages.mysql_sql import MySql
from dts_assets.stages.postgres_sql import PostgreSql
from dts_assets.stages.sql_dialect import Dialect

DIALECTS: Mapping[str, Dialect] = MappingProxyType({"mysql": MySql(), "postgresql": PostgreSql()})
"""All dialects, by name."""


def dialect_of(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        KeyError: There is no such dialect.
    """
    return DIALECTS[name]
