"""Mappings of source types to other lake types than usual, by the names that other tools give them."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

_TINYINT1 = re.compile(r"\s*tinyint\s*\(\s*1\s*\)(?!.*unsigned)", re.I | re.S)
_BIGINT = re.compile(r"\s*bigint\b", re.I)
_DATETIME = re.compile(r"\s*datetime\b", re.I)


class TypeMapping(StrEnum):
    """A mapping that a subscription may ask for.

    The names are those of Apache Paimon's ``type_mapping``, as far as it has them.
    """

    TINYINT1_TO_BOOLEAN = "tinyint1-to-boolean"
    BIGINT_UNSIGNED_TO_BIGINT = "bigint-unsigned-to-bigint"
    DATETIME_TO_TIMESTAMP = "datetime-to-timestamp"
    TO_STRING = "to-string"


def mapped_type(original_type: str, lake_type: str, mappings: Collection[TypeMapping]) -> str | None:
    """Return the lake type that mappings give a column, in place of its usual ``lake_type``; None without one.

    It is ``boolean`` for ``tinyint(1)`` and ``int``. Bytes stay bytes with ``to-string``, since they are no text.
    """
    if not mappings:
        return None
    if TypeMapping.TO_STRING in mappings:
        return None if lake_type in ("string", "binary") else "string"
    if TypeMapping.TINYINT1_TO_BOOLEAN in mappings and _TINYINT1.match(original_type):
        return "boolean"
    if (
        TypeMapping.BIGINT_UNSIGNED_TO_BIGINT in mappings
        and lake_type == "decimal(20,0)"
        and _BIGINT.match(original_type)
    ):
        return "bigint"
    if TypeMapping.DATETIME_TO_TIMESTAMP in mappings and _DATETIME.match(original_type):
        return "timestamp"
    return None
