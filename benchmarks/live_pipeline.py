"""The live stack that a benchmark measures."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
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
