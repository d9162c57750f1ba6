"""Ledgers of many windows, and lists of many things, as planning is given them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dts_assets.model.delivery import CellDelivery, Hole, ShardSequence, ShardTransactions, Transaction
from dts_assets.model.ledger_rows import Cut, IngestWindow, InvalidColumn, Lease, QuarantineRow, RawWindow, WindowTable
from dts_assets.model.message_ids import SeenKind, SeenTable
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Problem, ProblemCode, Reason
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement, ServerRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning.boundaries import Closing, PlannedCell
from dts_assets.planning.ingest_marks import Copied, CopiedPart
from dts_assets.planning.raw_reads import RawRead
from tests.ledger_rows import cut_row, ingest_row, raw_row

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TABLE = TableId("shopdb", "", "orders")
GRID = WindowGrid(MINUTE, START)
CLOSING = Closing(complete=False, grace=MINUTE, now=START)


def windows(count: int) -> list[Window]:
    return [GRID.at(number) for number in range(count)]


def cells(count: int) -> list[Cell]:
    return [Cell(0, window) for window in windows(count)]


def at(number: int, lineage: int = 0) -> SourcePosition:
    return SourcePosition(lineage, 5, number)


def raws(count: int, **facts: Any) -> dict[Cell, RawWindow]:
    return {cell: raw_row(cell, OffsetRange(9 * n, 9 * n + 9), **facts) for n, cell in enumerate(cells(count))}


def cuts(count: int) -> dict[datetime, Cut]:
    return {
        one.start: cut_row(one, at(9 * n), inputs=("a=1",), ends=(9,), made_by=("r",))
        for n, one in enumerate(windows(count))
    }


def run(number: int, *, falls: bool = False, gtid: bool = True, shard: str = "", servers: int = 1) -> Run:
    first = 10_000_000 - 9 * number if falls else 9 * number
    numbers = 2 * number + 1, 2 * number + 2
    witnesses = tuple((one, 5, first + 2 * place) for place, one in enumerate(numbers))
    names = [f"s{one}" if one else SERVER for one in range(servers)]
    of = [ServerRange(name, *numbers, at(first + 2), witnesses, in_last=numbers[1]) for name in names]
    time = START + number * MINUTE
    return Run(
        shard,
        9 * number,
        9 * number + 8,
        at(first),
        at(first + 8),
        time,
        time,
        1,
        f"{SERVER}:{2 * number + 1}" if gtid else None,
        begins=True,
        servers=tuple(of) if gtid else (),
        broken=falls,
        repeats=0,
    )


def delivered(number: int, *, shards: int = 1, holes: bool = False) -> CellDelivery:
    first = 9 * number + 1 + (number if holes else 0)
    names = [f"s{one}" if one else "" for one in range(shards)]
    numbers = f"{2 * number + 1}-{2 * number + 2}" if not holes else f"{3 * number + 1}"
    transaction = Transaction(f"{SERVER}:{2 * number + 2}", at(9 * number), 1, 9 * number)
    sequences = tuple(
        ShardSequence(one, first, 9 * number, first + 8, 9 * number + 8, first + 8, 0, 0, 1, (Hole(1, 2, 3),))
        for one in names
    )
    transactions = tuple(
        ShardTransactions(
            one, 2, 2, 3, transaction, (), 0, at(9 * number + 8), 9 * number + 8, f"{SERVER}:{numbers}", 0, False
        )
        for one in names
    )
    return CellDelivery(9 * number, 9 * number + 8, 9, 0, 0, (), sequences, transactions)


def marks(
    count: int, *, falls_every: int = 0, gtid: bool = True, statements: int = 0, **facts: Any
) -> dict[Cell, IngestWindow]:
    """The marks of entries of windows that follow each other; ``falls_every`` so many windows another binlog begins."""
    found = {}
    for number, cell in enumerate(cells(count)):
        falls = bool(falls_every) and number % falls_every == 0
        synced = SeenCheckpoint("", 9 * number + 8, at(9 * number + 8), f"{SERVER}:1-{2 * number + 2}", fake_gtid=False)
        said = [SeenStatement("", 9 * number, at(9 * number + one), None, START) for one in range(statements)]
        found[cell] = ingest_row(
            cell,
            OffsetRange(9 * number, 9 * number + 9),
            generation=f"g{number}",
            inputs=(f"raw:{cell}=g",),
            runs=(run(number, falls=falls, gtid=gtid),),
            checkpoints=(synced,),
            statements=tuple(said),
            delivery=delivered(number),
            **facts,
        )
    return found


def two_partitions(count: int) -> dict[Cell, IngestWindow]:
    """One Kafka partition that shows the begin of another binlog in its last window, and one that shows nothing of it."""
    found = marks(count, falls_every=0)
    last = replace(run(count - 1, falls=True), gtid="other:1", servers=(ServerRange("other", 1, 2),))
    object.__setattr__(found[Cell(0, windows(count)[-1])], "runs", (last,))
    for cell, row in marks(count).items():
        other = Cell(1, cell.window)
        found[other] = replace(row, kafka_partition=1)
    return found


def with_ids(count: int, *, tables: bool = False) -> dict[Cell, IngestWindow]:
    """The marks of windows whose messages carry ids that grow."""
    found = marks(count, gtid=False)
    for number, row in enumerate(found.values()):
        kinds = (SeenKind.READ, SeenKind.CHANGE)
        seen = SeenTable(
            "shopdb", "", f"t{number}" if tables else "t", kinds[number % 2], 9 * number, at(9 * number), START
        )
        object.__setattr__(row, "seen_tables", (seen,))
    return found


def counts(count: int, *, tables: int = 1) -> list[WindowTable]:
    return [
        WindowTable(
            0, window.start, TableId("shopdb", "", f"t{number % tables}"), 1, 1, 0, 0, row_hash=1, absent_rows=0,
            invalid_values=1, invalid_columns=(InvalidColumn("c", 1),),
            first_position=at(number),
            last_position=at(number), run="r",
        )
        for number, window in enumerate(windows(count))
    ]  # fmt: skip


def quarantined(count: int) -> list[QuarantineRow]:
    return [
        QuarantineRow(0, window.start, stage, 1, 2, Reason.RAGGED_ROW, "it is ragged")
        for window in windows(count)
        for stage in ("entries", "tables")
    ]


def leases(count: int) -> dict[str, Lease]:
    return {f"p{one}": Lease(f"p{one}", 1, f"1-r{one}", "me", START, 0, held=True) for one in range(count)}


def left_open(count: int) -> dict[Cell, IngestWindow]:
    rows = marks(count)
    for row in rows.values():
        object.__setattr__(row, "left_open", (OpenSet("", 3, (row.offsets.end - 1,)),))
        object.__setattr__(row, "counts", replace(row.counts, carried_out=1))
    return rows


def planned(count: int) -> tuple[list[Cell], list[RawWindow], dict[tuple[int, datetime], int | None]]:
    stored = list(raws(count).values())
    return cells(2 * count), stored, {(0, START + one * MINUTE): 9 * one for one in range(2 * count + 1)}


def read_in_parts(count: int) -> tuple[RawRead, Copied, list[Problem]]:
    parts = [OffsetRange(one, one + 1) for one in range(count)]
    plan = PlannedCell(cells(1)[0], OffsetRange(0, count), ClosedBy.MESSAGE, stored=False)
    gaps = [Problem(ProblemCode.GAP, one, one, "gone") for one in range(count)]
    return RawRead(plan, tuple(parts)), Copied(tuple(CopiedPart(one, 1, "d") for one in parts)), gaps
