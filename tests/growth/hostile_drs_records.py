"""Streams of DRS Avro that somebody wrote to cost time: each of ``count`` things of one kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.growth.hostile_streams import Stream
from tests.wire.avro_messages import container, encoded
from tests.wire.scenarios import DATA

FLAT = (DATA / "drs-avro" / "flat.avsc").read_bytes()
NAMELESS = json.dumps({"type": "record", "name": "Record", "namespace": "test", "fields": [
    {"name": "id", "type": "long"}, {"name": "op", "type": "string"}, {"name": "db", "type": "string"},
    {"name": "table", "type": "string"}, {"name": "after", "type": {"type": "map", "values": "string"}},
    {"name": "before", "type": {"type": "array", "items": {
        "type": "record", "name": "Pair", "namespace": "test",
        "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": "string"}],
    }}},
]}).encode()  # fmt: skip


def _fields(place: int, **others: Any) -> Mapping[str, Any]:
    return {
        "mysqlType": {"id": "int"}, "id": place + 1, "es": 1_700_000_000_000, "database": "d", "table": "t", "type": "INSERT",
        "data": [{"id": str(place)}], "pkNames": ["id"],
    } | others  # fmt: skip


def _bare(place: int, **others: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    return encoded(FLAT, _fields(place, **others)), []


def _schema(place: int) -> bytes:
    read = json.loads(FLAT)
    read["doc"] = str(place)
    read["fields"].append({"name": f"more{place}", "type": "string"})
    return json.dumps(read).encode()


DRS_AVRO: dict[str, Callable[[int], Stream]] = {
    "rows": lambda count: [_bare(place) for place in range(count)],
    "rows of one message": lambda count: [_bare(7, data=[{"id": str(place)} for place in range(count)])],
    "rows told twice": lambda count: [_bare(place % (count // 2)) for place in range(count)],
    "tables": lambda count: [_bare(place, table=f"t{place}") for place in range(count)],
    "columns of one table": lambda count: [
        _bare(place, mysqlType={f"c{place}": "int"}, data=[{f"c{place}": "1"}], pkNames=[f"c{place}"])
        for place in range(count)
    ],
    "columns of one row": lambda count: [
        _bare(place, mysqlType={f"c{one}": "time" for one in range(count // 4)} | {"id": "int"},
              data=[{"id": "1"}, {f"c{one}": "1" for one in range(count // 4)}]) for place in range(2)
    ],
    "behind Confluent's header": lambda count: [(bytes(5) + _bare(place)[0], []) for place in range(count)],
    "containers": lambda count: [(container(FLAT, [_fields(place)], codec="deflate"), []) for place in range(count)],
    "records of one container": lambda count: [(container(FLAT, [_fields(place) for place in range(count)]), [])],
    "containers with schemas of their own": lambda count: [
        (container(_schema(place), [_fields(place)]), []) for place in range(count // 8)
    ],
    "containers that end too early": lambda count: [(container(FLAT, [_fields(place)])[:-9], []) for place in range(count)],
    "messages that are no records": lambda count: [(_bare(1)[0][:40], [])] * count,
    "zeros": lambda count: [(bytes(40), [])] * count,
    "records that cannot be used": lambda count: [_bare(place, type="UPSERT") for place in range(count)],
}  # fmt: skip


def _nameless(place: int, **others: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    made = {"id": place + 1, "op": "UPDATE", "db": "d", "table": "t", "after": {"id": "1"}, "before": []}
    return encoded(NAMELESS, made | others), []


DRS_AVRO_NAMELESS: dict[str, Callable[[int], Stream]] = {
    "names of columns": lambda count: [_nameless(place, after={f"c{place}": "1"}) for place in range(count)],
    "names of one row": lambda count: [
        _nameless(place, after={f"c{one}": "1" for one in range(count // 4)}) for place in range(2)
    ],
    "names and values": lambda count: [
        _nameless(place, before=[{"name": f"c{place % 9}", "value": "1"}, {"name": "id", "value": "1"}])
        for place in range(count)
    ],
}
