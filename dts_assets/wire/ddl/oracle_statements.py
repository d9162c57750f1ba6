"""The two statements of Oracle that are read: TRUNCATE TABLE and DROP TABLE.

Both take all rows of one table. Every other statement, and one of these with more words, may do anything: TRUNCATE with CASCADE
empties other tables, too. The rules are in Oracle's SQL Language Reference, "TRUNCATE TABLE", "DROP TABLE" and "Database Object
Names and Qualifiers".
"""

from __future__ import annotations

import re

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.effects import NOT_PARSED, Effect, EffectKind, ParsedDdl
from dts_assets.wire.ddl.tokens import MOST_CHARACTERS

# Possessive, so that a text of any length is read once.
_S = r"(?:\s|/\*(?:[^*]++|\*(?!/))*+\*/|--[^\n]*+)"
_NAME = r'(?:"[^"\0]++"|[^\W\d_][\w$#]*+)'
_NEXT = rf'(?:{_S}++|(?="))'
_STORAGE = rf"(?:{_S}++(?:DROP(?:{_S}++ALL)?|REUSE){_S}++STORAGE)?"
_LOG = rf"(?:{_S}++(?:PRESERVE|PURGE){_S}++MATERIALIZED{_S}++VIEW{_S}++LOG)?"
_STATEMENT = re.compile(
    rf"{_S}*+(?:(?P<truncate>TRUNCATE)|DROP){_S}++TABLE{_NEXT}(?(truncate)|(?:IF{_S}++EXISTS{_NEXT})?+)"
    rf"(?:(?P<schema>{_NAME}){_S}*+\.{_S}*+)?(?P<table>{_NAME})"
    rf"(?(truncate){_LOG}{_STORAGE}|(?:{_S}++CASCADE{_S}++CONSTRAINTS)?(?:{_S}++PURGE)?){_S}*+;?{_S}*+",
    re.IGNORECASE,
)


def oracle_effects(sql: str, default_schema: str) -> ParsedDdl:
    """Return the effect of a statement of Oracle; never raise.

    A name without a schema is of ``default_schema``, and is not understood where that is empty.
    """
    found = _STATEMENT.fullmatch(sql) if len(sql) <= MOST_CHARACTERS else None
    if found is None or not (found["schema"] or default_schema):
        return NOT_PARSED
    schema = default_schema if found["schema"] is None else _spelled(found["schema"])
    kind = EffectKind.TRUNCATE_TABLE if found["truncate"] else EffectKind.DROP_TABLE
    return ParsedDdl(True, (Effect(kind, (TableId("", schema, _spelled(found["table"])),)),))


def _spelled(name: str) -> str:
    """Return a name as Oracle keeps it: in upper case, unless quotes keep it as it is."""
    return name[1:-1] if name.startswith('"') else name.upper()
