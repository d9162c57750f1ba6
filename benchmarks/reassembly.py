"""The speed from fragments to entry sets, compared with moving the bytes without joining them.

``python -m benchmarks.reassembly`` prints a table and, as its last line, one JSON object. Raw files lie in the lake as the
product writes them. Both ways read them batch by batch as an entries task does, in processor time of one thread, in turns, the
least of several turns each; there is no shuffle in either, a task owns an ordered range of offsets.

- transport: read the messages, hand every value on.
- joined: read the messages, open the envelopes, check their order and join the segments of split sets.

The ratio is the speed of joining by the speed of transport. Cases: ``whole`` (every message a set of its own), ``split`` (sets of
1 MB in messages of 200 KB), ``small`` (transactions of about 3 KB), ``giant`` (sets of 16 MB in messages of 512 KB, cut by row
groups and batches).
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import traffic
from benchmarks.command import Options, finish
from dts_assets.flows.ingest_tasks import MESSAGE_COLUMNS
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.stages.cell_decoder import CHUNK_BYTES
from dts_assets.stages.heads import Head, Outcome
from dts_assets.stages.partial_sets import Fragment
from dts_assets.stages.raw_rows import with_coordinates
from dts_assets.stages.reassembly import Reassembler
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, read_batches
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import RAW_ENVELOPES
from dts_assets.wire.dts_protobuf import DtsProtobuf


@dataclass(frozen=True, slots=True)
class Case:
    """Sets and messages of some size; ``rows`` per event."""

    name: str
    rows: int
    set_bytes: int
    message_bytes: int


CASES = (
    Case("whole", 20, 256 << 10, 1 << 20),
    Case("split", 20, 1 << 20, 200 << 10),
    Case("small", 1, 1 << 10, 512 << 10),
    Case("giant", 500, 16 << 20, 512 << 10),
)


def raw_files(folder: Path, case: Case, *, size: int, seed: int) -> tuple[str, ...]:
    """Raw files of one cell of fresh traffic."""
    tables, shape = traffic.tables(4, 15, seed=seed), traffic.Shape(case.rows, case.set_bytes, case.message_bytes)
    recording = folder / "recording"
    traffic.write_capture(recording, tables, shape, size=size, seed=seed + 1, partitions=1, windows=1)
    source, lake = CaptureSource(str(recording), 1), Lake(LakeLocation(str(folder / "lake")))
    lake.ensure(("bench", "raw_envelopes"), RAW_ENVELOPES)
    cell = Cell(0, Window(traffic.START, traffic.START + traffic.HOUR))
    with TableWriter(lake.target(("bench", "raw_envelopes"), "run")) as writer:
        for batch in source.read(0, OffsetRange(0, source.watermarks()[0].high)):
            writer.write(with_coordinates(batch, cell=cell, epoch=0))
        return tuple(file.path for file in writer.close())


def transport(paths: Sequence[str]) -> tuple[int, int]:
    """Return the number of messages and the bytes of their values."""
    messages = size = 0
    for batch in _batches(paths):
        messages += batch.num_rows
        size += pc.sum(pc.binary_length(batch["value"])).as_py()
    return messages, size


def joined(paths: Sequence[str]) -> tuple[int, int]:
    """Return the number of entry sets and their bytes.

    Raises:
        SystemExit: Some sets were not joined.
    """
    wire, sets, size = DtsProtobuf(), 0, 0
    joiner = Reassembler(_no_head, nothing_follows=True)
    for batch in _batches(paths):
        found = joiner.feed(batch["offset"], wire.fragments(batch))
        sets += found.num_rows
        size += pc.sum(pc.binary_length(found["data"])).as_py() or 0
    joiner.finish()
    if joiner.broken or joiner.waiting:
        raise SystemExit("reassembly: some sets were not joined")
    return sets, size


def measure(case: Case, *, size: int, turns: int, seed: int) -> dict[str, float]:
    """Megabytes per second of both ways, how many messages and how many sets."""
    ways: dict[str, Callable[[Sequence[str]], tuple[int, int]]] = {"transport": transport, "joined": joined}
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        paths = raw_files(Path(folder), case, size=size, seed=seed)
        best = dict.fromkeys(ways, float("inf"))
        counts, sizes = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
        for _ in range(turns):
            for name, way in ways.items():
                gc.collect()
                start = time.process_time()
                counts[name], sizes[name] = way(paths)
                best[name] = min(best[name], time.process_time() - start)
    return {
        "messages": counts["transport"], "sets": counts["joined"],
        **{name: round(sizes["transport"] / seconds / 1e6, 1) for name, seconds in best.items()},
    }  # fmt: skip


def _batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return read_batches(FileStore(), paths, MESSAGE_COLUMNS, batch_bytes=CHUNK_BYTES)


def _no_head(shard: str, tail: Sequence[Fragment]) -> Head:
    return Head(Outcome.MISSING)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("reassembly", __doc__)
    options.add_megabytes(96, "of payload per case")
    options.add_cases(case.name for case in CASES)
    options.add_turns(5)
    options.add_seed()
    chosen = options.parse_args(arguments)
    print(f"reassembly: seed {chosen.seed}; MB/s of payload, processor time of one thread, least of {chosen.turns}")
    print(f"{'case':>8} {'messages':>9} {'sets':>8} {'transport':>10} {'joined':>8} {'ratio':>6}")
    figures, ratios = {}, {}
    for case in CASES:
        if chosen.case and case.name not in chosen.case:
            continue
        one = measure(case, size=chosen.megabytes << 20, turns=chosen.turns, seed=chosen.seed)
        figures[case.name], ratios[case.name] = one, round(one["joined"] / one["transport"], 2)
        print(
            f"{case.name:>8} {one['messages']:9,.0f} {one['sets']:8,.0f} {one['transport']:10.0f} {one['joined']:8.0f} "
            f"{ratios[case.name]:5.2f}x", flush=True,
        )  # fmt: skip
    finish("reassembly", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
