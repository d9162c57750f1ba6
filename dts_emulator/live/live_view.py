"""A live pipeline in the terminal: row changes committed and visible, and the freshness of its tables.

In a terminal it is a table that changes, elsewhere a line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from dts_emulator.live.freshness_meter import Freshness, freshness, visible_rows
from dts_emulator.live.live_stack import LiveOptions, LiveStack, Runs, live_stack
from dts_emulator.machine.signals import interrupted_by_signals

_LOOK_EVERY = 2.0
_LINE_EVERY = 10.0
_RECENT = 300.0
"""Seconds of which the percentiles are shown: an hour ago says nothing of now."""


@dataclass(frozen=True, slots=True)
class View:
    """The facts that are shown: row changes, the oldest hidden change, the recent freshness."""

    running: float
    committed: int
    visible: int
    behind: float
    recent: Freshness
    runs: Runs | None
    url: str

    def line(self) -> str:
        """In one line."""
        return ", ".join(f"{name} {value}" for name, value in self.items())

    def table(self) -> Table:
        """As a table of two columns."""
        table = Table(title="Live", title_justify="left", show_header=False, min_width=50)
        for name, value in self.items():
            table.add_row(name, value)
        return table

    def items(self) -> Iterator[tuple[str, str]]:
        """Each fact with its name."""
        yield "running", f"{self.running:.0f} s"
        yield "row changes committed", f"{self.committed:,}"
        yield "row changes visible", f"{self.visible:,}"
        yield "freshness now", f"{self.behind:.0f} s"
        for name, value in (("p50", self.recent.p50), ("p95", self.recent.p95)):
            yield f"{name} of {_RECENT / 60:.0f} min", "-" if value is None else f"{value:.0f} s"
        if self.runs is not None:
            yield "runs", f"{self.runs.done} done, {self.runs.failed} failed, {self.runs.unfinished} at work"
        yield "UI", self.url


def look(stack: LiveStack, *, began: float, runs: Runs | None) -> View:
    """Return the view of a pipeline as it stands. ``runs`` is shown while Dagster does not answer."""
    commits, sightings, now = stack.commits.read(), stack.cuts.read(), time.time()
    hidden_since = freshness(commits, sightings).since
    with suppress(OSError):  # a webserver that is busy is no reason to end
        runs = stack.runs()
    return View(
        running=now - began,
        committed=commits[-1].rows if commits else 0,
        visible=visible_rows(commits, stack.cuts.place),
        behind=0.0 if hidden_since is None else now - hidden_since,
        recent=freshness(commits, sightings, begin=now - _RECENT),
        runs=runs,
        url=stack.url,
    )


def watch(stack: LiveStack, console: Console, *, seconds: float | None) -> View:
    """Show a pipeline for ``seconds``, or until an interrupt, and return the last view.

    Raises:
        EmulatorError: A part of the pipeline has ended.
    """
    began = time.time()
    view = look(stack, began=began, runs=None)
    with Live(view.table(), console=console, auto_refresh=False) if console.is_terminal else _lines(console) as shown:
        said = 0.0
        while seconds is None or time.time() - began < seconds:
            time.sleep(_LOOK_EVERY)
            stack.check()
            view = look(stack, began=began, runs=view.runs)
            if isinstance(shown, Live):
                shown.update(view.table(), refresh=True)
            elif time.time() - said >= _LINE_EVERY:
                said = time.time()
                shown.print(view.line(), soft_wrap=True)
    return view


@contextmanager
def _lines(console: Console) -> Iterator[Console]:
    yield console


def run_live(options: LiveOptions, console: Console, *, seconds: float | None) -> None:
    """Run a live pipeline and show it, for ``seconds`` or until Ctrl-C.

    Raises:
        EmulatorError: A part of the pipeline does not start, or has ended.
    """
    began = time.monotonic()
    try:
        with interrupted_by_signals(), live_stack(options, say=lambda line: _say(console, line, began)) as stack:
            console.print(f"Everything is up; logs are in {options.folder / 'logs'}. Ctrl-C ends it.", soft_wrap=True)
            view = watch(stack, console, seconds=seconds)
            console.print(view.line(), soft_wrap=True)
    except KeyboardInterrupt:
        console.print("Ended, nothing is left running.")


def _say(console: Console, line: str, began: float) -> None:
    console.print(f"{time.monotonic() - began:5.1f} s  {line}", markup=False)
