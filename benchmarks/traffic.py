"""Made-up DTS Protobuf traffic for benchmarks: tables as shops have them, transactions, and values drawn anew each time."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dts_assets.protocol import subscribe_pb2 as pb

_SET_BYTES = 256 << 10
_NEW_YEAR = datetime(2026, 1, 1)
_FIRST_SECOND = 1_767_225_600  # the same, in UTC
_STATES = (b"new", b"paid", b"packed", b"sent", b"returned")
_OPERATIONS = (pb.INSERT, pb.UPDATE, pb.DELETE)
_SHARES = (30, 50, 20)  # per cent: inserts, updates, deletes
_NULLS = 0.1  # of the nullable columns


class _Random(random.Random):
    """Random values of the kinds that columns hold."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._letters = "".join(self.choices(string.ascii_letters + string.digits + "    ,.-äöü漢字", k=1 << 20))

    def text(self, low: int, high: int) -> bytes:
        start = self.whole(0, len(self._letters) - high - 1)
        return self._letters[start : start + self.whole(low, high)].encode()

    def whole(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))  # four times as quick as randint, and no less even here

    def moment(self) -> datetime:
        return _NEW_YEAR + timedelta(seconds=self.random() * 20_000_000)


Draw = Callable[[_Random], tuple[int, str, bytes, str]]
"""A value: data type, sv, bv, charset."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of column: its type text, whether it may be NULL, and how values are drawn."""

    original_type: str
    nullable: bool
    draw: Draw


def _text(original_type: str, low: int, high: int, *, nullable: bool = True) -> Kind:
    return Kind(original_type, nullable, lambda draw: (pb.STRING, "", draw.text(low, high), "utf8mb4"))


def _number(original_type: str, data_type: int, low: int, high: int, *, nullable: bool = True) -> Kind:
    return Kind(original_type, nullable, lambda draw: (data_type, str(draw.whole(low, high)), b"", ""))


def _time(original_type: str, layout: str) -> Kind:
    return Kind(original_type, True, lambda draw: (pb.STRING, "", draw.moment().strftime(layout).encode(), "utf8mb4"))


NARROW: tuple[Kind, ...] = (
    _number("int(11)", pb.INT32, 1, 10_000_000, nullable=False),
    _number("int(11)", pb.INT32, 1, 10_000_000, nullable=False),
    _text("char(120)", 119, 119, nullable=False),
    _text("char(60)", 59, 59, nullable=False),
    _time("timestamp", "%Y-%m-%d %H:%M:%S +00:00"),
)
"""Five columns, much like sysbench's table."""

WIDE: tuple[Kind, ...] = (
    _number("bigint(20)", pb.INT64, 1, 1 << 50, nullable=False),
    _number("bigint(20) unsigned", pb.UINT64, 0, (1 << 63) + (1 << 62)),
    _number("int(10) unsigned", pb.UINT32, 0, (1 << 32) - 1),
    _number("int(11)", pb.INT32, -(1 << 31), (1 << 31) - 1),
    _number("int(11)", pb.INT32, 0, 5000),
    _number("smallint(6)", pb.INT16, -32768, 32767),
    _number("tinyint(4)", pb.INT8, -128, 127),
    _number("tinyint(1)", pb.INT8, 0, 1),
    _number("year(4)", pb.INT64, 1970, 2026),
    _number("bit(8)", pb.INT64, 0, 255),
    Kind("decimal(10,2)", True, lambda draw: (pb.DECIMAL, f"{draw.whole(-(10**9), 10**9) / 100:.2f}", b"", "")),
    Kind("decimal(18,4)", True, lambda draw: (pb.DECIMAL, f"{draw.whole(0, 10**15) / 10000:.4f}", b"", "")),
    Kind("decimal(10,2)", True, lambda draw: (pb.DECIMAL, f"{draw.whole(0, 10**7) / 100:.2f}", b"", "")),
    Kind("double", True, lambda draw: (pb.FLOAT64, repr(draw.gauss(0, 1e5)), b"", "")),
    Kind("double", True, lambda draw: (pb.FLOAT64, f"{draw.gauss(0, 1e9):e}", b"", "")),
    Kind("float", True, lambda draw: (pb.FLOAT32, f"{draw.gauss(0, 100):.5g}", b"", "")),
    _time("date", "%Y-%m-%d"),
    _time("date", "%Y-%m-%d"),
    _time("datetime", "%Y-%m-%d %H:%M:%S"),
    _time("datetime(6)", "%Y-%m-%d %H:%M:%S.%f"),
    _time("timestamp", "%Y-%m-%d %H:%M:%S +00:00"),
    _time("timestamp", "%Y-%m-%d %H:%M:%S +00:00"),
    _time("time", "%H:%M:%S"),
    _text("varchar(32)", 4, 32),
    _text("varchar(64)", 8, 40),
    _text("varchar(255)", 10, 120),
    _text("text", 20, 300),
    Kind(
        "enum('new','paid','packed','sent','returned')",
        True,
        lambda draw: (pb.STRING, "", draw.choice(_STATES), "utf8mb4"),
    ),
    Kind(
        "json", True, lambda draw: (pb.BYTES, "", json.dumps({"id": draw.randrange(10**9), "tag": [1, 2]}).encode(), "")
    ),
    Kind("varbinary(64)", True, lambda draw: (pb.BYTES, "", draw.randbytes(draw.randint(8, 64)), "")),
)
"""Thirty columns of the types that MySQL tables use."""


