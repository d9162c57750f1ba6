"""The speed from DTS Protobuf to typed columns, compared with protobuf's parser and a Python loop.

``python -m benchmarks.decode`` prints a table and, as its last line, one JSON object. What is timed, in processor time of one
thread, decoder and loop in turns on the same bytes, the least of several turns each:

- ``ratios``: from the bytes of entry sets to the table of entries (coordinates, counts, own bytes) and to the typed row changes
  of every table. Ours is ``entries()`` and then ``changes()``, which reads the entries' bytes again, as the product does in two
  steps; the loop makes both in one pass over messages that it parses once. Both make equal Arrow tables: this is checked first.
- ``rows`` in the figures: from the bytes of entries to the typed row changes alone: ``changes()`` and the loop's part of it.

A case ``2t-30c-20r`` has 2 tables of 30 columns and 20 rows per event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import plain_loop, traffic
from benchmarks.columns import FAT
from benchmarks.command import Options, finish, least_in_turns
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_decoder import CHUNK_BYTES, MANY_TABLES, MANY_TABLES_CHUNK_BYTES
from dts_assets.wire.dts_protobuf import DtsProtobuf, Engine
from dts_assets.wire.dts_protobuf.protobuf_parser import BEST_ENGINE


@dataclass(frozen=True, slots=True)
class Case:
    """Traffic of some shape; one call decodes as many bytes as the product does."""

    tables: int
    columns: int
    rows: int

    @property
    def name(self) -> str:
        """Such as ``1t-5c-20r``, and ``1t-fat-5r`` for columns of 10 KB."""
        columns = "fat" if self.columns == len(FAT) else f"{self.columns}c"
        return f"{self.tables}t-{columns}-{self.rows}r"

    @property
    def size(self) -> int:
        """Bytes of payload in one call."""
        return CHUNK_BYTES if self.tables <= MANY_TABLES else MANY_TABLES_CHUNK_BYTES


CASES = (
    *(Case(1, columns, rows) for columns in (5, 30) for rows in (1, 20, 500)),
    *(Case(2, 30, rows) for rows in (1, 20, 500)),
    *(Case(50, 15, rows) for rows in (1, 20)),
    *(Case(1000, 15, rows) for rows in (1, 20)),
    Case(1, len(FAT), 5),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Least seconds of processor time per way, and how much was decoded."""

    case: Case
    megabytes: float
    changes: int
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """The loop's time by ours, entry sets to entries and typed tables."""
        return self.seconds["loop"] / self.seconds["ours"]

    @property
    def rows_ratio(self) -> float:
        """The loop's time by ours, entries to typed tables."""
        return self.seconds["loop_rows"] / self.seconds["our_rows"]


def measure(case: Case, *, turns: int, seed: int, engine: Engine = BEST_ENGINE, size: int | None = None) -> Measured:
    """Check that both ways agree on fresh traffic, then time them in turns."""
    made = traffic.tables(case.tables, case.columns, seed=seed)
    array = traffic.entry_sets(made, rows=case.rows, size=size or case.size, seed=seed + 1)
    wire, sets = DtsProtobuf(engine), array.to_pylist()
    decoded = wire.entries(array)
    asked: dict[TableId, tuple[Column, ...]] = {
        shape.table: tuple(
            Column(one.name, wire.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key)
            for one in shape.columns
        )
        for shape in decoded.shapes
    }
    dml = decoded.batch.filter(pc.equal(decoded.batch["message_type"], "DML"))
    payloads = dml["payload"].to_pylist()

    def ours() -> Any:
        entries = wire.entries(array)
        return entries, wire.changes(entries.batch, asked)

    ways: dict[str, Callable[[], Any]] = {
        "loop": lambda: plain_loop.decode(sets, asked),
        "ours": ours,
        "loop_rows": lambda: plain_loop.changes(payloads, asked),
        "our_rows": lambda: wire.changes(dml, asked),
    }
    _compare(case, *ways["ours"](), *ways["loop"]())
    return Measured(case, sum(map(len, sets)) / 1e6, int(pc.sum(dml["rows"]).as_py()), least_in_turns(ways, turns))


def _compare(
    case: Case, entries: Any, changes: Any, loop_entries: pa.RecordBatch, loop_tables: Mapping[TableId, pa.RecordBatch]
) -> None:
    mine = {one.table: one.batch for one in changes.tables}
    same = entries.batch.equals(loop_entries) and mine.keys() == loop_tables.keys()
    if (
        not same
        or entries.rejected
        or changes.rejected
        or any(not mine[name].equals(loop_tables[name]) for name in mine)
    ):
        raise SystemExit(f"{case.name}: the decoder and the plain loop made different tables")


def _line(measured: Measured) -> str:
    speeds = {name: measured.megabytes / seconds for name, seconds in measured.seconds.items()}
    return (
        f"{measured.case.name:>12} {measured.megabytes:6.1f} {measured.changes:8,} "
        f"{speeds['loop']:9.0f} {speeds['ours']:9.0f} {measured.ratio:7.1f}x "
        f"{speeds['loop_rows']:9.0f} {speeds['our_rows']:9.0f} {measured.rows_ratio:7.1f}x"
    )


def report(measured: Sequence[Measured]) -> None:
    """Print the last line: ratios by case, and their figures in seconds of processor time."""
    figures = {
        one.case.name: {
            "megabytes": round(one.megabytes, 2),
            "changes": one.changes,
            "seconds": {name: round(seconds, 4) for name, seconds in one.seconds.items()},
            "rows_ratio": round(one.rows_ratio, 2),
        }
        for one in measured
    }
    finish("decode", {one.case.name: round(one.ratio, 2) for one in measured}, figures)


def main() -> int:
    """Run the command."""
    options = Options("decode", __doc__)
    options.add_cases(case.name for case in CASES)
    options.add_turns(5)
    options.add_seed()
    options.add_argument("--megabytes", type=int, help="decoded in one call (default: as many as the product decodes)")
    options.add_argument("--engine", choices=["ptars", "protobuf"], default=BEST_ENGINE, help="what parses")
    chosen = options.parse_args()
    print(
        f"decode: {chosen.engine}, seed {chosen.seed}; MB/s of payload, processor time of one thread, least of {chosen.turns}"
    )
    print(f"{'':29}{'entries and typed tables':>28} {'typed tables alone':>28}")
    print(
        f"{'case':>12} {'MB':>6} {'changes':>8} {'loop':>9} {'ours':>9} {'ratio':>8} {'loop':>9} {'ours':>9} {'ratio':>8}"
    )
    measured = []
    size = None if chosen.megabytes is None else chosen.megabytes << 20
    for case in CASES:
        if not chosen.case or case.name in chosen.case:
            measured.append(measure(case, turns=chosen.turns, seed=chosen.seed, engine=chosen.engine, size=size))
            print(_line(measured[-1]), flush=True)
    report(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
