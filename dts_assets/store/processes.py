"""This process and others of the machine, as the holders of leases are told apart."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path

from dts_assets.model.turns import Process


def this_process() -> Process:
    """Return this process as others can tell it."""
    pid = os.getpid()
    boot, namespace = _text(Path("/proc/sys/kernel/random/boot_id")), ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path: pid:[4026531836]
    if not (boot and namespace):  # not to be told from here whether it lives
        boot = uuid.uuid4().hex
    return Process(socket.gethostname().replace("|", ""), boot, namespace, pid, started_at(pid) or "")


def started_at(pid: int) -> str | None:
    """Return when a process of this machine was started, in its ticks.

    None stands for no such process.
    """
    text = _text(Path(f"/proc/{pid}/stat"))
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return None if len(fields) < 20 or fields[0] in ("Z", "X") else fields[19]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def elapsed() -> float:
    """Return seconds that go on while the machine sleeps, where it can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
