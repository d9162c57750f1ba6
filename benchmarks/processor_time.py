"""The processor time of processes that belong together, short-lived processes among them.

A process that ends leaves its time to the one that waited for it (``cutime`` and ``cstime`` of ``/proc``), so two looks at the
processes that live all the time are enough.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROCESSES = Path("/proc")
_SET_CHILD_SUBREAPER = 36
"""The number of Linux's ``PR_SET_CHILD_SUBREAPER``."""

_BETWEEN_LOOKS = 0.1

_TO_CLEAN_UP = 15.0
"""The time in which a command that was interrupted has to end."""

_LEFT_SECONDS = 60.0
"""The time in which processes that a command leaves behind have to end."""


@dataclass(frozen=True, slots=True)
class Process:
    """A living process: its parent, seconds of its own, seconds of children that have ended, its command line."""

    parent: int
    own: float
    ended: float
    command: str


def living() -> dict[int, Process]:
    """All processes of the machine that may be looked at, by number."""
    found = {}
    for place in _PROCESSES.iterdir():
        if not place.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything.
            facts = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        own, system, ended, ended_system = (int(fact) / _TICKS for fact in facts[11:15])
        found[int(place.name)] = Process(int(facts[1]), own + system, ended + ended_system, command)
    return found


def seconds_by_group(
    processes: Mapping[int, Process], roots: Mapping[str, int], below: Mapping[str, str]
) -> dict[str, float]:
    """Return seconds of processor time by group, such as ``{"daemon": 1.5}``.

    Each of ``roots`` names a group, and all processes below it belong to it, but for other roots. Processes below a process
    whose command line has a key of ``below`` in it belong to the group that the key stands for.
    """
    children = _children(processes)
    seconds: dict[str, float] = defaultdict(float)
    left = [(number, group) for group, number in roots.items() if number in processes]
    while left:
        number, group = left.pop()
        process = processes[number]
        seconds[group] += process.own
        under = next((name for part, name in below.items() if part in process.command), group)
        seconds[under] += process.ended
        left += [(child, under) for child in children[number] if child not in roots.values()]
    return dict(seconds)


def _children(processes: Mapping[int, Process]) -> Mapping[int, list[int]]:
    """Return the children of each process, by number."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, process in processes.items():
        found[process.parent].append(number)
    return found


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of this process and all below it during a call, and the wall seconds."""

    def spent() -> float:
        return seconds_by_group(living(), {"all": os.getpid()}, {})["all"]

    before, began = spent(), time.perf_counter()
    work()
    return spent() - before, time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended, with all processes that it started. ``output`` has what it wrote to either stream."""

    code: int
    output: str
    cpu: float
    wall: float


def run_command(command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Ran:
    """Run a command and measure the CPU seconds of it and of all processes that it starts.

    Processes are looked at ten times a second, so that some hundredths of their last moments are left out: Spark's Python
    daemon ends its workers in a way that tells nobody their times. A process whose parent has ended becomes a child of this one.
    The last one has to end before the call returns. This process has no other children meanwhile.

    Raises:
        SystemExit: The command left a process behind that does not end.
        KeyboardInterrupt: Ctrl-C; the command has ended, too.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, seconds = time.perf_counter(), dict[int, float]()
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        ) as process:
            try:
                while process.poll() is None:
                    seconds |= _below(os.getpid())
                    time.sleep(_BETWEEN_LOOKS)
            except KeyboardInterrupt:
                _interrupt(process)
                raise
        said.seek(0)
        output = said.read().decode(errors="replace")
    ended = time.perf_counter()
    while _has_children():
        seconds |= _below(os.getpid())
        if time.perf_counter() - ended > _LEFT_SECONDS:
            raise SystemExit(f"{' '.join(command)} left a process behind that does not end")
        time.sleep(_BETWEEN_LOOKS)
    return Ran(process.returncode, output, sum(seconds.values()), time.perf_counter() - began)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Wait until a command has ended that Ctrl-C reached as well. Interrupt one that it did not reach."""
    for seconds, end in ((_TO_CLEAN_UP, process.send_signal), (_TO_CLEAN_UP, lambda _: process.kill())):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            end(signal.SIGINT)
    process.wait()


def cost_of_command(command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU seconds of a command with all processes that it starts, and the wall seconds.

    Raises:
        SystemExit: The command failed, or left a process behind that does not end.
    """
    ran = run_command(command, folder=folder, environment=environment)
    if ran.code:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.output[-4000:]}")
    return ran.cpu, ran.wall


def _below(root: int) -> dict[int, float]:
    """Return the CPU seconds of its own of each process below one, by number."""
    processes = living()
    children = _children(processes)
    found, left = dict[int, float](), list(children[root])
    while left:
        number = left.pop()
        found[number] = processes[number].own
        left += children[number]
    return found


def _has_children() -> bool:
    """Let children that have ended go, and return whether others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
