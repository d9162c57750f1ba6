"""Signs of forms that no class of a format tells: planned formats, and messages of other products.

A name is that of a planned format, so that it is called readable once a package registers it. Forms that will never be read
have no name, only a title.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.wire.recognition.samples import Sample, Signs


@dataclass(frozen=True, slots=True)
class Stranger:
    """A form that is recognised by simple signs. ``name`` is empty where no format will have it."""

    name: str
    title: str
    signs_in: Callable[[Sample], Signs | None]


def _by_fields(test: Callable[[Mapping[str, Any]], bool], sign: str) -> Callable[[Sample], Signs | None]:
    """Return signs of JSON objects whose fields pass a test."""
    found = frozenset({sign})
    return lambda sample: found if sample.fields is not None and test(sample.fields) else None


def _is_debezium(fields: Mapping[str, Any]) -> bool:
    payload = fields.get("payload", fields)
    if not isinstance(payload, dict):
        return False
    return isinstance(payload.get("op"), str) and isinstance(payload.get("source"), dict)


def _is_maxwell(fields: Mapping[str, Any]) -> bool:
    kind = fields.get("type")
    named = {"database", "type", "ts"} <= fields.keys() and "mysqlType" not in fields
    return named and isinstance(kind, str) and kind.islower()


_PACKET = re.compile(rb"(?:\x08.)?(?:\x10\x01)?\x18\x07(?:\x20.)?\x2a([\x80-\xff]{0,4}[\x00-\x7f])", re.S)
"""The begin of a packet with messages (``CanalProtocol.proto``).

Its type is 7, and its body follows behind its length.
"""


def _canal_packet(sample: Sample) -> Signs | None:
    """Return the sign of a packet whose body reaches to the end of the message."""
    found = _PACKET.match(sample.value)
    if found is None:
        return None
    length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[1]))
    return frozenset({"a packet with messages"}) if length == len(sample.value) - found.end() else None


def _confluent(sample: Sample) -> Signs | None:
    """Return the sign of a zero and a small number of four bytes.

    Registries count schemas from 1.
    """
    framed = sample.value[:2] == b"\0\0" and len(sample.value) > 5 and sample.value[1:5] != bytes(4)
    return frozenset({"a zero and the number of a schema in front"}) if framed else None


def _container(sample: Sample) -> Signs | None:
    return frozenset({"Obj in front"}) if sample.value[:4] == b"Obj\x01" else None


STRANGERS = (
    Stranger("", "Debezium JSON", _by_fields(_is_debezium, "op, source, before and after")),
    Stranger("", "Maxwell JSON", _by_fields(_is_maxwell, "type in small letters, ts")),
    Stranger("", "Canal's binary form (write canal.mq.flatMessage = true for JSON)", _canal_packet),
    Stranger("", "Avro behind the number of a schema (Confluent)", _confluent),
    Stranger("", "Avro containers", _container),
)
