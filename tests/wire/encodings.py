"""One workload in every encoding: the messages of the emulator's tasks, decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.tables import TableId
from dts_assets.settings.formats import traits_of
from dts_assets.wire.format import DecodedEntries, Rejected, WireFormat
from dts_assets.wire.formats import wire_format
from dts_emulator.source.events import (
    ABSENT,
    Begin,
    Commit,
    Coordinates,
    Ddl,
    Kind,
    RowChange,
    Rows,
    SourceColumn,
    SourceTable,
    Transaction,
    Value,
)
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.wire.made import messages

T0 = 1_767_571_200  # 2026-01-05T00:00:00Z
TABLE = TableId("shop", "", "t")


@dataclass(frozen=True, slots=True)
class Probe:
    """A column and a value of it."""

    kind: Kind
    column_type: str
    value: Value
    charset: str | None = None
    is_unsigned: bool = False


PROBES: Mapping[str, Probe] = {
    "id": Probe(Kind.INT32, "int(11)", 7),
    "signed": Probe(Kind.INT32, "int(11)", -5),
    "unsigned": Probe(Kind.INT32, "int(10) unsigned", 4_294_967_295, is_unsigned=True),
    "huge": Probe(Kind.INT64, "bigint(20) unsigned", 18_446_744_073_709_551_615, is_unsigned=True),
    "price": Probe(Kind.DECIMAL, "decimal(12,2)", "-1234567890.10"),
    "clock": Probe(Kind.PLAIN, "datetime(6)", "2026-01-05 08:00:00.123456"),
    "instant": Probe(Kind.INSTANT, "timestamp(6)", f"{T0}.123456"),
    "far": Probe(Kind.PLAIN, "time", "-838:59:59"),
    "zero": Probe(Kind.PLAIN, "date", "0000-00-00"),
    "year": Probe(Kind.YEAR, "year(4)", 2026),
    "double": Probe(Kind.FLOAT64, "double", 0.1 + 0.2),
    "single": Probe(Kind.FLOAT32, "float", 16777216.0),
    "bits": Probe(Kind.BIT, "bit(8)", 200),
    "gbk": Probe(Kind.TEXT, "varchar(40)", "李雷 <a href='x'>&=".encode("gbk"), "gbk"),
    "empty": Probe(Kind.TEXT, "varchar(40)", b"", "utf8mb4"),
    "nothing": Probe(Kind.TEXT, "varchar(40)", None, "utf8mb4"),
    "label": Probe(Kind.TEXT, "enum('new','old')", b"old", "utf8mb4"),
    "labels": Probe(Kind.TEXT, "set('a','b','c')", b"a,c", "utf8mb4"),
    "blob": Probe(Kind.BLOB, "blob", bytes(range(256))),
    "document": Probe(Kind.JSON, "json", b'{"a": "b\\n"}', "utf8mb4"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What an encoding tells of the workload: entries, the type of each column, and the changes."""

    wire: WireFormat
    decoded: DecodedEntries
    types: Mapping[str, str]
    changes: Sequence[Mapping[str, Any]]
    refused: Sequence[Rejected]
    numbered: bool
    """Whether every message has a number of its own, that of its header ``ps``."""

    @property
    def entries(self) -> Sequence[Mapping[str, Any]]:
        """The entries as rows."""
        found: list[dict[str, Any]] = self.decoded.batch.to_pylist()
        return found


def source_table() -> SourceTable:
    """The table with a column for each probe; ``id`` is its key."""
    columns = [
        SourceColumn(name, one.kind, one.column_type, one.charset, one.is_unsigned, name == "id")
        for name, one in PROBES.items()
    ]
    return SourceTable("shop", "t", tuple(columns))


def workload() -> list[Transaction]:
    """Two rows in one event, an update with a minimal image, a delete, and a statement."""
    table, row = source_table(), tuple(one.value for one in PROBES.values())
    second = (8, *row[1:])
    minimal = RowChange((7, *[ABSENT] * (len(row) - 1)), tuple([ABSENT, 5, *[ABSENT] * (len(row) - 2)]))
    events = [(RowChange(None, row), RowChange(None, second)), (minimal,), (RowChange(second, None),)]
    found = []
    for number, rows in enumerate(events):
        at = Coordinates(
            "mysql-bin.000004", 1000 * number + 100, 1000 * number + 200, T0 + number, 9, Gtid(0, 1, number + 1)
        )
        found.append(Transaction((Begin(at), Rows(at, table, rows), Commit(at, f"x{number}"))))
    at = Coordinates("mysql-bin.000004", 9000, 9100, T0 + 9, 9, Gtid(0, 1, 9))
    return [*found, Transaction((Ddl(at, "shop", "ALTER TABLE t ADD note TEXT", 0),))]


WHOLE_IMAGES = ("canal-json", "dts-json")
"""The formats that refuse a minimal image, which has no key in them, or nulls for what was not sent."""


@cache
def told(format_name: str, *, zone: str = "+00:00") -> Told:
    """What a format tells of the workload, read with a zone for instants that carry none."""
    vendor = VENDOR_TASKS[format_name]
    sent = list(vendor.recording(workload(), vendor.options(), T0 + 60))
    schema = vendor.schema() if vendor.schema is not None and traits_of(format_name).needs_schema else None
    wire = wire_format(format_name, FormatSettings(source_time_zone=zone, schema=schema))
    batch = messages(*[one.value for one in sent], headers=[list(one.headers) for one in sent])
    fragments = wire.fragments(batch)
    assert not any(fragments["reason"].to_pylist())
    decoded = wire.entries(fragments["data"])
    (shape,) = dict.fromkeys(shape for shape in decoded.shapes if shape.table == TABLE)
    types = {
        one.name: wire.column_type(one.original_type, unsigned=PROBES[one.name].is_unsigned, table=shape.table)
        for one in shape.columns
    }
    columns = tuple(Column(name, kind, name == "id") for name, kind in types.items())
    changed = wire.changes(decoded.batch.filter(pc.equal(decoded.batch["message_type"], "DML")), {TABLE: columns})
    refused = (*decoded.rejected, *changed.rejected)
    assert len(refused) == (1 if format_name in WHOLE_IMAGES else 0)
    (found,) = changed.tables
    return Told(wire, decoded, types, found.batch.to_pylist(), refused, fragments["sequence"].null_count == 0)
