"""The live stack that a benchmark measures, and waiting for it."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.command import say
from dts_emulator.live.live_stack import LiveOptions, LiveStack, live_stack
from dts_emulator.machine.signals import interrupted_by_signals


@contextmanager
def live_pipeline(chosen: argparse.Namespace, *, without: Iterable[str] = ()) -> Iterator[tuple[LiveStack, Path]]:
    """Run a live stack as ``Options.add_live`` was answered, and yield it with a folder that goes with it."""
    with (
        tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as folder,
        interrupted_by_signals(),
    ):
        options = LiveOptions(
            chosen.keep or Path(folder) / "live", rate=chosen.rate, tables=chosen.tables, every=chosen.window
        )
        with live_stack(options, say=say, without=frozenset(without)) as stack:
            yield stack, Path(folder)


def wait_until(stack: LiveStack, there: Callable[[], bool], *, seconds: float, every: float = 1.0) -> bool:
    """Wait until something is there, for at most so many seconds, and return whether it is; the stack is watched meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        stack.check()
        if there():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
