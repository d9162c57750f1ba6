"""Threads that read values of our types for the first time at once: a code server whose sensors all tick when it has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

_THREADS = """
import sys
from importlib import import_module
from threading import Barrier, Thread
sys.setswitchinterval(1e-6)
import dts_assets.model.ledger_rows, msgspec, pyarrow, numpy  # what takes long to import
ready = Barrier(6)
def read(module, what):
    ready.wait()
    exec(what, vars(import_module(module)).copy())
threads = [Thread(target=read, args=pair) for pair in {pairs!r} * {times}]
for one in threads: one.start()
for one in threads: one.join()
"""

READERS = {
    "past": ("dts_assets.planning.settled_past", "Past.of_bytes(NO_PAST.to_bytes())"),
    "ledger": (
        "dts_assets.store.rows",
        "from dts_assets.model.ledger_rows import IngestWindow; "
        "from dts_assets.store.schemas import SYSTEM_TABLES; from dts_assets.store.types import arrow_schema; "
        "from_arrow(IngestWindow, arrow_schema(SYSTEM_TABLES['windows'].schema).empty_table())",
    ),
    "state": (
        "dts_assets.stages.window_state", "WindowState.of_bytes(WindowState.begin(OffsetRange(0, 1)).to_bytes())"
    ),
}  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize("names", [["past"], ["ledger"], ["state"], ["past", "ledger", "state"]], ids="-".join)
def test_threads_that_read_types_for_the_first_time_do_not_crash(names: list[str]) -> None:
    script = _THREADS.format(pairs=[READERS[name] for name in names], times=6 // len(names))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
