"""A live pipeline in the terminal: what a view says, and that watching ends after its seconds."""

from __future__ import annotations

import io
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dts_emulator.errors import ChildEnded
from dts_emulator.live import live_view
from dts_emulator.live.freshness_meter import Commit, Sighting
from dts_emulator.live.live_stack import LiveStack, Runs
from dts_emulator.live.live_view import look, watch


class Log:
    """A log of commits or sightings that does not grow."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found)

    def read(self) -> list[Any]:
        return self.found

    @property
    def place(self) -> Any:
        return self.found[-1].place if self.found else None


def stack_of(**changed: Any) -> LiveStack:
    now = time.time()
    parts: dict[str, Any] = {
        "commits": Log(Commit(now - 60, 0, (1, 4)), Commit(now - 50, 10, (1, 90)), Commit(now - 20, 25, (1, 200))),
        "cuts": Log(Sighting(now - 40, (1, 90))),
        "runs": lambda: Runs(done=3, failed=0, unfinished=1),
        "url": "http://127.0.0.1:3000",
        "check": lambda: None,
    }
    stack: Any = SimpleNamespace(**{**parts, **changed})
    checked: LiveStack = stack
    return checked


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_a_view_counts_what_is_committed_and_what_is_visible() -> None:
    view = look(stack_of(), began=time.time() - 60, runs=None)
    assert (view.committed, view.visible) == (25, 10)
    assert 45 < view.behind < 60
    assert re.search(r"row changes committed 25, row changes visible 10, freshness now 5\d s", view.line())
    assert view.line().endswith("runs 3 done, 0 failed, 1 at work, UI http://127.0.0.1:3000")
    shown = console()
    shown.print(view.table())
    assert isinstance(shown.file, io.StringIO)
    assert "row changes visible" in shown.file.getvalue()


def test_while_dagster_does_not_answer_the_last_runs_are_shown() -> None:
    def silent() -> Runs:
        raise OSError("it is busy")

    known = Runs(done=2, failed=0, unfinished=0)
    assert look(stack_of(runs=silent), began=time.time(), runs=known).runs == known


def test_watching_ends_after_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "_LOOK_EVERY", 0.02)
    shown = console()
    began = time.monotonic()
    view = watch(stack_of(), shown, seconds=0.1)
    assert time.monotonic() - began >= 0.1
    assert view.committed == 25
    assert isinstance(shown.file, io.StringIO)
    assert shown.file.getvalue().count("row changes committed 25") == 1, "a line every ten seconds"


def test_watching_ends_with_the_process_that_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def ended() -> None:
        raise ChildEnded("daemon", code=1, log=tmp_path / "daemon.log", last_lines=())

    monkeypatch.setattr(live_view, "_LOOK_EVERY", 0.02)
    with pytest.raises(ChildEnded, match="daemon has ended"):
        watch(stack_of(check=ended), console(), seconds=10)
