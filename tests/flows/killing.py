"""Flows in a process of their own that is killed: as a driver dies, while Spark lives on and ends what it was asked for."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_a_process(session: SparkSession, work: Callable[[], object], *, kill_after: float | None) -> bool:
    """Run ``work`` in a fork of this process and kill it with SIGKILL after some seconds (None: never); whether it had ended.

    Raises AssertionError if the work itself failed.
    """
    with objects_released(session):
        return _in_a_process(session, work, kill_after)


def _in_a_process(session: SparkSession, work: Callable[[], object], kill_after: float | None) -> bool:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            own_connections(session)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, "the work itself failed"
            return True
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.005)


@contextmanager
def objects_released(session: SparkSession) -> Iterator[None]:
    """Let the JVM forget, behind the block, the objects that processes forked in it have made.

    The JVM keeps each object until the process that holds it says that it does no more, and these end without a word. Two
    gigabytes were full of the plans of killed flows after ten minutes.
    """
    first = _newest_object(session)
    yield
    client = session.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    for number in range(first + 1, _newest_object(session)):
        client.send_command(f"m\nd\no{number}\ne\n")


def _newest_object(session: SparkSession) -> int:
    """Make an object in the JVM and return its number: they are counted."""
    made = session.sparkContext._jvm.java.lang.Object()  # type: ignore[union-attr]
    return int(made._target_id.removeprefix("o"))


def own_connections(session: SparkSession) -> None:
    """Talk to the JVM over new connections: those that were open belong to the process that was forked."""
    client = session.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    _KEPT.append((client.deque, client.thread_connection))
    client.deque, client.thread_connection = deque(), threading.local()


_KEPT: list[object] = []
"""Connections of the other process: closing them here would close them there."""
