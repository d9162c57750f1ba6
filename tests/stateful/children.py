"""Processes that do a piece of work in a lake and may be killed or interrupted in the middle of it."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dts_assets.errors import DtsAssetsError
from tests.flows.killing import objects_released, own_connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 120.0
"""Seconds after which a child is stuck."""


@dataclass(frozen=True)
class Ended:
    """How a child ended: ``done``, ``refused`` with a sentence, ``killed``, ``cancelled``, ``stuck``, or ``broken``."""

    how: str
    said: str = ""


def in_children(
    session: SparkSession,
    works: Sequence[Callable[[], object]],
    folder: Path,
    *,
    stop_after: float | None = None,
    stop_by: signal.Signals = signal.SIGKILL,
) -> list[Ended]:
    """Do pieces of work at the same time, each in a process of its own, and stop all of them after some seconds (None: never)."""
    with objects_released(session):
        return _in_children(session, works, folder, stop_after, stop_by)


def _in_children(
    session: SparkSession,
    works: Sequence[Callable[[], object]],
    folder: Path,
    stop_after: float | None,
    stop_by: signal.Signals,
) -> list[Ended]:
    folder.mkdir(parents=True, exist_ok=True)
    children = {_fork(session, work, folder / f"child-{number}"): number for number, work in enumerate(works)}
    numbers = dict(children)
    began = time.monotonic()
    stopped: set[int] = set()
    found: dict[int, Ended] = {}
    while children:
        pid, status = _any_of(children)
        if pid:
            number = children.pop(pid)
            found[number] = _ended(
                os.waitstatus_to_exitcode(status), folder / f"child-{number}", stopped=pid in stopped
            )
            continue
        now = time.monotonic() - began
        for one in list(children):
            if stop_after is not None and now >= stop_after and one not in stopped:
                os.kill(one, stop_by)
                stopped.add(one)
            if now > LONGEST:
                number = children.pop(one)
                found[number] = Ended("stuck", _killed_where(one, folder / f"child-{number}"))
        time.sleep(0.005)
    return [found[number] for number in numbers.values()]


def _killed_where(pid: int, place: Path) -> str:
    """Kill a child that is stuck, and return the stacks of all its threads: where it waits is what a finding has to say."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(1.0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    stacks = place.with_suffix(".stacks")
    return stacks.read_text() if stacks.exists() else ""


def _any_of(children: dict[int, int]) -> tuple[int, int]:
    for pid in children:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return ended, status
    return 0, 0


def _fork(session: SparkSession, work: Callable[[], object], place: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with place.with_suffix(".stacks").open("w") as stacks:
            faulthandler.register(signal.SIGUSR1, stacks)
            own_connections(session)
            work()
        status = 0
    except DtsAssetsError as error:
        place.write_text(f"{type(error).__name__}: {error}")
        status = 3
    except KeyboardInterrupt:
        status = 4
    except BaseException:
        place.write_text(traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _ended(status: int, place: Path, *, stopped: bool) -> Ended:
    said = place.read_text() if place.exists() else ""
    place.unlink(missing_ok=True)
    if status == 0:
        return Ended("done")
    if status == 3:
        return Ended("refused", said)
    if status == 4 or (stopped and status == -signal.SIGINT):
        return Ended("cancelled")
    if stopped and status == -signal.SIGKILL:
        return Ended("killed")
    return Ended("cancelled" if stopped else "broken", said or f"ended by {status}")