@dataclass(frozen=True, slots=True)
class Table:
    """A made-up table; its first column is the key."""

    database: str
    name: str
    kinds: tuple[Kind, ...]

    def columns(self) -> list[pb.Column]:
        """The columns as an event describes them."""
        return [
            pb.Column(name=f"{_word(kind.original_type)}_{number}", originalType=kind.original_type, isKey=number == 0)
            for number, kind in enumerate(self.kinds)
        ]


def tables(count: int, columns: int, *, seed: int) -> list[Table]:
    """``count`` tables. Five columns are the narrow kind, others a draw from the wide one of about ``columns`` columns."""
    draw = _Random(seed)
    made = []
    for number in range(count):
        width = columns if count <= 2 else draw.randint(max(2, columns // 2), columns * 3 // 2)
        kinds = NARROW if columns == len(NARROW) else (WIDE[0], *draw.sample(WIDE[1:], min(width, len(WIDE)) - 1))
        made.append(Table("shopdb", f"table_{number:04}", kinds))
    return made


def entry_sets(of: Sequence[Table], *, rows: int, size: int, seed: int) -> list[bytes]:
    """Serialized entry sets of about ``size`` bytes in all: transactions of up to five events with ``rows`` rows each."""
    draw = _Random(seed)
    described = [table.columns() for table in of]
    sets, total, position, entries, filled = [], 0, 4, pb.Entries(), 0
    while total < size:
        for entry in _transaction(draw, of, described, rows=rows, number=position):
            position += entry.ByteSize()
            filled += entry.ByteSize()
            entries.items.append(entry)
        if filled >= _SET_BYTES or total + filled >= size:
            sets.append(entries.SerializeToString())
            total += filled
            entries, filled = pb.Entries(), 0
    return sets


def _transaction(
    draw: _Random, of: Sequence[Table], described: Sequence[list[pb.Column]], *, rows: int, number: int
) -> list[pb.Entry]:
    def entry(message_type: int, **names: Any) -> pb.Entry:
        made = pb.Entry()
        made.header.MergeFrom(
            pb.Header(
                version=1, sourceType=pb.MYSQL, messageType=message_type, timestamp=_FIRST_SECOND + number // 100_000,  # type: ignore[arg-type]
                serverId=1, fileName="mysql-bin.000005", position=number, gtid=f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}",
                seqId=number, isLast=True, **names,
            )
        )  # fmt: skip
        return made

    begin, commit = entry(pb.BEGIN), entry(pb.COMMIT)
    begin.event.beginEvent.transactionId = commit.event.commitEvent.transactionId = str(number)
    begin.event.beginEvent.threadId = 17
    events = []
    for _ in range(draw.randint(1, 5)):
        which = draw.randrange(len(of))
        table = of[which]
        event = entry(pb.DML, schemaName=table.database, tableName=table.name)
        dml = event.event.dmlEvent
        dml.dmlEventType = draw.choices(_OPERATIONS, _SHARES)[0]
        dml.columns.extend(described[which])
        for _ in range(rows):
            row = dml.rows.add()
            if dml.dmlEventType != pb.INSERT:
                row.oldColumns.extend(_value(draw, kind) for kind in table.kinds)
            if dml.dmlEventType != pb.DELETE:
                row.newColumns.extend(_value(draw, kind) for kind in table.kinds)
        events.append(event)
    return [begin, *events, commit]


def _value(draw: _Random, kind: Kind) -> pb.Data:
    if kind.nullable and draw.random() < _NULLS:
        return pb.Data()
    data_type, sv, bv, charset = kind.draw(draw)
    return pb.Data(dataType=data_type, sv=sv, bv=bv, charset=charset)  # type: ignore[arg-type]


def _word(original_type: str) -> str:
    return "".join(letter for letter in original_type.split("(")[0] if letter.isalnum())
