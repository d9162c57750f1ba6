"""Changes of a column's type that leave every value as it is.

Stored rows need not be written anew then: the lake type of the values is the same, or a wider one to which Iceberg promotes it.
"""

from __future__ import annotations

from dts_assets.model.columns import widened
from dts_assets.stages.server_types import NUMBERS, Kind, ServerType, server_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn

_WIDEST = 4
"""The most bytes that a character of any character set takes."""

_UNICODE = frozenset({"utf8mb4", None})
"""Character sets that hold every text. One that is not known is taken for such a set: the statement succeeded."""


def keeps_values(old: SchemaColumn, new: SchemaColumn) -> bool:
    """Return whether all values of a column stay as they are behind a change of it.

    They do from ``int(11)`` to ``bigint(20)``, and from ``varchar(10)`` to ``varchar(20)``. A column that takes no NULL any more
    may have got other values, as has a column that is generated now, or counts now.
    """
    if (old.nullable and not new.nullable) or new.generated != old.generated:
        return False
    if new.auto_increment and not old.auto_increment:
        return False
    one, other = server_type(old), server_type(new)
    if one is None or other is None:
        return old.type == new.type and old.charset == new.charset
    if widened(one.lake_type, other.lake_type) != other.lake_type or one.kind is not other.kind:
        return False
    return _keeps(one, other)


def _keeps(old: ServerType, new: ServerType) -> bool:
    if old.kind in (Kind.WHOLE, Kind.BIT):
        return new.bounds[0] <= old.bounds[0] and old.bounds[1] <= new.bounds[1]
    if old.kind in NUMBERS or old.kind is Kind.REAL:
        return _numbers_keep(old, new)
    if old.kind in (Kind.DATE, Kind.CLOCK, Kind.INSTANT, Kind.TIME):
        # The text of a time has as many digits as its type; a moment is the same moment.
        return old.digits == new.digits or (old.digits < new.digits and old.kind in (Kind.CLOCK, Kind.INSTANT))
    if old.kind is Kind.TEXT:
        return _texts_keep(old, new)
    if old.kind is Kind.BYTES:
        return (old.base == new.base == "binary" and old.length == new.length) or (
            "binary" not in (old.base, new.base) and _room(old) <= _room(new)
        )
    if old.kind in (Kind.ENUM, Kind.SET):
        kept = tuple(label for label in new.labels if label in old.labels)
        return (new.charset in _UNICODE or old.charset == new.charset) and (
            kept == old.labels if old.kind is Kind.SET else set(kept) == set(old.labels)
        )
    return old.declared == new.declared and old.charset == new.charset


def _numbers_keep(old: ServerType, new: ServerType) -> bool:
    if new.declared.unsigned and not old.declared.unsigned:
        return False
    if old.kind is Kind.DECIMAL:
        return old.digits == new.digits and old.precision <= new.precision
    if old.kind is Kind.REAL:
        return not old.is_rounded_real and not new.is_rounded_real and (old.base, new.base) != ("double", "float")
    return old.declared == new.declared


def _texts_keep(old: ServerType, new: ServerType) -> bool:
    if not (new.charset in _UNICODE or old.charset == new.charset) or (new.base == "char" and old.base != "char"):
        return False
    if old.length is not None and new.length is not None:
        return old.length <= new.length
    width = 1 if old.most_bytes is not None and old.charset == new.charset else _WIDEST
    return _room(old) * (width if old.most_bytes is not None else _WIDEST) <= (new.most_bytes or 0)


def _room(kind: ServerType) -> int:
    return kind.length if kind.length is not None else kind.most_bytes or 0
