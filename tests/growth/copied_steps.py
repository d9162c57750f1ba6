"""Steps over rows that were copied beside the stream, over many copies, and over columns of a source."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from dts_assets.model.column_rules import ColumnRule, RuleKind, table_rules
from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import passed_now, rules_left
from dts_assets.planning.copied_tables import (
    Copies,
    copied_meanwhile,
    copies_in_force,
    copies_inputs,
    taken_by,
    windows_of_copies,
)
from dts_assets.planning.task_shares import by_size
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.copied_entries import CopiedPart, without_kafka
from dts_assets.stages.copied_rules import CopyRules, FilterOfCopy
from dts_assets.stages.copied_texts import as_copied, as_dumped, copy_query, row_fields
from dts_assets.stages.mysql_sql import MySql
from dts_assets.stages.postgres_sql import PostgreSql
from dts_assets.store.stored_files import StoredFile
from dts_assets.wire.copied_rows import CopiedRows
from tests.growth.long_histories import Case

START = datetime(2026, 1, 5, tzinfo=UTC)
TABLE = TableId("shopdb", "", "orders")
HASHED = ColumnRule(RuleKind.HASH, key=b"a key that nobody guesses")
SHAPES = (ColumnShape("id", "int(11)", True), ColumnShape("note", "varchar(20)", False))


def _copies(count: int) -> list[CopiedTable]:
    """Copies of as many tables as there are windows, each behind the one before."""
    return [
        CopiedTable(
            f"{number:08}", TableId("shopdb", "", f"t{number}"), CopyKind.BOOTSTRAP, CopyState.COPIED, "a test", SHAPES,
            (_chunk(number),), START + timedelta(seconds=number),
        )
        for number in range(count)
    ]  # fmt: skip


def _chunk(number: int) -> CopiedChunk:
    return CopiedChunk(0, None, None, SourcePosition(0, 1, number), SourcePosition(0, 1, number + 5), 1, START)


def _taken(copies: list[CopiedTable]) -> None:
    windows = {START + timedelta(hours=number): SourcePosition(0, 1, 2 * number) for number in range(len(copies))}
    found = windows_of_copies(copies, windows, windows.__getitem__)
    none: dict[datetime, list[IngestWindow]] = {start: [] for start in windows}
    assert Copies(tuple(copies)).by_window(none, windows.__getitem__) == found
    copied_meanwhile(copies, Frontier(START, None, SourcePosition(0, 1, len(copies))))
    taken_by(copies, found)
    copies_in_force([*copies, *copies])
    copies_inputs(copies)


def _rows(count: int) -> pa.RecordBatch:
    numbers = np.arange(count)
    texts = pa.array(numbers).cast(pa.string())
    row = pa.StructArray.from_arrays([texts, texts], names=["id", "note"])
    return pa.RecordBatch.from_pydict(
        {
            "copy": pa.repeat("00000000", count),
            "chunk": pa.array(np.zeros(count, np.int32)),
            "row_number": pa.array(numbers.astype(np.int32)),
            "read_at": pa.repeat(pa.scalar(START, pa.timestamp("us", tz="UTC")), count),
            "removed": pa.array(numbers % 2 == 0),
            "row": row,
        }
    )


def _decoded(rows: pa.RecordBatch) -> None:
    part, columns = CopiedPart(_copies(1)[0], START), (Column("id", "int", True), Column("note", "string", False))
    for entry in part.entries([rows]):
        for changes in CopiedRows("+08:00").changes(entry, {TableId("shopdb", "", "t0"): columns}).tables:
            count = changes.batch.num_rows
            names = {name: pa.nulls(count, pa.int64()) for name in ("kafka_partition", "kafka_offset")}
            without_kafka(pa.RecordBatch.from_pydict(names))


def _ruled(rows: pa.RecordBatch) -> None:
    """Rows of a chunk under a rule on a column and a row filter, as they are written."""
    columns = (Column("id", "int", True), Column("note", "string", False))
    filtered = FilterOfCopy(TABLE, TABLE, columns[:1], filter_of("id >= 7"), "+08:00")
    rules = CopyRules({"note": HASHED}, frozenset(), filtered)
    texts = pa.RecordBatch.from_arrays(rows["row"].flatten(), names=["id", "note"])
    assert rules.applied(texts, SHAPES).num_rows == max(0, rows.num_rows - 7)


def _left(columns: list[ColumnShape]) -> None:
    """The rules of a copy with many columns, all of which it has passed."""
    stored = tuple(Column(one.name, "binary", one.is_key) for one in columns)
    rules = table_rules(stored, lambda _: HASHED, None)
    passed = passed_now(stored, [one.name for one in columns], lambda _: HASHED)
    copied = replace(_copies(1)[0], columns=tuple(columns), passed=passed)
    assert not rules_left(rules, stored, lambda _: HASHED, None, copied).any


def _columns(count: int) -> list[ColumnShape]:
    return [ColumnShape(f"c{number}", "varbinary(9)", number == 0) for number in range(count)]


def _asked(columns: list[ColumnShape]) -> None:
    copy_query("`shopdb`.`orders`", columns, key="c0", tells_position=True)
    row_fields(pa.struct([(one.name, pa.string()) for one in columns]), columns)
    names = [one.name for one in columns]
    for dialect in (MySql(), PostgreSql()):
        dialect.put("orders", names, names[:1])


def _texts(count: int) -> pa.Array:
    return pa.array([f"0x{number % 256:02x}" for number in range(count)])


def _bytes(texts: pa.Array) -> None:
    as_copied(texts, "binary")
    as_dumped([one.as_py().encode() for one in texts], ColumnShape("b", "bit(8)", False))


COPIED_STEPS: dict[str, Case] = {
    "copies of many tables": (_copies, _taken),
    "rows of a chunk": (_rows, _decoded),
    "columns of a copied table": (_columns, _asked),
    "rows of a chunk under rules": (_rows, _ruled),
    "rules of a copied table": (_columns, _left),
    "bytes of files": (_texts, _bytes),
    "files of a copied table": (
        lambda count: [StoredFile(f"f{number}", {}, 1, number) for number in range(count)],
        lambda files: by_size(files, 1000),
    ),
}
