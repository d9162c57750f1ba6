"""A large table through many windows: the cost and the bytes of each, and the price of reading.

``python -m benchmarks.many_windows`` prints a table and, as its last line, one JSON object. Each window brings changes with
random keys to a table of a million rows. The flow takes them over into the snapshot, and does the upkeep of a window's close:
files are put in order, old versions expire. Costs are CPU seconds of the whole process tree, in a warm session on ``local[2]``.

- ``last``: the mean cost of the last fifth of the windows, by that of the first fifth. Every ten windows or so a tenth of the
  rows has changed, and all files are written anew, so that a fifth has two of these windows.
- ``written``: the mean bytes that a window writes, upkeep included, by 10 MB.
- ``read-between``, ``read-closed``: the cost of reading all columns of all rows in Spark behind five refreshes without upkeep,
  and behind the upkeep that follows, by that of reading a table written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.command import Options, finish, load, say
from benchmarks.processor_time import cost
from benchmarks.snapshot import TABLE, Subject, plain_twin, subject_of
from benchmarks.workbench import workbench
from dts_assets.flows.upkeep import Upkeep, keep_up

WRITTEN_BYTES = 10e6
"""The bytes of a window that are promised, on average."""

WITHOUT_UPKEEP = 5
READS = 3


def _close(subject: Subject) -> None:
    """Do the upkeep of a window's close."""
    upkeep = Upkeep(closed=True, written={TABLE: subject.columns})
    keep_up(subject.pipeline, upkeep, spark=lambda: subject.bench.spark, progress=lambda _: None)


def _read(subject: Subject, name: str) -> float:
    """Return the CPU seconds of the cheapest of some reads of a whole table."""
    names = ", ".join(column.name for column in subject.columns)
    query = f"SELECT bit_xor(xxhash64({names})) FROM {name}"
    return min(cost(lambda: subject.bench.spark.sql(query).collect())[0] for _ in range(READS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("many_windows", __doc__)
    options.add_argument("--rows", type=int, default=1_000_000, help="of the table (default 1,000,000)")
    options.add_argument("--changes", type=int, default=10_000, help="of each window (default 10,000)")
    options.add_argument("--windows", type=int, default=100, help="default 100")
    options.add_seed()
    chosen = options.parse_args(arguments)
    chance = np.random.default_rng(chosen.seed)
    spent, written = list[float](), list[int]()
    say(
        f"many_windows: {chosen.windows} windows of {chosen.changes:,} changes on {chosen.rows:,} rows, seed {chosen.seed}"
    )
    with workbench() as bench:
        subject = subject_of(bench, "windows", texts=False)
        subject.add_window(0, np.arange(chosen.rows), np.zeros(chosen.rows, np.int64), seed=chosen.seed)
        subject.refresh(0)

        def change(number: int) -> None:
            keys = chance.choice(chosen.rows, chosen.changes, replace=False)
            subject.add_window(number, keys, np.ones(chosen.changes, np.int64), seed=chosen.seed)

        def window(number: int) -> None:
            subject.refresh(number)
            _close(subject)

        for number in range(1, chosen.windows + 2):
            change(number)
            before = subject.files()
            seconds, _ = cost(lambda: window(number))  # noqa: B023  # called here
            if number > 1:  # the first one is the warm-up
                spent.append(seconds)
                written.append(sum(size for file, size in subject.files().items() if file not in before))
        for number in range(chosen.windows + 2, chosen.windows + 2 + WITHOUT_UPKEEP):
            change(number)
            subject.refresh(number)
        anew = _read(subject, plain_twin(subject, "anew", "copy-on-write", empty=False))
        between = _read(subject, subject.name)
        _close(subject)
        closed = _read(subject, subject.name)
    fifth = max(1, len(spent) // 5)
    first, last = float(np.mean(spent[:fifth])), float(np.mean(spent[-fifth:]))
    say(f"a window: {first:.2f} CPU s at first, {last:.2f} at last, {np.mean(written) / 1e6:.1f} MB on average")
    say(f"reading: {anew:.2f} CPU s anew, {between:.2f} between, {closed:.2f} behind the upkeep")
    ratios = {
        "last": round(last / first, 2),
        "written": round(float(np.mean(written)) / WRITTEN_BYTES, 2),
        "read-between": round(between / anew, 2),
        "read-closed": round(closed / anew, 2),
    }
    figures = {"first": first, "last": last, "most": max(spent), "bytes": float(np.mean(written)), "load": load()}
    finish("many_windows", ratios, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
