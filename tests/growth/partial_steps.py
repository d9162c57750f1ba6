"""Images that lack a part of their table's key, among many lists of columns and many changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.partial_images import find_partial_images
from dts_assets.stages.partial_changes import without_partial
from dts_assets.wire.canal_json import CanalJson
from tests.growth.long_histories import Case

_START = datetime(2026, 1, 5, tzinfo=UTC)
_TABLE = TableId("d", "", "t")
_WHOLE = tuple(ColumnShape(name, "int", name == "id") for name in ("id", "a", "b"))


def _shapes(count: int) -> list[TableShapeRow]:
    """Whole lists and parts of them, window by window."""
    return [
        TableShapeRow(0, _START + timedelta(hours=n), _TABLE, _WHOLE[n % 2 :], ServerPosition(0, n), "7")
        for n in range(count)
    ]


def _find(shapes: list[TableShapeRow]) -> object:
    images = find_partial_images(shapes, {_TABLE: [SourcePosition(0, 0, len(shapes))]})
    return images.digest, [images.takes(one) for one in shapes]


def _entries(count: int) -> pa.RecordBatch:
    body = {
        "id": 1, "es": 1, "type": "UPDATE", "isDdl": False, "database": "d", "table": "t", "mysqlType": {"a": "int"},
        "data": [{"a": "2"}], "old": [{"a": "1"}],
    }  # fmt: skip
    entries = CanalJson().entries(pa.array([json.dumps(body).encode()] * count, pa.binary())).batch
    cells = {"kafka_partition": pa.array([0] * count), "window_start": pa.array([_START] * count)}
    for name, values in cells.items():
        entries = entries.append_column(name, values)
    return entries


def _without(entries: pa.RecordBatch) -> object:
    columns = tuple(Column(one.name, "int", one.is_key) for one in _WHOLE)
    decoded = CanalJson().changes(entries, {_TABLE: columns})
    ((digest,),) = decoded.tables[0].carried.distinct
    found = without_partial(decoded, entries, {(0, _START): {(_TABLE, digest): ("id",)}})
    assert not found.tables
    return found


PARTIAL_STEPS: dict[str, Case] = {
    "lists of columns that lack a part of the key": (_shapes, _find),
    "changes that lack a part of the key": (_entries, _without),
}
