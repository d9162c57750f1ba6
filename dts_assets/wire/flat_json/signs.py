"""The signs that tell flat messages apart: those of DRS JSON, of DRS JSON-C and of Canal.

All have the same fields. They differ in four points ("Kafka Message Format", tables 2 and 5; Canal's FlatMessage). DRS sends
types without lengths, and whole rows in ``old``. JSON has deleted rows in ``old`` and TIMESTAMP values in seconds; JSON-C and
Canal have deleted rows in ``data`` and TIMESTAMP values as wall clocks. DRS has the type ``DDL`` for every statement, where Canal
names its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from dts_assets.wire.recognition.samples import Sample, Signs


class FlatForm(StrEnum):
    """A form of flat messages."""

    JSON = "json"
    JSON_C = "json-c"
    CANAL = "canal"


_DRS = frozenset({FlatForm.JSON, FlatForm.JSON_C})
_OTHER_SOURCES = ("columnType", "opType", "dbType", "schema")
"""Fields of DRS JSON from sources beside the MySQL family, where it has no mysqlType."""

_TIDB = "_tidb"
"""The field of TiCDC, which writes Canal's form (``enable-tidb-extension``)."""

_CANAL_STATEMENTS = frozenset({"CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME", "CINDEX", "DINDEX"})
_SIZED = re.compile(r"(var)?char|(var)?binary|decimal|enum|set|bit")
"""Types that a MySQL server never names without what stands in brackets."""

_SECONDS = re.compile(r"\d+(\.\d+)?")
_LENGTHS, _NO_LENGTHS = "mysqlType with lengths", "mysqlType without lengths"


def flat_signs(sample: Sample) -> Mapping[FlatForm, Signs]:
    """Return the forms that a message may have, with their signs.

    There are none if it is no flat message.
    """
    fields = sample.fields
    if fields is not None and _is_of_collection(fields):
        return {FlatForm.JSON: frozenset({"op, db, coll, clusterTime"})}
    if fields is not None and _is_of_other_source(fields):
        return {FlatForm.JSON: frozenset({"columnType, dbType, schema, opType"})}
    if fields is None or not _is_flat(fields):
        return {}
    if isinstance(fields.get(_TIDB), dict):
        return {FlatForm.CANAL: frozenset({f"{_TIDB} of TiCDC"})}
    left = set(FlatForm)
    signs: set[str] = set()
    for forms, sign in _evidence(fields):
        left &= forms
        signs.add(sign)
    if left == set(FlatForm) and "old" in fields and fields["type"] == "UPDATE" and _has_part_of_row(fields):
        left = {FlatForm.CANAL}  # DRS may do so, too, where its types have shown that it is DRS
        signs.add("changed columns alone in old")
    return dict.fromkeys(left, frozenset(signs or {"type, es, mysqlType, isDdl"}))


def _is_of_collection(fields: Mapping[str, Any]) -> bool:
    return {"id", "op", "db", "clusterTime"} <= fields.keys() and "type" not in fields


def _is_of_other_source(fields: Mapping[str, Any]) -> bool:
    named = {"id", "es", "type", "isDdl"} <= fields.keys() and isinstance(fields["type"], str) and _TIDB not in fields
    return named and fields.get("mysqlType") is None and sum(name in fields for name in _OTHER_SOURCES) > 1


def _is_flat(fields: Mapping[str, Any]) -> bool:
    named = {"id", "es", "type", "mysqlType", "isDdl"} <= fields.keys() and isinstance(fields["type"], str)
    return named and not any(name in fields for name in _OTHER_SOURCES)


def _evidence(fields: Mapping[str, Any]) -> Iterator[tuple[frozenset[FlatForm], str]]:
    """Yield signs of a message, each with the forms that it leaves possible."""
    kind = fields["type"]
    if kind == "DDL":
        yield _DRS, "statements of the type DDL"
    elif kind in _CANAL_STATEMENTS:
        yield frozenset({FlatForm.CANAL}), "statements of the types CREATE, ALTER, ..."
    has_gtid = isinstance(fields.get("gtid"), str)
    if has_gtid:
        yield frozenset({FlatForm.CANAL}), "gtid"
    types = fields["mysqlType"] if isinstance(fields["mysqlType"], dict) else {}
    texts = [text.lower() for text in types.values() if isinstance(text, str)]
    if any("(" in text or " unsigned" in text for text in texts):
        yield frozenset({FlatForm.CANAL}), _LENGTHS
    elif (
        any(_SIZED.fullmatch(text) for text in texts) and not has_gtid
    ):  # Tencent Cloud writes Canal's form without them
        yield _DRS, _NO_LENGTHS
    data, old = (_rows(fields.get(name)) for name in ("data", "old"))
    if kind == "DELETE" and bool(data) != bool(old):
        if old:
            yield frozenset({FlatForm.JSON}), "deleted rows in old"
        else:
            yield frozenset({FlatForm.JSON_C, FlatForm.CANAL}), "deleted rows in data"
    if kind == "UPDATE" and any(_keeps_values(before, after) for before, after in zip(old, data, strict=False)):
        yield _DRS, "whole rows in old"
    yield from _clocks(types, (*data, *old))


def _clocks(types: Mapping[str, Any], rows: tuple[Mapping[str, Any], ...]) -> Iterator[tuple[frozenset[FlatForm], str]]:
    names = [name for name, text in types.items() if isinstance(text, str) and text.lower().startswith("timestamp")]
    values = [row[name] for row in rows for name in names if isinstance(row.get(name), str)]
    if not values:
        return
    if all(_SECONDS.fullmatch(value) for value in values):
        yield frozenset({FlatForm.JSON}), "TIMESTAMP values in seconds"
    elif not any(_SECONDS.fullmatch(value) for value in values):
        yield frozenset({FlatForm.JSON_C, FlatForm.CANAL}), "TIMESTAMP values as wall clocks"


def _rows(found: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(row for row in found if isinstance(row, dict)) if isinstance(found, list) else ()


def _keeps_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether an old row names a value that did not change; Canal sends none."""
    return any(name in after and after[name] == value for name, value in before.items())


def _has_part_of_row(fields: Mapping[str, Any]) -> bool:
    pairs = zip(_rows(fields["old"]), _rows(fields.get("data")), strict=False)
    return any(before.keys() < after.keys() for before, after in pairs)
