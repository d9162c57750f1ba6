"""Processes that do a piece of work in a lake and may be killed or interrupted in the middle of it."""

from __future__ import annotations

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
from tests.flows.killing import own_connections

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
                os.kill(one, signal.SIGKILL)
                os.waitpid(one, 0)
                found[children.pop(one)] = Ended("stuck")
        time.sleep(0.005)
    return [found[number] for number in numbers.values()]


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
