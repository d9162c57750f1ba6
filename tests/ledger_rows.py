"""Ledger rows with the fields that a test is about; all others are empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dts_assets.model.delivery import NOTHING_DELIVERED, CellDelivery
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, QuarantineRow, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem
from dts_assets.model.refreshes import Refresh
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from dts_assets.store.rows import to_arrow
from dts_assets.store.schemas import QUARANTINE

NO_OFFSETS = OffsetRange(0, 0)


def raw_row(
    cell: Cell,
    offsets: OffsetRange = NO_OFFSETS,
    closed_by: ClosedBy = ClosedBy.MESSAGE,
    *,
    generation: str = "g",
    problems: tuple[Problem, ...] = (),
    refreshes: tuple[Refresh, ...] = (),
    code_version: str = CODE_VERSION,
) -> RawWindow:
    return RawWindow(
        cell.kafka_partition, cell.window, 0, offsets, closed_by, len(offsets), 0, None, None, problems, generation,
        code_version, refreshes,
    )  # fmt: skip


def ingest_row(
    cell: Cell,
    offsets: OffsetRange = NO_OFFSETS,
    closed_by: ClosedBy = ClosedBy.MESSAGE,
    *,
    epoch: int = 0,
    generation: str = "g",
    inputs: Iterable[str] = (),
    counts: Counts | None = None,
    problems: tuple[Problem, ...] = (),
    runs: tuple[Run, ...] = (),
    checkpoints: tuple[SeenCheckpoint, ...] = (),
    statements: tuple[SeenStatement, ...] = (),
    delivery: CellDelivery = NOTHING_DELIVERED,
    refreshes: tuple[Refresh, ...] = (),
    resume: bytes | None = None,
    code_version: str = CODE_VERSION,
) -> IngestWindow:
    return IngestWindow(
        cell.kafka_partition, cell.window, epoch, offsets, counts or Counts(), None, None, (), closed_by,
        Completeness.OBSERVED, problems, code_version, generation, tuple(inputs), refreshes, resume, runs=runs,
        checkpoints=checkpoints, statements=statements, delivery=delivery,
    )  # fmt: skip


def cut_row(
    window: Window,
    cut: SourcePosition | None = None,
    consistency: Consistency = Consistency.CUT,
    *,
    generation: str = "g",
    inputs: Iterable[str] = (),
    ends: tuple[int, ...] = (),
    made_by: tuple[str, ...] = (),
    chain: str = "",
    open_in: tuple[int, ...] = (),
    code_version: str = CODE_VERSION,
) -> Cut:
    return Cut(
        window, cut, None, consistency, Completeness.OBSERVED, (), generation, tuple(inputs), code_version, ends, made_by,
        chain, open_in,
    )  # fmt: skip


def quarantine(
    lake: Lake, cells: Iterable[Cell], stage: str, rows: Sequence[QuarantineRow], *, subscription: str = "shop"
) -> None:
    """Make ``rows`` all that a stage has in quarantine from a rectangle of cells, as a run does."""
    cells, path = list(cells), (subscription, "quarantine")
    lake.ensure(path, QUARANTINE)
    target = lake.target(path, "run")
    with TableWriter(target) as writer:
        for batch in to_arrow(rows, target.arrow_schema).to_batches():
            writer.write(batch)
        rectangle: Rectangle = {
            "kafka_partition": {cell.kafka_partition for cell in cells},
            "window_start": {cell.window.start for cell in cells},
            "stage": {stage},
        }
        lake.replace(path, rectangle, writer.close())
