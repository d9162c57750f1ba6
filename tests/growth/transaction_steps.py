"""Copies among changes that tell the time of their transaction."""

from __future__ import annotations

import json

import pyarrow as pa

from dts_assets.stages.reassembly import SETS
from dts_assets.stages.redelivered_entries import COPY_COLUMNS, copies_by_transaction
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.format import ENTRIES
from tests.growth.long_histories import Case

_SCHEMA = pa.schema([next(one.field(name) for one in (SETS, ENTRIES) if name in one.names) for name in COPY_COLUMNS])


def _entries(count: int, *, keys: bool = True, alike: bool = False) -> pa.RecordBatch:
    rows = []
    for number in range(count):
        row = {"id": "1" if alike else str(number)}
        body = {"type": "INSERT", "pkNames": ["id"] if keys else None, "data": [row], "old": None}
        rows.append(
            dict.fromkeys(COPY_COLUMNS)
            | {
                "last_offset": number,
                "entry_number": 0,
                "message_type": "DML",
                "position": 7 if alike else number // 3 + 1,
            }
            | {"database": "d", "table": "t", "rows": 1, "payload": json.dumps(body).encode()}
        )
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


TRANSACTION_STEPS: dict[str, Case] = {
    "changes of transactions that came before": (
        _entries,
        lambda entries: copies_by_transaction([entries], [[entries], [entries]], CanalJson()),
    ),
    "equal rows of one transaction without a key": (
        lambda count: _entries(count, keys=False, alike=True),
        lambda entries: copies_by_transaction([entries], [[entries]], CanalJson()),
    ),
}
