"""A task of DRS told in Avro, with a schema whose names nobody documents, and in any frame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from tests.flows.source import Message
from tests.wire.avro_messages import container, encoded

OWN = json.dumps({"type": "record", "name": "ChangeEvent", "namespace": "test", "fields": [
    {"name": "kopf", "type": ["null", {"type": "record", "name": "Kopf", "namespace": "test", "fields": [
        {"name": "was_getan", "type": "string"}, {"name": "laufende_nummer", "type": "long"},
        {"name": "objekt", "type": "string"}, {"name": "zeit", "type": ["null", "long"]}, {"name": "knoten", "type": "string"},
    ]}]},
    {"name": "typen", "type": {"type": "map", "values": "string"}},
    {"name": "neu", "type": ["null", {"type": "array", "items": {"type": "map", "values": ["null", "string"]}}]},
    {"name": "alt", "type": ["null", {"type": "array", "items": {"type": "map", "values": ["null", "string"]}}]},
    {"name": "schluessel", "type": {"type": "array", "items": "string"}},
]}).encode()  # fmt: skip

ROLES = {
    "operation": "kopf.was_getan", "id": "kopf.laufende_nummer", "table": "kopf.objekt", "time": "kopf.zeit", "types": "typen",
    "before": "alt", "after": "neu", "key_names": "schluessel",
}  # fmt: skip

_MOST = 3


def settings(folder: Path) -> dict[str, Any]:
    """The settings of a subscription of such a topic."""
    file = folder / "own.avsc"
    file.write_bytes(OWN)
    return {"format": "drs-avro", "schema": str(file), "avro": ROLES}


def in_drs_avro(messages: Iterable[Message], seed: int) -> list[Message]:
    """Messages of DRS JSON as records: bare, behind Confluent's header, or up to three of one run in a container.

    What a task sends again it puts together otherwise.
    """
    chance = Random(seed)
    made: list[Message] = []
    ordered = sorted(messages, key=lambda one: (one.partition, one.offset))
    for _, lane in groupby(ordered, key=lambda one: one.partition):
        for offset, (last, value) in enumerate(_framed(list(lane), chance)):
            made.append(replace(last, offset=offset, value=value))
    return made


def _framed(lane: list[Message], chance: Random) -> Iterator[tuple[Message, bytes]]:
    while lane:
        frame = chance.choice(["raw", "confluent", "container"])
        count = chance.randint(1, _MOST) if frame == "container" else 1
        bodies = [json.loads(one.value or b"") for one in lane[:count]]
        together = 1
        while together < count and together < len(bodies) and bodies[together]["id"] >= bodies[together - 1]["id"]:
            together += 1
        some = lane[:together]
        del lane[:together]
        records = [_record(body) for body in bodies[:together]]
        if frame == "container":
            yield some[-1], container(OWN, records, codec="deflate")
        else:
            yield some[-1], (b"\0\0\0\0\x09" if frame == "confluent" else b"") + encoded(OWN, records[0])


def _record(body: Mapping[str, Any]) -> dict[str, Any]:
    head = {"was_getan": body["type"].lower(), "laufende_nummer": body["id"], "zeit": body["es"], "knoten": "k1",
            "objekt": f"{body['database']}.{body['table']}"}  # fmt: skip
    return {"kopf": {"Kopf": head}, "typen": body["mysqlType"], "neu": body["data"], "alt": body["old"],
            "schluessel": body["pkNames"]}  # fmt: skip
