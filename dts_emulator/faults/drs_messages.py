"""Messages of DRS as objects, in which faults are looked for.

They are JSON, or records of the assumed schema in any frame.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]

WRITER = "the writer's schema"
"""The key of a container's own schema where it is not the assumed one.

Nobody can tell what such a record says.
"""

_MAGIC = b"Obj\x01"
_HEADER = 5


def message_of(value: bytes | None) -> Fields | None:
    """Return a message as an object; None if it is none."""
    if not value or value.lstrip()[:1] == b"{":
        return _of_json(value)
    if value.startswith(_MAGIC):
        return _of_container(value)
    found = _of_record(value)
    return found if found is not None or value[0] else _of_record(value[_HEADER:])


def _of_json(value: bytes | None) -> Fields | None:
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _of_record(value: bytes) -> Fields | None:
    import fastavro  # JSON is read without the packages of the extra

    from dts_emulator.drs.drs_avro_task import record_schema

    source = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(source, record_schema(), None)
    except Exception:  # what a parser raises of bytes that are no record
        return None
    return _in_capitals(found) if isinstance(found, dict) and not source.read(1) else None


def _of_container(value: bytes) -> Fields | None:
    import fastavro

    from dts_emulator.drs.drs_avro_task import record_schema

    start = value.find(b"{")
    try:
        schema, length = json.JSONDecoder().raw_decode(value[start:].decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    if fastavro.schema.to_parsing_canonical_form(record_schema()) not in _canonical(schema):
        return {WRITER: value[start : start + length]}
    try:
        found = list(fastavro.reader(io.BytesIO(value)))
    except Exception:  # what a parser raises of bytes that are no container
        return None
    return _in_capitals(found[0]) if len(found) == 1 and isinstance(found[0], dict) else None


def _in_capitals(record: dict[str, Any]) -> Fields:
    """Return a record with its type in capitals: a record tells it in any letters."""
    return record | {"type": record["type"].upper()}


def _canonical(schema: Any) -> tuple[str, ...]:
    import fastavro

    try:
        return (fastavro.schema.to_parsing_canonical_form(schema),)
    except Exception:  # what a parser raises of a schema that is none
        return ()
