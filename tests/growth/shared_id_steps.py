"""Steps over messages with ids that stand in several Kafka partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.planning.appends import Appends
from dts_assets.planning.parts_elsewhere import PartsElsewhere
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.copies_elsewhere import CellEntries, copies_elsewhere, listed_copies
from dts_assets.stages.message_contents import Contents
from dts_assets.stages.reassembly import SETS
from dts_assets.stages.redelivered_entries import KEY_COLUMNS
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.format import ENTRIES
from tests.growth.ledgers import cuts, marks
from tests.growth.long_histories import Case

_NAMES = (*KEY_COLUMNS, "payload")
_SCHEMA = pa.schema([next(one.field(name) for one in (SETS, ENTRIES) if name in one.names) for name in _NAMES])


def _entries(count: int) -> pa.RecordBatch:
    rows = []
    for number in range(count):
        body = {"type": "INSERT", "pkNames": ["id"], "data": [{"id": str(number)}], "old": None, "id": number}
        fields = {"last_offset": number, "entry_number": 0, "message_type": "DML", "position": number, "rows": 1}
        rows.append(dict.fromkeys(_NAMES) | fields | {"payload": json.dumps(body).encode()})
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _copies(entries: pa.RecordBatch) -> object:
    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter([entries.select(names)])

    cells = [CellEntries(place % 2, place > 1, {}, read) for place in range(4)]
    found = copies_elsewhere(cells, DrsJsonC())
    assert len(found[2].keys) == entries.num_rows
    return listed_copies(found[2], read(KEY_COLUMNS), {})


def _two_partitions(count: int) -> list[IngestWindow]:
    """Windows of two Kafka partitions, each of which goes on a little behind the begin of the next window of the other one."""
    rows = list(marks(count, gtid=False).values())
    last = [
        replace(row.runs[0], last=replace(row.runs[0].last, position=row.runs[0].last.position + 9)) for row in rows
    ]
    return [
        *(replace(row, runs=(run,)) for row, run in zip(rows, last, strict=True)),
        *(replace(row, kafka_partition=1) for row in rows),
    ]


def _windows(rows: list[IngestWindow]) -> object:
    history = TopicHistory.of(rows, [], order=ChangeOrder.MESSAGE_ID)
    assert len(history.shared) == len(rows) // 2 - 1
    return [history.inputs(row.window, [0, 1]) for row in rows]


def _within(rows: list[IngestWindow]) -> object:
    elsewhere = PartsElsewhere(rows)
    spans = [(row.runs[0].first.position, row.runs[0].last.position, row.window.start) for row in rows]
    found = [elsewhere.within(0, first, last, since=start, until=start) for first, last, start in spans]
    assert not elsewhere.leaves_out(0, 0, 1 << 40)
    return found


def _contents(count: int) -> Contents:
    numbers = np.arange(count)
    return Contents(numbers, numbers // 2, numbers % 7, numbers % 100)


SHARED_ID_STEPS: dict[str, Case] = {
    "messages in several Kafka partitions": (_entries, _copies),
    "windows that share ids": (_two_partitions, _windows),
    "runs of ids in another Kafka partition": (_two_partitions, _within),
    "contents with a time among others": (_contents, lambda contents: contents.told_by(contents)),
    "contents of some messages": (_contents, lambda contents: contents.taken(contents.ids % 3 == 0)),
    "contents with an earlier time among others": (_contents, lambda contents: contents.later_than(contents)),
    "windows that are compared and not appended to": (
        lambda count: Appends(cuts(count)),
        lambda appends: appends.comparing(list(appends.marks)[::2]).made_by,
    ),
}
