"""Writers in processes of their own, started by forking a process that has done the imports (they take seconds).

Run as a program it reads a job per line of its input, forks, and prints the child's process id. A job's child replaces cells
again and again and writes each snapshot id to the job's file, then ``done``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.commit import replace
from tests.store.conftest import Cells


@dataclass(frozen=True)
class Job:
    """Replace ``rectangles`` (lists of cells, each the whole of its rectangle or of the table) in turn, ``commits`` times."""

    warehouse: str
    name: str
    rectangles: list[list[tuple[int, int]]]
    commits: int
    whole_table: bool
    output: str


def work(job: Job) -> None:
    cells = Cells(open_catalog(LakeLocation(job.warehouse)))
    with Path(job.output).open("a") as output:
        for number in range(job.commits):
            mine = [(p, w) for p, w in job.rectangles[number % len(job.rectangles)]]
            rectangle = {} if job.whole_table else cells.rectangle({p for p, _ in mine}, {w for _, w in mine})
            done = replace(cells.catalog, cells.identifier, rectangle, cells.write(mine, f"{job.name}-{number}"))
            output.write(f"{done.snapshot_id}\n")
            output.flush()
        output.write("done\n")


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(Job(**json.loads(line)))
                status = 0
            finally:
                os._exit(status)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
