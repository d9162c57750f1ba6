"""Processes that belong together: started one after the other, watched, and ended in reverse order, whatever happens.

Each child has a process group of its own, so that Ctrl-C in a terminal reaches the supervisor alone and the order of ending is
its own, and a log file. All carry a tag in their environment, by which those are found that left their group; a small process
beside (:mod:`dts_emulator.live.process_guard`) ends what is left if the supervisor is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from dts_emulator.errors import ChildEnded, ChildNotReady
from dts_emulator.live import process_guard
from dts_emulator.machine.process_environment import child_environment
from dts_emulator.machine.waiting import wait_until

TAG_VARIABLE = "DTS_ASSETS_SUPERVISOR"
"""The variable by which a supervisor knows its processes again."""

_POLL = 0.1
_LAST_LINES = 12
_TAIL_BYTES = 8192


def at_once() -> bool:
    """Return True: others need not wait for this child."""
    return True


@dataclass(frozen=True, slots=True)
class Child:
    """A process to be.

    ``ready`` is asked again and again until it is true. ``environment`` is added to the supervisor's own. ``patience`` is how
    many seconds it may take to become ready, ``farewell`` how many to end after TERM.
    """

    name: str
    command: Sequence[str]
    ready: Callable[[], bool] = at_once
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    patience: float = 60.0
    farewell: float = 10.0


@dataclass(slots=True)
class _Running:
    child: Child
    process: subprocess.Popen[bytes]


class Supervisor:
    """A context manager: processes that were started in its block are gone behind it. ``logs`` is the folder of the log files."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, _Running] = {}
        self._began: dict[str, int] = {}
        self._tag = f"{TAG_VARIABLE}={uuid.uuid4().hex}"
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Supervisor:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", process_guard.__file__, self._tag],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()

    def start(self, *children: Child) -> None:
        """Start children side by side and wait until all are ready.

        A child that was stopped or killed before may be started again. A child that is not ready is ended when the block is left.

        Raises:
            ChildEnded: A child has ended.
            ChildNotReady: A child was not ready within its patience.
        """
        began = time.monotonic()
        for child in children:
            self._spawn(child)
        for child in children:
            left = began + child.patience - time.monotonic()
            if not wait_until(partial(self._is_ready, child), seconds=left, every=_POLL):
                said = self.said(child.name)
                self.stop(child.name)
                raise ChildNotReady(child.name, seconds=child.patience, log=self.log(child.name), last_lines=said)
        self.check()

    def _is_ready(self, child: Child) -> bool:
        """Return True if a child that has been started is ready.

        Raises:
            ChildEnded: It has ended before it was.
        """
        ready = child.ready()
        if not ready:
            self.check()
        return ready

    def _spawn(self, child: Child) -> None:
        assert self._guard is not None, "children are started inside of the block"
        assert child.name not in self._running, f"{child.name} is running"
        name, _, value = self._tag.partition("=")
        with self.log(child.name).open("ab") as log:
            self._began[child.name] = log.tell()
            process = subprocess.Popen(
                list(child.command), cwd=child.folder, env=child_environment({**child.environment, name: value}),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0,
            )  # fmt: skip
        self._running[child.name] = _Running(child, process)

    def check(self) -> None:
        """Check that no child has ended although nobody stopped it.

        Raises:
            ChildEnded: The first child that has.
        """
        for name, running in list(self._running.items()):
            code = running.process.poll()
            if code is not None:
                self.stop(name)
                raise ChildEnded(name, code=code, log=self.log(name), last_lines=self.said(name))

    def stop(self, name: str) -> None:
        """End a child with TERM, at last by force, and all that is left of its group."""
        running = self._running.pop(name)
        running.process.terminate()
        # A process that is stopped would get TERM only when it goes on.
        with suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(running.child.farewell)
        _kill(running.process)

    def kill(self, name: str) -> None:
        """End a child and its group with KILL, as a crash would."""
        _kill(self._running.pop(name).process)

    def stop_all(self) -> None:
        """End all children, the last first, then whatever they have left behind. Ctrl-C meanwhile changes nothing."""
        with _undisturbed():
            try:
                for name in reversed(list(self._running)):
                    self.stop(name)
            finally:
                guard, self._guard = self._guard, None
                if guard is not None:
                    process_guard.sweep(self._tag)
                    assert guard.stdin is not None
                    guard.stdin.close()
                    guard.wait()

    def pid(self, name: str) -> int:
        """Return the process id of a running child, which is that of its group, too."""
        return self._running[name].process.pid

    @property
    def names(self) -> tuple[str, ...]:
        """The children that run, in the order of their start."""
        return tuple(self._running)

    def processes(self) -> set[int]:
        """All living processes of this supervisor: its children, theirs, and so on."""
        return process_guard.tagged(self._tag)

    def log(self, name: str) -> Path:
        """Return the log file of a child."""
        return self._logs / f"{name}.log"

    def said(self, name: str) -> tuple[str, ...]:
        """Return the last lines that a child has written since it was last started."""
        with self.log(name).open("rb") as log:
            log.seek(max(self._began[name], log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return tuple(log.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Run the block without hearing INT and TERM. Outside of the main thread they never are heard."""
    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):
        for sign in (signal.SIGINT, signal.SIGTERM):
            before[sign] = signal.signal(sign, signal.SIG_IGN)
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
